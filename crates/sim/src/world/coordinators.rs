//! Coordinators and the processes they started.
//!
//! A coordinator records every start and end on disk before it informs the agent, queues launches
//! that find no room, holds the dead-man timer, and outlives the agent. If it is killed while its
//! agent lives, the agent starts another; if both are gone, the reaper guards the children.
//!
//! The runner of a task may be killed: its work goes on, and the next runner takes it over.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use baton_core::protocol::worker::guard::DeadMan;
use baton_core::supervision::attempts::{Assignment, Attempt, LOST};
use baton_core::supervision::io::{Action, Ending, Event as AgentEvent, Sighting};
use baton_core::supervision::takeover::{KnownAttempt, ReportedRun};
use baton_model::ids::{BootId, LeaseId};
use baton_model::outcome::{AttemptStats, KillCause, Outcome, Report};
use baton_model::task::{Identity, Moment, RunKey, RunNo};
use baton_model::time::{Millis, Mono, Wall};
use baton_model::timeouts::LeaseTerm;

use super::{Event, World};
use crate::checkers::{Execution, outputs_of};
use crate::swarm::FaultKind;
use crate::time::{MILLI, SECOND, Time};

/// A run in the coordinator's log, or in the handover of an earlier one.
#[derive(Clone, Debug)]
pub(super) struct DiskRecord {
    pub(super) assignment: Assignment,
    /// `None` while it waits for room.
    pub(super) started: Option<Mono>,
    pub(super) ended: Option<Ending>,
}

/// A live process tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Child {
    exit: i32,
    ignores_term: bool,
    pub(super) killed_by: Option<KillCause>,
    /// The run that watches it.
    run: RunKey,
    is_unwatched: bool,
    /// As its mark tells the reaper.
    pub(super) term: LeaseTerm,
}

/// A live coordinator.
#[derive(Debug, Default)]
pub(super) struct Coordinator {
    pub(super) guard: DeadMan<LeaseId>,
    /// Everything was ordered to die, and is killed at this time.
    pub(super) doomed_at: Option<Mono>,
    pub(super) paused: bool,
    /// Runs in its own log. The others are in the handover only.
    owned: BTreeSet<RunKey>,
    /// Launches that wait for room.
    pub(super) queue: VecDeque<(RunKey, Assignment)>,
    /// Runs that were asked to stop, and when they are killed.
    stops: BTreeMap<RunKey, Mono>,
    /// The order to kill everything that is not answered yet.
    killing: Option<u64>,
    /// It kills strays until then, and does nothing else meanwhile.
    busy_until: Option<Time>,
    /// Orders that arrived while it was stopped or busy.
    orders: Vec<(Action, Option<Assignment>)>,
    /// Children that ended while it was stopped or busy.
    zombies: Vec<(RunKey, Outcome)>,
}

impl Coordinator {
    const fn is_blocked(&self) -> bool {
        self.paused || self.busy_until.is_some()
    }
}

impl DiskRecord {
    pub(super) fn reported(&self, run: RunKey, boot: BootId) -> ReportedRun {
        ReportedRun {
            run,
            assignment: Some(self.assignment.clone()),
            started: self.started.map(|at| start_of(run, at, boot)),
            waiting: self.started.is_none(),
            ended: self.ended.clone(),
        }
    }
}

fn start_of(run: RunKey, at: Mono, boot: BootId) -> (Moment, Identity) {
    let moment = Moment {
        mono: at,
        wall: Wall(0),
    };
    let identity = Identity {
        boot,
        pid: run.process.0,
        start_ticks: run.run.0,
    };
    (moment, identity)
}

impl World {
    /// Carries an order out, or queues it for a stopped coordinator. A launch comes with its
    /// assignment.
    pub(super) fn coordinator_order(
        &mut self,
        index: usize,
        order: Action,
        assignment: Option<Assignment>,
    ) {
        match &mut self.hosts[index].coordinator {
            Some(coordinator) if coordinator.is_blocked() => {
                coordinator.orders.push((order, assignment));
            }
            Some(_) => self.coordinator_execute(index, order, assignment),
            None => {}
        }
    }

    fn coordinator_execute(&mut self, index: usize, order: Action, assignment: Option<Assignment>) {
        match order {
            Action::Launch(run) => {
                if let Some(assignment) = assignment {
                    self.launch(index, run, assignment);
                }
            }
            Action::Withdraw(run) => {
                if self.unqueue(index, run) {
                    self.hosts[index].records.remove(&run);
                    self.agent_event(index, AgentEvent::Refused(run));
                }
            }
            Action::Stop { run, grace, cause } => self.stop(index, run, grace, cause),
            Action::KillEverything { id, grace } => {
                let now = self.hosts[index].clock.mono(self.now);
                let kill_at = now + grace;
                if let Some(coordinator) = &mut self.hosts[index].coordinator {
                    let before = coordinator.doomed_at;
                    coordinator.doomed_at = Some(before.map_or(kill_at, |at| at.min(kill_at)));
                    coordinator.killing = Some(id);
                }
                self.terminate_all(index, KillCause::Suicide);
                self.end_queue(index, KillCause::Suicide);
                let at = self.hosts[index].clock.when(kill_at).max(self.now);
                self.at_time(at, Event::GraceEnds(index));
            }
            Action::Guard(order) => {
                self.hosts[index].guard_on_disk = Some(order);
                if let Some(coordinator) = &mut self.hosts[index].coordinator {
                    coordinator.guard.extend(order);
                }
            }
            Action::Forget(run) => self.forget(index, run),
            Action::KillStrays => {
                let until = self.now.after(self.fault_rng.within(MILLI, SECOND));
                if let Some(coordinator) = &mut self.hosts[index].coordinator {
                    coordinator.busy_until = Some(until);
                }
                self.at_time(until, Event::StraysDead(index));
            }
            // An adopted child has a record already.
            Action::Adopt(run) => {
                let host = &mut self.hosts[index];
                if let Some(coordinator) = &mut host.coordinator {
                    coordinator.owned.insert(run);
                    if let Some(record) = host.records.get(&run) {
                        let assignment = &record.assignment;
                        coordinator.guard.watch(assignment.lease, assignment.term());
                    }
                }
                self.guard_poll(index);
            }
            // A run of no attempt has no child.
            Action::KillRun(_)
            | Action::Send(_)
            | Action::ReadLogs(..)
            | Action::ReadProcesses(..)
            | Action::Check(_)
            | Action::GiveUp
            | Action::EndLife => {}
        }
        self.acknowledge_kill(index);
        self.rearm_guard(index);
    }

    fn forget(&mut self, index: usize, run: RunKey) {
        let Some(record) = self.hosts[index].records.remove(&run) else {
            return;
        };
        let lease = record.assignment.lease;
        let mut records = self.hosts[index].records.values();
        let is_replaced = records.any(|other| other.assignment.lease == lease);
        if !is_replaced {
            let wanted = self.still_wanted(lease);
            self.checkers.forgotten(lease, wanted);
        }
    }

    fn admits(&self, index: usize, term: LeaseTerm) -> bool {
        let host = &self.hosts[index];
        let now = host.clock.mono(self.now);
        let coordinator = host.coordinator.as_ref();
        coordinator.is_some_and(|it| it.doomed_at.is_none() && it.guard.admits(now, term))
    }

    fn launch(&mut self, index: usize, run: RunKey, assignment: Assignment) {
        if !self.admits(index, assignment.term()) {
            return self.agent_event(index, AgentEvent::Refused(run));
        }
        let record = DiskRecord {
            assignment: assignment.clone(),
            started: None,
            ended: None,
        };
        let host = &mut self.hosts[index];
        host.records.insert(run, record);
        if let Some(coordinator) = &mut host.coordinator {
            coordinator.owned.insert(run);
            coordinator.guard.watch(assignment.lease, assignment.term());
        }
        if run.run > RunNo(0) && self.hosts[index].launches_fail {
            return self.give_back(index, run, assignment.lease);
        }
        if run.run > RunNo(0) {
            return self.resume_task(index, run, assignment.lease);
        }
        let room = self.mix.room as usize;
        let host = &mut self.hosts[index];
        let full = host.children.len() >= room;
        if let Some(coordinator) = &mut host.coordinator
            && (full || !coordinator.queue.is_empty())
        {
            coordinator.queue.push_back((run, assignment));
            return self.agent_event(index, AgentEvent::Accepted(run));
        }
        self.start(index, run, &assignment);
    }

    /// Gives a run back that its host cannot start.
    fn give_back(&mut self, index: usize, run: RunKey, lease: LeaseId) {
        self.note(&lease, || format!("h{index} cannot launch {lease}"));
        self.hosts[index].records.remove(&run);
        if run.run == RunNo(0) {
            self.checkers.host_fault(lease, index, self.mix.slots);
        }
        self.agent_event(index, AgentEvent::HostFault(run, "no room".into()));
    }

    /// The next runner of a task takes its work over, or finds it gone.
    fn resume_task(&mut self, index: usize, run: RunKey, lease: LeaseId) {
        self.note_start(index, run);
        match self.hosts[index].children.get_mut(&lease) {
            Some(child) => {
                child.run = run;
                child.is_unwatched = false;
            }
            None => {
                let outcome = self.checkers.truth.outcome(lease).unwrap_or(LOST);
                self.record_end(index, run, outcome);
            }
        }
    }

    fn note_start(&mut self, index: usize, run: RunKey) {
        let host = &mut self.hosts[index];
        let now = host.clock.mono(self.now);
        if let Some(record) = host.records.get_mut(&run) {
            record.started = Some(now);
        }
        let (at, identity) = start_of(run, now, host.boot);
        self.agent_event(index, AgentEvent::Started { run, at, identity });
    }

    fn start(&mut self, index: usize, run: RunKey, assignment: &Assignment) {
        if self.hosts[index].launches_fail {
            return self.give_back(index, run, assignment.lease);
        }
        self.spawn(index, run, assignment);
        self.note_start(index, run);
    }

    fn spawn(&mut self, index: usize, run: RunKey, assignment: &Assignment) {
        let calm_work = if self.calm {
            3 * SECOND
        } else {
            self.mix.work_max
        };
        let work = self.work_rng.within(MILLI, calm_work);
        let child = Child {
            exit: i32::from(self.work_rng.chance(self.mix.failing) || self.hosts[index].work_fails),
            ignores_term: self.work_rng.chance(300),
            killed_by: None,
            run,
            is_unwatched: false,
            term: assignment.term(),
        };
        let lease = assignment.lease;
        let leased = !self.is_durable() || self.store.ledger.open_lease(lease).is_some();
        let execution = Execution {
            host: index,
            work: assignment.spec.name.clone(),
            exclusive: assignment.spec.exclusive,
            excused: self.hosts[index].excused,
            outcome: None,
        };
        self.note(&lease, || format!("h{index} starts {lease}"));
        self.checkers.started(lease, execution, leased);
        self.hosts[index].children.insert(lease, child);
        self.at(work, Event::ChildEnds { host: index, lease });
    }

    /// Starts a child of which only its own mark tells.
    fn start_unrecorded(&mut self, index: usize, run: RunKey, assignment: &Assignment) {
        let now = self.hosts[index].clock.mono(self.now);
        let order = self.hosts[index].guard_on_disk;
        let deadline = order.and_then(|order| order.deadline_of(assignment.term()));
        if order.is_some_and(|order| now < order.deadline)
            && deadline.is_none_or(|deadline| now < deadline)
        {
            self.spawn(index, run, assignment);
            if let Some(child) = self.hosts[index].children.get_mut(&assignment.lease) {
                child.is_unwatched = true;
            }
        }
    }

    /// Starts what has waited, as far as there is room.
    fn start_queue(&mut self, index: usize) {
        let room = self.mix.room as usize;
        while self.hosts[index].children.len() < room {
            let coordinator = self.hosts[index].coordinator.as_mut();
            let Some(coordinator) = coordinator.filter(|it| !it.is_blocked()) else {
                return;
            };
            let Some((run, assignment)) = coordinator.queue.pop_front() else {
                return;
            };
            if self.admits(index, assignment.term()) {
                self.start(index, run, &assignment);
            } else {
                self.hosts[index].records.remove(&run);
                self.agent_event(index, AgentEvent::Refused(run));
            }
        }
    }

    pub(super) fn unqueue(&mut self, index: usize, run: RunKey) -> bool {
        let coordinator = self.hosts[index].coordinator.as_mut();
        let Some(coordinator) = coordinator else {
            return false;
        };
        let waiting = coordinator
            .queue
            .iter()
            .position(|(waiting, _)| *waiting == run);
        let removed = waiting.and_then(|at| coordinator.queue.remove(at));
        removed.is_some_and(|(_, assignment)| {
            coordinator.guard.unwatch(assignment.lease);
            true
        })
    }

    /// Ends everything that waits, without a start.
    fn end_queue(&mut self, index: usize, cause: KillCause) {
        let coordinator = self.hosts[index].coordinator.as_mut();
        let queue = coordinator.map(|it| std::mem::take(&mut it.queue));
        for (run, _) in queue.unwrap_or_default() {
            self.record_end(index, run, Outcome::Killed(cause));
        }
    }

    fn stop(&mut self, index: usize, run: RunKey, grace: Millis, cause: KillCause) {
        let Some(record) = self.hosts[index].records.get(&run) else {
            return;
        };
        let lease = record.assignment.lease;
        if self.unqueue(index, run) {
            return self.record_end(index, run, Outcome::Killed(cause));
        }
        let host = &mut self.hosts[index];
        let kill_at = host.clock.mono(self.now) + grace;
        let Some(coordinator) = &mut host.coordinator else {
            return;
        };
        let before = coordinator.stops.get(&run).copied();
        let kill_at = before.map_or(kill_at, |at| at.min(kill_at));
        coordinator.stops.insert(run, kill_at);
        let at = host.clock.when(kill_at).max(self.now);
        if before.is_none() {
            self.terminate(index, lease, cause);
            let mut faults = self.mix.faults.iter();
            let crashes = faults.any(|(kind, _)| *kind == FaultKind::RunnerCrash);
            if crashes && !self.calm && self.fault_rng.chance(700) {
                let delay = self.fault_rng.below(SECOND);
                self.at(delay, Event::RunnerDies { host: index, lease });
            }
        }
        self.at_time(at, Event::GraceEnds(index));
    }

    /// Kills runs whose grace is over. Only the coordinator that was asked to stop them does, and
    /// only while it watches them.
    pub(super) fn kill_overdue(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        let now = host.clock.mono(self.now);
        let coordinator = host.coordinator.as_mut();
        let Some(coordinator) = coordinator.filter(|it| !it.is_blocked()) else {
            return;
        };
        if coordinator.doomed_at.is_some_and(|at| at <= now) {
            let all: Vec<LeaseId> = host.children.keys().copied().collect();
            for lease in all {
                self.child_killed(index, lease);
            }
            return;
        }
        let overdue: BTreeSet<RunKey> = coordinator
            .stops
            .extract_if(.., |_, at| *at <= now)
            .map(|(run, _)| run)
            .collect();
        let children = host.children.iter();
        let watched = children.filter(|(_, it)| overdue.contains(&it.run) && !it.is_unwatched);
        for lease in watched.map(|(lease, _)| *lease).collect::<Vec<_>>() {
            self.child_killed(index, lease);
        }
    }

    /// SIGTERM: most processes exit within two seconds, some never.
    pub(super) fn terminate(&mut self, index: usize, lease: LeaseId, cause: KillCause) {
        let Some(child) = self.hosts[index].children.get_mut(&lease) else {
            return;
        };
        child.killed_by.get_or_insert(cause);
        if !child.ignores_term {
            let reaction = self.work_rng.below(2 * SECOND);
            self.at(reaction, Event::ChildTerminated { host: index, lease });
        }
    }

    fn terminate_all(&mut self, index: usize, cause: KillCause) {
        let all: Vec<LeaseId> = self.hosts[index].children.keys().copied().collect();
        for lease in all {
            self.terminate(index, lease, cause);
        }
    }

    /// The runner of a task is killed.
    pub(super) fn runner_crash(&mut self, index: usize) {
        let children = self.hosts[index].children.keys();
        let tasks: Vec<LeaseId> = children
            .copied()
            .filter(|lease| self.has_runner(index, *lease))
            .collect();
        if !tasks.is_empty() {
            let lease = self.fault_rng.pick(&tasks);
            self.runner_dies(index, lease);
        }
    }

    /// True for a task whose runner may die alone. What is killed hard ends with its last process,
    /// whatever becomes of the runner.
    fn has_runner(&self, index: usize, lease: LeaseId) -> bool {
        let host = &self.hosts[index];
        host.children.get(&lease).is_some_and(|child| {
            let record = host.records.get(&child.run);
            let is_task = record.is_some_and(|it| it.assignment.is_task());
            let is_killed = !matches!(child.killed_by, None | Some(KillCause::Requested));
            is_task && !child.is_unwatched && !is_killed
        })
    }

    /// The runner of this task is killed, if it has one; its work goes on, also while the task is
    /// being stopped.
    pub(super) fn runner_dies(&mut self, index: usize, lease: LeaseId) {
        if !self.has_runner(index, lease) {
            return;
        }
        self.note(&lease, || {
            format!("h{index} the runner of {lease} is killed")
        });
        if let Some(child) = self.hosts[index].children.get_mut(&lease) {
            child.is_unwatched = true;
            let run = child.run;
            self.run_over(index, run, Outcome::Signaled(9));
        }
    }

    /// A process ends by itself.
    pub(super) fn child_ends(&mut self, index: usize, lease: LeaseId) {
        if let Some(child) = self.hosts[index].children.get(&lease) {
            let outcome = match child.killed_by {
                Some(cause) => Outcome::Killed(cause),
                None => Outcome::Exited(child.exit),
            };
            self.child_dead(index, lease, outcome);
        }
    }

    /// A signal takes effect, if the process was sent one and still lives.
    pub(super) fn child_killed(&mut self, index: usize, lease: LeaseId) {
        let killed_by = self.hosts[index]
            .children
            .get(&lease)
            .and_then(|child| child.killed_by);
        if let Some(cause) = killed_by {
            self.child_dead(index, lease, Outcome::Killed(cause));
        }
    }

    fn child_dead(&mut self, index: usize, lease: LeaseId, outcome: Outcome) {
        self.note(&(lease, outcome), || {
            format!("h{index} {lease} ends: {outcome}")
        });
        let host = &mut self.hosts[index];
        let child = host.children.remove(&lease);
        if let Some(coordinator) = &mut host.coordinator {
            coordinator.guard.unwatch(lease);
        }
        self.checkers.truth.end(lease, outcome);
        // Without a runner, the next one finds out.
        if let Some(child) = child.filter(|child| !child.is_unwatched) {
            self.run_over(index, child.run, outcome);
        }
        self.start_queue(index);
        self.acknowledge_kill(index);
    }

    /// The process of a run is over: its coordinator records it, now or when it continues.
    fn run_over(&mut self, index: usize, run: RunKey, outcome: Outcome) {
        match &mut self.hosts[index].coordinator {
            Some(coordinator) if coordinator.is_blocked() => {
                coordinator.zombies.push((run, outcome));
            }
            Some(_) => self.record_end(index, run, outcome),
            None => self.reaper_keep(index, &[(run, outcome)]),
        }
    }

    fn record_end(&mut self, index: usize, run: RunKey, outcome: Outcome) {
        let now = self.hosts[index].clock.mono(self.now);
        if let Some(record) = self.hosts[index].records.get_mut(&run) {
            let ending = ending(record.assignment.lease, record.started, now, outcome);
            record.ended = Some(ending.clone());
            self.agent_event(index, AgentEvent::Ended(run, ending));
        }
    }

    /// Answers the order to kill everything once nothing is left.
    fn acknowledge_kill(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        let none_left = host.children.is_empty();
        let coordinator = host.coordinator.as_mut().filter(|it| !it.is_blocked());
        if none_left && let Some(id) = coordinator.and_then(|it| it.killing.take()) {
            self.agent_event(index, AgentEvent::EverythingKilled { id, left: 0 });
        }
    }

    /// SIGSTOP: a stopped coordinator cannot watch the time, only the reaper can.
    pub(super) fn coordinator_pause(&mut self, index: usize) {
        let Some(coordinator) = &mut self.hosts[index].coordinator else {
            return;
        };
        coordinator.paused = true;
        if self.hosts[index].reaper.is_none() {
            self.excuse(index);
        }
        self.note(&index, || format!("h{index} coordinator is stopped"));
    }

    pub(super) fn coordinator_resume(&mut self, index: usize) {
        let Some(coordinator) = &mut self.hosts[index].coordinator else {
            return;
        };
        if !coordinator.paused {
            return;
        }
        coordinator.paused = false;
        self.note(&index, || format!("h{index} coordinator continues"));
        // The timer first: a queued order must not overtake it.
        self.guard_poll(index);
        self.coordinator_unblocked(index);
    }

    /// Nothing is left of runs without a runner or a record.
    pub(super) fn strays_dead(&mut self, index: usize) {
        let now = self.now;
        let coordinator = self.hosts[index].coordinator.as_mut();
        let Some(coordinator) = coordinator.filter(|it| it.busy_until.is_some_and(|at| at <= now))
        else {
            return;
        };
        if coordinator.paused {
            // It goes on when it continues.
            let later = now.after(SECOND);
            coordinator.busy_until = Some(later);
            return self.at_time(later, Event::StraysDead(index));
        }
        coordinator.busy_until = None;
        let children = self.hosts[index].children.iter();
        let strays = children.filter(|(_, child)| child.is_unwatched);
        let strays: Vec<LeaseId> = strays.map(|(lease, _)| *lease).collect();
        for lease in strays {
            self.child_dead(index, lease, LOST);
        }
        self.agent_event(index, AgentEvent::StraysKilled { left: 0 });
        self.coordinator_unblocked(index);
    }

    /// Does what had to wait.
    fn coordinator_unblocked(&mut self, index: usize) {
        let coordinator = self.hosts[index].coordinator.as_mut();
        let Some(coordinator) = coordinator.filter(|it| !it.is_blocked()) else {
            return self.rearm_guard(index);
        };
        let zombies = std::mem::take(&mut coordinator.zombies);
        let orders = std::mem::take(&mut coordinator.orders);
        for (run, outcome) in zombies {
            self.record_end(index, run, outcome);
        }
        for (order, assignment) in orders {
            self.coordinator_order(index, order, assignment);
        }
        self.kill_overdue(index);
        self.start_queue(index);
        self.acknowledge_kill(index);
        self.rearm_guard(index);
    }

    /// SIGKILL to a coordinator.
    pub(super) fn coordinator_crash(&mut self, index: usize) {
        let Some(old) = self.hosts[index].coordinator.take() else {
            return;
        };
        self.note(&index, || format!("h{index} coordinator is killed"));
        // It may have launched the next one and not recorded it.
        if let Some((run, assignment)) = old.queue.front()
            && self.fault_rng.chance(500)
        {
            self.start_unrecorded(index, *run, assignment);
        }
        self.reaper_keep(index, &old.zombies);
        let host = &self.hosts[index];
        if host.agent_is_awake() {
            self.replace_coordinator(index);
        } else if host.agent.is_none() && host.reaper.is_none() {
            self.at(self.now.0 % (8 * SECOND), Event::AgentStart(index));
        }
    }

    /// The agent replaces a dead coordinator.
    pub(super) fn replace_coordinator(&mut self, index: usize) {
        let mut successor = Coordinator::default();
        if let Some(order) = self.hosts[index].guard_on_disk {
            successor.guard.extend(order);
        }
        self.hosts[index].coordinator = Some(successor);
        // The timer first: the agent's orders must not overtake it.
        self.guard_poll(index);
        let exits = self.reaper_exits(index);
        self.agent_takes_over(index, &exits);
        self.rearm_guard(index);
    }

    /// The agent starts another coordinator and hands over what it knows.
    fn agent_takes_over(&mut self, index: usize, zombies: &[(RunKey, Outcome)]) {
        let reported = self.reported_runs(index);
        let sightings = self.sightings(index, zombies);
        let host = &mut self.hosts[index];
        let now = host.clock.mono(self.now);
        let Some(agent) = &mut host.agent else { return };
        let inventory = agent.supervisor.inventory(reported);
        for known in inventory.attempts() {
            // The handover.
            host.records.entry(known.run).or_insert_with(|| DiskRecord {
                assignment: known.assignment.clone(),
                started: known.started.map(|(at, _)| at.mono),
                ended: None,
            });
        }
        let sight = |attempt: &Attempt| sightings(attempt.run);
        let actions = agent
            .supervisor
            .take_over(now, inventory, &BTreeSet::new(), sight);
        self.agent_perform_all(index, actions);
        self.settle_records(index);
    }

    /// The runs that the coordinator reports itself, if it runs.
    pub(super) fn owned_runs(&self, index: usize) -> BTreeSet<RunKey> {
        let host = &self.hosts[index];
        let coordinator = host.coordinator.iter();
        let owned = coordinator.flat_map(|it| it.owned.iter().copied());
        owned.filter(|run| host.records.contains_key(run)).collect()
    }

    pub(super) fn reported_runs(&self, index: usize) -> Vec<ReportedRun> {
        let host = &self.hosts[index];
        let records = host.records.iter();
        records
            .map(|(run, record)| record.reported(*run, host.boot))
            .collect()
    }

    /// What an agent finds of the runs that a dead coordinator has started: its own children, and
    /// what they left as zombies.
    pub(super) fn sightings(
        &self,
        index: usize,
        zombies: &[(RunKey, Outcome)],
    ) -> impl Fn(RunKey) -> Sighting + use<> {
        let host = &self.hosts[index];
        let now = host.clock.mono(self.now);
        let watched = host.children.values().filter(|it| !it.is_unwatched);
        let present: BTreeSet<RunKey> = watched.map(|child| child.run).collect();
        let ended: Vec<(RunKey, Ending)> = zombies
            .iter()
            .filter_map(|(run, outcome)| {
                let record = host.records.get(run)?;
                let lease = record.assignment.lease;
                Some((*run, ending(lease, record.started, now, *outcome)))
            })
            .collect();
        move |run| {
            if present.contains(&run) {
                return Sighting::Present;
            }
            let ended = ended.iter().find(|(ended, _)| *ended == run);
            ended.map_or(Sighting::Unknown, |(_, ending)| {
                Sighting::Ended(ending.clone())
            })
        }
    }

    /// After a takeover the handover says how attempts ended that no coordinator has on record.
    pub(super) fn settle_records(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        let Some(agent) = &host.agent else { return };
        for attempt in agent.supervisor.attempts().iter() {
            let known = KnownAttempt::from(attempt);
            if let Some(record) = host.records.get_mut(&known.run)
                && record.ended.is_none()
                && let Some(report) = known.ended
            {
                record.ended = Some(Ending {
                    at: host.clock.mono(self.now),
                    report,
                    has_bad_outputs: false,
                });
            }
        }
    }
}

fn ending(lease: LeaseId, started: Option<Mono>, now: Mono, outcome: Outcome) -> Ending {
    // Wall times are only displayed, so they are omitted here.
    let stats = started.map(|started| AttemptStats {
        started: Wall(0),
        ended: Wall(0),
        elapsed: now.since(started),
        cpu: Millis(0),
        memory_peak: 0,
    });
    Ending {
        at: now,
        report: Report {
            outcome,
            stats,
            outputs: outputs_of(lease.attempt.instance, outcome),
            stderr_tail: None,
        },
        has_bad_outputs: false,
    }
}
