//! Random numbers from the kernel.

use std::hash::{BuildHasher, Hasher};

/// A random number, unique enough not to collide by accident. For marks, ids and jitter; not for
/// secrets.
#[must_use]
pub fn number() -> u64 {
    // Its keys come from the kernel, and differ with every call.
    std::hash::RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_are_different() {
        assert_ne!(number(), number());
    }
}
