//! The leader of one epoch: the real scheduler behind the real outbox.

use std::hash::{Hash, Hasher};

use baton_core::ledger::Ledger;
use baton_core::scheduler::{Config, Effect, Input, Scheduler};
use baton_core::step::{Outbox, Step};
use baton_model::fact::Fact;
use baton_model::ids::{Epoch, Incarnation};
use baton_model::time::{Millis, Mono, Now, Wall};

use super::store::Store;

/// A leader's clock at its takeover: later than any timeout, so that no deadline is negative.
const BEGINNING: Mono = Mono(1 << 50);

/// A leader and its uncommitted batches.
#[derive(Clone, Debug)]
pub(crate) struct Leader {
    leader: baton_sim::leader::Leader,
    /// The effects in the outbox, which does not expose them.
    waiting: Vec<Effect>,
    clock: Mono,
}

impl Leader {
    fn state(&self) -> impl Eq + Hash + '_ {
        let scheduler = self.scheduler().projection();
        let queued = (self.leader.queued(), &self.waiting);
        (scheduler, queued, self.clock)
    }
}

impl PartialEq for Leader {
    fn eq(&self, other: &Self) -> bool {
        self.state() == other.state()
    }
}

impl Eq for Leader {}

impl Hash for Leader {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.state().hash(state);
    }
}

/// The result of one input.
pub(crate) struct LeaderStep {
    pub(crate) left: Vec<Effect>,
    /// Effects without facts of their own that wait for earlier commits, and the leader without
    /// them. If all of them were sent before, they are duplicates and need not be sent again:
    /// otherwise the outbox would grow with every copy of a call with the same answer.
    pub(crate) repeated: Option<(Vec<Effect>, Leader)>,
}

impl Leader {
    /// Each leader's clock begins at the same reading: clocks of different hosts are never
    /// compared.
    pub(crate) fn new(config: Config, epoch: Epoch, ledger: Ledger) -> Self {
        let clock = BEGINNING;
        let core = Scheduler::new(config, epoch, ledger, now(clock));
        Self {
            leader: baton_sim::leader::Leader::new(core),
            waiting: Vec::new(),
            clock,
        }
    }

    /// Handles one input.
    pub(crate) fn handle(&mut self, input: Input) -> LeaderStep {
        let step = self.leader.decide(now(self.clock), input);
        let (effects, only_effects) = self.inspect(step.clone());
        let waits = only_effects && !self.leader.is_idle() && !effects.is_empty();
        if waits && effects.iter().all(|effect| self.waiting.contains(effect)) {
            return LeaderStep {
                left: Vec::new(),
                repeated: None,
            };
        }
        let duplicates = waits.then(|| (effects.clone(), self.clone()));
        self.leader.accept(step);
        self.waiting.extend(effects);
        LeaderStep {
            left: self.drain(),
            repeated: duplicates,
        }
    }

    /// Makes the oldest batch durable; returns the effects that waited for it.
    pub(crate) fn commit(&mut self, store: &mut Store) -> Vec<Effect> {
        if let Some(batch) = self.leader.next_batch() {
            self.leader.release(store.commit(batch));
        }
        self.drain()
    }

    /// True if a batch is not durable yet.
    pub(crate) fn has_uncommitted(&self) -> bool {
        self.leader.has_uncommitted()
    }

    pub(crate) const fn scheduler(&self) -> &Scheduler {
        self.leader.core()
    }

    /// True if a tick is due.
    pub(crate) fn is_due(&self) -> bool {
        self.scheduler()
            .next_due()
            .is_some_and(|due| due <= self.clock)
    }

    /// Advances the clock.
    pub(crate) fn advance(&mut self, span: Millis) {
        self.clock += span;
    }

    /// True if a launch to the incarnation awaits its reply.
    pub(crate) fn awaits_reply_from(&self, incarnation: Incarnation) -> bool {
        let mut open = self.scheduler().ledger().open_leases();
        open.any(|lease| !lease.confirmed && lease.holder.incarnation == incarnation)
    }

    /// Returns the effects of a step, and whether it has no facts.
    fn inspect(&self, step: Step<Fact, Effect>) -> (Vec<Effect>, bool) {
        let mut outbox = Outbox::new(self.scheduler().epoch());
        let batch = outbox.accept(step);
        let only_effects = batch.is_none();
        if let Some(batch) = batch {
            outbox.release(batch.durable());
        }
        (outbox.drain().collect(), only_effects)
    }

    fn drain(&mut self) -> Vec<Effect> {
        let effects = self.leader.take_ready();
        for effect in &effects {
            if let Some(at) = self.waiting.iter().position(|waiting| waiting == effect) {
                self.waiting.remove(at);
            }
        }
        self.leader.forget_count();
        effects
    }
}

const fn now(mono: Mono) -> Now {
    Now {
        mono,
        wall: Wall(0),
    }
}
