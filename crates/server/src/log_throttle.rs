//! Lets something be said at most once in a while.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Lets something be said at most once in a while.
#[derive(Debug)]
pub(crate) struct LogThrottle {
    every: Duration,
    last: Mutex<Option<Instant>>,
}

impl LogThrottle {
    pub(crate) const fn new(every: Duration) -> Self {
        Self {
            every,
            last: Mutex::new(None),
        }
    }

    /// True if it was not said for that long.
    pub(crate) fn allow(&self) -> bool {
        // Nothing under the lock can panic.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let due = last.is_none_or(|last| now.duration_since(last) >= self.every);
        if due {
            *last = Some(now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn something_is_said_at_most_once_in_a_while() {
        let log_throttle = LogThrottle::new(Duration::from_secs(60));
        assert!(log_throttle.allow());
        assert!(!log_throttle.allow());
        sleep(Duration::from_secs(60)).await;
        assert!(log_throttle.allow());
        assert!(!log_throttle.allow());
    }
}
