//! Both clocks, read together.

use std::time::{SystemTime, UNIX_EPOCH};

use baton_model::time::{Mono, Now, Wall};
use rustix::time::{ClockId, clock_gettime};

/// The current time. The monotonic clock includes suspend time: workers on other machines do not
/// sleep with this one, and their leases run.
pub(crate) fn now() -> Now {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let millis = u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000_000;
    // A clock set before 1970 reads as 1970.
    let wall = SystemTime::now().duration_since(UNIX_EPOCH);
    let wall = wall.unwrap_or_default().as_millis();
    Now {
        mono: Mono(seconds.saturating_mul(1_000).saturating_add(millis)),
        wall: Wall(u64::try_from(wall).unwrap_or(u64::MAX)),
    }
}
