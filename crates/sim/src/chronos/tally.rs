//! What became of how many due times: a check that never saw a skip proves nothing about skips.

use baton_model::schedule::{SkipReason, TickVerdict};

/// What became of how many due times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Launched on time.
    pub launched: u64,
    /// Launched late.
    pub late: u64,
    /// Nobody had looked in time.
    pub missed: u64,
    /// The policy did not want them.
    pub not_caught_up: u64,
    /// Too many were on their way.
    pub max_instances_reached: u64,
    /// The launch rate was used up.
    pub launch_rate_exceeded: u64,
    /// Their schedule was replaced or removed.
    pub replaced: u64,
    /// Ends of instances that were followed.
    pub followers: u64,
    /// Requests with a key.
    pub keyed: u64,
}

impl Tally {
    /// Adds what another story came to.
    pub const fn add(&mut self, other: &Self) {
        self.launched += other.launched;
        self.late += other.late;
        self.missed += other.missed;
        self.not_caught_up += other.not_caught_up;
        self.max_instances_reached += other.max_instances_reached;
        self.launch_rate_exceeded += other.launch_rate_exceeded;
        self.replaced += other.replaced;
        self.followers += other.followers;
        self.keyed += other.keyed;
    }

    pub(super) const fn note(&mut self, verdict: TickVerdict, count: u64) {
        *match verdict {
            TickVerdict::Launch => &mut self.launched,
            TickVerdict::Late { .. } => &mut self.late,
            TickVerdict::Skip(SkipReason::Missed) => &mut self.missed,
            TickVerdict::Skip(SkipReason::CatchUp) => &mut self.not_caught_up,
            TickVerdict::Skip(SkipReason::MaxInstances { .. }) => &mut self.max_instances_reached,
            TickVerdict::Skip(SkipReason::LaunchRate) => &mut self.launch_rate_exceeded,
            TickVerdict::Skip(SkipReason::Replaced) => &mut self.replaced,
        } += count;
    }
}
