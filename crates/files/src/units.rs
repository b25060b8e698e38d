//! Parsers of durations, rates, sizes and decimal numbers: `1h30m`, `10/s`, `256MiB`, `0.5`.
//!
//! Each function returns a [`UnitError`] with message and hint; the caller adds the location. A
//! duration without a unit is rejected, except zero.

use baton_model::rate::Rate;
use baton_model::time::Millis;

use crate::error::{Kind, quote};
use crate::limits::{COUNT_MAX, DURATION_MS_MAX, SIZE_BYTES_MAX};

/// The error of a malformed duration, size or number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}; {hint}")]
pub struct UnitError {
    /// [`Kind::BadValue`] or [`Kind::OutOfRange`].
    pub kind: Kind,
    pub message: String,
    pub hint: String,
}

impl UnitError {
    fn bad(message: String, hint: &str) -> Self {
        Self {
            kind: Kind::BadValue,
            message,
            hint: hint.to_owned(),
        }
    }

    fn range(message: String, hint: &str) -> Self {
        Self {
            kind: Kind::OutOfRange,
            message,
            hint: hint.to_owned(),
        }
    }
}

/// Units in milliseconds, longest first: parts of a duration follow this order.
const TIMES: &[(&str, u64)] = &[
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

const TIME_HINT: &str = "write a duration such as 250ms, 5s, 10m, 1h30m or 2d";

/// Units in bytes. A single letter is binary, as for `du` and `ulimit`.
const SIZES: &[(&str, u64)] = &[
    ("B", 1),
    ("K", 1 << 10),
    ("KB", 1_000),
    ("KiB", 1 << 10),
    ("M", 1 << 20),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("G", 1 << 30),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
    ("T", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("TiB", 1 << 40),
];

const SIZE_HINT: &str = "write a size such as 256MiB, 1GB or a plain number of bytes";

/// Parses a duration: `5s`, `10m`, `1h30m`, `250ms`, `1.5h`, `0`.
///
/// # Errors
/// A missing or unknown unit, parts out of order, or more than ten years.
pub fn duration(text: &str) -> Result<Millis, UnitError> {
    let bad = |reason: &str| UnitError::bad(format!("{} {reason}", quote(text)), TIME_HINT);
    if text == "0" {
        return Ok(Millis(0));
    }
    let mut rest = text;
    let mut total: u64 = 0;
    let mut units = TIMES;
    if rest.is_empty() {
        return Err(bad("is not a duration"));
    }
    while !rest.is_empty() {
        let digits = number_length(rest);
        let letters = rest[digits..]
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(rest.len() - digits);
        let unit = &rest[digits..digits + letters];
        if digits == 0 {
            return Err(bad("is not a duration"));
        }
        if unit.is_empty() {
            let space = rest[digits..].starts_with(char::is_whitespace);
            return Err(bad(if space {
                "contains a space"
            } else {
                "has no unit"
            }));
        }
        let Some(index) = units.iter().position(|(name, _)| *name == unit) else {
            let known = TIMES.iter().any(|(name, _)| *name == unit);
            return Err(bad(if known {
                "must name each unit once, from the longest to the shortest"
            } else {
                "has an unknown unit; the units are d, h, m, s and ms"
            }));
        };
        let part = whole(&rest[..digits], units[index].1)
            .map_err(|error| error.explain(text, "milliseconds", TIME_HINT))?;
        total = total.saturating_add(part);
        units = &units[index + 1..];
        rest = &rest[digits + letters..];
    }
    if total > DURATION_MS_MAX {
        let message = format!("{} is longer than ten years", quote(text));
        return Err(UnitError::range(message, TIME_HINT));
    }
    Ok(Millis(total))
}

/// Parses a rate: `10/s`, `600/m`, `5/30s`.
///
/// # Errors
/// A missing or wrong count or period.
pub fn rate(text: &str) -> Result<Rate, UnitError> {
    let parsed = text.split_once('/').and_then(|(count, per)| {
        let count: u32 = count.trim().parse().ok()?;
        let per = per.trim();
        // A unit without a number means one.
        let per = if per.starts_with(|c: char| c.is_ascii_digit()) {
            duration(per)
        } else {
            duration(&format!("1{per}"))
        };
        let per = per.ok().filter(|per| *per > Millis(0))?;
        (1..=COUNT_MAX)
            .contains(&count)
            .then_some(Rate { count, per })
    });
    parsed.ok_or_else(|| UnitError::bad(format!("{} is not a rate", quote(text)), RATE_HINT))
}

pub(crate) const RATE_HINT: &str = "write a count per duration, such as 1/s, 10/m or 5/30s";

/// Parses a size in bytes: `256MiB`, `1GB`, `20G`, `1.5GiB`, `4096`.
///
/// # Errors
/// An unknown unit, a part of a byte, or more than an exbibyte.
pub fn size(text: &str) -> Result<u64, UnitError> {
    let bad = |reason: &str| UnitError::bad(format!("{} {reason}", quote(text)), SIZE_HINT);
    let digits = number_length(text);
    if digits == 0 {
        return Err(bad("is not a size"));
    }
    let unit = text[digits..].trim_start_matches(' ');
    let known = SIZES.iter().find(|(name, _)| *name == unit);
    let bytes = match known {
        Some((_, bytes)) => *bytes,
        None if unit.is_empty() => 1,
        None => {
            let mut error =
                bad("has an unknown unit; the units are B, KB, KiB, MB, MiB, GB, GiB, TB and TiB");
            let near = |(name, _): &&(&str, u64)| name.eq_ignore_ascii_case(unit);
            if let Some((name, _)) = SIZES.iter().find(near) {
                error.hint = format!("did you mean `{}{name}`?", &text[..digits]);
            }
            return Err(error);
        }
    };
    let total =
        whole(&text[..digits], bytes).map_err(|error| error.explain(text, "bytes", SIZE_HINT))?;
    if total > SIZE_BYTES_MAX {
        let message = format!("{} is more than an exbibyte", quote(text));
        return Err(UnitError::range(message, SIZE_HINT));
    }
    Ok(total)
}

/// Parses a number with at most three decimals, in thousandths: `2` is 2000, `0.5` is 500.
///
/// # Errors
/// Anything else, a sign and an exponent included.
pub fn thousandths(text: &str) -> Result<u64, UnitError> {
    const HINT: &str = "write a number with at most three decimals, such as 2 or 0.5";
    if text.is_empty() || number_length(text) != text.len() {
        return Err(UnitError::bad(
            format!("{} is not a decimal number", quote(text)),
            HINT,
        ));
    }
    whole(text, 1_000).map_err(|error| error.explain(text, "thousandths", HINT))
}

/// Formats a duration so that [`duration`] reads it back: `1h30m`.
#[must_use]
pub fn duration_text(span: Millis) -> String {
    let mut rest = span.0;
    let mut text = String::new();
    for (unit, length) in TIMES {
        if rest >= *length {
            text.push_str(&format!("{}{unit}", rest / length));
            rest %= length;
        }
    }
    if text.is_empty() {
        "0s".to_owned()
    } else {
        text
    }
}

/// Formats a size in its largest exact unit, so that [`size`] reads it back: `64GiB`.
#[must_use]
pub fn size_text(size: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = units
        .iter()
        .find(|(shift, _)| size > 0 && size.is_multiple_of(1 << shift));
    match whole {
        Some((shift, unit)) => format!("{}{unit}", size >> shift),
        None => format!("{size}B"),
    }
}

/// Splits `a..b` into its ends; without `..` there is only one. The second end of `a..` is empty.
pub(crate) fn ends(text: &str) -> (&str, Option<&str>) {
    match text.split_once("..") {
        Some((low, high)) => (low.trim(), Some(high.trim())),
        None => (text.trim(), None),
    }
}

/// Returns the length of the leading digits with at most one point.
fn number_length(text: &str) -> usize {
    let mut points = 0;
    text.find(|c: char| {
        points += usize::from(c == '.');
        !(c.is_ascii_digit() || (c == '.' && points == 1))
    })
    .unwrap_or(text.len())
}

/// Why a decimal number of units is not a whole number of the smallest unit.
enum DecimalError {
    NoNumber,
    Fraction,
    TooLarge,
}

impl DecimalError {
    fn explain(&self, text: &str, smallest: &str, hint: &str) -> UnitError {
        let text = quote(text);
        match self {
            Self::NoNumber => UnitError::bad(
                format!("{text} has no digits after its decimal point"),
                hint,
            ),
            Self::Fraction => {
                UnitError::bad(format!("{text} is not a whole number of {smallest}"), hint)
            }
            Self::TooLarge => UnitError::range(format!("{text} is too large"), hint),
        }
    }
}

/// Returns `number * unit`; the number may have a fraction, the result must not.
fn whole(number: &str, unit: u64) -> Result<u64, DecimalError> {
    let (integer, fraction) = match number.split_once('.') {
        Some((_, "")) => return Err(DecimalError::NoNumber),
        Some((integer, fraction)) => (integer, fraction),
        None => (number, ""),
    };
    // More digits than this are below the smallest unit.
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > 15 {
        return Err(DecimalError::Fraction);
    }
    let integer: u128 = integer
        .parse::<u64>()
        .map_err(|error| match error.kind() {
            std::num::IntErrorKind::PosOverflow => DecimalError::TooLarge,
            _ => DecimalError::NoNumber,
        })?
        .into();
    let scale = 10_u128.pow(u32::try_from(fraction.len()).unwrap_or(15));
    let fraction: u128 = match fraction {
        "" => 0,
        digits => digits.parse().map_err(|_| DecimalError::NoNumber)?,
    };
    let total = (integer * scale + fraction) * u128::from(unit);
    if !total.is_multiple_of(scale) {
        return Err(DecimalError::Fraction);
    }
    u64::try_from(total / scale).map_err(|_| DecimalError::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_as_people_write_them() {
        for (text, ms) in [
            ("250ms", 250),
            ("5s", 5_000),
            ("10m", 600_000),
            ("1h30m", 5_400_000),
            ("1.5h", 5_400_000),
            ("2d", 172_800_000),
            ("1d1h1m1s1ms", 90_061_001),
            ("0", 0),
            ("0s", 0),
            ("0.5s", 500),
        ] {
            assert_eq!(duration(text), Ok(Millis(ms)), "{text}");
        }
    }

    #[test]
    fn no_duration_is_guessed() {
        for (text, reason) in [
            ("", "is not a duration"),
            ("5", "has no unit"),
            ("1h30", "has no unit"),
            ("s", "is not a duration"),
            ("-5s", "is not a duration"),
            ("5 s", "contains a space"),
            ("5sec", "the units are d, h, m, s and ms"),
            ("30m1h", "from the longest to the shortest"),
            ("5s5s", "from the longest to the shortest"),
            ("0.5ms", "is not a whole number of milliseconds"),
            ("1.s", "has no digits after"),
            ("1.2.3s", "has no unit"),
            ("5000d", "longer than ten years"),
            ("99999999999999999999d", "is too large"),
            ("١s", "is not a duration"),
        ] {
            let error = duration(text).expect_err(text);
            assert!(error.message.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn formatted_units_are_read_back() {
        for (text, ms) in [
            ("1h30m", 5_400_000),
            ("2d", 172_800_000),
            ("5m", 300_000),
            ("1s500ms", 1_500),
        ] {
            assert_eq!(duration_text(Millis(ms)), text);
            assert_eq!(duration(text), Ok(Millis(ms)), "{text}");
        }
        for (text, bytes) in [
            ("64GiB", 64 << 30),
            ("1536MiB", 3 << 29),
            ("1000B", 1_000),
            ("0B", 0),
        ] {
            assert_eq!(size_text(bytes), text);
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn sizes_as_people_write_them() {
        for (text, bytes) in [
            ("4096", 4_096),
            ("256MiB", 256 << 20),
            ("1GB", 1_000_000_000),
            ("20G", 20 << 30),
            ("1.5GiB", 3 << 29),
            ("1 GiB", 1 << 30),
            ("0", 0),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn no_size_is_guessed() {
        for (text, reason) in [
            ("", "is not a size"),
            ("MiB", "is not a size"),
            ("-1", "is not a size"),
            ("1mib", "did you mean `1MiB`?"),
            ("1Mb", "did you mean `1MB`?"),
            ("1 furlong", "the units are B, KB"),
            ("0.5B", "is not a whole number of bytes"),
            ("2000000TiB", "more than an exbibyte"),
            ("99999999999999999999", "is too large"),
        ] {
            let error = size(text).expect_err(text).to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn thousandths_keep_three_decimals_and_no_more() {
        assert_eq!(thousandths("2"), Ok(2_000));
        assert_eq!(thousandths("0.125"), Ok(125));
        assert_eq!(thousandths("1.5000"), Ok(1_500));
        for text in ["0.0001", "-1", "1e3", "", ".", "1.", "inf"] {
            assert!(thousandths(text).is_err(), "{text}");
        }
    }
}
