//! Days: of the week, of the month, of the year.

use super::tokens::{MONTHS, Tokens, WEEKDAYS, by_name};
use crate::clock::civil::{ALL_MONTHS, Days, Numbers, Weekdays};
use crate::clock::error::{ScheduleError, quote};

/// Monday to Friday, with Sunday as bit 0.
const WORKING: u8 = 0b011_1110;
const WEEKEND: u8 = 0b100_0001;

/// `first`, `2nd`, `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ordinal {
    Number(u32),
    Last,
}

/// Parses days of any kind.
pub(super) fn days(tokens: &mut Tokens<'_>) -> Result<Days, ScheduleError> {
    if tokens.eat("on") {
        tokens.eat_any(&["every", "each"]);
    }
    tokens.eat("the");
    let (first, second) = (tokens.peek(), tokens.peek_second());
    if tokens.eat("daily") {
        return Ok(Days::ALL);
    }
    if first.is_some_and(|word| weekday_set(word).is_some()) {
        let plain = weekdays(tokens)?;
        return Ok(Days {
            weekdays: Some(Weekdays {
                plain,
                ..Weekdays::default()
            }),
            ..Days::ALL
        });
    }
    if first.is_some_and(|word| ordinal(word).is_some()) {
        let days = of_month(tokens)?;
        let months = if tokens.eat("of") {
            months(tokens)?
        } else {
            named_months(tokens).ok_or_else(|| {
                tokens.unexpected(&format!("write `{} of every month`", tokens.parsed()))
            })?
        };
        return Ok(Days { months, ..days });
    }
    if first.is_some_and(|word| number(word).is_some())
        && second.is_some_and(|word| month(word).is_some())
    {
        let plain = numbers(tokens)?;
        let months = named_months(tokens).unwrap_or(ALL_MONTHS);
        return Ok(numbered(months, plain));
    }
    if let Some(months) = named_months(tokens) {
        tokens.eat("the");
        return Ok(numbered(months, numbers(tokens)?));
    }
    Err(tokens.unexpected("write `every monday at 9:00`, `every 5 minutes`, or cron fields"))
}

/// `on the 1st`, after `every month`.
pub(super) fn monthly(tokens: &mut Tokens<'_>) -> Result<Days, ScheduleError> {
    let hint = "write `every month on the 1st at 9:00`";
    if !tokens.eat("on") {
        return Err(tokens.unexpected(hint));
    }
    tokens.eat("the");
    match tokens.peek() {
        Some(word) if ordinal(word).is_some() => of_month(tokens),
        _ => Err(tokens.unexpected(hint)),
    }
}

/// `on january 1st`, after `every year`.
pub(super) fn yearly(tokens: &mut Tokens<'_>) -> Result<Days, ScheduleError> {
    let hint = "write `every year on january 1st at 9:00`";
    if tokens.peek() != Some("on") {
        return Err(tokens.unexpected(hint));
    }
    let days = days(tokens)?;
    match days.months {
        ALL_MONTHS => Err(ScheduleError::new(
            format!("{} does not name the month", quote(&tokens.parsed())),
            hint,
        )),
        _ => Ok(days),
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

fn month(word: &str) -> Option<u32> {
    by_name(MONTHS, word).map(|index| index + 1)
}

/// One day of the week, in the singular or the plural.
fn weekday(word: &str) -> Option<u32> {
    by_name(WEEKDAYS, word).or_else(|| {
        let singular = word.strip_suffix('s').filter(|word| word.len() > 3)?;
        by_name(WEEKDAYS, singular)
    })
}

/// Days of the week that a word denotes.
fn weekday_set(word: &str) -> Option<u8> {
    match word {
        "weekday" | "weekdays" => Some(WORKING),
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

/// Parses a list of days of the week.
fn weekdays(tokens: &mut Tokens<'_>) -> Result<u8, ScheduleError> {
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
            return Ok(set);
        }
    }
}

/// A list of months, if one is next.
fn named_months(tokens: &mut Tokens<'_>) -> Option<u16> {
    let mut set = 1 << tokens.read(month)?;
    while let Some(next) = tokens.next_in_list(month) {
        set |= 1 << next;
    }
    Some(set)
}

/// The months after `of`.
fn months(tokens: &mut Tokens<'_>) -> Result<u16, ScheduleError> {
    let article = tokens.eat_any(&["the", "every", "each"]);
    if tokens.eat("month") || (!article && tokens.eat("months")) {
        return Ok(ALL_MONTHS);
    }
    named_months(tokens).ok_or_else(|| tokens.unexpected("write `of every month` or `of january`"))
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

const fn numbered(months: u16, plain: u32) -> Days {
    Days {
        months,
        numbers: Some(Numbers {
            plain,
            nearest: 0,
            last: false,
            last_working: false,
        }),
        weekdays: None,
        every: 1,
    }
}

/// Parses days of every month that start with an ordinal.
fn of_month(tokens: &mut Tokens<'_>) -> Result<Days, ScheduleError> {
    let mut ordinals = Vec::new();
    ordinals.extend(tokens.read(ordinal));
    while let Some(next) = tokens.next_in_list(ordinal) {
        ordinals.push(next);
    }
    if tokens.eat("weekday") {
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
        return Err(tokens.unexpected("name what is counted: `last day of the month`"));
    }
    let mut numbers = Numbers::default();
    for ordinal in ordinals {
        match ordinal {
            Ordinal::Number(day) => numbers.plain |= 1 << day,
            Ordinal::Last => numbers.last = true,
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
            Ordinal::Last => numbers.last_working = true,
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
