//! A short-lived worker that connects, runs the waiting instances, reports their ends and leaves.
//!
//! Weeks may pass between two of them, so no worker stays connected. It does not report some
//! attempts; those are lost with it, and retried.

use std::sync::Arc;

use baton_core::scheduler::{Effect, Input};
use baton_model::fact::Holder;
use baton_model::ids::{
    Association, BootId, Epoch, HostId, Incarnation, IncarnationNo, LeaseId, Lineage, WorkerName,
};
use baton_model::limits::PROTOCOL_VERSION;
use baton_model::message::{
    Heartbeat, LaunchVerdict, Status, Tenure, ToScheduler, ToWorker, WorkerAddress,
};
use baton_model::outcome::Outcome;
use baton_model::state::WorkerState;
use baton_model::time::{Mono, Stamp};

use super::world::World;

/// Heartbeats of one worker: enough to become HEALTHY and to get work.
const HEARTBEATS: usize = 5;

struct TransientWorker {
    holder: Holder,
    slots: u32,
    association: Option<Association>,
    state: WorkerState,
}

impl TransientWorker {
    fn heartbeat(&self, now: Mono) -> ToScheduler {
        ToScheduler::ProcessHeartbeat(Heartbeat {
            version: PROTOCOL_VERSION,
            worker: self.holder.clone(),
            executor: None,
            slots: self.slots,
            offer: Arc::default(),
            association: self.association,
            epoch_seen: self.association.map_or(Epoch(0), |it| it.epoch),
            stamp: Stamp(now),
            state: self.state,
            worker_set: None,
            tenure: Tenure::default(),
            greeting: None,
            measured: None,
        })
    }
}

impl World {
    pub(super) fn run_worker(&mut self) {
        self.workers += 1;
        let number = self.workers;
        let mut worker = TransientWorker {
            holder: Holder {
                worker: WorkerName::new(&format!("w{number}")),
                incarnation: Incarnation {
                    lineage: Lineage(number),
                    number: IncarnationNo(1),
                },
                host: HostId(number),
                boot: BootId(number),
            },
            slots: self.rng.pick(&[1, 5, 1_000]),
            association: None,
            state: WorkerState::New,
        };
        self.commit_all();
        self.take_effects();
        for _ in 0..HEARTBEATS {
            self.pass(1);
            let heartbeat = worker.heartbeat(self.now().mono);
            self.exchange(&mut worker, heartbeat);
        }
        let who = WorkerAddress::from(&worker.holder);
        self.feed(Input::Disconnected(who));
    }

    /// Sends a message and answers replies until there are none.
    fn exchange(&mut self, worker: &mut TransientWorker, message: ToScheduler) {
        let mut messages = vec![message];
        while let Some(message) = messages.pop() {
            self.feed(Input::Message(message));
            self.commit_all();
            for effect in self.take_effects() {
                if let Effect::Send(_, message) = effect {
                    messages.extend(self.answer(worker, message));
                }
            }
        }
    }

    fn answer(&mut self, worker: &mut TransientWorker, message: ToWorker) -> Option<ToScheduler> {
        match message {
            ToWorker::HeartbeatReply(reply) => {
                worker.association = Some(reply.association);
                worker.state = reply.state;
                None
            }
            ToWorker::GetRunningTasks { association } => Some(ToScheduler::RunningTasks {
                association,
                held: Vec::new(),
            }),
            ToWorker::CheckHealth { association, check } => Some(ToScheduler::HealthReport {
                association,
                check,
                ok: true,
            }),
            ToWorker::RunTask {
                association,
                launches,
                ..
            } => {
                let verdicts = launches.iter();
                let verdicts = verdicts.map(|it| (it.lease, LaunchVerdict::Accepted));
                self.feed(Input::Message(ToScheduler::RunTaskReply {
                    association,
                    verdicts: verdicts.collect(),
                }));
                let leases = launches.iter().map(|it| it.lease);
                Some(ToScheduler::UpdateStatus {
                    association,
                    statuses: leases.filter_map(|lease| self.draw_end(lease)).collect(),
                })
            }
            _ => None,
        }
    }

    /// Draws the end of an attempt; `None` if the worker never reports it.
    fn draw_end(&mut self, lease: LeaseId) -> Option<(LeaseId, Status)> {
        let outcome = match self.rng.below(10) {
            0 => return None,
            1 | 2 => Outcome::Exited(1),
            _ => Outcome::Exited(0),
        };
        Some((lease, Status::Ended(outcome.into())))
    }
}
