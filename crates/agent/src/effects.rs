//! Carrying out what the machine wants.

use baton_core::protocol::worker::io::{Effect, GuardOrder, Input};
use baton_model::ids::{CheckId, LeaseId};
use baton_model::message::Launch;
use baton_model::outcome::{KillCause, Outcome};
use baton_model::task::RunNo;
use baton_model::time::{Millis, Mono};
use baton_runner::wire::Request;

use crate::drive::Agent;
use crate::logs;
use crate::runs::{Phase, Run};
use crate::state::Lives;
use crate::tag::Tag;

/// A trivial process that takes longer has not run well.
const CHECK_MAX: Millis = Millis::from_secs(10);

impl Agent {
    pub(crate) fn carry_out(&mut self, now: Mono, effect: Effect) {
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
            Effect::EndLife => self.life_over = true,
        }
    }

    fn launch(&mut self, now: Mono, launch: Launch) {
        let placed = launch.allowance.map(|allowance| *allowance);
        let placed = placed.unwrap_or_else(|| launch.spec.allowance());
        let tag = Tag {
            lease: launch.lease,
            spec: launch.spec,
            timeout: placed.timeout,
            memory_min: placed.memory_min,
            memory_max: placed.memory_max,
            began: None,
        };
        let run = Run::new(self.runs.new_key(), tag);
        match self.request(&run, now) {
            Ok(request) => {
                self.requests.push(request);
                self.runs.insert(run);
            }
            Err(reason) => {
                self.launcher.explain(run.lease, &reason);
                let failed = Outcome::LaunchFailed.into();
                self.inputs.push_back(Input::Ended(run.lease, failed));
            }
        }
    }

    /// The order to start a run, or why it cannot be started.
    pub(crate) fn request(&mut self, run: &Run, now: Mono) -> Result<Request, String> {
        let tag = self.tags.write(&run.tag());
        let tag = tag.map_err(|error| format!("it cannot be written down: {error}"))?;
        let launch = self.launcher.launch(run, tag, now)?;
        Ok(Request::Launch {
            run: run.key,
            launch: Box::new(launch),
        })
    }

    fn kill(&mut self, lease: LeaseId, grace: Millis) {
        let Some(run) = self.runs.of_lease(lease).filter(|run| !run.is_over()) else {
            return;
        };
        run.cause.get_or_insert(KillCause::Requested);
        let key = run.key;
        tracing::info!("killing {lease}, as asked");
        self.requests.push(Request::Stop {
            run: key,
            signal: libc::SIGTERM,
            grace,
            cause: KillCause::Requested,
        });
    }

    fn kill_all(&mut self, cause: KillCause, grace: Millis) {
        tracing::warn!("giving up: killing everything");
        self.dying = Some(cause);
        let lives = Lives {
            dying: true,
            ..self.dir.lives
        };
        // An agent after us must end this life too. If that cannot be written down, the
        // killing is still what matters most.
        if let Err(error) = self.dir.set_lives(lives) {
            tracing::error!("{error}");
        }
        let id = self.killing.begin(grace);
        self.requests.push(Request::KillEverything { id, grace });
    }

    fn extend_guard(&mut self, order: GuardOrder) {
        if order.epoch > self.dir.lives.epoch {
            let lives = Lives {
                epoch: order.epoch,
                ..self.dir.lives
            };
            if let Err(error) = self.dir.set_lives(lives) {
                tracing::error!("{error}");
            }
        }
        self.guard = Some(order.into());
        self.requests.push(Request::Guard(order.into()));
    }

    fn forget(&mut self, lease: LeaseId) {
        if let Some(run) = self.runs.remove(lease) {
            self.estate_changed |= run.inherited;
            self.requests.push(Request::Forget { run: run.key });
        }
    }

    /// By a launch like any other, so that what it tries is what work needs.
    pub(crate) fn check(&mut self, check: CheckId) {
        let run = self.runs.new_key();
        self.checks.insert(run, check);
        let launch = Box::new(self.launcher.check(CHECK_MAX));
        self.requests.push(Request::Launch { run, launch });
    }

    /// Gives back what has waited for room for too long.
    pub(crate) fn withdraw_late(&mut self, now: Mono) {
        while let Some((_, key)) = self.waiting.pop_front_if(|(at, _)| *at <= now) {
            let Some(run) = self.runs.get_mut(key) else {
                continue;
            };
            // One that has run before is not given back: nobody else could go on with it.
            let fresh = key.run == RunNo(0);
            if fresh && run.phase == Phase::Waiting && !run.withdrawn {
                run.withdrawn = true;
                self.requests.push(Request::Withdraw { run: key });
            }
        }
    }
}
