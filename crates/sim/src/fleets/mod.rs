//! Fleet simulation: the real leader requests workers of a cluster manager that loses answers, doubles jobs, forgets
//! them, and runs them on bad nodes; leaders change in between.
//!
//! | module | holds |
//! |---|---|
//! | `draw` | random fleets, faults and work |
//! | `manager` | the cluster manager: its queue, its nodes, and what it answers |
//! | `pilot` | a simple worker that runs, reports, and ends when it is idle |
//! | `world` | leaders, a store, time, and the course of a run |
//! | `check` | guarantees, checked against what the manager really runs |
//!
//! It checks, under any of these faults:
//!
//! * no job is submitted whose intent is not durable, and none twice;
//! * a fleet never has more workers than `max`, counting what the manager really has;
//! * a job whose end is recorded does not exist;
//! * no worker is requested for work that the workers on their way will do, and starts in an hour are bounded;
//! * no instance runs twice at once, also if the word of the manager ends its lease;
//! * when faults end, all work that a fleet can run is done; after the removal of a fleet nothing of it is left.

mod check;
mod draw;
mod manager;
mod pilot;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use baton_core::bugs::{Bug, Bugs};

use crate::campaign::{Outcome, panic_text, spread};
use crate::checkers::Violation;
use crate::trace::Detail;
use world::World;

/// The seeded bugs that only fleets detect.
pub const BUGS: &[Bug] = &[
    Bug::SubmittedAgain,
    Bug::DemandCountedTwice,
    Bug::AbsenceIsEnd,
    Bug::CancelForgotten,
    Bug::UncontainedTrusted,
    Bug::TokenPresumed,
];

/// Runs one seed. A panic of the core counts as a violation.
#[must_use]
pub fn run_seed(seed: u64, bugs: Bugs, detail: Detail) -> Outcome {
    let mut world = World::new(spread(seed), bugs, detail);
    let result = catch_unwind(AssertUnwindSafe(|| world.run()));
    let panicked = result.err().map(|panic| Violation {
        checker: "panic",
        what: panic_text(panic.as_ref()),
    });
    Outcome {
        violation: world.violation.take().or(panicked),
        events: world.trace.events(),
        elapsed: world.elapsed(),
        trace_hash: world.trace.hash(),
        tail: world.trace.into_tail(),
    }
}
