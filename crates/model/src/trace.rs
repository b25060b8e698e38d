//! Trace contexts: which trace, and which span of it, a piece of work belongs to.
//!
//! The text form is that of the header `traceparent` of the W3C recommendation *Trace Context*. Which ids Baton
//! gives to its own spans is in `baton-core`'s `trace`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The header of a request.
pub const TRACE_HEADER: &str = "traceparent";

/// The environment variable of a process.
pub const TRACE_VARIABLE: &str = "TRACEPARENT";

/// Characters of a context of version 00.
const CHARS: usize = 55;

/// The identity of a trace; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId(pub u128);

/// The identity of a span in its trace; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(pub u64);

/// A span that others may be children of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TraceContext {
    pub trace: TraceId,
    pub span: SpanId,
    /// Whether the spans of the trace are recorded.
    pub sampled: bool,
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u8::from(self.sampled);
        write!(f, "00-{}-{}-{flags:02x}", self.trace, self.span)
    }
}

impl From<TraceContext> for String {
    fn from(context: TraceContext) -> Self {
        context.to_string()
    }
}

/// A text that is no trace context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a trace context is 00-TRACE-SPAN-FLAGS in lower-case hexadecimal digits")]
pub struct BadTraceContext;

impl TryFrom<String> for TraceContext {
    type Error = BadTraceContext;

    fn try_from(text: String) -> Result<Self, BadTraceContext> {
        text.parse()
    }
}

impl FromStr for TraceContext {
    type Err = BadTraceContext;

    /// Parses a context of any version: a later one may have more fields behind these.
    fn from_str(text: &str) -> Result<Self, BadTraceContext> {
        let (known, rest) = text.split_at_checked(CHARS).ok_or(BadTraceContext)?;
        let mut fields = known.split('-');
        let mut field = |chars: usize| digits(fields.next(), chars);
        let (version, trace, span, flags) = (field(2)?, field(32)?, field(16)?, field(2)?);
        let is_alone = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.is_empty() || rest.starts_with('-'),
        };
        let span = u64::try_from(span).map_err(|_| BadTraceContext)?;
        if !is_alone || trace == 0 || span == 0 {
            return Err(BadTraceContext);
        }
        Ok(Self {
            trace: TraceId(trace),
            span: SpanId(span),
            sampled: flags & 1 == 1,
        })
    }
}

/// A number of so many lower-case hexadecimal digits.
fn digits(text: Option<&str>, chars: usize) -> Result<u128, BadTraceContext> {
    let text = text.filter(|text| text.len() == chars);
    let text = text.filter(|text| {
        text.bytes()
            .all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
    });
    let text = text.ok_or(BadTraceContext)?;
    u128::from_str_radix(text, 16).map_err(|_| BadTraceContext)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_context_is_read_and_written_as_the_recommendation_says() {
        let context: TraceContext = TEXT.parse().expect("valid");
        assert_eq!(context.span, SpanId(0x00f0_67aa_0ba9_02b7));
        assert!(context.sampled);
        assert_eq!(context.to_string(), TEXT);
        let json = serde_json::to_string(&context).expect("text");
        assert_eq!(json, format!("\"{TEXT}\""));
        assert_eq!(
            serde_json::from_str::<TraceContext>(&json).ok(),
            Some(context)
        );
        // Other flags than the first are ignored.
        let unsampled = TEXT.replace("-01", "-f2").parse::<TraceContext>();
        assert_eq!(unsampled.map(|it| it.sampled), Ok(false));
        // A later version may have more fields.
        let later = TEXT.replacen("00", "cc", 1);
        assert_eq!(later.parse(), Ok(context));
        assert_eq!(format!("{later}-what").parse(), Ok(context));
    }

    #[test]
    fn a_malformed_context_is_refused() {
        let zero_trace = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
        let zero_span = "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01";
        for text in [
            "",
            "00",
            &TEXT[..54],
            &format!("{TEXT}-x"),
            &format!("{TEXT} "),
            &TEXT.replacen("00", "ff", 1),
            &TEXT.replacen("00", "cc", 1).replace("-01", "-01x"),
            &TEXT.to_uppercase(),
            &TEXT.replace("4bf9", "+bf9"),
            &TEXT.replace('-', "_"),
            &"é".repeat(30),
            &zero_trace,
            zero_span,
        ] {
            assert_eq!(text.parse::<TraceContext>(), Err(BadTraceContext), "{text}");
        }
    }
}
