//! Errors of schedule expressions.

/// An invalid expression or time zone, with a hint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}; {hint}")]
pub struct ScheduleError {
    /// What is wrong, beginning with the field if there is one: `minute: 75 is more than 59`.
    pub message: String,
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

/// User text in backquotes: shortened, with control characters escaped.
pub(super) fn quote(text: &str) -> String {
    const SHOWN_MAX: usize = 60;
    let mut quoted = String::from("`");
    for c in text.chars().take(SHOWN_MAX) {
        if c.is_ascii_graphic() || c == ' ' || c.is_alphanumeric() {
            quoted.push(c);
        } else {
            quoted.extend(c.escape_default());
        }
    }
    if text.chars().nth(SHOWN_MAX).is_some() {
        quoted.push('…');
    }
    quoted.push('`');
    quoted
}

/// The candidate with the smallest edit distance, if it is small enough.
pub(super) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    near(word, candidates).into_iter().min()
}

/// All candidates with the smallest edit distance, if it is small enough.
pub(super) fn near<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    // A longer word is not a typing error, and its distance costs the square.
    const CHARS_MAX: usize = 40;
    if word.chars().count() > CHARS_MAX {
        return Vec::new();
    }
    let word = word.to_ascii_lowercase();
    let distances: Vec<(usize, &str)> = candidates
        .into_iter()
        .map(|candidate| {
            let plain = candidate.to_ascii_lowercase();
            (strsim::damerau_levenshtein(&word, &plain), candidate)
        })
        .filter(|(distance, candidate)| *distance <= 1 + word.len().min(candidate.len()) / 5)
        .collect();
    let least = distances.iter().map(|(distance, _)| *distance).min();
    let nearest = distances
        .into_iter()
        .filter(|(distance, _)| Some(*distance) == least);
    nearest.map(|(_, candidate)| candidate).collect()
}
