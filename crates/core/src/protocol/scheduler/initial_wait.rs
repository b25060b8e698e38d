//! Initial wait: when a scheduler without a store, or with a copy of one, may start work.
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
//!
//! A scheduler whose store is a copy knows what it knew when the copy was made. Its original may
//! have placed everything that waits here since then. So it waits as if it had no store, for a
//! full lease time or the longest `lost_after` of what waits, and for at most one more lease time while
//! workers are killing attempts that it does not know; there is no worker set to shorten that. No time
//! ends a strict attempt that the original has placed on a worker which is never heard again.

use baton_model::fact::{CopyEvidence, Fact};
use baton_model::time::{Millis, Mono};
use baton_model::timeouts::LeaseTerm;

use super::context::Cx;
use super::holdings::inherited_for;
use super::{Protocol, Timer};
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
        match cx.config.store {
            StoreMode::Durable if !cx.ledger().identity().unsettled => return,
            StoreMode::Durable => {}
            StoreMode::Memory => self.consensus = Some(Consensus::new(self.term.epoch)),
        }
        if seeded!(cx.config.bugs, InitialWaitSkipped) {
            return;
        }
        let until = cx.now.mono + inherited_for(cx).max(longest_term(cx));
        self.initial_wait = Some(InitialWait { until });
        self.timers.arm(Timer::InitialWait, until);
    }

    /// The store is a copy: a new generation of it begins.
    pub(crate) fn open_copy(&mut self, cx: &mut Cx<'_>, evidence: CopyEvidence) {
        let epoch = self.term.epoch;
        cx.commit(Fact::CopyOpened { epoch, evidence });
        self.begin_initial_wait(cx);
    }

    /// Ends the wait if that is safe. Called after every input: any of them may
    /// change the answer, and outside the wait it costs nothing.
    pub(crate) fn end_initial_wait_if_safe(&mut self, cx: &mut Cx<'_>) {
        let Some(wait) = &self.initial_wait else {
            return;
        };
        let agreed = self.consensus.as_ref().is_some_and(Consensus::agreed);
        let now = cx.now.mono;
        let waited = now >= wait.until;
        let unknown = self.holdings.0.values().any(|holding| {
            !holding.reported && holding.expires > now && (!waited || holding.since < wait.until)
        });
        if unknown || !(waited || agreed) || self.awaits_kills(cx, wait) {
            return;
        }
        self.initial_wait = None;
        self.timers.disarm(&Timer::InitialWait);
        if cx.ledger().identity().unsettled {
            let epoch = cx.ledger().identity().generation;
            cx.commit(Fact::CopySettled { epoch });
        }
    }

    /// True if a worker is killing an attempt that the copy does not know. One that cannot be
    /// killed must not stop everything for ever.
    fn awaits_kills(&self, cx: &Cx<'_>, wait: &InitialWait) -> bool {
        let end = wait.until + cx.config.timeouts.lease();
        let mut kills = self.seats.values().flat_map(|seat| seat.kills.keys());
        self.consensus.is_none()
            && cx.now.mono < end
            && kills.any(|lease| cx.ledger().open_lease(*lease).is_none())
    }
}

/// The longest term of what a lost future may have placed.
fn longest_term(cx: &Cx<'_>) -> Millis {
    let waiting = cx
        .ledger()
        .waiting()
        .map(|range| LeaseTerm::of(&range.spec));
    let live = cx.ledger().instances();
    let live = live.filter(|(_, it)| !it.state.is_terminal());
    let terms = waiting.chain(live.map(|(_, it)| LeaseTerm::of(&it.spec)));
    let spans = terms.map(|term| match term {
        LeaseTerm::For(span) => span,
        LeaseTerm::Lease | LeaseTerm::Unlimited => Millis(0),
    });
    spans.max().unwrap_or_default() + cx.config.predecessor_grace
}
