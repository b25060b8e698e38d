//! Notifications to the service manager, as in `sd_notify(3)`: none without `NOTIFY_SOCKET`.
//!
//! The watchdog is the driver's: it pings in its own turns, so a driver that hangs or waits for a
//! lock is noticed. One whose store fails still turns, and retries.

use baton_model::time::{Millis, Mono};
use sd_notify::NotifyState;

/// Variables of the service manager. They are about one process: none that it starts may inherit
/// them.
pub const VARIABLES: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC"];

/// Tells the service manager that this server leads and listens.
pub(crate) fn ready() {
    notify(NotifyState::Ready);
}

/// Tells the service manager that this server shuts down.
pub fn stopping() {
    notify(NotifyState::Stopping);
}

/// Pings of one loop, if the service manager wants them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watchdog {
    interval: Option<Millis>,
    due: Mono,
}

impl Watchdog {
    /// The watchdog of this process' environment. It pings twice in each timeout.
    pub(crate) fn from_env() -> Self {
        let timeout = sd_notify::watchdog_enabled();
        let interval = timeout.and_then(|it| u64::try_from(it.as_millis() / 2).ok());
        Self {
            interval: interval.map(Millis),
            due: Mono(0),
        }
    }

    /// Pings if it is time. Call it in each turn, and only there.
    pub(crate) fn turn(&mut self, now: Mono) {
        if let Some(interval) = self.interval
            && now >= self.due
        {
            self.due = now + interval;
            notify(NotifyState::Watchdog);
        }
    }
}

fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!("cannot notify the service manager: {error}");
    }
}
