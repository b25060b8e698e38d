//! Scalars: strings, numbers, durations, sizes, names, keywords.

use std::str::FromStr;

use baton_model::time::Millis;

use serde::de::{DeserializeOwned, IntoDeserializer as _, value};

use super::{Fields, Item, Reader};
use crate::error::{Kind, quote};
use crate::name::bad_name;
use crate::schema::{Field, Type, Zero};
use crate::suggest;
use crate::template;
use crate::tree::Value;
use crate::units::{self, UnitError};

impl Reader {
    /// Reads a string without templates.
    pub(super) fn text<'a>(&mut self, item: &Item<'a>, hint: &str) -> Option<&'a str> {
        let Value::String(text) = &item.tree.value else {
            self.wrong_type(item, "a string", hint);
            return None;
        };
        template::reject_template(item, &mut self.problems);
        self.reject_nul(item, text);
        if text.is_empty() {
            self.note(item, Kind::BadValue, "the string is empty".to_owned(), hint);
            return None;
        }
        Some(text)
    }

    /// Reads a string, or a number or boolean as it is written.
    pub(super) fn scalar_text(&mut self, item: &Item<'_>, hint: &str) -> Option<String> {
        let text = match &item.tree.value {
            Value::String(text) | Value::Number(text) => text.clone(),
            Value::Bool(value) => value.to_string(),
            Value::Null | Value::List(_) | Value::Map(_) => {
                self.wrong_type(item, "a string", hint);
                return None;
            }
        };
        self.reject_nul(item, &text);
        Some(text)
    }

    fn reject_nul(&mut self, item: &Item<'_>, text: &str) {
        if text.contains('\0') {
            self.note(
                item,
                Kind::BadValue,
                "the string contains a NUL byte, which cannot be passed to a program".to_owned(),
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

    /// Reads an integer within bounds.
    pub(super) fn integer(&mut self, item: &Item<'_>, min: i64, max: i64) -> Option<i64> {
        let hint = format!("write an integer from {min} to {max}");
        let text = match &item.tree.value {
            Value::Number(text) => text,
            _ => {
                self.wrong_type(item, "an integer", &hint);
                return None;
            }
        };
        let whole = text.strip_prefix(['-', '+']).unwrap_or(text);
        if !whole.bytes().all(|b| b.is_ascii_digit()) {
            let message = format!("{} is not an integer", quote(text));
            self.note(item, Kind::BadValue, message, hint);
            return None;
        }
        // Parsing fails only for a number that is too large for any bound.
        match text.parse::<i64>() {
            Ok(value) if (min..=max).contains(&value) => Some(value),
            _ => {
                let message = format!("{} is not between {min} and {max}", quote(text));
                self.note(item, Kind::OutOfRange, message, hint);
                None
            }
        }
    }

    /// Reads a decimal number in thousandths; the bounds are in thousandths, too.
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
            let message = format!("{} is out of range", quote(text));
            self.note(item, Kind::OutOfRange, message, hint);
            return None;
        }
        Some(value)
    }

    pub(super) fn duration(&mut self, item: &Item<'_>, zero: Zero) -> Option<Millis> {
        let text = self.unit_text(
            item,
            "a duration",
            "write a number with a unit, such as 5s or 10m",
        )?;
        let parsed = units::duration(text);
        let value = self.unit(item, parsed)?;
        self.not_zero(item, value, zero)
    }

    /// Reports a zero that is not allowed.
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
                "write a longer duration, or remove the field",
            );
            return None;
        }
        Some(value)
    }

    pub(super) fn size(&mut self, item: &Item<'_>) -> Option<u64> {
        let text = self.unit_text(item, "a size", "write a number with a unit, such as 256MiB")?;
        self.unit(item, units::size(text))
    }

    /// Reads a value with a unit; accepts a plain number, so that the error can name the
    /// missing unit.
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

    /// Reads the name of a task, owner or process, which is also a file name and a URL segment.
    pub(super) fn name(&mut self, item: &Item<'_>) -> Option<String> {
        const HINT: &str =
            "use a short name without spaces or slashes that does not start with a dot";
        let text = self.text(item, HINT)?;
        if let Some(reason) = bad_name(text) {
            let message = format!("{} is not a valid name: {reason}", quote(text));
            self.note(item, Kind::BadName, message, HINT);
            return None;
        }
        Some(text.to_owned())
    }

    /// Reads a field that is true or false.
    pub(super) fn bool_field(&mut self, fields: &Fields<'_>, name: &str) -> Option<bool> {
        let item = fields.get(name)?;
        self.boolean(&item)
    }

    /// Reads an integer within the bounds of its table, or takes the default from there.
    pub(super) fn integer_field<T>(&mut self, fields: &Fields<'_>, name: &str) -> Option<T>
    where
        T: TryFrom<i64> + FromStr,
    {
        let field = fields.table.field(name);
        let Some(item) = fields.get(name) else {
            return field.default.parse().ok();
        };
        let Type::Integer(min, max) = field.kind else {
            wrong_table(field)
        };
        T::try_from(self.integer(&item, min, max)?).ok()
    }

    /// Reads a factor within the bounds of its table, in thousandths.
    pub(super) fn factor_field(&mut self, fields: &Fields<'_>, name: &str) -> Option<u64> {
        let item = fields.get(name)?;
        match fields.table.field(name) {
            Field {
                kind: Type::Factor(min, max),
                ..
            } => self.factor(&item, *min, *max),
            field => wrong_table(field),
        }
    }

    /// Reads a duration, or takes the default from its table.
    pub(super) fn duration_field(&mut self, fields: &Fields<'_>, name: &str) -> Option<Millis> {
        let field = fields.table.field(name);
        match (fields.get(name), field.kind) {
            (None, _) => units::duration(field.default).ok(),
            (Some(item), Type::Duration(zero)) => self.duration(&item, zero),
            _ => wrong_table(field),
        }
    }

    /// Reads one of the keywords of a table, or takes the default from there.
    pub(super) fn word_field<T>(&mut self, fields: &Fields<'_>, name: &str) -> Option<T>
    where
        T: DeserializeOwned,
    {
        let field = fields.table.field(name);
        let Type::Word(words) = field.kind else {
            wrong_table(field)
        };
        let item = fields.get(name);
        let text = match item.as_ref().map(|item| (item, &item.tree.value)) {
            None => field.default,
            Some((_, Value::String(text))) if words.contains(&&**text) => text,
            Some((item, Value::String(text))) => {
                let message = format!("{} is not an allowed value", quote(text));
                let words = words.iter().copied();
                let hint = suggest::hint(self.problems.len(), text, words, "write one of:");
                self.note(item, Kind::BadValue, message, hint);
                return None;
            }
            Some((item, _)) => {
                let hint = format!("write one of: {}", suggest::list(words.iter().copied()));
                self.wrong_type(item, "a keyword", &hint);
                return None;
            }
        };
        let parsed: Result<T, value::Error> = T::deserialize(text.into_deserializer());
        Some(parsed.unwrap_or_else(|_| wrong_table(field)))
    }
}

/// The reader takes a field for another type than its table says.
fn wrong_table(field: &Field) -> ! {
    panic!("the table has another type: {field:?}")
}

/// Returns a SHA-256 hash in lowercase hexadecimal.
pub(super) fn hash(text: &str) -> Option<String> {
    const DIGITS: usize = 64;
    let is_hash = text.len() == DIGITS && text.bytes().all(|b| b.is_ascii_hexdigit());
    is_hash.then(|| text.to_ascii_lowercase())
}
