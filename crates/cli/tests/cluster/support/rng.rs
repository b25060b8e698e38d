//! SmallFilesystem numbers that are the same for the same seed.

/// A generator; its seed is what it holds.
#[derive(Debug)]
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    /// A number below this one.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    /// So many bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut byte = || u8::try_from(self.below(256)).expect("a byte");
        (0..count).map(|_| byte()).collect()
    }
}
