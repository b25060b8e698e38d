//! Tokens of an English schedule.

use crate::clock::error::{ScheduleError, nearest, quote};

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

/// Keywords besides names of days and months, for suggestions.
const KNOWN: &[&str] = &[
    "every", "day", "daily", "weekday", "weekdays", "weekend", "weekends", "first", "second",
    "third", "fourth", "fifth", "last", "month", "year", "hour", "hourly", "minute", "minutes",
    "hours", "seconds", "days", "noon", "midnight", "once", "from", "the", "of", "on", "at", "and",
];

/// Index of a name, given in full or by its first three letters.
pub(in crate::clock) fn by_name(names: &[&str], word: &str) -> Option<u32> {
    let index = names
        .iter()
        .position(|name| *name == word || (word.len() == 3 && name.starts_with(word)))?;
    u32::try_from(index).ok()
}

/// A cursor over tokens: words and commas.
pub(super) struct Tokens<'a> {
    all: Vec<&'a str>,
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
        Self { all, at: 0 }
    }

    pub(super) fn peek(&self) -> Option<&'a str> {
        self.all.get(self.at).copied()
    }

    pub(super) fn peek_second(&self) -> Option<&'a str> {
        self.all.get(self.at + 1).copied()
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
        let rest = self.all[self.at..].join(" ");
        self.at = self.all.len();
        rest
    }

    /// The text parsed so far.
    pub(super) fn parsed(&self) -> String {
        self.all[..self.at].join(" ").replace(" ,", ",")
    }

    /// Fails if a word is left.
    pub(super) fn expect_end(&self) -> Result<(), ScheduleError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.unexpected("leave it out")),
        }
    }

    /// The error for an unexpected next word, or for a missing one.
    pub(super) fn unexpected(&self, hint: &str) -> ScheduleError {
        let so_far = self.parsed();
        let Some(word) = self.peek() else {
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
        let known = WEEKDAYS.iter().chain(MONTHS).chain(KNOWN).copied();
        match nearest(word, known.filter(|known| *known != word)) {
            Some(meant) if !is_known(word) => {
                ScheduleError::new(message, format!("did you mean `{meant}`?"))
            }
            _ => ScheduleError::new(message, hint),
        }
    }
}

/// Whether a word is spelled correctly, and only misplaced.
fn is_known(word: &str) -> bool {
    by_name(WEEKDAYS, word).is_some()
        || by_name(MONTHS, word).is_some()
        || KNOWN.contains(&word)
        || word.len() < 3
}
