//! Resource usage by owner and hour.
//!
//! Usage counts in the hour in which it was recorded: an attempt when it ended, a wait when a lease
//! ended it. The rows are written in the same transaction as the facts that they count, so each
//! fact counts exactly once. They survive the pruning of those facts, for
//! [`crate::limits::USAGE_HOURS_KEPT`].

use std::sync::Arc;

use baton_core::workflow::items::task_name;
use baton_model::measurement::Requested;
use baton_model::spec::InstanceSpec;
use baton_model::time::{Millis, Wall};
use baton_model::workflow::Part;

use crate::limits::USAGE_HOURS_KEPT;

const HOUR_MS: u64 = 3_600_000;

/// Bound of every counter, beyond any real usage. The sum of two numbers up to here fits a signed
/// 64-bit column.
pub(crate) const COUNT_MAX: u64 = 1 << 62;

/// An hour, as its number since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hour(pub u64);

impl Hour {
    /// The hour that contains `at`.
    #[must_use]
    pub const fn of(at: Wall) -> Self {
        Self(at.0 / HOUR_MS)
    }

    /// The oldest hour that is kept at `now`.
    pub(crate) const fn first_kept(now: Wall) -> Self {
        Self(Self::of(now).0.saturating_sub(USAGE_HOURS_KEPT))
    }

    #[must_use]
    pub const fn start(self) -> Wall {
        Wall(self.0.saturating_mul(HOUR_MS))
    }
}

/// Usage counters. They saturate instead of overflowing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageTotals {
    /// Instances that ended DONE. One that is retried by hand ends again.
    pub done: u64,
    /// Instances that ended FAILED.
    pub failed: u64,
    /// Instances that ended HALTED.
    pub halted: u64,
    /// Attempts that ended.
    pub attempts: u64,
    /// Reserved CPU over time, in core milliseconds.
    pub cpu_claimed: Millis,
    /// Reserved memory over time, in MiB milliseconds.
    pub memory_claimed: u64,
    /// CPU time, as measured by the workers.
    pub cpu_used: Millis,
    /// Time from being ready to being leased.
    pub waited: Millis,
}

impl UsageTotals {
    /// Adds the counters of `other`.
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

/// Usage of one owner in one hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    pub hour: Hour,
    pub owner: String,
    pub used: UsageTotals,
}

/// Cursor over usage rows: hour, then owner.
pub type UsageCursor = (Hour, String);

/// Query for a page of usage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageQuery {
    /// Only this owner.
    pub owner: Option<String>,
    /// The first hour.
    pub from: Hour,
    /// The last hour.
    pub to: Hour,
    /// Only rows after this one.
    pub after: Option<UsageCursor>,
    /// Maximum number of items; capped at [`crate::limits::PAGE_ITEMS_MAX`].
    pub limit: usize,
}

/// The fields of a spec that usage and runs depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) owner: Arc<str>,
    cpu_milli: u64,
    memory: u64,
    /// Workers that each have reserved as much.
    nodes: u32,
    /// The item of a run that the instance carries out.
    pub(crate) part: Option<Part>,
    /// The name of the task.
    pub(crate) task: Arc<str>,
    /// What its measurements are compared with.
    pub(crate) requested: Requested,
}

impl Claim {
    pub(crate) fn of(spec: &InstanceSpec) -> Self {
        Self {
            owner: spec.owner.as_str().into(),
            cpu_milli: spec.request.resources.cpu_milli,
            memory: spec.request.resources.memory_min,
            nodes: spec.nodes.get(),
            part: spec.part,
            task: match spec.part {
                Some(_) => task_name(&spec.name).into(),
                None => spec.name.as_str().into(),
            },
            requested: Requested::of(spec),
        }
    }

    /// The reservation over `span`; `memory` replaces the spec's memory if this attempt had another
    /// allowance.
    pub(crate) fn held(&self, span: Millis, memory: Option<u64>) -> UsageTotals {
        let times = |amount: u64, unit: u128| {
            let times_nodes = u128::from(amount) * u128::from(self.nodes);
            let product = times_nodes.saturating_mul(u128::from(span.0)) / unit;
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
            nodes: 1,
            part: None,
            task: "t".into(),
            requested: Requested::default(),
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
            nodes: 1,
            part: None,
            task: "t".into(),
            requested: Requested::default(),
        };
        let used = claim.held(Millis(2_000), None);
        assert_eq!(
            (used.cpu_claimed, used.memory_claimed),
            (Millis(1_000), 6_000)
        );
        let scaled = claim.held(Millis(2_000), Some(6 << 20));
        assert_eq!(scaled.memory_claimed, 12_000);
    }

    #[test]
    fn every_node_of_a_gang_counts() {
        let mut spec = InstanceSpec {
            nodes: baton_model::spec::Nodes::new(4),
            ..InstanceSpec::default()
        };
        spec.request.resources.cpu_milli = 2_000;
        let used = Claim::of(&spec).held(Millis(500), None);
        assert_eq!(used.cpu_claimed, Millis(4_000));
    }
}
