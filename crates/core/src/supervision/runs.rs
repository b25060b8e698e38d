//! What the coordinator and the host report about runs.

use std::sync::Arc;

use baton_model::device::DeviceShare;
use baton_model::outcome::{KillCause, Outcome, Report};
use baton_model::task::{Identity, Moment, RunKey, RunNo};
use baton_model::time::{Millis, Mono};

use super::attempts::{Attempt, LOST, Phase, is_resumable};
use super::backoff::{RUNNER_DELAY_MAX, runner_delay};
use super::io::{Action, Ending, Sighting};
use super::{Supervisor, WAIT_MAX};
use crate::protocol::worker::io::Input;

/// How a runner is taken to have died that has vanished.
const SIGKILL: i32 = 9;

impl Supervisor {
    pub(super) fn accepted(&mut self, now: Mono, run: RunKey, out: &mut Vec<Action>) {
        self.attempts.set_phase(run, Phase::Waiting);
        let wait = if self.drain.is_some() {
            Millis(0)
        } else {
            WAIT_MAX
        };
        self.waiting.push_back((now + wait, run));
        self.forget_replaced(run, out);
    }

    pub(super) fn started(
        &mut self,
        run: RunKey,
        started: (Moment, Identity),
        devices: Vec<DeviceShare>,
        out: &mut Vec<Action>,
    ) {
        let attempt = self.attempts.get_mut(run);
        if let Some(attempt) = attempt.filter(|attempt| !attempt.is_over()) {
            attempt.started = Some(started);
            if !devices.is_empty() {
                attempt.devices = devices;
            }
            self.attempts.set_phase(run, Phase::Running);
            self.report_start(run, out);
            self.plan_warning(run);
        }
    }

    /// A run has started: the protocol learns it once. It does not learn of a run that waits for
    /// room, so that only what runs is shown as running.
    fn report_start(&mut self, run: RunKey, out: &mut Vec<Action>) {
        if let Some(attempt) = self.attempts.get_mut(run)
            && !std::mem::replace(&mut attempt.reported, true)
        {
            let (lease, devices) = (attempt.assignment.lease, attempt.devices.clone());
            if !devices.is_empty() {
                self.inputs
                    .push_back(Input::DevicesAssigned(lease, devices));
            }
            self.inputs.push_back(Input::Launched(lease));
        }
        self.forget_replaced(run, out);
    }

    /// The coordinator has a run on record: that of the run before it is not needed any more.
    fn forget_replaced(&mut self, run: RunKey, out: &mut Vec<Action>) {
        let Some(attempt) = self.attempts.get_mut(run) else {
            return;
        };
        if let Some(replaced) = attempt.replaced.take() {
            out.push(Action::Forget(replaced));
            if std::mem::replace(&mut attempt.inherited, false) {
                self.attempts.note_handover_changed();
            }
        }
    }

    /// A run is no attempt's last: its record is not needed, unless its successor is not on record
    /// yet. Until then it is all that tells the next agent that the attempt has begun.
    fn forget_unneeded(&self, run: RunKey, out: &mut Vec<Action>) {
        if !self.attempts.is_being_replaced(run) {
            out.push(Action::Forget(run));
        }
    }

    pub(super) fn ended(&mut self, now: Mono, run: RunKey, ending: Ending, out: &mut Vec<Action>) {
        if let Some(check) = self.checks.remove(&run) {
            let outcome = ending.report.outcome;
            let failed = || format!("the process of the check has failed: {outcome}").into();
            let result = outcome.is_success().then_some(()).ok_or_else(failed);
            self.inputs.push_back(Input::CheckDone(check, result));
            return out.push(Action::Forget(run));
        }
        let Some(attempt) = self.attempts.get(run) else {
            return self.forget_unneeded(run, out);
        };
        if attempt.is_over() {
            return;
        }
        let started = attempt.started.map(|(at, _)| at.mono);
        let killed = attempt.stop_cause().or(self.dying);
        let leaves_processes = is_resumable(run, &attempt.assignment, ending.report.outcome);
        if self.restarts_runner(attempt, ending.report.outcome) {
            self.report_start(run, out);
            return self.restart_runner(now, run, ending.report, out);
        }
        let report = attempt.assignment.report(ending, started, killed);
        self.report_start(run, out);
        if leaves_processes && self.dying.is_some() {
            self.end_when_killed(run, report);
        } else {
            self.end_unless_worker_ends(now, run, report);
        }
    }

    /// Ends an attempt whose processes are killed with everything else, when they are dead.
    fn end_when_killed(&mut self, run: RunKey, report: Report) {
        if self.kill_order.is_done() {
            self.end(run, report);
        } else {
            self.attempts.set_phase(run, Phase::Concluded(report));
        }
    }

    /// The runner of an attempt has died: the processes of its task are left.
    fn restart_runner(&mut self, now: Mono, run: RunKey, report: Report, out: &mut Vec<Action>) {
        self.attempts.set_phase(run, Phase::Restarting(report));
        self.restart_later(now, run, out);
    }

    /// True if the runner of an attempt is started again after this end of its run. That of a task
    /// that is to stop is, too: without a runner neither its processes nor its final ones end.
    pub(super) fn restarts_runner(&self, attempt: &Attempt, outcome: Outcome) -> bool {
        let abandoned = seeded!(self.bugs, RunnerAbandoned) && attempt.stop.is_some();
        is_resumable(attempt.run, &attempt.assignment, outcome)
            && self.dying.is_none()
            && !abandoned
    }

    pub(super) fn restart_later(&mut self, now: Mono, run: RunKey, out: &mut Vec<Action>) {
        let attempt = self.attempts.get(run);
        let is_stopping = attempt.is_some_and(|attempt| attempt.stop.is_some());
        let delay = runner_delay(run.run);
        if delay == Millis(0) || is_stopping {
            self.start_next_run(now, run, out);
        } else {
            self.restarts.insert((now + delay, run));
        }
    }

    pub(super) fn unknown(
        &mut self,
        now: Mono,
        run: RunKey,
        sighting: Sighting,
        out: &mut Vec<Action>,
    ) {
        let Some(attempt) = self.attempts.get(run) else {
            return self.forget_unneeded(run, out);
        };
        if attempt.is_over() {
            return;
        }
        match self.unwatched(attempt, sighting) {
            Some(report) if self.restarts_runner(attempt, report.outcome) => {
                self.restart_runner(now, run, report, out);
            }
            // Its coordinator has left alone what a runner that has exited may have left behind.
            Some(report) if attempt.assignment.is_task() => {
                if self.dying.is_some() {
                    return self.end_when_killed(run, report);
                }
                self.attempts.set_phase(run, Phase::Concluded(report));
                out.push(Action::KillStrays);
            }
            Some(report) => self.end(run, report),
            None => {
                self.withdraw(run);
                out.push(Action::Forget(run));
            }
        }
    }

    /// The report about a run that no coordinator watches. `None` if its program has certainly not
    /// started; the runner of a task is restarted instead, like one that dies later.
    pub(super) fn unwatched(&self, attempt: &Attempt, sighting: Sighting) -> Option<Report> {
        let started = attempt.started.map(|(at, _)| at.mono);
        let killed = attempt.stop_cause().or(self.dying);
        match sighting {
            Sighting::Ended(ending) if self.restarts_runner(attempt, ending.report.outcome) => {
                Some(ending.report)
            }
            Sighting::Ended(ending) => Some(attempt.assignment.report(ending, started, killed)),
            Sighting::Unexecuted(signal) if attempt.assignment.is_task() => {
                Some(Outcome::Signaled(signal).into())
            }
            Sighting::Unexecuted(_) => None,
            Sighting::Present | Sighting::Unknown => {
                // The task's own log tells how far it got, also if its runner has finished it.
                let died = Outcome::Signaled(SIGKILL);
                let run = attempt.run;
                let has_begun = attempt.started.is_some() || run.run > RunNo(0);
                let resumable = has_begun && is_resumable(run, &attempt.assignment, died);
                let outcome = if resumable && self.dying.is_none() {
                    died
                } else {
                    LOST
                };
                Some(outcome.into())
            }
        }
    }

    pub(super) fn refused(&mut self, run: RunKey, out: &mut Vec<Action>) {
        if let Some(check) = self.checks.remove(&run) {
            let refused = Err("the lease has expired: nothing is launched".into());
            return self.inputs.push_back(Input::CheckDone(check, refused));
        }
        let Some(attempt) = self.attempts.get(run).filter(|it| !it.is_over()) else {
            return;
        };
        if run.run > RunNo(0) {
            // It has run before, so it must not be reported as never started, and its processes may
            // live. Its deadline has passed, so they are killed.
            if self.dying.is_some() {
                return self.end_when_killed(run, LOST.into());
            }
            self.attempts.set_phase(run, Phase::Concluded(LOST.into()));
            return out.push(Action::KillStrays);
        }
        if attempt.withdrawn || attempt.started.is_some() {
            return self.withdraw(run);
        }
        let lease = attempt.assignment.lease;
        self.attempts.remove(lease);
        self.inputs.push_back(Input::LaunchRefused(lease));
    }

    /// Gives back an attempt whose program has certainly not started: that costs it nothing.
    pub(super) fn withdraw(&mut self, run: RunKey) {
        if let Some(attempt) = self.attempts.get(run) {
            let lease = attempt.assignment.lease;
            self.attempts.remove(lease);
            self.inputs.push_back(Input::Withdrawn(lease));
        }
    }

    /// A fault of the host has prevented a launch: the attempt is given back. An attempt that has
    /// run before is not: no other worker could resume it, so its runner is started again later.
    pub(super) fn host_fault(&mut self, now: Mono, run: RunKey, reason: Arc<str>) {
        if let Some(check) = self.checks.remove(&run) {
            return self.inputs.push_back(Input::CheckDone(check, Err(reason)));
        }
        let Some(attempt) = self.attempts.get_mut(run).filter(|it| !it.is_over()) else {
            return;
        };
        match attempt.replaced.take() {
            None if run.run == RunNo(0) => {
                let lease = attempt.assignment.lease;
                self.attempts.remove(lease);
                self.inputs.push_back(Input::HostFault(lease, reason));
            }
            None => self.end(run, LOST.into()),
            Some(replaced) => {
                // Only a runner can stop its task, so it is tried more often then.
                let is_stopping = attempt.stop.is_some();
                let delay = if is_stopping {
                    WAIT_MAX
                } else {
                    RUNNER_DELAY_MAX
                };
                attempt.run = replaced;
                let died = Outcome::Signaled(SIGKILL).into();
                self.attempts.set_phase(replaced, Phase::Restarting(died));
                self.restarts.insert((now + delay, replaced));
            }
        }
    }

    pub(super) fn launch_impossible(&mut self, run: RunKey, reason: Option<Arc<str>>) {
        let Some(attempt) = self.attempts.get_mut(run) else {
            return;
        };
        match attempt.replaced.take() {
            None => {
                let lease = attempt.assignment.lease;
                self.attempts.remove(lease);
                let failed = Report {
                    stderr_tail: reason,
                    ..Outcome::LaunchFailed.into()
                };
                self.inputs.push_back(Input::Ended(lease, failed));
            }
            Some(replaced) => {
                // The coordinator has only the earlier run on record.
                attempt.run = replaced;
                self.end(replaced, LOST.into());
            }
        }
    }

    pub(super) fn memory_used(
        &mut self,
        now: Mono,
        run: RunKey,
        bytes: u64,
        out: &mut Vec<Action>,
    ) {
        let Some(attempt) = self.attempts.get_mut(run) else {
            return;
        };
        let limit = attempt.assignment.memory_max;
        let exceeded = limit > 0 && bytes > limit;
        if exceeded
            && attempt.phase == Phase::Running
            && attempt.request_stop(KillCause::OutOfMemory, now)
        {
            out.extend(attempt.stop_action(now));
        }
    }
}
