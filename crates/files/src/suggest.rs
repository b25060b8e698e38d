//! Suggestions for unknown names.

use crate::limits::PROBLEMS_MAX;

/// Terms of other systems, with Baton's term.
const SYNONYMS: &[(&str, &str)] = &[
    ("args", "run"),
    ("boolean", "bool"),
    ("choices", "one_of"),
    ("cmd", "run"),
    ("cmdline", "run"),
    ("command", "run"),
    ("cores", "cpu"),
    ("cpus", "cpu"),
    ("concurrency", "max_concurrency"),
    ("concurrency", "max_concurrent"),
    ("cron", "schedule"),
    ("depends_on", "after"),
    ("dependencies", "after"),
    ("directory", "cwd"),
    ("enum", "one_of"),
    ("environment", "env"),
    ("gpus", "gpu"),
    ("integer", "int"),
    ("labels", "constraints"),
    ("limits", "rlimits"),
    ("logger", "log"),
    ("mem", "memory"),
    ("needs", "after"),
    ("number", "float"),
    ("max_parallel", "max_concurrency"),
    ("max_parallel", "max_concurrent"),
    ("parallelism", "max_concurrency"),
    ("parallelism", "max_concurrent"),
    ("parameters", "params"),
    ("ram", "memory"),
    ("readiness", "ready"),
    ("retries", "max_failures"),
    ("str", "string"),
    ("text", "string"),
    ("tz", "timezone"),
    ("ulimits", "rlimits"),
    ("working_dir", "cwd"),
    ("workdir", "cwd"),
];

/// Returns the most similar candidate, if one is similar enough.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = normalize(word);
    let is_synonym = |candidate: &str| {
        let mut terms = SYNONYMS.iter().filter(|(_, ours)| *ours == candidate);
        terms.any(|(term, _)| is_near(&plain, term))
    };
    candidates
        .into_iter()
        .map(|candidate| {
            let distance = if is_synonym(candidate) {
                0
            } else {
                strsim::damerau_levenshtein(&plain, &normalize(candidate))
            };
            (distance, candidate)
        })
        // One typo in a short word, two or three in a longer one.
        .filter(|(distance, candidate)| *distance <= 1 + plain.len().min(candidate.len()) / 4)
        .min()
        .map(|(_, candidate)| candidate)
}

/// True for a term, also with one typo in a long one.
fn is_near(word: &str, term: &str) -> bool {
    word == term || (term.len() > 5 && strsim::damerau_levenshtein(word, term) == 1)
}

/// Returns the hint for an unknown word. `found` is the number of problems so far: hints beyond
/// those reported are not shown, and computing them would cost the product of the wrong and the
/// right names of a file.
pub(crate) fn hint<'a>(
    found: usize,
    word: &str,
    candidates: impl IntoIterator<Item = &'a str> + Clone,
    otherwise: &str,
) -> String {
    if found > 2 * PROBLEMS_MAX {
        return "fix the other problems first".to_owned();
    }
    match nearest(word, candidates.clone()) {
        Some(candidate) => format!("did you mean `{candidate}`?"),
        None => format!("{otherwise} {}", list(candidates)),
    }
}

/// Lists names in a sentence: sorted and shortened, or `none`.
pub(crate) fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const SHOWN_MAX: usize = 30;
    let mut names: Vec<&str> = names.into_iter().collect();
    names.sort_unstable();
    if names.is_empty() {
        return "none".to_owned();
    }
    let more = names.len().saturating_sub(SHOWN_MAX);
    names.truncate(SHOWN_MAX);
    let mut text = crate::error::clean(&names.join(", "));
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

/// Normalizes case and dashes, which do not distinguish names.
fn normalize(word: &str) -> String {
    // The cost of the distance is quadratic in the length, so only a prefix is compared.
    const CHARS_MAX: usize = 64;
    word.chars()
        .take(CHARS_MAX)
        .map(|c| {
            if c == '-' {
                '_'
            } else {
                c.to_ascii_lowercase()
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &[&str] = &["name", "run", "after", "max_failures", "min_duration"];

    #[test]
    fn slips_cases_and_dashes_are_understood() {
        let near = |word| nearest(word, FIELDS.iter().copied());
        assert_eq!(near("nmae"), Some("name"));
        assert_eq!(near("Max-Failures"), Some("max_failures"));
        assert_eq!(near("max_failure"), Some("max_failures"));
        assert_eq!(near("depends_on"), Some("after"));
        assert_eq!(near("comand"), Some("run"));
        assert_eq!(
            nearest("parallelism", ["max_concurrent"]),
            Some("max_concurrent")
        );
    }

    #[test]
    fn a_far_word_suggests_nothing() {
        assert_eq!(nearest("colour", FIELDS.iter().copied()), None);
        assert_eq!(nearest("", []), None);
    }
}
