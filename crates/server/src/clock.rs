//! Both clocks, read together.

use std::time::{Duration, SystemTime};

use baton_model::time::Now;
use rustix::time::{ClockId, clock_gettime};

/// The current time. The monotonic clock includes suspend time: workers on other machines do not
/// sleep with this one, and their leases run.
pub(crate) fn now() -> Now {
    let boot = Duration::try_from(clock_gettime(ClockId::Boottime));
    Now::from_clocks(boot.unwrap_or_default(), SystemTime::now())
}
