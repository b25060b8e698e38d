//! Transient state of runs: pending work and statistics of one leader. No store has it; a ledger
//! that was restored, or is compared with one, has none ([`Ledger::forget_transient`]).
//!
//! [`Ledger::forget_transient`]: crate::ledger::Ledger::forget_transient

use std::collections::{BTreeMap, BTreeSet};

use baton_model::ids::{InstanceId, RunId};
use baton_model::time::Millis;
use baton_model::workflow::HaltMode;

/// Instances of a run to stop, in the same step in which that was decided.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stops {
    /// With `Kill` every instance in flight, with `Drain` those without a lease.
    pub sweep: Option<HaltMode>,
    /// Instances that were requeued although nothing more may start.
    pub retried: BTreeSet<InstanceId>,
}

/// Number of DONE instances and their total duration by task, for display.
pub(super) type Durations = BTreeMap<u32, (u64, Millis)>;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Transient {
    /// Runs that changed since they were last processed.
    pub(super) dirty: BTreeSet<RunId>,
    /// Instances still to be stopped.
    pub(super) stops: BTreeMap<RunId, Stops>,
    /// Durations of DONE instances that ended under this leader.
    pub(super) durations: BTreeMap<RunId, Durations>,
}

impl Transient {
    /// Drops everything about a run.
    pub(super) fn forget(&mut self, id: RunId) {
        self.dirty.remove(&id);
        self.stops.remove(&id);
        self.durations.remove(&id);
    }
}
