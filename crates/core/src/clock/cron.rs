//! Cron expressions: five fields, or six with seconds first.
//!
//! The text is in lower case. Beside numbers, lists, ranges and steps a field may contain names, `?`,
//! and for days `L`, `LW`, `15W`, `5L` and `5#2`.

use super::civil::{ALL_HOURS, ALL_MONTHS, Days, Numbers, Pattern, Times, Weekdays};
use super::english::tokens::{MONTHS, WEEKDAYS, by_name};
use super::error::{ScheduleError, quote};

/// Abbreviations of five fields.
const MACROS: &[(&str, &str)] = &[
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// The allowed values of a field.
struct Field {
    name: &'static str,
    min: u32,
    max: u32,
    names: &'static [&'static str],
    /// Unit of the English interval that a hint suggests if a step is too large.
    unit: &'static str,
}

const SECOND: Field = Field::numbers("second", 0, 59, "seconds");
const MINUTE: Field = Field::numbers("minute", 0, 59, "minutes");
const HOUR: Field = Field::numbers("hour", 0, 23, "hours");
const DAY: Field = Field::numbers("day of month", 1, 31, "days at 00:00");
const MONTH: Field = Field {
    names: MONTHS,
    ..Field::numbers("month", 1, 12, "")
};
/// Both 0 and 7 are Sunday.
const WEEKDAY: Field = Field {
    names: WEEKDAYS,
    ..Field::numbers("day of week", 0, 7, "")
};

/// Whether a text is meant as cron. In cron the first two fields have no letters, in English they
/// do.
pub(super) fn is_cron(text: &str) -> bool {
    let cronlike = |word: &str| {
        word.chars()
            .all(|c| c.is_ascii_digit() || "*/,-?".contains(c))
    };
    let mut words = text.split_whitespace();
    match words.next() {
        None => false,
        Some(first) if first.starts_with(['@', '*']) => true,
        Some(first) => cronlike(first) && words.next().is_none_or(cronlike),
    }
}

/// Parses five or six fields, or an abbreviation.
pub(super) fn parse(text: &str) -> Result<Pattern, ScheduleError> {
    let text = match text.trim() {
        word if word.starts_with('@') => unabbreviate(word)?,
        text => text,
    };
    let fields: Vec<&str> = text.split_whitespace().collect();
    let (second, [minute, hour, day, month, weekday]) = match fields[..] {
        [minute, hour, day, month, weekday] => ("0", [minute, hour, day, month, weekday]),
        [second, minute, hour, day, month, weekday] => {
            (second, [minute, hour, day, month, weekday])
        }
        _ => {
            return Err(ScheduleError::new(
                format!("{} has {} fields", quote(text), fields.len()),
                "write five, minute hour day month weekday, or six with seconds first",
            ));
        }
    };
    let months = MONTH.set(month)?;
    Ok(Pattern {
        times: Times::Fields {
            seconds: SECOND.set(second)?,
            minutes: MINUTE.set(minute)?,
            hours: HOUR.set(hour)? as u32 & ALL_HOURS,
        },
        days: Days {
            numbers: numbers(day)?,
            months: months as u16 & ALL_MONTHS,
            weekdays: weekdays(weekday)?,
            every: 1,
        },
    })
}

fn unabbreviate(word: &str) -> Result<&'static str, ScheduleError> {
    let known = MACROS.iter().find(|(name, _)| *name == word);
    known.map(|(_, fields)| *fields).ok_or_else(|| {
        let names: Vec<&str> = MACROS.iter().map(|(name, _)| *name).collect();
        ScheduleError::new(
            format!("there is no {}", quote(word)),
            format!("write one of {}", names.join(", ")),
        )
    })
}

/// Parses days of the month, including `L` and `W`; `None` if all.
fn numbers(text: &str) -> Result<Option<Numbers>, ScheduleError> {
    if is_any(text) {
        return Ok(None);
    }
    let mut days = Numbers::default();
    for item in text.split(',') {
        match item.strip_suffix('w') {
            _ if item == "l" => days.last = true,
            Some("l") => days.last_working = true,
            Some(day) => days.nearest |= 1 << DAY.number(day)?,
            None => days.plain |= DAY.item(item)? as u32,
        }
    }
    Ok(Some(days))
}

/// Parses days of the week, including `L` and `#`; `None` if all.
fn weekdays(text: &str) -> Result<Option<Weekdays>, ScheduleError> {
    if is_any(text) {
        return Ok(None);
    }
    let mut days = Weekdays::default();
    for item in text.split(',') {
        if let Some((day, nth)) = item.split_once('#') {
            let nth = nth.parse().ok().filter(|nth| (1..=5).contains(nth));
            let nth: usize = nth.ok_or_else(|| {
                WEEKDAY.error(
                    format!("{} is not a week of a month", quote(item)),
                    "write a number from 1 to 5 after the `#`",
                )
            })?;
            days.nth[nth - 1] |= 1 << (WEEKDAY.number(day)? % 7);
        } else if let Some(day) = item.strip_suffix('l') {
            if day.is_empty() {
                return Err(WEEKDAY.error(
                    "`L` does not say which day",
                    "write `5L` for the last Friday of a month",
                ));
            }
            days.last |= 1 << (WEEKDAY.number(day)? % 7);
        } else {
            let set = WEEKDAY.item(item)?;
            days.plain |= (set | set >> 7) as u8 & 0x7f;
        }
    }
    Ok(Some(days))
}

impl Field {
    const fn numbers(name: &'static str, min: u32, max: u32, unit: &'static str) -> Self {
        Self {
            name,
            min,
            max,
            names: &[],
            unit,
        }
    }

    fn error(&self, message: impl AsRef<str>, hint: impl Into<String>) -> ScheduleError {
        ScheduleError::new(format!("{}: {}", self.name, message.as_ref()), hint)
    }

    /// Parses a list.
    fn set(&self, text: &str) -> Result<u64, ScheduleError> {
        if text.contains('?') {
            return Err(self.error("`?` is allowed for days only", "write `*`"));
        }
        let mut set = 0;
        for item in text.split(',') {
            set |= self.item(item)?;
        }
        Ok(set)
    }

    /// Parses a number, a range, or `*`, each with or without a step.
    fn item(&self, item: &str) -> Result<u64, ScheduleError> {
        let (base, step) = match item.split_once('/') {
            Some((base, step)) => (base, Some(self.step(step)?)),
            None => (item, None),
        };
        let last = if self.max == 7 { 6 } else { self.max };
        let (from, to) = match base.split_once('-') {
            _ if base == "*" => (self.min, last),
            Some((from, to)) => (self.number(from)?, self.number(to)?),
            None if step.is_some() => (self.number(base)?, last),
            None => {
                let number = self.number(base)?;
                (number, number)
            }
        };
        let step = step.unwrap_or(1);
        if from <= to {
            return Ok(steps(from, to, step));
        }
        if self.names.is_empty() {
            return Err(self.error(
                format!("{} is in descending order", quote(base)),
                format!("write `{from}-{},{}-{to}`", self.max, self.min),
            ));
        }
        // Wraps around the end of the week or the year, with the same step.
        let round = last + 1 - self.min;
        let set = steps(from, to + round, step);
        let low = (1 << (last + 1)) - 1;
        Ok(set & low | (set & !low) >> round)
    }

    fn step(&self, text: &str) -> Result<u32, ScheduleError> {
        let range = self.max - self.min;
        match text.parse() {
            Ok(step) if (1..=range).contains(&step) => Ok(step),
            Ok(0) => Err(self.error("a step of 0 is not possible", "write at least 1")),
            Ok(step) if !self.unit.is_empty() => Err(self.error(
                format!("a step of {step} is more than {range}"),
                format!("write `every {step} {}`", self.unit),
            )),
            _ => Err(self.error(
                format!("{} is not a step", quote(text)),
                format!("write a number from 1 to {range}"),
            )),
        }
    }

    /// Parses a number or a name.
    fn number(&self, text: &str) -> Result<u32, ScheduleError> {
        let (min, max) = (self.min, self.max);
        let hint = || match self.names.first() {
            Some(_) => format!("write a number from {min} to {max}, or a name"),
            None => format!("write a number from {min} to {max}"),
        };
        if let Some(place) = by_name(self.names, text) {
            return Ok(place + self.min);
        }
        if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(self.error(format!("{} is not understood", quote(text)), hint()));
        }
        match text.parse() {
            Ok(number) if (min..=max).contains(&number) => Ok(number),
            Ok(number) if number < min => {
                Err(self.error(format!("{number} is less than {min}"), hint()))
            }
            _ => Err(self.error(format!("{text} is more than {max}"), hint())),
        }
    }
}

/// Whether a field matches everything. `*/2` is a restriction.
fn is_any(text: &str) -> bool {
    matches!(text, "*" | "?" | "*/1")
}

fn steps(from: u32, to: u32, step: u32) -> u64 {
    let steps = (from..=to).step_by(step as usize);
    steps.fold(0, |set, number| set | 1 << number)
}
