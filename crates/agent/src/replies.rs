//! What the coordinator says.

use baton_core::protocol::worker::io::Input;
use baton_model::ids::LeaseId;
use baton_model::outcome::{KillCause, Outcome, Report};
use baton_model::task::{Identity, Moment, RunNo};
use baton_model::time::{Millis, Mono};
use baton_runner::sys::clock;
use baton_runner::wire::{Reply, Request, RunEnd, RunKey};

use crate::drive::{Agent, WAIT_MAX};
use crate::launch::Launcher;
use crate::runs::{LOST, Phase, Run};

/// So often the runner of one task is started again after it has died.
pub(crate) const RUNS_MAX: u64 = 20;

impl Agent {
    pub(crate) fn hear(&mut self, reply: Reply) {
        match reply {
            Reply::Accepted { run } => self.accepted(run),
            Reply::Started { run, at, identity } => self.started(run, at, identity),
            Reply::Ended(ended) => self.ended(&ended),
            Reply::Unknown { run } => self.unknown(run),
            Reply::Refused { run } => self.refused(run),
            Reply::GuardFired => {
                tracing::warn!("the lease has run out; the coordinator kills everything");
                self.inputs.push_back(Input::GuardFired);
            }
            Reply::EverythingKilled { id, left } => {
                self.killing.answered(id, left, clock::now().mono);
            }
            // A greeting comes first or never, and nothing is probed.
            Reply::Hello { .. } | Reply::Probed { .. } => {}
        }
    }

    fn accepted(&mut self, key: RunKey) {
        let Some(run) = self.runs.get_mut(key) else {
            return;
        };
        run.phase = Phase::Waiting;
        let until = clock::now().mono + WAIT_MAX;
        self.waiting.push_back((until, key));
        self.tell(key);
    }

    fn started(&mut self, key: RunKey, at: Moment, identity: Identity) {
        let Some(run) = self.runs.get_mut(key).filter(|run| !run.is_over()) else {
            return;
        };
        run.phase = Phase::Running;
        run.started = Some((at, identity));
        self.runs.index(key.process);
        self.tell(key);
    }

    /// The machine learns once that an attempt is on record.
    fn tell(&mut self, key: RunKey) {
        if let Some(run) = self.runs.get_mut(key)
            && !std::mem::replace(&mut run.told, true)
        {
            self.inputs.push_back(Input::Launched(run.lease));
        }
    }

    fn ended(&mut self, ended: &RunEnd) {
        let key = ended.run;
        if let Some(check) = self.checks.remove(&key) {
            let well = ended.outcome.is_success();
            self.inputs.push_back(Input::CheckDone(check, well));
            return self.requests.push(Request::Forget { run: key });
        }
        let dying = self.dying;
        let Some(run) = self.runs.get_mut(key) else {
            // Nobody is left to whom it means anything.
            return self.requests.push(Request::Forget { run: key });
        };
        if run.is_over() {
            return;
        }
        let report = run.report(ended, dying);
        self.over(key, report);
    }

    /// A run is over: with it the attempt, unless that goes on with the next run.
    pub(crate) fn over(&mut self, key: RunKey, report: Report) {
        let dying = self.dying.is_some();
        let Some(run) = self.runs.get_mut(key) else {
            return;
        };
        if !dying && goes_on(run, report.outcome) && self.run_again(key) {
            return;
        }
        let Some(run) = self.runs.get_mut(key) else {
            return;
        };
        let lease = run.lease;
        let report = put_out(&self.launcher, lease, report);
        run.phase = Phase::Over(report.clone());
        self.runs.index(key.process);
        self.inputs.push_back(Input::Ended(lease, report));
    }

    /// The runner of a task has died: the next one goes on where it was. False if it cannot
    /// be started.
    pub(crate) fn run_again(&mut self, key: RunKey) -> bool {
        let now = clock::now().mono;
        let Some(run) = self.runs.get_mut(key) else {
            return false;
        };
        let mut next = run.clone();
        next.key.run = RunNo(key.run.0 + 1);
        next.began = run.began.or(run.started.map(|(at, _)| at.mono));
        next.started = None;
        next.phase = Phase::Asked;
        next.inherited = false;
        let inherited = run.inherited;
        let Ok(request) = self.request(&next, now) else {
            return false;
        };
        tracing::warn!("the runner of {} has died; starting it again", next.lease);
        self.requests.push(request);
        // Only now: at every moment there is a record of the attempt.
        self.requests.push(Request::Forget { run: key });
        self.estate_changed |= inherited;
        self.runs.remove(next.lease);
        self.runs.insert(next);
        true
    }

    /// A run that was adopted is gone, and the coordinator cannot know how.
    fn unknown(&mut self, key: RunKey) {
        let Some(run) = self.runs.get_mut(key).filter(|run| !run.is_over()) else {
            return;
        };
        let started = run.started;
        let report = self.last_seen(started);
        self.over(key, report);
    }

    fn refused(&mut self, key: RunKey) {
        if let Some(check) = self.checks.remove(&key) {
            return self.inputs.push_back(Input::CheckDone(check, false));
        }
        let Some(run) = self.runs.get_mut(key) else {
            return;
        };
        let (lease, withdrawn) = (run.lease, run.withdrawn);
        if key.run > RunNo(0) {
            // It has run before, so it cannot be said that it never did.
            return self.over_as_lost(key);
        }
        if let Some(run) = self.runs.remove(lease) {
            self.estate_changed |= run.inherited;
        }
        self.inputs.push_back(if withdrawn {
            Input::Withdrawn(lease)
        } else {
            Input::LaunchRefused(lease)
        });
    }

    fn over_as_lost(&mut self, key: RunKey) {
        if let Some(run) = self.runs.get_mut(key) {
            run.phase = Phase::Over(LOST.into());
            let lease = run.lease;
            self.inputs.push_back(Input::Ended(lease, LOST.into()));
        }
    }

    /// Asks for the end of one attempt, for a reason of our own.
    pub(crate) fn stop(&mut self, key: RunKey, signal: i32, grace: Millis, cause: KillCause) {
        let Some(run) = self.runs.get_mut(key) else {
            return;
        };
        if run.is_over() || run.cause.is_some() {
            return;
        }
        run.cause = Some(cause);
        tracing::info!("killing {}: {}", run.lease, cause.word());
        self.requests.push(Request::Stop {
            run: key,
            signal,
            grace,
            cause,
        });
    }

    /// Kills again what could not be killed.
    pub(crate) fn kill_again(&mut self, now: Mono) {
        if let Some((id, grace)) = self.killing.again(now) {
            self.requests.push(Request::KillEverything { id, grace });
        }
    }
}

/// The end of an attempt, with what it has put out. A success that has put out what cannot be
/// read is none: whoever comes after it would go by nothing.
///
/// An agent that starts again reads it again: nothing clears the directory of an attempt away
/// whose end the scheduler does not know.
pub(crate) fn put_out(launcher: &Launcher, lease: LeaseId, report: Report) -> Report {
    if !report.outcome.is_success() {
        return report;
    }
    match launcher.outputs(lease) {
        Ok(outputs) => Report { outputs, ..report },
        Err(why) => {
            let reason = format!("the file of $BATON_OUTPUT cannot be read: {why}");
            tracing::info!("{lease}: {reason}");
            launcher.explain(lease, &reason);
            Report {
                outcome: Outcome::BadOutput,
                ..report
            }
        }
    }
}

/// True if an attempt goes on although its run is over: the runner of its task has died of a
/// signal that nobody of us has sent, and its log tells the next one what to do.
pub(crate) fn goes_on(run: &Run, outcome: Outcome) -> bool {
    let died = matches!(outcome, Outcome::Signaled(_));
    died && run.is_task() && run.cause.is_none() && run.key.run.0 < RUNS_MAX
}
