//! The identity of the store that a ledger was restored from: its id, its terms, its generation.
//!
//! A copy of a store (a restored backup, a clone) has the id of the original, and the facts and
//! terms up to the moment of the copy. What the original has done since is unknown to it: its
//! *lost future*. When a copy is recognised, a new generation begins with the next term, and with
//! [`Fact::CopyOpened`](baton_model::fact::Fact::CopyOpened). The outcome of every lease of an
//! earlier generation is then unknown, and anything that waits may be running: the generation is
//! settled once a lease time has passed without placing anything.

use std::collections::BTreeSet;

use baton_model::ids::{Epoch, InstanceId, RunId, StoreId};
use baton_model::limits::{COPY_ID_STEPS, COPY_IDS_SKIPPED, COPY_RUNS_SKIPPED, TERMS_MAX};

/// The identity of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Copies of a store share it.
    pub store: StoreId,
    /// The first term of the current generation; 0 if the store was never found to be a copy.
    pub generation: Epoch,
    /// True while attempts of a lost future may be running.
    pub unsettled: bool,
    /// New instances get ids above this one: those below may belong to the lost future.
    pub(super) ids_above: InstanceId,
    /// The same for new runs.
    runs_above: RunId,
    terms: BTreeSet<Epoch>,
}

impl Identity {
    /// An identity with the terms of its history.
    #[must_use]
    pub fn new(store: StoreId, terms: impl IntoIterator<Item = Epoch>) -> Self {
        let mut identity = Self {
            store,
            ..Self::default()
        };
        terms.into_iter().for_each(|term| identity.begin_term(term));
        identity
    }

    /// A leader has taken the store under this epoch.
    pub fn begin_term(&mut self, epoch: Epoch) {
        self.terms.insert(epoch);
        if self.terms.len() > TERMS_MAX {
            self.terms.pop_first();
        }
    }

    /// True if a leader of this history had that epoch. Epochs of versions that drew no random bits
    /// are known up to the last of them.
    #[must_use]
    pub fn knows(&self, epoch: Epoch) -> bool {
        if epoch.is_plain() {
            let later = self.terms.range(epoch..).next();
            return later.is_some_and(|term| term.is_plain());
        }
        self.terms.contains(&epoch)
    }

    /// True if a worker that has obeyed `epoch` of `store` proves that this is a copy: the epoch
    /// belongs to this store, to a later time than the current generation, and is not known.
    #[must_use]
    pub fn is_lost_future(&self, store: StoreId, epoch: Epoch) -> bool {
        store == self.store && epoch > self.generation && !self.knows(epoch)
    }

    /// The highest id that a lost future may have used.
    #[must_use]
    pub const fn ids_above(&self) -> InstanceId {
        self.ids_above
    }

    /// The highest id that a run of a lost future may have.
    #[must_use]
    pub const fn runs_above(&self) -> RunId {
        self.runs_above
    }

    pub(super) fn open_copy(&mut self, epoch: Epoch, last_used: (InstanceId, RunId)) {
        self.generation = epoch;
        self.unsettled = true;
        self.skip_ids(last_used);
    }

    /// Leaves room for the ids of a lost future, after the last one that this history has used. The
    /// random bits of the generation keep two apart that began from the same copy.
    pub(super) fn skip_ids(&mut self, (instance, run): (InstanceId, RunId)) {
        if !self.unsettled {
            (self.ids_above, self.runs_above) = (InstanceId(0), RunId(0));
            return;
        }
        let steps = u64::from(self.generation.number()) + self.generation.0 % COPY_ID_STEPS;
        let after = |last: u64, step: u64| last.saturating_add(steps.saturating_mul(step));
        self.ids_above = InstanceId(after(instance.0, COPY_IDS_SKIPPED));
        self.runs_above = RunId(after(run.0, COPY_RUNS_SKIPPED));
    }

    pub(super) fn settle(&mut self, generation: Epoch) {
        if generation == self.generation {
            self.unsettled = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: StoreId = StoreId(7);

    #[test]
    fn a_term_is_known_by_its_random_bits_and_a_plain_one_by_the_last() {
        let identity = Identity::new(STORE, [Epoch(4), Epoch::new(5, 1), Epoch::new(6, 2)]);
        for known in [Epoch(1), Epoch(4), Epoch::new(5, 1), Epoch::new(6, 2)] {
            assert!(identity.knows(known), "{known}");
        }
        for unknown in [Epoch(5), Epoch::new(5, 2), Epoch::new(7, 2)] {
            assert!(!identity.knows(unknown), "{unknown}");
        }
    }

    #[test]
    fn only_unknown_terms_of_this_store_and_generation_prove_a_copy() {
        let mut identity = Identity::new(STORE, [Epoch::new(5, 1)]);
        assert!(identity.is_lost_future(STORE, Epoch::new(5, 2)));
        assert!(!identity.is_lost_future(STORE, Epoch::new(5, 1)));
        assert!(!identity.is_lost_future(StoreId(8), Epoch::new(5, 2)));
        identity.open_copy(Epoch::new(6, 1), (InstanceId(0), RunId(0)));
        assert!(!identity.is_lost_future(STORE, Epoch::new(5, 2)));
        assert!(identity.is_lost_future(STORE, Epoch::new(6, 2)));
    }

    #[test]
    fn terms_are_bounded_and_the_latest_are_kept() {
        let terms = (1..)
            .map(|number| Epoch::new(number, 0))
            .take(TERMS_MAX + 1);
        let identity = Identity::new(STORE, terms);
        assert!(!identity.knows(Epoch::new(1, 0)) && identity.knows(Epoch::new(2, 0)));
    }
}
