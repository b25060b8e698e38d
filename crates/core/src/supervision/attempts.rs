//! The attempts of a worker, and their runs at the coordinator.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_model::device::DeviceShare;
use baton_model::ids::LeaseId;
use baton_model::message::Launch;
use baton_model::outcome::{KillCause, Outcome, Report};
use baton_model::spec::{GrownRequest, InstanceSpec, Work};
use baton_model::task::{Identity, Moment, ProcessNo, RunKey, RunNo};
use baton_model::time::{Millis, Mono};
use baton_model::timeouts::LeaseTerm;
use baton_model::trace::TraceContext;
use serde::{Deserialize, Serialize};

use super::backoff::RUNNER_RESTARTS_MAX;
use super::io::{Action, Ending};
use super::takeover::KnownAttempt;
use crate::protocol::worker::io::Record;

/// The exit status of a runner whose task was killed.
pub(crate) const TASK_KILLED: i32 = 3;
/// The exit status of a runner that cannot determine the outcome of its task.
const TASK_LOST: i32 = 4;
/// Time from SIGTERM to SIGKILL for a command that has timed out.
const TIMEOUT_GRACE: Millis = Millis::from_secs(10);
/// The time that a runner gets after the budget of its task, to kill what is left and to exit.
const RUNNER_SLACK: Millis = Millis::from_secs(10);

/// An unobserved end: no process of the attempt is left, and its outcome is unknown.
pub const LOST: Outcome = Outcome::Killed(KillCause::Suicide);

/// An attempt as the scheduler assigned it to this worker.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Assignment {
    pub lease: LeaseId,
    pub spec: Arc<InstanceSpec>,
    pub timeout: Option<Millis>,
    /// Bytes of memory that it was placed with.
    pub memory_min: u64,
    /// Bytes of memory that it may use; 0 for no limit.
    pub memory_max: u64,
    /// The requests that have grown since the first attempt.
    pub requests: Vec<GrownRequest>,
    /// The start of its first run, if this is a later one.
    pub began: Option<Mono>,
    /// The span that its processes are children of.
    pub trace: Option<TraceContext>,
}

impl From<Launch> for Assignment {
    fn from(launch: Launch) -> Self {
        let allowance = launch.allowance.map(|allowance| *allowance);
        let allowance = allowance.unwrap_or_else(|| launch.spec.allowance());
        Self {
            lease: launch.lease,
            spec: launch.spec,
            timeout: allowance.timeout,
            memory_min: allowance.memory_min,
            memory_max: allowance.memory_max,
            requests: allowance.requests,
            began: None,
            trace: launch.trace,
        }
    }
}

impl Assignment {
    /// How long it outlives the contact to its scheduler.
    #[must_use]
    pub fn term(&self) -> LeaseTerm {
        LeaseTerm::of(&self.spec)
    }

    /// True for a task of processes, which a runner runs.
    #[must_use]
    pub fn is_task(&self) -> bool {
        matches!(self.spec.work, Work::Task(_))
    }

    /// The remaining timeout, if a run starts now.
    #[must_use]
    pub fn time_left(&self, now: Mono) -> Option<Millis> {
        let spent = self.began.map_or(Millis(0), |began| now.since(began));
        self.timeout.map(|timeout| timeout.saturating_sub(spent))
    }

    /// The time from a request to stop to SIGKILL. A task declares its own; `grace` is for a
    /// command, and without any nothing is waited for.
    #[must_use]
    pub fn stop_budget(&self, grace: Millis) -> Millis {
        match &self.spec.work {
            Work::Task(task) if grace > Millis(0) => task.finalization_wait + RUNNER_SLACK,
            Work::Task(_) | Work::Command(_) => grace,
        }
    }

    /// The time from the timeout to SIGKILL, for a run that started then. If the attempt timed out
    /// before now, its budget is not renewed.
    #[must_use]
    pub fn timeout_grace(&self, started: Mono, now: Mono) -> Millis {
        let began = self.began.unwrap_or(started);
        let overdue = self
            .timeout
            .map_or(Millis(0), |timeout| now.since(began + timeout));
        self.stop_budget(TIMEOUT_GRACE).saturating_sub(overdue)
    }

    /// Converts an observed end of a run to a report about the attempt. `killed` is why the worker
    /// killed it, if it did; `started` is the start of this run.
    pub(super) fn report(
        &self,
        ending: Ending,
        started: Option<Mono>,
        killed: Option<KillCause>,
    ) -> Report {
        let outcome = match ending.report.outcome {
            // An order to kill everything has no cause of its own.
            Outcome::Killed(KillCause::Requested) => {
                Outcome::Killed(killed.unwrap_or(KillCause::Requested))
            }
            Outcome::Exited(TASK_KILLED) if self.is_task() => {
                let run_time = self.began.or(started).map(|began| ending.at.since(began));
                let late = self.timeout.is_some() && run_time >= self.timeout;
                let late = late.then_some(KillCause::TimedOut);
                Outcome::Killed(killed.or(late).unwrap_or(KillCause::Requested))
            }
            Outcome::Exited(TASK_LOST) if self.is_task() => LOST,
            // The death of a runner says nothing about its task, which was being killed.
            Outcome::Signaled(_) if self.is_task() && killed.is_some() => {
                killed.map_or(LOST, Outcome::Killed)
            }
            // Downstream tasks would run without the outputs.
            success if success.is_success() && ending.has_bad_outputs => Outcome::BadOutput,
            other => other,
        };
        Report {
            outcome,
            ..ending.report
        }
    }
}

/// True if an attempt goes on although this run has ended so: the runner of its task has died by a
/// signal, and the task's log allows the next one to resume.
pub(super) fn is_resumable(run: RunKey, assignment: &Assignment, outcome: Outcome) -> bool {
    let died = matches!(outcome, Outcome::Signaled(_));
    died && assignment.is_task() && run.run.0 < RUNNER_RESTARTS_MAX
}

/// The state of an attempt at its coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its secrets were requested from the scheduler; the coordinator does not know of it.
    AwaitingSecrets,
    /// The launch was requested from the coordinator.
    Requested,
    /// The launch waits at the coordinator for room.
    Waiting,
    /// Its process is running.
    Running,
    /// Its runner has died like this, and will be started again.
    Restarting(Report),
    /// It was found to have ended, and what may be left of it is being killed.
    Concluded(Report),
    /// It has ended, and the scheduler has not acknowledged it.
    Ended(Report),
}

/// A request to end an attempt. A repeated one can only bring the end forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StopRequest {
    pub(super) cause: KillCause,
    /// When it is killed hard.
    deadline: Mono,
}

/// One attempt.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// Its last run.
    pub run: RunKey,
    pub assignment: Assignment,
    pub started: Option<(Moment, Identity)>,
    /// The devices that it holds.
    pub devices: Vec<DeviceShare>,
    pub phase: Phase,
    /// The run before it, which stays on record until the coordinator has this one on record.
    pub(super) replaced: Option<RunKey>,
    /// The protocol was told that it has started.
    pub(super) reported: bool,
    /// The coordinator was asked to return it.
    pub(super) withdrawn: bool,
    /// Its end was requested.
    pub(super) stop: Option<StopRequest>,
    /// The handover has it on record.
    pub(super) inherited: bool,
    /// What it was warned of.
    pub(super) warned: Warned,
}

/// The ends that an attempt was warned of. Each is announced once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Warned {
    pub(super) timeout: bool,
    pub(super) worker_end: bool,
}

impl Attempt {
    /// An attempt whose launch is about to be requested.
    #[must_use]
    pub const fn new(run: RunKey, assignment: Assignment) -> Self {
        Self {
            run,
            assignment,
            started: None,
            devices: Vec::new(),
            phase: Phase::Requested,
            replaced: None,
            reported: false,
            withdrawn: false,
            stop: None,
            inherited: false,
            warned: Warned {
                timeout: false,
                worker_end: false,
            },
        }
    }

    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Ended(_))
    }

    /// Why its end was requested, if it was.
    pub(super) fn stop_cause(&self) -> Option<KillCause> {
        self.stop.map(|stop| stop.cause)
    }

    /// Records a request to end it; false if that changes nothing. The first cause counts, and a
    /// repeated request does not renew the time.
    pub(super) fn request_stop(&mut self, cause: KillCause, deadline: Mono) -> bool {
        let before = self.stop;
        let cause = self.stop_cause().unwrap_or(cause);
        let deadline = before.map_or(deadline, |stop| stop.deadline.min(deadline));
        self.stop = Some(StopRequest { cause, deadline });
        self.stop != before
    }

    /// The order to stop its run, with what is left of the time; none if it is not to stop.
    pub(super) fn stop_action(&self, now: Mono) -> Option<Action> {
        self.stop.map(|stop| Action::Stop {
            run: self.run,
            grace: stop.deadline.since(now),
            cause: stop.cause,
        })
    }

    /// True if the handover has it on record.
    #[must_use]
    pub const fn is_inherited(&self) -> bool {
        self.inherited
    }

    /// The record for the protocol.
    pub(super) fn record(&self) -> Record {
        Record {
            lease: self.assignment.lease,
            spec: Arc::clone(&self.assignment.spec),
            devices: self.devices.clone(),
            ended: match &self.phase {
                Phase::Ended(report) => Some(report.clone()),
                _ => None,
            },
        }
    }
}

/// All attempts.
#[derive(Debug, Default)]
pub struct Attempts {
    by_number: BTreeMap<ProcessNo, Attempt>,
    by_lease: BTreeMap<LeaseId, ProcessNo>,
    /// Running attempts with a memory limit.
    limited: BTreeSet<ProcessNo>,
    next: u32,
    /// An attempt that the handover has on record was settled.
    handover_changed: bool,
}

impl Attempts {
    /// The attempt, if it is in exactly this run.
    #[must_use]
    pub fn get(&self, run: RunKey) -> Option<&Attempt> {
        let attempt = self.by_number.get(&run.process)?;
        (attempt.run == run).then_some(attempt)
    }

    /// The attempt of a lease.
    #[must_use]
    pub fn of(&self, lease: LeaseId) -> Option<&Attempt> {
        self.by_number.get(self.by_lease.get(&lease)?)
    }

    #[must_use]
    pub fn contains(&self, lease: LeaseId) -> bool {
        self.by_lease.contains_key(&lease)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Attempt> {
        self.by_number.values()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    /// The first processes of running attempts with a memory limit.
    pub fn limited(&self) -> impl Iterator<Item = (RunKey, Identity)> {
        let attempts = self.limited.iter();
        let attempts = attempts.filter_map(|number| self.by_number.get(number));
        attempts.filter_map(|attempt| Some((attempt.run, attempt.started?.1)))
    }

    #[must_use]
    pub fn has_limited(&self) -> bool {
        !self.limited.is_empty()
    }

    /// A run of a process that was not used before.
    pub(super) fn new_run(&mut self) -> RunKey {
        let process = ProcessNo(self.next);
        self.next = self.next.wrapping_add(1);
        RunKey {
            process,
            run: RunNo(0),
        }
    }

    /// Marks a number as used.
    pub(super) fn reserve(&mut self, run: RunKey) {
        self.next = self.next.max(run.process.0.wrapping_add(1));
    }

    pub(super) fn insert(&mut self, attempt: Attempt) {
        self.reserve(attempt.run);
        let (run, phase) = (attempt.run, attempt.phase.clone());
        let lease = attempt.assignment.lease;
        let other = self.by_lease.insert(lease, run.process);
        let other = other.filter(|other| *other != run.process);
        assert_eq!(other, None, "{lease} has another process than {run}");
        self.by_number.insert(run.process, attempt);
        self.set_phase(run, phase);
    }

    /// True if the coordinator has this run on record and its successor not yet.
    pub(super) fn is_being_replaced(&self, run: RunKey) -> bool {
        let attempt = self.by_number.get(&run.process);
        attempt.is_some_and(|attempt| attempt.replaced == Some(run))
    }

    /// Access to what no index depends on.
    pub(super) fn get_mut(&mut self, run: RunKey) -> Option<&mut Attempt> {
        let attempt = self.by_number.get_mut(&run.process)?;
        (attempt.run == run).then_some(attempt)
    }

    pub(super) fn set_phase(&mut self, run: RunKey, phase: Phase) {
        let Some(attempt) = self.get_mut(run) else {
            return;
        };
        let limited = phase == Phase::Running && attempt.assignment.memory_max > 0;
        attempt.phase = phase;
        if limited {
            self.limited.insert(run.process);
        } else {
            self.limited.remove(&run.process);
        }
    }

    pub(super) fn run_of(&self, lease: LeaseId) -> Option<RunKey> {
        Some(self.of(lease)?.run)
    }

    pub(super) fn remove(&mut self, lease: LeaseId) -> Option<Attempt> {
        let number = self.by_lease.remove(&lease)?;
        let attempt = self.by_number.remove(&number)?;
        let held = attempt.assignment.lease;
        assert_eq!(held, lease, "the attempt of {number:?}");
        self.limited.remove(&number);
        self.handover_changed |= attempt.inherited;
        Some(attempt)
    }

    /// Removes all attempts; numbering continues.
    pub(super) fn drain(&mut self) -> BTreeMap<LeaseId, Attempt> {
        self.by_lease.clear();
        self.limited.clear();
        let attempts = std::mem::take(&mut self.by_number).into_values();
        attempts
            .map(|attempt| (attempt.assignment.lease, attempt))
            .collect()
    }

    pub(super) const fn note_handover_changed(&mut self) {
        self.handover_changed = true;
    }

    pub(super) const fn take_handover_changed(&mut self) -> bool {
        std::mem::replace(&mut self.handover_changed, false)
    }
}

impl From<KnownAttempt> for Attempt {
    fn from(known: KnownAttempt) -> Self {
        let phase = match (known.ended, known.waiting, known.started) {
            (Some(report), _, _) => Phase::Ended(report),
            (None, true, _) => Phase::Waiting,
            (None, false, Some(_)) => Phase::Running,
            (None, false, None) => Phase::Requested,
        };
        Self {
            started: known.started,
            devices: known.devices,
            phase,
            reported: true,
            ..Self::new(known.run, known.assignment)
        }
    }
}
