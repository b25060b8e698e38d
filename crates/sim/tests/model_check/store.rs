//! The durable state, which survives a change of leader.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

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
    facts: baton_sim::leader::Store,
    /// Closed leases.
    pub closed: BTreeMap<LeaseId, Closed>,
}

impl Store {
    /// An empty store without a leader.
    pub(crate) fn new() -> Self {
        Self {
            facts: baton_sim::leader::Store::default(),
            closed: BTreeMap::new(),
        }
    }

    /// Makes a batch durable.
    ///
    /// # Panics
    /// If the batch is another leader's, or a fact contradicts those before it.
    pub(crate) fn commit(&mut self, batch: Batch<Fact>) -> Receipt {
        let committed = self.facts.commit(&batch);
        committed.unwrap_or_else(|overtaken| panic!("{overtaken}"));
        for fact in batch.facts() {
            if let Fact::AttemptEnded { lease, end, .. } = fact {
                let closed = Closed {
                    end: *end,
                    by: self.facts.epoch,
                };
                let before = self.closed.insert(*lease, closed);
                assert_eq!(before, None, "{lease} was closed before");
            }
        }
        batch.durable()
    }
}

impl Deref for Store {
    type Target = baton_sim::leader::Store;

    fn deref(&self) -> &Self::Target {
        &self.facts
    }
}

impl DerefMut for Store {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.facts
    }
}
