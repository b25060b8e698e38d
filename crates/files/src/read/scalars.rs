//! Single values: texts, numbers, durations, sizes, names, words of a list.

use baton_model::time::Millis;

use super::{Item, Reader};
use crate::error::{Kind, quote};
use crate::limits::{COUNT_MAX, NAME_BYTES_MAX};
use crate::suggest;
use crate::template::{self, Text};
use crate::tree::Value;
use crate::units::{self, UnitError};

/// What a duration may be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Zero {
    Allowed,
    /// The thing would not happen at all, or without end.
    Refused,
}

impl Reader {
    /// A text without templates.
    pub(super) fn text<'a>(&mut self, item: &Item<'a>, hint: &str) -> Option<&'a str> {
        let Value::String(text) = &item.tree.value else {
            self.wrong_type(item, "a text", hint);
            return None;
        };
        template::reject_template(item, &mut self.problems);
        self.reject_nul(item, text);
        if text.is_empty() {
            self.note(item, Kind::BadValue, "the text is empty".to_owned(), hint);
            return None;
        }
        Some(text)
    }

    /// A text, or a number or truth value as it was written.
    pub(super) fn scalar_text(&mut self, item: &Item<'_>, hint: &str) -> Option<String> {
        let text = match &item.tree.value {
            Value::String(text) | Value::Number(text) => text.clone(),
            Value::Bool(value) => value.to_string(),
            Value::Null | Value::List(_) | Value::Map(_) => {
                self.wrong_type(item, "a text", hint);
                return None;
            }
        };
        self.reject_nul(item, &text);
        Some(text)
    }

    /// A text with templates.
    pub(super) fn template(&mut self, item: &Item<'_>, hint: &str) -> Option<Text> {
        let text = self.scalar_text(item, hint)?;
        Some(Text::parse(&text, item, self.scope, &mut self.problems))
    }

    fn reject_nul(&mut self, item: &Item<'_>, text: &str) {
        if text.contains('\0') {
            self.note(
                item,
                Kind::BadValue,
                "the text holds a zero byte, which no program can be given".to_owned(),
                "remove it",
            );
        }
    }

    pub(super) fn boolean(&mut self, item: &Item<'_>) -> Option<bool> {
        match &item.tree.value {
            Value::Bool(value) => Some(*value),
            _ => {
                self.wrong_type(item, "true or false", "write true or false, without quotes");
                None
            }
        }
    }

    /// A whole number within bounds.
    pub(super) fn integer(&mut self, item: &Item<'_>, min: i64, max: i64) -> Option<i64> {
        let hint = format!("write a whole number from {min} to {max}");
        let text = match &item.tree.value {
            Value::Number(text) => text,
            _ => {
                self.wrong_type(item, "a whole number", &hint);
                return None;
            }
        };
        let whole = text.strip_prefix(['-', '+']).unwrap_or(text);
        if !whole.bytes().all(|b| b.is_ascii_digit()) {
            let message = format!("{} is no whole number", quote(text));
            self.note(item, Kind::BadValue, message, hint);
            return None;
        }
        // Only a number that is too long for any bound does not parse.
        match text.parse::<i64>() {
            Ok(value) if (min..=max).contains(&value) => Some(value),
            _ => {
                let message = format!("{} is not between {min} and {max}", quote(text));
                self.note(item, Kind::OutOfRange, message, hint);
                None
            }
        }
    }

    /// A count from `min`.
    pub(super) fn count(&mut self, item: &Item<'_>, min: u32) -> Option<u32> {
        self.count_to(item, min, COUNT_MAX)
    }

    pub(super) fn count_to(&mut self, item: &Item<'_>, min: u32, max: u32) -> Option<u32> {
        let value = self.integer(item, min.into(), max.into())?;
        u32::try_from(value).ok()
    }

    /// Thousandths of a number within bounds, also in thousandths.
    pub(super) fn factor(&mut self, item: &Item<'_>, min: u64, max: u64) -> Option<u64> {
        let hint = format!(
            "write a number from {} to {}",
            min as f64 / 1e3,
            max as f64 / 1e3
        );
        let Value::Number(text) = &item.tree.value else {
            self.wrong_type(item, "a number", &hint);
            return None;
        };
        let value = self.unit(item, units::thousandths(text))?;
        if !(min..=max).contains(&value) {
            let message = format!("{} is outside its bounds", quote(text));
            self.note(item, Kind::OutOfRange, message, hint);
            return None;
        }
        Some(value)
    }

    pub(super) fn duration(&mut self, item: &Item<'_>, zero: Zero) -> Option<Millis> {
        let text = self.unit_text(
            item,
            "a duration",
            "write it with its unit, such as 5s or 10m",
        )?;
        let parsed = units::duration(text);
        let value = self.unit(item, parsed)?;
        self.not_zero(item, value, zero)
    }

    /// `Some` unless it is zero and may not be.
    pub(super) fn not_zero(
        &mut self,
        item: &Item<'_>,
        value: Millis,
        zero: Zero,
    ) -> Option<Millis> {
        if value == Millis(0) && zero == Zero::Refused {
            self.note(
                item,
                Kind::OutOfRange,
                "the duration is zero".to_owned(),
                "write a longer one, or remove the field",
            );
            return None;
        }
        Some(value)
    }

    pub(super) fn size(&mut self, item: &Item<'_>) -> Option<u64> {
        let text = self.unit_text(item, "a size", "write it with its unit, such as 256MiB")?;
        self.unit(item, units::size(text))
    }

    /// The text of something with a unit; a plain number is let through, so that
    /// the error can speak of the missing unit.
    pub(super) fn unit_text<'a>(
        &mut self,
        item: &Item<'a>,
        expected: &str,
        hint: &str,
    ) -> Option<&'a str> {
        match &item.tree.value {
            Value::String(text) | Value::Number(text) => Some(text),
            _ => {
                self.wrong_type(item, expected, hint);
                None
            }
        }
    }

    pub(super) fn unit<T>(&mut self, item: &Item<'_>, parsed: Result<T, UnitError>) -> Option<T> {
        parsed
            .map_err(|error| self.note(item, error.kind, error.message, error.hint))
            .ok()
    }

    /// The name of a task, owner or process, which is also a file name and a part
    /// of an address.
    pub(super) fn name(&mut self, item: &Item<'_>) -> Option<String> {
        const HINT: &str = "write a short text without spaces and slashes that begins with no dot";
        let text = self.text(item, HINT)?;
        if let Some(why) = bad_name(text) {
            let message = format!("{} is no name: {why}", quote(text));
            self.note(item, Kind::BadName, message, HINT);
            return None;
        }
        Some(text.to_owned())
    }

    /// One of a few words.
    pub(super) fn word<T: Copy>(&mut self, item: &Item<'_>, words: &[(&str, T)]) -> Option<T> {
        let names = || words.iter().map(|(name, _)| *name);
        let Value::String(text) = &item.tree.value else {
            let hint = format!("write one of: {}", suggest::list(names()));
            self.wrong_type(item, "a word", &hint);
            return None;
        };
        let found = words.iter().find(|(name, _)| name == text);
        if found.is_none() {
            let message = format!("{} is not known here", quote(text));
            let hint = suggest::hint(self.problems.len(), text, names(), "write one of:");
            self.note(item, Kind::BadValue, message, hint);
        }
        found.map(|(_, value)| *value)
    }
}

/// A SHA-256 in hexadecimal, in small letters.
pub(super) fn hash(text: &str) -> Option<String> {
    const DIGITS: usize = 64;
    let is_hash = text.len() == DIGITS && text.bytes().all(|b| b.is_ascii_hexdigit());
    is_hash.then(|| text.to_ascii_lowercase())
}

/// Why a text cannot be a name, if it cannot.
pub(crate) fn bad_name(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        Some("it is empty")
    } else if text.starts_with('.') {
        Some("it begins with a dot")
    } else if text.contains('/') {
        Some("it holds a slash")
    } else if text.contains(char::is_whitespace) {
        Some("it holds a space")
    } else if text.contains(char::is_control) {
        Some("it holds a control character")
    } else if text.len() > NAME_BYTES_MAX {
        Some("it is too long for a file name")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_be_a_file_name() {
        for good in ["a", "build-1", "a.b", "Ärger", "a:b"] {
            assert_eq!(bad_name(good), None, "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            ".a",
            "a/b",
            "a b",
            "a\tb",
            "a\u{7}",
            &"x".repeat(300),
        ] {
            assert!(bad_name(bad).is_some(), "{bad}");
        }
    }
}
