//! Rates: a token bucket.
//!
//! Rates of cluster-wide limits and launch rates of library entries are both one. Time is monotonic time of
//! the leader, so a step of the wall clock changes nothing. In any interval no more is taken than the burst
//! and what the rate brings within it. That holds across leaders, too, if the next one begins with an empty
//! bucket ([`TokenBucket::empty`]): what was left of the last one is lost, and nothing else.

use baton_model::rate::Rate;
use baton_model::time::Mono;

/// A token bucket. Exact integer arithmetic: it never drifts, and a clock reading before the last one changes
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenBucket {
    rate: Rate,
    /// Tokens that it holds.
    burst: u64,
    /// When it is full again, in parts of a millisecond: `count` parts each. A token is `per` parts.
    full_at: u128,
}

impl TokenBucket {
    /// A full bucket of `burst` tokens. A count or a span of 0 counts as 1, since a rate of 0 would start
    /// nothing.
    #[must_use]
    pub fn new(rate: Rate, burst: u64) -> Self {
        let mut bucket = Self {
            rate,
            burst,
            full_at: 0,
        };
        bucket.rate.count = rate.count.max(1);
        bucket.rate.per.0 = rate.per.0.max(1);
        bucket
    }

    /// A full bucket for launches, which may all come at once.
    #[must_use]
    pub fn of_launches(rate: Rate) -> Self {
        Self::new(rate, u64::from(rate.count.max(1)))
    }

    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    #[must_use]
    pub const fn burst(&self) -> u64 {
        self.burst
    }

    /// Takes all tokens.
    pub fn empty(&mut self, now: Mono) {
        self.full_at = self.parts_at(now) + self.parts_of(self.burst);
    }

    /// Changes rate and burst. What is missing stays missing, as far as the new bucket holds it.
    pub fn change(&mut self, rate: Rate, burst: u64, now: Mono) {
        let missing = self.full_at.saturating_sub(self.parts_at(now));
        let before = self.rate;
        *self = Self::new(rate, burst);
        let missing = missing.saturating_mul(self.per()).div_ceil(per(before));
        self.full_at = self.parts_at(now) + missing.min(self.parts_of(burst));
    }

    /// Takes a token. False if there is none.
    pub fn take(&mut self, now: Mono) -> bool {
        let allowed = self.next(1, now).is_some_and(|at| at <= now);
        if allowed {
            self.charge(1, now);
            let missing = self.full_at - self.parts_at(now);
            let most = self.parts_of(self.burst);
            assert!(missing <= most, "more is taken than it holds: {self:?}");
        }
        allowed
    }

    /// Takes tokens, whether there are as many or not.
    pub fn charge(&mut self, amount: u64, now: Mono) {
        self.full_at = self.full_at.max(self.parts_at(now)) + self.parts_of(amount);
    }

    /// The tokens that are missing, begun ones included.
    #[must_use]
    pub fn used(&self, now: Mono) -> u128 {
        let missing = self.full_at.saturating_sub(self.parts_at(now));
        missing.div_ceil(self.per())
    }

    /// When there are so many tokens, if none is taken until then; never if it cannot hold them.
    #[must_use]
    pub fn next(&self, amount: u64, now: Mono) -> Option<Mono> {
        let spare = self.burst.checked_sub(amount)?;
        let ready = self.full_at.saturating_sub(self.parts_of(spare));
        let ready = ready.div_ceil(u128::from(self.rate.count));
        Some(now.max(Mono(u64::try_from(ready).unwrap_or(u64::MAX))))
    }

    const fn per(&self) -> u128 {
        per(self.rate)
    }

    const fn parts_of(&self, tokens: u64) -> u128 {
        (tokens as u128).saturating_mul(self.per())
    }

    const fn parts_at(&self, now: Mono) -> u128 {
        now.0 as u128 * self.rate.count as u128
    }
}

const fn per(rate: Rate) -> u128 {
    rate.per.0 as u128
}

#[cfg(test)]
mod tests {
    use baton_model::time::Millis;

    use super::*;

    fn bucket(count: u32, per: u64, burst: u64) -> TokenBucket {
        let per = Millis(per);
        TokenBucket::new(Rate { count, per }, burst)
    }

    fn taken(rate: &mut TokenBucket, at_ms: u64, tries: u32) -> u32 {
        (0..tries).map(|_| u32::from(rate.take(Mono(at_ms)))).sum()
    }

    #[test]
    fn a_burst_takes_what_there_is_and_time_gives_it_back_one_by_one() {
        let mut rate = bucket(5, 60_000, 5);
        assert_eq!(taken(&mut rate, 1_000, 10), 5);
        assert_eq!(taken(&mut rate, 12_999, 10), 0);
        assert_eq!(taken(&mut rate, 13_000, 10), 1);
        assert_eq!(taken(&mut rate, 1_000_000, 10), 5);
    }

    #[test]
    fn no_span_sees_more_than_the_burst_and_the_long_run_sees_the_rate() {
        // A third of a second is no whole number of milliseconds.
        let mut rate = bucket(3, 1_000, 2);
        let all: u32 = (0..100_000).map(|ms| taken(&mut rate, ms, 2)).sum();
        assert_eq!(all, 2 + 299);
    }

    #[test]
    fn a_reading_from_before_gives_nothing_back() {
        let mut rate = bucket(1, 1_000, 1);
        assert!(rate.take(Mono(5_000)));
        assert!(!rate.take(Mono(0)) && !rate.take(Mono(5_999)));
        assert!(rate.take(Mono(6_000)));
    }

    #[test]
    fn an_empty_bucket_has_its_first_token_after_one_interval() {
        let mut rate = bucket(2, 1_000, 3);
        rate.empty(Mono(10_000));
        assert_eq!(rate.used(Mono(10_000)), 3);
        assert_eq!(rate.next(1, Mono(10_000)), Some(Mono(10_500)));
        assert_eq!(rate.next(3, Mono(10_000)), Some(Mono(11_500)));
        assert_eq!(rate.next(4, Mono(10_000)), None, "it never holds as many");
        assert_eq!(taken(&mut rate, 10_499, 1), 0);
        assert_eq!(taken(&mut rate, 10_500, 2), 1);
    }

    #[test]
    fn a_change_gives_no_tokens() {
        let mut rate = bucket(1, 60_000, 4);
        assert_eq!(taken(&mut rate, 0, 9), 4);
        let faster = bucket(10, 1_000, 4).rate();
        rate.change(faster, 4, Mono(0));
        assert_eq!(taken(&mut rate, 0, 9), 0);
        assert_eq!(taken(&mut rate, 100, 9), 1);
        rate.change(faster, 1, Mono(10_000));
        assert_eq!(taken(&mut rate, 10_000, 9), 1, "no more than it holds");
    }
}
