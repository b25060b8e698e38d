//! Days: of the week, of the month, of the year.

use super::tokens::{MONTHS, Tokens, WEEKDAYS, by_name};
use crate::clock::civil::{ALL_MONTHS, Days, Numbers, Weekdays};
use crate::clock::error::{ScheduleError, quote};

/// Monday to Friday, with Sunday as bit 0.
const WORKING: u8 = 0b011_1110;
const WEEKEND: u8 = 0b100_0001;

/// January, April, July and October.
const QUARTERS: u16 = 0b0100_1001_0010;

/// `first`, `2nd`, `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ordinal {
    Number(u32),
    Last,
}

/// Whether days can start with the next word.
pub(super) fn is_next(tokens: &Tokens<'_>) -> bool {
    let Some(word) = tokens.peek() else {
        return false;
    };
    let is_day = matches!(
        word,
        "on" | "the" | "daily" | "everyday" | "business" | "working" | "work"
    );
    is_day
        || weekday_set(word).is_some()
        || ordinal(word).is_some()
        || number(word).is_some()
        || month(word).is_some()
}

/// Parses days of any kind. `is_every`: after `every`, where `second monday` may also mean every
/// other Monday.
pub(super) fn days(tokens: &mut Tokens<'_>, is_every: bool) -> Result<Days, ScheduleError> {
    if tokens.eat("on") {
        tokens.eat_any(&["every", "each"]);
    }
    tokens.eat("the");
    let (first, second) = (tokens.peek(), tokens.peek_at(1));
    if tokens.eat_any(&["daily", "everyday", "day"]) {
        return Ok(Days::ALL);
    }
    if let Some(plain) = weekdays(tokens)? {
        return Ok(on_weekdays(plain));
    }
    if first.is_some_and(|word| ordinal(word).is_some()) {
        return on_ordinals(tokens, is_every);
    }
    let is_number = first.is_some_and(|word| number(word).is_some());
    if is_number && second.is_some_and(|word| word == "," || word == "and" || word == "of") {
        let plain = numbers(tokens)?;
        let months = match named_months(tokens) {
            Some(months) => months,
            None if tokens.eat("of") => months_of(tokens)?,
            None => return Err(tokens.unexpected("write `of every month`, or name the months")),
        };
        return Ok(numbered(months, plain));
    }
    if is_number && second.is_some_and(|word| month(word).is_some()) {
        let plain = numbers(tokens)?;
        let months = named_months(tokens).unwrap_or(ALL_MONTHS);
        return Ok(numbered(months, plain));
    }
    if let Some(months) = named_months(tokens) {
        tokens.eat("the");
        return Ok(numbered(months, numbers(tokens)?));
    }
    Err(tokens.unexpected("write days and a time, an interval such as 5 minutes, or cron fields"))
}

/// `on the 1st`, after `every month` or `monthly`.
pub(super) fn monthly(tokens: &mut Tokens<'_>) -> Result<Days, ScheduleError> {
    let hint = "name the day, such as `on the 1st`";
    if !tokens.eat("on") {
        return Err(tokens.unexpected(hint));
    }
    tokens.eat("the");
    match tokens.peek() {
        Some(word) if ordinal(word).is_some() => of_month(tokens),
        _ => Err(tokens.unexpected(hint)),
    }
}

/// `on january 1st`, after `every year` or `yearly`.
pub(super) fn yearly(tokens: &mut Tokens<'_>) -> Result<Days, ScheduleError> {
    let hint = "name the day, such as `on january 1st`";
    if tokens.peek() != Some("on") {
        return Err(tokens.unexpected(hint));
    }
    let days = days(tokens, false)?;
    match days.months {
        ALL_MONTHS => Err(ScheduleError::new(
            format!("{} does not name the month", quote(&tokens.parsed())),
            hint,
        )),
        _ => Ok(days),
    }
}

/// `on monday`, after `every week` or `weekly`.
pub(super) fn weekly(tokens: &mut Tokens<'_>) -> Result<Days, ScheduleError> {
    tokens.eat("on");
    match weekdays(tokens)? {
        Some(plain) => Ok(on_weekdays(plain)),
        None => Err(tokens.unexpected("name the day, such as `on monday`")),
    }
}

/// Days of the week and months that `except` names: `except sundays`, `except in august`.
pub(super) fn exception(tokens: &mut Tokens<'_>) -> Result<(u8, u16), ScheduleError> {
    tokens.eat_any(&["on", "in"]);
    tokens.eat("the");
    if let Some(plain) = weekdays(tokens)? {
        return Ok((plain, 0));
    }
    match named_months(tokens) {
        Some(months) => Ok((0, months)),
        None => Err(tokens.unexpected("only days of the week and months can be excepted")),
    }
}

/// `first`, `2nd`, `last`.
pub(super) fn ordinal(word: &str) -> Option<Ordinal> {
    let words = ["first", "second", "third", "fourth", "fifth"];
    if word == "last" {
        return Some(Ordinal::Last);
    }
    if let Some(index) = words.iter().position(|known| *known == word) {
        return Some(Ordinal::Number(u32::try_from(index).ok()? + 1));
    }
    let digits = ["st", "nd", "rd", "th"]
        .into_iter()
        .find_map(|suffix| word.strip_suffix(suffix))?;
    number(digits).map(Ordinal::Number)
}

/// A day of a month.
fn number(word: &str) -> Option<u32> {
    let digits = word.len() <= 2 && word.bytes().all(|b| b.is_ascii_digit());
    let number = word.parse().ok().filter(|_| digits)?;
    (1..=31).contains(&number).then_some(number)
}

pub(super) fn month(word: &str) -> Option<u32> {
    by_name(MONTHS, word).map(|index| index + 1)
}

/// One day of the week, in the singular or the plural.
pub(super) fn weekday(word: &str) -> Option<u32> {
    by_name(WEEKDAYS, word).or_else(|| {
        let singular = word.strip_suffix('s').filter(|word| word.len() >= 3)?;
        by_name(WEEKDAYS, singular)
    })
}

/// Days of the week that a word denotes.
fn weekday_set(word: &str) -> Option<u8> {
    match word {
        "weekday" | "weekdays" | "workday" | "workdays" => Some(WORKING),
        "weekend" | "weekends" => Some(WEEKEND),
        _ => match word.split_once('-') {
            Some((from, to)) => Some(span(weekday(from)?, weekday(to)?)),
            None => weekday(word).map(|day| 1 << day),
        },
    }
}

/// From one day of the week to another, wrapping around its end.
fn span(from: u32, to: u32) -> u8 {
    (0..=(to + 7 - from) % 7).fold(0, |set, step| set | 1 << ((from + step) % 7))
}

/// Consumes `business day` and the like.
fn eat_working_day(tokens: &mut Tokens<'_>) -> bool {
    let is_day = |word: &str| matches!(word, "day" | "days");
    let is_working = |word: &str| matches!(word, "business" | "working" | "work");
    if tokens.peek().is_some_and(is_working) && tokens.peek_at(1).is_some_and(is_day) {
        tokens.take();
        tokens.take();
        return true;
    }
    false
}

/// Parses a list of days of the week, if one is next.
fn weekdays(tokens: &mut Tokens<'_>) -> Result<Option<u8>, ScheduleError> {
    if eat_working_day(tokens) {
        return Ok(Some(WORKING));
    }
    if tokens.peek().and_then(weekday_set).is_none() {
        return Ok(None);
    }
    let mut set = 0;
    loop {
        let from = tokens.peek().and_then(weekday);
        set |= tokens.read(weekday_set).unwrap_or(0);
        if let Some(from) = from
            && tokens.eat_any(&["to", "through"])
        {
            let to = tokens.read(weekday);
            let to = to.ok_or_else(|| tokens.unexpected("write a day of the week"))?;
            set |= span(from, to);
        }
        if !tokens.eat_separator(|word| weekday_set(word).is_some()) {
            return Ok(Some(set));
        }
    }
}

fn on_weekdays(plain: u8) -> Days {
    Days {
        weekdays: Some(Weekdays {
            plain,
            ..Weekdays::default()
        }),
        ..Days::ALL
    }
}

/// A list of months, if one is next.
pub(super) fn named_months(tokens: &mut Tokens<'_>) -> Option<u16> {
    let mut set = 1 << tokens.read(month)?;
    while let Some(next) = tokens.next_in_list(month) {
        set |= 1 << next;
    }
    Some(set)
}

/// The months after `of` or `in`.
pub(super) fn months_of(tokens: &mut Tokens<'_>) -> Result<u16, ScheduleError> {
    let is_article = tokens.eat_any(&["the", "every", "each", "a"]);
    if tokens.eat("month") || (!is_article && tokens.eat("months")) {
        return Ok(ALL_MONTHS);
    }
    if tokens.eat("quarter") {
        return Ok(QUARTERS);
    }
    // `first month of the quarter`.
    if let Some(Ordinal::Number(nth @ 1..=3)) = tokens.peek().and_then(ordinal)
        && tokens.peek_at(1) == Some("month")
    {
        tokens.take();
        tokens.take();
        let is_of = tokens.eat("of");
        tokens.eat_any(&["the", "every", "each", "a"]);
        if is_of && tokens.eat("quarter") {
            return Ok(QUARTERS << (nth - 1));
        }
        return Err(tokens.unexpected("write `of the quarter`"));
    }
    named_months(tokens).ok_or_else(|| tokens.unexpected("write `every month`, or name the months"))
}

/// A list of days of the month, as bits.
fn numbers(tokens: &mut Tokens<'_>) -> Result<u32, ScheduleError> {
    let day = |word: &str| match ordinal(word) {
        Some(Ordinal::Number(day)) => Some(day),
        Some(Ordinal::Last) => None,
        None => number(word),
    };
    let first = tokens.read(day);
    let first =
        first.ok_or_else(|| tokens.unexpected("write a day of the month, such as 1st or 15th"))?;
    let mut set = 1 << first;
    while let Some(next) = tokens.next_in_list(day) {
        set |= 1 << next;
    }
    Ok(set)
}

fn numbered(months: u16, plain: u32) -> Days {
    Days {
        months,
        numbers: Some(Numbers {
            plain,
            ..Numbers::default()
        }),
        ..Days::ALL
    }
}

/// `first monday of march`, `1st and 15th of every month`.
fn on_ordinals(tokens: &mut Tokens<'_>, is_every: bool) -> Result<Days, ScheduleError> {
    let days = of_month(tokens)?;
    if let Some(months) = named_months(tokens) {
        return Ok(Days { months, ..days });
    }
    if tokens.eat("of") {
        return Ok(Days {
            months: months_of(tokens)?,
            ..days
        });
    }
    if is_every && days.weekdays.is_some() {
        return Err(ScheduleError::new(
            format!("{} does not say of what", quote(&tokens.parsed())),
            "add `of every month` if you count within a month; weeks cannot be counted",
        ));
    }
    Ok(days)
}

/// Parses days of every month that start with an ordinal.
fn of_month(tokens: &mut Tokens<'_>) -> Result<Days, ScheduleError> {
    let mut ordinals = Vec::new();
    ordinals.extend(tokens.read(ordinal));
    while let Some(next) = tokens.next_in_list(ordinal) {
        ordinals.push(next);
    }
    if eat_working_day(tokens) || tokens.eat_any(&["weekday", "workday"]) {
        return working_days(tokens, &ordinals);
    }
    if let Some(first) = tokens.read(weekday) {
        let mut set = 1 << first;
        while let Some(next) = tokens.next_in_list(weekday) {
            set |= 1 << next;
        }
        return nth_weekdays(tokens, &ordinals, set);
    }
    if !tokens.eat("day") && ordinals.contains(&Ordinal::Last) {
        return Err(tokens.unexpected("name what is counted, such as `last day`"));
    }
    let mut numbers = Numbers::default();
    for ordinal in ordinals {
        match ordinal {
            Ordinal::Number(day) => numbers.plain |= 1 << day,
            Ordinal::Last => numbers.before_end = 1,
        }
    }
    Ok(Days {
        numbers: Some(numbers),
        ..Days::ALL
    })
}

/// `first weekday`, `last weekday`: working days.
fn working_days(tokens: &Tokens<'_>, ordinals: &[Ordinal]) -> Result<Days, ScheduleError> {
    let mut numbers = Numbers::default();
    for ordinal in ordinals {
        match ordinal {
            // The working day nearest to the first, without leaving the month.
            Ordinal::Number(1) => numbers.nearest |= 1 << 1,
            Ordinal::Last => numbers.nearest_before_end = 1,
            Ordinal::Number(_) => {
                return Err(ScheduleError::new(
                    format!("{} is not understood", quote(&tokens.parsed())),
                    "only the first and the last weekday of a month have a name here",
                ));
            }
        }
    }
    Ok(Days {
        numbers: Some(numbers),
        ..Days::ALL
    })
}

/// `second tuesday`.
fn nth_weekdays(tokens: &Tokens<'_>, ordinals: &[Ordinal], set: u8) -> Result<Days, ScheduleError> {
    let mut weekdays = Weekdays::default();
    for ordinal in ordinals {
        match ordinal {
            Ordinal::Last => weekdays.last |= set,
            Ordinal::Number(nth @ 1..=5) => weekdays.nth[*nth as usize - 1] |= set,
            Ordinal::Number(_) => {
                return Err(ScheduleError::new(
                    format!("{}: no month has that many", quote(&tokens.parsed())),
                    "write first to fifth, or last",
                ));
            }
        }
    }
    Ok(Days {
        weekdays: Some(weekdays),
        ..Days::ALL
    })
}
