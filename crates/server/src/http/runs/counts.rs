//! The items of a run or of a task, by state.

use baton_core::workflow::{ItemState, Tally};
use baton_model::api::ItemCounts;

/// The counts of a tally; so many of the live items have a lease.
pub(super) fn counts(tally: &Tally, leased: u32) -> ItemCounts {
    let of = |state| u64::from(tally.of(state));
    let live = of(ItemState::Live);
    let running = u64::from(leased).min(live);
    ItemCounts {
        waiting: of(ItemState::Waiting),
        ready: of(ItemState::Ready),
        queued: live - running,
        running,
        done: of(ItemState::Done),
        failed: of(ItemState::Failed),
        halted: of(ItemState::Halted),
        skipped: of(ItemState::Skipped),
        blocked: of(ItemState::Blocked),
    }
}
