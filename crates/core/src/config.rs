//! The configuration of a scheduler.

use baton_model::time::Millis;
use baton_model::timeouts::Timeouts;

use crate::bugs::Bugs;
use crate::trace::Sampling;

/// Durability of the facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreMode {
    /// Facts survive a restart: after it only open leases are waited for.
    Durable,
    /// Facts are lost in a restart: after it only the workers know what runs, and nothing
    /// starts before all of them have connected or must be dead.
    Memory,
}

/// The configuration of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    pub store: StoreMode,
    pub timeouts: Timeouts,
    /// Whether a worker on another machine may take the seat of one that is
    /// UNHEALTHY or NEW, instead of only that of one that MUST_DIE.
    pub allow_bump_unhealthy: bool,
    /// How long the leader before may have gone on extending leases after this term began: the
    /// lease of the leader with a shared store, zero where a lock excludes it.
    pub predecessor_grace: Millis,
    /// How long the first in line may wait for a worker before that is an alarm; zero for ever.
    pub stuck_after: Millis,
    /// The traces that are recorded; none without a receiver of traces.
    pub tracing: Option<Sampling>,
    /// Seeded bugs.
    pub bugs: Bugs,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            store: StoreMode::Durable,
            timeouts: Timeouts::default(),
            allow_bump_unhealthy: false,
            predecessor_grace: Millis(0),
            stuck_after: Millis::from_secs(30 * 60),
            tracing: None,
            bugs: Bugs::NONE,
        }
    }
}
