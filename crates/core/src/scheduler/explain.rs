//! Why an instance is where it is: the one thing that it waits for.

use baton_model::ids::{InstanceId, LeaseId, WorkerName};
use baton_model::state::{UniversalState, WorkerState};
use baton_model::time::{Millis, Now};

use super::Scheduler;
use crate::placement::WaitReason;

/// What an instance waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It rests after a failure.
    Backoff {
        /// For so long still.
        left: Millis,
    },
    /// This scheduler remembers nothing and waits for the workers of the one before.
    InitialWait,
    /// It waits for a worker.
    Placement(WaitReason),
    /// It was given to a worker that has not confirmed it.
    Confirmation { worker: WorkerName },
    /// It may or may not be running.
    Unsure(Unsure),
    /// It runs.
    Running {
        worker: WorkerName,
        /// Under which lease.
        lease: LeaseId,
        /// Somebody wants it stopped.
        stopping: bool,
    },
}

/// A lease of which nobody can say whether it is at work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsure {
    pub worker: WorkerName,
    /// In which health that worker is; nothing if it has not come back at all.
    pub health: Option<WorkerState>,
    /// When the lease runs out; nothing if only a proof can end it.
    pub left: Option<Millis>,
}

impl Scheduler {
    /// What an instance waits for; none if it is over, or not known.
    #[must_use]
    pub fn explain(&self, id: InstanceId, now: Now) -> Option<Reason> {
        let instance = self.ledger.find(id)?;
        match instance.state {
            UniversalState::Queued => Some(self.explain_waiting(id, now)),
            UniversalState::Launched | UniversalState::Running => {
                let lease = instance.lease.as_ref()?;
                let worker = lease.holder.worker.clone();
                if let Some(unsure) = self.protocol.unsure(&self.ledger, lease, now.mono) {
                    return Some(Reason::Unsure(unsure));
                }
                if !lease.confirmed {
                    return Some(Reason::Confirmation { worker });
                }
                Some(Reason::Running {
                    worker,
                    lease: lease.id,
                    stopping: instance.stop_requested,
                })
            }
            _ => None,
        }
    }

    fn explain_waiting(&self, id: InstanceId, now: Now) -> Reason {
        if let Some(until) = self.bullpen.backoff_until(id) {
            let left = until.since(now.mono);
            return Reason::Backoff { left };
        }
        if self.is_waiting() {
            return Reason::InitialWait;
        }
        Reason::Placement(self.bullpen.explain(id).unwrap_or(WaitReason::Nothing))
    }
}
