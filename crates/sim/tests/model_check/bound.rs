//! Bounds of an exploration, and its timeouts.

use baton_core::bugs::Bugs;
use baton_core::scheduler::{Config, StoreMode};
use baton_model::spec::Exclusive;
use baton_model::time::Millis;
use baton_model::timeouts::Timeouts;

/// Longer than any run of the model: a timer of this length fires only by an action.
const NEVER: Millis = Millis(1_000_000_000_000);

/// The bounds of one exploration. Faults of a worker hit worker `a`: the two are symmetric.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    /// One per instance.
    pub(crate) exclusive: &'static [Exclusive],
    /// Attempts that a worker can run at once.
    pub(crate) slots: u32,
    /// Leaders, the first one included.
    pub(crate) leaders: u64,
    /// Whether a leader may be lost before its commits are durable. If not, every
    /// batch is durable at once.
    pub(crate) slow_store: bool,
    /// Broken connections, which make launches without a reply uncertain.
    pub(crate) breaks: u8,
    /// Agents killed and restarted in the same incarnation.
    pub(crate) agent_restarts: u8,
    /// Incarnations that crash with all processes.
    pub(crate) deaths: u8,
    /// Dead-man timers that fire.
    pub(crate) guard_firings: u8,
    /// Leases that expire for the scheduler.
    pub(crate) leases_out: u8,
    /// Whether a lease may expire for the scheduler before the dead-man timer of the host fires:
    /// the host is frozen, or its clock stands still.
    pub(crate) frozen_hosts: bool,
    /// Workers with atomic handshakes.
    pub(crate) atomic_handshake: [bool; 2],
    /// Seeded bugs.
    pub(crate) bugs: Bugs,
}

impl Bound {
    /// No faults.
    pub(crate) const CALM: Self = Self {
        exclusive: &[Exclusive::Timed, Exclusive::Timed],
        // One each: the best fit for two would be the same worker.
        slots: 1,
        leaders: 1,
        slow_store: false,
        breaks: 0,
        agent_restarts: 0,
        deaths: 0,
        guard_firings: 0,
        leases_out: 0,
        frozen_hosts: false,
        atomic_handshake: [false, false],
        bugs: Bugs::NONE,
    };

    /// The configuration of the schedulers.
    pub(crate) fn config(&self) -> Config {
        Config {
            store: StoreMode::Durable,
            timeouts: timeouts(),
            allow_bump_unhealthy: false,
            // Alarms report only: nothing depends on them.
            stuck_after: Millis(0),
            predecessor_grace: Millis(0),
            tracing: None,
            bugs: self.bugs,
        }
    }
}

/// Heartbeats on demand, leases far longer than any incidental clock advance, and all other
/// timers only by an action.
pub(crate) fn timeouts() -> Timeouts {
    Timeouts {
        heartbeat_period: Millis(1),
        heartbeat_gap: Millis(1_000_000),
        check_period: NEVER,
        check_gap: NEVER,
        lose_after: Millis(1_000_000),
        kill_grace: Millis(10),
        kill_slack: Millis(10),
        reply_wait: NEVER,
        unsure_poll_min: NEVER,
        unsure_poll_max: NEVER,
        status_retry: NEVER,
    }
}
