//! Machines: boots, agents and their incarnations.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use baton_core::protocol::worker::Worker;
use baton_core::protocol::worker::io::{Effect, Input, Record};
use baton_model::fact::Holder;
use baton_model::ids::{BootId, HostId, Incarnation, IncarnationNo, Lineage, WorkerName};
use baton_model::message::{ToScheduler, ToWorker, WorkerAddress};
use baton_model::outcome::{KillCause, Outcome};
use baton_model::placement::{Capacity, Offer};
use baton_model::state::WorkerState;

use super::coordinators::{Child, Coordinator, DiskRecord};
use super::suspend::Sleep;
use super::{Event, World};
use crate::time::{Clock, SECOND, Time};
use baton_model::ids::LeaseId;

/// An agent looks for another scheduler after this long without a reply.
const REPLY_TIMEOUT: u64 = 11 * SECOND;

/// A running agent.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) worker: Worker,
    pub(super) paused: bool,
    mailbox: VecDeque<Input>,
    /// The scheduler that it connects to.
    target: usize,
    answered: Time,
}

/// One machine.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) name: WorkerName,
    pub(super) id: HostId,
    pub(super) clock: Clock,
    pub(super) boot: BootId,
    /// The state directory.
    pub(super) lineage: Lineage,
    pub(super) life: IncarnationNo,
    pub(super) records: BTreeMap<LeaseId, DiskRecord>,
    pub(super) coordinator: Option<Coordinator>,
    pub(super) children: BTreeMap<LeaseId, Child>,
    pub(super) agent: Option<Agent>,
    pub(super) agent_wake: Option<Time>,
    pub(super) guard_wake: Option<Time>,
    pub(super) checks_fail: bool,
    /// `None` while it is awake.
    pub(super) sleep: Option<Sleep>,
    /// Gone for good.
    pub(super) destroyed: bool,
    /// The coordinator was stopped at some time, or the clock is out of bounds.
    pub(super) excused: bool,
}

impl Host {
    pub(super) fn me(&self) -> Holder {
        Holder {
            worker: self.name.clone(),
            incarnation: Incarnation {
                lineage: self.lineage,
                number: self.life,
            },
            host: self.id,
            boot: self.boot,
        }
    }

    pub(super) fn agent_is_awake(&self) -> bool {
        self.agent.as_ref().is_some_and(|agent| !agent.paused)
    }
}

impl World {
    pub(super) fn add_host(&mut self, name: &str, clock: Clock) -> usize {
        let index = self.hosts.len();
        let lineage = self.new_lineage();
        let excused = !clock.in_bounds() || self.schedulers.iter().any(|it| !it.clock.in_bounds());
        self.by_lineage.insert(lineage, index);
        self.hosts.push(Host {
            name: WorkerName::new(name),
            id: HostId(index as u64 + 1),
            clock,
            boot: BootId(index as u64 * 1_000),
            lineage,
            life: IncarnationNo(0),
            records: BTreeMap::new(),
            coordinator: None,
            children: BTreeMap::new(),
            agent: None,
            agent_wake: None,
            guard_wake: None,
            checks_fail: false,
            sleep: None,
            destroyed: false,
            excused,
        });
        index
    }

    /// Returns the lineage of a new state directory.
    fn new_lineage(&self) -> Lineage {
        Lineage(self.by_lineage.len() as u64 + 1)
    }

    /// Starts an agent. If its coordinator is intact, it resumes the same incarnation; otherwise
    /// it kills what is left of the old one and begins the next.
    pub(super) fn agent_start(&mut self, index: usize) {
        let host = &self.hosts[index];
        if host.destroyed || host.agent.is_some() {
            return;
        }
        let intact = host.coordinator.as_ref().is_some_and(|it| !it.paused);
        if !intact {
            self.begin_next_incarnation(index);
        }
        let host = &mut self.hosts[index];
        let now = host.clock.mono(self.now);
        let records = host
            .records
            .iter()
            .map(|(lease, disk)| Record {
                lease: *lease,
                spec: disk.spec.clone(),
                ended: disk.ended.clone(),
            })
            .collect();
        let slots = self.mix.slots;
        let offer = Offer {
            capacity: Capacity {
                cpu_milli: 1_000 * u64::from(slots),
                ..Capacity::default()
            },
            open: true,
            ..Offer::default()
        };
        let bugs = self.config.bugs;
        let mut worker = Worker::begin(host.me(), slots, Arc::new(offer), bugs, records, now);
        if let Some(order) = host.coordinator.as_ref().and_then(|it| it.guard.order()) {
            worker.resume(order);
        }
        let incarnation = host.me().incarnation;
        host.agent = Some(Agent {
            worker,
            paused: false,
            mailbox: VecDeque::new(),
            target: index % self.schedulers.len(),
            answered: self.now,
        });
        self.note(&incarnation, || {
            format!("h{index} agent starts as {incarnation}")
        });
        let fired = self.hosts[index]
            .coordinator
            .as_ref()
            .is_some_and(|it| it.guard.has_fired());
        let first = if fired {
            Input::GuardFired
        } else {
            Input::Tick
        };
        self.agent_handle(index, first);
    }

    /// Kills the leftovers of earlier incarnations by identity, then increments the counter.
    fn begin_next_incarnation(&mut self, index: usize) {
        let left: Vec<LeaseId> = self.hosts[index].children.keys().copied().collect();
        for lease in left {
            let outcome = Outcome::Killed(KillCause::Suicide);
            self.hosts[index].children.remove(&lease);
            self.checkers.truth.end(lease, outcome);
            if let Some(record) = self.hosts[index].records.get_mut(&lease) {
                record.ended = Some(outcome.into());
            }
        }
        let host = &mut self.hosts[index];
        // Recorded as running but not found: the outcome is unknown.
        host.records.retain(|_, record| record.ended.is_some());
        host.life = host.life.next();
        host.coordinator = Some(Coordinator::default());
    }

    pub(super) fn agent_crash(&mut self, index: usize, downtime: u64) {
        if self.hosts[index].agent.take().is_some() {
            self.note(&index, || format!("h{index} agent is killed"));
        }
        let downtime = match &self.hosts[index].coordinator {
            // The children are unguarded: the service manager restarts quickly.
            None => downtime.min(8 * SECOND),
            Some(_) => downtime,
        };
        self.at(downtime, Event::AgentStart(index));
    }

    pub(super) fn agent_pause(&mut self, index: usize) {
        if let Some(agent) = &mut self.hosts[index].agent {
            agent.paused = true;
            self.note(&index, || format!("h{index} agent is stopped"));
        }
    }

    pub(super) fn agent_resume(&mut self, index: usize) {
        let Some(agent) = &mut self.hosts[index].agent else {
            return;
        };
        if !agent.paused {
            return;
        }
        agent.paused = false;
        let inputs: Vec<Input> = agent.mailbox.drain(..).collect();
        self.note(&index, || format!("h{index} agent continues"));
        for input in inputs {
            self.agent_input(index, input);
        }
        self.agent_input(index, Input::Tick);
    }

    pub(super) fn deliver_to_host(&mut self, index: usize, to: &WorkerAddress, message: ToWorker) {
        let Some(agent) = &mut self.hosts[index].agent else {
            return;
        };
        if agent.worker.me().incarnation != to.incarnation {
            return;
        }
        if matches!(
            message,
            ToWorker::HeartbeatReply(_) | ToWorker::HeartbeatRefused { .. }
        ) {
            agent.answered = self.now;
        }
        self.note(&message, || format!("h{index} <- {message}"));
        self.agent_input(index, Input::Message(message));
    }

    pub(super) fn agent_wake(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        if host.agent_wake != Some(self.now) {
            return;
        }
        host.agent_wake = None;
        if host.agent_is_awake() {
            self.agent_handle(index, Input::Tick);
        }
    }

    /// Passes an input to an agent, queues it for a stopped one, or drops it.
    pub(super) fn agent_input(&mut self, index: usize, input: Input) {
        match &mut self.hosts[index].agent {
            Some(agent) if agent.paused => agent.mailbox.push_back(input),
            Some(_) => self.agent_handle(index, input),
            None => {}
        }
    }

    fn agent_handle(&mut self, index: usize, input: Input) {
        let host = &mut self.hosts[index];
        let now = host.clock.mono(self.now);
        let Some(agent) = &mut host.agent else { return };
        for effect in agent.worker.handle(now, input) {
            self.agent_perform(index, effect);
        }
        self.rearm_agent(index);
    }

    fn agent_perform(&mut self, index: usize, effect: Effect) {
        match effect {
            Effect::Send(message) => self.agent_send(index, message),
            Effect::RunCheck(check) => {
                let ok = !self.hosts[index].checks_fail;
                self.agent_input(index, Input::CheckDone(check, ok));
            }
            Effect::ReadLogs(..) => {}
            Effect::EndLife => self.incarnation_ends(index),
            command => self.coordinator_command(index, command),
        }
    }

    fn agent_send(&mut self, index: usize, message: ToScheduler) {
        let schedulers = self.schedulers.len();
        let Some(agent) = &mut self.hosts[index].agent else {
            return;
        };
        let is_heartbeat = matches!(message, ToScheduler::ProcessHeartbeat(_));
        if is_heartbeat && self.now.0 - agent.answered.0 > REPLY_TIMEOUT {
            agent.target = (agent.target + 1) % schedulers;
            agent.answered = self.now;
        }
        let target = agent.target;
        self.send_to_scheduler(index, target, message);
    }

    /// The worker reports that everything of this incarnation has ended.
    fn incarnation_ends(&mut self, index: usize) {
        let incarnation = self.hosts[index].me().incarnation;
        self.note(&incarnation, || format!("h{index} life {incarnation} ends"));
        let alive = self.hosts[index].children.keys().next().copied();
        self.checkers.incarnation_ended(incarnation, alive);
        let host = &mut self.hosts[index];
        host.agent = None;
        host.life = host.life.next();
        host.coordinator = Some(Coordinator::default());
        if self.has_namesake(index) {
            // Two machines with one name: the operator switches off the condemned one.
            self.hosts[index].destroyed = true;
            return;
        }
        let pause = 5 * SECOND + self.fault_rng.below(10 * SECOND);
        self.at(pause, Event::AgentStart(index));
    }

    /// Whether another machine of the same name can take over.
    fn has_namesake(&self, index: usize) -> bool {
        self.hosts.iter().enumerate().any(|(other, host)| {
            other != index
                && host.name == self.hosts[index].name
                && !host.destroyed
                && !self.links.is_severed(other)
        })
    }

    /// Kills everything on the machine at once; the disk survives, unless the state directory is
    /// wiped, too.
    pub(super) fn host_reboot(&mut self, index: usize, wipe: bool, downtime: u64) {
        self.note(&(index, wipe), || {
            format!("h{index} reboots (wiped: {wipe})")
        });
        self.host_dies(index);
        let lineage = self.new_lineage();
        let host = &mut self.hosts[index];
        host.boot = host.boot.next();
        host.records.retain(|_, record| record.ended.is_some());
        if wipe {
            host.lineage = lineage;
            host.life = IncarnationNo(0);
            host.records.clear();
            self.by_lineage.insert(lineage, index);
        }
        self.at(downtime, Event::AgentStart(index));
    }

    /// Kills every process of a machine; nothing records the outcomes.
    pub(super) fn host_dies(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        host.agent = None;
        host.coordinator = None;
        for (lease, _) in std::mem::take(&mut host.children) {
            self.checkers.truth.end(lease, Outcome::Signaled(9));
        }
    }

    /// Schedules the wake-up of an agent for the next deadline of its worker.
    pub(super) fn rearm_agent(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        let Some(due) = host
            .agent
            .as_ref()
            .and_then(|agent| agent.worker.next_due())
        else {
            return;
        };
        let at = host.clock.when(due).max(self.now.after(1));
        if host
            .agent_wake
            .is_none_or(|wake| wake > at || wake < self.now)
        {
            host.agent_wake = Some(at);
            self.at_time(at, Event::AgentWake(index));
        }
    }

    /// Whether no worker holds an attempt or an unacknowledged record.
    pub(super) fn workers_hold_nothing(&self) -> bool {
        self.hosts.iter().enumerate().all(|(index, host)| {
            let idle = || {
                host.records.is_empty()
                    && host
                        .agent
                        .as_ref()
                        .is_some_and(|it| it.worker.held().next().is_none())
            };
            host.children.is_empty() && (host.destroyed || self.links.is_severed(index) || idle())
        })
    }

    /// Whether every reachable worker is HEALTHY.
    pub(super) fn workers_are_healthy(&self) -> bool {
        self.hosts.iter().enumerate().all(|(index, host)| {
            host.destroyed
                || self.links.is_severed(index)
                || host
                    .agent
                    .as_ref()
                    .is_some_and(|agent| agent.worker.state() == WorkerState::Healthy)
        })
    }
}
