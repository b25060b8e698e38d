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
    pub left_behind: u64,
    /// Too many were on their way.
    pub full: u64,
    /// The launch rate was used up.
    pub rated: u64,
    /// Their schedule was replaced or removed.
    pub replaced: u64,
    /// Ends of instances that were followed.
    pub followed: u64,
    /// Requests with a key.
    pub keyed: u64,
}

impl Tally {
    /// Adds what another story came to.
    pub const fn add(&mut self, other: &Self) {
        self.launched += other.launched;
        self.late += other.late;
        self.missed += other.missed;
        self.left_behind += other.left_behind;
        self.full += other.full;
        self.rated += other.rated;
        self.replaced += other.replaced;
        self.followed += other.followed;
        self.keyed += other.keyed;
    }

    pub(super) const fn note(&mut self, verdict: TickVerdict, count: u64) {
        *match verdict {
            TickVerdict::Launch => &mut self.launched,
            TickVerdict::Late { .. } => &mut self.late,
            TickVerdict::Skip(SkipReason::Missed) => &mut self.missed,
            TickVerdict::Skip(SkipReason::CatchUp) => &mut self.left_behind,
            TickVerdict::Skip(SkipReason::MaxInstances { .. }) => &mut self.full,
            TickVerdict::Skip(SkipReason::LaunchRate) => &mut self.rated,
            TickVerdict::Skip(SkipReason::Replaced) => &mut self.replaced,
        } += count;
    }
}
