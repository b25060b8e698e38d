//! Machines: boots, agents and their incarnations.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use baton_core::protocol::worker::io::GuardOrder;
use baton_core::supervision::attempts::{Assignment, Attempt};
use baton_core::supervision::io::{Action, Ending, Event as AgentEvent};
use baton_core::supervision::takeover::{CoordinatorState, Inventory, KnownAttempt, Remnant};
use baton_core::supervision::{Identity, Supervisor};
use baton_model::fact::Holder;
use baton_model::ids::{BootId, HostId, Incarnation, IncarnationNo, LeaseId, Lineage, WorkerName};
use baton_model::message::{ToScheduler, ToWorker, WorkerAddress};
use baton_model::outcome::{KillCause, Outcome};
use baton_model::placement::{Capacity, Offer};
use baton_model::state::WorkerState;
use baton_model::task::RunKey;
use baton_model::time::Mono;

use super::coordinators::{Child, Coordinator, DiskRecord};
use super::reapers::Reaper;
use super::suspend::Sleep;
use super::{Event, World};
use crate::time::{Clock, SECOND, Time};

/// An agent looks for another scheduler after this long without a reply.
const REPLY_TIMEOUT: u64 = 11 * SECOND;

/// A running agent.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) supervisor: Supervisor,
    pub(super) paused: bool,
    mailbox: VecDeque<AgentEvent>,
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
    pub(super) records: BTreeMap<RunKey, DiskRecord>,
    /// The last order of the dead-man timer, for an agent that finds the coordinator dead.
    pub(super) guard_on_disk: Option<GuardOrder>,
    /// The incarnation was given up: it can only end.
    is_dying: bool,
    /// The incarnation has not begun yet.
    is_new_life: bool,
    pub(super) coordinator: Option<Coordinator>,
    pub(super) reaper: Option<Reaper>,
    pub(super) children: BTreeMap<LeaseId, Child>,
    pub(super) agent: Option<Agent>,
    pub(super) agent_wake: Option<Time>,
    pub(super) guard_wake: Option<Time>,
    pub(super) checks_fail: bool,
    /// It can start no process.
    pub(super) launches_fail: bool,
    pub(super) work_fails: bool,
    /// `None` while it is awake.
    pub(super) sleep: Option<Sleep>,
    /// Gone for good.
    pub(super) destroyed: bool,
    /// The coordinator was stopped at some time, or the clock is out of bounds.
    pub(super) excused: bool,
    /// It was cloned, or is a clone.
    pub(super) is_cloned: bool,
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
        self.by_lineage.insert(lineage, vec![index]);
        self.hosts.push(Host {
            name: WorkerName::new(name),
            id: HostId(index as u64 + 1),
            clock,
            boot: BootId(index as u64 * 1_000),
            lineage,
            life: IncarnationNo(0),
            records: BTreeMap::new(),
            guard_on_disk: None,
            is_dying: false,
            is_new_life: false,
            coordinator: None,
            reaper: None,
            children: BTreeMap::new(),
            agent: None,
            agent_wake: None,
            guard_wake: None,
            checks_fail: false,
            launches_fail: false,
            work_fails: false,
            sleep: None,
            destroyed: false,
            excused,
            is_cloned: false,
        });
        index
    }

    /// Adds a machine with the disk of another one, in a boot of its own.
    pub(super) fn add_clone(&mut self, original: usize, name: &str, mut clock: Clock) -> usize {
        clock.reboot(self.now);
        let index = self.add_host(name, clock);
        self.hosts[original].is_cloned = true;
        for machine in [original, index] {
            self.checkers.truth.cloned(machine, self.now);
        }
        let disk = &self.hosts[original];
        let (id, lineage, life) = (disk.id, disk.lineage, disk.life);
        let mut records = disk.records.clone();
        records.retain(|_, record| record.ended.is_some());
        let host = &mut self.hosts[index];
        host.is_cloned = true;
        host.id = id;
        host.lineage = lineage;
        host.life = life;
        host.records = records;
        self.by_lineage.entry(lineage).or_default().push(index);
        index
    }

    /// Replaces the state directory of a machine.
    fn renew_lineage(&mut self, index: usize) {
        let lineage = self.new_lineage();
        self.by_lineage.insert(lineage, vec![index]);
        let host = &mut self.hosts[index];
        host.lineage = lineage;
        host.life = IncarnationNo(0);
        host.records.clear();
    }

    /// Returns the lineage of a new state directory.
    fn new_lineage(&self) -> Lineage {
        Lineage(self.by_lineage.len() as u64 + 1)
    }

    /// Starts an agent. If its coordinator is intact, or dead and the lease still runs, it resumes
    /// the same incarnation; otherwise it kills what is left of the old one and begins the next.
    pub(super) fn agent_start(&mut self, index: usize) {
        let host = &self.hosts[index];
        if host.destroyed || host.agent.is_some() {
            return;
        }
        let now = host.clock.mono(self.now);
        let remnant = Remnant {
            // A reboot takes the last order with it.
            is_of_this_boot: true,
            is_dying: host.is_dying,
            coordinator: match &host.coordinator {
                // A stopped one cannot be reached, and is killed with the rest.
                Some(coordinator) if coordinator.paused => CoordinatorState::Unknown,
                Some(_) => CoordinatorState::Running,
                None => CoordinatorState::Dead {
                    has_order: host.guard_on_disk.is_some(),
                },
            },
        };
        if host.is_new_life {
            self.begin_life(index);
        } else if remnant.is_resumable() {
            self.resume_life(index, now);
        } else {
            self.kill_leftovers(index);
            self.begin_life(index);
        }
        let incarnation = self.hosts[index].me().incarnation;
        self.note(&incarnation, || {
            format!("h{index} agent starts as {incarnation}")
        });
        let doomed = self.hosts[index]
            .coordinator
            .as_ref()
            .is_some_and(|it| it.doomed_at.is_some());
        let first = if doomed || self.hosts[index].is_dying {
            AgentEvent::GiveUp
        } else {
            AgentEvent::Tick
        };
        self.agent_handle(index, first);
    }

    fn identity(&self, index: usize) -> Identity {
        let slots = self.mix.slots;
        let offer = Offer {
            capacity: Capacity {
                cpu_milli: 1_000 * u64::from(slots),
                ..Capacity::default()
            },
            open: true,
            ..Offer::default()
        };
        Identity {
            me: self.hosts[index].me(),
            executor: None,
            slots,
            offer: Arc::new(offer),
            bugs: self.config.bugs,
        }
    }

    fn install(&mut self, index: usize, supervisor: Supervisor) {
        self.hosts[index].agent = Some(Agent {
            supervisor,
            paused: false,
            mailbox: VecDeque::new(),
            target: index % self.schedulers.len(),
            answered: self.now,
        });
    }

    /// Resumes the incarnation with what its coordinator reports or has left on disk.
    fn resume_life(&mut self, index: usize, now: Mono) {
        let reported = self.reported_runs(index);
        let owned = self.owned_runs(index);
        let host = &mut self.hosts[index];
        if host.coordinator.is_none() {
            let mut successor = Coordinator::default();
            if let Some(order) = host.guard_on_disk {
                successor.guard.extend(order);
            }
            host.coordinator = Some(successor);
        }
        let order = host.coordinator.as_ref().and_then(|it| it.guard.order());
        self.reaper_start(index, order);
        let exits = self.reaper_exits(index);
        let sightings = self.sightings(index, &exits);
        let dying = self.hosts[index].is_dying.then_some(KillCause::Suicide);
        let inventory = Inventory::new(Vec::new(), reported, dying);
        let sight = |attempt: &Attempt| sightings(attempt.run);
        let identity = self.identity(index);
        let (mut supervisor, actions) =
            Supervisor::resume(&identity, inventory, &owned, dying, sight, now);
        if let Some(order) = order {
            supervisor.worker_mut().resume(order);
        }
        self.install(index, supervisor);
        self.settle_records(index);
        self.agent_perform_all(index, actions);
        self.rearm_guard(index);
    }

    /// Begins the next incarnation, with the ends of the one before.
    fn begin_life(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        host.is_new_life = false;
        host.is_dying = false;
        host.guard_on_disk = None;
        // Recorded as running but not found: the outcome is unknown.
        host.records.retain(|_, record| record.ended.is_some());
        host.life = host.life.next();
        host.coordinator = Some(Coordinator::default());
        let now = host.clock.mono(self.now);
        self.reaper_start(index, None);
        // They are of the incarnation before.
        self.reaper_exits(index);
        let reported = self.reported_runs(index);
        let carried = Inventory::new(Vec::<KnownAttempt>::new(), reported, None).into_ended();
        let host = &mut self.hosts[index];
        for known in &carried {
            let record = host.records.get_mut(&known.run);
            let ending = record.and_then(|record| record.ended.as_mut());
            if let (Some(ending), Some(report)) = (ending, &known.ended) {
                ending.report = report.clone();
            }
        }
        let supervisor = Supervisor::begin(&self.identity(index), carried, now);
        self.install(index, supervisor);
    }

    /// Kills the leftovers of earlier incarnations by identity.
    fn kill_leftovers(&mut self, index: usize) {
        let outcome = Outcome::Killed(KillCause::Suicide);
        let left: Vec<LeaseId> = self.hosts[index].children.keys().copied().collect();
        for lease in left {
            let host = &mut self.hosts[index];
            host.children.remove(&lease);
            self.checkers.truth.end(lease, outcome);
            let now = host.clock.mono(self.now);
            for record in host.records.values_mut() {
                if record.assignment.lease == lease {
                    record.ended = Some(Ending {
                        at: now,
                        report: outcome.into(),
                        has_bad_outputs: false,
                    });
                }
            }
        }
    }

    pub(super) fn agent_crash(&mut self, index: usize, downtime: u64) {
        if self.hosts[index].agent.take().is_some() {
            self.note(&index, || format!("h{index} agent is killed"));
        }
        let host = &self.hosts[index];
        let downtime = if host.coordinator.is_none() && host.reaper.is_none() {
            // The children are unguarded: the service manager restarts quickly.
            downtime.min(8 * SECOND)
        } else {
            downtime
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
        let events: Vec<AgentEvent> = agent.mailbox.drain(..).collect();
        self.note(&index, || format!("h{index} agent continues"));
        for event in events {
            self.agent_event(index, event);
        }
        let order = self.hosts[index].guard_on_disk;
        if self.hosts[index].reaper.is_none() {
            self.reaper_start(index, order);
        }
        if self.hosts[index].coordinator.is_none() {
            self.replace_coordinator(index);
        }
        self.agent_event(index, AgentEvent::Tick);
    }

    pub(super) fn deliver_to_host(&mut self, index: usize, to: &WorkerAddress, message: ToWorker) {
        let Some(agent) = &mut self.hosts[index].agent else {
            return;
        };
        if WorkerAddress::from(agent.supervisor.worker().me()) != *to {
            return;
        }
        if matches!(
            message,
            ToWorker::HeartbeatReply(_) | ToWorker::HeartbeatRefused { .. }
        ) {
            agent.answered = self.now;
        }
        self.note(&message, || format!("h{index} <- {message}"));
        self.agent_event(index, AgentEvent::Message(message));
    }

    pub(super) fn agent_wake(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        if host.agent_wake != Some(self.now) {
            return;
        }
        host.agent_wake = None;
        if host.agent_is_awake() {
            self.agent_handle(index, AgentEvent::Tick);
        }
    }

    /// Passes an event to an agent, queues it for a stopped one, or drops it.
    pub(super) fn agent_event(&mut self, index: usize, event: AgentEvent) {
        match &mut self.hosts[index].agent {
            Some(agent) if agent.paused => agent.mailbox.push_back(event),
            Some(_) => self.agent_handle(index, event),
            None => {}
        }
    }

    fn agent_handle(&mut self, index: usize, event: AgentEvent) {
        let host = &mut self.hosts[index];
        let now = host.clock.mono(self.now);
        let Some(agent) = &mut host.agent else { return };
        let actions = agent.supervisor.handle(now, event);
        self.agent_perform_all(index, actions);
        self.rearm_agent(index);
    }

    pub(super) fn agent_perform_all(&mut self, index: usize, actions: Vec<Action>) {
        // All of one decision are in the agent's hands before the first has an effect.
        let agent = self.hosts[index].agent.as_ref();
        let assignments: Vec<Option<Assignment>> = actions
            .iter()
            .map(|action| match action {
                Action::Launch(run) => {
                    let attempt = agent?.supervisor.attempts().get(*run)?;
                    Some(attempt.assignment.clone())
                }
                _ => None,
            })
            .collect();
        for (action, assignment) in actions.into_iter().zip(assignments) {
            self.agent_perform(index, action, assignment);
        }
    }

    fn agent_perform(&mut self, index: usize, action: Action, assignment: Option<Assignment>) {
        match action {
            Action::Send(message) => self.agent_send(index, message),
            Action::Check(run) if self.hosts[index].launches_fail => {
                self.agent_event(index, AgentEvent::HostFault(run, "no room".into()));
            }
            Action::Check(run) => {
                let code = i32::from(self.hosts[index].checks_fail);
                let now = self.hosts[index].clock.mono(self.now);
                let ending = Ending {
                    at: now,
                    report: Outcome::Exited(code).into(),
                    has_bad_outputs: false,
                };
                self.agent_event(index, AgentEvent::Ended(run, ending));
            }
            Action::GiveUp => self.hosts[index].is_dying = true,
            Action::Guard(order) => {
                self.reaper_guard(index, Some(order));
                self.coordinator_order(index, action, assignment);
            }
            Action::ReadLogs(..) | Action::ReadProcesses(..) => {}
            Action::EndLife => self.incarnation_ends(index),
            order => self.coordinator_order(index, order, assignment),
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
        self.reaper_guard(index, None);
        let host = &mut self.hosts[index];
        let agent = host.agent.take();
        host.is_new_life = true;
        if agent.is_some_and(|agent| agent.supervisor.worker().is_copy()) {
            self.renew_lineage(index);
        }
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
        let now = self.now;
        let host = &mut self.hosts[index];
        host.clock.reboot(now);
        host.boot = host.boot.next();
        host.guard_on_disk = None;
        host.records.retain(|_, record| record.ended.is_some());
        if wipe {
            self.renew_lineage(index);
        }
        self.at(downtime, Event::AgentStart(index));
    }

    /// Kills every process of a machine; nothing records the outcomes.
    pub(super) fn host_dies(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        host.agent = None;
        host.coordinator = None;
        host.reaper = None;
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
            .and_then(|agent| agent.supervisor.next_due())
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
                        .is_some_and(|it| it.supervisor.attempts().is_empty())
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
                    .is_some_and(|agent| agent.supervisor.worker().state() == WorkerState::Healthy)
        })
    }
}
