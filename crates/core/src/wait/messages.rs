//! Sentences and hints for wait reasons.

use std::fmt;

use baton_model::conditions::DependencyRule;
use baton_model::cpu::CORE;
use baton_model::device::DeviceAmount;
use baton_model::placement::{Constraint, Rule};
use baton_model::time::Millis;

use super::exclusion::Exclusion;
use super::fleets::sentences;
use super::{FleetWait, LimitReached, RateWait, Unsure, Wait, WaitReason};
use crate::limits::LimitKey;

/// The plain kinds of resources, as people write them.
pub(crate) const KIND_NAMES: [&str; 4] = ["cpu", "memory", "disk", "gpu"];

/// The name of the cores of one NUMA node; no resource of a user has a space in its name.
pub(crate) const SOCKET_NAME: &str = "cores of one socket";

/// The name of time among resources: a worker of a fleet has a limit on it.
pub(crate) const TIME_NAME: &str = "time";

/// An amount of a resource, in its unit.
pub(crate) fn amount(resource: &str, amount: u64) -> String {
    Amount(resource, amount).to_string()
}

/// A duration, rounded up to a readable unit.
pub(crate) fn duration(span: Millis) -> String {
    Duration(span).to_string()
}

impl Wait {
    /// What it waits for, with hints: the place in its queue, and the workers that are excluded.
    #[must_use]
    pub fn text(&self) -> String {
        let ahead = match self.ahead {
            0 => return self.first_text(),
            1 => "1 instance of the same class is ahead of it".to_owned(),
            ahead => format!("{ahead} instances of the same class are ahead of it"),
        };
        match self.reason {
            WaitReason::Nothing => format!("{ahead}; it starts when its turn comes"),
            _ => format!("{}; {ahead}", self.first_text()),
        }
    }

    /// What the first of its class waits for: the text without the place in its queue.
    #[must_use]
    pub fn first_text(&self) -> String {
        let mut text = self.reason.to_string();
        // A fleet that brings workers needs no hint to start one by hand.
        let is_served = self.fleets.iter().any(FleetWait::fits);
        let hint = self.reason.hint();
        if let Some(hint) = hint.filter(|_| !(is_served && self.reason == WaitReason::NoWorker)) {
            text = format!("{text}; {hint}");
        }
        let directory = self.directory.as_deref();
        let lasting = self.workers.iter().filter(|group| {
            let exclusion = group.exclusion.as_ref();
            exclusion.is_some_and(Exclusion::is_lasting)
        });
        for group in lasting {
            text = format!("{text}; {}", group.describe(directory));
            if let Some(remedy) = group.remedy(directory) {
                text = format!("{text}: {remedy}");
            }
        }
        if let Some(grown) = &self.grown {
            text = format!(
                "{text}; its requests have grown since its first attempt ({grown}): a `cap` in `retry.scale` \
                 keeps them within what there is"
            );
        }
        for fleet in sentences(&self.fleets) {
            text = format!("{text}; {fleet}");
        }
        text
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backoff { left } => write!(
                f,
                "backoff after a failure: it is retried automatically in {}",
                Duration(*left)
            ),
            Self::After(dependency) => {
                let end = match dependency.rule {
                    DependencyRule::Ok => "succeed",
                    DependencyRule::Fail => "fail",
                    DependencyRule::Any => "end",
                };
                write!(f, "it waits for {} to {end}", dependency.upstream)
            }
            Self::Upstream { task } => write!(f, "waits for {task}"),
            Self::Limit(reached) => reached.fmt(f),
            Self::InitialWait => f.write_str(
                "the scheduler has just started without a durable store: it waits for workers of its \
                 predecessor",
            ),
            Self::StoreCopied => f.write_str(
                "the store is a copy, such as a restored backup: nothing is placed for a lease time, \
                 because attempts that it does not know may be running",
            ),
            Self::Overflow => f.write_str(
                "placement is full: too many instances, or too many different requests, wait already",
            ),
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
            Self::Gang {
                nodes,
                nearest,
                reserved,
            } => {
                write!(f, "it needs {nodes} workers of one group at the same time")?;
                let Some((group, free)) = nearest else {
                    return Ok(());
                };
                let nearest = if *reserved {
                    "whose workers are reserved for it"
                } else {
                    "which comes nearest"
                };
                write!(f, ", and group {group}, {nearest}, has {free} free")
            }
            Self::Busy { worker } => {
                write!(f, "worker {worker} has no free place at this moment")
            }
            Self::Reserved { what, class } => write!(
                f,
                "the free part of {what} is reserved for class {class}, which has waited longer"
            ),
            Self::Nothing => f.write_str("it is about to be placed"),
            Self::Confirmation { worker } => write!(
                f,
                "it was assigned to worker {worker}, and has not started there yet"
            ),
            Self::Unsure(Unsure { worker, health, .. }) => {
                write!(
                    f,
                    "it is unknown whether it runs: worker {worker}, which holds it, "
                )?;
                match health {
                    Some(health) => write!(f, "is {health}"),
                    None => f.write_str("has not reconnected"),
                }
            }
        }
    }
}

impl WaitReason {
    /// What ends the wait, or what to do about it. For an exclusion each group of workers has its own.
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::InitialWait | Self::StoreCopied => "no action is needed",
            Self::Overflow => "it is queued when others have left",
            Self::NoWorker => "start one with `baton worker`",
            Self::Room { .. } => "it starts when work there ends, or another worker joins",
            Self::Gang { .. } => "it starts when enough of them are free together",
            Self::Busy { .. } => "it starts there in a moment",
            Self::Reserved { .. } => "it starts after that, or when a worker joins",
            Self::Limit(reached) => return Some(reached.hint()),
            Self::Unsure(unsure) => return Some(unsure.hint()),
            Self::Backoff { .. }
            | Self::After(_)
            | Self::Upstream { .. }
            | Self::Excluded(_)
            | Self::Nothing
            | Self::Confirmation { .. } => return None,
        };
        Some(hint.to_owned())
    }
}

impl fmt::Display for LimitReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            key,
            name,
            limit,
            asked,
            rate,
        } = self;
        let (used, total) = (limit.used, limit.total);
        if let Some(RateWait { rate, .. }) = rate {
            return if *asked > total {
                write!(
                    f,
                    "it takes {asked} of the rate {name} ({rate}), whose burst is {total}"
                )
            } else {
                write!(
                    f,
                    "it takes {asked} of the rate {name} ({rate}), which is used up"
                )
            };
        }
        match key {
            LimitKey::Named(_) | LimitKey::Array(_) if *asked > total => write!(
                f,
                "it requests {asked} of the limit {name}, whose total is {total}"
            ),
            LimitKey::Named(_) | LimitKey::Array(_) => write!(
                f,
                "it requests {asked} of the limit {name}; {used} of {total} are in use"
            ),
            LimitKey::Entry(_) => {
                write!(f, "max_instances of {name} is reached ({used} of {total})")
            }
            LimitKey::Backfill(_) | LimitKey::Run(..) => {
                write!(
                    f,
                    "held back: {used} of {total} instances of {name} are in flight"
                )
            }
        }
    }
}

impl LimitReached {
    fn hint(&self) -> String {
        if let Some(RateWait { rate, left }) = self.rate {
            let name = &self.name;
            return match left {
                Some(left) => format!("the next start is possible in {}", Duration(left)),
                None => format!(
                    "raise that with `baton limits set {name} {rate} --burst {}`",
                    self.asked
                ),
            };
        }
        match &self.key {
            LimitKey::Array(first) => format!(
                "it starts when another element of its array has ended; `baton array limit {first} N` \
                 changes the limit"
            ),
            LimitKey::Named(name) if self.asked > self.limit.total => {
                format!("raise it with `baton limits set {name} {}`", self.asked)
            }
            LimitKey::Named(name) => format!(
                "it starts when others release it; `baton limits set {name} N` changes the total"
            ),
            LimitKey::Entry(_) => "it starts when its turn comes".to_owned(),
            LimitKey::Backfill(_) | LimitKey::Run(..) => {
                "the next one starts when one of them has ended".to_owned()
            }
        }
    }
}

impl Unsure {
    fn hint(&self) -> String {
        let worker = &self.worker;
        match self.left {
            Some(left) => format!(
                "it may go on there; if the worker stays silent for {} more, the instance is retried elsewhere",
                Duration(left)
            ),
            None => format!(
                "it may go on there, and only proof can resolve this: bring worker {worker} back, or, if \
                 it is gone for good, run `baton forget {worker}`"
            ),
        }
    }
}

/// A duration, rounded up to a readable unit.
pub(super) struct Duration(pub(super) Millis);

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.0.div_ceil(1_000) {
            seconds @ 0..=119 => write!(f, "{seconds} s"),
            seconds @ 120..=7_199 => write!(f, "{} min", seconds.div_ceil(60)),
            seconds => write!(f, "{} h", seconds.div_ceil(3_600)),
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
            CORE if amount == 1 => f.write_str("1 core to pin to"),
            CORE => write!(f, "{amount} cores to pin to"),
            SOCKET_NAME => write!(f, "{amount} {SOCKET_NAME}"),
            TIME_NAME => write!(f, "{} of time", Duration(Millis(amount))),
            "gpu" => write!(f, "{} of gpu", DeviceAmount::from_milli(amount)),
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
