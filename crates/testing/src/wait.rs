//! Waiting for a condition. No test sleeps to synchronise.

use std::time::{Duration, Instant};

/// A timeout for slow and busy machines: it only ends a test that has failed.
pub const PATIENCE: Duration = Duration::from_secs(120);

const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Waits until a condition holds, and fails with its description.
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    until_some(what, || done().then_some(()));
}

/// Waits for a value, and fails with its description.
pub fn until_some<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(POLL_INTERVAL);
    }
}
