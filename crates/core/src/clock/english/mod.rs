//! Schedules in plain English, by a strict grammar: every word is understood, or the
//! whole is refused with a suggestion. The text comes in lower case.
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
pub(super) mod words;

use words::{MONTHS, Words, by_name};

use super::civil::{ALL_60, ALL_HOURS, Days, Pattern, Times};
use super::error::{ScheduleError, quote};
use super::limits::EVERY_DAYS_MAX;
use super::period::{Period, duration};
use super::zone::Zone;
use super::{Dst, Rule, moment};

/// What instants need: the zone that they are read in.
struct Place<'a> {
    zone: &'a Zone,
    dst: Dst,
}

/// Reads a whole schedule.
pub(super) fn parse(text: &str, zone: &Zone, dst: Dst) -> Result<Rule, ScheduleError> {
    let mut words = Words::new(text);
    let rule = rule(&mut words, &Place { zone, dst })?;
    words.end()?;
    Ok(rule)
}

fn rule(words: &mut Words<'_>, place: &Place<'_>) -> Result<Rule, ScheduleError> {
    match words.peek() {
        None => Err(ScheduleError::new(
            "the schedule is empty",
            "write one such as `every day at 9:00` or `0 9 * * *`",
        )),
        Some("once") => {
            words.take();
            match words.eat_any(&["at", "on"]) {
                true => once(words, place),
                false => Err(words.lost("write `once at 2026-11-14 06:00`")),
            }
        }
        Some("at") if words.peek_second().is_some_and(|word| word.contains('-')) => {
            words.take();
            once(words, place)
        }
        Some("at") => Err(ScheduleError::new(
            format!("{} does not say on which days", quote(&words.rest())),
            "write the days first: `every day at 9:00`",
        )),
        Some("noon" | "midnight") => {
            let noon = words.take() == Some("noon");
            let time = if noon { 12 * 3_600 } else { 0 };
            Ok(pattern(Days::ALL, Times::of_list(vec![time])))
        }
        Some("hourly") => {
            words.take();
            interval(words, place, 1, "hour")
        }
        Some(word @ ("weekly" | "monthly" | "yearly" | "annually")) => Err(doubtful(word)),
        Some("every" | "each") => {
            words.take();
            every(words, place)
        }
        Some(_) => dated(words, days::days),
    }
}

fn every(words: &mut Words<'_>, place: &Place<'_>) -> Result<Rule, ScheduleError> {
    let Some(word) = words.peek() else {
        return Err(words.lost("write `every day at 9:00` or `every 5 minutes`"));
    };
    let next = words.peek_second();
    let is_date = next.is_some_and(|word| by_name(MONTHS, word).is_some());
    if word.bytes().all(|b| b.is_ascii_digit()) && !is_date {
        words.take();
        let number = word.parse().unwrap_or(u64::MAX);
        return counted(words, place, number);
    }
    if word.starts_with(|c: char| c.is_ascii_digit()) && !is_date && days::ordinal(word).is_none() {
        words.take();
        let period = Period::new(duration(word)?)?;
        return anchored(words, place, period);
    }
    match word {
        // `every second monday of the month` counts Mondays.
        "second" if next.is_none_or(|next| next == "from") => {
            words.take();
            interval(words, place, 1, "second")
        }
        "minute" | "hour" => {
            words.take();
            interval(words, place, 1, word)
        }
        "day" => {
            words.take();
            dated(words, |_| Ok(Days::ALL))
        }
        "month" => {
            words.take();
            dated(words, days::monthly)
        }
        "year" => {
            words.take();
            dated(words, days::yearly)
        }
        "week" => Err(doubtful("every week")),
        "other" => Err(words.lost("write `every 2 days at 9:00`")),
        _ => dated(words, days::days),
    }
}

/// `every 5 minutes`, with the number taken.
fn counted(words: &mut Words<'_>, place: &Place<'_>, n: u64) -> Result<Rule, ScheduleError> {
    let unit = words.read(|word| {
        let units = ["second", "minute", "hour", "day", "week", "month", "year"];
        let singular = word.strip_suffix('s').unwrap_or(word);
        units.into_iter().find(|unit| *unit == singular)
    });
    match unit {
        None => Err(words.lost("say of what: `every 5 minutes`, `every 2 hours`")),
        Some(_) if n == 0 => Err(ScheduleError::new(
            format!("{} never comes", quote(&words.understood())),
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
            dated(words, |_| Ok(Days { every, ..Days::ALL }))
        }
        Some("week") => Err(ScheduleError::new(
            format!("{} does not say on which day", quote(&words.understood())),
            format!("write `every {} days at 9:00`", n.saturating_mul(7)),
        )),
        Some("month" | "year") => Err(ScheduleError::new(
            format!("{} does not say on which day", quote(&words.understood())),
            "write months: `on the 1st of january and july at 9:00`",
        )),
        Some(unit) => interval(words, place, n, unit),
    }
}

/// So many seconds, minutes or hours: steps of the clock where they divide the next
/// unit, so that they fall on round times, and a fixed period where they do not.
fn interval(
    words: &mut Words<'_>,
    place: &Place<'_>,
    n: u64,
    unit: &str,
) -> Result<Rule, ScheduleError> {
    let (length, whole) = match unit {
        "second" => (1, 60),
        "minute" => (60, 60),
        _ => (3_600, 24),
    };
    let period = || Period::new(n.saturating_mul(length));
    if words.peek() == Some("from") {
        return anchored(words, place, period()?);
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
        _ => (steps as u32, times::minutes(words)?, 1),
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

/// A period, with where it is counted from.
fn anchored(
    words: &mut Words<'_>,
    place: &Place<'_>,
    period: Period,
) -> Result<Rule, ScheduleError> {
    match words.eat("from") {
        true => {
            let anchor = moment::parse(&words.rest(), place.zone, place.dst)?;
            Ok(Rule::Period(period.from(anchor)))
        }
        false => Ok(Rule::Period(period)),
    }
}

fn once(words: &mut Words<'_>, place: &Place<'_>) -> Result<Rule, ScheduleError> {
    let at = moment::parse(&words.rest(), place.zone, place.dst)?;
    Ok(Rule::Once(at))
}

/// Days, and then times.
fn dated<'a>(
    words: &mut Words<'a>,
    days: impl FnOnce(&mut Words<'a>) -> Result<Days, ScheduleError>,
) -> Result<Rule, ScheduleError> {
    let days = days(words)?;
    Ok(pattern(days, times::times(words)?))
}

const fn pattern(days: Days, times: Times) -> Rule {
    Rule::Pattern(Pattern { days, times })
}

/// Words that leave open what everybody would fill in differently.
fn doubtful(word: &str) -> ScheduleError {
    let hint = match word {
        "weekly" | "every week" => "write `every monday at 9:00`",
        "monthly" => "write `on the 1st of every month at 9:00`",
        _ => "write `january 1st at 9:00`",
    };
    ScheduleError::new(format!("{} does not say on which day", quote(word)), hint)
}
