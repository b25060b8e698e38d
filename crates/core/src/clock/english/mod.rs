//! Schedules in plain English, by a strict grammar: an unknown word is an error with a suggestion.
//! The text is in lower case.
//!
//! ```text
//! schedule  = once | ["run"] clause { [","] clause }
//! once      = ["once"] "at" INSTANT
//! clause    = interval | days | times | window | "in" months | "except" exception | "synchronized"
//! interval  = "every" [N] ("second" | "minute" | "hour" minutes | DURATION) ["from" INSTANT]
//!           | "hourly" minutes
//! minutes   = ["at" ":MM" {and ":MM"}]
//! window    = "from" TIME "to" TIME | "between" TIME "and" TIME
//! times     = ["at"] TIME {and TIME}
//! days      = "daily" | "every day" | "every" N "days" | weekdays | of-month ["of" months]
//!           | NUMBER {and NUMBER} ("of" months | MONTH) | MONTH {and MONTH} [the] NUMBER {and NUMBER}
//!           | "every week on" weekdays | "every month on the" of-month | "every year on" days
//! of-month  = ORDINAL {and ORDINAL} ["day" | "weekday" | WEEKDAY {and WEEKDAY}]
//! months    = ("the" | "every") ("month" | "quarter") | MONTH {and MONTH}
//! weekdays  = ["every" | "on"] (WEEKDAY ["to" WEEKDAY] | "weekdays" | "weekends") {and …}
//! exception = weekdays | MONTH {and MONTH}
//! and       = "," | "and" | ", and"
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `tokens` | words, and the cursor over them |
//! | `days`, `times` | the clauses of days and of times |
//! | `phrase` | the clauses together, as a rule |
//! | `hints` | suggestions for a text that is refused |

mod days;
mod hints;
mod phrase;
mod times;
pub(super) mod tokens;

use days::Ordinal;
use hints::Refusal;
use phrase::{Interval, Phrase};
use tokens::Tokens;

use super::civil::Days;
use super::error::{ScheduleError, quote};
use super::limits::EVERY_DAYS_MAX;
use super::period::duration;
use super::rule::Rule;
use super::zone::Zone;
use super::{Dst, moment};

/// Context for parsing instants.
#[derive(Clone, Copy)]
struct InstantContext<'a> {
    zone: &'a Zone,
    dst: Dst,
}

/// A unit of time, in the singular.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

/// Parses a schedule.
pub(super) fn parse(text: &str, zone: &Zone, dst: Dst) -> Result<Rule, ScheduleError> {
    let context = InstantContext { zone, dst };
    let mut tokens = Tokens::new(text);
    rule(&mut tokens, context).map_err(|refusal| hints::refine(refusal, &tokens, context))
}

fn rule(tokens: &mut Tokens<'_>, context: InstantContext<'_>) -> Result<Rule, Refusal> {
    if tokens.peek_at(1).is_some() {
        tokens.eat("run");
    }
    match tokens.peek() {
        None => Err(ScheduleError::new(
            "the schedule is empty",
            "write one such as `every day at 9:00` or `0 9 * * *`",
        )
        .into()),
        Some("once") => {
            tokens.take();
            if tokens.eat_any(&["at", "on"]) {
                Ok(once(tokens, context)?)
            } else {
                Err(tokens
                    .unexpected("write a date and a time, such as once at 2026-11-14 06:00")
                    .into())
            }
        }
        Some("at") if tokens.peek_at(1).is_some_and(|word| word.contains('-')) => {
            tokens.take();
            Ok(once(tokens, context)?)
        }
        Some(_) => {
            let mut phrase = Phrase::default();
            while tokens.peek().is_some() {
                if let Some(rule) = clause(tokens, context, &mut phrase)? {
                    return Ok(rule);
                }
            }
            phrase.rule(tokens)
        }
    }
}

/// Parses one clause. Returns the rule if the clause is the last by its nature.
fn clause(
    tokens: &mut Tokens<'_>,
    context: InstantContext<'_>,
    phrase: &mut Phrase,
) -> Result<Option<Rule>, Refusal> {
    let Some(word) = tokens.peek() else {
        return Ok(None);
    };
    match word {
        "," if !phrase.is_empty() && tokens.peek_at(1).is_some() => {
            tokens.take();
        }
        "every" | "each" => {
            tokens.take();
            every(tokens, phrase)?;
        }
        "hourly" => {
            tokens.take();
            let interval = Interval::new(tokens, 1, Unit::Hour)?;
            phrase.set_interval(tokens, interval)?;
        }
        "weekly" | "monthly" | "yearly" | "annually" => calendar(tokens, phrase, word)?,
        "biweekly" | "fortnightly" => return Err(weeks(tokens, 2)),
        "nightly" => return Err(hints::daytime(tokens, "night", "every day")),
        "at" => {
            tokens.take();
            let times = times::times(tokens)?;
            phrase.set_times(tokens, times)?;
        }
        "from" if phrase.is_interval_only() && starts_date(tokens.peek_at(1)) => {
            tokens.take();
            let anchor = moment::parse(&tokens.take_rest(), context.zone, context.dst)?;
            return Ok(Some(phrase.period_from(anchor)?));
        }
        "from" | "between" => {
            tokens.take();
            let separators: &[&str] = match word {
                "from" => &["to", "until", "till"],
                _ => &["and"],
            };
            let window = times::window(tokens, separators)?;
            phrase.set_window(tokens, window)?;
        }
        "except" | "but" => {
            tokens.take();
            if word == "but" && !tokens.eat_any(&["not", "except"]) {
                return Err(tokens.unexpected("write `except`").into());
            }
            let exception = days::exception(tokens)?;
            phrase.except(exception);
        }
        "synchronized" => {
            tokens.take();
            phrase.set_synchronized(tokens)?;
        }
        "in" | "of" | "during" if !phrase.is_empty() => {
            tokens.take();
            let months = match days::months_of(tokens) {
                Err(_) if word == "during" => {
                    let hint = "name the hours, such as from 9:00 to 17:00, or the months";
                    return Err(tokens.unexpected(hint).into());
                }
                months => months?,
            };
            phrase.set_months(tokens, months)?;
        }
        _ if times::is_time_next(tokens) => {
            let times = times::times(tokens)?;
            phrase.set_times(tokens, times)?;
        }
        _ if days::is_next(tokens) || phrase.is_empty() => {
            let days = days::days(tokens, false)?;
            phrase.set_days(tokens, days)?;
        }
        _ => {
            let hint = "only days, times, a window or an exception may follow";
            return Err(tokens.unexpected(hint).into());
        }
    }
    Ok(None)
}

/// Whether a word is the beginning of an instant: `2026-11-14`.
fn starts_date(word: Option<&str>) -> bool {
    word.is_some_and(|word| word.contains('-'))
}

/// The rest of a clause after `every`.
fn every(tokens: &mut Tokens<'_>, phrase: &mut Phrase) -> Result<(), Refusal> {
    let Some(word) = tokens.peek() else {
        let hint = "name the days or an interval, such as monday or 5 minutes";
        return Err(tokens.unexpected(hint).into());
    };
    let next = tokens.peek_at(1);
    let is_date =
        next.is_some_and(|word| days::month(word).is_some() || [",", "and", "of"].contains(&word));
    let digits = word.bytes().take_while(u8::is_ascii_digit).count();
    if digits > 0 && !is_date && days::ordinal(word).is_none() {
        let number = word[..digits].parse().unwrap_or(u64::MAX);
        if digits == word.len() {
            tokens.take();
            return every_n(tokens, phrase, number);
        }
        let period = match unit(&word[digits..]).filter(|_| word.len() > digits + 1) {
            Some(unit) => {
                tokens.take();
                return every_unit(tokens, phrase, number, unit);
            }
            None => Interval::of_duration(duration(word)?)?,
        };
        tokens.take();
        return Ok(phrase.set_interval(tokens, period)?);
    }
    if let Some(Ordinal::Number(n)) = days::ordinal(word)
        && let Some(unit) = next.and_then(unit)
        && !(unit == Unit::Day && tokens.peek_at(2) == Some("of"))
    {
        tokens.take();
        tokens.take();
        return every_unit(tokens, phrase, n.into(), unit);
    }
    match word {
        "other" if next.and_then(unit).is_some() => {
            tokens.take();
            every_n(tokens, phrase, 2)
        }
        "other" => Err(weeks(tokens, 2)),
        "half" | "quarter" => {
            tokens.take();
            tokens.eat("of");
            tokens.eat("an");
            if !tokens.eat("hour") {
                let hint = match word {
                    "quarter" => "name its day, such as the 1st of every quarter",
                    _ => "write `every half hour`, or name days and months",
                };
                return Err(tokens.unexpected(hint).into());
            }
            let minutes = if word == "half" { 30 } else { 15 };
            every_unit(tokens, phrase, minutes, Unit::Minute)
        }
        "night" | "morning" | "afternoon" | "evening" => Err(hints::daytime(tokens, word, "day")),
        // `every second monday of the month` counts Mondays.
        "second" if next.is_some_and(follows_ordinal) => every_day(tokens, phrase),
        _ => match unit(word) {
            Some(unit) => {
                if unit == Unit::Week && next != Some("on") {
                    return Err(hints::ambiguous(tokens, "every week", "monday"));
                }
                tokens.take();
                every_unit(tokens, phrase, 1, unit)
            }
            None => every_day(tokens, phrase),
        },
    }
}

fn every_day(tokens: &mut Tokens<'_>, phrase: &mut Phrase) -> Result<(), Refusal> {
    let days = days::days(tokens, true)?;
    Ok(phrase.set_days(tokens, days)?)
}

/// Whether `second` is an ordinal before a word.
fn follows_ordinal(word: &str) -> bool {
    days::weekday(word).is_some()
        || days::month(word).is_some()
        || [
            "weekday", "workday", "business", "working", ",", "and", "of",
        ]
        .contains(&word)
}

/// `every 5 minutes`, after the number.
fn every_n(tokens: &mut Tokens<'_>, phrase: &mut Phrase, n: u64) -> Result<(), Refusal> {
    match tokens.read(unit) {
        Some(unit) => every_unit(tokens, phrase, n, unit),
        None => Err(tokens
            .unexpected("name the unit, such as minutes or hours")
            .into()),
    }
}

/// The same after the unit.
fn every_unit(
    tokens: &mut Tokens<'_>,
    phrase: &mut Phrase,
    n: u64,
    unit: Unit,
) -> Result<(), Refusal> {
    if n == 0 {
        return Err(ScheduleError::new(
            format!("{} never comes", quote(&tokens.parsed())),
            "write at least 1",
        )
        .into());
    }
    let days = match unit {
        Unit::Second | Unit::Minute | Unit::Hour => {
            let interval = Interval::new(tokens, n, unit)?;
            return Ok(phrase.set_interval(tokens, interval)?);
        }
        Unit::Day => {
            let every = u32::try_from(n).ok().filter(|n| *n <= EVERY_DAYS_MAX);
            let every = every.ok_or_else(|| {
                ScheduleError::new(
                    format!("{n} days are more than a year"),
                    format!("write at most {EVERY_DAYS_MAX}"),
                )
            })?;
            Days { every, ..Days::ALL }
        }
        Unit::Week if n == 1 => days::weekly(tokens)?,
        Unit::Month if n == 1 => days::monthly(tokens)?,
        Unit::Year if n == 1 => days::yearly(tokens)?,
        Unit::Week => return Err(weeks(tokens, n)),
        Unit::Month | Unit::Year => {
            return Err(ScheduleError::new(
                format!("{} does not name the months", quote(&tokens.parsed())),
                "name days and months, such as the 1st of january and july",
            )
            .into());
        }
    };
    Ok(phrase.set_days(tokens, days)?)
}

/// `weekly on monday`, `monthly on the 1st`, `yearly on january 1st`.
fn calendar(tokens: &mut Tokens<'_>, phrase: &mut Phrase, word: &str) -> Result<(), Refusal> {
    let replacement = match word {
        "weekly" => "every monday",
        "monthly" => "every month on the 1st",
        _ => "every january 1st",
    };
    if tokens.peek_at(1) != Some("on") {
        return Err(hints::ambiguous(tokens, word, replacement));
    }
    tokens.take();
    let days = match word {
        "weekly" => days::weekly(tokens)?,
        "monthly" => days::monthly(tokens)?,
        _ => days::yearly(tokens)?,
    };
    Ok(phrase.set_days(tokens, days)?)
}

/// The error for every n-th week.
fn weeks(tokens: &Tokens<'_>, n: u64) -> Refusal {
    let days = n.saturating_mul(7);
    ScheduleError::new(
        format!("{}: weeks are not counted", quote(&tokens.whole())),
        format!("write a period from a date: every {days}d from YYYY-MM-DD HH:MM"),
    )
    .into()
}

fn once(tokens: &mut Tokens<'_>, context: InstantContext<'_>) -> Result<Rule, ScheduleError> {
    let at = moment::parse(&tokens.take_rest(), context.zone, context.dst)?;
    Ok(Rule::Once(at))
}

fn unit(word: &str) -> Option<Unit> {
    Some(match word {
        "s" | "sec" | "secs" | "second" | "seconds" => Unit::Second,
        "m" | "min" | "mins" | "minute" | "minutes" => Unit::Minute,
        "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Hour,
        "d" | "day" | "days" => Unit::Day,
        "w" | "week" | "weeks" => Unit::Week,
        "month" | "months" => Unit::Month,
        "year" | "years" => Unit::Year,
        _ => return None,
    })
}
