//! Cron expressions: five fields, or six with seconds first.
//!
//! The text is in lower case. Beside numbers, lists, ranges and steps a field may contain names, `?`,
//! and for days `L`, `L-3`, `LW`, `15W`, `5L` and `5#2`.

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
    ("@every_minute", "* * * * *"),
];

/// The allowed values of a field.
struct Field {
    name: &'static str,
    min: u32,
    max: u32,
    names: &'static [&'static str],
}

const SECOND: Field = Field::numbers("second", 0, 59);
const MINUTE: Field = Field::numbers("minute", 0, 59);
const HOUR: Field = Field::numbers("hour", 0, 23);
const DAY: Field = Field::numbers("day of month", 1, 31);
const MONTH: Field = Field {
    names: MONTHS,
    ..Field::numbers("month", 1, 12)
};
/// Both 0 and 7 are Sunday.
const WEEKDAY: Field = Field {
    names: WEEKDAYS,
    ..Field::numbers("day of week", 0, 7)
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
    if let Some(error) = long_step(second, [minute, hour, day, month, weekday]) {
        return Err(error);
    }
    let months = MONTH.set(month)?;
    let times = Times::Fields {
        seconds: SECOND.set(second)?,
        minutes: MINUTE.set(minute)?,
        hours: HOUR.set(hour)? as u32 & ALL_HOURS,
    };
    let days = Days {
        numbers: numbers(day)?,
        months: months as u16 & ALL_MONTHS,
        weekdays: weekdays(weekday)?,
        every: 1,
    };
    Ok(Pattern::new(days, times, minute.starts_with('*')))
}

fn unabbreviate(word: &str) -> Result<&'static str, ScheduleError> {
    let known = MACROS.iter().find(|(name, _)| *name == word);
    known.map(|(_, fields)| *fields).ok_or_else(|| {
        let names: Vec<&str> = MACROS.iter().map(|(name, _)| *name).collect();
        let hint = match word.strip_prefix("@every ") {
            Some(period) => format!("write `every {}`", period.trim()),
            None => format!("write one of {}", names.join(", ")),
        };
        ScheduleError::new(format!("there is no {}", quote(word)), hint)
    })
}

/// The error for a step such as `*/90` that is longer than its field. Cron cannot say this, but
/// English can, provided that no other field restricts it.
fn long_step(
    second: &str,
    [minute, hour, day, month, weekday]: [&str; 5],
) -> Option<ScheduleError> {
    let long = |field: &Field, text: &str| -> Option<u32> {
        let step = text.strip_prefix("*/")?.parse().ok()?;
        (step > field.max - field.min).then_some(step)
    };
    let is_free = |fields: &[&str]| fields.iter().all(|field| is_any(field));
    let (field, step, english) = if let Some(step) = long(&SECOND, second) {
        let free = is_free(&[minute, hour, day, month, weekday]);
        (&SECOND, step, free.then(|| format!("every {step} seconds")))
    } else if let Some(step) = long(&MINUTE, minute) {
        let free = second == "0" && is_free(&[hour, day, month, weekday]);
        (&MINUTE, step, free.then(|| format!("every {step} minutes")))
    } else if let Some(step) = long(&HOUR, hour) {
        let free = second == "0" && minute == "0" && is_free(&[day, month, weekday]);
        (&HOUR, step, free.then(|| format!("every {step} hours")))
    } else {
        let step = long(&DAY, day)?;
        let time = match (second, HOUR.number(hour), MINUTE.number(minute)) {
            ("0", Ok(hour), Ok(minute)) if is_free(&[month, weekday]) => Some((hour, minute)),
            _ => None,
        };
        let english = time.map(|(hour, minute)| format!("every {step} days at {hour}:{minute:02}"));
        (&DAY, step, english)
    };
    let range = field.max - field.min;
    let hint = match english {
        Some(english) => format!("write `{english}`"),
        None => format!("write a step from 1 to {range}"),
    };
    Some(field.error(format!("a step of {step} is more than {range}"), hint))
}

/// Parses days of the month, including `L` and `W`; `None` if all.
fn numbers(text: &str) -> Result<Option<Numbers>, ScheduleError> {
    if is_any(text) {
        return Ok(None);
    }
    let mut days = Numbers::default();
    for item in text.split(',') {
        let (day, working) = match item.strip_suffix('w') {
            Some(day) => (day, true),
            None => (item, false),
        };
        match (day.strip_prefix('l'), working) {
            (Some(before), true) => days.nearest_before_end |= 1 << before_end(before)?,
            (Some(before), false) => days.before_end |= 1 << before_end(before)?,
            (None, true) => days.nearest |= 1 << DAY.number(day)?,
            (None, false) => days.plain |= DAY.item(item)? as u32,
        }
    }
    Ok(Some(days))
}

/// Parses the rest of `L` or `L-3`: days before the last of the month.
fn before_end(text: &str) -> Result<u32, ScheduleError> {
    if text.is_empty() {
        return Ok(0);
    }
    let days = text.strip_prefix('-').and_then(|days| days.parse().ok());
    days.filter(|days| (0..DAY.max).contains(days))
        .ok_or_else(|| {
            DAY.error(
                format!("{} is not understood", quote(&format!("L{text}"))),
                "write `L` for the last day of a month, or `L-3` for the third before it (0 to 30)",
            )
        })
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
    const fn numbers(name: &'static str, min: u32, max: u32) -> Self {
        Self {
            name,
            min,
            max,
            names: &[],
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
        // Beyond its end it goes on from the field's beginning, with the same step.
        let round = last + 1 - self.min;
        let to = if from <= to { to } else { to + round };
        let numbers = (from..=to).step_by(step.unwrap_or(1) as usize);
        let numbers = numbers.map(|number| match number {
            // Sunday as 7: its own bit, which the caller folds.
            number if number <= self.max => number,
            number => number - round,
        });
        Ok(numbers.fold(0, |set, number| set | 1 << number))
    }

    fn step(&self, text: &str) -> Result<u32, ScheduleError> {
        let range = self.max - self.min;
        match text.parse() {
            Ok(step) if (1..=range).contains(&step) => Ok(step),
            Ok(0) => Err(self.error("a step of 0 is not possible", "write at least 1")),
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
