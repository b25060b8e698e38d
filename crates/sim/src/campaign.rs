//! Runs of many seeds.

use std::panic::{AssertUnwindSafe, catch_unwind};

use baton_core::bugs::Bugs;

use crate::checkers::Violation;
use crate::rng::Rng;
use crate::swarm::Shape;
use crate::time::{SECOND, Time};
use crate::trace::{Detail, Fnv};
use crate::world::World;
use std::hash::Hasher;

/// The outcome of one seed.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The first violation.
    pub violation: Option<Violation>,
    pub events: u64,
    /// Virtual time.
    pub elapsed: Time,
    /// Equal for every run of the same seed.
    pub trace_hash: u64,
    /// The last events, if recorded.
    pub tail: Vec<String>,
}

/// Totals of many seeds.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    pub seeds: u64,
    /// Seeds with a violation.
    pub violations: Vec<(u64, Violation)>,
    /// Events of all seeds.
    pub events: u64,
    /// Virtual time of all seeds, in seconds.
    pub virtual_seconds: u64,
    /// Of all seeds, in order.
    pub trace_hash: u64,
}

impl Totals {
    /// Adds the outcome of one seed.
    pub fn add(&mut self, seed: u64, outcome: &Outcome) {
        self.seeds += 1;
        self.events += outcome.events;
        self.virtual_seconds += outcome.elapsed.0 / SECOND;
        let mut hash = Fnv::default();
        hash.write_u64(self.trace_hash);
        hash.write_u64(outcome.trace_hash);
        self.trace_hash = hash.finish();
        if let Some(violation) = &outcome.violation {
            self.violations.push((seed, violation.clone()));
        }
    }
}

/// Runs one seed. A panic of the core counts as a violation.
#[must_use]
pub fn run_seed(seed: u64, shape: Shape, bugs: Bugs, detail: Detail) -> Outcome {
    let mut world = World::new(spread(seed), shape, bugs, detail);
    let result = catch_unwind(AssertUnwindSafe(|| world.run()));
    if let Err(panic) = result {
        world.checkers.violate("panic", panic_text(panic.as_ref()));
    }
    Outcome {
        violation: world.checkers.violation.take(),
        events: world.trace.events(),
        elapsed: world.elapsed(),
        trace_hash: world.trace.hash(),
        tail: world.trace.into_tail(),
    }
}

/// Spreads seeds, which are small and consecutive, over the generator's state space.
pub(crate) const fn spread(seed: u64) -> u64 {
    Rng::new(seed).next()
}

pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "a panic without a message".to_owned())
}
