//! Transient state of runs: pending work and statistics of one leader. It is not part of the
//! durable state, so equality and hashing of ledgers ignore it.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

use baton_model::ids::{InstanceId, RunId};
use baton_model::time::Millis;
use baton_model::workflow::HaltMode;

/// Number of DONE instances and their total duration by task, for display.
#[derive(Clone, Debug, Default)]
pub(super) struct Durations(pub(super) BTreeMap<u32, (u64, Millis)>);

/// Instances of a run to stop, in the same step in which that was decided.
#[derive(Clone, Debug, Default)]
pub struct Stops {
    /// With `Kill` every instance in flight, with `Drain` those without a lease.
    pub sweep: Option<HaltMode>,
    /// Instances that were requeued although nothing more may start.
    pub retried: BTreeSet<InstanceId>,
}

/// Runs that changed since they were last processed.
#[derive(Clone, Debug, Default)]
pub(super) struct DirtyRuns(pub(super) BTreeSet<RunId>);

macro_rules! ignored_in_equality {
    ($($name:ident)*) => {$(
        impl PartialEq for $name {
            fn eq(&self, _: &Self) -> bool {
                true
            }
        }

        impl Eq for $name {}

        impl Hash for $name {
            fn hash<H: Hasher>(&self, _: &mut H) {}
        }
    )*};
}

ignored_in_equality!(Durations Stops DirtyRuns);
