//! Signals to attempts whose end is near.
//!
//! An attempt that wants a warning gets it before its timeout, before the end of its worker, and when
//! its worker begins to drain; each of both ends is announced once. An attempt that ends without
//! success after it was warned of its worker's end is lost with the worker, and has not failed: it may
//! have stopped in order to be continued elsewhere.

use baton_model::outcome::{KillCause, Outcome, Report};
use baton_model::task::RunKey;
use baton_model::time::Mono;

use super::Supervisor;
use super::attempts::{Attempt, Phase};
use super::casualties::may_be_due_to_worker;
use super::io::Action;
use super::lifetime::before;

impl Attempt {
    /// When it is to be warned next, of a worker that is gone by then.
    fn warning_at(&self, until: Option<Mono>) -> Option<Mono> {
        let warning = self.assignment.spec.warn?;
        let (at, _) = self.started.filter(|_| self.phase == Phase::Running)?;
        let began = self.assignment.began.unwrap_or(at.mono);
        let timeout = self.assignment.timeout.map(|timeout| began + timeout);
        let timeout = timeout.filter(|_| !self.warned.timeout);
        let until = until.filter(|_| !self.warned.worker_end);
        let ends = [timeout, until].into_iter().flatten();
        ends.map(|end| before(end, warning.before)).min()
    }

    /// The end of an attempt, which is a loss if it was warned of its worker's end and failed, or if what
    /// ends the worker may have ended it, too.
    pub(super) fn lost_with_worker(&self, report: Report, is_draining: bool) -> Report {
        let has_failed = match report.outcome {
            Outcome::Exited(code) => code != 0,
            Outcome::Signaled(_) => true,
            Outcome::Killed(_) | Outcome::LaunchFailed | Outcome::BadOutput => false,
        };
        let is_answer = self.warned.worker_end && has_failed;
        let is_casualty =
            is_draining && self.stop.is_none() && may_be_due_to_worker(report.outcome);
        if !is_answer && !is_casualty {
            return report;
        }
        Report {
            outcome: Outcome::Killed(KillCause::WorkerEnded),
            ..report
        }
    }
}

impl Supervisor {
    /// Plans the next warning of a run; at once, if its worker drains.
    pub(super) fn plan_warning(&mut self, run: RunKey) {
        let Some(attempt) = self.attempts.get(run) else {
            return;
        };
        // A drain that has begun comes before any planned end.
        let until = if self.drain.is_some() {
            Some(Mono(0))
        } else {
            self.lifetime.until
        };
        if let Some(at) = attempt.warning_at(until) {
            self.warnings.insert((at, run));
        }
    }

    /// Sends the warnings that are due.
    pub(super) fn send_warnings(&mut self, now: Mono, out: &mut Vec<Action>) {
        while let Some((at, run)) = self.warnings.first().copied().filter(|(at, _)| *at <= now) {
            self.warnings.remove(&(at, run));
            self.warn(now, run, out);
            self.plan_warning(run);
        }
    }

    /// Warns all attempts of the worker's end.
    pub(super) fn warn_all(&mut self, out: &mut Vec<Action>) {
        self.warnings.clear();
        let running: Vec<RunKey> = self.attempts.iter().map(|attempt| attempt.run).collect();
        for run in running {
            self.plan_warning(run);
        }
        self.send_warnings(Mono(0), out);
    }

    /// Signals a run, of every end that is near.
    fn warn(&mut self, now: Mono, run: RunKey, out: &mut Vec<Action>) {
        let (until, is_draining) = (self.lifetime.until, self.drain.is_some());
        let attempt = self.attempts.get_mut(run);
        let Some(attempt) = attempt.filter(|it| it.phase == Phase::Running) else {
            return;
        };
        let Some(warning) = attempt.assignment.spec.warn else {
            return;
        };
        let is_near = |end: Option<Mono>| end.is_some_and(|end| before(end, warning.before) <= now);
        let started = attempt.started.map(|(at, _)| at.mono);
        let began = attempt.assignment.began.or(started);
        let timeout = attempt.assignment.timeout;
        let timeout = began.and_then(|began| Some(began + timeout?));
        attempt.warned.timeout |= is_near(timeout);
        attempt.warned.worker_end |= is_draining || is_near(until);
        out.push(Action::Warn {
            run,
            signal: warning.signal,
        });
    }
}
