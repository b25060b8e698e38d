//! Counts of verdicts: a check that never saw a skip proves nothing about skips.

use baton_model::schedule::{SkipReason, TickVerdict};

/// Counts of due times by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Launched on time.
    pub launched: u64,
    /// Launched late.
    pub late: u64,
    /// No leader checked the clock in time.
    pub missed: u64,
    /// Skipped by the catch-up policy.
    pub not_caught_up: u64,
    /// Skipped because `max_instances` was reached.
    pub max_instances_reached: u64,
    /// Skipped because too many waited for their turn.
    pub queue_full: u64,
    /// Skipped by the launch rate.
    pub launch_rate_exceeded: u64,
    /// Skipped because the schedule was replaced or removed.
    pub replaced: u64,
    /// Skipped because the entry was paused.
    pub paused: u64,
    /// Launched by backfills.
    pub backfilled: u64,
    /// Backfills that are DONE.
    pub backfills: u64,
    /// Followers of DONE instances and runs.
    pub followers: u64,
    /// Requests with an idempotency key.
    pub keyed: u64,
    /// Runs that schedules and upstream entries have launched.
    pub runs: u64,
    /// Instances and runs that started under `overlap: queue` or `replace`.
    pub turns: u64,
}

impl Tally {
    /// Adds the counts of another history.
    pub const fn add(&mut self, other: &Self) {
        self.launched += other.launched;
        self.late += other.late;
        self.missed += other.missed;
        self.not_caught_up += other.not_caught_up;
        self.max_instances_reached += other.max_instances_reached;
        self.queue_full += other.queue_full;
        self.launch_rate_exceeded += other.launch_rate_exceeded;
        self.replaced += other.replaced;
        self.paused += other.paused;
        self.backfilled += other.backfilled;
        self.backfills += other.backfills;
        self.followers += other.followers;
        self.keyed += other.keyed;
        self.runs += other.runs;
        self.turns += other.turns;
    }

    pub(super) const fn note(&mut self, verdict: TickVerdict, count: u64) {
        *match verdict {
            TickVerdict::Launch => &mut self.launched,
            TickVerdict::Late { .. } => &mut self.late,
            TickVerdict::Skip(SkipReason::Missed) => &mut self.missed,
            TickVerdict::Skip(SkipReason::CatchUp) => &mut self.not_caught_up,
            TickVerdict::Skip(SkipReason::MaxInstances { .. }) => &mut self.max_instances_reached,
            TickVerdict::Skip(SkipReason::QueueFull { .. }) => &mut self.queue_full,
            TickVerdict::Skip(SkipReason::LaunchRate) => &mut self.launch_rate_exceeded,
            TickVerdict::Skip(SkipReason::Replaced) => &mut self.replaced,
            TickVerdict::Skip(SkipReason::Paused) => &mut self.paused,
        } += count;
    }
}
