//! Parsing and formatting of ids: `i12`, `12`, `i12[3]`, `i1..i9`, `r3`.

use std::fmt;

use baton_client::Span;
use baton_model::ids::{InstanceId, RunId};

use crate::text::grouped;

/// Parses one instance id.
pub fn instance(text: &str) -> Result<InstanceId, String> {
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
pub fn span(text: &str) -> Result<Span, String> {
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

/// Parses a run id such as `r12`. The letter distinguishes it from an instance.
pub fn run(text: &str) -> Result<RunId, String> {
    let digits = text.strip_prefix('r').unwrap_or_default();
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let number = digits.parse().ok().filter(|_| plain);
    number
        .map(RunId)
        .ok_or_else(|| "expected a run such as r12".to_owned())
}

/// The target of a command: instances, or a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// One instance, or a range.
    Instances(Span),
    Run(RunId),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instances(span) if span.count() == 1 => span.first.fmt(f),
            Self::Instances(span) => span.fmt(f),
            Self::Run(run) => run.fmt(f),
        }
    }
}

/// Parses one instance, a range of instances, or a run.
pub fn target(text: &str) -> Result<Target, String> {
    if text.starts_with('r') {
        return run(text).map(Target::Run);
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

/// An id of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdArg {
    pub target: Target,
    /// The index of `i1523[3]`, as lists show elements of arrays.
    pub index: Option<u64>,
    /// It was written as a range, also if that has one instance.
    pub is_range: bool,
}

/// Parses an id as lists print it: an instance, also with its index, a range, or a run.
pub fn arg(text: &str) -> Result<IdArg, String> {
    let element = text.strip_suffix(']').and_then(|rest| rest.split_once('['));
    let Some((id, index)) = element else {
        let target = target(text)?;
        return Ok(IdArg {
            target,
            index: None,
            is_range: text.contains(".."),
        });
    };
    let digits = !index.is_empty() && index.bytes().all(|b| b.is_ascii_digit());
    match (instance(id), index.parse().ok().filter(|_| digits)) {
        (Ok(id), Some(index)) => Ok(IdArg {
            target: Target::Instances(Span {
                first: id,
                last: id,
            }),
            index: Some(index),
            is_range: false,
        }),
        _ => Err("expected an element of an array such as i12[3]".to_owned()),
    }
}

/// Formats a range: `i12`, or `i12..i1011 (1,000 instances)`.
pub fn describe(span: Span) -> String {
    match span.count() {
        1 => span.first.to_string(),
        many => format!("{span} ({} instances)", grouped(many)),
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
    fn ids_are_read_as_lists_print_them() {
        let element = arg("i1523[3]").expect("an element");
        assert_eq!(element.index, Some(3));
        assert_eq!(Ok(element.target), target("i1523"));
        assert_eq!(arg("i1..i9").map(|it| it.target), target("i1..i9"));
        assert_eq!(arg("r3").map(|it| it.target), Ok(Target::Run(RunId(3))));
        for bad in [
            "i1[",
            "i1[]",
            "i1[x]",
            "i1[+1]",
            "[3]",
            "r3[1]",
            "i1..i9[2]",
            "i1]",
        ] {
            assert!(arg(bad).is_err(), "{bad}");
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
            assert_eq!(grouped(number), text);
        }
        let span = Span {
            first: InstanceId(12),
            last: InstanceId(1_011),
        };
        assert_eq!(describe(span), "i12..i1011 (1,000 instances)");
    }

    #[test]
    fn a_run_has_its_letter() {
        assert_eq!(run("r12"), Ok(RunId(12)));
        for bad in ["", "r", "12", "i12", "r-1", "rr1", "r99999999999999999999"] {
            assert!(run(bad).is_err(), "{bad}");
        }
    }
}
