//! Parsing and formatting of ids: `i12`, `12`, `i1..i9`, `r3`.

use baton_client::Span;
use baton_model::ids::{InstanceId, RunId};

/// Parses one instance id.
pub(crate) fn instance(text: &str) -> Result<InstanceId, String> {
    let digits = text.strip_prefix('i').unwrap_or(text);
    let number = digits
        .parse()
        .ok()
        .filter(|_| digits.bytes().all(|b| b.is_ascii_digit()));
    match number {
        Some(number) => Ok(InstanceId(number)),
        None => Err("expected an instance such as i12".to_owned()),
    }
}

/// Parses one instance, or a range of instances.
pub(crate) fn span(text: &str) -> Result<Span, String> {
    let message = |_| "expected an instance such as i12, or a range such as i1..i9".to_owned();
    let Some((first, last)) = text.split_once("..") else {
        let id = instance(text).map_err(message)?;
        return Ok(Span {
            first: id,
            last: id,
        });
    };
    let (first, last) = (
        instance(first).map_err(message)?,
        instance(last).map_err(message)?,
    );
    if first <= last {
        Ok(Span { first, last })
    } else {
        Err(format!(
            "the range ends before it starts; write {last}..{first}"
        ))
    }
}

/// The target of a command: instances, or a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// One instance, or a range.
    Instances(Span),
    Run(RunId),
}

/// Parses one instance, a range of instances, or a run.
pub(crate) fn target(text: &str) -> Result<Target, String> {
    if text.starts_with('r') {
        return super::runs::id(text).map(Target::Run);
    }
    let message = |error: String| {
        if error.starts_with("expected") {
            format!("{error}, or a run such as r12")
        } else {
            error
        }
    };
    span(text).map(Target::Instances).map_err(message)
}

/// Parses one instance, or a run.
pub(crate) fn instance_or_run(text: &str) -> Result<Target, String> {
    match target(text)? {
        Target::Instances(span) if span.count() > 1 => {
            Err("expected one instance such as i12, or a run such as r12".to_owned())
        }
        target => Ok(target),
    }
}

/// Formats a number with separators: `1,234,567`.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a range: `i12`, or `i12..i1011 (1,000 instances)`.
pub(crate) fn describe(span: Span) -> String {
    match span.count() {
        1 => span.first.to_string(),
        many => format!("{span} ({} instances)", count(many)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_ranges_are_read_with_and_without_their_letter() {
        assert_eq!(instance("i12"), Ok(InstanceId(12)));
        assert_eq!(instance("12"), Ok(InstanceId(12)));
        for bad in [
            "",
            "i",
            "ii1",
            "-1",
            "+1",
            "x",
            "i1.",
            "99999999999999999999",
        ] {
            assert!(instance(bad).is_err(), "{bad}");
        }
        let range = Span {
            first: InstanceId(1),
            last: InstanceId(9),
        };
        assert_eq!(span("i1..i9"), Ok(range));
        assert_eq!(span("1..9"), Ok(range));
        assert_eq!(
            span("i9..i1"),
            Err("the range ends before it starts; write i1..i9".to_owned())
        );
        for bad in ["..", "i1..", "..i2", "i1...i2", "i1-i2"] {
            assert!(span(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn large_numbers_are_grouped() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(count(number), text);
        }
        let span = Span {
            first: InstanceId(12),
            last: InstanceId(1_011),
        };
        assert_eq!(describe(span), "i12..i1011 (1,000 instances)");
    }
}
