//! What was used, by owner and hour.
//!
//! Everything counts in the hour in which it was recorded: an attempt when it ended, a wait when
//! a lease ended it. The rows are written together with the facts that they count, so each fact
//! counts exactly once. They stay when the facts are pruned, for
//! [`crate::limits::USAGE_HOURS_KEPT`].

use std::sync::Arc;

use baton_model::spec::InstanceSpec;
use baton_model::time::{Millis, Wall};
use baton_model::workflow::Part;

use crate::limits::USAGE_HOURS_KEPT;

/// Milliseconds of an hour.
const HOUR_MS: u64 = 3_600_000;

/// More than anybody can use. Sums of two numbers up to here fit a database's signed ones.
pub(crate) const COUNT_MAX: u64 = 1 << 62;

/// An hour, by its number since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hour(pub u64);

impl Hour {
    /// The one that a moment is in.
    #[must_use]
    pub const fn of(at: Wall) -> Self {
        Self(at.0 / HOUR_MS)
    }

    /// The first of those that are kept at this moment.
    pub(crate) const fn first_kept(now: Wall) -> Self {
        Self(Self::of(now).0.saturating_sub(USAGE_HOURS_KEPT))
    }

    #[must_use]
    pub const fn start(self) -> Wall {
        Wall(self.0.saturating_mul(HOUR_MS))
    }
}

/// What was used. Numbers that would be too large stay as large as they can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageTotals {
    /// Instances that ended DONE. One that is tried again by hand ends again.
    pub done: u64,
    /// Instances that ended FAILED.
    pub failed: u64,
    /// Instances that ended HALTED.
    pub halted: u64,
    /// Attempts that ended.
    pub attempts: u64,
    /// Processors that were set aside for them, times how long: core milliseconds.
    pub cpu_claimed: Millis,
    /// Memory that was set aside for them, times how long: MiB milliseconds.
    pub memory_claimed: u64,
    /// Time on processors, as their workers measured it.
    pub cpu_used: Millis,
    /// From being ready to a lease.
    pub waited: Millis,
}

impl UsageTotals {
    /// Adds what was used besides.
    pub fn add(&mut self, other: &Self) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more).min(COUNT_MAX);
        add(&mut self.done, other.done);
        add(&mut self.failed, other.failed);
        add(&mut self.halted, other.halted);
        add(&mut self.attempts, other.attempts);
        add(&mut self.cpu_claimed.0, other.cpu_claimed.0);
        add(&mut self.memory_claimed, other.memory_claimed);
        add(&mut self.cpu_used.0, other.cpu_used.0);
        add(&mut self.waited.0, other.waited.0);
    }
}

/// What one owner used in one hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    pub hour: Hour,
    pub owner: String,
    pub used: UsageTotals,
}

/// A place among the rows: hour, then owner.
pub type UsageCursor = (Hour, String);

/// Which rows are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageQuery {
    /// Of this owner only.
    pub owner: Option<String>,
    /// The first hour.
    pub from: Hour,
    /// The last hour.
    pub to: Hour,
    /// From behind this place on.
    pub after: Option<UsageCursor>,
    /// How many at most; never more than [`crate::limits::PAGE_ITEMS_MAX`].
    pub limit: usize,
}

/// What a spec says about usage, and about runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) owner: Arc<str>,
    cpu_milli: u64,
    memory: u64,
    /// Which part of a run its instance is.
    pub(crate) part: Option<Part>,
}

impl Claim {
    pub(crate) fn of(spec: &InstanceSpec) -> Self {
        Self {
            owner: spec.owner.as_str().into(),
            cpu_milli: spec.ask.request.cpu_milli,
            memory: spec.ask.request.memory_min,
            part: spec.part,
        }
    }

    /// What was set aside for so long; with other memory than the spec says, if this attempt
    /// had some.
    pub(crate) fn held(&self, span: Millis, memory: Option<u64>) -> UsageTotals {
        let times = |amount: u64, unit: u128| {
            let product = u128::from(amount) * u128::from(span.0) / unit;
            u64::try_from(product).unwrap_or(u64::MAX).min(COUNT_MAX)
        };
        UsageTotals {
            cpu_claimed: Millis(times(self.cpu_milli, 1_000)),
            memory_claimed: times(memory.unwrap_or(self.memory), 1 << 20),
            ..UsageTotals::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_to_count_stays_as_large_as_it_can() {
        let claim = Claim {
            owner: "o".into(),
            cpu_milli: u64::MAX,
            memory: u64::MAX,
            part: None,
        };
        let mut used = claim.held(Millis(u64::MAX), None);
        used.add(&used.clone());
        assert_eq!(used.cpu_claimed, Millis(COUNT_MAX));
        assert_eq!(used.memory_claimed, COUNT_MAX);
    }

    #[test]
    fn half_a_core_for_two_seconds_is_one_core_second() {
        let claim = Claim {
            owner: "o".into(),
            cpu_milli: 500,
            memory: 3 << 20,
            part: None,
        };
        let used = claim.held(Millis(2_000), None);
        assert_eq!(
            (used.cpu_claimed, used.memory_claimed),
            (Millis(1_000), 6_000)
        );
        let scaled = claim.held(Millis(2_000), Some(6 << 20));
        assert_eq!(scaled.memory_claimed, 12_000);
    }
}
