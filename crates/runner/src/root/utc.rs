//! Dates in UTC, for ids and for people.

use std::fmt;

use baton_model::time::Wall;

/// A reading of the wall clock as a date and a time in UTC. Printed, it is
/// `2026-11-15 12:30:00`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Utc {
    pub year: u64,
    /// From 1.
    pub month: u8,
    /// From 1.
    pub day: u8,
    /// From 0.
    pub hour: u8,
    /// From 0.
    pub minute: u8,
    /// From 0.
    pub second: u8,
    /// From 0.
    pub milli: u16,
}

/// The calendar repeats after 400 years.
const CYCLE_YEARS: u64 = 400;
const CYCLE_DAYS: u64 = 146_097;
const DAY_MS: u64 = 86_400_000;

impl From<Wall> for Utc {
    fn from(wall: Wall) -> Self {
        let (mut days, of_day) = (wall.0 / DAY_MS, wall.0 % DAY_MS);
        let mut year = 1970 + days / CYCLE_DAYS * CYCLE_YEARS;
        days %= CYCLE_DAYS;
        while days >= year_days(year) {
            days -= year_days(year);
            year += 1;
        }
        let mut month = 1;
        while days >= month_days(year, month) {
            days -= month_days(year, month);
            month += 1;
        }
        Self {
            year,
            month,
            day: small(days + 1),
            hour: small(of_day / 3_600_000),
            minute: small(of_day / 60_000 % 60),
            second: small(of_day / 1_000 % 60),
            milli: u16::try_from(of_day % 1_000).unwrap_or(999),
        }
    }
}

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:04}-{:02}-{:02} {:02}:{:02}:{:02}",
            self.year, self.month, self.day, self.hour, self.minute, self.second
        )
    }
}

const fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

const fn year_days(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

const fn month_days(year: u64, month: u8) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Every part of a time fits.
fn small(part: u64) -> u8 {
    u8::try_from(part).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_instants_have_their_dates() {
        for (ms, text) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_399_999, "2000-02-28 23:59:59"),
            (951_782_400_000, "2000-02-29 00:00:00"),
            (951_868_800_000, "2000-03-01 00:00:00"),
            (1_735_689_599_000, "2024-12-31 23:59:59"),
            (4_107_542_400_000, "2100-03-01 00:00:00"),
        ] {
            assert_eq!(Utc::from(Wall(ms)).to_string(), text);
        }
        assert_eq!(Utc::from(Wall(1_007)).milli, 7);
    }

    #[test]
    fn the_last_instant_of_the_clock_is_a_date_too() {
        assert!(Utc::from(Wall(u64::MAX)).year > 584_000_000);
    }
}
