//! Templates: `{{ params.day }}`, `{{ ports.http }}`, `{{ task.id }}`,
//! `{{ task.name }}`, with or without the spaces.
//!
//! `{{{{` stands for `{{` itself, so `{{{{.Names}}` comes out as `{{.Names}}`;
//! `}}` outside a reference is itself. What is filled in is not looked at again:
//! a value can neither refer to another nor escape from its argument, but a shell
//! will split and expand it like any other text in its command.

use std::collections::BTreeMap;

use crate::error::{Kind, Place, Problem, quote};
use crate::limits::ARGUMENT_BYTES_MAX;
use crate::read::Item;
use crate::suggest;
use crate::tree::Value;

const NAMESPACES: &[&str] = &["params", "ports", "task"];
const TASK_FIELDS: &[&str] = &["id", "name"];

/// A text with references, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text {
    pieces: Vec<Piece>,
    pub(crate) place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Literal(String),
    Reference(Reference),
}

/// What a template may refer to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reference {
    Param(String),
    Port(String),
    TaskId,
    TaskName,
}

impl std::fmt::Display for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Param(name) => write!(f, "{{{{ params.{name} }}}}"),
            Self::Port(name) => write!(f, "{{{{ ports.{name} }}}}"),
            Self::TaskId => f.write_str("{{ task.id }}"),
            Self::TaskName => f.write_str("{{ task.name }}"),
        }
    }
}

/// What references are filled in with.
pub(crate) struct Values<'a> {
    pub(crate) params: &'a BTreeMap<String, Option<String>>,
    pub(crate) ports: &'a BTreeMap<String, u16>,
    pub(crate) task_id: Option<&'a str>,
    pub(crate) task_name: &'a str,
}

impl Text {
    /// Reads the references of a text. Whether they are bound is known later.
    pub(crate) fn parse(text: &str, item: &Item<'_>, problems: &mut Vec<Problem>) -> Self {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(start) = rest.find("{{") {
            literal.push_str(&rest[..start]);
            let after = &rest[start + 2..];
            if let Some(escaped) = after.strip_prefix("{{") {
                literal.push_str("{{");
                rest = escaped;
                continue;
            }
            let Some(end) = after.find("}}") else {
                problems.push(item.problem(
                    Kind::Template,
                    format!("the template {} has no end", quote(&rest[start..])),
                    "close it with `}}`; write `{{{{` for two braces that are no template",
                ));
                literal.push_str(&rest[start..]);
                rest = "";
                break;
            };
            match reference(&after[..end], problems.len()) {
                Ok(reference) => {
                    pieces.push(Piece::Literal(std::mem::take(&mut literal)));
                    pieces.push(Piece::Reference(reference));
                }
                Err((kind, message, mend)) => problems.push(item.problem(kind, message, mend)),
            }
            rest = &after[end + 2..];
        }
        literal.push_str(rest);
        pieces.push(Piece::Literal(literal));
        pieces.retain(|piece| *piece != Piece::Literal(String::new()));
        Self {
            pieces,
            place: item.place(),
        }
    }

    /// A text in a place that has none of its own.
    pub(crate) fn literal(text: &str, item: &Item<'_>) -> Self {
        Self {
            pieces: vec![Piece::Literal(text.to_owned())],
            place: item.place(),
        }
    }

    /// Everything it refers to.
    pub(crate) fn references(&self) -> impl Iterator<Item = &Reference> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Reference(reference) => Some(reference),
            Piece::Literal(_) => None,
        })
    }

    /// Fills in every reference, or says which cannot be.
    pub(crate) fn render(&self, values: &Values<'_>, problems: &mut Vec<Problem>) -> String {
        let mut text = String::new();
        for piece in &self.pieces {
            // Too long already; who asked for it will say so.
            if text.len() > ARGUMENT_BYTES_MAX {
                break;
            }
            match piece {
                Piece::Literal(literal) => text.push_str(literal),
                Piece::Reference(reference) => match values.get(reference, problems.len()) {
                    Ok(value) => text.push_str(&value),
                    Err((kind, message, mend)) => {
                        problems.push(self.place.problem(
                            kind,
                            format!("{reference} {message}"),
                            mend,
                        ));
                    }
                },
            }
        }
        text
    }
}

type Complaint = (Kind, String, String);

impl Values<'_> {
    fn get(&self, reference: &Reference, found: usize) -> Result<String, Complaint> {
        match reference {
            Reference::Param(name) => match self.params.get(name) {
                Some(Some(value)) => Ok(value.clone()),
                Some(None) => Err((
                    Kind::Unbound,
                    "has no value".to_owned(),
                    format!("give one with -p {name}=VALUE, or a default in `params`"),
                )),
                None => Err((
                    Kind::UnknownReference,
                    "is not a parameter of this task".to_owned(),
                    suggest::mend(
                        found,
                        name,
                        self.params.keys().map(String::as_str),
                        "declare it in `params`; the parameters are:",
                    ),
                )),
            },
            Reference::Port(name) => self.ports.get(name).map_or_else(
                || {
                    Err((
                        Kind::Unbound,
                        "was not given".to_owned(),
                        format!(
                            "give it with -P {name}:PORT; the given ports are: {}",
                            suggest::list(self.ports.keys().map(String::as_str))
                        ),
                    ))
                },
                |port| Ok(port.to_string()),
            ),
            Reference::TaskId => self.task_id.map(str::to_owned).ok_or_else(|| {
                (
                    Kind::Unbound,
                    "is known only when the task runs".to_owned(),
                    "give an id with --task-id ID".to_owned(),
                )
            }),
            Reference::TaskName => Ok(self.task_name.to_owned()),
        }
    }
}

/// What stands between the braces.
fn reference(inside: &str, found: usize) -> Result<Reference, Complaint> {
    let inside = inside.trim();
    let shown = quote(&format!("{{{{ {inside} }}}}"));
    let Some((namespace, name)) = inside.split_once('.').filter(|(_, name)| is_name(name)) else {
        // `{{ day }}` is most often a parameter without its namespace.
        let mend = if is_name(inside) && !NAMESPACES.contains(&inside) {
            format!(
                "did you mean `{{{{ params.{inside} }}}}`? Write `{{{{{{{{` for two braces that are no template"
            )
        } else {
            "write `{{ params.NAME }}`, `{{ ports.NAME }}`, `{{ task.id }}` or `{{ task.name }}`; \
             `{{{{` for two braces that are no template"
                .to_owned()
        };
        return Err((Kind::Template, format!("{shown} is no reference"), mend));
    };
    match (namespace, name) {
        ("params", name) => Ok(Reference::Param(name.to_owned())),
        ("ports", name) => Ok(Reference::Port(name.to_owned())),
        ("task", "id") => Ok(Reference::TaskId),
        ("task", "name") => Ok(Reference::TaskName),
        ("task", name) => Err((
            Kind::UnknownReference,
            format!("{shown} does not exist"),
            suggest::mend(
                found,
                name,
                TASK_FIELDS.iter().copied(),
                "a task can be asked for:",
            ),
        )),
        (namespace, _) => Err((
            Kind::UnknownReference,
            format!(
                "{shown} refers to {}, which does not exist",
                quote(namespace)
            ),
            suggest::mend(
                found,
                namespace,
                NAMESPACES.iter().copied(),
                "a template can refer to:",
            ),
        )),
    }
}

/// Names of parameters and ports, and only they, stand in templates.
pub(crate) fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// Refuses a template where none is filled in, instead of using its braces.
pub(crate) fn refuse(item: &Item<'_>, problems: &mut Vec<Problem>) {
    if let Value::String(text) = &item.tree.value
        && text.contains("{{")
    {
        problems.push(item.problem(
            Kind::Template,
            format!("{} has a template, and none is filled in here", quote(text)),
            "templates work in `run`, `env`, `cwd` and checks; write the value itself",
        ));
    }
}
