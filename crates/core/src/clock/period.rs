//! Fixed periods between due times, counted from an anchor. They are elapsed time, so time zones and
//! daylight saving do not affect them.

use super::error::{ScheduleError, quote};
use super::limits::PERIOD_SECONDS_MAX;

/// A period in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Period {
    /// At least 1.
    every: u64,
    /// The first due time, in seconds since the epoch.
    anchor: u64,
}

impl Period {
    /// A period, counted from the Unix epoch.
    pub(super) fn new(seconds: u64) -> Result<Self, ScheduleError> {
        match seconds {
            0 => Err(ScheduleError::new(
                "a period of 0 is not possible",
                "write at least `every 1s`",
            )),
            1..=PERIOD_SECONDS_MAX => Ok(Self {
                every: seconds,
                anchor: 0,
            }),
            _ => Err(ScheduleError::new(
                "a period of more than ten years is too long",
                "write at most 3660d",
            )),
        }
    }

    /// The same period, counted from another instant; nothing is due before it.
    pub(super) const fn from(self, anchor: u64) -> Self {
        Self {
            every: self.every,
            anchor,
        }
    }

    pub(super) const fn seconds(&self) -> u64 {
        self.every
    }

    pub(super) const fn anchor(&self) -> u64 {
        self.anchor
    }

    /// The first due second after `after`.
    pub(super) fn next(&self, after: u64) -> Option<u64> {
        match after.checked_sub(self.anchor) {
            None => Some(self.anchor),
            Some(since) => self
                .anchor
                .checked_add((since / self.every + 1) * self.every),
        }
    }

    /// Number of due seconds in `from..to`.
    pub(super) fn count(&self, from: u64, to: u64) -> u64 {
        let before = |at: u64| at.saturating_sub(self.anchor).div_ceil(self.every);
        before(to).saturating_sub(before(from))
    }
}

const UNITS: &[(char, u64)] = &[('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

/// Parses a duration such as `90s`, `1h30m` or `2d` as seconds.
pub(super) fn duration(text: &str) -> Result<u64, ScheduleError> {
    let bad = |reason: &str| {
        ScheduleError::new(
            format!("{} {reason}", quote(text)),
            "write a duration such as 90s, 15m, 1h30m or 2d",
        )
    };
    let mut units = UNITS.iter();
    let (mut rest, mut seconds) = (text, 0_u64);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit());
        let digits = digits.ok_or_else(|| bad("has a number without a unit"))?;
        let number: u64 = rest[..digits]
            .parse()
            .map_err(|_| bad("is not a duration"))?;
        let unit = rest[digits..].chars().next().unwrap_or_default();
        let Some((_, length)) = units.find(|(name, _)| *name == unit) else {
            return Err(if UNITS.iter().any(|(name, _)| *name == unit) {
                bad("has its units out of order")
            } else {
                bad("is not a duration")
            });
        };
        seconds = seconds.saturating_add(number.saturating_mul(*length));
        rest = &rest[digits + unit.len_utf8()..];
    }
    Ok(seconds)
}
