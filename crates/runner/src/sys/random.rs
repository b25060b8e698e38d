//! Random numbers from the kernel.

/// A random number: for marks, ids and jitter.
///
/// # Panics
/// If the kernel provides none, which Linux never does after its start.
#[must_use]
pub fn number() -> u64 {
    getrandom::u64().expect("the kernel provides random numbers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_are_different() {
        assert_ne!(number(), number());
    }
}
