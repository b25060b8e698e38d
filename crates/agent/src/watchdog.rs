//! Notifications to the service manager, as in `sd_notify(3)`: none without `NOTIFY_SOCKET`.
//!
//! The event loop pings in its own iterations, so a loop that hangs is noticed. The service manager
//! then restarts the agent; the coordinator keeps the attempts meanwhile.

use baton_model::time::{Millis, Mono};
use sd_notify::NotifyState;

/// Pings of the event loop, if the service manager wants them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watchdog {
    interval: Option<Millis>,
    due: Mono,
}

impl Watchdog {
    /// Tells the service manager that the agent is ready, and begins to ping it: twice in each
    /// timeout.
    pub(crate) fn start(now: Mono) -> Self {
        notify(NotifyState::Ready);
        let timeout = sd_notify::watchdog_enabled();
        let interval = timeout.and_then(|it| u64::try_from(it.as_millis() / 2).ok());
        Self {
            interval: interval.map(Millis),
            due: now,
        }
    }

    /// When [`Self::turn`] pings next; the loop must not sleep longer.
    pub(crate) fn next_due(&self) -> Option<Mono> {
        self.interval.map(|_| self.due)
    }

    /// Pings if it is time. Call it in each iteration, and only there.
    pub(crate) fn turn(&mut self, now: Mono) {
        if let Some(interval) = self.interval
            && now >= self.due
        {
            self.due = now + interval;
            notify(NotifyState::Watchdog);
        }
    }
}

/// Tells the service manager that the agent exits.
pub(crate) fn stopping() {
    notify(NotifyState::Stopping);
}

fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!("cannot notify the service manager: {error}");
    }
}
