//! The leader of one epoch: the real scheduler behind the real outbox.

use std::collections::VecDeque;

use baton_core::ledger::Ledger;
use baton_core::scheduler::{Config, Effect, Input, Scheduler};
use baton_core::step::{Batch, Outbox, Step};
use baton_model::fact::Fact;
use baton_model::ids::{Epoch, Incarnation};
use baton_model::time::{Millis, Mono, Now, Wall};

use super::store::Store;

/// What a leader's clock shows when it takes over: later than any span of the time
/// budget, so that no deadline lies before the beginning of time.
const BEGINNING: Mono = Mono(1 << 50);

/// A leader, and what it has not made durable yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Leader {
    scheduler: Scheduler,
    outbox: Outbox<Effect>,
    /// What waits in the outbox, which does not show it.
    waiting: Vec<Effect>,
    uncommitted: VecDeque<Batch<Fact>>,
    clock: Mono,
}

/// What came of one input.
pub(crate) struct LeaderStep {
    pub(crate) left: Vec<Effect>,
    /// What waits for earlier commits although it has nothing to keep itself, and
    /// the leader as it would be if that had been said before. A copy of a message
    /// is no new message, so then it need not wait to be said again; or the outbox
    /// would grow with every copy of a call that is answered alike.
    pub(crate) repeated: Option<(Vec<Effect>, Leader)>,
}

impl Leader {
    /// Takes up leadership. Each leader's clock begins at the same reading: it is
    /// another host's, and nobody compares them.
    pub(crate) fn new(config: Config, epoch: Epoch, ledger: Ledger) -> Self {
        let clock = BEGINNING;
        Self {
            scheduler: Scheduler::new(config, epoch, ledger, now(clock)),
            outbox: Outbox::new(epoch),
            waiting: Vec::new(),
            uncommitted: VecDeque::new(),
            clock,
        }
    }

    /// Decides about one input.
    pub(crate) fn handle(&mut self, input: Input) -> LeaderStep {
        let step = self.scheduler.handle(now(self.clock), input);
        self.scheduler.assert_invariants();
        let (effects, only_effects) = self.inspect(step.clone());
        let waits = only_effects && !self.outbox.is_idle() && !effects.is_empty();
        if waits && effects.iter().all(|effect| self.waiting.contains(effect)) {
            return LeaderStep {
                left: Vec::new(),
                repeated: None,
            };
        }
        let unsaid = waits.then(|| (effects.clone(), self.clone()));
        self.uncommitted.extend(self.outbox.accept(step));
        self.waiting.extend(effects);
        LeaderStep {
            left: self.drain(),
            repeated: unsaid,
        }
    }

    /// Makes the oldest batch durable; returns what had waited for it.
    pub(crate) fn commit(&mut self, store: &mut Store) -> Vec<Effect> {
        if let Some(batch) = self.uncommitted.pop_front() {
            self.outbox.release(store.commit(batch));
        }
        self.drain()
    }

    /// True if something is on its way to the store.
    pub(crate) fn has_uncommitted(&self) -> bool {
        !self.uncommitted.is_empty()
    }

    /// The scheduler.
    pub(crate) const fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// True if a tick is wanted now.
    pub(crate) fn is_due(&self) -> bool {
        self.scheduler
            .next_due()
            .is_some_and(|due| due <= self.clock)
    }

    /// Lets time pass on this leader's host.
    pub(crate) fn advance(&mut self, span: Millis) {
        self.clock += span;
    }

    /// True if the life may have been told of a lease that it has not confirmed.
    pub(crate) fn awaits_reply_from(&self, life: Incarnation) -> bool {
        let mut open = self.scheduler.ledger().open_leases();
        open.any(|lease| !lease.confirmed && lease.holder.incarnation == life)
    }

    /// What a step would say, and whether it has nothing to keep.
    fn inspect(&self, step: Step<Fact, Effect>) -> (Vec<Effect>, bool) {
        let mut outbox = Outbox::new(self.scheduler.epoch());
        let batch = outbox.accept(step);
        let only_effects = batch.is_none();
        if let Some(batch) = batch {
            outbox.release(batch.durable());
        }
        (outbox.drain().collect(), only_effects)
    }

    fn drain(&mut self) -> Vec<Effect> {
        let effects: Vec<Effect> = self.outbox.drain().collect();
        for effect in &effects {
            if let Some(at) = self.waiting.iter().position(|waiting| waiting == effect) {
                self.waiting.remove(at);
            }
        }
        if self.outbox.is_idle() {
            // An idle outbox differs from a new one only in how much went through
            // it: two states that differ in nothing else are the same state.
            self.outbox = Outbox::new(self.scheduler.epoch());
        }
        effects
    }
}

const fn now(mono: Mono) -> Now {
    Now {
        mono,
        wall: Wall(0),
    }
}
