//! Launch rate limiting: a token bucket without a clock of its own.

use baton_model::time::{Millis, Mono};

/// A token bucket of `count` launches per span. Exact integer arithmetic: it never drifts, and a
/// clock reading before the last one changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchRate {
    count: u64,
    per: u64,
    /// When the bucket is full again, in parts of a millisecond: `count` parts each.
    full_at: u128,
}

impl LaunchRate {
    /// A full bucket of `count` launches that refills in `per`. A count or a span of 0 counts as 1,
    /// since a rate of 0 would launch nothing.
    #[must_use]
    pub fn new(count: u32, per: Millis) -> Self {
        Self {
            count: u64::from(count.max(1)),
            per: per.0.max(1),
            full_at: 0,
        }
    }

    /// Takes a token. False if there is none.
    pub fn take(&mut self, now: Mono) -> bool {
        let allowed = self.next(now) <= now;
        if allowed {
            let now = u128::from(now.0) * u128::from(self.count);
            // One launch empties the bucket by `per` parts; it holds `count` of them.
            self.full_at = self.full_at.max(now) + u128::from(self.per);
            let capacity = u128::from(self.per) * u128::from(self.count);
            assert!(
                self.full_at - now <= capacity + u128::from(self.count),
                "more launches than the bucket holds: {self:?}"
            );
        }
        allowed
    }

    /// When there is a token, if none is taken until then.
    #[must_use]
    pub fn next(&self, now: Mono) -> Mono {
        let (count, per) = (u128::from(self.count), u128::from(self.per));
        let capacity = per * count;
        // The bucket has room for one more launch when this much of it is empty, at most.
        let ready = (self.full_at + per)
            .saturating_sub(capacity)
            .div_ceil(count);
        now.max(Mono(u64::try_from(ready).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(rate: &mut LaunchRate, at_ms: u64, tries: u32) -> u32 {
        (0..tries).map(|_| u32::from(rate.take(Mono(at_ms)))).sum()
    }

    #[test]
    fn a_burst_takes_what_there_is_and_time_gives_it_back_one_by_one() {
        let mut rate = LaunchRate::new(5, Millis(60_000));
        assert_eq!(taken(&mut rate, 1_000, 10), 5);
        assert_eq!(taken(&mut rate, 12_999, 10), 0);
        assert_eq!(taken(&mut rate, 13_000, 10), 1);
        assert_eq!(taken(&mut rate, 1_000_000, 10), 5);
    }

    #[test]
    fn no_span_sees_more_than_twice_the_count_and_the_long_run_sees_the_rate() {
        // A third of a second is no whole number of milliseconds.
        let mut rate = LaunchRate::new(3, Millis(1_000));
        let all: u32 = (0..100_000).map(|ms| taken(&mut rate, ms, 2)).sum();
        assert_eq!(all, 3 + 299);
    }

    #[test]
    fn a_reading_from_before_gives_nothing_back() {
        let mut rate = LaunchRate::new(1, Millis(1_000));
        assert!(rate.take(Mono(5_000)));
        assert!(!rate.take(Mono(0)) && !rate.take(Mono(5_999)));
        assert!(rate.take(Mono(6_000)));
    }
}
