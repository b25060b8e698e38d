//! The durable side of the scheduler: what survives a change of leader.

use std::collections::BTreeMap;

use baton_core::ledger::Ledger;
use baton_core::step::{Batch, Receipt};
use baton_model::fact::Fact;
use baton_model::ids::{Epoch, LeaseId};
use baton_model::outcome::AttemptEnd;

/// How an attempt ended according to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Closed {
    /// Its one end.
    pub end: AttemptEnd,
    /// The leader that recorded it.
    pub by: Epoch,
}

/// The facts that are durable, added up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    /// The leader whose writes are accepted.
    pub epoch: Epoch,
    /// What a next leader begins with.
    pub ledger: Ledger,
    /// Every lease that was closed.
    pub closed: BTreeMap<LeaseId, Closed>,
}

impl Store {
    /// An empty store that nobody leads yet.
    pub(crate) fn new() -> Self {
        Self {
            epoch: Epoch(0),
            ledger: Ledger::default(),
            closed: BTreeMap::new(),
        }
    }

    /// Makes a batch durable.
    ///
    /// # Panics
    /// If the batch is another leader's, or a fact contradicts those before it.
    pub(crate) fn commit(&mut self, batch: Batch<Fact>) -> Receipt {
        assert_eq!(
            batch.epoch(),
            self.epoch,
            "a write of a leader that was overtaken"
        );
        for fact in batch.facts() {
            if let Err(error) = self.ledger.apply(fact) {
                panic!("the store refuses {fact}: {error}");
            }
            if let Fact::AttemptEnded { lease, end, .. } = fact {
                let closed = Closed {
                    end: *end,
                    by: self.epoch,
                };
                let before = self.closed.insert(*lease, closed);
                assert_eq!(before, None, "{lease} was closed before");
            }
        }
        batch.durable()
    }
}
