//! Block reasons: why an item does not run although all its upstream items are settled.
//!
//! * It is *blocked* if an upstream item failed whose success it requires.
//! * It is *skipped* if every upstream item whose success it requires was skipped; if one was
//!   skipped whose outputs it needs; or if it handles failures and none occurred.
//!
//! So a join of two branches runs if one of them was taken, and a handler of several failures
//! runs after one. Blocked takes precedence over skipped. Edge outcomes are a bit set, so the
//! order in which edges are settled does not matter.

use baton_model::workflow::Condition;

use super::{ItemState, Tally};
use crate::workflow::graph::DownstreamTask;

/// Why an item does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockReason {
    None,
    /// The item is skipped.
    NotNeeded,
    /// The item is blocked.
    UpstreamFailed,
}

/// The set of outcomes of an item's settled edges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct EdgeOutcomes(u8);

impl EdgeOutcomes {
    const NOTHING: Self = Self(0);
    /// An upstream item failed whose success is required.
    const REQUIRED_FAILED: Self = Self(1);
    /// An upstream item succeeded as required.
    const SUCCEEDED: Self = Self(1 << 1);
    /// An upstream item was skipped whose success is required.
    const SKIPPED: Self = Self(1 << 2);
    /// The same, and its outputs are needed: another success does not make up for it.
    const OUTPUTS_MISSING: Self = Self(1 << 3);
    /// With condition `failure`: an upstream item failed.
    const FAILURE_SEEN: Self = Self(1 << 4);
    /// With condition `failure`: an upstream item did not fail.
    const NO_FAILURE: Self = Self(1 << 5);

    pub(super) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn has(self, one: Self) -> bool {
        self.0 & one.0 != 0
    }

    pub(super) const fn reason(self) -> BlockReason {
        let all_skipped = self.has(Self::SKIPPED) && !self.has(Self::SUCCEEDED);
        let nothing_to_handle = self.has(Self::NO_FAILURE) && !self.has(Self::FAILURE_SEEN);
        if self.has(Self::REQUIRED_FAILED) {
            BlockReason::UpstreamFailed
        } else if all_skipped || nothing_to_handle || self.has(Self::OUTPUTS_MISSING) {
            BlockReason::NotNeeded
        } else {
            BlockReason::None
        }
    }
}

/// The outcome of an item-level edge whose upstream item settled in `state`.
pub(super) const fn edge_outcome(down: &DownstreamTask, state: ItemState) -> EdgeOutcomes {
    outcome(
        down,
        state.is_unsuccessful(),
        matches!(state, ItemState::Skipped),
    )
}

/// The outcome of a task-level edge, from the final tally of the upstream task. If some of its
/// items were skipped, only those that ran count. A task without items passes on its own block
/// reason.
pub(super) fn task_outcome(down: &DownstreamTask, tally: &Tally, own: BlockReason) -> EdgeOutcomes {
    match tally.all() {
        0 => outcome(
            down,
            own == BlockReason::UpstreamFailed,
            own == BlockReason::NotNeeded,
        ),
        all => outcome(
            down,
            tally.unsuccessful() > 0,
            tally.of(ItemState::Skipped) == all,
        ),
    }
}

const fn outcome(down: &DownstreamTask, failed: bool, skipped: bool) -> EdgeOutcomes {
    match (down.condition, failed) {
        (Condition::End, _) => EdgeOutcomes::NOTHING,
        (Condition::Success, true) => EdgeOutcomes::REQUIRED_FAILED,
        (Condition::Success, false) if skipped && down.needs_outputs => {
            EdgeOutcomes::OUTPUTS_MISSING
        }
        (Condition::Success, false) if skipped => EdgeOutcomes::SKIPPED,
        (Condition::Success, false) => EdgeOutcomes::SUCCEEDED,
        (Condition::Failure, true) => EdgeOutcomes::FAILURE_SEEN,
        (Condition::Failure, false) => EdgeOutcomes::NO_FAILURE,
    }
}
