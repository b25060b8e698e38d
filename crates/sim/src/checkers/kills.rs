//! Checkers of signals: a process gets none without a reason, and SIGKILL only after its grace.

use std::collections::{BTreeMap, BTreeSet};

use baton_core::host::kernel::{SIGKILL, SIGTERM};
use baton_model::ids::LeaseId;
use baton_model::outcome::{KillCause, Outcome};
use baton_model::time::Mono;

use super::Violation;

/// Why the processes of an attempt may be killed.
#[derive(Clone, Debug, Default)]
struct Ask {
    causes: BTreeSet<KillCause>,
    /// A stop was requested: SIGKILL comes at this time of its host's clock.
    kill_at: Option<Mono>,
    /// They may be killed at once.
    is_hard: bool,
}

/// The reasons to kill attempts.
#[derive(Debug, Default)]
pub struct KillChecks {
    asks: BTreeMap<LeaseId, Ask>,
    /// Attempts that were warned.
    warned: BTreeSet<LeaseId>,
    /// Attempts whose worker was told to end.
    left: BTreeSet<LeaseId>,
}

impl KillChecks {
    /// An attempt is to stop, with a grace until this time of its host's clock.
    pub fn stop(&mut self, lease: LeaseId, cause: KillCause, kill_at: Mono) {
        let ask = self.asks.entry(lease).or_default();
        ask.causes.insert(cause);
        let kill_at = ask.kill_at.map_or(kill_at, |at| at.min(kill_at));
        ask.kill_at = Some(kill_at);
    }

    /// An attempt is to be killed, or its time is over.
    pub fn kill(&mut self, lease: LeaseId, cause: KillCause) {
        let ask = self.asks.entry(lease).or_default();
        ask.causes.insert(cause);
        ask.is_hard = true;
    }

    /// An attempt is warned of its end.
    pub fn warn(&mut self, lease: LeaseId) {
        self.warned.insert(lease);
    }

    /// The worker of an attempt is told to end.
    pub fn leave(&mut self, lease: LeaseId) {
        self.left.insert(lease);
    }

    /// Checks a signal of a coordinator to a process of an attempt that it watches.
    pub(super) fn signalled(
        &self,
        lease: LeaseId,
        signal: i32,
        now: Mono,
    ) -> Result<(), Violation> {
        if !matches!(signal, SIGTERM | SIGKILL) && self.warned.contains(&lease) {
            return Ok(());
        }
        let Some(ask) = self.asks.get(&lease) else {
            return Err(Violation {
                checker: "killed-unasked",
                what: format!("{lease} got signal {signal} without a reason"),
            });
        };
        let early = ask.kill_at.filter(|at| now < *at && !ask.is_hard);
        match early {
            Some(at) if signal == SIGKILL => Err(Violation {
                checker: "grace-skipped",
                what: format!("{lease} was killed at {}, with time until {}", now.0, at.0),
            }),
            _ => Ok(()),
        }
    }

    /// True if an attempt that has ended so may be recorded with this outcome.
    pub(super) fn agree(&self, lease: LeaseId, truth: Outcome, recorded: Outcome) -> bool {
        // A task that has been stopped, and not known why, counts as killed on request.
        let asked = |cause| {
            let has_lost_worker = self.warned.contains(&lease) || self.left.contains(&lease);
            if cause == KillCause::WorkerEnded && has_lost_worker {
                return true;
            }
            let ask = self.asks.get(&lease);
            ask.is_some_and(|ask| cause == KillCause::Requested || ask.causes.contains(&cause))
        };
        match (truth, recorded) {
            // The end of a task that is being stopped is that of its runner.
            (Outcome::Signaled(_) | Outcome::Exited(_), Outcome::Killed(cause)) => asked(cause),
            (truth, recorded) => truth == recorded,
        }
    }
}
