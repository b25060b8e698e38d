//! The ids that were ever submitted, as far as a draft has looked.

use std::collections::BTreeSet;

use baton_core::ledger::{IdSet, LedgerError};
use baton_model::ids::InstanceId;

use super::{Kept, halves};
use crate::StoreError;

/// A range of ids.
pub(crate) type Ids = (InstanceId, InstanceId);

/// What is kept of the known ids around a place.
#[derive(Debug)]
pub(crate) struct Around {
    /// The ranges that touch what was asked for.
    pub(crate) ranges: Vec<Ids>,
    /// No other range begins up to here.
    pub(crate) clear_to: InstanceId,
}

/// The ids, and the rows they were fetched from.
#[derive(Debug, Default)]
pub(super) struct Known {
    ids: IdSet,
    rows: BTreeSet<Ids>,
    /// Where everything was fetched; the usual next submission lies in it.
    seen: Option<Ids>,
}

impl Known {
    /// Adds ids that must be new.
    pub(super) fn claim(
        &mut self,
        kept: &mut impl Kept,
        first: InstanceId,
        last: InstanceId,
    ) -> Result<(), StoreError> {
        self.fetch(kept, first, last)?;
        if let Some((start, _)) = self.ids.overlap(first, last) {
            return Err(LedgerError::AlreadySubmitted(start.max(first)).into());
        }
        self.ids.insert(first, last);
        Ok(())
    }

    /// True if the id was submitted before.
    pub(super) fn contains(
        &mut self,
        kept: &mut impl Kept,
        id: InstanceId,
    ) -> Result<bool, StoreError> {
        self.fetch(kept, id, id)?;
        Ok(self.ids.contains(id))
    }

    /// Looks at the neighbours, too: they become one range with what is added.
    fn fetch(
        &mut self,
        kept: &mut impl Kept,
        first: InstanceId,
        last: InstanceId,
    ) -> Result<(), StoreError> {
        let from = InstanceId(first.0.saturating_sub(1));
        let to = InstanceId(last.0.saturating_add(1));
        if self.seen.is_some_and(|seen| seen.0 <= from && to <= seen.1) {
            return Ok(());
        }
        let around = kept.known(from, to)?;
        for (first, last) in around.ranges {
            self.ids.insert(first, last);
            self.rows.insert((first, last));
        }
        self.seen = Some((from, around.clear_to));
        Ok(())
    }

    /// Rows to remove, and rows to add.
    pub(super) fn changes(&self) -> (Vec<Ids>, Vec<Ids>) {
        let after: BTreeSet<Ids> = self
            .ids
            .ranges()
            .flat_map(|(first, last)| halves(first, last))
            .collect();
        let gone = self.rows.difference(&after).copied().collect();
        let new = after.difference(&self.rows).copied().collect();
        (gone, new)
    }
}
