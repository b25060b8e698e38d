//! What a leader has to do about runs, and what it has seen of them. What facts add up to does
//! not depend on it, so two ledgers that differ in nothing else are the same.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

use baton_model::ids::{InstanceId, RunId};
use baton_model::time::Millis;
use baton_model::workflow::HaltMode;

/// By task how many instances are DONE, and how long they took together: for show.
#[derive(Clone, Debug, Default)]
pub(super) struct Times(pub(super) BTreeMap<u32, (u64, Millis)>);

/// Instances of a run that have to be stopped, in the step in which that was decided.
#[derive(Clone, Debug, Default)]
pub struct Stops {
    /// Everything that is on its way, or what of it has no worker.
    pub sweep: Option<HaltMode>,
    /// These, which are to be tried again.
    pub retried: BTreeSet<InstanceId>,
}

/// Runs that something has happened to since they were looked after.
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

ignored_in_equality!(Times Stops DirtyRuns);
