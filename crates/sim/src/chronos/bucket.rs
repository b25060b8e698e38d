//! Token bucket of a launch rate, implemented independently for the checker.

use baton_model::ids::Epoch;
use baton_model::library::Rate;
use baton_model::time::Mono;

/// The remaining tokens, in parts: one launch costs `per` parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    rate: Rate,
    parts: u128,
    at: Mono,
    epoch: Epoch,
}

impl Bucket {
    pub(super) fn full(rate: Rate, at: Mono, epoch: Epoch) -> Self {
        Self {
            rate,
            parts: u128::from(rate.count) * u128::from(rate.per.0),
            at,
            epoch,
        }
    }

    /// Whether a launch is allowed. Each leader begins with a full bucket.
    pub(super) fn has_room(&mut self, now: Mono, epoch: Epoch) -> bool {
        let full = Self::full(self.rate, now, epoch);
        if epoch != self.epoch {
            *self = full;
        }
        let gained = u128::from(now.since(self.at).0) * u128::from(self.rate.count);
        self.parts = full.parts.min(self.parts + gained);
        self.at = now;
        self.parts >= u128::from(self.rate.per.0)
    }
    /// Consumes one launch; false if none is allowed.
    pub(super) fn take(&mut self, now: Mono, epoch: Epoch) -> bool {
        let room = self.has_room(now, epoch);
        if room {
            self.parts -= u128::from(self.rate.per.0);
        }
        room
    }
}
