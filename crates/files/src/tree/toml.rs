//! TOML, parsed by `toml`, which keeps the span of every value and continues after an error.
//! Dates are strings, as in the other formats.

use ::toml::Spanned;
use ::toml::de::{DeInteger, DeTable, DeValue};

use super::{Entry, Lines, Tree, Value, duplicate_key, syntax, too_deep};
use crate::error::Problem;
use crate::limits::DEPTH_MAX;

pub(super) fn parse(text: &str) -> Result<Tree, Vec<Problem>> {
    let lines = Lines::new(text);
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        return Err(errors.iter().map(|error| explain(error, &lines)).collect());
    }
    let span = table.span();
    let root = Spanned::new(span, DeValue::Table(table.into_inner()));
    tree(&root, &lines, 0).map_err(|problem| vec![problem])
}

fn explain(error: &::toml::de::Error, lines: &Lines<'_>) -> Problem {
    let span = error.span();
    let position = span.clone().map(|span| lines.position(span.start));
    let message = error.message();
    if message.starts_with("duplicate key") {
        let key = span.and_then(|span| lines.text.get(span)).unwrap_or("?");
        return duplicate_key(key, position);
    }
    if message.contains("recursion limit") {
        return too_deep(position);
    }
    syntax(
        "TOML",
        message,
        position,
        "check quotes, brackets and the `=` here",
    )
}

fn tree(raw: &Spanned<DeValue<'_>>, lines: &Lines<'_>, depth: usize) -> Result<Tree, Problem> {
    let position = Some(lines.position(raw.span().start));
    if depth > DEPTH_MAX {
        return Err(too_deep(position));
    }
    let value = match raw.get_ref() {
        DeValue::String(value) => Value::String(value.to_string()),
        DeValue::Integer(value) => Value::Number(decimal(value)),
        DeValue::Float(value) => Value::Number(value.as_str().to_owned()),
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Datetime(value) => Value::String(
            lines
                .text
                .get(raw.span())
                .map_or_else(|| value.to_string(), str::to_owned),
        ),
        DeValue::Array(items) => Value::List(
            items
                .iter()
                .map(|item| tree(item, lines, depth + 1))
                .collect::<Result<_, _>>()?,
        ),
        DeValue::Table(table) => Value::Map(
            table
                .iter()
                .map(|(key, value)| {
                    Ok(Entry {
                        key: key.get_ref().to_string(),
                        position: Some(lines.position(key.span().start)),
                        value: tree(value, lines, depth + 1)?,
                    })
                })
                .collect::<Result<_, Problem>>()?,
        ),
    };
    Ok(Tree { value, position })
}

/// Converts a number to base ten. One that is too long for any field keeps its text; the field
/// rejects it.
fn decimal(value: &DeInteger<'_>) -> String {
    let text = value.as_str();
    match i128::from_str_radix(text, value.radix()) {
        Ok(number) => number.to_string(),
        Err(_) => text.to_owned(),
    }
}
