//! Suggestions for a text that is refused.
//!
//! A suggestion is a whole schedule that was parsed before it is offered, and it never changes the
//! meaning: it keeps every word of the user's but the one that is wrong, in particular the time. If
//! several suggestions are equally near and mean different things, none is offered.

use super::tokens::{MONTHS, NUMBERS, Tokens, WEEKDAYS, by_name};
use super::{InstantContext, rule, unit};
use crate::clock::civil::{Pattern, Times};
use crate::clock::error::{ScheduleError, near, quote};
use crate::clock::rule::Rule;

/// Words of the grammar besides names of days and months, for misspelled ones.
const KNOWN: &[&str] = &[
    "every",
    "each",
    "day",
    "days",
    "daily",
    "everyday",
    "weekday",
    "weekdays",
    "weekend",
    "weekends",
    "business",
    "working",
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "last",
    "week",
    "weekly",
    "month",
    "monthly",
    "quarter",
    "year",
    "yearly",
    "hour",
    "hours",
    "hourly",
    "minute",
    "minutes",
    "seconds",
    "noon",
    "midnight",
    "once",
    "from",
    "between",
    "until",
    "through",
    "except",
    "synchronized",
    "other",
    "half",
    "run",
    "the",
    "and",
];

/// Words that are spelled correctly, and mean something that a schedule cannot express. To correct
/// them would change the meaning.
const UNSUPPORTED: &[&str] = &[
    "biannually",
    "bimonthly",
    "biweekly",
    "biyearly",
    "fortnightly",
    "semimonthly",
    "semiweekly",
];

/// Words without meaning for a schedule.
const FILLERS: &[&str] = &["please", "sharp", "exactly", "precisely", "promptly"];

/// Parts of a day, the hours of their times, and a time for a schedule that has none.
const DAYTIMES: &[(&str, [u32; 2], &str)] = &[
    ("morning", [0, 12], "9:00"),
    ("afternoon", [12, 18], "15:00"),
    ("evening", [16, 24], "18:00"),
    ("night", [18, 6], "22:00"),
];

/// Misspelled words of one text that are corrected.
const MISSPELLED_MAX: usize = 3;

/// An error with schedules that the user may have meant, nearest first. They are not checked yet.
#[derive(Debug)]
pub(super) struct Refusal {
    error: ScheduleError,
    suggestions: Vec<String>,
    /// A part of the day that the suggestion must fall into.
    daytime: Option<&'static str>,
}

impl Refusal {
    pub(super) fn suggesting(
        error: ScheduleError,
        suggestions: impl Iterator<Item = String>,
    ) -> Self {
        Self {
            error,
            suggestions: suggestions.collect(),
            daytime: None,
        }
    }
}

impl From<ScheduleError> for Refusal {
    fn from(error: ScheduleError) -> Self {
        Self::suggesting(error, std::iter::empty())
    }
}

/// The refusal of a word that does not name the day, which is the next one, with one that does in
/// its place.
pub(super) fn ambiguous(tokens: &Tokens<'_>, word: &str, replacement: &str) -> Refusal {
    let error = ScheduleError::new(
        format!("{} does not name the day", quote(word)),
        "name it, such as on monday or on the 1st",
    );
    let phrase = tokens.whole_with(Some(replacement));
    let with_time = format!("{phrase} at 9:00");
    Refusal::suggesting(error, [phrase, with_time].into_iter())
}

/// The refusal of a part of the day, which is the next word, with a word for the days in its place.
pub(super) fn daytime(tokens: &Tokens<'_>, part: &str, replacement: &str) -> Refusal {
    let error = ScheduleError::new(
        format!("{} is not exact", quote(tokens.peek_text().unwrap_or(part))),
        "name the days, and the time as 8:00 and 20:00, or as 8am and 8pm",
    );
    let Some((name, _, time)) = DAYTIMES.iter().find(|(name, ..)| *name == part) else {
        return error.into();
    };
    let phrase = match replacement {
        "" => tokens.whole_with(None),
        replacement => tokens.whole_with(Some(replacement)),
    };
    let with_time = format!("{phrase} at {time}");
    Refusal {
        error,
        suggestions: vec![phrase, with_time],
        daytime: Some(name),
    }
}

/// The error of a refusal, with the best suggestion as its hint. The cursor is where parsing ended.
pub(super) fn refine(
    refusal: Refusal,
    tokens: &Tokens<'_>,
    context: InstantContext<'_>,
) -> ScheduleError {
    let refusal = match tokens.peek() {
        Some(word) if refusal.suggestions.is_empty() && is_daytime(word) => {
            daytime(tokens, word, "")
        }
        _ => refusal,
    };
    let Refusal {
        error,
        suggestions,
        daytime,
    } = refusal;
    let suits = |text: &String| {
        parsed(text, context).is_some_and(|rule| daytime.is_none_or(|part| is_at(&rule, part)))
    };
    if let Some(suggestion) = suggestions.into_iter().find(suits) {
        return ScheduleError::new(error.message, format!("write `{suggestion}`"));
    }
    if let Some(suggestion) = corrected(tokens, context, MISSPELLED_MAX) {
        return ScheduleError::new(error.message, format!("did you mean `{suggestion}`?"));
    }
    let is_filler = tokens.peek().is_some_and(|word| FILLERS.contains(&word));
    let without = tokens.whole_with(None);
    if is_filler && parsed(&without, context).is_some() {
        return ScheduleError::new(error.message, "leave it out");
    }
    if let Some(hour) = tokens.peek_text().filter(|_| is_number(tokens.peek())) {
        let with_at = tokens.whole_with(Some(&format!("at {hour}")));
        if parsed(&with_at, context).is_some() {
            return ScheduleError::new(error.message, format!("write `{with_at}`"));
        }
    }
    error
}

fn parsed(text: &str, context: InstantContext<'_>) -> Option<Rule> {
    rule(&mut Tokens::new(text), context).ok()
}

fn is_number(word: Option<&str>) -> bool {
    word.is_some_and(|word| word.bytes().all(|b| b.is_ascii_digit()))
}

fn is_daytime(word: &str) -> bool {
    DAYTIMES.iter().any(|(name, ..)| *name == word)
}

/// Whether all times of a rule are in a part of the day.
fn is_at(rule: &Rule, part: &str) -> bool {
    let Some((_, [from, to], _)) = DAYTIMES.iter().find(|(name, ..)| *name == part) else {
        return false;
    };
    let Rule::Pattern(Pattern { times, .. }) = rule else {
        return false;
    };
    let is_inside = |time: u32| {
        let hour = time / 3_600;
        if from < to {
            (*from..*to).contains(&hour)
        } else {
            hour >= *from || hour < *to
        }
    };
    match times {
        Times::Fields { hours, .. } => (0..24)
            .filter(|hour| hours & 1 << hour != 0)
            .all(|hour| is_inside(hour * 3_600)),
        Times::List(list) => list.iter().copied().all(is_inside),
        Times::Steps(_) => false,
    }
}

/// The text with its misspelled words corrected, if there is one way to do so. The first of them is
/// the next word.
fn corrected(tokens: &Tokens<'_>, context: InstantContext<'_>, words_max: usize) -> Option<String> {
    let word = tokens.peek_text().filter(|word| !is_known(word))?;
    let texts: Vec<String> = near(word, vocabulary())
        .into_iter()
        .map(|known| tokens.whole_with(Some(known)))
        .collect();
    let mut rules = texts.iter().map(|text| parsed(text, context));
    if let Some(Some(meant)) = rules.next() {
        let is_clear = rules.all(|other| other.as_ref() == Some(&meant));
        return texts.into_iter().next().filter(|_| is_clear);
    }
    let ([text], 2..) = (&texts[..], words_max) else {
        return None;
    };
    let mut next = Tokens::new(text);
    rule(&mut next, context).err()?;
    corrected(&next, context, words_max - 1)
}

/// All words that a user may have meant, those that lead to another refusal included.
fn vocabulary() -> impl Iterator<Item = &'static str> {
    let daytimes = DAYTIMES.iter().map(|(name, ..)| *name);
    let numbers = NUMBERS.iter().map(|(name, _)| *name);
    let words = WEEKDAYS.iter().chain(MONTHS).chain(KNOWN).chain(FILLERS);
    words.copied().chain(daytimes).chain(numbers)
}

/// Whether a word is spelled correctly, and only misplaced.
fn is_known(word: &str) -> bool {
    word.len() < 3
        || word.starts_with(|c: char| !c.is_ascii_alphabetic())
        || by_name(WEEKDAYS, word).is_some()
        || by_name(MONTHS, word).is_some()
        || unit(word).is_some()
        || UNSUPPORTED.contains(&word)
        || vocabulary().any(|known| known == word)
}
