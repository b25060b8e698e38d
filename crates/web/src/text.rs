//! Durations, sizes and counts as people read them, and text from other sources: made harmless, and
//! cut to a width.
//!
//! Widths are those of a terminal, estimated on the wide side, character by character. All text is
//! measured by the same rule, so that columns stay aligned.

use baton_model::time::Millis;
use unicode_width::UnicodeWidthChar as _;

/// A duration: `0.25 s`, `12 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`.
#[must_use]
pub fn duration(seconds: f64) -> String {
    let seconds = seconds.max(0.0);
    if seconds < 10.0 {
        return format!("{seconds:.2} s");
    }
    let whole = seconds as u64;
    let (days, hours, minutes, rest) = (
        whole / 86_400,
        whole / 3_600 % 24,
        whole / 60 % 60,
        whole % 60,
    );
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{rest} s"),
        (0, 0, _) => format!("{minutes} min {rest} s"),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// A duration in its two largest units, without spaces: `250ms`, `1.5s`, `2m05s`, `3h00m`, `4d12h`.
#[must_use]
pub fn span(span: Millis) -> String {
    let ms = span.0;
    let seconds = ms / 1_000;
    match seconds {
        0 => format!("{ms}ms"),
        1..60 if ms.is_multiple_of(1_000) => format!("{seconds}s"),
        1..60 => format!("{seconds}.{}s", ms % 1_000 / 100),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// A number of bytes: `61 B`, `5.3 MiB`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    let mut size = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if size < 1_024.0 && unit == "B" {
            return format!("{bytes} B");
        }
        if size < 1_024.0 || unit == "TiB" {
            return format!("{size:.1} {unit}");
        }
        size /= 1_024.0;
    }
    format!("{bytes} B")
}

/// A size in binary units, without a space: `12B`, `1.5MiB`.
#[must_use]
pub fn size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1_024 {
        return format!("{bytes}B");
    }
    let (mut tenths, mut unit) = (u128::from(bytes) * 10 / 1_024, 0);
    while tenths >= 10_240 && unit + 1 < units.len() {
        tenths /= 1_024;
        unit += 1;
    }
    match tenths % 10 {
        0 => format!("{}{}", tenths / 10, units[unit]),
        tenth => format!("{}.{tenth}{}", tenths / 10, units[unit]),
    }
}

/// A number with its noun: `1 run`, `2 runs`.
#[must_use]
pub fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// A number with separators: `1,234,567`.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Escapes control characters in text from another source, so that it stays on one line.
#[must_use]
pub fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) {
            clean.extend(c.escape_default())
        } else {
            clean.push(c)
        }
    }
    clean
}

/// True for control characters, and for invisible characters that reorder text.
#[must_use]
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Quotes a word for a shell if necessary.
#[must_use]
pub fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+,=".contains(c);
    if !word.is_empty() && !word.starts_with('-') && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Width of a text in terminal columns.
#[must_use]
pub fn display_width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// Truncates a text to a width.
#[must_use]
pub fn fit(text: &str, width: usize) -> String {
    cut(text, width, false)
}

/// Truncates a text to a width; if `more` text follows, also one that would fill it exactly.
#[must_use]
pub fn cut(text: &str, width: usize, more: bool) -> String {
    let room = width.saturating_sub(usize::from(more));
    if display_width(text) <= room {
        return text.to_owned();
    }
    let mut left = width.saturating_sub(1);
    let mut truncated = String::new();
    for c in text.chars() {
        let Some(rest) = left.checked_sub(char_width(c)) else {
            break;
        };
        left = rest;
        truncated.push(c);
    }
    if width > 0 {
        truncated.push('…');
    }
    truncated
}

fn char_width(c: char) -> usize {
    match c {
        // It turns the character before it into an emoji of two columns.
        '\u{fe0f}' => 1,
        c => c.width().unwrap_or(1),
    }
}

/// A number of cores from thousandths: `2`, `0.5`.
#[must_use]
pub fn cores(milli: u64) -> String {
    let (whole, part) = (milli / 1_000, milli % 1_000);
    if part == 0 {
        return whole.to_string();
    }
    let part = format!("{part:03}");
    format!("{whole}.{}", part.trim_end_matches('0'))
}

/// Percent-encodes a text for a path or a query.
#[must_use]
pub fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_are_short() {
        for (seconds, text) in [
            (0.25, "0.25 s"),
            (12.9, "12 s"),
            (200.0, "3 min 20 s"),
            (7_500.0, "2 h 5 min"),
            (273_600.0, "3 d 4 h"),
            (-1.0, "0.00 s"),
        ] {
            assert_eq!(duration(seconds), text);
        }
        for (size, text) in [
            (61, "61 B"),
            (5_557_452, "5.3 MiB"),
            (1 << 50, "1024.0 TiB"),
        ] {
            assert_eq!(bytes(size), text);
        }
        assert_eq!(
            (count(1, "run"), count(2, "run")),
            ("1 run".into(), "2 runs".into())
        );
        assert_eq!((cores(2_000), cores(500)), ("2".into(), "0.5".into()));
        assert_eq!(encoded("a/b ä"), "a%2Fb%20%C3%A4");
    }

    #[test]
    fn spans_show_two_units() {
        for (ms, text) in [
            (0, "0ms"),
            (999, "999ms"),
            (5_000, "5s"),
            (1_550, "1.5s"),
            (59_999, "59.9s"),
            (125_000, "2m05s"),
            (10_800_000, "3h00m"),
            (388_800_000, "4d12h"),
        ] {
            assert_eq!(span(Millis(ms)), text);
        }
    }

    #[test]
    fn a_text_is_cut_to_its_columns() {
        assert_eq!(fit("abc", 3), "abc");
        assert_eq!(fit("abcd", 3), "ab…");
        assert_eq!(fit("数据清洗", 5), "数据…");
        assert_eq!(fit("数据清洗", 4), "数…");
        assert_eq!(fit("abcd", 1), "…");
        assert_eq!(fit("abcd", 0), "");
    }

    #[test]
    fn names_cannot_drive_a_terminal() {
        assert_eq!(clean("a\u{1b}[2J\n\u{202e}b"), "a\\u{1b}[2J\\n\\u{202e}b");
        assert_eq!(clean("grün"), "grün");
    }

    #[test]
    fn sizes_are_binary() {
        for (bytes, text) in [
            (0, "0B"),
            (1_023, "1023B"),
            (1_536, "1.5KiB"),
            (256 << 20, "256MiB"),
            (u64::MAX, "15.9EiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn words_are_quoted_for_a_shell_where_they_need_to_be() {
        assert_eq!(shell("fit-model.v2"), "fit-model.v2");
        assert_eq!(shell("it's $HOME"), r"'it'\''s $HOME'");
        assert_eq!(shell("-f"), "'-f'");
        assert_eq!(shell(""), "''");
    }
}
