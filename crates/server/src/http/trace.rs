//! `traceparent`: the span of the client that sends a request.

use axum::http::HeaderMap;
use baton_model::trace::{TRACE_HEADER, TraceContext};

/// The span in the headers of a request. One that is malformed or repeated is ignored, as the recommendation
/// of the W3C demands.
pub(super) fn parent(headers: &HeaderMap) -> Option<TraceContext> {
    let mut values = headers.get_all(TRACE_HEADER).iter();
    let first = values.next()?.to_str().ok()?;
    let context = first.trim().parse().ok();
    context.filter(|_| values.next().is_none())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_one_valid_header_is_taken() {
        const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let parent = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                let value = HeaderValue::from_str(value).expect("valid");
                headers.append(TRACE_HEADER, value);
            }
            parent(&headers)
        };
        assert_eq!(parent(&[VALID]), VALID.parse().ok());
        for values in [&[][..], &["x"], &[VALID, VALID], &["00-0-0-0"]] {
            assert_eq!(parent(values), None, "{values:?}");
        }
    }
}
