//! Civil times (local times without a zone): a [`Pattern`] is a set of them, to the second.
//!
//! A pattern computes exactly and without iterating over times: the first time at or after another,
//! membership, and the number of times in a range. `search` maps civil times to instants.

use std::ops::RangeInclusive;

use jiff::Timestamp;
use jiff::civil::{Date, date};
use jiff::tz::Offset;

use super::limits::{CYCLE_YEARS, YEAR_MAX};

/// Seconds of a day without a change of offset.
pub(super) const DAY: i64 = 86_400;

/// The same for times of a day.
const DAY_SECONDS: u32 = 86_400;

/// A civil time, in seconds since the civil start of 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Civil(pub(super) i64);

impl Civil {
    pub(super) fn of_date(date: Date) -> Option<Self> {
        let at = Offset::UTC.to_timestamp(date.at(0, 0, 0, 0)).ok()?;
        Some(Self(at.as_second()))
    }

    /// The date, if the calendar covers it.
    pub(super) fn date(self) -> Option<Date> {
        let at = Timestamp::from_second(self.0).ok()?;
        Some(Offset::UTC.to_datetime(at).date())
    }

    /// Seconds since midnight.
    fn time(self) -> u32 {
        u32::try_from(self.0.rem_euclid(DAY)).expect("a remainder below a day's seconds")
    }

    /// Days since the first of 1970.
    const fn day(self) -> i64 {
        self.0.div_euclid(DAY)
    }
}

/// A set of days. Bit `n` of a set represents the number `n`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Days {
    /// 1 to 12.
    pub(super) months: u16,
    /// Days of the month, 1 to 31; `None` for any.
    pub(super) numbers: Option<Numbers>,
    /// Days of the week; `None` for any.
    pub(super) weekdays: Option<Weekdays>,
    /// Every n-th day, counted from 1970-01-01; 1 for all.
    pub(super) every: u32,
}

/// Days of the month.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Numbers {
    pub(super) plain: u32,
    /// The working day nearest to a day, within its month. Months without the day have none.
    pub(super) nearest: u32,
    /// Days before the end of the month; bit 0 is the last day.
    pub(super) before_end: u32,
    /// The working day nearest to one of these; bit 0 is the last working day.
    pub(super) nearest_before_end: u32,
}

/// Days of the week, Sunday as 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Weekdays {
    pub(super) plain: u8,
    /// The last one of the month.
    pub(super) last: u8,
    /// The first to fifth one of the month.
    pub(super) nth: [u8; 5],
}

pub(super) const ALL_MONTHS: u16 = 0b1_1111_1111_1110;
pub(super) const ALL_HOURS: u32 = (1 << 24) - 1;
pub(super) const ALL_60: u64 = (1 << 60) - 1;

impl Days {
    pub(super) const ALL: Self = Self {
        months: ALL_MONTHS,
        numbers: None,
        weekdays: None,
        every: 1,
    };

    /// The days of the month that begins with `first`, as bits 1 to 31.
    fn of_month(&self, first: Date) -> u32 {
        if self.months & 1 << first.month() == 0 {
            return 0;
        }
        let length = u32::from(first.days_in_month().unsigned_abs());
        let all = (u32::MAX >> (31 - length)) & !1;
        let mut days = match (&self.numbers, &self.weekdays) {
            (None, None) => all,
            (Some(numbers), None) => numbers.of_month(first, length) & all,
            (None, Some(weekdays)) => weekdays.of_month(first, length),
            // As in Vixie cron: either may match.
            (Some(numbers), Some(weekdays)) => {
                numbers.of_month(first, length) & all | weekdays.of_month(first, length)
            }
        };
        if self.every > 1 {
            let before = Civil::of_date(first).map_or(0, Civil::day) - 1;
            let due = |day: &u32| (before + i64::from(*day)) % i64::from(self.every) == 0;
            days &= bits((1..=length).filter(due));
        }
        days
    }
}

impl Numbers {
    fn of_month(&self, first: Date, length: u32) -> u32 {
        let has = |set: u32, number: u32| set & 1 << number != 0;
        let before_end = (1..=length).filter(|day| has(self.before_end, length - day));
        let nearest = (1..=length)
            .filter(|day| has(self.nearest, *day) || has(self.nearest_before_end, length - day))
            .map(|day| working(first, length, day));
        self.plain | bits(before_end) | bits(nearest)
    }
}

impl Weekdays {
    fn of_month(&self, first: Date, length: u32) -> u32 {
        let due = |day: &u32| {
            let bit = 1 << weekday(first, *day);
            let nth = self.nth[(*day as usize - 1) / 7];
            let last = if *day + 7 > length { self.last } else { 0 };
            (self.plain | nth | last) & bit != 0
        };
        bits((1..=length).filter(due))
    }
}

fn bits(numbers: impl Iterator<Item = u32>) -> u32 {
    numbers.fold(0, |set, number| set | 1 << number)
}

/// The day of the week of a day of the month, Sunday as 0.
fn weekday(first: Date, day: u32) -> u32 {
    let offset = u32::from(first.weekday().to_sunday_zero_offset().unsigned_abs());
    (offset + day - 1) % 7
}

/// The working day nearest to a day, without leaving the month.
fn working(first: Date, length: u32, day: u32) -> u32 {
    match weekday(first, day) {
        6 if day == 1 => 3,
        6 => day - 1,
        0 if day == length => day - 2,
        0 => day + 1,
        _ => day,
    }
}

/// Times of a day.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Times {
    /// The product of hours, minutes and seconds; none of the sets is empty.
    Fields {
        hours: u32,
        minutes: u64,
        seconds: u64,
    },
    /// Seconds since midnight, in order; for times that are not such a product.
    List(Box<[u32]>),
    /// A progression that is not such a product.
    Steps(Steps),
}

/// An interval within a day: `first`, `first + step`, … up to `last`, in seconds since midnight.
///
/// A `last` beyond the end of the day stands for times after midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Steps {
    first: u32,
    last: u32,
    step: u32,
}

impl Steps {
    /// From `first` to at most `end`, which is on the next day if it is less. `step` is at least 1.
    fn new(first: u32, end: u32, step: u32) -> Self {
        let end = if end < first { end + DAY_SECONDS } else { end };
        Self {
            first,
            last: end - (end - first) % step,
            step,
        }
    }

    pub(super) const fn first(&self) -> u32 {
        self.first
    }

    /// The last time, as seconds since midnight.
    pub(super) const fn last(&self) -> u32 {
        self.last % DAY_SECONDS
    }

    pub(super) const fn step(&self) -> u32 {
        self.step
    }

    /// The times of one day, in order: those after midnight, then those before it.
    fn parts(self) -> impl Iterator<Item = RangeInclusive<u32>> {
        let (end, step) = (DAY_SECONDS, self.step);
        let after = (self.last >= end).then(|| {
            let first = self.first + (end - self.first).div_ceil(step) * step;
            first - end..=self.last - end
        });
        let before = self.first..=self.last.min(end - 1);
        after.into_iter().chain([before])
    }

    fn all(self) -> impl Iterator<Item = u32> {
        let step = self.step as usize;
        self.parts().flat_map(move |part| part.step_by(step))
    }

    fn at_or_after(self, time: u32) -> Option<u32> {
        self.parts().find_map(|part| {
            let (first, last) = part.into_inner();
            let steps = time.saturating_sub(first).div_ceil(self.step);
            Some(first + steps * self.step).filter(|at| *at <= last)
        })
    }

    /// Number of times before `time`.
    fn before(self, time: u32) -> u64 {
        let in_part = |part: RangeInclusive<u32>| {
            let (first, last) = part.into_inner();
            let end = time.min(last + 1);
            u64::from(end.saturating_sub(first).div_ceil(self.step))
        };
        self.parts().map(in_part).sum()
    }
}

impl Times {
    /// From seconds since midnight, at least one.
    pub(super) fn of_list(mut list: Vec<u32>) -> Self {
        list.sort_unstable();
        list.dedup();
        product(list.iter().copied()).unwrap_or_else(|| Self::List(list.into()))
    }

    /// Every `step` seconds from one time of the day to another, inclusive; over midnight if the end
    /// is before the start.
    pub(super) fn of_steps(first: u32, end: u32, step: u32) -> Self {
        let steps = Steps::new(first, end, step);
        product(steps.all()).unwrap_or(Self::Steps(steps))
    }

    /// Whether every hour of the day has a time.
    pub(super) fn every_hour(&self) -> bool {
        matches!(self, Self::Fields { hours, .. } if *hours == ALL_HOURS)
    }

    pub(super) fn at_or_after(&self, time: u32) -> Option<u32> {
        let (hours, minutes, seconds) = match self {
            Self::Fields {
                hours,
                minutes,
                seconds,
            } => (u64::from(*hours), *minutes, *seconds),
            Self::List(list) => return list.get(list.partition_point(|&at| at < time)).copied(),
            Self::Steps(steps) => return steps.at_or_after(time),
        };
        let (hour, minute, second) = (time / 3_600, time / 60 % 60, time % 60);
        if hours & 1 << hour != 0 {
            if minutes & 1 << minute != 0
                && let Some(second) = next_bit(seconds, second)
            {
                return Some(hour * 3_600 + minute * 60 + second);
            }
            if let Some(minute) = next_bit(minutes, minute + 1) {
                return Some(hour * 3_600 + minute * 60 + seconds.trailing_zeros());
            }
        }
        let hour = next_bit(hours, hour + 1)?;
        Some(hour * 3_600 + minutes.trailing_zeros() * 60 + seconds.trailing_zeros())
    }

    /// Number of times before `time`, which may be the end of the day.
    fn before(&self, time: u32) -> u64 {
        let (hours, minutes, seconds) = match self {
            Self::Fields {
                hours,
                minutes,
                seconds,
            } => (u64::from(*hours), *minutes, *seconds),
            Self::List(list) => return list.partition_point(|&at| at < time) as u64,
            Self::Steps(steps) => return steps.before(time),
        };
        let below = |set: u64, n: u32| u64::from((set & !(u64::MAX << n)).count_ones());
        let has = |set: u64, n: u32| set >> n & 1;
        let (hour, minute, second) = (time / 3_600, time / 60 % 60, time % 60);
        let (per_hour, per_minute) = (below(minutes, 60) * below(seconds, 60), below(seconds, 60));
        let in_minute = has(minutes, minute) * below(seconds, second);
        let in_hour = has(hours, hour) * (below(minutes, minute) * per_minute + in_minute);
        below(hours, hour) * per_hour + in_hour
    }
}

/// The fields whose product a set of times is, if it is one: the canonical form, so that equal sets
/// compare equal.
fn product(times: impl Iterator<Item = u32>) -> Option<Times> {
    let (mut hours, mut minutes, mut seconds, mut count) = (0_u32, 0_u64, 0_u64, 0_u32);
    for time in times {
        hours |= 1 << (time / 3_600);
        minutes |= 1 << (time / 60 % 60);
        seconds |= 1 << (time % 60);
        count += 1;
    }
    let product = hours.count_ones() * minutes.count_ones() * seconds.count_ones();
    (product == count).then_some(Times::Fields {
        hours,
        minutes,
        seconds,
    })
}

/// The lowest member of a set that is at least `from`.
fn next_bit(set: u64, from: u32) -> Option<u32> {
    let left = set & u64::MAX.checked_shl(from)?;
    (left != 0).then(|| left.trailing_zeros())
}

/// A set of civil times: these times of these days.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Pattern {
    pub(super) days: Days,
    pub(super) times: Times,
    /// Whether it repeats within the hours that it names, as `*/10 1-3 * * *` does. Never set if
    /// these are all hours.
    pub(super) is_interval: bool,
}

impl Pattern {
    /// `repeats`: whether its minutes are an interval (`*` in cron).
    pub(super) fn new(days: Days, times: Times, repeats: bool) -> Self {
        let is_interval = repeats && !times.every_hour();
        Self {
            days,
            times,
            is_interval,
        }
    }

    /// The first time at or after one.
    pub(super) fn at_or_after(&self, from: Civil) -> Option<Civil> {
        let day = self.day_from(from.date()?)?;
        if day.0 <= from.0
            && let Some(time) = self.times.at_or_after(from.time())
        {
            return Some(Civil(day.0 + i64::from(time)));
        }
        let day = if day.0 <= from.0 {
            self.day_from(day.date()?.tomorrow().ok()?)?
        } else {
            day
        };
        Some(Civil(day.0 + i64::from(self.times.at_or_after(0)?)))
    }

    pub(super) fn contains(&self, at: Civil) -> bool {
        self.at_or_after(at) == Some(at)
    }

    /// Number of times in `from..to`.
    pub(super) fn count(&self, from: Civil, to: Civil) -> u64 {
        let (Some(first), Some(last)) = (from.date(), to.date()) else {
            return 0;
        };
        if from >= to {
            return 0;
        }
        let mut month = first.first_of_month();
        let mut days = 0;
        while month < last.first_of_month() {
            days += u64::from(self.days.of_month(month).count_ones());
            let Ok(next) = month.last_of_month().tomorrow() else {
                return 0;
            };
            month = next;
        }
        days += self.earlier(last);
        days -= self.earlier(first);
        let times = days * self.times.before(DAY_SECONDS) + self.on_the_day(last, to);
        times - self.on_the_day(first, from)
    }

    /// Whether it has any time at all.
    pub(super) fn happens(&self) -> bool {
        self.day_from(date(1970, 1, 1)).is_some()
    }

    /// The first day at or after one, at its midnight.
    fn day_from(&self, from: Date) -> Option<Civil> {
        let last_year = from.year().saturating_add(CYCLE_YEARS).min(YEAR_MAX);
        let mut first = from.first_of_month();
        let mut days = self.days.of_month(first) & u32::MAX.checked_shl(day_number(from))?;
        while days == 0 {
            first = first.last_of_month().tomorrow().ok()?;
            if first.year() > last_year {
                return None;
            }
            days = self.days.of_month(first);
        }
        let month = Civil::of_date(first)?;
        Some(Civil(month.0 + i64::from(days.trailing_zeros() - 1) * DAY))
    }

    /// Number of matching days in the month before a date.
    fn earlier(&self, date: Date) -> u64 {
        let month = self.days.of_month(date.first_of_month());
        u64::from((month & !(u32::MAX << day_number(date))).count_ones())
    }

    /// Number of matching times of the day before one.
    fn on_the_day(&self, date: Date, at: Civil) -> u64 {
        let month = self.days.of_month(date.first_of_month());
        u64::from(month >> day_number(date) & 1) * self.times.before(at.time())
    }
}

fn day_number(date: Date) -> u32 {
    u32::from(date.day().unsigned_abs())
}
