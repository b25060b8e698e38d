//! Waiting for a condition. No test sleeps to synchronise.

use std::time::{Duration, Instant};

/// A timeout for slow and busy machines: it only ends a test that has failed.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The same for what takes a minute on an idle machine: intervals of a real system that cannot be shorter.
const LONG_PATIENCE: Duration = Duration::from_secs(600);

const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Waits until a condition holds, and fails with its description.
pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    until_some(what, || done().then_some(()));
}

/// Waits for a value, and fails with its description.
pub fn until_some<T>(what: &str, find: impl FnMut() -> Option<T>) -> T {
    wait(what, PATIENCE, POLL_INTERVAL, find)
}

/// Waits for a condition that may take minutes, or is costly to look at.
pub fn until_at_last(what: &str, mut done: impl FnMut() -> bool) {
    let pause = 20 * POLL_INTERVAL;
    wait(what, LONG_PATIENCE, pause, || done().then_some(()));
}

fn wait<T>(
    what: &str,
    patience: Duration,
    pause: Duration,
    mut find: impl FnMut() -> Option<T>,
) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(begun.elapsed() < patience, "waited in vain: {what}");
        std::thread::sleep(pause);
    }
}
