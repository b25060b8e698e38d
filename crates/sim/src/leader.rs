//! A leader behind its outbox, and a store that it writes: parts of every world.
//!
//! The worlds differ in when a batch becomes durable, and in what they note of it: the cluster sends
//! it to a slow store, schedules commit a random prefix, goldens wait for the script, and the model
//! check tries every moment. Their networks have nothing in common: links with delays, messages that
//! a script delivers, and the set of all that was ever sent.

use std::collections::VecDeque;
use std::fmt;

use baton_core::ledger::Ledger;
use baton_core::scheduler::{Effect, Input, Scheduler};
use baton_core::step::{Batch, Outbox, Receipt, Step};
use baton_model::fact::Fact;
use baton_model::ids::Epoch;
use baton_model::time::Now;

/// The real scheduler behind the real outbox, with its batches that are not durable.
#[derive(Clone, Debug)]
pub struct Leader {
    core: Scheduler,
    outbox: Outbox<Effect>,
    uncommitted: VecDeque<Batch<Fact>>,
}

impl Leader {
    /// A leader that has decided nothing.
    #[must_use]
    pub fn new(core: Scheduler) -> Self {
        Self {
            outbox: Outbox::new(core.epoch()),
            core,
            uncommitted: VecDeque::new(),
        }
    }

    #[must_use]
    pub const fn core(&self) -> &Scheduler {
        &self.core
    }

    /// Decides on an input. The step is to be accepted, or the leader to be dropped.
    pub fn decide(&mut self, now: Now, input: Input) -> Step<Fact, Effect> {
        let step = self.core.handle(now, input);
        self.core.assert_invariants();
        step
    }

    /// Queues the facts of a step as a batch; its effects wait for that.
    pub fn accept(&mut self, step: Step<Fact, Effect>) {
        self.uncommitted.extend(self.outbox.accept(step));
    }

    /// Takes the oldest batch that is not durable.
    pub fn next_batch(&mut self) -> Option<Batch<Fact>> {
        self.uncommitted.pop_front()
    }

    #[must_use]
    pub fn has_uncommitted(&self) -> bool {
        !self.uncommitted.is_empty()
    }

    /// A batch is durable.
    pub fn release(&mut self, receipt: Receipt) {
        self.outbox.release(receipt);
    }

    /// Takes the effects that wait for nothing.
    pub fn take_ready(&mut self) -> Vec<Effect> {
        self.outbox.drain().collect()
    }

    /// True if no effect waits.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.outbox.is_idle()
    }

    /// Replaces an idle outbox, which differs from a new one only in its counter, so that otherwise
    /// equal states are equal.
    pub fn forget_count(&mut self) {
        if self.outbox.is_idle() {
            self.outbox = Outbox::new(self.core.epoch());
        }
    }

    /// What a comparison of two leaders of one ledger looks at, apart from their decisions.
    #[must_use]
    pub const fn queued(&self) -> (&Outbox<Effect>, &VecDeque<Batch<Fact>>) {
        (&self.outbox, &self.uncommitted)
    }
}

/// The durable state: the facts, applied, and the epoch that may write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Store {
    pub epoch: Epoch,
    pub ledger: Ledger,
}

/// A batch of a leader that was overtaken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overtaken {
    store: Epoch,
    batch: Epoch,
}

impl fmt::Display for Overtaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { store, batch } = self;
        write!(f, "the store is at {store}, the batch from {batch}")
    }
}

impl Store {
    /// Makes a batch durable.
    ///
    /// # Errors
    /// If its leader leads no longer.
    ///
    /// # Panics
    /// If a fact contradicts those before it.
    pub fn commit(&mut self, batch: &Batch<Fact>) -> Result<(), Overtaken> {
        if batch.epoch() != self.epoch {
            return Err(Overtaken {
                store: self.epoch,
                batch: batch.epoch(),
            });
        }
        for fact in batch.facts() {
            let applied = self.ledger.apply(fact);
            applied.unwrap_or_else(|error| panic!("the store cannot apply {fact}: {error}"));
        }
        Ok(())
    }
}
