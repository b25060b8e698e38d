//! The words of a schedule, one after the other.

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

/// Words of the grammar beside names of days and months, for suggestions.
const KNOWN: &[&str] = &[
    "every", "day", "daily", "weekday", "weekdays", "weekend", "weekends", "first", "second",
    "third", "fourth", "fifth", "last", "month", "year", "hour", "hourly", "minute", "minutes",
    "hours", "seconds", "days", "noon", "midnight", "once", "from", "the", "of", "on", "at", "and",
];

/// The place of a name, whole or by its first three letters.
pub(in crate::clock) fn by_name(names: &[&str], word: &str) -> Option<u32> {
    let place = names
        .iter()
        .position(|name| *name == word || (word.len() == 3 && name.starts_with(word)))?;
    u32::try_from(place).ok()
}

/// A cursor over words. A comma is a word of its own.
pub(super) struct Words<'a> {
    all: Vec<&'a str>,
    at: usize,
}

impl<'a> Words<'a> {
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

    /// The word after the next.
    pub(super) fn peek_second(&self) -> Option<&'a str> {
        self.all.get(self.at + 1).copied()
    }

    /// Takes the next word, whatever it is.
    pub(super) fn take(&mut self) -> Option<&'a str> {
        let word = self.peek()?;
        self.at += 1;
        Some(word)
    }

    /// Takes the next word if it is this one.
    pub(super) fn eat(&mut self, word: &str) -> bool {
        self.eat_any(&[word])
    }

    /// Takes the next word if it is one of these.
    pub(super) fn eat_any(&mut self, words: &[&str]) -> bool {
        self.read(|word| words.contains(&word).then_some(()))
            .is_some()
    }

    /// Takes the next word if it means something.
    pub(super) fn read<T>(&mut self, meaning: impl FnOnce(&'a str) -> Option<T>) -> Option<T> {
        let meant = meaning(self.peek()?)?;
        self.at += 1;
        Some(meant)
    }

    /// Takes `and`, a comma, or both, if such a word follows.
    pub(super) fn joins(&mut self, follows: impl FnOnce(&'a str) -> bool) -> bool {
        let before = self.at;
        let comma = self.eat(",");
        let and = self.eat("and");
        let joins = (comma || and) && self.peek().is_some_and(follows);
        if !joins {
            self.at = before;
        }
        joins
    }

    /// The next of a list, if there is one.
    pub(super) fn joined<T>(&mut self, meaning: impl Fn(&'a str) -> Option<T>) -> Option<T> {
        match self.joins(|word| meaning(word).is_some()) {
            true => self.read(meaning),
            false => None,
        }
    }

    /// Everything that is left, as one text.
    pub(super) fn rest(&mut self) -> String {
        let rest = self.all[self.at..].join(" ");
        self.at = self.all.len();
        rest
    }

    /// What has been understood so far.
    pub(super) fn understood(&self) -> String {
        self.all[..self.at].join(" ").replace(" ,", ",")
    }

    /// An error if anything is left.
    pub(super) fn end(&self) -> Result<(), ScheduleError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.lost("leave it out")),
        }
    }

    /// The error for a next word that does not fit here.
    pub(super) fn lost(&self, hint: &str) -> ScheduleError {
        let so_far = self.understood();
        let Some(word) = self.peek() else {
            return ScheduleError::new(format!("{} is not complete", quote(&so_far)), hint);
        };
        let message = match so_far.is_empty() {
            true => format!("{} is not understood", quote(word)),
            false => format!("{} is not understood after {}", quote(word), quote(&so_far)),
        };
        if word == "utc" || word == "gmt" || (word.contains('/') && !word.starts_with('/')) {
            return ScheduleError::new(message, "say the time zone beside the schedule, not in it");
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

/// A word that is spelt right; it stands in the wrong place.
fn is_known(word: &str) -> bool {
    by_name(WEEKDAYS, word).is_some()
        || by_name(MONTHS, word).is_some()
        || KNOWN.contains(&word)
        || word.len() < 3
}
