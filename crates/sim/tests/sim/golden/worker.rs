//! A worker on its host: the agent, which may be killed and restarted, and the coordinator,
//! which has the records, the processes and the dead-man timer and survives the agent. Supervisor
//! and host are the real ones, on the machine of the simulator.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use baton_core::bugs::Bugs;
use baton_core::host::kernel::SIGTERM;
use baton_core::supervision::attempts::Assignment;
use baton_core::supervision::io::{Action, Ending, Event, Sighting};
use baton_core::supervision::lifetime::Lifetime;
use baton_core::supervision::takeover::{Inventory, ReportedRun};
use baton_core::supervision::{Identity, Supervisor};
use baton_model::coordinator::{AttemptPaths, DeviceClaim, KnownRun, Launch, Reply, Request};
use baton_model::fact::Holder;
use baton_model::ids::{BootId, Epoch, LeaseId};
use baton_model::message::{
    AttemptProcesses, HostSize, LogAnswer, LogChunk, LogQuery, LogStart, ProcessAnswer,
    ProcessQuery, ProcessStatus, ToScheduler,
};
use baton_model::outcome::ExitStatus;
use baton_model::state::{AttemptState, ProcessState};
use baton_model::task::RunKey;
use baton_model::time::{Mono, Now, Wall};
use baton_sim::machine::coordinator::{Coordinator, Machine, Turned};
use baton_sim::machine::disk::Disk;
use baton_sim::machine::processes::{ProcessEvent, Processes};

use super::render::seconds;
use super::transcript::Transcript;

/// Limit of turns per event, which only an endless loop exceeds.
const TURNS_MAX: usize = 100;

/// Deviations of a worker from an ordinary one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Quirks {
    /// It uses another version of the protocol.
    pub(crate) other_version: bool,
    /// Its processes ignore SIGTERM.
    pub(crate) stubborn: bool,
    /// It cannot run a health check.
    pub(crate) sick: bool,
    /// Its coordinator launches only on a command of the script.
    pub(crate) slow: bool,
}

/// One worker of the script.
#[derive(Debug)]
pub(crate) struct Party {
    pub(crate) name: String,
    pub(crate) me: Holder,
    pub(crate) quirks: Quirks,
    pub(crate) clock: Mono,
    slots: u32,
    lifetime: Lifetime,
    agent: Option<Supervisor>,
    coordinator: Coordinator,
    /// It had nothing to do any more, and has exited.
    has_exited: bool,
    processes: Processes,
    disk: Disk,
    /// The attempts of processes, by their start time.
    leases: BTreeMap<u64, LeaseId>,
    /// The attempts that launches were stored with: a tag is a number of them.
    tags: Vec<Assignment>,
    /// Launches that wait for the script, if the coordinator is slow.
    queue: VecDeque<Request>,
    /// Attempts with a log.
    logs: BTreeSet<LeaseId>,
    /// Attempts that were sent SIGTERM.
    terminated: BTreeSet<LeaseId>,
    /// Attempts whose end is in the transcript.
    ended: BTreeSet<LeaseId>,
    sent: BTreeMap<String, u64>,
}

impl Party {
    pub(crate) fn new(
        name: &str,
        me: Holder,
        slots: u32,
        quirks: Quirks,
        lifetime: Lifetime,
        clock: Mono,
    ) -> Self {
        let (mut processes, mut disk) = (Processes::default(), Disk::default());
        let machine = &mut Machine {
            now: at(clock),
            boot: me.boot,
            processes: &mut processes,
            disk: &mut disk,
            launches_fail: false,
            tells_statuses: true,
        };
        let coordinator = Coordinator::start(machine, false, Bugs::NONE);
        let mut party = Self {
            name: name.to_owned(),
            me,
            quirks,
            clock,
            slots,
            lifetime,
            agent: None,
            coordinator,
            has_exited: false,
            processes,
            disk,
            leases: BTreeMap::new(),
            tags: Vec::new(),
            queue: VecDeque::new(),
            logs: BTreeSet::new(),
            terminated: BTreeSet::new(),
            ended: BTreeSet::new(),
            sent: BTreeMap::new(),
        };
        party.begin(Inventory::default());
        party
    }

    fn identity(&self) -> Identity {
        Identity {
            me: self.me.clone(),
            executor: None,
            slots: self.slots,
            offer: Arc::default(),
            version: Arc::default(),
            lifetime: self.lifetime,
            host: HostSize::default(),
            bugs: Bugs::NONE,
        }
    }

    /// Begins an incarnation with the ends of the one before.
    fn begin(&mut self, before: Inventory) {
        self.connect();
        let ended = before.into_ended();
        self.agent = Some(Supervisor::begin(&self.identity(), ended, self.clock));
        self.sent.clear();
    }

    /// Connects to the coordinator, and returns the runs that it reports.
    fn connect(&mut self) -> Vec<KnownRun> {
        let turned = self.with_machine(|coordinator, machine| coordinator.connect(machine));
        match turned.replies.into_iter().next() {
            Some(Reply::Hello { runs, .. }) => runs,
            other => panic!("{} was greeted with {other:?}", self.name),
        }
    }

    fn with_machine<T>(&mut self, act: impl FnOnce(&mut Coordinator, &mut Machine<'_>) -> T) -> T {
        let machine = &mut Machine {
            now: at(self.clock),
            boot: self.me.boot,
            processes: &mut self.processes,
            disk: &mut self.disk,
            launches_fail: self.quirks.sick,
            tells_statuses: true,
        };
        act(&mut self.coordinator, machine)
    }

    /// Restores the highest obeyed epoch, as the agent does.
    pub(crate) fn remember_epoch(&mut self, epoch: Epoch) {
        if let Some(agent) = &mut self.agent {
            agent.worker_mut().obeyed(epoch);
        }
    }

    /// Kills the agent alone; the coordinator and the processes stay.
    pub(crate) fn stop(&mut self) {
        self.agent = None;
        self.with_machine(|coordinator, machine| coordinator.disconnect(machine));
    }

    /// Restarts the agent in the same incarnation, with the coordinator's last order.
    pub(crate) fn start(&mut self) {
        let (runs, owned) = self.find();
        let inventory = Inventory::new(Vec::new(), self.reported(runs), None);
        let identity = self.identity();
        let sight = |_: &_| Sighting::Unknown;
        let (mut agent, actions) =
            Supervisor::resume(&identity, inventory, &owned, None, sight, self.clock);
        if let Some(order) = self.coordinator.host().guard_order() {
            agent.worker_mut().resume(order);
        }
        self.agent = Some(agent);
        self.sent.clear();
        for action in actions {
            if let Some(request) = action.request() {
                self.coordinator.send(request);
            }
        }
    }

    /// The runs that are known, and those of them that the coordinator reports itself.
    fn find(&mut self) -> (Vec<KnownRun>, BTreeSet<RunKey>) {
        if !self.has_exited {
            let runs = self.connect();
            let owned = runs.iter().map(|known| known.run).collect();
            return (runs, owned);
        }
        let evidence = self.disk.evidence(self.me.boot, &self.processes, |_| None);
        self.start_coordinator();
        self.connect();
        (evidence.unwrap_or_default().runs, BTreeSet::new())
    }

    fn start_coordinator(&mut self) {
        self.coordinator =
            self.with_machine(|_, machine| Coordinator::start(machine, true, Bugs::NONE));
        self.has_exited = false;
    }

    fn reported(&self, runs: Vec<KnownRun>) -> Vec<ReportedRun> {
        let runs = runs.into_iter().map(|known| ReportedRun {
            run: known.run,
            assignment: self.assignment(&known.tag),
            started: known.started,
            waiting: known.waiting,
            ended: known.ended.as_ref().map(Ending::recorded),
            devices: known.devices,
        });
        runs.collect()
    }

    fn assignment(&self, tag: &str) -> Option<Assignment> {
        let number: usize = tag.parse().ok()?;
        self.tags.get(number).cloned()
    }

    /// Begins the next incarnation. Running attempts are killed first; unacknowledged ends are
    /// carried over.
    pub(crate) fn next_incarnation(&mut self) {
        let order = self.coordinator.host().guard_order();
        let runs: Vec<KnownRun> = self.coordinator.host().known().collect();
        let inventory = Inventory::new(Vec::new(), self.reported(runs), None);
        self.processes.clear();
        self.leases.clear();
        self.queue.clear();
        self.start_coordinator();
        self.me.incarnation.number = self.me.incarnation.number.next();
        self.begin(inventory);
        if let Some(order) = order {
            self.remember_epoch(order.epoch);
        }
    }

    /// Reboots the machine: its clock and the worker start again.
    pub(crate) fn reboot(&mut self, boot: BootId) {
        self.me.boot = boot;
        self.clock = Mono(0);
        self.next_incarnation();
    }

    pub(crate) const fn is_up(&self) -> bool {
        self.agent.is_some()
    }

    pub(crate) fn next_due(&mut self) -> Option<Mono> {
        let agent = self.agent.as_ref().and_then(Supervisor::next_due);
        let coordinator = if self.has_exited {
            None
        } else {
            self.with_machine(Coordinator::next_due)
        };
        [agent, coordinator].into_iter().flatten().min()
    }

    /// The attempts that the coordinator has on record, each with its outcome, if it is over.
    fn records(&self) -> BTreeMap<LeaseId, KnownRun> {
        let known = self.coordinator.host().known();
        let known = known.filter_map(|it| Some((self.assignment(&it.tag)?.lease, it)));
        known.collect()
    }

    /// Returns the lease of an instance that runs here.
    ///
    /// # Errors
    /// If it does not run here.
    pub(crate) fn running(&self, instance: &str) -> Result<LeaseId, String> {
        let records = self.records();
        let mut running = records.iter().filter(|(lease, record)| {
            record.ended.is_none() && lease.attempt.instance.to_string() == instance
        });
        let found = running.next().map(|(lease, _)| *lease);
        found.ok_or_else(|| format!("{} does not run {instance}\n", self.name))
    }

    /// Writes one line for `show`.
    pub(crate) fn describe(&self, out: &mut Transcript) {
        let agent = self.agent.as_ref();
        let state = agent.map_or("down", |it| it.worker().state().word());
        let records = self.records();
        let held: Vec<String> = records
            .iter()
            .map(|(lease, record)| match &record.ended {
                Some(end) => format!("{lease} ({})", end.outcome),
                None => format!("{lease} runs"),
            })
            .collect();
        let guard = self.coordinator.host().guard_order().map_or_else(
            || "none".to_owned(),
            |order| seconds(order.deadline.since(Mono(0))),
        );
        out.line(&format!(
            "{}: {} {state} [{}] dead-man={guard}",
            self.name,
            self.me.incarnation,
            held.join(", ")
        ));
    }

    /// Handles the coordinator's timers, then ticks the agent. Returns its messages.
    pub(crate) fn tick(&mut self, out: &mut Transcript) -> Vec<ToScheduler> {
        let mut events = self.take_turns(out);
        events.push_back(Event::Tick);
        self.feed_all(events, out)
    }

    /// Feeds one event to the agent and executes its actions.
    pub(crate) fn feed(&mut self, event: Event, out: &mut Transcript) -> Vec<ToScheduler> {
        self.feed_all(VecDeque::from([event]), out)
    }

    fn feed_all(&mut self, mut events: VecDeque<Event>, out: &mut Transcript) -> Vec<ToScheduler> {
        let mut sent = Vec::new();
        while let Some(event) = events.pop_front() {
            let Some(agent) = &mut self.agent else {
                return sent;
            };
            let before = agent.worker().state();
            let actions = agent.handle(self.clock, event);
            let after = agent.worker().state();
            if before != after {
                out.line(&format!("{}: {before} -> {after}", self.name));
            }
            self.report_counts(out);
            for action in actions {
                events.extend(self.carry_out(action, &mut sent, out));
            }
            events.extend(self.take_turns(out));
        }
        sent
    }

    fn carry_out(
        &mut self,
        action: Action,
        sent: &mut Vec<ToScheduler>,
        out: &mut Transcript,
    ) -> Option<Event> {
        let request = match action {
            Action::Send(message) => {
                sent.push(self.in_own_version(message));
                None
            }
            Action::Launch(run) => {
                let launch = self.launch(run);
                if self.quirks.slow {
                    self.queue.extend(launch);
                    return None;
                }
                launch
            }
            Action::Check(run) => {
                let launch = Box::new(Launch {
                    is_check: true,
                    ..Launch::default()
                });
                Some(Request::Launch { run, launch })
            }
            Action::ReadLogs(request, query) => {
                return Some(Event::LogsRead(request, self.read_log(&query)));
            }
            Action::ReadProcesses(request, query) => {
                let answer = self.read_processes(&query);
                return Some(Event::ProcessesRead(request, answer));
            }
            Action::EndLife => {
                out.line(&format!("{}: {} is over", self.name, self.me.incarnation));
                self.agent = None;
                None
            }
            Action::Adopt(run) => panic!("{} adopts {run}", self.name),
            Action::Warn { run, signal } => {
                let attempts = self.agent.as_ref().map(Supervisor::attempts);
                let attempt = attempts.and_then(|attempts| attempts.get(run));
                if let Some(lease) = attempt.map(|it| it.assignment.lease) {
                    out.line(&format!("{}: warns {lease} with {signal}", self.name));
                }
                Some(Request::Signal { run, signal })
            }
            order => order.request(),
        };
        if let Some(request) = request {
            self.coordinator.send(request);
        }
        None
    }

    fn launch(&mut self, run: RunKey) -> Option<Request> {
        let attempt = self.agent.as_ref()?.attempts().get(run)?;
        let tag = self.tags.len().to_string();
        let launch = Launch {
            paths: Some(AttemptPaths {
                dir: tag.clone(),
                stdout: String::new(),
                stderr: String::new(),
            }),
            ..attempt.launch(tag, Vec::new(), DeviceClaim::default(), self.clock)
        };
        self.tags.push(attempt.assignment.clone());
        Some(Request::Launch {
            run,
            launch: Box::new(launch),
        })
    }

    /// Lets the coordinator take turns until nothing more happens, and returns what it reports.
    fn take_turns(&mut self, out: &mut Transcript) -> VecDeque<Event> {
        let mut events = VecDeque::new();
        for _ in 0..TURNS_MAX {
            let Turned {
                replies, is_gone, ..
            } = self.with_machine(|coordinator, machine| coordinator.turn(machine));
            self.has_exited |= is_gone;
            self.report_ends(out);
            let changes = self.processes.take_events();
            if replies.is_empty() && changes.is_empty() {
                return events;
            }
            for change in changes {
                self.process_changed(change, out);
            }
            for reply in replies {
                events.extend(self.replied(&reply, out));
            }
        }
        panic!("the coordinator of {} does not settle", self.name);
    }

    fn process_changed(&mut self, change: ProcessEvent, out: &mut Transcript) {
        match change {
            ProcessEvent::Launched {
                launch,
                start_ticks,
                ..
            } => {
                let Some(assignment) = self.assignment(&launch.tag) else {
                    return self.end_process(start_ticks, 0);
                };
                let lease = assignment.lease;
                self.leases.insert(start_ticks, lease);
                self.logs.insert(lease);
                out.line(&format!("{}: launches {lease}", self.name));
            }
            ProcessEvent::Signalled {
                start_ticks,
                signal: SIGTERM,
            } => self.terminated(start_ticks, out),
            ProcessEvent::Signalled { .. }
            | ProcessEvent::Ended { .. }
            | ProcessEvent::LaunchFailed { .. } => {}
        }
    }

    fn end_process(&mut self, start_ticks: u64, code: i32) {
        if let Some(pid) = self.processes.pid_of(start_ticks) {
            self.processes.end(pid, ExitStatus::Code(code));
        }
    }

    fn report_ends(&mut self, out: &mut Transcript) {
        for (lease, record) in self.records() {
            if let Some(end) = record.ended
                && self.ended.insert(lease)
            {
                out.line(&format!("{}: {lease} ended ({})", self.name, end.outcome));
            }
        }
    }

    /// SIGTERM, which ends an attempt at once unless it is stubborn.
    fn terminated(&mut self, start_ticks: u64, out: &mut Transcript) {
        let lease = self.leases.get(&start_ticks).copied();
        let Some(lease) = lease.filter(|lease| self.terminated.insert(*lease)) else {
            return;
        };
        let order = self.coordinator.host().guard_order();
        let pid = self.processes.pid_of(start_ticks);
        let process = pid.and_then(|pid| self.processes.get(pid));
        let deadline = process.and_then(|it| order?.deadline_of(it.term));
        if deadline.is_some_and(|at| at <= self.clock) {
            out.line(&format!("{}: the dead-man timer ends {lease}", self.name));
        }
        if !self.quirks.stubborn {
            if let Some(pid) = pid {
                self.processes.end(pid, ExitStatus::Signal(SIGTERM));
            }
        } else {
            out.line(&format!("{}: {lease} ignores SIGTERM", self.name));
        }
    }

    fn replied(&self, reply: &Reply, out: &mut Transcript) -> Option<Event> {
        match reply {
            Reply::Ended(end) => Some(Event::Ended(end.run, Ending::recorded(end))),
            Reply::Refused { run } => {
                let attempts = self.agent.as_ref().map(Supervisor::attempts);
                let attempt = attempts.and_then(|attempts| attempts.get(*run));
                if let Some(lease) = attempt.map(|it| it.assignment.lease) {
                    out.line(&format!("{}: will not launch {lease}", self.name));
                }
                Some(Event::Refused(*run))
            }
            Reply::HostFault { run, reason } => {
                Some(Event::HostFault(*run, reason.as_str().into()))
            }
            other => Event::of_reply(other),
        }
    }

    fn in_own_version(&self, mut message: ToScheduler) -> ToScheduler {
        if let ToScheduler::ProcessHeartbeat(heartbeat) = &mut message
            && self.quirks.other_version
        {
            heartbeat.version += 1;
        }
        message
    }

    /// Executes the oldest launch of a slow coordinator.
    ///
    /// # Errors
    /// If no launch is queued.
    pub(crate) fn launch_queued(&mut self, out: &mut Transcript) -> Result<Vec<Event>, String> {
        let queued = self.queue.pop_front();
        let request = queued.ok_or_else(|| format!("{} launches nothing\n", self.name))?;
        self.coordinator.send(request);
        Ok(self.take_turns(out).into())
    }

    /// Ends the process of an attempt, and returns what its coordinator reports.
    pub(crate) fn end(
        &mut self,
        lease: LeaseId,
        status: ExitStatus,
        out: &mut Transcript,
    ) -> Vec<Event> {
        let mut leases = self.leases.iter();
        let ticks = leases
            .find(|(_, it)| **it == lease)
            .map(|(ticks, _)| *ticks);
        if let Some(pid) = ticks.and_then(|ticks| self.processes.pid_of(ticks)) {
            self.processes.end(pid, status);
        }
        self.take_turns(out).into()
    }

    fn read_processes(&self, query: &ProcessQuery) -> ProcessAnswer {
        let records = self.records();
        let Some(record) = records.get(&query.lease) else {
            return ProcessAnswer::NotFound;
        };
        let (state, process) = match record.ended {
            Some(_) => (AttemptState::Success, ProcessState::Success),
            None => (AttemptState::Active, ProcessState::Running),
        };
        ProcessAnswer::Processes(AttemptProcesses {
            state,
            processes: vec![ProcessStatus {
                name: "main".to_owned(),
                state: process,
                runs: 1,
                successes: 0,
                failures: 0,
                kills: 0,
                losses: 0,
                pid: None,
                started: None,
                last_end: None,
                usage: Vec::new(),
            }],
            omitted: 0,
        })
    }

    fn read_log(&self, query: &LogQuery) -> LogAnswer {
        if !self.logs.contains(&query.lease) {
            return LogAnswer::NotFound;
        }
        let text = format!("output of {}\n", query.lease).into_bytes();
        let from = match query.start {
            LogStart::Offset(offset) => offset,
            LogStart::Cursor(cursor) => cursor.offset,
        };
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let size = text.len() as u64;
        let bytes = text.into_iter().skip(from);
        LogAnswer::Chunk(LogChunk {
            bytes: bytes.take(query.bytes_max as usize).collect(),
            size,
            ..LogChunk::default()
        })
    }

    fn report_counts(&mut self, out: &mut Transcript) {
        let Some(agent) = &self.agent else { return };
        for (name, count) in agent.worker().counts().iter() {
            if self.sent.get(&name) != Some(&count) {
                out.line(&format!("{}: noticed {name}", self.name));
            }
            self.sent.insert(name, count);
        }
    }
}

fn at(clock: Mono) -> Now {
    Now {
        mono: clock,
        wall: Wall(0),
    }
}
