//! Replies of the coordinator.

use baton_core::protocol::worker::io::Input;
use baton_model::ids::LeaseId;
use baton_model::outcome::{KillCause, Outcome, Report};
use baton_model::task::{Identity, Moment, RunNo};
use baton_model::time::{Millis, Mono};
use baton_runner::sys::clock;
use baton_runner::wire::{Reply, Request, RunEnd, RunKey};

use crate::attempts::{AttemptRecord, LOST, Phase};
use crate::drive::{Agent, WAIT_MAX};
use crate::launch::Launcher;

/// How often the runner of one task is restarted after it has died.
pub(crate) const RUNNER_RESTARTS_MAX: u64 = 20;

impl Agent {
    pub(crate) fn handle_reply(&mut self, reply: Reply) {
        match reply {
            Reply::Accepted { run } => self.accepted(run),
            Reply::Started { run, at, identity } => self.started(run, at, identity),
            Reply::Ended(ended) => self.ended(&ended),
            Reply::Unknown { run } => self.unknown(run),
            Reply::Refused { run } => self.refused(run),
            Reply::GuardFired => {
                tracing::warn!("the lease has expired; the coordinator kills everything");
                self.inputs.push_back(Input::GuardFired);
            }
            Reply::EverythingKilled { id, left } => {
                self.kill_order.acknowledge(id, left, clock::now().mono);
            }
            // A greeting only comes first, and nothing is probed.
            Reply::Hello { .. } | Reply::Probed { .. } => {}
        }
    }

    fn accepted(&mut self, key: RunKey) {
        let Some(attempt) = self.attempts.get_mut(key) else {
            return;
        };
        attempt.phase = Phase::Waiting;
        let until = clock::now().mono + WAIT_MAX;
        self.waiting.push_back((until, key));
        self.report_launched(key);
    }

    fn started(&mut self, key: RunKey, at: Moment, identity: Identity) {
        let Some(attempt) = self
            .attempts
            .get_mut(key)
            .filter(|attempt| !attempt.is_over())
        else {
            return;
        };
        attempt.phase = Phase::Running;
        attempt.started = Some((at, identity));
        self.attempts.update_index(key.process);
        self.report_launched(key);
    }

    /// Reports once to the state machine that an attempt is on record.
    fn report_launched(&mut self, key: RunKey) {
        if let Some(attempt) = self.attempts.get_mut(key)
            && !std::mem::replace(&mut attempt.reported, true)
        {
            self.inputs.push_back(Input::Launched(attempt.lease));
        }
    }

    fn ended(&mut self, ended: &RunEnd) {
        let key = ended.run;
        if let Some(check) = self.checks.remove(&key) {
            let succeeded = ended.outcome.is_success();
            self.inputs.push_back(Input::CheckDone(check, succeeded));
            return self.requests.push(Request::Forget { run: key });
        }
        let dying = self.dying;
        let Some(attempt) = self.attempts.get_mut(key) else {
            // The attempt is no longer known.
            return self.requests.push(Request::Forget { run: key });
        };
        if attempt.is_over() {
            return;
        }
        let report = attempt.report(ended, dying);
        self.end_run(key, report);
    }

    /// A run has ended: so has the attempt, unless its runner is restarted.
    pub(crate) fn end_run(&mut self, key: RunKey, report: Report) {
        let dying = self.dying.is_some();
        let Some(attempt) = self.attempts.get_mut(key) else {
            return;
        };
        if !dying && should_restart(attempt, report.outcome) && self.restart_runner(key) {
            return;
        }
        let Some(attempt) = self.attempts.get_mut(key) else {
            return;
        };
        let lease = attempt.lease;
        let report = with_outputs(&self.launcher, lease, report);
        attempt.phase = Phase::Ended(report.clone());
        self.attempts.update_index(key.process);
        self.inputs.push_back(Input::Ended(lease, report));
    }

    /// Restarts the dead runner of a task, which resumes from its log. False if it cannot be
    /// started.
    pub(crate) fn restart_runner(&mut self, key: RunKey) -> bool {
        let now = clock::now().mono;
        let Some(attempt) = self.attempts.get_mut(key) else {
            return false;
        };
        let mut next = attempt.clone();
        next.key.run = RunNo(key.run.0 + 1);
        next.began = attempt.began.or(attempt.started.map(|(at, _)| at.mono));
        next.started = None;
        next.phase = Phase::Requested;
        next.in_handover = false;
        let in_handover = attempt.in_handover;
        let Ok(request) = self.launch_request(&next, now) else {
            return false;
        };
        tracing::warn!("the runner of {} has died; starting it again", next.lease);
        self.requests.push(request);
        // Only now: at every moment there is a record of the attempt.
        self.requests.push(Request::Forget { run: key });
        self.handover_changed |= in_handover;
        self.attempts.remove(next.lease);
        self.attempts.insert(next);
        true
    }

    /// An adopted run is gone, and the coordinator cannot know how it ended.
    fn unknown(&mut self, key: RunKey) {
        let Some(attempt) = self
            .attempts
            .get_mut(key)
            .filter(|attempt| !attempt.is_over())
        else {
            return;
        };
        let (started, lease, is_task) = (attempt.started, attempt.lease, attempt.is_task());
        match self.report_unwatched(started, is_task) {
            Some(report) => self.end_run(key, report),
            None => self.withdraw(lease),
        }
    }

    fn refused(&mut self, key: RunKey) {
        if let Some(check) = self.checks.remove(&key) {
            return self.inputs.push_back(Input::CheckDone(check, false));
        }
        let Some(attempt) = self.attempts.get_mut(key) else {
            return;
        };
        let (lease, withdrawn) = (attempt.lease, attempt.withdrawn);
        if key.run > RunNo(0) {
            // It has run before, so it must not be reported as never started.
            return self.end_as_lost(key);
        }
        if withdrawn || attempt.started.is_some() {
            return self.withdraw(lease);
        }
        if let Some(attempt) = self.attempts.remove(lease) {
            self.handover_changed |= attempt.in_handover;
        }
        self.inputs.push_back(Input::LaunchRefused(lease));
    }

    /// Gives back an attempt whose program has certainly not started: that costs it nothing.
    pub(crate) fn withdraw(&mut self, lease: LeaseId) {
        if let Some(attempt) = self.attempts.remove(lease) {
            self.handover_changed |= attempt.in_handover;
        }
        self.inputs.push_back(Input::Withdrawn(lease));
    }

    fn end_as_lost(&mut self, key: RunKey) {
        if let Some(attempt) = self.attempts.get_mut(key) {
            attempt.phase = Phase::Ended(LOST.into());
            let lease = attempt.lease;
            self.inputs.push_back(Input::Ended(lease, LOST.into()));
        }
    }

    /// Requests the end of one attempt, for a cause of the worker itself.
    pub(crate) fn stop(&mut self, key: RunKey, signal: i32, grace: Millis, cause: KillCause) {
        let Some(attempt) = self.attempts.get_mut(key) else {
            return;
        };
        if attempt.is_over() || attempt.cause.is_some() {
            return;
        }
        attempt.cause = Some(cause);
        tracing::info!("killing {}: {}", attempt.lease, cause.word());
        self.requests.push(Request::Stop {
            run: key,
            signal,
            grace,
            cause,
        });
    }

    /// Kills again what could not be killed.
    pub(crate) fn retry_kill(&mut self, now: Mono) {
        if let Some((id, grace)) = self.kill_order.take_retry(now) {
            self.requests.push(Request::KillEverything { id, grace });
        }
    }
}

/// Adds the outputs to the report of an ended attempt. A success with unreadable outputs becomes a
/// failure: downstream tasks would run without them.
///
/// A restarted agent reads them again: the directory of an attempt is not removed before the
/// scheduler knows its end.
pub(crate) fn with_outputs(launcher: &Launcher, lease: LeaseId, report: Report) -> Report {
    if !report.outcome.is_success() {
        return report;
    }
    match launcher.outputs(lease) {
        Ok(outputs) => Report { outputs, ..report },
        Err(why) => {
            let reason = format!("the file named by $BATON_OUTPUT is invalid: {why}");
            tracing::info!("{lease}: {reason}");
            launcher.append_reason(lease, &reason);
            Report {
                outcome: Outcome::BadOutput,
                ..report
            }
        }
    }
}

/// True if an attempt continues although its run has ended: the runner of its task has died by a
/// signal that the worker did not send, and the runner's log allows the next one to resume.
pub(crate) fn should_restart(attempt: &AttemptRecord, outcome: Outcome) -> bool {
    let died = matches!(outcome, Outcome::Signaled(_));
    died && attempt.is_task() && attempt.cause.is_none() && attempt.key.run.0 < RUNNER_RESTARTS_MAX
}
