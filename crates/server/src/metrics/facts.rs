//! Facts by kind.

use baton_model::fact::Fact;

/// Names of the kinds, as on the wire.
pub(super) const NAMES: [&str; COUNT] = [
    "instances-submitted",
    "lease-granted",
    "attempt-adopted",
    "attempt-confirmed",
    "attempt-ended",
    "stop-requested",
    "instances-halted",
    "instance-retried",
    "worker-drained",
    "lease-time-set",
    "worker-condemned",
    "task-defined",
    "task-removed",
    "tick-recorded",
    "instance-triggered",
    "run-registered",
    "run-extended",
    "run-defined",
    "run-advanced",
    "run-halting",
    "run-ended",
    "run-resumed",
    "key-recorded",
];

/// Number of kinds.
pub(super) const COUNT: usize = 23;

/// The name of the kind of a fact.
pub(crate) const fn fact_kind(fact: &Fact) -> &'static str {
    NAMES[index(fact)]
}

/// Index of the kind of a fact in [`NAMES`].
const fn index(fact: &Fact) -> usize {
    match fact {
        Fact::InstancesSubmitted { .. } => 0,
        Fact::LeaseGranted { .. } => 1,
        Fact::AttemptAdopted { .. } => 2,
        Fact::AttemptConfirmed { .. } => 3,
        Fact::AttemptEnded { .. } => 4,
        Fact::StopRequested { .. } => 5,
        Fact::InstancesHalted { .. } => 6,
        Fact::InstanceRetried { .. } => 7,
        Fact::WorkerDrained { .. } => 8,
        Fact::LeaseTimeSet { .. } => 9,
        Fact::WorkerCondemned { .. } => 10,
        Fact::TaskDefined { .. } => 11,
        Fact::TaskRemoved { .. } => 12,
        Fact::TickRecorded { .. } => 13,
        Fact::InstanceTriggered { .. } => 14,
        Fact::RunRegistered { .. } => 15,
        Fact::RunExtended { .. } => 16,
        Fact::RunDefined { .. } => 17,
        Fact::RunAdvanced { .. } => 18,
        Fact::RunHalting { .. } => 19,
        Fact::RunEnded { .. } => 20,
        Fact::RunResumed { .. } => 21,
        Fact::KeyRecorded { .. } => 22,
    }
}

/// Number of facts of each kind in a batch.
#[derive(Clone, Debug)]
pub(crate) struct Kinds([u64; COUNT]);

impl Kinds {
    pub(crate) fn of(facts: &[Fact]) -> Self {
        let mut counts = [0; COUNT];
        for fact in facts {
            counts[index(fact)] += 1;
        }
        Self(counts)
    }

    pub(super) fn counts(&self) -> &[u64] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use baton_model::ids::{
        AttemptId, AttemptNo, Epoch, InstanceId, LeaseId, Revision, TaskNo, WorkerName,
    };
    use baton_model::library::TriggerSource;
    use baton_model::time::Millis;

    use super::*;

    #[test]
    fn a_kind_is_called_what_it_is_on_the_wire() {
        let instance = InstanceId(1);
        let number = AttemptNo(1);
        let lease = LeaseId {
            attempt: AttemptId { instance, number },
            epoch: Epoch(1),
        };
        for fact in [
            Fact::AttemptConfirmed { lease },
            Fact::StopRequested { instance },
            Fact::InstancesHalted {
                first: instance,
                last: instance,
            },
            Fact::InstanceRetried { instance },
            Fact::WorkerDrained {
                worker: WorkerName::new("w"),
                drained: true,
            },
            Fact::LeaseTimeSet { lease: Millis(1) },
            Fact::TaskRemoved {
                task: TaskNo(1),
                revision: Revision(1),
            },
            Fact::InstanceTriggered {
                instance,
                task: TaskNo(1),
                source: TriggerSource::Manual,
                key: None,
            },
        ] {
            let json = serde_json::to_value(&fact).expect("a fact");
            let names = json.as_object().expect("one key").keys();
            assert!(names.eq([NAMES[index(&fact)]]), "{fact}");
        }
    }
}
