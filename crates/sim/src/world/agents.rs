//! Agents: their events, and what they do about the decisions of the real supervisor.

use std::collections::VecDeque;
use std::sync::Arc;

use baton_core::protocol::worker::io::GuardOrder;
use baton_core::supervision::attempts::Assignment;
use baton_core::supervision::io::{Action, Ending, Event as AgentEvent, Sighting};
use baton_core::supervision::takeover::KnownAttempt;
use baton_core::supervision::{Identity, Supervisor};
use baton_model::coordinator::{AttemptPaths, DeviceClaim, Launch, Reply, Request};
use baton_model::cpu::{CORE, Pin};
use baton_model::device::{GPU, WHOLE};
use baton_model::ids::LeaseId;
use baton_model::message::{HostSize, ToScheduler, ToWorker, WorkerAddress};
use baton_model::outcome::KillCause;
use baton_model::placement::{Capacity, GROUP_LABEL, Offer};
use baton_model::task::RunKey;
use baton_model::time::Millis;

use super::hosts::Handover;
use super::{Event, World};
use crate::checkers::{self, CPUS, DEVICES, outputs_of};
use crate::machine::processes::Parent;
use crate::swarm::FaultKind;
use crate::time::{SECOND, Time};

/// An agent looks for another scheduler after this long without a reply.
const REPLY_TIMEOUT: u64 = 11 * SECOND;
/// Launches over which agent and coordinator die, of a thousand.
const CRASH_AT_LAUNCH: u64 = 10;
/// A health check process that takes longer has failed.
const CHECK_MAX: Millis = Millis::from_secs(10);

/// A running agent.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) supervisor: Supervisor,
    pub(super) paused: bool,
    mailbox: VecDeque<AgentEvent>,
    /// Replies of the coordinator that it has not read; `None` is the end of the connection.
    pub(super) inbox: VecDeque<Option<Reply>>,
    /// Requests to the coordinator that it has not sent.
    pub(super) requests: Vec<Request>,
    /// The order of the dead-man timer that is in force.
    pub(super) guard: Option<GuardOrder>,
    /// The scheduler that it connects to.
    target: usize,
    answered: Time,
}

impl World {
    pub(super) fn identity(&self, index: usize) -> Identity {
        let slots = self.mix.slots;
        let offer = Offer {
            capacity: Capacity {
                cpu_milli: 1_000 * u64::from(slots),
                ..Capacity::default()
            },
            labels: self
                .gangs
                .group(&self.hosts[index].name)
                .map(|group| (GROUP_LABEL.to_owned(), group))
                .into_iter()
                .collect(),
            open: true,
            ..Offer::default()
        };
        Identity {
            me: self.hosts[index].me(),
            executor: None,
            slots,
            offer: Arc::new(offer),
            version: Arc::default(),
            host: HostSize::default(),
            lifetime: self.hosts[index].lifetime,
            bugs: self.config.bugs,
        }
    }

    /// The agent runs from now on, and has greeted its coordinator.
    pub(super) fn install(
        &mut self,
        index: usize,
        supervisor: Supervisor,
        guard: Option<GuardOrder>,
    ) {
        self.hosts[index].agent = Some(Agent {
            supervisor,
            paused: false,
            mailbox: VecDeque::new(),
            inbox: VecDeque::new(),
            requests: Vec::new(),
            guard,
            target: index % self.schedulers.len(),
            answered: self.now,
        });
        self.reaper_guard(index, guard);
        self.attach(index);
    }

    /// Queues the first requests to a coordinator.
    pub(super) fn attach(&mut self, index: usize) {
        let room = u64::from(self.mix.room);
        if let Some(agent) = &mut self.hosts[index].agent {
            let amounts = vec![room];
            let (devices, core_nodes) = (self.mix.device_lists(), self.mix.core_nodes());
            agent.requests.push(Request::Capacity {
                amounts,
                devices,
                core_nodes,
            });
            let guard = agent.guard.map(Into::into);
            agent.requests.extend(guard.map(Request::Guard));
        }
    }

    pub(super) fn agent_crash(&mut self, index: usize, downtime: u64) {
        self.agent_dies(index);
        let host = &self.hosts[index];
        let downtime = if host.coordinator.is_none() && host.reaper.is_none() {
            // The children are unguarded: the service manager restarts quickly.
            downtime.min(8 * SECOND)
        } else {
            downtime
        };
        self.at(downtime, Event::AgentStart(index));
    }

    pub(super) fn agent_dies(&mut self, index: usize) {
        if self.hosts[index].agent.take().is_none() {
            return;
        }
        self.note(&index, || format!("h{index} agent is killed"));
        let now = self.now;
        let host = &mut self.hosts[index];
        host.exits.clear();
        host.processes.reparent(Parent::Agent, Parent::Init);
        self.note_overdue(index);
        // A stopped coordinator notices when it continues; nothing depends on it.
        let host = &mut self.hosts[index];
        let (coordinator, mut machine) = host.machine(now);
        if let Some(coordinator) = coordinator.filter(|it| !it.paused) {
            let turned = coordinator.process.disconnect(&mut machine);
            self.coordinator_turned(index, turned);
        }
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
        self.reap_children(index);
        self.reaper_start(index);
        self.agent_reads(index);
        for event in events {
            self.agent_event(index, event);
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

    /// An agent reads what its coordinator has sent.
    pub(super) fn agent_reads(&mut self, index: usize) {
        while let Some(agent) = self.hosts[index].agent.as_mut().filter(|it| !it.paused) {
            match agent.inbox.pop_front() {
                Some(Some(reply)) => self.agent_replied(index, reply),
                Some(None) => self.replace_coordinator(index),
                None => return,
            }
        }
    }

    fn agent_replied(&mut self, index: usize, reply: Reply) {
        if let Reply::Refused { run } | Reply::HostFault { run, .. } = reply {
            // It was not launched, so it has no end that could be lost.
            self.hosts[index].leases.remove(&run);
        }
        let agent = self.hosts[index].agent.as_ref();
        let attempts = agent.map(|agent| agent.supervisor.attempts());
        let attempt = |run| attempts.and_then(|attempts| attempts.get(run));
        let event = match reply {
            Reply::Ended(end) => {
                let lease = attempt(end.run).map(|it| it.assignment.lease);
                let ending = with_outputs(lease, Ending::recorded(&end));
                Some(AgentEvent::Ended(end.run, ending))
            }
            Reply::HostFault { run, reason } => Some(AgentEvent::HostFault(run, reason.into())),
            Reply::Unknown { run } => {
                let known = attempt(run).map(|it| (it.assignment.lease, it.started));
                let sighting = known.map_or(Sighting::Unknown, |(lease, started)| {
                    self.sight(index, lease, started)
                });
                Some(AgentEvent::Unknown(run, sighting))
            }
            plain => AgentEvent::of_reply(&plain),
        };
        if let Some(event) = event {
            self.agent_handle(index, event);
        }
    }

    pub(super) fn agent_handle(&mut self, index: usize, event: AgentEvent) {
        let host = &mut self.hosts[index];
        let now = host.clock.mono(self.now);
        let Some(agent) = &mut host.agent else { return };
        let actions = agent.supervisor.handle(now, event);
        self.agent_perform_all(index, actions);
    }

    pub(super) fn agent_perform_all(&mut self, index: usize, actions: Vec<Action>) {
        for action in actions {
            self.agent_perform(index, action);
        }
        self.save_handover(index);
        self.flush_requests(index);
        self.rearm_agent(index);
    }

    fn agent_perform(&mut self, index: usize, action: Action) {
        let request = match action {
            Action::Send(message) => return self.agent_send(index, message),
            Action::ReadLogs(..) | Action::ReadProcesses(..) => None,
            Action::Launch(run) => self.launch_request(index, run),
            Action::Check(run) => {
                // An earlier agent may have used the number for an attempt.
                self.hosts[index].leases.remove(&run);
                Some(check_request(run))
            }
            Action::Adopt(run) => self.adoption(index, run),
            Action::GiveUp => {
                self.hosts[index].is_dying = true;
                None
            }
            Action::EndLife => return self.incarnation_ends(index),
            order => {
                self.note_order(index, &order);
                order.request()
            }
        };
        if let Some(agent) = &mut self.hosts[index].agent {
            agent.requests.extend(request);
        }
    }

    /// Tells the checkers what an agent orders, and keeps what the next agent must know.
    fn note_order(&mut self, index: usize, order: &Action) {
        let host = &mut self.hosts[index];
        match *order {
            Action::Stop { run, grace, cause } => {
                let now = host.clock.mono(self.now);
                if let Some(lease) = host.leases.get(&run) {
                    self.checkers.signals.stop(*lease, cause, now + grace);
                }
            }
            Action::Warn { run, .. } => {
                if let Some(lease) = host.leases.get(&run) {
                    self.checkers.signals.warn(*lease);
                }
            }
            Action::KillEverything { .. } => {
                let agent = host.agent.as_ref();
                let dying = agent.and_then(|agent| agent.supervisor.dying());
                self.everything_dies(index, dying.unwrap_or(KillCause::Suicide));
            }
            Action::Forget(run) => {
                let agent = host.agent.as_ref();
                let attempts = agent.map(|agent| agent.supervisor.attempts());
                let lease = host.leases.get(&run).copied();
                let is_replaced = |lease| attempts.is_some_and(|it| it.contains(lease));
                if let Some(lease) = lease.filter(|lease| !is_replaced(*lease)) {
                    // Judged once: a coordinator that was stopped is told again by the next agent.
                    host.leases.remove(&run);
                    host.workload.forget(lease);
                    let wanted = self.still_wanted(lease);
                    self.checkers.forgotten(lease, wanted);
                }
            }
            Action::Guard(order) => {
                host.epoch = host.epoch.max(order.epoch);
                if let Some(agent) = &mut host.agent {
                    agent.guard = Some(order);
                }
                self.reaper_guard(index, Some(order));
            }
            _ => {}
        }
    }

    /// Every process of a worker is to be killed.
    pub(super) fn everything_dies(&mut self, index: usize, cause: KillCause) {
        let host = &self.hosts[index];
        // Also of a launch that its coordinator has not read yet.
        let agent = host.agent.iter();
        let ordered = agent.flat_map(|agent| agent.supervisor.attempts().iter());
        let ordered = ordered.map(|attempt| attempt.assignment.lease);
        let leases: Vec<LeaseId> = host.workload.leases().into_iter().chain(ordered).collect();
        for lease in leases {
            self.checkers.signals.kill(lease, cause);
        }
    }

    fn launch_request(&mut self, index: usize, run: RunKey) -> Option<Request> {
        let host = &self.hosts[index];
        let now = host.clock.mono(self.now);
        let attempt = host.agent.as_ref()?.supervisor.attempts().get(run)?;
        let needed = attempt
            .assignment
            .spec
            .time_needed(attempt.assignment.timeout, &attempt.assignment.requests);
        let agent = host.agent.as_ref()?;
        let left = agent.supervisor.worker().time_left(now);
        let checked = checkers::tenure::fits(attempt.assignment.lease, run, needed, left);
        let (lease, tag) = (attempt.assignment.lease, self.tags.len().to_string());
        self.tags.push(attempt.assignment.clone());
        let launch = Launch {
            paths: Some(AttemptPaths {
                dir: lease.to_string(),
                stdout: String::new(),
                stderr: String::new(),
            }),
            ..attempt.launch(tag, vec![1], device_claim(lease), now)
        };
        self.checkers.require(checked);
        self.hosts[index].leases.insert(run, lease);
        Some(Request::Launch {
            run,
            launch: Box::new(launch),
        })
    }

    fn adoption(&mut self, index: usize, run: RunKey) -> Option<Request> {
        let host = &self.hosts[index];
        let now = host.clock.mono(self.now);
        let attempt = host.agent.as_ref()?.supervisor.attempts().get(run)?;
        let tag = self.tags.len().to_string();
        self.tags.push(attempt.assignment.clone());
        let request = attempt.adoption(tag, vec![1], now);
        let lease = attempt.assignment.lease;
        self.hosts[index].leases.insert(run, lease);
        request
    }

    /// The attempt that a run was stored with.
    pub(super) fn assignment_of(&self, tag: &str) -> Option<Assignment> {
        let number: usize = tag.parse().ok()?;
        self.tags.get(number).cloned()
    }

    /// Sends all requests to the coordinator. If it is gone, the agent learns it later.
    pub(super) fn flush_requests(&mut self, index: usize) {
        let span = self.draw_latency();
        let host = &mut self.hosts[index];
        let Some(agent) = &mut host.agent else { return };
        let requests = std::mem::take(&mut agent.requests);
        if requests.is_empty() {
            return;
        }
        let launches = |request: &Request| matches!(request, Request::Launch { .. });
        let has_launch = requests.iter().any(launches);
        if let Some(coordinator) = &mut host.coordinator {
            for request in requests {
                coordinator.process.send(request);
            }
            self.wake_coordinator(index, self.now.after(span));
            if has_launch {
                self.crash_at_launch(index);
            }
        }
    }

    /// Both may die over a launch: the agent once it has sent the request, and the coordinator at
    /// some point of carrying it out.
    fn crash_at_launch(&mut self, index: usize) {
        let mut faults = self.mix.faults.iter();
        let crashes = faults.any(|(kind, _)| *kind == FaultKind::CoordinatorCrash);
        if self.calm || !crashes || !self.host_rng.chance(CRASH_AT_LAUNCH) {
            return;
        }
        let fuse = self.host_rng.below(6) as u32;
        if let Some(coordinator) = &mut self.hosts[index].coordinator {
            coordinator.process.light_fuse(fuse);
        }
        self.agent_crash(index, SECOND);
    }

    /// Saves the remaining handover, if an attempt of it was settled.
    fn save_handover(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        let Some(agent) = &mut host.agent else { return };
        if !agent.supervisor.take_handover_changed() {
            return;
        }
        let attempts = agent.supervisor.attempts().iter();
        let left = attempts.filter(|attempt| attempt.is_inherited());
        let attempts: Vec<KnownAttempt> = left.map(KnownAttempt::from).collect();
        host.handover = Handover {
            guard: agent.guard.filter(|_| !attempts.is_empty()),
            attempts,
        };
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
}

/// Adds the outputs of an attempt to its end.
pub(super) fn with_outputs(lease: Option<LeaseId>, mut ending: Ending) -> Ending {
    let outcome = ending.report.outcome;
    let instance = lease.map(|lease| lease.attempt.instance);
    ending.report.outputs = instance.and_then(|instance| outputs_of(instance, outcome));
    ending
}

/// The devices of an attempt: most need one for themselves, some share one, and some need none; some are
/// pinned to a core. Every attempt that finds room finds a device and a core, too.
fn device_claim(lease: LeaseId) -> DeviceClaim {
    let milli = match lease.attempt.instance.0 % 8 {
        0 => 0,
        1 => 500,
        2 => 600,
        _ => WHOLE,
    };
    let pin = match lease.attempt.instance.0 % 3 {
        0 => None,
        1 => Some(Pin::Cores),
        _ => Some(Pin::Socket),
    };
    let cores = if pin.is_some() { WHOLE } else { 0 };
    let variables = [(DEVICES, GPU), (CPUS, CORE)];
    DeviceClaim {
        amounts: [(GPU.to_owned(), milli), (CORE.to_owned(), cores)].into(),
        variables: variables
            .map(|(name, of)| (name.to_owned(), of.to_owned()))
            .into(),
        held: Vec::new(),
        pin,
    }
}

fn check_request(run: RunKey) -> Request {
    let launch = Launch {
        timeout: Some(CHECK_MAX),
        is_check: true,
        ..Launch::default()
    };
    Request::Launch {
        run,
        launch: Box::new(launch),
    }
}
