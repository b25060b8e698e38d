//! Schedule simulation: a library of random tasks and workflows under random leaders. Afterwards an
//! independent checker verifies from the facts alone that every due time is accounted for.
//!
//! | module | holds |
//! |---|---|
//! | [`account`] | matches each due time of one schedule with exactly one record |
//! | [`check`] | checks a whole library: accounts, instances, runs, limits, chains and keys, from facts alone |
//! | `backfill` | checks backfills, the same way |
//! | `bucket`, [`tally`] | the checker's own launch rate limiter; counts of verdicts |
//! | [`oracle`] | due times found the slow way, minute by minute on the local clock of a zone |
//! | `draw` | random tasks, workflows, schedules, zones, policies |
//! | `world` | wall and monotonic time, a store, leaders that crash and are deposed |
//! | `commands` | commands of clients |
//! | `worker` | a short-lived worker that ends instances |
//!
//! It checks, for any durable prefix of a leader's decisions, any time without a leader, and any
//! step of the wall clock:
//!
//! * every due time has exactly one record once a leader has checked the clock;
//! * none is launched before its time, or after its slack; a record of many counts exactly;
//! * a launch has exactly one instance or run, in the same batch, with its nominal time;
//! * the reason of a skip is true: no leader checked the clock in time, the catch-up policy
//!   skips it, `max_instances` was reached, the launch rate was used up, or the schedule was
//!   replaced in the same batch;
//! * while an entry is paused, and only then, what is due is skipped as paused, and nothing of it is
//!   launched when the pause ends;
//! * a backfill launches each due time of its interval that has no launch, once, in order, within its
//!   limits, paused or not; it is DONE when all have a launch, and does not stall before;
//! * with `overlap: queue` or `replace`, at most `max_instances` have started at once, and a run is
//!   replaced only by another launch;
//! * for each DONE instance and run each follower is launched, or skipped with a true reason, once,
//!   in the same batch; and no idempotency key has two instances or runs.
//!
//! The leader is that of `baton-core`; its environment is simulated. There is no network and no
//! disk: [`crate::world`] and the tests of the store cover those.

pub mod account;
mod backfill;
mod bucket;
pub mod check;
mod commands;
mod draw;
pub mod oracle;
pub mod tally;
#[cfg(test)]
mod tests;
mod worker;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use baton_core::bugs::{Bug, Bugs};

use crate::campaign::{Outcome, panic_text, spread};
use crate::checkers::Violation;
use crate::trace::Detail;
use check::{ClockCheck, Entry};
use tally::Tally;
use world::World;

/// The seeded bugs that only schedules detect.
pub const BUGS: &[Bug] = &[
    Bug::AccountedNotAdvanced,
    Bug::TickWithoutInstance,
    Bug::CatchUpRepeats,
    Bug::WallBackRepeats,
    Bug::TakeoverForgets,
    Bug::ReplacedForgotten,
    Bug::RunsUncounted,
    Bug::FailedRunFollowed,
    Bug::TurnIgnored,
    Bug::PauseForgotten,
    Bug::UnpauseCatchesUp,
    Bug::BackfillRecordLate,
    Bug::BackfillStartsAnew,
    Bug::BackfillRepeats,
];

/// Runs one seed, and counts the verdicts on due times. A panic of the core counts as a
/// violation.
#[must_use]
pub fn run_seed(seed: u64, bugs: Bugs, detail: Detail) -> (Outcome, Tally) {
    let mut world = World::new(spread(seed), bugs, detail);
    let result = catch_unwind(AssertUnwindSafe(|| world.run()));
    let panicked = result.err().map(|panic| Violation {
        checker: "panic",
        what: panic_text(panic.as_ref()),
    });
    let (tally, broken) = match check::check(&world.history()) {
        Ok(tally) => (tally, world.contradiction()),
        Err(violation) => (Tally::default(), Some(violation)),
    };
    let outcome = Outcome {
        violation: broken.or(panicked),
        events: world.trace.events(),
        elapsed: world.elapsed(),
        trace_hash: world.trace.hash(),
        tail: world.trace.into_tail(),
    };
    (outcome, tally)
}

/// Returns the history of a seed, for tests of the checker itself.
#[must_use]
pub fn history(seed: u64) -> (Vec<Entry>, Vec<ClockCheck>) {
    let mut world = World::new(spread(seed), Bugs::NONE, Detail::Hash);
    world.run();
    let history = world.history();
    (history.entries.to_vec(), history.clock_checks.to_vec())
}
