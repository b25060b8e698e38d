//! What the protocol wants done.

use baton_model::ids::{CheckId, LeaseId};
use baton_model::message::Launch;
use baton_model::outcome::{KillCause, Outcome};
use baton_model::task::{RunKey, RunNo};
use baton_model::time::{Millis, Mono};

use super::Supervisor;
use super::attempts::{Attempt, Phase};
use super::io::Action;
use crate::protocol::worker::io::Effect;

impl Supervisor {
    pub(super) fn apply(&mut self, now: Mono, effect: Effect, out: &mut Vec<Action>) {
        match effect {
            Effect::Send(message) => out.push(Action::Send(message)),
            Effect::Launch(launch) => self.launch(now, launch, out),
            Effect::Kill(lease, grace) => self.kill(now, lease, grace, out),
            Effect::KillAll(cause, grace) => self.kill_all(cause, grace, out),
            Effect::Guard(order) => out.push(Action::Guard(order)),
            Effect::Forget(lease) => self.forget(lease, out),
            Effect::RunCheck(check) => self.check(check, out),
            Effect::ReadLogs(request, query) => out.push(Action::ReadLogs(request, query)),
            Effect::ReadProcesses(request, query) => {
                out.push(Action::ReadProcesses(request, query));
            }
            Effect::EndLife => self.life_over = true,
            Effect::Left => out.push(Action::EndLife),
        }
    }

    fn launch(&mut self, now: Mono, launch: Launch, out: &mut Vec<Action>) {
        let run = self.attempts.new_run();
        let needs_secrets = !launch.spec.secrets.is_empty();
        self.attempts.insert(Attempt::new(run, launch.into()));
        if needs_secrets {
            self.attempts.set_phase(run, Phase::AwaitingSecrets);
            self.request_secrets(now, run, out);
        } else {
            out.push(Action::Launch(run));
        }
    }

    fn kill(&mut self, now: Mono, lease: LeaseId, grace: Millis, out: &mut Vec<Action>) {
        let Some(run) = self.attempts.run_of(lease) else {
            return;
        };
        let Some(attempt) = self.attempts.get_mut(run).filter(|it| !it.is_over()) else {
            return;
        };
        let deadline = now + attempt.assignment.stop_budget(grace);
        if !attempt.request_stop(KillCause::Requested, deadline) {
            return;
        }
        if attempt.phase == Phase::AwaitingSecrets {
            self.end_unbegun(run, KillCause::Requested);
        } else if matches!(attempt.phase, Phase::Restarting(_)) {
            // Only a runner can end a task as the task wants it to end.
            self.start_next_run(now, run, out);
        } else {
            out.extend(attempt.stop_action(now));
        }
    }

    fn kill_all(&mut self, cause: KillCause, grace: Millis, out: &mut Vec<Action>) {
        self.dying = Some(cause);
        self.restarts.clear();
        let attempts = self.attempts.iter();
        let restarting = attempts.filter(|it| matches!(it.phase, Phase::Restarting(_)));
        for run in restarting.map(|attempt| attempt.run).collect::<Vec<_>>() {
            let killed = Outcome::Killed(cause).into();
            self.attempts.set_phase(run, Phase::Concluded(killed));
        }
        let waiting = self.secrets_due.iter().map(|(_, run)| *run);
        for run in waiting.collect::<Vec<_>>() {
            self.end_unbegun(run, cause);
        }
        out.push(Action::GiveUp);
        let id = self.kill_order.issue();
        out.push(Action::KillEverything { id, grace });
    }

    fn forget(&mut self, lease: LeaseId, out: &mut Vec<Action>) {
        if let Some(attempt) = self.attempts.remove(lease) {
            out.extend(attempt.replaced.map(Action::Forget));
            out.push(Action::Forget(attempt.run));
        }
    }

    /// Runs a health check: an ordinary launch, so that it exercises what attempts need.
    pub(super) fn check(&mut self, check: CheckId, out: &mut Vec<Action>) {
        let run = self.attempts.new_run();
        self.checks.insert(run, check);
        out.push(Action::Check(run));
    }

    /// Asks for launches back that have waited for room too long.
    pub(super) fn withdraw_overdue(&mut self, now: Mono, out: &mut Vec<Action>) {
        while let Some((_, run)) = self.waiting.pop_front_if(|(at, _)| *at <= now) {
            // An attempt that has run before is not given back: no other worker could resume it.
            let fresh = run.run == RunNo(0);
            if let Some(attempt) = self.attempts.get_mut(run)
                && fresh
                && attempt.phase == Phase::Waiting
                && !std::mem::replace(&mut attempt.withdrawn, true)
            {
                if seeded!(self.bugs, GivenBackUnasked) {
                    self.withdraw(run);
                } else {
                    out.push(Action::Withdraw(run));
                }
            }
        }
    }

    /// Starts the next run of an attempt whose runner has died; it resumes from the task's log. If
    /// the task is to be stopped, the log may not have it, and the new runner is told again.
    pub(super) fn start_next_run(&mut self, now: Mono, run: RunKey, out: &mut Vec<Action>) {
        let Some(attempt) = self.attempts.get_mut(run) else {
            return;
        };
        if !matches!(attempt.phase, Phase::Restarting(_)) {
            return;
        }
        let next = RunKey {
            run: RunNo(run.run.0 + 1),
            ..run
        };
        let started = attempt.started.take().map(|(at, _)| at.mono);
        attempt.assignment.began = attempt.assignment.began.or(started);
        attempt.run = next;
        attempt.replaced = Some(run);
        out.push(Action::Launch(next));
        out.extend(attempt.stop_action(now));
        self.restarts.retain(|(_, pending)| *pending != run);
        self.attempts.set_phase(next, Phase::Requested);
    }
}
