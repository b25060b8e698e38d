//! Facts by kind.

use baton_model::fact::{Fact, FactKind};

/// Number of kinds.
pub(super) const COUNT: usize = FactKind::NAMES.len();

/// Number of facts of each kind in a batch.
#[derive(Clone, Debug)]
pub(crate) struct Kinds([u64; COUNT]);

impl Kinds {
    pub(crate) fn of(facts: &[Fact]) -> Self {
        let mut counts = [0; COUNT];
        for fact in facts {
            counts[fact.kind() as usize] += 1;
        }
        Self(counts)
    }

    /// The numbers, in the order of [`FactKind::NAMES`].
    pub(super) fn counts(&self) -> &[u64] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use baton_model::ids::{
        AttemptId, AttemptNo, Epoch, InstanceId, LeaseId, Revision, TaskNo, WorkerName,
    };
    use baton_model::library::{Cause, Execution, TriggerSource};
    use baton_model::outcome::KillMode;
    use baton_model::schedule::TickVerdict;
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
            Fact::StopRequested {
                instance,
                mode: KillMode::Graceful,
                reason: None,
            },
            Fact::AttemptKillRequested {
                lease,
                mode: KillMode::Now,
            },
            Fact::InstancesHalted {
                first: instance,
                last: instance,
                reason: None,
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
            Fact::Launched {
                entry: TaskNo(1),
                revision: Revision(1),
                cause: Cause::Request {
                    source: TriggerSource::Manual,
                    key: None,
                },
                verdict: TickVerdict::Launch,
                execution: Some(Execution::Instance(instance)),
            },
        ] {
            let json = serde_json::to_value(&fact).expect("a fact");
            let names = json.as_object().expect("one key").keys();
            assert!(names.eq([fact.kind().name()]), "{fact}");
            assert_eq!(FactKind::NAMES[fact.kind() as usize], fact.kind().name());
        }
    }
}
