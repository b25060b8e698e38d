//! The one source of chance.
//!
//! Written out instead of taken from a library, because a seed in a bug report
//! must give the same run for ever: no upgrade of a dependency may change what a
//! seed means. The generator is splitmix64.

/// A seeded stream of numbers.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The stream of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..n`; 0 if `n` is 0.
    pub const fn below(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { self.next() % n }
    }

    /// A number in `from..=to`.
    pub const fn within(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    /// True once in a while: `per_mille` times in a thousand.
    pub const fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }

    /// One of a list that is not empty.
    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }

    /// A stream of its own, so that drawing more here does not shift draws there.
    #[must_use]
    pub const fn fork(&mut self) -> Self {
        Self(self.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_the_same_for_ever() {
        let mut rng = Rng::new(42);
        assert_eq!(
            [rng.next(), rng.next(), rng.next()],
            [
                13_679_457_532_755_275_413,
                2_949_826_092_126_892_291,
                5_139_283_748_462_763_858
            ]
        );
    }

    #[test]
    fn bounds_hold() {
        let mut rng = Rng::new(1);
        assert!((0..1_000).all(|_| (3..=7).contains(&rng.within(3, 7))));
        assert_eq!(rng.below(0), 0);
        assert!(!rng.chance(0) && rng.chance(1_000));
    }
}
