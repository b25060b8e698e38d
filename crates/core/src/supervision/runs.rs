//! What the coordinator and the host report about runs.

use baton_model::outcome::{KillCause, Outcome, Report};
use baton_model::task::{Identity, Moment, RunKey, RunNo};
use baton_model::time::{Millis, Mono};

use super::attempts::{Attempt, LOST, Phase, is_resumable};
use super::backoff::runner_delay;
use super::io::{Action, Ending, Sighting};
use super::{Supervisor, WAIT_MAX};
use crate::protocol::worker::io::Input;

/// How a runner is taken to have died that has vanished.
const SIGKILL: i32 = 9;

impl Supervisor {
    pub(super) fn accepted(&mut self, now: Mono, run: RunKey, out: &mut Vec<Action>) {
        self.attempts.set_phase(run, Phase::Waiting);
        self.waiting.push_back((now + WAIT_MAX, run));
        self.on_record(run, out);
    }

    pub(super) fn started(
        &mut self,
        run: RunKey,
        at: Moment,
        identity: Identity,
        out: &mut Vec<Action>,
    ) {
        let attempt = self.attempts.get_mut(run);
        if let Some(attempt) = attempt.filter(|attempt| !attempt.is_over()) {
            attempt.started = Some((at, identity));
            self.attempts.set_phase(run, Phase::Running);
            self.on_record(run, out);
        }
    }

    /// The coordinator has a run on record: the protocol learns it once, and the record of the run
    /// before it is not needed any more.
    fn on_record(&mut self, run: RunKey, out: &mut Vec<Action>) {
        let Some(attempt) = self.attempts.get_mut(run) else {
            return;
        };
        if !std::mem::replace(&mut attempt.reported, true) {
            let lease = attempt.assignment.lease;
            self.inputs.push_back(Input::Launched(lease));
        }
        if let Some(replaced) = attempt.replaced.take() {
            out.push(Action::Forget(replaced));
            if std::mem::replace(&mut attempt.inherited, false) {
                self.attempts.note_handover_changed();
            }
        }
    }

    pub(super) fn ended(&mut self, now: Mono, run: RunKey, ending: Ending, out: &mut Vec<Action>) {
        if let Some(check) = self.checks.remove(&run) {
            let succeeded = ending.report.outcome.is_success();
            self.inputs.push_back(Input::CheckDone(check, succeeded));
            return out.push(Action::Forget(run));
        }
        let Some(attempt) = self.attempts.get(run) else {
            // The attempt is no longer known.
            return out.push(Action::Forget(run));
        };
        if attempt.is_over() {
            return;
        }
        let started = attempt.started.map(|(at, _)| at.mono);
        let killed = attempt.cause.or(self.dying);
        let leaves_processes = is_resumable(run, &attempt.assignment, ending.report.outcome);
        let report = attempt.assignment.report(ending, started, killed);
        self.on_record(run, out);
        if leaves_processes && self.dying.is_some() {
            self.end_when_killed(run, report);
        } else {
            self.end_run(now, run, report, out);
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

    /// A run has ended: so has its attempt, unless its runner is started again.
    fn end_run(&mut self, now: Mono, run: RunKey, report: Report, out: &mut Vec<Action>) {
        let Some(attempt) = self.attempts.get(run) else {
            return;
        };
        if self.restarts_runner(attempt, report.outcome) {
            self.attempts.set_phase(run, Phase::Restarting(report));
            self.restart_later(now, run, out);
        } else {
            self.end(run, report);
        }
    }

    /// True if the runner of an attempt is started again after this end of its run.
    pub(super) fn restarts_runner(&self, attempt: &Attempt, outcome: Outcome) -> bool {
        is_resumable(attempt.run, &attempt.assignment, outcome)
            && attempt.cause.is_none()
            && self.dying.is_none()
    }

    pub(super) fn restart_later(&mut self, now: Mono, run: RunKey, out: &mut Vec<Action>) {
        let delay = runner_delay(run.run);
        if delay == Millis(0) {
            self.start_next_run(run, out);
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
        let Some(attempt) = self.attempts.get(run).filter(|it| !it.is_over()) else {
            return;
        };
        match self.unwatched(attempt, sighting) {
            Some(report) => self.end_run(now, run, report, out),
            None => self.withdraw(run),
        }
    }

    /// The report about a run that no coordinator watches. `None` if its program has certainly not
    /// started; the runner of a task is restarted instead, like one that dies later.
    pub(super) fn unwatched(&self, attempt: &Attempt, sighting: Sighting) -> Option<Report> {
        let started = attempt.started.map(|(at, _)| at.mono);
        let killed = attempt.cause.or(self.dying);
        match sighting {
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
                let outcome = match killed {
                    None if resumable => died,
                    _ => LOST,
                };
                Some(outcome.into())
            }
        }
    }

    pub(super) fn refused(&mut self, run: RunKey) {
        if let Some(check) = self.checks.remove(&run) {
            return self.inputs.push_back(Input::CheckDone(check, false));
        }
        let Some(attempt) = self.attempts.get(run).filter(|it| !it.is_over()) else {
            return;
        };
        if run.run > RunNo(0) {
            // It has run before, so it must not be reported as never started, and its processes may
            // live. The timer has fired: in this incarnation nothing starts any more.
            self.end_when_killed(run, LOST.into());
            return self.inputs.push_back(Input::GuardFired);
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

    pub(super) fn launch_impossible(&mut self, run: RunKey) {
        let Some(attempt) = self.attempts.get_mut(run) else {
            return;
        };
        match attempt.replaced.take() {
            None => {
                let lease = attempt.assignment.lease;
                self.attempts.remove(lease);
                let failed = Outcome::LaunchFailed.into();
                self.inputs.push_back(Input::Ended(lease, failed));
            }
            Some(replaced) => {
                // The coordinator has only the earlier run on record.
                attempt.run = replaced;
                self.end(replaced, LOST.into());
            }
        }
    }

    pub(super) fn memory_used(&mut self, run: RunKey, bytes: u64, out: &mut Vec<Action>) {
        let Some(attempt) = self.attempts.get_mut(run) else {
            return;
        };
        let limit = attempt.assignment.memory_max;
        let exceeded = limit > 0 && bytes > limit;
        if exceeded && attempt.phase == Phase::Running && attempt.cause.is_none() {
            let cause = KillCause::OutOfMemory;
            attempt.cause = Some(cause);
            let grace = Millis(0);
            out.push(Action::Stop { run, grace, cause });
        }
    }
}
