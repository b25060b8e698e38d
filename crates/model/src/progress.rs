//! Progress that a task reports of itself: the newest line of the file that `BATON_PROGRESS` names.
//!
//! A line is `42/100 message`, `42% message`, or just a message.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::limits::PROGRESS_BYTES_MAX;
use crate::time::Wall;

/// The name of the variable.
pub const PROGRESS_VARIABLE: &str = "BATON_PROGRESS";

/// Digits of a number that counts: JSON readers that only know doubles read it exactly.
const DIGITS_MAX: usize = 15;
/// Ends a message that was cut.
const ELLIPSIS: char = '…';

/// How far an attempt has come, in its own words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ReportedProgress))]
pub struct Progress {
    /// Steps that are done; absent if the line has only a message.
    pub done: Option<u64>,
    /// All steps; 100 for a percentage.
    pub total: Option<u64>,
    /// The rest of the line, at most 200 bytes, with control characters escaped; may be empty.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub message: Arc<str>,
    /// When it was written, by the clock of the worker.
    #[cfg_attr(feature = "openapi", schema(value_type = u64))]
    pub at: Wall,
}

impl Progress {
    /// Parses a line; none if it is blank.
    #[must_use]
    pub fn parse(line: &str, at: Wall) -> Option<Self> {
        let line = line.trim();
        let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let (steps, message) = match fraction(first).or_else(|| percentage(first)) {
            Some(steps) => (Some(steps), rest),
            None => (None, line),
        };
        (!line.is_empty()).then(|| Self {
            done: steps.map(|(done, _)| done),
            total: steps.map(|(_, total)| total),
            message: escape(message.trim()),
            at,
        })
    }

    /// False for what no worker of ours sends.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.message.len() <= PROGRESS_BYTES_MAX
            && self.done.is_some() == self.total.is_some()
            && self.total != Some(0)
    }

    /// Steps that are done, and all of them: never more than all, and never of none.
    #[must_use]
    pub fn steps(&self) -> Option<(u64, u64)> {
        let (done, total) = (self.done?, self.total?);
        (total > 0).then(|| (done.min(total), total))
    }

    /// True if both say the same, whenever they said it.
    #[must_use]
    pub fn says_the_same(&self, other: &Self) -> bool {
        (self.done, self.total, &self.message) == (other.done, other.total, &other.message)
    }

    /// The same as one line of text: `42/100 message`.
    #[must_use]
    pub fn text(&self) -> String {
        let steps = match (self.done, self.total) {
            (Some(done), Some(100)) => format!("{done}%"),
            (Some(done), Some(total)) => format!("{done}/{total}"),
            _ => String::new(),
        };
        match (steps.is_empty(), self.message.is_empty()) {
            (false, false) => format!("{steps} {}", self.message),
            (false, true) => steps,
            (true, _) => self.message.to_string(),
        }
    }
}

/// `42/100`.
fn fraction(word: &str) -> Option<(u64, u64)> {
    let (done, total) = word.split_once('/')?;
    let (done, total) = (number(done)?, number(total)?);
    (total > 0).then_some((done, total))
}

/// `42%`, or `42.5%`, which is rounded down.
fn percentage(word: &str) -> Option<(u64, u64)> {
    let figure = word.strip_suffix('%')?;
    let (whole, part) = figure.split_once('.').unwrap_or((figure, "0"));
    number(part)?;
    Some((number(whole)?, 100))
}

fn number(digits: &str) -> Option<u64> {
    let is_number = digits.len() <= DIGITS_MAX && digits.bytes().all(|it| it.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

/// Escapes control characters, and cuts what is too long.
fn escape(message: &str) -> Arc<str> {
    let mut text = String::with_capacity(message.len().min(PROGRESS_BYTES_MAX));
    for c in message.chars() {
        let before = text.len();
        if c.is_control() {
            text.extend(c.escape_default());
        } else {
            text.push(c);
        }
        if text.len() > PROGRESS_BYTES_MAX {
            text.truncate(before);
            let room = PROGRESS_BYTES_MAX - ELLIPSIS.len_utf8();
            text.truncate(text.floor_char_boundary(room));
            text.push(ELLIPSIS);
            break;
        }
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Option<(Option<u64>, Option<u64>, String)> {
        let parsed = Progress::parse(line, Wall(7))?;
        assert!(parsed.is_valid(), "{parsed:?}");
        Some((parsed.done, parsed.total, parsed.message.to_string()))
    }

    #[test]
    fn a_line_is_a_fraction_a_percentage_or_a_message() {
        let steps =
            |done, total, message: &str| Some((Some(done), Some(total), message.to_owned()));
        let message = |text: &str| Some((None, None, text.to_owned()));
        for (line, expected) in [
            ("42/100 rows", steps(42, 100, "rows")),
            ("  7/8\r", steps(7, 8, "")),
            ("42%\t two  words ", steps(42, 100, "two  words")),
            ("99.9% nearly", steps(99, 100, "nearly")),
            ("120/100 more than all", steps(120, 100, "more than all")),
            ("loading", message("loading")),
            ("1/0 x", message("1/0 x")),
            ("-1/5", message("-1/5")),
            ("+1%", message("+1%")),
            ("1/2/3", message("1/2/3")),
            ("%", message("%")),
            ("1.%", message("1.%")),
            ("9999999999999999/1", message("9999999999999999/1")),
            ("", None),
            (" \t ", None),
        ] {
            assert_eq!(parse(line), expected, "{line:?}");
        }
    }

    #[test]
    fn messages_are_bounded_and_harmless() {
        let parsed = parse("1/2 \u{1b}[31mred\u{7}").expect("a line");
        assert_eq!(parsed.2, "\\u{1b}[31mred\\u{7}");
        for long in ["x".repeat(1_000), "é".repeat(1_000), "\u{1}".repeat(1_000)] {
            let (_, _, message) = parse(&long).expect("a line");
            assert!(message.len() <= PROGRESS_BYTES_MAX, "{}", message.len());
            assert!(message.ends_with('…'), "{message}");
        }
        let whole = "x".repeat(PROGRESS_BYTES_MAX);
        assert_eq!(parse(&whole), Some((None, None, whole)));
    }

    #[test]
    fn steps_never_exceed_all_of_them() {
        let steps = |line| Progress::parse(line, Wall(0)).and_then(|it| it.steps());
        assert_eq!(steps("3/4"), Some((3, 4)));
        assert_eq!(steps("5/4"), Some((4, 4)));
        assert_eq!(steps("words"), None);
        let text = |line| Progress::parse(line, Wall(0)).map(|it| it.text());
        assert_eq!(text("3/4  a").as_deref(), Some("3/4 a"));
        assert_eq!(text("30%").as_deref(), Some("30%"));
        assert_eq!(text("words").as_deref(), Some("words"));
    }
}
