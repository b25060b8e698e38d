//! Initial wait: when a scheduler without a store may start work.
//!
//! A scheduler without a store must not place an instance that a worker
//! of its predecessor may still be running. It waits until one of two things is true:
//!
//! * **a full lease time has passed**: every worker of an earlier scheduler
//!   has connected by now, or its dead-man timer has killed its work; or
//! * **consensus**: the workers that have connected all hold the same worker set
//!   from before, and that set is exactly them ([`crate::protocol::consensus`]).
//!
//! In both cases no worker may be left that has connected but not reported its attempts,
//! not even one that is condemned and dying, until it has certainly ended. But
//! a worker that first appears after the full wait cannot be running an earlier attempt,
//! so it does not prolong the wait: crash-looping workers cannot extend it
//! beyond one more lease time.

use baton_model::time::Mono;

use super::context::Cx;
use super::{Protocol, Timer};
use crate::bugs::Bug;
use crate::config::StoreMode;
use crate::protocol::consensus::Consensus;

/// A wait that has not ended yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct InitialWait {
    /// When a full lease time has passed.
    until: Mono,
}

impl Protocol {
    pub(super) fn begin_initial_wait(&mut self, cx: &Cx<'_>) {
        if cx.config.store == StoreMode::Durable {
            return;
        }
        self.consensus = Some(Consensus::new(self.epoch));
        if cx.config.bugs.has(Bug::InitialWaitSkipped) {
            return;
        }
        let until = cx.now.mono + cx.config.timeouts.lease();
        self.initial_wait = Some(InitialWait { until });
        self.timers.arm(Timer::InitialWait, until);
    }

    /// Ends the wait if that is safe. Called after every input: any of them may
    /// change the answer, and outside the wait it costs nothing.
    pub(crate) fn end_initial_wait_if_safe(&mut self, cx: &Cx<'_>) {
        let Some(wait) = &self.initial_wait else {
            return;
        };
        let Some(consensus) = &self.consensus else {
            return;
        };
        let now = cx.now.mono;
        let waited = now >= wait.until;
        let unknown = self.holdings.0.values().any(|holding| {
            !holding.reported && holding.expires > now && (!waited || holding.since < wait.until)
        });
        if unknown {
            return;
        }
        if waited || consensus.agreed() {
            self.initial_wait = None;
            self.timers.disarm(&Timer::InitialWait);
        }
    }
}
