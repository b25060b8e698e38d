//! The clauses of a schedule together: days, times or an interval, a window, exceptions.

use super::Unit;
use super::hints::Refusal;
use super::times::{self, Window};
use super::tokens::Tokens;
use crate::clock::civil::{ALL_60, ALL_HOURS, ALL_MONTHS, Days, Pattern, Times, Weekdays};
use crate::clock::error::{ScheduleError, quote};
use crate::clock::period::Period;
use crate::clock::rule::Rule;

const DAY_SECONDS: u32 = 86_400;
const HOUR_SECONDS: u32 = 3_600;

/// An interval between due times.
#[derive(Debug)]
pub(super) struct Interval {
    period: Period,
    /// Its round times, if it divides a minute, an hour or a day.
    aligned: Option<Times>,
    /// Whether it is due at round times. A duration such as `5m` is a fixed period if it stands alone.
    is_aligned: bool,
    /// Whether its minutes are named: `every hour at :15`.
    has_minutes: bool,
}

impl Interval {
    /// `every n units`, with its minutes if it has some.
    pub(super) fn new(tokens: &mut Tokens<'_>, n: u64, unit: Unit) -> Result<Self, ScheduleError> {
        let (length, whole) = match unit {
            Unit::Second => (1, 60),
            Unit::Minute => (60, 60),
            _ => (3_600, 24),
        };
        let period = Period::new(n.saturating_mul(length))?;
        let divides = n <= whole && whole % n == 0;
        let minutes = match unit {
            Unit::Hour if divides => times::minutes(tokens)?,
            _ => 1,
        };
        let aligned = divides
            .then(|| aligned(period.seconds(), minutes))
            .flatten();
        Ok(Self {
            period,
            is_aligned: aligned.is_some(),
            aligned,
            has_minutes: minutes != 1,
        })
    }

    /// `every 1h30m`.
    pub(super) fn of_duration(seconds: u64) -> Result<Self, ScheduleError> {
        Ok(Self {
            period: Period::new(seconds)?,
            aligned: aligned(seconds, 1),
            is_aligned: false,
            has_minutes: false,
        })
    }

    /// Its length, if it fits into a day.
    fn seconds_of_day(&self) -> Option<u32> {
        let seconds = u32::try_from(self.period.seconds()).ok()?;
        (seconds <= DAY_SECONDS).then_some(seconds)
    }
}

/// The round times of an interval that divides a minute, an hour or a day.
fn aligned(seconds: u64, minutes: u64) -> Option<Times> {
    let steps = |n: u64, whole: u64| {
        let is_step = |number: &u64| number.is_multiple_of(n);
        let bits = (0..whole)
            .filter(is_step)
            .fold(0_u64, |set, number| set | 1 << number);
        whole.is_multiple_of(n).then_some(bits)
    };
    let (hours, minutes, seconds) = match seconds {
        0..60 => (ALL_HOURS, ALL_60, steps(seconds, 60)?),
        60..3_600 if seconds.is_multiple_of(60) => (ALL_HOURS, steps(seconds / 60, 60)?, 1),
        _ if seconds.is_multiple_of(3_600) => (steps(seconds / 3_600, 24)? as u32, minutes, 1),
        _ => return None,
    };
    Some(Times::Fields {
        hours,
        minutes,
        seconds,
    })
}

/// What a schedule has said so far.
#[derive(Debug, Default)]
pub(super) struct Phrase {
    days: Option<Days>,
    months: Option<u16>,
    except_weekdays: u8,
    except_months: u16,
    times: Option<Times>,
    interval: Option<Interval>,
    window: Option<Window>,
    is_synchronized: bool,
}

impl Phrase {
    pub(super) fn is_empty(&self) -> bool {
        self.days.is_none()
            && self.times.is_none()
            && self.interval.is_none()
            && self.window.is_none()
    }

    pub(super) fn is_interval_only(&self) -> bool {
        self.interval.is_some()
            && self.days.is_none()
            && self.window.is_none()
            && !self.is_restricted()
    }

    pub(super) fn set_days(
        &mut self,
        tokens: &Tokens<'_>,
        days: Days,
    ) -> Result<(), ScheduleError> {
        set(&mut self.days, days, tokens, "days")
    }

    pub(super) fn set_months(
        &mut self,
        tokens: &Tokens<'_>,
        months: u16,
    ) -> Result<(), ScheduleError> {
        set(&mut self.months, months, tokens, "months")
    }

    pub(super) fn set_times(
        &mut self,
        tokens: &Tokens<'_>,
        times: Times,
    ) -> Result<(), ScheduleError> {
        set(&mut self.times, times, tokens, "times")
    }

    pub(super) fn set_interval(
        &mut self,
        tokens: &Tokens<'_>,
        interval: Interval,
    ) -> Result<(), ScheduleError> {
        set(&mut self.interval, interval, tokens, "an interval")
    }

    pub(super) fn set_window(
        &mut self,
        tokens: &Tokens<'_>,
        window: Window,
    ) -> Result<(), ScheduleError> {
        set(&mut self.window, window, tokens, "a window")
    }

    /// App Engine's word for intervals that start at midnight.
    pub(super) fn set_synchronized(&mut self, tokens: &Tokens<'_>) -> Result<(), ScheduleError> {
        let step = self.interval.as_ref().and_then(Interval::seconds_of_day);
        if step.is_none_or(|step| !DAY_SECONDS.is_multiple_of(step)) {
            return Err(ScheduleError::new(
                format!("{} does not divide a day", quote(&tokens.parsed())),
                "write an interval that does, such as 5 minutes or 2 hours",
            ));
        }
        self.is_synchronized = true;
        Ok(())
    }

    pub(super) fn except(&mut self, (weekdays, months): (u8, u16)) {
        self.except_weekdays |= weekdays;
        self.except_months |= months;
    }

    /// The interval, counted from an instant.
    pub(super) fn period_from(&self, anchor: u64) -> Result<Rule, ScheduleError> {
        let interval = self.interval.as_ref();
        let period = interval.map(|interval| interval.period.from(anchor));
        period.map(Rule::Period).ok_or_else(|| {
            ScheduleError::new("an instant needs an interval", "write an interval first")
        })
    }

    /// The rule that the clauses add up to.
    pub(super) fn rule(self, tokens: &Tokens<'_>) -> Result<Rule, Refusal> {
        let whole = tokens.whole();
        match (&self.interval, &self.times) {
            (Some(interval), Some(_)) => {
                let error = ScheduleError::new(
                    format!("{} has an interval and a time", quote(&whole)),
                    "write days with the time, or the interval with a window such as \
                     from 9:00 to 17:00",
                );
                let is_daily = interval.period.seconds() == u64::from(DAY_SECONDS);
                let daily = whole.replace("every 24 hours", "every day");
                Err(Refusal::suggesting(
                    error,
                    is_daily.then_some(daily).into_iter(),
                ))
            }
            (Some(_), None) => self.with_interval(&whole),
            (None, Some(_)) => self.with_times(&whole),
            (None, None) if self.window.is_some() => Err(ScheduleError::new(
                format!("{} does not say how often", quote(&whole)),
                "add an interval, such as every 30 minutes",
            )
            .into()),
            (None, None) => Err(Refusal::suggesting(
                ScheduleError::new(
                    format!("{} has no time of day", quote(&whole)),
                    "add one, such as at 9:00",
                ),
                [format!("{whole} at 9:00")].into_iter(),
            )),
        }
    }

    /// Days with times.
    fn with_times(mut self, whole: &str) -> Result<Rule, Refusal> {
        let is_named = matches!(whole, "noon" | "midnight" | "at noon" | "at midnight");
        if self.window.is_some() {
            return Err(ScheduleError::new(
                format!("{} has a time and a window", quote(whole)),
                "write an interval with the window, such as every 30 minutes",
            )
            .into());
        }
        if self.days.is_none() && !is_named {
            return Err(Refusal::suggesting(
                ScheduleError::new(
                    format!("{} has no days", quote(whole)),
                    "name the days, such as every day",
                ),
                [format!("every day {whole}")].into_iter(),
            ));
        }
        let Some(times) = self.times.take() else {
            return Err(ScheduleError::new("it has no time of day", "add one").into());
        };
        let days = self.days(whole)?;
        Ok(Rule::Pattern(Pattern::new(days, times, false)))
    }

    /// An interval, on some days and in some hours if it says so.
    fn with_interval(mut self, whole: &str) -> Result<Rule, Refusal> {
        let Some(interval) = self.interval.take() else {
            return Err(ScheduleError::new("it has no interval", "add one").into());
        };
        let is_everyday = !self.is_restricted();
        let days = self.days(whole)?;
        let repeats = interval.period.seconds() < u64::from(HOUR_SECONDS);
        let pattern = |times| Rule::Pattern(Pattern::new(days.clone(), times, repeats));
        let step = interval.seconds_of_day().ok_or_else(|| {
            ScheduleError::new(
                format!("{} has an interval of more than a day", quote(whole)),
                "write days with a time",
            )
        });
        if let Some(window) = self.window {
            if window.end < window.start && !is_everyday {
                return Err(ScheduleError::new(
                    format!("{} goes over midnight, into other days", quote(whole)),
                    "leave out the days, or end the window at 23:59",
                )
                .into());
            }
            let times = match interval.aligned.filter(|_| interval.has_minutes) {
                Some(times) => within(&times, window).ok_or_else(|| {
                    ScheduleError::new(
                        format!("{} never comes", quote(whole)),
                        "write a window that has one of its minutes",
                    )
                })?,
                None => Times::of_steps(window.start, window.end, step?),
            };
            return Ok(pattern(times));
        }
        if self.is_synchronized {
            return Ok(pattern(Times::of_steps(0, DAY_SECONDS - 1, step?)));
        }
        match interval.aligned {
            Some(times) if interval.is_aligned || !is_everyday => Ok(pattern(times)),
            _ if is_everyday => Ok(Rule::Period(interval.period)),
            _ => Err(Refusal::suggesting(
                ScheduleError::new(
                    format!("{} does not divide its days evenly", quote(whole)),
                    "add a window, in which it is counted from the start",
                ),
                [format!("{whole} from 0:00 to 23:59")].into_iter(),
            )),
        }
    }

    /// Whether it is not for all days.
    fn is_restricted(&self) -> bool {
        self.days.as_ref().is_some_and(|days| *days != Days::ALL)
            || self.months.is_some()
            || self.except_weekdays != 0
            || self.except_months != 0
    }

    /// Its days, within its months, without its exceptions.
    fn days(&self, whole: &str) -> Result<Days, ScheduleError> {
        let mut days = self.days.clone().unwrap_or(Days::ALL);
        if let Some(months) = self.months {
            if days.months != ALL_MONTHS {
                return Err(ScheduleError::new(
                    format!("{} names months twice", quote(whole)),
                    "name them once",
                ));
            }
            days.months = months;
        }
        days.months &= !self.except_months;
        if self.except_weekdays != 0 {
            let plain = match days.weekdays {
                None if days.numbers.is_none() => 0x7f,
                Some(Weekdays {
                    plain,
                    last: 0,
                    nth: [0, 0, 0, 0, 0],
                }) => plain,
                _ => {
                    return Err(ScheduleError::new(
                        format!("{} excepts days of the week", quote(whole)),
                        "except them from days of the week or from every day, not from days of \
                         the month",
                    ));
                }
            };
            days.weekdays = Some(Weekdays {
                plain: plain & !self.except_weekdays,
                ..Weekdays::default()
            });
        }
        if days.months == 0
            || days
                .weekdays
                .is_some_and(|weekdays| weekdays == Weekdays::default())
        {
            return Err(ScheduleError::new(
                format!("{} excepts all its days", quote(whole)),
                "leave some",
            ));
        }
        Ok(days)
    }
}

/// Sets a clause that may be there once.
fn set<T>(
    clause: &mut Option<T>,
    value: T,
    tokens: &Tokens<'_>,
    name: &str,
) -> Result<(), ScheduleError> {
    if clause.replace(value).is_some() {
        return Err(ScheduleError::new(
            format!("{} has {name} twice", quote(&tokens.parsed())),
            "join them with `and`, or write two schedules",
        ));
    }
    Ok(())
}

/// The times within a window, if there are any.
fn within(times: &Times, window: Window) -> Option<Times> {
    let mut list = Vec::new();
    let mut from = 0;
    while let Some(at) = times.at_or_after(from) {
        let is_inside = if window.start <= window.end {
            (window.start..=window.end).contains(&at)
        } else {
            at >= window.start || at <= window.end
        };
        if is_inside {
            list.push(at);
        }
        if at == DAY_SECONDS - 1 {
            break;
        }
        from = at + 1;
    }
    (!list.is_empty()).then(|| Times::of_list(list))
}
