//! What an instance waits for, in words.

use std::fmt;

use baton_model::placement::{Constraint, Rule};

use super::explain::Waiting;

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoWorker { closed: 0 } => f.write_str("there is no worker"),
            Self::NoWorker { closed } => {
                write!(f, "no worker takes work: {closed} drained or unhealthy")
            }
            Self::NoMatch {
                constraint,
                excludes,
                workers,
            } => write!(
                f,
                "labels: {} rules out {excludes} of {workers} workers",
                Condition(constraint)
            ),
            Self::NeverFits {
                resource,
                asked,
                worker,
                has,
            } => write!(
                f,
                "{resource}: never fits: asks for {}, the largest, worker {worker}, has {}",
                Amount(resource, *asked),
                Amount(resource, *has)
            ),
            Self::Room {
                resource,
                worker,
                short,
                reserved,
            } => {
                let short = Amount(resource, *short);
                let reserved = if *reserved {
                    ", and is reserved for it"
                } else {
                    ""
                };
                write!(
                    f,
                    "{resource}: worker {worker} is short of {short}{reserved}"
                )
            }
            Self::Limit {
                name, total, asked, ..
            } if asked > total => {
                write!(
                    f,
                    "limit {name}: never fits: asks for {asked}, the total is {total}"
                )
            }
            Self::Limit {
                name,
                used,
                total,
                asked,
            } => write!(
                f,
                "limit {name}: asks for {asked}, {used} of {total} in use"
            ),
            Self::Reserved { what, class } => {
                write!(
                    f,
                    "{what} is reserved for class {class}, which has waited for longer"
                )
            }
            Self::Behind { before } => write!(f, "{before} of the same class come before it"),
            Self::Nothing => f.write_str("nothing: it is about to be placed"),
        }
    }
}

/// A constraint, as a person would say it.
struct Condition<'a>(&'a Constraint);

impl fmt::Display for Condition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = &self.0.label;
        let list = |values: &std::collections::BTreeSet<String>| {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            values.join(" or ")
        };
        match &self.0.rule {
            Rule::OneOf(values) => write!(f, "{label} is {}", list(values)),
            Rule::NoneOf(values) => write!(f, "{label} is not {}", list(values)),
            Rule::Present => write!(f, "{label} is set"),
            Rule::Absent => write!(f, "{label} is not set"),
        }
    }
}

/// An amount of a resource, in its unit.
struct Amount<'a>(&'a str, u64);

impl fmt::Display for Amount<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(resource, amount) = *self;
        match resource {
            "cpu" if amount.is_multiple_of(1_000) => write!(f, "{}", amount / 1_000),
            "cpu" => write!(f, "{amount}m"),
            "memory" | "disk" => bytes(f, amount),
            _ => write!(f, "{amount}"),
        }
    }
}

/// Bytes in the largest unit that leaves at least one, with one digit after the
/// point, rounded up so that a shortage is never shown as nothing.
fn bytes(f: &mut fmt::Formatter<'_>, amount: u64) -> fmt::Result {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let Some(power) = (amount.checked_ilog2().unwrap_or(0) / 10).checked_sub(1) else {
        return write!(f, "{amount} B");
    };
    let unit = 1_u128 << (10 * (power + 1));
    let tenths = (u128::from(amount) * 10).div_ceil(unit);
    match tenths % 10 {
        0 => write!(f, "{} {}", tenths / 10, UNITS[power as usize]),
        tenth => write!(f, "{}.{tenth} {}", tenths / 10, UNITS[power as usize]),
    }
}
