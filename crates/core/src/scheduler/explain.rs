//! Explaining the state of an instance: the one thing it waits for.

use baton_model::conditions::Dependency;
use baton_model::ids::{InstanceId, LeaseId, WorkerName};
use baton_model::placement::Suspicion;
use baton_model::state::{UniversalState, WorkerState};
use baton_model::time::{Millis, Now};

use super::{Scheduler, StoreMode};
use crate::placement::{Wait, WaitReason};

/// What an instance waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is in backoff after a failure.
    Backoff {
        /// Remaining time.
        left: Millis,
    },
    /// `max_instances` of its library task is reached, and its launches wait for their turn.
    Turn,
    /// It starts after other work, which has not ended.
    After(Dependency),
    /// This scheduler has no store, and waits for the workers of the one before.
    InitialWait,
    /// The store is a copy, whose original may have placed it.
    StoreCopied,
    /// It waits for a worker.
    Placement(Wait),
    /// It is leased to a worker that has not started it yet.
    Confirmation { worker: WorkerName },
    /// It may or may not be running.
    Unsure(Unsure),
    /// It runs.
    Running {
        worker: WorkerName,
        lease: LeaseId,
        /// A stop was requested.
        stopping: bool,
    },
}

/// A lease of which it is not known whether its attempt runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsure {
    pub worker: WorkerName,
    /// Health of that worker; none if it has not come back.
    pub health: Option<WorkerState>,
    /// Remaining time of the lease; none if only a proof can end it.
    pub left: Option<Millis>,
}

impl Scheduler {
    /// What an instance waits for; none if it is over or unknown.
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

    /// The workers that cannot launch anything or are suspicious, with the reason as a clause.
    pub fn troubles(&self) -> impl Iterator<Item = (&WorkerName, String)> {
        let seats = self.seats().iter();
        seats.filter_map(|(name, seat)| {
            let fault = seat.fault.as_deref();
            let trouble = fault.map(|fault| format!("cannot launch anything: {fault}"));
            let suspicion = || Some(format!("is suspicious: {}", self.suspicion(name)?));
            Some((name, trouble.or_else(suspicion)?))
        })
    }

    /// Why a worker is suspicious, if it is.
    #[must_use]
    pub fn suspicion(&self, worker: &WorkerName) -> Option<Suspicion> {
        self.protocol.suspicion(worker)
    }

    fn explain_waiting(&self, id: InstanceId, now: Now) -> Reason {
        if let Some(until) = self.bullpen.backoff_until(id) {
            let left = until.since(now.mono);
            return Reason::Backoff { left };
        }
        if let Some(dependency) = self.dependencies.unmet(&self.ledger, id) {
            return Reason::After(dependency);
        }
        let task = self.ledger.find(id).and_then(|it| it.spec.origin);
        if task.is_some_and(|origin| self.bullpen.held(origin.task).contains(&id)) {
            return Reason::Turn;
        }
        if self.is_waiting() {
            return match self.config.store {
                StoreMode::Memory => Reason::InitialWait,
                StoreMode::Durable => Reason::StoreCopied,
            };
        }
        let about_to_start = || Wait {
            class: None,
            ahead: 0,
            reason: WaitReason::Nothing,
            workers: Vec::new(),
        };
        Reason::Placement(self.bullpen.explain(id).unwrap_or_else(about_to_start))
    }
}
