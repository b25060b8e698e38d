//! Words of notices.

/// A number with separators: `1,000`.
pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The beginning of a text.
pub(super) fn cut(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(chars_max).collect();
    cut.push('…');
    cut
}

/// The end of a text, from the begin of a line if there is one.
pub(super) fn tail(text: &str, chars_max: usize) -> String {
    let surplus = text.chars().count().saturating_sub(chars_max);
    if surplus == 0 {
        return text.to_owned();
    }
    let end: String = text.chars().skip(surplus).collect();
    match end.split_once('\n') {
        Some((_, lines)) if !lines.is_empty() => lines.to_owned(),
        _ => end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_separators() {
        for (given, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(number(given), text);
        }
    }

    #[test]
    fn texts_are_cut_at_characters_and_lines() {
        assert_eq!(cut("äöü", 2), "äö…");
        assert_eq!(tail("first\nsecond\nthird", 10), "third");
        assert_eq!(tail("äöü", 2), "öü");
    }
}
