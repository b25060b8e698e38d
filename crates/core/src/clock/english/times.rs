//! Times of a day: `at 9:00`, `6pm`, `at 9:00 and 17:00`, `at noon`; windows: `from 9:00 to 17:00`.

use super::days::ordinal;
use super::tokens::Tokens;
use crate::clock::civil::Times;
use crate::clock::error::{ScheduleError, quote};
use crate::clock::limits::TIMES_MAX;

const HALVES: &[&str] = &["am", "pm"];

/// The span of a day in which an interval is due, both ends included.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) start: u32,
    pub(super) end: u32,
}

/// Whether the next word is a time without doubt. A plain number is one only after `at`.
pub(super) fn is_time_next(tokens: &Tokens<'_>) -> bool {
    let Some(word) = tokens.peek().filter(|word| starts_time(word)) else {
        return false;
    };
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let half = &word[digits.len()..];
    let half_follows = tokens.peek_at(1).is_some_and(|next| HALVES.contains(&next));
    matches!(word, "noon" | "midnight")
        || digits.contains(':')
        || HALVES.contains(&half)
        || (half.is_empty() && half_follows)
}

/// Parses a list of times, after an `at` if there is one.
pub(super) fn times(tokens: &mut Tokens<'_>) -> Result<Times, ScheduleError> {
    let mut list = vec![time(tokens)?.0];
    while tokens.eat_separator(starts_time) {
        list.push(time(tokens)?.0);
        if list.len() > TIMES_MAX {
            return Err(ScheduleError::new(
                format!("more than {TIMES_MAX} times of a day are too many"),
                "write an interval, such as every 10 minutes",
            ));
        }
    }
    Ok(Times::of_list(list))
}

/// Parses the rest of a window, after `from` or `between`.
pub(super) fn window(
    tokens: &mut Tokens<'_>,
    separators: &[&str],
) -> Result<Window, ScheduleError> {
    let (start, is_plain_start) = time(tokens)?;
    if !tokens.eat_any(separators) {
        let hint = match separators {
            [and] => format!("write `{and}` and the end of the window"),
            _ => "write `to` and the end of the window, such as `to 17:00`".to_owned(),
        };
        return Err(tokens.unexpected(hint));
    }
    let (end, is_plain_end) = time(tokens)?;
    // `from 9 to 5` hardly means the night.
    if end < start && (is_plain_start || is_plain_end) {
        return Err(ScheduleError::new(
            format!("{} goes over midnight", quote(&tokens.parsed())),
            "write both times with am or pm, or as 9:00 and 17:00",
        ));
    }
    Ok(Window { start, end })
}

fn starts_time(word: &str) -> bool {
    let is_number = word.starts_with(|c: char| c.is_ascii_digit());
    matches!(word, "noon" | "midnight") || (is_number && ordinal(word).is_none())
}

/// Parses a time as seconds since midnight, and whether it is only an hour from 1 to 12, without am
/// and pm.
fn time(tokens: &mut Tokens<'_>) -> Result<(u32, bool), ScheduleError> {
    let Some(word) = tokens.peek().filter(|word| starts_time(word)) else {
        return Err(tokens.unexpected("write a time such as 9:00, 6pm, noon or midnight"));
    };
    let text = tokens.peek_text().unwrap_or(word);
    tokens.take();
    match word {
        "midnight" => return Ok((0, false)),
        "noon" => return Ok((12 * 3_600, false)),
        _ => {}
    }
    let end = word.find(|c: char| c.is_ascii_alphabetic());
    let (numbers, suffix) = word.split_at(end.unwrap_or(word.len()));
    let suffix = match suffix {
        "" => tokens.read(|word| HALVES.iter().copied().find(|half| *half == word)),
        half => Some(half),
    };
    let bad = |reason: &str, hint: &str| {
        let whole = match suffix.filter(|_| end.is_none()) {
            Some(half) => format!("{text} {half}"),
            None => text.to_owned(),
        };
        ScheduleError::new(format!("{} {reason}", quote(&whole)), hint)
    };
    let usual = "write a time such as 9:00, 17:30 or 6pm";
    if let Some((hour, minute)) = without_colon(numbers) {
        return Err(bad(
            "has no colon",
            &format!("write it as {hour}:{minute}{}", suffix.unwrap_or_default()),
        ));
    }
    let parts: Vec<u32> = numbers
        .split(':')
        .map(|part| part.parse().ok().filter(|_| part.len() <= 2))
        .collect::<Option<_>>()
        .ok_or_else(|| bad("is not a time", usual))?;
    let has_two_digits = numbers.split(':').skip(1).all(|part| part.len() == 2);
    let (hour, minute, second) = match parts[..] {
        [hour] => (hour, 0, 0),
        [hour, minute] if has_two_digits => (hour, minute, 0),
        [hour, minute, second] if has_two_digits => (hour, minute, second),
        _ => return Err(bad("is not a time", usual)),
    };
    let is_plain = parts.len() == 1 && suffix.is_none() && (1..=12).contains(&hour);
    let hour = match suffix {
        None if hour == 24 => {
            return Err(bad(
                "is the midnight of the next day",
                "write 00:00 of that day",
            ));
        }
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
    Ok((hour * 3_600 + minute * 60 + second, is_plain))
}

/// `0930`, as its hour and minute.
fn without_colon(numbers: &str) -> Option<(&str, &str)> {
    let is_four = numbers.len() == 4 && numbers.bytes().all(|b| b.is_ascii_digit());
    is_four.then(|| numbers.split_at(2))
}

/// Parses optional minutes of an hour, `at :15 and :45`; the full hour by default.
pub(super) fn minutes(tokens: &mut Tokens<'_>) -> Result<u64, ScheduleError> {
    let minute = |word: &str| {
        let minute: u32 = word.strip_prefix(':')?.parse().ok()?;
        (word.len() == 3 && minute < 60).then_some(minute)
    };
    let is_minute = tokens.peek_at(1).is_some_and(|word| word.starts_with(':'));
    if tokens.peek() != Some("at") || !is_minute {
        return Ok(1);
    }
    tokens.take();
    let Some(first) = tokens.read(minute) else {
        return Err(tokens.unexpected("write a minute of the hour, from :00 to :59"));
    };
    let mut set = 1 << first;
    while let Some(next) = tokens.next_in_list(minute) {
        set |= 1 << next;
    }
    Ok(set)
}
