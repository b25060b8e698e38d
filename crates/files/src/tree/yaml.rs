//! YAML, parsed by `serde-saphyr`, which rejects duplicate keys and alias bombs.
//!
//! Only `true` and `false` are booleans: `COUNTRY: no` in `env` means Norway. Anchors, aliases
//! and merge keys are supported; custom tags are not.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::NonFiniteFloatPolicy;
use serde_saphyr::{Error, Location, Options, Spanned};

use super::{Entry, Tree, Value, duplicate_key, syntax, too_deep};
use crate::error::{Kind, Position, Problem, clean};
use crate::limits::{ALIAS_EVENTS_MAX, DEPTH_MAX, SizeLimits, TEXT_BYTES_MAX};

pub(super) fn parse(text: &str, size: &SizeLimits) -> Result<Tree, Problem> {
    let raw: Spanned<Raw> = serde_saphyr::from_str_with_options(text, options(size))
        .map_err(|error| explain(&error, size))?;
    Ok(tree(raw, text))
}

/// YAML has more events than values: starts and ends of lists and maps.
const EVENTS_PER_VALUE: usize = 4;

fn options(size: &SizeLimits) -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX,
            max_events: EVENTS_PER_VALUE * size.values_max,
            max_nodes: size.values_max,
            max_total_scalar_bytes: size.text_bytes_max,
            max_recorded_anchor_events: ALIAS_EVENTS_MAX,
            max_recorded_anchor_bytes: TEXT_BYTES_MAX,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: ALIAS_EVENTS_MAX,
        },
        strict_booleans: true,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        reject_unsupported_tags: true,
        with_snippet: false,
    }
}

/// A value as the YAML parser returns it, before numbers regain their text.
enum Raw {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    String(String),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<String>, Spanned<Raw>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Integer(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw::Integer(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
        Ok(Raw::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Raw, E> {
        Ok(Raw::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Raw::Map(entries))
    }
}

fn tree(raw: Spanned<Raw>, text: &str) -> Tree {
    let Spanned { value, defined, .. } = raw;
    let value = match value {
        Raw::Null => Value::Null,
        Raw::Bool(value) => boolean(slice(text, defined), value),
        Raw::Integer(value) => number(slice(text, defined), value.to_string()),
        Raw::Float(value) => number(slice(text, defined), value.to_string()),
        Raw::String(value) => Value::String(value),
        Raw::List(items) => Value::List(items.into_iter().map(|item| tree(item, text)).collect()),
        Raw::Map(entries) => Value::Map(
            entries
                .into_iter()
                .map(|(key, value)| Entry {
                    position: position(key.defined),
                    key: key.value,
                    value: tree(value, text),
                })
                .collect(),
        ),
    };
    Tree {
        value,
        position: position(defined),
    }
}

/// Keeps `True` a string: YAML reads it as a boolean, but an environment variable needs its spelling.
fn boolean(written: Option<&str>, value: bool) -> Value {
    match written {
        Some(written) if written != "true" && written != "false" => {
            Value::String(written.to_owned())
        }
        _ => Value::Bool(value),
    }
}

/// Returns the number as it is written, or in base ten if it has another base.
///
/// Some YAML numbers are not meant as numbers and stay strings: `022` (an octal mask), `1_000`,
/// `12e4567` (a commit), `.inf`. A numeric field rejects them.
fn number(written: Option<&str>, canonical: String) -> Value {
    match written {
        Some(written)
            if has_leading_zero(written)
                || written.contains('_')
                || canonical.ends_with("inf")
                || canonical == "NaN" =>
        {
            Value::String(written.to_owned())
        }
        Some(written) if written.bytes().all(|b| b"0123456789+-.eE".contains(&b)) => {
            Value::Number(written.to_owned())
        }
        _ => Value::Number(canonical),
    }
}

fn has_leading_zero(text: &str) -> bool {
    text.len() > 1 && text.starts_with('0') && text.bytes().all(|b| b.is_ascii_digit())
}

fn slice(text: &str, location: Location) -> Option<&str> {
    let span = location.span();
    let start = usize::try_from(span.byte_offset()?).ok()?;
    let length = usize::try_from(span.byte_len()?).ok()?;
    text.get(start..start.checked_add(length)?)
}

fn position(location: Location) -> Option<Position> {
    let line = u32::try_from(location.line()).ok()?;
    let column = u32::try_from(location.column()).ok()?;
    (line > 0 && column > 0).then_some(Position { line, column })
}

fn explain(error: &Error, size: &SizeLimits) -> Problem {
    let error = error.without_snippet();
    let at = error.location().and_then(position);
    match innermost(error) {
        Error::DuplicateMappingKey { key, .. } => duplicate_key(key.as_deref().unwrap_or("?"), at),
        Error::Budget { breach, .. } => breached(breach, size, at),
        Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => aliases_too_large(at),
        Error::MultipleDocuments { .. } => syntax(
            "YAML",
            "the file has a second document after `---`",
            at,
            "put each task into its own file",
        ),
        other => {
            let message = other.to_string();
            // The position is part of the problem already.
            let message = message.split(" at line ").next().unwrap_or_default();
            syntax("YAML", message, at, syntax_hint(message))
        }
    }
}

fn innermost(mut error: &Error) -> &Error {
    while let Error::AliasError { error: inner, .. } = error {
        error = inner;
    }
    error
}

fn syntax_hint(message: &str) -> &'static str {
    if message.contains("string scalar") {
        "a key must be a plain string; quote a value that starts with `{{`"
    } else if message.contains("unsupported tag") {
        "remove the tag, or quote a string that starts with `!`"
    } else if message.contains("unknown anchor") {
        "define the anchor before its use, or quote a string that starts with `*`"
    } else {
        "check indents, brackets and quotes here"
    }
}

fn breached(breach: &BudgetBreach, size: &SizeLimits, position: Option<Position>) -> Problem {
    match breach {
        BudgetBreach::Depth { .. } => too_deep(position),
        BudgetBreach::Nodes { .. }
        | BudgetBreach::ScalarBytes { .. }
        | BudgetBreach::Events { .. } => expansion_too_large(size, position),
        BudgetBreach::RecordedAnchorEvents { .. } | BudgetBreach::RecordedAnchorBytes { .. } => {
            aliases_too_large(position)
        }
        other => Problem {
            kind: Kind::TooLarge,
            position,
            path: String::new(),
            message: format!(
                "the YAML file exceeds a limit: {}",
                clean(&format!("{other:?}"))
            ),
            hint: "make the file smaller; use fewer anchors, aliases and merge keys".to_owned(),
        },
    }
}

fn expansion_too_large(size: &SizeLimits, position: Option<Position>) -> Problem {
    Problem {
        kind: Kind::TooLarge,
        position,
        path: String::new(),
        message: format!(
            "the file expands to more than {} values or {} bytes of text",
            size.values_max, size.text_bytes_max
        ),
        hint: "use fewer aliases, or aliases of smaller values".to_owned(),
    }
}

fn aliases_too_large(position: Option<Position>) -> Problem {
    Problem {
        kind: Kind::TooLarge,
        position,
        path: String::new(),
        message: format!(
            "anchors and aliases expand to more than {ALIAS_EVENTS_MAX} parser events or {TEXT_BYTES_MAX} \
             bytes of text"
        ),
        hint: "use fewer aliases, or aliases of smaller values".to_owned(),
    }
}
