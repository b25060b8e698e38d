//! Clients that submit and cancel instances, and the operator, who kills attempts and confirms that
//! machines are gone.

use std::collections::BTreeMap;

use baton_core::scheduler::{Command, Input, Submission};
use baton_model::conditions::{Dependency, DependencyRule, Subject};
use baton_model::fact::{Fact, Verdict};
use baton_model::ids::{Epoch, InstanceId, Lineage, RequestId, WorkerName};
use baton_model::library::IdempotencyKey;
use baton_model::outcome::KillMode;
use baton_model::placement::ResourceRequest;
use baton_model::spec::{Exclusive, InstanceSpec, RetryBackoff, RetryBudget, Scale, Work};
use baton_model::task::{Resources, TaskSpec};
use baton_model::time::Millis;

use super::coordinators::Coordinator;
use super::hosts::Host;
use super::{Event, SAFETY_PHASE, World};
use crate::plans::expectations;
use crate::rng::Rng;
use crate::swarm::Mix;
use crate::time::{SECOND, Time};

/// The interval between two rounds of the clients.
const ROUND: u64 = 5 * SECOND;

/// An instance that a client submits, under its number as idempotency key.
#[derive(Debug)]
struct PlannedInstance {
    /// It has the number as its name.
    spec: Box<InstanceSpec>,
    from: Time,
    /// Its id, once a leader has acknowledged it.
    acknowledged: Option<InstanceId>,
    cancel_at: Option<Time>,
    /// When an operator kills the attempt that runs.
    kill_at: Option<Time>,
    ended: bool,
}

/// The clients and the operator.
#[derive(Debug)]
pub(super) struct Client {
    planned: BTreeMap<u64, PlannedInstance>,
    /// The planned instances by id. Without a store there may be several ids for one: a leader that
    /// has lost everything gets every submission again.
    numbers: BTreeMap<InstanceId, u64>,
    open: BTreeMap<RequestId, u64>,
    last_request: RequestId,
    /// Without a store: the epoch of the scheduler that got every submission again.
    resubmitted_to: Option<Epoch>,
}

/// A task: for the simulation, work with a runner that can die alone.
fn task() -> TaskSpec {
    TaskSpec {
        name: "task".to_owned(),
        owner: None,
        processes: Vec::new(),
        max_failures: 1,
        max_concurrency: 0,
        finalization_wait: Millis::from_secs(3),
        user: None,
        resources: Resources::default(),
        ports: BTreeMap::new(),
    }
}

/// What the clients have learned from the store.
#[derive(Debug)]
pub(super) struct ClientRecord {
    numbers: BTreeMap<InstanceId, u64>,
    /// By number: the acknowledged id, and whether it has ended.
    planned: BTreeMap<u64, (Option<InstanceId>, bool)>,
}

impl Client {
    /// What the clients have learned so far.
    pub(super) fn record(&self) -> ClientRecord {
        let state = |entry: &PlannedInstance| (entry.acknowledged, entry.ended);
        let planned = self.planned.iter().map(|(number, it)| (*number, state(it)));
        ClientRecord {
            numbers: self.numbers.clone(),
            planned: planned.collect(),
        }
    }

    /// The store has gone back to what it was then: the rest is submitted again.
    pub(super) fn restore(&mut self, record: ClientRecord) {
        self.numbers = record.numbers;
        self.open.clear();
        for (number, (acknowledged, ended)) in record.planned {
            if let Some(entry) = self.planned.get_mut(&number) {
                (entry.acknowledged, entry.ended) = (acknowledged, ended);
            }
        }
    }

    /// The specs of all planned instances.
    pub(super) fn specs_mut(&mut self) -> impl Iterator<Item = &mut InstanceSpec> {
        self.planned.values_mut().map(|entry| &mut *entry.spec)
    }

    pub(super) fn new(mix: &Mix, rng: &mut Rng) -> Self {
        let planned = (1..=u64::from(mix.instances))
            .map(|number| {
                let strict = rng.chance(mix.strict);
                let work = if rng.chance(mix.tasks) {
                    Work::Task(Box::new(task()))
                } else {
                    Work::default()
                };
                // Different ones on one worker, shorter and longer than the lease of 90 s.
                let lost_after = rng.chance(300).then(|| {
                    let seconds = rng.pick(&[45, 60, 150, 240]);
                    Millis::from_secs(seconds)
                });
                let spec = InstanceSpec {
                    name: number.to_string(),
                    lost_after,
                    work,
                    owner: format!("owner{}", rng.below(3)),
                    request: resource_request(rng),
                    exclusive: if strict {
                        Exclusive::Strict
                    } else {
                        Exclusive::Timed
                    },
                    retry: RetryBudget {
                        failures_max: 2,
                        losses_max: 1_000,
                        backoff: RetryBackoff {
                            first: Millis(rng.below(2_000)),
                            max: Millis(3_000),
                        },
                        scale: Scale::default(),
                        fallback: Vec::new(),
                    },
                    expected: expectations(number),
                    ..InstanceSpec::default()
                };
                let from = Time(rng.below(SAFETY_PHASE * 9 / 10));
                let cancel_at = rng
                    .chance(mix.cancelled)
                    .then(|| from.after(rng.below(120 * SECOND)));
                let kill_at = rng
                    .chance(mix.cancelled)
                    .then(|| from.after(rng.below(120 * SECOND)));
                let entry = PlannedInstance {
                    spec: Box::new(spec),
                    from,
                    acknowledged: None,
                    cancel_at,
                    kill_at,
                    ended: false,
                };
                (number, entry)
            })
            .collect();
        Self {
            planned,
            numbers: BTreeMap::new(),
            open: BTreeMap::new(),
            last_request: RequestId(0),
            resubmitted_to: None,
        }
    }

    /// The instance that the one of this number may start after.
    fn upstream(&self, number: u64) -> Option<InstanceId> {
        self.planned.get(&number.checked_sub(1)?)?.acknowledged
    }

    /// True if the clients have seen the end of an instance: without a store, no later leader gets it
    /// again.
    pub(super) fn has_ended(&self, instance: InstanceId) -> bool {
        let number = self.numbers.get(&instance);
        let planned = number.and_then(|number| self.planned.get(number));
        planned.is_some_and(|planned| planned.ended)
    }

    pub(super) const fn new_request(&mut self) -> RequestId {
        self.last_request = self.last_request.next();
        self.last_request
    }

    /// Observes a fact of the history. Returns the number of a submission that had created something
    /// before.
    pub(super) fn observe(&mut self, fact: &Fact) -> Option<u64> {
        let ended = match fact {
            Fact::InstancesSubmitted { first, spec, .. } if spec.part.is_none() => {
                let number = spec.name.parse().ok()?;
                let again = self.numbers.values().any(|known| *known == number);
                self.numbers.insert(*first, number);
                return again.then_some(number);
            }
            Fact::AttemptEnded { lease, verdict, .. } if *verdict != Verdict::Requeued => {
                lease.attempt.instance
            }
            Fact::InstancesHalted { first, .. } => *first,
            _ => return None,
        };
        let entry = self.planned.get_mut(self.numbers.get(&ended)?)?;
        entry.ended = true;
        None
    }
}

/// Some instances start after the one before them.
fn after(number: u64, upstream: InstanceId) -> Option<Dependency> {
    let rule = match number % 6 {
        0 => DependencyRule::Ok,
        2 => DependencyRule::Any,
        4 => DependencyRule::Fail,
        _ => return None,
    };
    let upstream = Subject::Instances {
        first: upstream,
        last: upstream,
    };
    Some(Dependency { upstream, rule })
}

/// The idempotency key of a submission.
pub(super) const fn key(number: u64) -> IdempotencyKey {
    IdempotencyKey {
        key: (number, 0),
        request: number,
    }
}

/// Draws a request between nothing and the capacity of the smallest worker.
fn resource_request(rng: &mut Rng) -> ResourceRequest {
    let request = Resources {
        cpu_milli: 250 * rng.below(5),
        ..Resources::default()
    };
    ResourceRequest {
        resources: request,
        ..ResourceRequest::default()
    }
}

impl World {
    pub(super) fn client_wake(&mut self) {
        self.at(ROUND, Event::ClientWake);
        self.client_round();
    }

    pub(super) fn client_round(&mut self) {
        let Some((leader, core)) = self.leader() else {
            return;
        };
        let epoch = core.epoch();
        if !self.is_durable() && self.client.resubmitted_to != Some(epoch) {
            // A scheduler without a store needs every submission again.
            self.client.resubmitted_to = Some(epoch);
            for entry in self.client.planned.values_mut() {
                entry.acknowledged = None;
            }
        }
        self.submit_due(leader);
        self.cancel_due(leader);
        self.kill_due(leader);
        self.operate(leader);
        self.arrays_round(leader);
        self.workflows_round();
    }

    fn submit_due(&mut self, leader: usize) {
        let now = self.now;
        let due: Vec<_> = self
            .client
            .planned
            .iter()
            .filter(|(_, entry)| entry.acknowledged.is_none() && !entry.ended && entry.from <= now)
            .map(|(number, entry)| (*number, entry.spec.clone()))
            .collect();
        for (number, mut spec) in due {
            let Some((_, core)) = self.leader() else {
                return;
            };
            let mark = core.end_mark();
            let is_live = |id: &InstanceId| core.ledger().is_live(*id, *id);
            let upstream = self.client.upstream(number).filter(is_live);
            if self.is_durable() {
                spec.conditions.after = upstream
                    .and_then(|id| after(number, id))
                    .into_iter()
                    .collect();
            }
            let mark = (!spec.conditions.after.is_empty()).then_some(mark);
            let request = self.client.new_request();
            self.client.open.insert(request, number);
            let submission = Submission {
                spec,
                array: None,
                more: Vec::new(),
                key: Some(key(number)),
            };
            let command = Command::Submit { submission, mark };
            self.scheduler_input(leader, Input::command(request, command));
        }
    }

    pub(super) fn submission_acknowledged(&mut self, request: RequestId, instance: InstanceId) {
        let Some(number) = self.client.open.remove(&request) else {
            return;
        };
        if self.checkers.is_forgotten(instance) {
            // A leader that has not noticed the loss yet still knows it; the client submits it again.
            return;
        }
        let known = self.store.ledger.known().contains(instance);
        self.checkers.submission_acknowledged(instance, known);
        if let Some(entry) = self.client.planned.get_mut(&number) {
            entry.acknowledged = Some(instance);
        }
    }

    fn cancel_due(&mut self, leader: usize) {
        let now = self.now;
        let due: Vec<InstanceId> = self
            .client
            .planned
            .values()
            .filter(|entry| !entry.ended && entry.cancel_at.is_some_and(|at| at <= now))
            .filter_map(|entry| entry.acknowledged)
            .collect();
        for instance in due {
            let request = self.client.new_request();
            let (first, last) = (instance, instance);
            let mode = self.draw_kill_mode();
            let command = Command::Cancel { first, last, mode };
            self.scheduler_input(leader, Input::command(request, command));
        }
    }

    /// An operator kills attempts, whether or not they run.
    fn kill_due(&mut self, leader: usize) {
        let now = self.now;
        let planned = self.client.planned.values_mut();
        let due: Vec<InstanceId> = planned
            .filter(|entry| !entry.ended && entry.acknowledged.is_some())
            .filter_map(|entry| {
                entry.kill_at.take_if(|at| *at <= now)?;
                entry.acknowledged
            })
            .collect();
        for instance in due {
            let request = self.client.new_request();
            let mode = self.draw_kill_mode();
            let command = Command::KillAttempt {
                instance,
                attempt: None,
                mode,
            };
            self.scheduler_input(leader, Input::command(request, command));
        }
    }

    fn draw_kill_mode(&mut self) -> KillMode {
        if self.work_rng.chance(200) {
            KillMode::Now
        } else {
            KillMode::Graceful
        }
    }

    /// The operator forgets the workers that still hold a lease although nothing runs there.
    fn operate(&mut self, leader: usize) {
        let Some((_, core)) = self.leader() else {
            return;
        };
        let holders: BTreeMap<Lineage, WorkerName> = core
            .ledger()
            .open_leases()
            .map(|lease| {
                (
                    lease.holder.incarnation.lineage,
                    lease.holder.worker.clone(),
                )
            })
            .collect();
        for (lineage, worker) in holders {
            // What was forgotten before may run on this worker by now.
            if !self.is_gone(lineage) {
                continue;
            }
            let request = self.client.new_request();
            let lineage = Some(lineage);
            let command = Command::Forget { worker, lineage };
            self.scheduler_input(leader, Input::command(request, command));
        }
    }

    /// True if the machines are gone for good, or have given up a state directory that was cloned,
    /// and nothing runs there.
    fn is_gone(&self, lineage: Lineage) -> bool {
        let Some((_, core)) = self.leader() else {
            return false;
        };
        let mut leases = core.ledger().open_leases();
        let is_held = leases.any(|lease| {
            let holder = lease.holder.incarnation;
            let mut hosts = self.hosts.iter();
            holder.lineage == lineage
                && hosts.any(|host| !host.destroyed && host.me().incarnation == holder)
        });
        let mut hosts = self.by_lineage[&lineage].iter();
        let gave_up = hosts.clone().any(|at| self.hosts[*at].lineage != lineage);
        let may_hold = !gave_up || is_held;
        hosts.all(|index| {
            let host = &self.hosts[*index];
            let gone = host.destroyed || self.links.is_severed(*index);
            (gone || !may_hold) && host.workload.leases().is_empty()
        })
    }

    /// True when everything submitted has ended and nothing is left over.
    pub(super) fn is_settled(&self) -> bool {
        self.client.planned.values().all(|entry| entry.ended)
            && self.arrays.is_settled()
            && self.unfinished_run().is_none()
            && self
                .leader()
                .is_some_and(|(_, core)| core.ledger().is_settled())
            && self.workers_hold_nothing()
            && self.workers_are_healthy()
    }

    pub(super) fn check_end(&mut self) {
        let mut planned = self.client.planned.iter();
        if let Some((number, entry)) = planned.find(|(_, entry)| !entry.ended) {
            let id = entry.acknowledged;
            let found = self.leader().map(|(_, core)| core.ledger().find(id?));
            let what = match found {
                None => format!("submission {number} has not ended: there is no leader"),
                Some(found) => format!("submission {number} has not ended: {found:?}"),
            };
            return self.checkers.violate("stuck", what);
        }
        let unfinished = self.arrays.unfinished().or_else(|| self.unfinished_run());
        if let Some(what) = unfinished {
            return self.checkers.violate("stuck", what);
        }
        if let Some(lease) = self.checkers.truth.any_live() {
            return self
                .checkers
                .violate("diverged", format!("{lease} is still alive"));
        }
        if !self.is_settled() {
            let held: Vec<_> = self
                .hosts
                .iter()
                .filter(|host| !host.destroyed)
                .map(|host| {
                    let agent = host.agent.as_ref();
                    let held = agent.map(|it| it.supervisor.worker().held().collect::<Vec<_>>());
                    (
                        host.name.to_string(),
                        agent.map(|it| it.supervisor.worker().state()),
                        held,
                    )
                })
                .collect();
            self.checkers
                .violate("diverged", format!("workers do not settle: {held:?}"));
            return;
        }
        let held = self.leader().and_then(|(_, core)| {
            let mut seats = core.seats().iter();
            let (name, _) = seats.find(|(name, seat)| {
                seat.held() > 0 || core.used_by(name).is_some_and(|used| used.cpu_milli > 0)
            })?;
            Some(format!("{name} is held, and nothing is left to do"))
        });
        if let Some(what) = held {
            return self.checkers.violate("member-kept", what);
        }
        // A worker that is cut off holds what it has not been told to forget.
        let holds = |(index, host): (usize, &Host)| {
            let is_told = |it: &&Coordinator| !it.process.has_requests();
            let coordinator = host.coordinator.as_ref().filter(is_told);
            let is_reached = !host.destroyed && !self.links.is_severed(index);
            is_reached && coordinator.is_some_and(|it| it.process.host().holds_devices())
        };
        if let Some(index) = self.hosts.iter().enumerate().position(holds) {
            let what = format!("h{index} holds devices, and nothing runs there");
            self.checkers.violate("device-lost", what);
        }
    }
}
