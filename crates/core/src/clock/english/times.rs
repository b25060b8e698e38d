//! Times of a day: `at 9:00`, `at 6pm`, `at 9:00 and 17:00`, `at noon`.

use super::tokens::Tokens;
use crate::clock::civil::Times;
use crate::clock::error::{ScheduleError, quote};
use crate::clock::limits::TIMES_MAX;

/// Parses the required times.
pub(super) fn times(tokens: &mut Tokens<'_>) -> Result<Times, ScheduleError> {
    if !tokens.eat("at") {
        let so_far = tokens.parsed();
        return Err(match tokens.peek() {
            None => ScheduleError::new(
                format!("{} has no time of day", quote(&so_far)),
                format!("add one: `{so_far} at 9:00`"),
            ),
            Some(_) => tokens.unexpected(&format!("write `{so_far} at 9:00`")),
        });
    }
    let mut list = vec![time(tokens)?];
    while tokens.eat_separator(starts_time) {
        list.push(time(tokens)?);
        if list.len() > TIMES_MAX {
            return Err(ScheduleError::new(
                format!("more than {TIMES_MAX} times of a day are too many"),
                "write an interval, such as `every 10 minutes`",
            ));
        }
    }
    Ok(Times::of_list(list))
}

fn starts_time(word: &str) -> bool {
    matches!(word, "noon" | "midnight") || word.starts_with(|c: char| c.is_ascii_digit())
}

/// Parses a time as seconds since midnight.
fn time(tokens: &mut Tokens<'_>) -> Result<u32, ScheduleError> {
    let Some(word) = tokens.peek().filter(|word| starts_time(word)) else {
        return Err(tokens.unexpected("write a time such as 9:00, 6pm, noon or midnight"));
    };
    tokens.take();
    match word {
        "midnight" => return Ok(0),
        "noon" => return Ok(12 * 3_600),
        _ => {}
    }
    let end = word.find(|c: char| c.is_ascii_alphabetic());
    let (numbers, suffix) = word.split_at(end.unwrap_or(word.len()));
    let suffix = match suffix {
        "" => tokens.read(|word| ["am", "pm"].into_iter().find(|half| *half == word)),
        half => Some(half),
    };
    let bad = |why: &str, hint: &str| {
        let whole = match suffix.filter(|_| end.is_none()) {
            Some(half) => format!("{word} {half}"),
            None => word.to_owned(),
        };
        ScheduleError::new(format!("{} {why}", quote(&whole)), hint)
    };
    let usual = "write a time such as 9:00, 17:30 or 6pm";
    let parts: Vec<u32> = numbers
        .split(':')
        .map(|part| part.parse().ok().filter(|_| part.len() <= 2))
        .collect::<Option<_>>()
        .ok_or_else(|| bad("is not a time", usual))?;
    let (hour, minute, second) = match parts[..] {
        [hour] => (hour, 0, 0),
        [hour, minute] if numbers.split(':').skip(1).all(|part| part.len() == 2) => {
            (hour, minute, 0)
        }
        [hour, minute, second] if numbers.split(':').skip(1).all(|part| part.len() == 2) => {
            (hour, minute, second)
        }
        _ => return Err(bad("is not a time", usual)),
    };
    let hour = match suffix {
        None if hour == 24 => return Err(bad("is on the next day", "write 00:00")),
        None => hour,
        Some("am" | "pm") if !(1..=12).contains(&hour) => {
            return Err(bad(
                "is not a time",
                "write it without am and pm, or from 1 to 12",
            ));
        }
        Some("am") => hour % 12,
        Some("pm") => hour % 12 + 12,
        Some(_) => return Err(bad("is not a time", usual)),
    };
    if hour > 23 || minute > 59 || second > 59 {
        return Err(bad("is not a time", usual));
    }
    Ok(hour * 3_600 + minute * 60 + second)
}

/// Parses optional minutes of an hour, `at :15 and :45`; the full hour by default.
pub(super) fn minutes(tokens: &mut Tokens<'_>) -> Result<u64, ScheduleError> {
    if !tokens.eat("at") {
        return Ok(1);
    }
    let minute = |word: &str| {
        let minute: u32 = word.strip_prefix(':')?.parse().ok()?;
        (word.len() == 3 && minute < 60).then_some(minute)
    };
    let Some(first) = tokens.read(minute) else {
        return Err(tokens.unexpected("write a minute of the hour such as :15"));
    };
    let mut set = 1 << first;
    while let Some(next) = tokens.next_in_list(minute) {
        set |= 1 << next;
    }
    Ok(set)
}
