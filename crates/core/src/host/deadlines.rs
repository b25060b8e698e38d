//! The dead-man timer: attempts whose deadline has passed are killed.

use std::collections::BTreeSet;

use baton_model::coordinator::{CoordinatorRecord, Guard};
use baton_model::outcome::KillCause;
use baton_model::task::{ProcessNo, RunKey};
use baton_model::time::{Millis, Mono};
use baton_model::timeouts::LeaseTerm;

use super::kernel::{SIGKILL, SIGTERM};
use super::kill_all::KILL_MAX;
use super::runs::Root;
use super::{Host, Turn};
use crate::protocol::worker::guard::GuardAction;

/// Delay before killing again what could not be killed when the lease ended.
const KILL_RETRY: Millis = Millis::from_secs(1);

impl Host {
    pub(super) fn extend_guard(&mut self, turn: &mut Turn<'_>, order: Guard) {
        self.guard.extend(order.into());
        // An order that is late, or older than the one in force, changes nothing.
        if self.guard.order().map(Guard::from) == Some(order) {
            turn.record(CoordinatorRecord::Guard(order));
        }
    }

    /// True if a launch may go ahead.
    pub(super) fn admits(&self, turn: &Turn<'_>, term: LeaseTerm) -> bool {
        !self.settings.guarded || self.guard.admits(turn.now(), term)
    }

    /// Lets the timer watch a worker's attempt.
    pub(super) fn watch(&mut self, run: RunKey, term: LeaseTerm) {
        if self.settings.guarded {
            self.guard.watch(run.process, term);
        }
    }

    pub(super) fn poll_deadlines(&mut self, turn: &mut Turn<'_>) {
        while let Some(action) = self.guard.poll(turn.now()) {
            match action {
                GuardAction::Terminate(attempts) => {
                    self.terminate_attempts(turn, &attempts.into_iter().collect());
                }
                GuardAction::Kill(attempts) => {
                    self.kill_attempts(turn, attempts.into_iter().collect());
                }
            }
        }
    }

    pub(super) fn retry_deadlines(&mut self, turn: &mut Turn<'_>, now: Mono) {
        if let Some((_, attempts)) = self.guard_retry.take_if(|(at, _)| *at <= now) {
            self.kill_attempts(turn, attempts);
        }
    }

    /// Sends SIGTERM to attempts whose deadline has passed; those that wait are not started.
    fn terminate_attempts(&mut self, turn: &mut Turn<'_>, attempts: &BTreeSet<ProcessNo>) {
        let waiting: Vec<RunKey> = self.queue.known().map(|known| known.run).collect();
        for run in waiting {
            if attempts.contains(&run.process) {
                self.withdraw(turn, run);
            }
        }
        self.signal_roots(turn, attempts, SIGTERM);
        self.with_attempts(attempts, |sweep| turn.kernel.signal(sweep, SIGTERM));
    }

    /// Kills them, and again what could not be killed.
    fn kill_attempts(&mut self, turn: &mut Turn<'_>, attempts: BTreeSet<ProcessNo>) {
        self.signal_roots(turn, &attempts, SIGKILL);
        for (key, _) in self.table.runs_of(&attempts) {
            turn.kernel.kill_cgroup(key);
        }
        let left = self.with_attempts(&attempts, |sweep| turn.kernel.kill(sweep, KILL_MAX));
        if left > 0 {
            turn.kernel.log(format_args!(
                "{left} processes could not be killed; retrying"
            ));
            let again = self.guard_retry.take();
            let mut again = again.map(|(_, again)| again).unwrap_or_default();
            again.extend(attempts);
            self.guard_retry = Some((turn.now() + KILL_RETRY, again));
        }
    }

    /// Signals the first processes of attempts with their groups. That needs no descriptor, so it
    /// works when there are none left.
    fn signal_roots(&mut self, turn: &mut Turn<'_>, attempts: &BTreeSet<ProcessNo>, signal: i32) {
        let runs: Vec<RunKey> = self.table.runs_of(attempts).map(|(key, _)| key).collect();
        for key in runs {
            let Some(run) = self.table.runs.get_mut(&key) else {
                continue;
            };
            run.signalled.get_or_insert(KillCause::LeaseLapsed);
            let pid = run.pid().unwrap_or_default();
            match run.root {
                Root::Child => turn.kernel.signal_group(pid, signal),
                Root::Held | Root::Ending(_) => turn.kernel.signal_held(key, signal),
                Root::Gone(_) | Root::Lost => {}
            }
        }
    }
}
