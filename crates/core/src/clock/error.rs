//! Why a text is no schedule.

use std::fmt;

/// What is wrong with an expression or a zone, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleError {
    /// What is wrong, beginning with the field if there is one: `minute: 75 is more than 59`.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

impl ScheduleError {
    pub(super) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: hint.into(),
        }
    }
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.message, self.hint)
    }
}

impl std::error::Error for ScheduleError {}

/// Somebody's text between backquotes: short, and harmless to a terminal.
pub(super) fn quote(text: &str) -> String {
    const SHOWN_MAX: usize = 60;
    let mut quoted = String::from("`");
    for c in text.chars().take(SHOWN_MAX) {
        match c.is_ascii_graphic() || c == ' ' || c.is_alphanumeric() {
            true => quoted.push(c),
            false => quoted.extend(c.escape_default()),
        }
    }
    if text.chars().nth(SHOWN_MAX).is_some() {
        quoted.push('…');
    }
    quoted.push('`');
    quoted
}

/// The candidate that was most likely meant, if any is near enough.
pub(super) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    // A longer word is no slip of the keys, and its distance costs the square.
    const CHARS_MAX: usize = 40;
    if word.chars().count() > CHARS_MAX {
        return None;
    }
    let word = word.to_ascii_lowercase();
    candidates
        .into_iter()
        .map(|candidate| {
            let plain = candidate.to_ascii_lowercase();
            (strsim::damerau_levenshtein(&word, &plain), candidate)
        })
        .filter(|(distance, candidate)| *distance <= 1 + word.len().min(candidate.len()) / 5)
        .min()
        .map(|(_, candidate)| candidate)
}
