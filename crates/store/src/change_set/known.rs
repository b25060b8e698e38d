//! The ids that were ever submitted, as far as a change set has fetched them.

use std::collections::BTreeSet;

use baton_core::ledger::{IdSet, LedgerError};
use baton_model::ids::InstanceId;

use super::{StoredRows, split_by_sign};
use crate::StoreError;

pub(crate) type Ids = (InstanceId, InstanceId);

/// Stored ranges of known ids around a range.
#[derive(Debug)]
pub(crate) struct KnownRanges {
    /// The ranges that overlap or touch the requested one.
    pub(crate) ranges: Vec<Ids>,
    /// No other range starts up to this id.
    pub(crate) clear_to: InstanceId,
}

/// The ids, and the rows that they were fetched from.
#[derive(Debug, Default)]
pub(super) struct KnownIds {
    ids: IdSet,
    stored: BTreeSet<Ids>,
    /// The range in which everything was fetched; the next submission usually falls into it.
    fetched: Option<Ids>,
}

impl KnownIds {
    /// Adds ids that must be new.
    pub(super) fn claim(
        &mut self,
        stored: &mut impl StoredRows,
        first: InstanceId,
        last: InstanceId,
    ) -> Result<(), StoreError> {
        self.fetch(stored, first, last)?;
        if let Some((start, _)) = self.ids.overlap(first, last) {
            return Err(LedgerError::AlreadySubmitted(start.max(first)).into());
        }
        self.ids.insert(first, last);
        Ok(())
    }

    /// True if the id was submitted before.
    pub(super) fn contains(
        &mut self,
        stored: &mut impl StoredRows,
        id: InstanceId,
    ) -> Result<bool, StoreError> {
        self.fetch(stored, id, id)?;
        Ok(self.ids.contains(id))
    }

    /// Fetches the neighbours, too: added ids merge with them into one range.
    fn fetch(
        &mut self,
        stored: &mut impl StoredRows,
        first: InstanceId,
        last: InstanceId,
    ) -> Result<(), StoreError> {
        let from = InstanceId(first.0.saturating_sub(1));
        let to = InstanceId(last.0.saturating_add(1));
        if self
            .fetched
            .is_some_and(|fetched| fetched.0 <= from && to <= fetched.1)
        {
            return Ok(());
        }
        let known = stored.known_ranges(from, to)?;
        for (first, last) in known.ranges {
            self.ids.insert(first, last);
            self.stored.insert((first, last));
        }
        self.fetched = Some((from, known.clear_to));
        Ok(())
    }

    /// Rows to remove, and rows to add.
    pub(super) fn changes(&self) -> (Vec<Ids>, Vec<Ids>) {
        let after: BTreeSet<Ids> = self
            .ids
            .ranges()
            .flat_map(|(first, last)| split_by_sign(first, last))
            .collect();
        let gone = self.stored.difference(&after).copied().collect();
        let new = after.difference(&self.stored).copied().collect();
        (gone, new)
    }
}
