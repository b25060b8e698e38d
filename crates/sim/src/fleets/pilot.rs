//! A simple worker of a job: it connects, runs what it gets, reports it until that is acknowledged, and ends when it
//! is idle. Messages arrive at once and in order; the cluster has the others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_model::device::DeviceLists;
use baton_model::fact::Holder;
use baton_model::fleet::FleetSpec;
use baton_model::ids::{
    Association, BootId, Epoch, HostId, Incarnation, IncarnationNo, LeaseId, Lineage, WorkerName,
};
use baton_model::limits::PROTOCOL_VERSION;
use baton_model::message::{
    Heartbeat, HeldAttempt, LaunchRefusal, LaunchVerdict, Status, Tenure, ToScheduler, ToWorker,
};
use baton_model::outcome::{AttemptStats, Outcome, Report};
use baton_model::placement::Offer;
use baton_model::spec::InstanceSpec;
use baton_model::state::WorkerState;
use baton_model::time::{Millis, Now, Stamp, Wall};

use crate::rng::Rng;

const HEARTBEAT_MS: u64 = 5_000;

/// How long attempts outlive their agent, at most. Shorter than the share of a worker in the shortest lease.
const DEAD_MAN_MS: u64 = 60_000;

/// An attempt that runs, or has ended and is not acknowledged.
#[derive(Debug)]
struct Attempt {
    spec: Arc<InstanceSpec>,
    started: u64,
    ends: u64,
}

/// One worker.
#[derive(Debug)]
pub(super) struct Pilot {
    pub(super) holder: Holder,
    offer: Arc<Offer>,
    association: Option<Association>,
    state: WorkerState,
    next_beat: u64,
    idle_since: u64,
    idle_ms: u64,
    attempts: BTreeMap<LeaseId, Attempt>,
    /// Leases that it will never start.
    refused: BTreeSet<LeaseId>,
    pub(super) ended: bool,
    /// Its agent is dead, and what it has started runs on.
    orphaned: bool,
}

impl Pilot {
    /// A worker that connects at `at`.
    pub(super) fn new(name: WorkerName, number: u64, spec: &FleetSpec, at: u64) -> Self {
        let holder = Holder {
            worker: name,
            incarnation: Incarnation {
                lineage: Lineage(number),
                number: IncarnationNo(1),
            },
            host: HostId(number),
            boot: BootId(number),
        };
        Self {
            holder,
            offer: Arc::new(Offer {
                capacity: spec.shape.capacity.clone(),
                labels: spec.shape.labels.clone(),
                open: true,
                devices: DeviceLists::new(),
                core_nodes: Vec::new(),
            }),
            association: None,
            state: WorkerState::New,
            next_beat: at,
            idle_since: at,
            idle_ms: spec.idle_timeout.0,
            attempts: BTreeMap::new(),
            refused: BTreeSet::new(),
            ended: false,
            orphaned: false,
        }
    }

    /// Its agent dies: what it has started runs on until its dead-man ends it, before its lease runs out.
    pub(super) fn orphan(&mut self, now: u64) {
        if !std::mem::replace(&mut self.orphaned, true) {
            let last = now + DEAD_MAN_MS;
            self.attempts
                .values_mut()
                .for_each(|it| it.ends = it.ends.min(last));
        }
    }

    /// Whether it sends and takes messages.
    pub(super) const fn is_there(&self) -> bool {
        !self.ended && !self.orphaned
    }

    /// The leases that it runs at this moment.
    pub(super) fn running(&self, now: u64) -> impl Iterator<Item = LeaseId> + '_ {
        let running = self.attempts.iter().filter(move |(_, it)| it.ends > now);
        running.map(|(lease, _)| *lease)
    }

    /// Messages that are due.
    pub(super) fn due(&mut self, now: Now) -> Vec<ToScheduler> {
        let at = now.mono.0;
        let mut messages = Vec::new();
        if self.next_beat > at {
            return messages;
        }
        if self.attempts.is_empty() {
            if at - self.idle_since >= self.idle_ms {
                self.ended = true;
                return messages;
            }
        } else {
            self.idle_since = at;
        }
        self.next_beat = at + HEARTBEAT_MS;
        messages.push(self.heartbeat(now));
        let over = self.attempts.iter().filter(|(_, it)| it.ends <= at);
        let over = over.map(|(lease, it)| (*lease, Status::Ended(report(it))));
        let over: Vec<_> = over.collect();
        if let Some(association) = self.association.filter(|_| !over.is_empty()) {
            messages.push(ToScheduler::UpdateStatus {
                association,
                statuses: over,
            });
        }
        messages
    }

    fn heartbeat(&self, now: Now) -> ToScheduler {
        ToScheduler::ProcessHeartbeat(Heartbeat {
            version: PROTOCOL_VERSION,
            worker: self.holder.clone(),
            executor: None,
            slots: 100,
            offer: Arc::clone(&self.offer),
            association: self.association,
            epoch_seen: self.association.map_or(Epoch(0), |it| it.epoch),
            stamp: Stamp(now.mono),
            state: self.state,
            worker_set: None,
            measured: None,
            tenure: Tenure::default(),
            greeting: None,
        })
    }

    /// Takes a message, and answers it.
    pub(super) fn take(&mut self, now: Now, rng: &mut Rng, message: ToWorker) -> Vec<ToScheduler> {
        let at = now.mono.0;
        match message {
            ToWorker::HeartbeatReply(reply) => {
                self.association = Some(reply.association);
                self.state = reply.state;
                self.ended |= reply.state == WorkerState::MustDie;
                Vec::new()
            }
            ToWorker::HeartbeatRefused { refusal, .. } => {
                self.ended |= refusal.is_order_to_die();
                Vec::new()
            }
            ToWorker::RequestSuicide { .. } => {
                self.ended = true;
                Vec::new()
            }
            ToWorker::GetRunningTasks { association } => {
                let held = self.attempts.iter().map(|(lease, it)| HeldAttempt {
                    lease: *lease,
                    spec: Arc::clone(&it.spec),
                    ended: (it.ends <= at).then(|| report(it)),
                });
                let held = held.collect();
                vec![ToScheduler::RunningTasks { association, held }]
            }
            ToWorker::CheckHealth { association, check } => vec![ToScheduler::HealthReport {
                association,
                check,
                ok: true,
            }],
            ToWorker::RunTask {
                association,
                launches,
                ..
            } => {
                let mut verdicts = Vec::new();
                for launch in launches {
                    let verdict = if self.refused.contains(&launch.lease) {
                        LaunchVerdict::Refused(LaunchRefusal::AlreadyOver)
                    } else {
                        let attempt = Attempt {
                            spec: launch.spec,
                            started: at,
                            ends: at + rng.within(1, 240) * 1_000,
                        };
                        self.attempts.insert(launch.lease, attempt);
                        LaunchVerdict::Accepted
                    };
                    verdicts.push((launch.lease, verdict));
                }
                vec![ToScheduler::RunTaskReply {
                    association,
                    verdicts,
                }]
            }
            ToWorker::NotifyIfTasksNotRunning {
                association,
                seq,
                leases,
            } => {
                let (held, unknown): (Vec<_>, Vec<_>) = leases
                    .into_iter()
                    .partition(|lease| self.attempts.contains_key(lease));
                self.refused.extend(unknown.iter().copied());
                let statuses = unknown.into_iter().map(|it| (it, Status::WasNotRunning));
                vec![
                    ToScheduler::UpdateStatus {
                        association,
                        statuses: statuses.collect(),
                    },
                    ToScheduler::NotifyReply {
                        association,
                        seq,
                        held,
                    },
                ]
            }
            ToWorker::StatusAck { leases, .. } => {
                for lease in leases {
                    self.attempts.remove(&lease);
                }
                Vec::new()
            }
            ToWorker::KillTask { lease, .. } => {
                if let Some(attempt) = self.attempts.get_mut(&lease) {
                    attempt.ends = at;
                }
                Vec::new()
            }
            // These pilots end without a goodbye, and have no logs.
            ToWorker::GetLogs { .. }
            | ToWorker::GetProcesses { .. }
            | ToWorker::GoodbyeAck { .. } => Vec::new(),
        }
    }
}

fn report(attempt: &Attempt) -> Report {
    let elapsed = Millis(attempt.ends - attempt.started);
    Report {
        stats: Some(AttemptStats {
            started: Wall(attempt.started),
            ended: Wall(attempt.ends),
            elapsed,
            cpu: elapsed,
            memory_peak: 0,
        }),
        ..Report::from(Outcome::Exited(0))
    }
}
