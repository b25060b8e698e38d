//! Messages for the reason for which an instance waits.

use std::fmt;

use baton_model::placement::{Constraint, Rule};

use super::explain::WaitReason;

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoWorker => f.write_str("there is no worker"),
            Self::Excluded(_) => f.write_str("no worker takes it"),
            Self::Room {
                resource,
                worker,
                short,
                reserved,
            } => {
                let short = Amount(resource, *short);
                if *reserved {
                    write!(
                        f,
                        "worker {worker} is reserved for it, but still lacks {short}"
                    )
                } else {
                    write!(f, "worker {worker} comes nearest, but lacks {short}")
                }
            }
            Self::Busy { worker } => {
                write!(f, "worker {worker} has no free place at this moment")
            }
            Self::Limit { key, limit, asked } if *asked > limit.total => write!(
                f,
                "it requests {asked} of the limit {key}, whose total is {}",
                limit.total
            ),
            Self::Limit { key, limit, asked } => write!(
                f,
                "it requests {asked} of the limit {key}; {} of {} are in use",
                limit.used, limit.total
            ),
            Self::Reserved { what, class } => write!(
                f,
                "the free part of {what} is reserved for class {class}, which has waited longer"
            ),
            Self::Nothing => f.write_str("it is about to be placed"),
        }
    }
}

/// A constraint, as readable text.
pub(super) struct Condition<'a>(pub(super) &'a Constraint);

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
pub(super) struct Amount<'a>(pub(super) &'a str, pub(super) u64);

impl fmt::Display for Amount<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(resource, amount) = *self;
        match resource {
            "cpu" if amount == 1_000 => f.write_str("1 core"),
            "cpu" => {
                let (whole, rest) = (amount / 1_000, amount % 1_000);
                let rest = format!(".{rest:03}");
                write!(f, "{whole}{} cores", rest.trim_end_matches(['0', '.']))
            }
            "memory" | "disk" => {
                bytes(f, amount)?;
                write!(f, " of {resource}")
            }
            _ => write!(f, "{amount} of {resource}"),
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
