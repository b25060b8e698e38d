//! Rate limiting of repeated log messages.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Allows one log message per interval.
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

    /// True if the interval since the last allowed message has passed.
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
    async fn one_message_is_allowed_per_interval() {
        let throttle = LogThrottle::new(Duration::from_secs(60));
        assert!(throttle.allow());
        assert!(!throttle.allow());
        sleep(Duration::from_secs(60)).await;
        assert!(throttle.allow());
        assert!(!throttle.allow());
    }
}
