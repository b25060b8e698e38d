//! Virtual time, and drifting host clocks.

use baton_model::time::{Mono, Now, Wall};

/// True time in microseconds since the start of a run. Only the simulator knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// A span of true time in microseconds.
pub type Micros = u64;

/// One second.
pub const SECOND: Micros = 1_000_000;
/// One millisecond.
pub const MILLI: Micros = 1_000;

impl Time {
    #[must_use]
    pub const fn after(self, span: Micros) -> Self {
        Self(self.0 + span)
    }

    /// Formats the time in seconds with milliseconds.
    #[must_use]
    pub fn display(self) -> String {
        format!("{}.{:03}s", self.0 / SECOND, self.0 % SECOND / MILLI)
    }
}

/// A host's clocks.
#[derive(Clone, Debug)]
pub struct Clock {
    /// Rate of the monotonic clock, in parts per million of true time.
    rate_ppm: u64,
    /// Its reading at true time zero, in milliseconds.
    origin_ms: i64,
    /// The wall clock at true time zero, in milliseconds.
    wall_ms: i64,
}

impl Clock {
    #[must_use]
    pub const fn new(rate_ppm: u64, origin_ms: u64) -> Self {
        Self {
            rate_ppm,
            origin_ms: origin_ms.cast_signed(),
            wall_ms: 1_800_000_000_000,
        }
    }

    /// Reads both clocks at a true time.
    #[must_use]
    pub fn read(&self, at: Time) -> Now {
        let elapsed = at.0 / MILLI;
        let wall = self.wall_ms.saturating_add_unsigned(elapsed);
        Now {
            mono: self.mono(at),
            wall: Wall(u64::try_from(wall).unwrap_or(0)),
        }
    }

    /// Reads the monotonic clock at a true time.
    #[must_use]
    pub const fn mono(&self, at: Time) -> Mono {
        Mono(self.ticks(at.0).saturating_add_signed(self.origin_ms))
    }

    /// Returns the first true time at which the monotonic clock shows at least `mono`.
    #[must_use]
    pub fn when(&self, mono: Mono) -> Time {
        let ticks = mono.0.saturating_sub_signed(self.origin_ms) as u128;
        let micros = (ticks * MILLI as u128 * 1_000_000).div_ceil(self.rate_ppm as u128);
        Time(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// Makes the monotonic clock lag by a span in which it stood still.
    pub const fn stand_still(&mut self, span: Micros) {
        self.origin_ms -= self.ticks(span).cast_signed();
    }

    /// Makes the monotonic clock start again: it counts the time since the boot.
    pub const fn reboot(&mut self, at: Time) {
        self.origin_ms = -self.ticks(at.0).cast_signed();
    }

    const fn ticks(&self, span: Micros) -> u64 {
        (span as u128 * self.rate_ppm as u128 / 1_000_000 / MILLI as u128) as u64
    }

    /// Steps the wall clock; the monotonic clock is unaffected.
    pub const fn step_wall(&mut self, by_ms: i64) {
        self.wall_ms = self.wall_ms.saturating_add(by_ms);
    }

    /// True if the rate is within the stated bound of 10 %.
    #[must_use]
    pub const fn in_bounds(&self) -> bool {
        self.rate_ppm >= 900_000 && self.rate_ppm <= 1_100_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_is_the_inverse_of_mono() {
        for rate in [900_000, 999_999, 1_000_000, 1_100_000] {
            let clock = Clock::new(rate, 12_345);
            for ms in [12_345, 12_346, 20_000, 3_600_000] {
                let at = clock.when(Mono(ms));
                assert!(clock.mono(at) >= Mono(ms), "rate {rate}, {ms} ms");
                if at.0 > 0 {
                    assert!(
                        clock.mono(Time(at.0 - 1)) < Mono(ms),
                        "rate {rate}, {ms} ms"
                    );
                }
            }
        }
    }

    #[test]
    fn a_wall_step_leaves_monotonic_time_alone() {
        let mut clock = Clock::new(1_000_000, 0);
        let before = clock.read(Time(5 * SECOND));
        clock.step_wall(-3_600_000);
        let after = clock.read(Time(5 * SECOND));
        assert_eq!(before.mono, after.mono);
        assert_eq!(before.wall.0 - after.wall.0, 3_600_000);
    }
}
