//! The work of attempts: how long its processes run, how they react to signals, and what they
//! leave behind.
//!
//! A command is one process, and sometimes leaves another one behind. A task is a runner beside a
//! process of its work. The runner may be killed: its work goes on, and the next runner takes it
//! over.

use std::collections::BTreeMap;

use baton_core::host::kernel::{SIGKILL, SIGTERM};
use baton_core::supervision::attempts::Assignment;
use baton_model::coordinator::{KnownRun, Launch};
use baton_model::ids::LeaseId;
use baton_model::outcome::{ExitStatus, KillCause, Outcome};
use baton_model::task::{RunKey, RunNo};
use baton_model::time::Mono;
use baton_model::timeouts::LeaseTerm;

use super::{Event, World};
use crate::checkers::Execution;
use crate::machine::processes::{Parent, ProcessEvent};
use crate::swarm::FaultKind;
use crate::time::{MILLI, SECOND};

/// The exit status of a runner that has stopped its task.
const TASK_KILLED: i32 = 3;
/// The exit status of a runner that cannot tell how its task has ended.
const TASK_LOST: i32 = 4;
/// Commands that leave a process behind, of a thousand.
const LEAVING: u64 = 100;
/// Those of them that have lost their mark, of a thousand.
const UNMARKED: u64 = 200;

/// The role of a process in its attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Command,
    /// It was started by a command, which does not wait for it.
    Leftover,
    /// It belongs to no attempt that Baton could tell.
    Stranger,
    Runner,
    Task,
    /// A health check, without an attempt.
    Check,
}

/// One process, as its program behaves.
#[derive(Clone, Copy, Debug)]
struct Program {
    lease: Option<LeaseId>,
    run: RunKey,
    role: Role,
    exit: i32,
    ignores_term: bool,
    /// A runner that was asked to stop its task.
    is_stopping: bool,
}

/// An attempt whose processes were launched here.
#[derive(Clone, Debug)]
struct Started {
    assignment: Assignment,
    at: Mono,
    /// The end of its command, or of the work of its task.
    status: Option<ExitStatus>,
}

/// The work on one machine. Programs are known by the start time of their process.
#[derive(Debug, Default)]
pub(super) struct Workload {
    programs: BTreeMap<u64, Program>,
    attempts: BTreeMap<LeaseId, Started>,
}

impl Workload {
    /// The attempts that have a process.
    pub(super) fn leases(&self) -> Vec<LeaseId> {
        let own = self.programs.values().filter(|it| it.role.counts());
        let mut leases: Vec<LeaseId> = own.filter_map(|it| it.lease).collect();
        leases.sort_unstable();
        leases.dedup();
        leases
    }

    /// How an attempt has ended: the status of its first process counts, also if others were left
    /// then.
    fn outcome(&self, lease: LeaseId) -> Outcome {
        let status = self.attempts.get(&lease).and_then(|it| it.status);
        status.map_or(Outcome::Signaled(SIGKILL), Outcome::from)
    }

    /// The end of an attempt was acknowledged.
    pub(super) fn forget(&mut self, lease: LeaseId) {
        let mut programs = self.programs.values();
        if !programs.any(|it| it.lease == Some(lease)) {
            self.attempts.remove(&lease);
        }
    }

    /// The attempt of a process.
    pub(super) fn lease_of(&self, ticks: u64) -> Option<LeaseId> {
        self.programs.get(&ticks)?.lease
    }

    /// The processes of an attempt in this role.
    fn of(&self, lease: LeaseId, role: Role) -> Vec<u64> {
        let all = self.programs.iter();
        let own = all.filter(|(_, it)| it.lease == Some(lease) && it.role == role);
        own.map(|(ticks, _)| *ticks).collect()
    }

    /// The runners that a fault may kill alone.
    pub(super) fn runners(&self) -> Vec<u64> {
        let all = self.programs.iter();
        let runners = all.filter(|(_, it)| it.role == Role::Runner);
        runners.map(|(ticks, _)| *ticks).collect()
    }
}

impl Role {
    /// True if the attempt runs for as long as such a process does.
    const fn counts(self) -> bool {
        matches!(self, Self::Command | Self::Leftover | Self::Task)
    }
}

impl World {
    /// Follows up on what has happened to processes of a machine.
    pub(super) fn processes_changed(&mut self, index: usize) {
        loop {
            let events = self.hosts[index].processes.take_events();
            if events.is_empty() {
                return;
            }
            for event in events {
                self.process_event(index, event);
            }
        }
    }

    fn process_event(&mut self, index: usize, event: ProcessEvent) {
        match event {
            ProcessEvent::Launched {
                run,
                launch,
                start_ticks,
            } => self.launched(index, run, &launch, start_ticks),
            ProcessEvent::LaunchFailed { run, launch } => {
                if let Some(assignment) = self.assignment_of(&launch.tag)
                    && run.run == RunNo(0)
                {
                    let lease = assignment.lease;
                    self.note(&lease, || format!("h{index} cannot launch {lease}"));
                    self.checkers.host_fault(lease, index, self.mix.slots);
                }
            }
            ProcessEvent::Signalled {
                start_ticks,
                signal,
            } => self.signalled(index, start_ticks, signal),
            ProcessEvent::Ended {
                start_ticks,
                status,
            } => self.program_ended(index, start_ticks, status),
        }
    }

    fn launched(&mut self, index: usize, run: RunKey, launch: &Launch, ticks: u64) {
        let Some(assignment) = self.assignment_of(&launch.tag) else {
            return self.check_begins(index, run, ticks);
        };
        let lease = assignment.lease;
        if run.run > RunNo(0) {
            self.checkers.devices_kept(lease, launch);
            return self.task_resumes(index, run, lease, ticks);
        }
        self.attempt_begins(index, &assignment);
        self.checkers.devices_assigned(lease, index, launch);
        let is_task = assignment.is_task();
        let role = if is_task { Role::Runner } else { Role::Command };
        let main = self.program_begins(index, lease, run, role, ticks);
        if is_task && main.is_some() {
            let term = launch.term;
            self.child_begins(index, ticks, lease, run, Role::Task, term);
        } else if main.is_some() && self.host_rng.chance(LEAVING) {
            let unmarked = self.host_rng.chance(UNMARKED);
            let role = if unmarked {
                Role::Stranger
            } else {
                Role::Leftover
            };
            self.child_begins(index, ticks, lease, run, role, launch.term);
        }
    }

    fn attempt_begins(&mut self, index: usize, assignment: &Assignment) {
        let lease = assignment.lease;
        let leased = !self.is_durable() || self.store.ledger.open_lease(lease).is_some();
        let host = &mut self.hosts[index];
        let execution = Execution {
            host: index,
            work: assignment.spec.name.clone(),
            exclusive: assignment.spec.exclusive,
            excused: host.excused,
            outcome: None,
        };
        let started = Started {
            assignment: assignment.clone(),
            at: host.clock.mono(self.now),
            status: None,
        };
        host.workload.attempts.insert(lease, started);
        self.note(&lease, || format!("h{index} starts {lease}"));
        self.checkers.started(lease, execution, leased);
    }

    /// The program of a process begins, unless it has been killed already.
    fn program_begins(
        &mut self,
        index: usize,
        lease: LeaseId,
        run: RunKey,
        role: Role,
        ticks: u64,
    ) -> Option<u32> {
        let longest = if self.calm {
            3 * SECOND
        } else {
            self.mix.work_max
        };
        let span = self.work_rng.within(MILLI, longest);
        let failing = self.work_rng.chance(self.mix.failing) || self.hosts[index].work_fails;
        let program = Program {
            lease: Some(lease),
            run,
            role,
            exit: i32::from(failing),
            ignores_term: self.work_rng.chance(300),
            is_stopping: false,
        };
        self.hosts[index].workload.programs.insert(ticks, program);
        // A runner ends after its work.
        if role != Role::Runner {
            self.at(span, Event::ProcessEnds { host: index, ticks });
        }
        self.hosts[index].processes.pid_of(ticks)
    }

    /// A process of an attempt starts another one, in a group of its own.
    fn child_begins(
        &mut self,
        index: usize,
        parent: u64,
        lease: LeaseId,
        run: RunKey,
        role: Role,
        term: LeaseTerm,
    ) {
        let mark = (role != Role::Stranger).then_some(run);
        let is_daemon = role != Role::Task && self.host_rng.chance(500);
        let processes = &mut self.hosts[index].processes;
        if let Some(parent) = processes.pid_of(parent) {
            let parent = if is_daemon {
                processes.ancestor(parent)
            } else {
                Parent::Process(parent)
            };
            let (_, ticks) = processes.start(parent, mark, term);
            self.program_begins(index, lease, run, role, ticks);
        }
    }

    fn check_begins(&mut self, index: usize, run: RunKey, ticks: u64) {
        let program = Program {
            lease: None,
            run,
            role: Role::Check,
            exit: i32::from(self.hosts[index].checks_fail),
            ignores_term: false,
            is_stopping: false,
        };
        self.hosts[index].workload.programs.insert(ticks, program);
        let span = self.host_rng.below(10 * MILLI);
        self.at(span, Event::ProcessEnds { host: index, ticks });
    }

    /// The next runner of a task takes its work over, or tells how it has ended.
    fn task_resumes(&mut self, index: usize, run: RunKey, lease: LeaseId, ticks: u64) {
        let is_alive = !self.hosts[index].workload.of(lease, Role::Task).is_empty();
        let program = Program {
            lease: Some(lease),
            run,
            role: Role::Runner,
            exit: self.task_exit(index, lease, false),
            ignores_term: false,
            is_stopping: false,
        };
        self.hosts[index].workload.programs.insert(ticks, program);
        if !is_alive {
            self.runner_exits(index, ticks);
        }
    }

    /// The exit status with which a runner tells how its task has ended.
    fn task_exit(&self, index: usize, lease: LeaseId, is_stopping: bool) -> i32 {
        let attempt = self.hosts[index].workload.attempts.get(&lease);
        match attempt.and_then(|it| it.status) {
            Some(ExitStatus::Code(code)) => code,
            Some(_) if is_stopping => TASK_KILLED,
            _ => TASK_LOST,
        }
    }

    fn runner_exits(&mut self, index: usize, ticks: u64) {
        let span = self.host_rng.below(50 * MILLI);
        self.at(span, Event::ProcessEnds { host: index, ticks });
    }

    /// A process ends by itself.
    pub(super) fn process_ends(&mut self, index: usize, ticks: u64) {
        let host = &mut self.hosts[index];
        let program = host.workload.programs.get(&ticks);
        if let (Some(program), Some(pid)) = (program, host.processes.pid_of(ticks)) {
            let status = ExitStatus::Code(program.exit);
            host.processes.end(pid, status);
            self.processes_changed(index);
        }
    }

    /// A process ends, if it lives, by a signal that no coordinator has sent now.
    pub(super) fn process_killed(&mut self, index: usize, ticks: u64, signal: i32) {
        let processes = &mut self.hosts[index].processes;
        if let Some(pid) = processes.pid_of(ticks) {
            processes.end(pid, ExitStatus::Signal(signal));
            self.processes_changed(index);
        }
    }

    /// A coordinator has sent a signal.
    fn signalled(&mut self, index: usize, ticks: u64, signal: i32) {
        let Some(program) = self.hosts[index].workload.programs.get(&ticks).copied() else {
            return;
        };
        if let Some(lease) = program.lease.filter(|_| program.role != Role::Stranger) {
            self.check_signal(index, lease, program.run, signal);
        }
        if signal == SIGTERM {
            self.terminated(index, ticks, program);
        }
    }

    /// SIGTERM: most processes end within two seconds, some never. A runner stops its task.
    fn terminated(&mut self, index: usize, ticks: u64, program: Program) {
        if program.role == Role::Runner {
            return self.runner_stops(index, ticks, program);
        }
        if !program.ignores_term {
            let span = self.work_rng.below(2 * SECOND);
            self.at(span, Event::ProcessTerminated { host: index, ticks });
        }
    }

    fn runner_stops(&mut self, index: usize, ticks: u64, program: Program) {
        let (Some(lease), false) = (program.lease, program.is_stopping) else {
            return;
        };
        if let Some(program) = self.hosts[index].workload.programs.get_mut(&ticks) {
            program.is_stopping = true;
        }
        for work in self.hosts[index].workload.of(lease, Role::Task) {
            if let Some(program) = self.hosts[index].workload.programs.get(&work).copied() {
                self.terminated(index, work, program);
            }
        }
        let span = self.host_rng.within(2 * SECOND, 8 * SECOND);
        self.at(span, Event::RunnerKills { host: index, ticks });
        let mut faults = self.mix.faults.iter();
        let crashes = faults.any(|(kind, _)| *kind == FaultKind::RunnerCrash);
        if crashes && !self.calm && self.fault_rng.chance(700) {
            let span = self.fault_rng.below(SECOND);
            self.at(span, Event::RunnerDies { host: index, ticks });
        }
    }

    /// A runner kills what has not stopped.
    pub(super) fn runner_kills(&mut self, index: usize, ticks: u64) {
        let host = &self.hosts[index];
        let program = host.workload.programs.get(&ticks);
        let lease = program.and_then(|program| program.lease);
        if let Some(lease) = lease.filter(|_| host.processes.pid_of(ticks).is_some()) {
            for work in self.hosts[index].workload.of(lease, Role::Task) {
                self.process_killed(index, work, SIGKILL);
            }
        }
    }

    /// The runner of some task is killed.
    pub(super) fn runner_crash(&mut self, index: usize) {
        let runners = self.hosts[index].workload.runners();
        if !runners.is_empty() {
            let ticks = self.fault_rng.pick(&runners);
            self.runner_dies(index, ticks);
        }
    }

    /// A runner is killed; its work goes on.
    pub(super) fn runner_dies(&mut self, index: usize, ticks: u64) {
        self.note(&(index, ticks), || format!("h{index} a runner is killed"));
        self.process_killed(index, ticks, SIGKILL);
    }

    /// Records the true end of a process, and lets those react who wait for it.
    fn program_ended(&mut self, index: usize, ticks: u64, status: ExitStatus) {
        let host = &mut self.hosts[index];
        let program = host.workload.programs.remove(&ticks);
        if let Some(program) = program
            && let Some(lease) = program.lease
        {
            if matches!(program.role, Role::Command | Role::Task)
                && let Some(attempt) = host.workload.attempts.get_mut(&lease)
            {
                attempt.status = Some(status);
            }
            if program.role == Role::Task {
                self.task_ended(index, lease);
            }
            // A runner that is killed at once has started no work.
            let is_empty = |world: &Self| {
                let attempt = world.hosts[index].workload.attempts.get(&lease);
                attempt.is_some_and(|it| it.status.is_none())
            };
            if program.role.counts() || (program.role == Role::Runner && is_empty(self)) {
                self.attempt_ends(index, lease);
            }
        }
        self.child_ended(index, ticks);
    }

    /// The runner of a task learns that its work has ended.
    fn task_ended(&mut self, index: usize, lease: LeaseId) {
        for runner in self.hosts[index].workload.of(lease, Role::Runner) {
            let program = self.hosts[index].workload.programs.get(&runner);
            let is_stopping = program.is_some_and(|it| it.is_stopping);
            let exit = self.task_exit(index, lease, is_stopping);
            if let Some(program) = self.hosts[index].workload.programs.get_mut(&runner) {
                program.exit = exit;
            }
            self.runner_exits(index, runner);
        }
    }

    /// An attempt has ended when none of its processes is left.
    fn attempt_ends(&mut self, index: usize, lease: LeaseId) {
        let host = &self.hosts[index];
        let mut programs = host.workload.programs.values();
        if programs.any(|it| it.lease == Some(lease) && it.role.counts()) {
            return;
        }
        let outcome = host.workload.outcome(lease);
        self.note(&(lease, outcome), || {
            format!("h{index} {lease} ends: {outcome}")
        });
        self.checkers.truth.end(lease, outcome);
    }

    /// Attempts whose time is over may be killed: by the order of the dead-man timer that their
    /// coordinator has, and by their own timeout.
    pub(super) fn note_overdue(&mut self, index: usize) {
        let host = &self.hosts[index];
        let now = host.clock.mono(self.now);
        let coordinator = host.coordinator.as_ref();
        let order = coordinator.and_then(|it| it.process.host().guard_order());
        // Also of those without a process: the dead runner of a task may have left work that has ended.
        for (lease, attempt) in &host.workload.attempts {
            let lease = *lease;
            let assignment = &attempt.assignment;
            let deadline = order.and_then(|order| order.deadline_of(assignment.term()));
            if deadline.is_some_and(|at| at <= now) {
                self.checkers.signals.kill(lease, KillCause::LeaseLapsed);
            }
            if assignment
                .timeout
                .is_some_and(|span| attempt.at + span <= now)
            {
                self.checkers.signals.kill(lease, KillCause::TimedOut);
            }
        }
    }

    /// Checks a signal to a process of an attempt.
    fn check_signal(&mut self, index: usize, lease: LeaseId, run: RunKey, signal: i32) {
        let host = &self.hosts[index];
        let attempt = host.workload.attempts.get(&lease);
        // What an attempt leaves behind is killed.
        if attempt.is_none_or(|it| it.status.is_some()) {
            return;
        }
        let coordinator = host.coordinator.as_ref();
        let mut known = coordinator.iter().flat_map(|it| it.process.host().known());
        // What no coordinator watches is killed, too: it watches a run while its first process exists.
        let is_watched = |it: &KnownRun| {
            let exists = |(_, identity)| host.processes.exists(&identity, host.boot);
            it.run == run && it.ended.is_none() && it.started.is_some_and(exists)
        };
        if known.any(|it| is_watched(&it)) {
            let now = host.clock.mono(self.now);
            self.checkers.signalled(lease, signal, now);
        }
    }

    /// Kills everything on a machine at once; nothing records the outcomes.
    pub(super) fn all_processes_die(&mut self, index: usize) {
        let host = &mut self.hosts[index];
        host.processes.clear();
        let workload = std::mem::take(&mut host.workload);
        for lease in workload.leases() {
            self.checkers.truth.end(lease, workload.outcome(lease));
        }
    }
}
