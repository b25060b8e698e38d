//! What readers ask for, and what they get.

use std::collections::BTreeMap;

use baton_core::ledger::Instance;
use baton_model::fact::Fact;
use baton_model::ids::{Epoch, InstanceId};
use baton_model::state::UniversalState;
use baton_model::time::Wall;

use crate::limits::PAGE_ITEMS_MAX;

/// Numbers the facts of a store, from 1, in the order in which they landed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(pub u64);

/// Which instances are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Ready without a lease, by id.
    Bullpen,
    /// Leased, by id.
    Arena,
    /// In a terminal state, the latest to end first.
    History,
}

impl View {
    /// The states of the instances in it. A lease is open in exactly those of the
    /// arena.
    #[must_use]
    pub const fn states(self) -> &'static [UniversalState] {
        use UniversalState as S;
        match self {
            Self::Bullpen => &[S::Queued],
            Self::Arena => &[S::Launched, S::Running],
            Self::History => &[S::Done, S::Failed, S::Halted, S::Aborted],
        }
    }
}

/// Where a page ended. Only a cursor of the same view makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor(pub i64);

/// One question for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// Of which view.
    pub view: View,
    /// Of instances in this state only.
    pub state: Option<UniversalState>,
    /// From behind this place on.
    pub after: Option<Cursor>,
    /// How many at most; never more than [`PAGE_ITEMS_MAX`].
    pub limit: usize,
}

impl Query {
    /// The first page of a view.
    #[must_use]
    pub const fn first(view: View, limit: usize) -> Self {
        Self {
            view,
            state: None,
            after: None,
            limit,
        }
    }

    /// The states to look for.
    pub(crate) fn states(&self) -> impl Iterator<Item = UniversalState> + use<> {
        let wanted = self.state;
        let of_view = self.view.states().iter().copied();
        of_view.filter(move |state| wanted.is_none_or(|wanted| wanted == *state))
    }

    pub(crate) const fn items_max(&self) -> usize {
        page_limit(self.limit)
    }
}

/// A limit that was asked for, within bounds.
pub(crate) const fn page_limit(asked: usize) -> usize {
    if asked == 0 {
        1
    } else if asked > PAGE_ITEMS_MAX {
        PAGE_ITEMS_MAX
    } else {
        asked
    }
}

/// Some items, and where the next ones begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The items, in the order of the view.
    pub items: Vec<T>,
    /// Where to go on; nothing if these were the last.
    pub next: Option<Cursor>,
}

impl<T> Page<T> {
    /// The first `limit` of `items`, of which there is one more if a page follows.
    pub(crate) fn cut(mut items: Vec<T>, limit: usize, place: impl Fn(&T) -> i64) -> Self {
        let more = items.len() > limit;
        items.truncate(limit);
        let last = items.last().map(|item| Cursor(place(item)));
        Self {
            items,
            next: last.filter(|_| more),
        }
    }
}

/// An instance, and when it came and changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The instance itself.
    pub instance: Instance,
    /// When it was accepted.
    pub submitted_at: Wall,
    /// When its last fact was recorded.
    pub changed_at: Wall,
    /// Its last fact.
    pub changed: Seq,
}

impl Record {
    /// Its place in the view it is in: of the living by id, of the ended by their
    /// end, the latest first. Ids are compared as signed numbers, as databases do.
    #[must_use]
    pub const fn position(&self) -> i64 {
        if self.instance.state.is_terminal() {
            -(self.changed.0.cast_signed())
        } else {
            self.instance.id.0.cast_signed()
        }
    }
}

/// One fact as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number.
    pub seq: Seq,
    /// When.
    pub at: Wall,
    /// In whose name.
    pub epoch: Epoch,
    /// What happened.
    pub fact: Fact,
}

/// How much there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Instances by state; a state without any may be missing.
    pub states: BTreeMap<UniversalState, u64>,
    /// Bytes of recorded facts. What they take on a disk is some two times as much.
    pub history_bytes: u64,
}

impl Counts {
    /// Instances in a terminal state.
    #[must_use]
    pub fn terminal(&self) -> u64 {
        self.states
            .iter()
            .filter_map(|(state, count)| state.is_terminal().then_some(count))
            .sum()
    }
}

/// Puts the pages of single states together to one of their view.
pub(crate) fn merge(mut records: Vec<Record>, query: &Query) -> Page<Record> {
    records.sort_unstable_by_key(Record::position);
    Page::cut(records, query.items_max(), Record::position)
}

/// The id as a database keeps it.
pub(crate) const fn key(id: InstanceId) -> i64 {
    id.0.cast_signed()
}
