//! Templates: texts of a plan with references.
//!
//! Parameters are substituted before a plan is made. The remaining references are resolved when
//! an item is ready: its value, and outputs of upstream tasks. [`scan`] is the one reader of the
//! grammar; `baton_files` has further references, and reports the invalid ones.

use std::borrow::Cow;

use serde_json::Value;

/// A reference in a text of a plan.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reference {
    /// `item`: the value of the item.
    Item,
    /// `item.KEY`: one key of it.
    ItemKey(String),
    /// `tasks.NAME.outputs.KEY`: an output of a task.
    Output { task: String, key: String },
    /// `params.NAME`: in conditions only.
    Param(String),
}

impl std::fmt::Display for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Item => f.write_str("item"),
            Self::ItemKey(key) => write!(f, "item.{key}"),
            Self::Output { task, key } => write!(f, "tasks.{task}.outputs.{key}"),
            Self::Param(name) => write!(f, "params.{name}"),
        }
    }
}

impl Reference {
    /// Parses the text between the braces.
    ///
    /// # Errors
    /// If it is not a reference.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let key = |key: &str| (!key.is_empty()).then(|| key.to_owned());
        let parsed = if text == "item" {
            Some(Self::Item)
        } else if let Some(rest) = text
            .strip_prefix("item.")
            .or_else(|| text.strip_prefix("matrix."))
        {
            key(rest).map(Self::ItemKey)
        } else if let Some(rest) = text.strip_prefix("params.") {
            key(rest).map(Self::Param)
        } else {
            text.strip_prefix("tasks.")
                .and_then(|rest| rest.rsplit_once(".outputs."))
                .filter(|(task, name)| !task.is_empty() && !name.is_empty())
                .map(|(task, name)| Self::Output {
                    task: task.to_owned(),
                    key: name.to_owned(),
                })
        };
        parsed.ok_or_else(|| format!("`{text}` is not a reference"))
    }
}

/// A token of the grammar, which has no meaning yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// Text to be taken as it is; for the escape `{{{{`, the two braces that it stands for.
    Literal(&'a str),
    /// The text between the braces, and the same with its braces.
    Reference { inside: &'a str, whole: &'a str },
    /// The text from braces that are never closed.
    Unclosed(&'a str),
}

/// Splits a text into tokens. `}}` outside a reference is literal.
pub fn scan(text: &str) -> impl Iterator<Item = Token<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (token, beyond) = match rest.find("{{") {
            None if rest.is_empty() => return None,
            None => (Token::Literal(rest), ""),
            Some(0) if rest.starts_with("{{{{") => (Token::Literal("{{"), &rest[4..]),
            Some(0) => match rest[2..].split_once("}}") {
                None => (Token::Unclosed(rest), ""),
                Some((inside, beyond)) => {
                    let whole = &rest[..rest.len() - beyond.len()];
                    (Token::Reference { inside, whole }, beyond)
                }
            },
            Some(start) => (Token::Literal(&rest[..start]), &rest[start..]),
        };
        rest = beyond;
        Some(token)
    })
}

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    Literal(&'a str),
    Reference(Reference),
}

/// Splits a text into literals and references. An invalid reference stays literal: the reader of
/// the file has already refused it.
pub fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    scan(text).map(|token| match token {
        Token::Literal(text) | Token::Unclosed(text) => Piece::Literal(text),
        Token::Reference { inside, whole } => match Reference::parse(inside) {
            Ok(reference) => Piece::Reference(reference),
            Err(_) => Piece::Literal(whole),
        },
    })
}

/// A template that renders as `text`.
#[must_use]
pub fn escape(text: &str) -> String {
    text.replace("{{", "{{{{")
}

/// Renders a template. A reference without a value becomes empty: the caller has checked that all
/// have one.
#[must_use]
pub fn render<'a>(text: &str, mut value: impl FnMut(&Reference) -> Option<Cow<'a, str>>) -> String {
    if !text.contains("{{") {
        return text.to_owned();
    }
    let mut filled = String::with_capacity(text.len());
    for piece in pieces(text) {
        match piece {
            Piece::Literal(literal) => filled.push_str(literal),
            Piece::Reference(reference) => {
                filled.extend(value(&reference));
            }
        }
    }
    filled
}

/// Replaces the references that have a value, and leaves a template: all others stay.
#[must_use]
pub fn substitute<'a>(
    text: &str,
    mut value: impl FnMut(&Reference) -> Option<Cow<'a, str>>,
) -> String {
    // Escape the whole run of literals and values: a double brace may span two of them.
    let (mut substituted, mut open) = (String::with_capacity(text.len()), String::new());
    for token in scan(text) {
        match token {
            Token::Literal(text) | Token::Unclosed(text) => open.push_str(text),
            Token::Reference { inside, whole } => {
                let reference = Reference::parse(inside).ok();
                match reference.and_then(|reference| value(&reference)) {
                    Some(value) => open.push_str(&value),
                    None => {
                        substituted.push_str(&escape(&std::mem::take(&mut open)));
                        substituted.push_str(whole);
                    }
                }
            }
        }
    }
    substituted.push_str(&escape(&open));
    substituted
}

/// A value as text for a command or a variable: strings verbatim, others as JSON.
#[must_use]
pub fn plain(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        render(text, |reference| match reference {
            Reference::Item => Some(Cow::Borrowed("eu")),
            Reference::ItemKey(key) => Some(Cow::Owned(key.len().to_string())),
            Reference::Output { task, key } => Some(Cow::Owned(format!("{task}:{key}"))),
            Reference::Param(_) => None,
        })
    }

    #[test]
    fn references_are_filled_in_and_nothing_else_is_touched() {
        for (text, filled) in [
            ("plain", "plain"),
            ("a {{ item }} b", "a eu b"),
            ("{{item}}{{ item.four }}", "eu4"),
            ("{{ matrix.os }}", "2"),
            ("{{ tasks.a.b.outputs.c }}", "a.b:c"),
            ("{{{{.Names}} {{ item }}", "{{.Names}} eu"),
            ("{{ open", "{{ open"),
            ("{{ what }} {{ item }}", "{{ what }} eu"),
        ] {
            assert_eq!(shown(text), filled, "{text}");
        }
    }

    #[test]
    fn a_substitution_leaves_every_other_reference() {
        let day = |reference: &Reference| match reference {
            Reference::Param(name) if name == "day" => Some(Cow::Borrowed("{{1}}")),
            _ => None,
        };
        for (text, expected) in [
            ("plain", "plain"),
            ("{{ params.day }}", "{{{{1}}"),
            (
                "{{{{a}} {{ params.day }} {{ item }}",
                "{{{{a}} {{{{1}} {{ item }}",
            ),
            (
                "{{ tasks.a.outputs.b }}{{ params.x }}",
                "{{ tasks.a.outputs.b }}{{ params.x }}",
            ),
        ] {
            assert_eq!(substitute(text, day), expected, "{text}");
        }
    }

    #[test]
    fn an_escaped_text_comes_out_as_it_was() {
        for text in ["{{ item }}", "a{{{b", "}}{{"] {
            assert_eq!(shown(&escape(text)), text);
        }
    }
}
