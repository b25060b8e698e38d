//! Ends that may be due to the end of the worker.
//!
//! A batch system that cancels or preempts a job signals all of its processes: the worker, and those of its
//! attempts. A shell whose command was ended by such a signal exits with 128 and its number, and a runner that
//! gets it stops its task. So an attempt may end so shortly before its worker learns that it has to end, and
//! looks as if its work had failed. Such an end is kept back for [`PATIENCE`]: if the worker begins to end
//! meanwhile, it is a loss.
//!
//! This is for workers that drain on SIGTERM; others are not ended with their work. A death by a signal is a
//! loss anyway ([`Outcome::is_outside_kill`]).

use baton_model::outcome::{KillCause, Outcome, Report};
use baton_model::task::RunKey;
use baton_model::time::{Millis, Mono};

use super::Supervisor;
use super::attempts::Phase;

/// How long after its attempts a worker may learn of its end, on a busy host.
const PATIENCE: Millis = Millis::from_secs(2);

/// The exit code of a shell whose command died of signal 0.
const SHELL_SIGNALED: i32 = 128;

/// True for an end that a signal to all processes of a worker may have caused.
pub(super) const fn may_be_due_to_worker(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Exited(code) => Outcome::Signaled(code - SHELL_SIGNALED).is_outside_kill(),
        // A runner was asked to stop its task, and not by its worker.
        Outcome::Killed(KillCause::Requested) => true,
        _ => false,
    }
}

impl Supervisor {
    /// Ends an attempt, at once or when it is clear that its worker does not end, too.
    pub(super) fn end_unless_worker_ends(&mut self, now: Mono, run: RunKey, report: Report) {
        let attempt = self.attempts.get(run);
        let is_asked = attempt.is_some_and(|attempt| attempt.stop.is_some());
        let is_serving = self.drain.is_none() && self.dying.is_none();
        let is_ambiguous = may_be_due_to_worker(report.outcome) && !is_asked;
        if self.lifetime.drains && is_serving && is_ambiguous {
            self.attempts.set_phase(run, Phase::Concluded(report));
            self.kept_back.insert((now + PATIENCE, run));
        } else {
            self.end(run, report);
        }
    }

    /// Ends what was kept back until this time.
    pub(super) fn end_kept_back(&mut self, until: Mono) {
        while let Some((at, run)) = self
            .kept_back
            .first()
            .copied()
            .filter(|(at, _)| *at <= until)
        {
            self.kept_back.remove(&(at, run));
            let attempt = self.attempts.get(run);
            if let Some(Phase::Concluded(report)) = attempt.map(|attempt| &attempt.phase) {
                let report = report.clone();
                self.end(run, report);
            }
        }
    }
}
