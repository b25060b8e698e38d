//! Tokens of an English schedule.

use crate::clock::error::{ScheduleError, quote};

/// Sunday first, as in cron.
pub(in crate::clock) const WEEKDAYS: &[&str] = &[
    "sunday",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
];

/// January first.
pub(in crate::clock) const MONTHS: &[&str] = &[
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// Numbers in words, and the same in digits.
pub(super) const NUMBERS: &[(&str, &str)] = &[
    ("one", "1"),
    ("two", "2"),
    ("three", "3"),
    ("four", "4"),
    ("five", "5"),
    ("six", "6"),
    ("seven", "7"),
    ("eight", "8"),
    ("nine", "9"),
    ("ten", "10"),
    ("eleven", "11"),
    ("twelve", "12"),
    ("fifteen", "15"),
    ("twenty", "20"),
    ("thirty", "30"),
    ("forty-five", "45"),
    ("sixty", "60"),
    ("ninety", "90"),
    ("sixth", "6th"),
    ("seventh", "7th"),
    ("eighth", "8th"),
    ("ninth", "9th"),
    ("tenth", "10th"),
    ("eleventh", "11th"),
    ("twelfth", "12th"),
    ("fifteenth", "15th"),
    ("twentieth", "20th"),
    ("thirtieth", "30th"),
];

/// Abbreviations of names that are longer than three letters.
const LONG_ABBREVIATIONS: &[&str] = &["tues", "thur", "thurs", "sept"];

/// Index of a name, given in full or abbreviated, mostly to three letters.
pub(in crate::clock) fn by_name(names: &[&str], word: &str) -> Option<u32> {
    let is_short = word.len() == 3 || LONG_ABBREVIATIONS.contains(&word);
    let index = names
        .iter()
        .position(|name| *name == word || (is_short && name.starts_with(word)))?;
    u32::try_from(index).ok()
}

/// A word or a comma.
#[derive(Clone, Copy, Debug)]
struct Token<'a> {
    /// As the user wrote it.
    text: &'a str,
    /// The same with digits for number words.
    word: &'a str,
}

/// A cursor over tokens.
#[derive(Clone, Debug)]
pub(super) struct Tokens<'a> {
    all: Vec<Token<'a>>,
    at: usize,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let mut all = Vec::new();
        for mut word in text.split_whitespace() {
            while let Some(comma) = word.find(',') {
                all.extend([&word[..comma], ","].into_iter().filter(|w| !w.is_empty()));
                word = &word[comma + 1..];
            }
            all.extend(Some(word).filter(|word| !word.is_empty()));
        }
        let token = |text| {
            let number = NUMBERS.iter().find(|(name, _)| *name == text);
            Token {
                text,
                word: number.map_or(text, |(_, digits)| digits),
            }
        };
        Self {
            all: all.into_iter().map(token).collect(),
            at: 0,
        }
    }

    pub(super) fn peek(&self) -> Option<&'a str> {
        self.peek_at(0)
    }

    /// The word some places after the next one.
    pub(super) fn peek_at(&self, ahead: usize) -> Option<&'a str> {
        self.all.get(self.at + ahead).map(|token| token.word)
    }

    /// The next word as the user wrote it.
    pub(super) fn peek_text(&self) -> Option<&'a str> {
        self.all.get(self.at).map(|token| token.text)
    }

    /// Consumes the next word.
    pub(super) fn take(&mut self) -> Option<&'a str> {
        let word = self.peek()?;
        self.at += 1;
        Some(word)
    }

    /// Consumes the next word if it is `word`.
    pub(super) fn eat(&mut self, word: &str) -> bool {
        self.eat_any(&[word])
    }

    /// Consumes the next word if it is one of `words`.
    pub(super) fn eat_any(&mut self, words: &[&str]) -> bool {
        self.read(|word| words.contains(&word).then_some(()))
            .is_some()
    }

    /// Consumes the next word if `meaning` accepts it.
    pub(super) fn read<T>(&mut self, meaning: impl FnOnce(&'a str) -> Option<T>) -> Option<T> {
        let meant = meaning(self.peek()?)?;
        self.at += 1;
        Some(meant)
    }

    /// Consumes `and`, a comma, or both, if a word follows that `follows` accepts.
    pub(super) fn eat_separator(&mut self, follows: impl FnOnce(&'a str) -> bool) -> bool {
        let before = self.at;
        let comma = self.eat(",");
        let and = self.eat("and");
        let joins = (comma || and) && self.peek().is_some_and(follows);
        if !joins {
            self.at = before;
        }
        joins
    }

    /// Consumes the next element of a list, if there is one.
    pub(super) fn next_in_list<T>(&mut self, meaning: impl Fn(&'a str) -> Option<T>) -> Option<T> {
        if self.eat_separator(|word| meaning(word).is_some()) {
            self.read(meaning)
        } else {
            None
        }
    }

    /// Consumes all remaining words, as one text.
    pub(super) fn take_rest(&mut self) -> String {
        let rest = self.text_between(self.at, self.all.len());
        self.at = self.all.len();
        rest
    }

    /// The text parsed so far.
    pub(super) fn parsed(&self) -> String {
        self.text_between(0, self.at)
    }

    /// The whole text.
    pub(super) fn whole(&self) -> String {
        self.text_between(0, self.all.len())
    }

    /// The whole text with another word in place of the next one, or without it.
    pub(super) fn whole_with(&self, word: Option<&str>) -> String {
        let (before, after) = self.all.split_at(self.at.min(self.all.len()));
        let before = before.iter().map(|token| token.text);
        let after = after.iter().skip(1).map(|token| token.text);
        join(before.chain(word).chain(after))
    }

    fn text_between(&self, from: usize, to: usize) -> String {
        join(self.all[from..to].iter().map(|token| token.text))
    }

    /// The error for an unexpected next word, or for a missing one.
    pub(super) fn unexpected(&self, hint: impl Into<String>) -> ScheduleError {
        let so_far = self.parsed();
        let Some(word) = self.peek_text() else {
            return ScheduleError::new(format!("{} is not complete", quote(&so_far)), hint);
        };
        let message = if so_far.is_empty() {
            format!("{} is not understood", quote(word))
        } else {
            format!("{} is not understood after {}", quote(word), quote(&so_far))
        };
        if word == "utc" || word == "gmt" || (word.contains('/') && !word.starts_with('/')) {
            return ScheduleError::new(
                message,
                "set the time zone in its own field, not in the schedule",
            );
        }
        ScheduleError::new(message, hint)
    }
}

fn join<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<&str> = words.collect();
    words.join(" ").replace(" ,", ",")
}
