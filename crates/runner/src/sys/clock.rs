//! Both clocks, read together.

use std::time::{SystemTime, UNIX_EPOCH};

use baton_model::time::{Millis, Mono, Now, Wall};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// The current time. The monotonic clock is the same for all processes of a boot, so a runner and
/// its coordinator may compare readings.
#[must_use]
pub fn now() -> Now {
    Now {
        mono: Mono(millis(clock_gettime(ClockId::Monotonic))),
        wall: wall(SystemTime::now()),
    }
}

/// Read through the C library, so that tools that step a clock in tests can step this one. A clock
/// set before 1970 reads as 1970.
fn wall(time: SystemTime) -> Wall {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Wall(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Converts a span to a timeout for `poll`.
#[must_use]
pub fn timeout(span: Millis) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(span.0 / 1_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(span.0 % 1_000).unwrap_or(0) * 1_000_000,
    }
}

fn millis(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds
        .saturating_mul(1_000)
        .saturating_add(nanos / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_time_never_goes_back_and_wall_time_is_of_this_century() {
        let (first, second) = (now(), now());
        assert!(second.mono >= first.mono);
        assert!(first.wall > Wall(978_307_200_000));
    }

    #[test]
    fn a_time_before_the_epoch_is_the_epoch() {
        let second = std::time::Duration::from_secs(1);
        assert_eq!(wall(UNIX_EPOCH - second), Wall(0));
        assert_eq!(wall(UNIX_EPOCH + second), Wall(1_000));
    }
}
