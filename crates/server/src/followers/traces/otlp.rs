//! Spans as OTLP in JSON (`ExportTraceServiceRequest`), and the reply of a receiver.

use serde::Deserialize;
use serde_json::{Value, json};

use super::spans::{Attribute, Span};

/// A span without a special role, and the status of a failure.
const INTERNAL: u8 = 1;
const ERROR: u8 = 2;

/// The body of a request.
pub(super) fn body(spans: &[Span]) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let spans: Vec<Value> = spans.iter().map(span).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": [
            text("service.name", "baton"),
            text("service.version", version),
        ]},
        "scopeSpans": [{
            "scope": {"name": "baton", "version": version},
            "spans": spans,
        }],
    }]})
    .to_string()
}

fn span(span: &Span) -> Value {
    let attributes: Vec<Value> = span
        .attributes
        .iter()
        .map(|(name, value)| match value {
            Attribute::Text(value) => text(name, value),
            // 64-bit numbers are text in the JSON of Protocol Buffers.
            Attribute::Number(value) => {
                json!({"key": name, "value": {"intValue": value.to_string()}})
            }
        })
        .collect();
    let mut body = json!({
        "traceId": span.trace.to_string(),
        "spanId": span.id.to_string(),
        "name": span.name,
        "kind": INTERNAL,
        "startTimeUnixNano": nanos(span.start.0),
        "endTimeUnixNano": nanos(span.end.0),
        "attributes": attributes,
    });
    if let Some(parent) = span.parent {
        body["parentSpanId"] = parent.to_string().into();
    }
    if let Some(error) = &span.error {
        body["status"] = json!({"code": ERROR, "message": error});
    }
    body
}

fn text(name: &str, value: &str) -> Value {
    json!({"key": name, "value": {"stringValue": value}})
}

fn nanos(ms: u64) -> String {
    (u128::from(ms) * 1_000_000).to_string()
}

/// The reply of a receiver that has accepted a request.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Reply {
    partial_success: PartialSuccess,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PartialSuccess {
    /// A number, or its digits.
    rejected_spans: Value,
    error_message: String,
}

/// The number of spans that the receiver has rejected, and why. A reply that is no JSON rejects none.
pub(super) fn rejected(reply: &[u8]) -> (u64, String) {
    let reply: Reply = baton_model::json::from_slice(reply).unwrap_or_default();
    let PartialSuccess {
        rejected_spans,
        error_message,
    } = reply.partial_success;
    let digits = || rejected_spans.as_str()?.parse().ok();
    let count = rejected_spans.as_u64().or_else(digits);
    (count.unwrap_or(0), error_message)
}

#[cfg(test)]
mod tests {
    use baton_model::time::Wall;
    use baton_model::trace::{SpanId, TraceId};

    use super::*;

    #[test]
    fn a_span_is_encoded_as_receivers_expect() {
        let span = Span {
            trace: TraceId(0x4bf9),
            id: SpanId(7),
            parent: Some(SpanId(8)),
            name: "lab/train".to_owned(),
            start: Wall(1_700_000_000_123),
            end: Wall(1_700_000_000_200),
            attributes: vec![
                ("baton.owner", Attribute::Text("lab".to_owned())),
                ("baton.exit_code", Attribute::Number(-3)),
            ],
            error: Some("exit 3".to_owned()),
        };
        let body: Value = serde_json::from_str(&body(&[span])).expect("JSON");
        let resource = &body["resourceSpans"][0];
        let service = &resource["resource"]["attributes"][0];
        assert_eq!(*service, text("service.name", "baton"));
        assert_eq!(
            resource["scopeSpans"][0]["spans"][0],
            json!({
                "traceId": "00000000000000000000000000004bf9",
                "spanId": "0000000000000007",
                "parentSpanId": "0000000000000008",
                "name": "lab/train",
                "kind": 1,
                "startTimeUnixNano": "1700000000123000000",
                "endTimeUnixNano": "1700000000200000000",
                "attributes": [
                    {"key": "baton.owner", "value": {"stringValue": "lab"}},
                    {"key": "baton.exit_code", "value": {"intValue": "-3"}},
                ],
                "status": {"code": 2, "message": "exit 3"},
            })
        );
    }

    #[test]
    fn a_reply_may_reject_some_spans() {
        let reply = r#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"too old"}}"#;
        assert_eq!(rejected(reply.as_bytes()), (3, "too old".to_owned()));
        let number = r#"{"partialSuccess":{"rejectedSpans":2}}"#;
        assert_eq!(rejected(number.as_bytes()).0, 2);
        for reply in ["", "{}", "fine", r#"{"partialSuccess":{}}"#] {
            assert_eq!(rejected(reply.as_bytes()).0, 0, "{reply}");
        }
    }
}
