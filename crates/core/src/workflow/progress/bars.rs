//! What keeps an item from beginning, once all that it comes after is settled.
//!
//! * It is *blocked* if something has failed that it needs the success of.
//! * It is *skipped* if all was skipped that it needs the success of, or something of which it
//!   needs what that puts out; or if nothing has failed of what it is there for.
//!
//! So what joins two branches begins if one of them was taken, and what is there for several
//! failures begins with one. Blocked beats skipped. Edges are added up in whatever order they
//! are settled.

use baton_model::workflow::Condition;

use super::{ItemState, Tally};
use crate::workflow::graph::Down;

/// Whether an item can begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bar {
    None,
    Skip,
    Block,
}

/// What the edges of an item have said so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Bars(u8);

impl Bars {
    const NOTHING: Self = Self(0);
    /// Something has failed.
    const BLOCKED: Self = Self(1);
    /// Something has succeeded that had to.
    const SUCCEEDED: Self = Self(1 << 1);
    /// Something was skipped that had to succeed.
    const SKIPPED: Self = Self(1 << 2);
    /// The same, and nothing else will do.
    const MISSED: Self = Self(1 << 3);
    /// Something has failed that had to.
    const FAILED: Self = Self(1 << 4);
    /// Something has not failed that had to.
    const SPARED: Self = Self(1 << 5);

    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn has(self, one: Self) -> bool {
        self.0 & one.0 != 0
    }

    pub(super) const fn bar(self) -> Bar {
        let unneeded = self.has(Self::SKIPPED) && !self.has(Self::SUCCEEDED);
        let uncalled = self.has(Self::SPARED) && !self.has(Self::FAILED);
        if self.has(Self::BLOCKED) {
            Bar::Block
        } else if unneeded || uncalled || self.has(Self::MISSED) {
            Bar::Skip
        } else {
            Bar::None
        }
    }
}

/// What one end means to an item that waits for it.
pub(super) const fn bars(down: &Down, state: ItemState) -> Bars {
    said(down, state.is_bad(), matches!(state, ItemState::Skipped))
}

/// What the ends of a whole task mean to one that waits for all of them. Of a task whose items
/// were skipped in part, those that ran count. One without items hands on what bars it.
pub(super) fn gate(down: &Down, tally: &Tally, own: Bar) -> Bars {
    match tally.all() {
        0 => said(down, own == Bar::Block, own == Bar::Skip),
        all => said(down, tally.bad() > 0, tally.of(ItemState::Skipped) == all),
    }
}

const fn said(down: &Down, bad: bool, skipped: bool) -> Bars {
    match (down.condition, bad) {
        (Condition::End, _) => Bars::NOTHING,
        (Condition::Success, true) => Bars::BLOCKED,
        (Condition::Success, false) if skipped && down.needed => Bars::MISSED,
        (Condition::Success, false) if skipped => Bars::SKIPPED,
        (Condition::Success, false) => Bars::SUCCEEDED,
        (Condition::Failure, true) => Bars::FAILED,
        (Condition::Failure, false) => Bars::SPARED,
    }
}
