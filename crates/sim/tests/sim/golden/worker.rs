//! A worker on its host: the agent, which may be killed and restarted, and the coordinator,
//! which has the records, the processes and the dead-man timer and survives the agent.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use baton_core::bugs::Bugs;
use baton_core::protocol::worker::Worker;
use baton_core::protocol::worker::guard::{DeadMan, GuardAction};
use baton_core::protocol::worker::io::{Effect, Input, Record};
use baton_model::fact::Holder;
use baton_model::ids::{BootId, Epoch, LeaseId};
use baton_model::message::{
    AttemptProcesses, Launch, LogAnswer, LogChunk, LogQuery, LogStart, ProcessAnswer, ProcessQuery,
    ProcessStatus, ToScheduler,
};
use baton_model::outcome::{KillCause, Outcome, Report};
use baton_model::spec::InstanceSpec;
use baton_model::state::{AttemptState, ProcessState};
use baton_model::time::Mono;
use baton_model::timeouts::LeaseTerm;

use super::render::seconds;
use super::transcript::Transcript;

/// The coordinator's record of one attempt.
#[derive(Debug)]
struct AttemptRecord {
    spec: Arc<InstanceSpec>,
    ended: Option<Outcome>,
    /// The time of the SIGKILL after an ignored SIGTERM.
    kill_at: Option<(Mono, KillCause)>,
}

/// The parent of the processes.
#[derive(Debug, Default)]
struct Coordinator {
    records: BTreeMap<LeaseId, AttemptRecord>,
    guard: DeadMan<LeaseId>,
    /// Everything was ordered to die.
    is_doomed: bool,
    /// Launches that wait for the script, if the coordinator is slow.
    queue: VecDeque<(LeaseId, Arc<InstanceSpec>)>,
    /// Attempts with a log.
    logs: BTreeSet<LeaseId>,
}

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
    agent: Option<Worker>,
    coordinator: Coordinator,
    sent: BTreeMap<String, u64>,
}

impl Party {
    pub(crate) fn new(name: &str, me: Holder, slots: u32, quirks: Quirks, clock: Mono) -> Self {
        let mut party = Self {
            name: name.to_owned(),
            me,
            quirks,
            clock,
            slots,
            agent: None,
            coordinator: Coordinator::default(),
            sent: BTreeMap::new(),
        };
        party.begin();
        party
    }

    /// Starts the agent with the records of the coordinator.
    fn begin(&mut self) {
        let records = self.coordinator.records.iter();
        let records = records.map(|(lease, record)| Record {
            lease: *lease,
            spec: record.spec.clone(),
            ended: record.ended.map(Report::from),
        });
        let (me, slots) = (self.me.clone(), self.slots);
        let agent = Worker::begin(
            me,
            slots,
            Arc::default(),
            Bugs::NONE,
            records.collect(),
            self.clock,
        );
        self.agent = Some(agent);
        self.sent.clear();
    }

    /// Restores the highest obeyed epoch, as the coordinator does.
    pub(crate) fn remember_epoch(&mut self, epoch: Epoch) {
        if let Some(agent) = &mut self.agent {
            agent.obeyed(epoch);
        }
    }

    /// Kills the agent alone; the coordinator and the processes stay.
    pub(crate) fn stop(&mut self) {
        self.agent = None;
    }

    /// Restarts the agent in the same incarnation, with the coordinator's last order.
    pub(crate) fn start(&mut self) {
        self.begin();
        if let (Some(agent), Some(order)) = (&mut self.agent, self.coordinator.guard.order()) {
            agent.resume(order);
        }
    }

    /// Begins the next incarnation. Running attempts are killed first; unacknowledged ends are
    /// carried over.
    pub(crate) fn next_life(&mut self) {
        let epoch = self.coordinator.guard.order().map(|order| order.epoch);
        self.coordinator
            .records
            .retain(|_, record| record.ended.is_some());
        self.coordinator.guard = DeadMan::default();
        self.coordinator.is_doomed = false;
        self.coordinator.queue.clear();
        self.me.incarnation.number = self.me.incarnation.number.next();
        self.begin();
        if let Some(epoch) = epoch {
            self.remember_epoch(epoch);
        }
    }

    /// Reboots the machine: its clock and the worker start again.
    pub(crate) fn reboot(&mut self, boot: BootId) {
        self.me.boot = boot;
        self.clock = Mono(0);
        self.next_life();
    }

    pub(crate) const fn is_up(&self) -> bool {
        self.agent.is_some()
    }

    pub(crate) fn next_due(&self) -> Option<Mono> {
        let agent = self.agent.as_ref().and_then(Worker::next_due);
        let guard = self.coordinator.guard.next_due();
        let records = self.coordinator.records.values();
        let kill = records.filter_map(|record| record.kill_at.map(|(at, _)| at));
        [agent, guard].into_iter().flatten().chain(kill).min()
    }

    /// Returns the lease of an instance that runs here.
    ///
    /// # Errors
    /// If it does not run here.
    pub(crate) fn running(&self, instance: &str) -> Result<LeaseId, String> {
        let mut running = self.coordinator.records.iter().filter(|(lease, record)| {
            record.ended.is_none() && lease.attempt.instance.to_string() == instance
        });
        let found = running.next().map(|(lease, _)| *lease);
        found.ok_or_else(|| format!("{} does not run {instance}\n", self.name))
    }

    /// Writes one line for `show`.
    pub(crate) fn describe(&self, out: &mut Transcript) {
        let state = self.agent.as_ref().map_or("down", |it| it.state().word());
        let records = self.coordinator.records.iter();
        let held: Vec<String> = records
            .map(|(lease, record)| match record.ended {
                Some(outcome) => format!("{lease} ({outcome})"),
                None => format!("{lease} runs"),
            })
            .collect();
        let guard = self.coordinator.guard.order().map_or_else(
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
        let mut inputs = VecDeque::new();
        while let Some(action) = self.coordinator.guard.poll(self.clock) {
            match action {
                GuardAction::Terminate(leases) => {
                    for lease in leases {
                        out.line(&format!("{}: the dead-man timer ends {lease}", self.name));
                        let ended = self.terminate(lease, None, KillCause::LeaseLapsed, out);
                        inputs.extend(ended);
                    }
                }
                GuardAction::Kill(leases) => {
                    for lease in leases {
                        let lapsed = Outcome::Killed(KillCause::LeaseLapsed);
                        inputs.extend(self.ended(lease, lapsed, out));
                    }
                }
            }
        }
        inputs.extend(self.kill_due(out));
        inputs.push_back(Input::Tick);
        self.feed_all(inputs, out)
    }

    /// Feeds one input to the agent and executes its effects.
    pub(crate) fn feed(&mut self, input: Input, out: &mut Transcript) -> Vec<ToScheduler> {
        self.feed_all(VecDeque::from([input]), out)
    }

    fn feed_all(&mut self, mut inputs: VecDeque<Input>, out: &mut Transcript) -> Vec<ToScheduler> {
        let mut sent = Vec::new();
        while let Some(input) = inputs.pop_front() {
            let Some(agent) = &mut self.agent else {
                return sent;
            };
            let before = agent.state();
            let effects = agent.handle(self.clock, input);
            let after = agent.state();
            if before != after {
                out.line(&format!("{}: {before} -> {after}", self.name));
            }
            self.report_counts(out);
            for effect in effects {
                inputs.extend(self.carry_out(effect, &mut sent, out));
            }
        }
        sent
    }

    fn carry_out(
        &mut self,
        effect: Effect,
        sent: &mut Vec<ToScheduler>,
        out: &mut Transcript,
    ) -> Vec<Input> {
        match effect {
            Effect::Send(message) => sent.push(self.in_own_version(message)),
            Effect::Launch(Launch { lease, spec, .. }) if self.quirks.slow => {
                self.coordinator.queue.push_back((lease, spec));
            }
            Effect::Launch(Launch { lease, spec, .. }) => {
                return vec![self.launch(lease, spec, out)];
            }
            Effect::Kill(lease, grace) => {
                let at = self.clock + grace;
                return self.terminate(lease, Some(at), KillCause::Requested, out);
            }
            Effect::KillAll(cause, grace) => {
                self.coordinator.is_doomed = true;
                return self.terminate_all(self.clock + grace, cause, out);
            }
            Effect::Guard(order) => self.coordinator.guard.extend(order),
            Effect::Forget(lease) => {
                self.coordinator.records.remove(&lease);
            }
            Effect::RunCheck(check) => {
                let result = if self.quirks.sick {
                    Err("no space left".into())
                } else {
                    Ok(())
                };
                return vec![Input::CheckDone(check, result)];
            }
            Effect::ReadLogs(request, query) => {
                return vec![Input::LogsRead(request, self.read_log(&query))];
            }
            Effect::ReadProcesses(request, query) => {
                let answer = self.read_processes(&query);
                return vec![Input::ProcessesRead(request, answer)];
            }
            Effect::EndLife => {
                out.line(&format!("{}: {} is over", self.name, self.me.incarnation));
                self.agent = None;
            }
        }
        Vec::new()
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
    pub(crate) fn launch_queued(&mut self, out: &mut Transcript) -> Result<Input, String> {
        let queued = self.coordinator.queue.pop_front();
        let (lease, spec) = queued.ok_or_else(|| format!("{} launches nothing\n", self.name))?;
        Ok(self.launch(lease, spec, out))
    }

    fn launch(&mut self, lease: LeaseId, spec: Arc<InstanceSpec>, out: &mut Transcript) -> Input {
        let term = LeaseTerm::of(&spec);
        if self.coordinator.is_doomed || !self.coordinator.guard.admits(self.clock, term) {
            out.line(&format!("{}: will not launch {lease}", self.name));
            return Input::LaunchRefused(lease);
        }
        out.line(&format!("{}: launches {lease}", self.name));
        let record = AttemptRecord {
            spec,
            ended: None,
            kill_at: None,
        };
        self.coordinator.records.insert(lease, record);
        self.coordinator.guard.watch(lease, term);
        self.coordinator.logs.insert(lease);
        Input::Launched(lease)
    }

    fn terminate_all(
        &mut self,
        kill_at: Mono,
        cause: KillCause,
        out: &mut Transcript,
    ) -> Vec<Input> {
        let running = self.coordinator.records.iter();
        let running: Vec<LeaseId> = running
            .filter(|(_, record)| record.ended.is_none())
            .map(|(lease, _)| *lease)
            .collect();
        let mut inputs = Vec::new();
        for lease in running {
            inputs.extend(self.terminate(lease, Some(kill_at), cause, out));
        }
        inputs
    }

    /// SIGTERM, which ends an attempt at once unless it is stubborn. The dead-man timer itself
    /// knows when to kill.
    fn terminate(
        &mut self,
        lease: LeaseId,
        kill_at: Option<Mono>,
        cause: KillCause,
        out: &mut Transcript,
    ) -> Vec<Input> {
        if !self.quirks.stubborn {
            return self.ended(lease, Outcome::Killed(cause), out);
        }
        if let Some(record) = self.coordinator.records.get_mut(&lease)
            && record.ended.is_none()
            && record.kill_at.is_none()
        {
            record.kill_at = kill_at.map(|at| (at, cause));
            out.line(&format!("{}: {lease} ignores SIGTERM", self.name));
        }
        Vec::new()
    }

    /// SIGKILL for attempts whose grace period is over.
    fn kill_due(&mut self, out: &mut Transcript) -> Vec<Input> {
        let now = self.clock;
        let records = self.coordinator.records.iter();
        let due: Vec<(LeaseId, KillCause)> = records
            .filter_map(|(lease, record)| record.kill_at.map(|(at, cause)| (*lease, at, cause)))
            .filter(|(_, at, _)| *at <= now)
            .map(|(lease, _, cause)| (lease, cause))
            .collect();
        let mut inputs = Vec::new();
        for (lease, cause) in due {
            inputs.extend(self.ended(lease, Outcome::Killed(cause), out));
        }
        inputs
    }

    /// Records an end, and returns the inputs for the agent.
    pub(crate) fn ended(
        &mut self,
        lease: LeaseId,
        outcome: Outcome,
        out: &mut Transcript,
    ) -> Vec<Input> {
        let Some(record) = self.coordinator.records.get_mut(&lease) else {
            return Vec::new();
        };
        if record.ended.is_some() {
            return Vec::new();
        }
        record.ended = Some(outcome);
        record.kill_at = None;
        self.coordinator.guard.unwatch(lease);
        out.line(&format!("{}: {lease} ended ({outcome})", self.name));
        vec![Input::Ended(lease, outcome.into())]
    }

    fn read_processes(&self, query: &ProcessQuery) -> ProcessAnswer {
        let Some(record) = self.coordinator.records.get(&query.lease) else {
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
        if !self.coordinator.logs.contains(&query.lease) {
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
        for (name, count) in agent.counts().iter() {
            if self.sent.get(&name) != Some(&count) {
                out.line(&format!("{}: noticed {name}", self.name));
            }
            self.sent.insert(name, count);
        }
    }
}
