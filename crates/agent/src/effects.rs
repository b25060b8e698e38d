//! Effects of the worker's state machine.

use baton_core::protocol::worker::io::{Effect, GuardOrder, Input};
use baton_model::ids::{CheckId, LeaseId};
use baton_model::message::Launch;
use baton_model::outcome::{KillCause, Outcome};
use baton_model::task::RunNo;
use baton_model::time::{Millis, Mono};
use baton_runner::wire::Request;

use crate::attempts::{AttemptRecord, Phase};
use crate::drive::Agent;
use crate::logs;
use crate::state::WorkerState;
use crate::tag::Tag;

/// A health check process that takes longer has failed.
const CHECK_MAX: Millis = Millis::from_secs(10);

impl Agent {
    pub(crate) fn apply_effect(&mut self, now: Mono, effect: Effect) {
        match effect {
            Effect::Send(message) => self.outgoing.push(message),
            Effect::Launch(launch) => self.launch(now, launch),
            Effect::Kill(lease, grace) => self.kill(lease, grace),
            Effect::KillAll(cause, grace) => self.kill_all(cause, grace),
            Effect::Guard(order) => self.extend_guard(order),
            Effect::Forget(lease) => self.forget(lease),
            Effect::RunCheck(check) => self.check(check),
            Effect::ReadLogs(request, query) => {
                let answer = logs::read(self.dir.path(), &query);
                self.inputs.push_back(Input::LogsRead(request, answer));
            }
            Effect::EndLife => self.incarnation_over = true,
        }
    }

    fn launch(&mut self, now: Mono, launch: Launch) {
        let allowance = launch.allowance.map(|allowance| *allowance);
        let allowance = allowance.unwrap_or_else(|| launch.spec.allowance());
        let tag = Tag {
            lease: launch.lease,
            spec: launch.spec,
            timeout: allowance.timeout,
            memory_min: allowance.memory_min,
            memory_max: allowance.memory_max,
            began: None,
        };
        let attempt = AttemptRecord::new(self.attempts.new_key(), tag);
        match self.launch_request(&attempt, now) {
            Ok(request) => {
                self.requests.push(request);
                self.attempts.insert(attempt);
            }
            Err(reason) => {
                self.launcher.append_reason(attempt.lease, &reason);
                let failed = Outcome::LaunchFailed.into();
                self.inputs.push_back(Input::Ended(attempt.lease, failed));
            }
        }
    }

    /// The request to launch an attempt, or why it cannot be launched.
    pub(crate) fn launch_request(
        &mut self,
        attempt: &AttemptRecord,
        now: Mono,
    ) -> Result<Request, String> {
        let tag = self.tags.write(&attempt.tag());
        let tag = tag.map_err(|error| format!("its spec cannot be encoded: {error}"))?;
        let launch = self.launcher.launch(attempt, tag, now)?;
        Ok(Request::Launch {
            run: attempt.key,
            launch: Box::new(launch),
        })
    }

    fn kill(&mut self, lease: LeaseId, grace: Millis) {
        let Some(attempt) = self
            .attempts
            .by_lease_mut(lease)
            .filter(|attempt| !attempt.is_over())
        else {
            return;
        };
        attempt.cause.get_or_insert(KillCause::Requested);
        let key = attempt.key;
        tracing::info!("killing {lease}, as requested");
        self.requests.push(Request::Stop {
            run: key,
            signal: libc::SIGTERM,
            grace,
            cause: KillCause::Requested,
        });
    }

    fn kill_all(&mut self, cause: KillCause, grace: Millis) {
        tracing::warn!("giving up the incarnation: killing everything");
        self.dying = Some(cause);
        let worker_state = WorkerState {
            dying: true,
            ..self.dir.worker_state
        };
        // The next agent must end this incarnation, too. If this cannot be written, the killing
        // still matters most.
        if let Err(error) = self.dir.set_worker_state(worker_state) {
            tracing::error!("{error}");
        }
        let id = self.kill_order.issue(grace);
        self.requests.push(Request::KillEverything { id, grace });
    }

    fn extend_guard(&mut self, order: GuardOrder) {
        if order.epoch > self.dir.worker_state.epoch {
            let worker_state = WorkerState {
                epoch: order.epoch,
                ..self.dir.worker_state
            };
            if let Err(error) = self.dir.set_worker_state(worker_state) {
                tracing::error!("{error}");
            }
        }
        self.guard = Some(order.into());
        self.requests.push(Request::Guard(order.into()));
    }

    fn forget(&mut self, lease: LeaseId) {
        if let Some(attempt) = self.attempts.remove(lease) {
            self.handover_changed |= attempt.in_handover;
            self.requests.push(Request::Forget { run: attempt.key });
        }
    }

    /// Runs a health check: an ordinary launch, so that it exercises what attempts need.
    pub(crate) fn check(&mut self, check: CheckId) {
        let run = self.attempts.new_key();
        self.checks.insert(run, check);
        let launch = Box::new(self.launcher.check(CHECK_MAX));
        self.requests.push(Request::Launch { run, launch });
    }

    /// Returns launches that have waited for room too long.
    pub(crate) fn withdraw_overdue(&mut self, now: Mono) {
        while let Some((_, key)) = self.waiting.pop_front_if(|(at, _)| *at <= now) {
            let Some(attempt) = self.attempts.get_mut(key) else {
                continue;
            };
            // An attempt that has run before is not returned: no other worker could resume it.
            let fresh = key.run == RunNo(0);
            if fresh && attempt.phase == Phase::Waiting && !attempt.withdrawn {
                attempt.withdrawn = true;
                self.requests.push(Request::Withdraw { run: key });
            }
        }
    }
}
