//! How far the exploration goes, and the time budget it goes by.

use baton_core::bugs::Bugs;
use baton_core::scheduler::{Config, StoreMode};
use baton_model::spec::Exclusive;
use baton_model::time::Millis;
use baton_model::timeouts::Timeouts;

/// Longer than any run of the model: what waits this long happens only when the
/// model says so.
const NEVER: Millis = Millis(1_000_000_000_000);

/// The bound of one exploration. Faults of a worker strike worker `a`: the two
/// differ in nothing but their names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    /// One per instance: how sure the scheduler must be.
    pub(crate) exclusive: &'static [Exclusive],
    /// How many attempts a worker can hold.
    pub(crate) slots: u32,
    /// Leaders, the first one included.
    pub(crate) leaders: u64,
    /// Whether a leader may be lost before its commits are durable. If not, every
    /// batch is durable at once.
    pub(crate) slow_store: bool,
    /// Connections that break, so that launches without a reply are doubted.
    pub(crate) breaks: u8,
    /// Agents that are killed and start again in the same life.
    pub(crate) agent_restarts: u8,
    /// Lives that end suddenly, with everything that ran.
    pub(crate) deaths: u8,
    /// Dead-man timers that fire.
    pub(crate) guard_firings: u8,
    /// Leases that run out in the scheduler's eyes.
    pub(crate) leases_out: u8,
    /// Whether a lease may run out for the scheduler although the dead-man timer on
    /// the host has not fired: its host is frozen, or its clock stands still.
    pub(crate) frozen_hosts: bool,
    /// Workers whose handshake with a leader is one step.
    pub(crate) atomic_handshake: [bool; 2],
    /// Mistakes to make on purpose.
    pub(crate) bugs: Bugs,
}

impl Bound {
    /// Nothing ever fails.
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

    /// How the schedulers are set up.
    pub(crate) fn config(&self) -> Config {
        Config {
            store: StoreMode::Durable,
            timeouts: timeouts(),
            allow_bump_unhealthy: false,
            bugs: self.bugs,
        }
    }
}

/// Heartbeats whenever the model wants one, leases far longer than anything the
/// model does to a clock in passing, and everything else only when it says so.
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
