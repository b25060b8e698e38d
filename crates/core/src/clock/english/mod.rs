//! Schedules in plain English, by a strict grammar: an unknown word is an error with a suggestion.
//! The text is in lower case.
//!
//! ```text
//! schedule = once | interval | days times | "noon" | "midnight" | "hourly" minutes
//! once     = ["once"] "at" INSTANT
//! interval = "every" [N] ("second" | "minute" | "hour" minutes | DURATION) ["from" INSTANT]
//! minutes  = ["at" ":MM" {and ":MM"}]
//! times    = "at" TIME {and TIME}
//! days     = "daily" | "every day" | "every" N "days" | weekdays
//!          | of-month "of" months | MONTH {and MONTH} [the] NUMBER {and NUMBER}
//!          | NUMBER MONTH | "every month on the" of-month | "every year on" days
//! of-month = ORDINAL {and ORDINAL} ["day" | "weekday" | WEEKDAY {and WEEKDAY}]
//! months   = ("the" | "every") "month" | MONTH {and MONTH}
//! weekdays = ["every" | "on"] (WEEKDAY ["to" WEEKDAY] | "weekdays" | "weekends") {and …}
//! and      = "," | "and" | ", and"
//! ```

mod days;
mod times;
pub(super) mod tokens;

use tokens::{MONTHS, Tokens, by_name};

use super::civil::{ALL_60, ALL_HOURS, Days, Pattern, Times};
use super::error::{ScheduleError, quote};
use super::limits::EVERY_DAYS_MAX;
use super::period::{Period, duration};
use super::rule::Rule;
use super::zone::Zone;
use super::{Dst, moment};

/// Context for parsing instants.
struct InstantContext<'a> {
    zone: &'a Zone,
    dst: Dst,
}

/// Parses a schedule.
pub(super) fn parse(text: &str, zone: &Zone, dst: Dst) -> Result<Rule, ScheduleError> {
    let mut tokens = Tokens::new(text);
    let rule = rule(&mut tokens, &InstantContext { zone, dst })?;
    tokens.expect_end()?;
    Ok(rule)
}

fn rule(tokens: &mut Tokens<'_>, context: &InstantContext<'_>) -> Result<Rule, ScheduleError> {
    match tokens.peek() {
        None => Err(ScheduleError::new(
            "the schedule is empty",
            "write one such as `every day at 9:00` or `0 9 * * *`",
        )),
        Some("once") => {
            tokens.take();
            if tokens.eat_any(&["at", "on"]) {
                once(tokens, context)
            } else {
                Err(tokens.unexpected("write `once at 2026-11-14 06:00`"))
            }
        }
        Some("at") if tokens.peek_second().is_some_and(|word| word.contains('-')) => {
            tokens.take();
            once(tokens, context)
        }
        Some("at") => Err(ScheduleError::new(
            format!("{} has no days", quote(&tokens.take_rest())),
            "write the days first: `every day at 9:00`",
        )),
        Some("noon" | "midnight") => {
            let noon = tokens.take() == Some("noon");
            let time = if noon { 12 * 3_600 } else { 0 };
            Ok(pattern(Days::ALL, Times::of_list(vec![time])))
        }
        Some("hourly") => {
            tokens.take();
            interval(tokens, context, 1, "hour")
        }
        Some(word @ ("weekly" | "monthly" | "yearly" | "annually")) => Err(ambiguous(word)),
        Some("every" | "each") => {
            tokens.take();
            every(tokens, context)
        }
        Some(_) => with_times(tokens, days::days),
    }
}

fn every(tokens: &mut Tokens<'_>, context: &InstantContext<'_>) -> Result<Rule, ScheduleError> {
    let Some(word) = tokens.peek() else {
        return Err(tokens.unexpected("write `every day at 9:00` or `every 5 minutes`"));
    };
    let next = tokens.peek_second();
    let is_date = next.is_some_and(|word| by_name(MONTHS, word).is_some());
    if word.bytes().all(|b| b.is_ascii_digit()) && !is_date {
        tokens.take();
        let number = word.parse().unwrap_or(u64::MAX);
        return every_n(tokens, context, number);
    }
    if word.starts_with(|c: char| c.is_ascii_digit()) && !is_date && days::ordinal(word).is_none() {
        tokens.take();
        let period = Period::new(duration(word)?)?;
        return with_anchor(tokens, context, period);
    }
    match word {
        // `every second monday of the month` counts Mondays.
        "second" if next.is_none_or(|next| next == "from") => {
            tokens.take();
            interval(tokens, context, 1, "second")
        }
        "minute" | "hour" => {
            tokens.take();
            interval(tokens, context, 1, word)
        }
        "day" => {
            tokens.take();
            with_times(tokens, |_| Ok(Days::ALL))
        }
        "month" => {
            tokens.take();
            with_times(tokens, days::monthly)
        }
        "year" => {
            tokens.take();
            with_times(tokens, days::yearly)
        }
        "week" => Err(ambiguous("every week")),
        "other" => Err(tokens.unexpected("write `every 2 days at 9:00`")),
        _ => with_times(tokens, days::days),
    }
}

/// `every 5 minutes`, after the number.
fn every_n(
    tokens: &mut Tokens<'_>,
    context: &InstantContext<'_>,
    n: u64,
) -> Result<Rule, ScheduleError> {
    let unit = tokens.read(|word| {
        let units = ["second", "minute", "hour", "day", "week", "month", "year"];
        let singular = word.strip_suffix('s').unwrap_or(word);
        units.into_iter().find(|unit| *unit == singular)
    });
    match unit {
        None => Err(tokens.unexpected("name the unit: `every 5 minutes`, `every 2 hours`")),
        Some(_) if n == 0 => Err(ScheduleError::new(
            format!("{} never comes", quote(&tokens.parsed())),
            "write at least 1",
        )),
        Some("day") => {
            let every = u32::try_from(n).ok().filter(|n| *n <= EVERY_DAYS_MAX);
            let every = every.ok_or_else(|| {
                ScheduleError::new(
                    format!("{n} days are more than a year"),
                    "write a date: `january 1st at 9:00`",
                )
            })?;
            with_times(tokens, |_| Ok(Days { every, ..Days::ALL }))
        }
        Some("week") => Err(ScheduleError::new(
            format!("{} does not name the day", quote(&tokens.parsed())),
            format!("write `every {} days at 9:00`", n.saturating_mul(7)),
        )),
        Some("month" | "year") => Err(ScheduleError::new(
            format!("{} does not name the day", quote(&tokens.parsed())),
            "write months: `on the 1st of january and july at 9:00`",
        )),
        Some(unit) => interval(tokens, context, n, unit),
    }
}

/// An interval of n seconds, minutes or hours: aligned to the clock if n divides the next unit, so
/// that due times are round, or else a fixed period.
fn interval(
    tokens: &mut Tokens<'_>,
    context: &InstantContext<'_>,
    n: u64,
    unit: &str,
) -> Result<Rule, ScheduleError> {
    let (length, whole) = match unit {
        "second" => (1, 60),
        "minute" => (60, 60),
        _ => (3_600, 24),
    };
    let period = || Period::new(n.saturating_mul(length));
    if tokens.peek() == Some("from") {
        return with_anchor(tokens, context, period()?);
    }
    let divides = n < whole && whole % n == 0;
    if !divides {
        return Ok(Rule::Period(period()?));
    }
    let steps = (0..whole).step_by(usize::try_from(n).unwrap_or(usize::MAX));
    let steps = steps.fold(0_u64, |set, number| set | 1 << number);
    let times = match unit {
        "second" => (ALL_HOURS, ALL_60, steps),
        "minute" => (ALL_HOURS, steps, 1),
        _ => (steps as u32, times::minutes(tokens)?, 1),
    };
    let (hours, minutes, seconds) = times;
    Ok(pattern(
        Days::ALL,
        Times::Fields {
            hours,
            minutes,
            seconds,
        },
    ))
}

/// A period with its optional anchor.
fn with_anchor(
    tokens: &mut Tokens<'_>,
    context: &InstantContext<'_>,
    period: Period,
) -> Result<Rule, ScheduleError> {
    if tokens.eat("from") {
        let anchor = moment::parse(&tokens.take_rest(), context.zone, context.dst)?;
        Ok(Rule::Period(period.from(anchor)))
    } else {
        Ok(Rule::Period(period))
    }
}

fn once(tokens: &mut Tokens<'_>, context: &InstantContext<'_>) -> Result<Rule, ScheduleError> {
    let at = moment::parse(&tokens.take_rest(), context.zone, context.dst)?;
    Ok(Rule::Once(at))
}

/// Days followed by times.
fn with_times<'a>(
    tokens: &mut Tokens<'a>,
    days: impl FnOnce(&mut Tokens<'a>) -> Result<Days, ScheduleError>,
) -> Result<Rule, ScheduleError> {
    let days = days(tokens)?;
    Ok(pattern(days, times::times(tokens)?))
}

const fn pattern(days: Days, times: Times) -> Rule {
    Rule::Pattern(Pattern { days, times })
}

/// The error for ambiguous words, with a hint.
fn ambiguous(word: &str) -> ScheduleError {
    let hint = match word {
        "weekly" | "every week" => "write `every monday at 9:00`",
        "monthly" => "write `on the 1st of every month at 9:00`",
        _ => "write `january 1st at 9:00`",
    };
    ScheduleError::new(format!("{} does not name the day", quote(word)), hint)
}
