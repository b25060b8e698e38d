//! The durable state, which survives a change of leader.

use std::collections::BTreeMap;

use baton_core::ledger::Ledger;
use baton_core::step::{Batch, Receipt};
use baton_model::fact::Fact;
use baton_model::ids::{Epoch, LeaseId};
use baton_model::outcome::AttemptEnd;

/// The recorded end of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Closed {
    pub end: AttemptEnd,
    /// The leader that recorded it.
    pub by: Epoch,
}

/// The durable facts, applied.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Store {
    /// The leader whose writes are accepted.
    pub epoch: Epoch,
    /// The initial ledger of the next leader.
    pub ledger: Ledger,
    /// Closed leases.
    pub closed: BTreeMap<LeaseId, Closed>,
}

impl Store {
    /// An empty store without a leader.
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
