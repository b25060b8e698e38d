//! Every due time is accounted for: a library of random tasks under random leaders, whose
//! facts are judged afterwards by a checker that knows nothing of how they came about.
//!
//! | module | holds |
//! |---|---|
//! | [`account`] | one schedule: matches each of its due times with exactly one record |
//! | [`check`] | a whole library: accounts, instances, limits, chains and keys, from facts alone |
//! | `bucket`, [`tally`] | a launch rate as the checker keeps it; what was seen |
//! | [`oracle`] | due times found the slow way, by looking at the clock of a zone minute by minute |
//! | `draw` | what a seed draws: tasks, schedules, zones, policies |
//! | `world` | wall and monotonic time, a store, leaders that die and are overtaken |
//! | `commands` | what people want of a leader |
//! | `worker` | a worker that comes by and brings instances to their ends |
//!
//! What it proves, for the seeds that are run, whatever was durable of what a leader decided,
//! however long nobody led, and wherever the wall clock was set:
//!
//! * no due time is without a record once somebody has looked at the clock, and none has two;
//! * none is launched before its time, or after its slack; a record of many counts exactly;
//! * a launch has exactly one instance, in the same batch, with its nominal time;
//! * the reason of a skip is true: nobody looked in time, the policy says so, so many were on
//!   their way, the launch rate was used up, the schedule was replaced in the same batch;
//! * each DONE instance has each of its followers launched, or skipped with a true reason,
//!   once, in the same batch; and no idempotency key has two instances.
//!
//! The leader is `baton-core`'s own; everything around it is played. It knows no network and
//! no disk: [`crate::world`] has those, and the store's own tests.

pub mod account;
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

/// The mistakes that are found here, and not in a cluster.
pub const BUGS: &[Bug] = &[
    Bug::AccountedNotAdvanced,
    Bug::TickWithoutInstance,
    Bug::CatchUpRepeats,
    Bug::WallBackRepeats,
    Bug::TakeoverForgets,
    Bug::ReplacedForgotten,
];

/// Runs one seed, and says what became of how many due times. A panic of the core is a
/// violation like any other.
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

/// What happened in a seed, for whoever wants to try the checker itself.
#[must_use]
pub fn history(seed: u64) -> (Vec<Entry>, Vec<ClockCheck>) {
    let mut world = World::new(spread(seed), Bugs::NONE, Detail::Hash);
    world.run();
    let history = world.history();
    (history.entries.to_vec(), history.clock_checks.to_vec())
}
