//! Templates: `{{ params.day }}`, `{{ ports.http }}`, `{{ task.id }}`,
//! `{{ task.name }}`, with or without the spaces; in an array of items also `{{ item }}` and
//! `{{ item.KEY }}`.
//!
//! A workflow has no ports and task ids. Besides its own name it has runtime references:
//! `{{ item }}`, `{{ matrix.os }}`, `{{ tasks.list.outputs.files }}`. Rendering leaves them in
//! place and escapes everything else; `baton_core::workflow::template` renders the result.
//!
//! `{{{{` is a literal `{{`, so `{{{{.Names}}` renders as `{{.Names}}`; `}}` outside a reference
//! is literal. A rendered value is not parsed again: it can neither refer to another value nor
//! break out of its argument, but a shell splits and expands it like any other text.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use baton_core::workflow::template::{self as core, Token};

use crate::error::{Kind, Location, Problem, quote};
use crate::limits::ARGUMENT_BYTES_MAX;
use crate::suggest;
use crate::tree::{Item, Value};

const NAMESPACES: &[&str] = &["params", "ports", "task", "item"];
const WORKFLOW_NAMESPACES: &[&str] = &["params", "workflow", "task", "item", "matrix", "tasks"];
const TASK_FIELDS: &[&str] = &["id", "name"];

/// The references of a workflow that remain until an item is ready.
pub(crate) use baton_core::workflow::template::Reference as RuntimeReference;

/// The kind of file of a template, which decides the namespaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Scope {
    #[default]
    Task,
    Workflow,
}

/// A parsed template.
#[derive(Debug)]
pub(crate) struct Template {
    pieces: Vec<Piece>,
}

#[derive(Debug)]
enum Piece {
    Literal(String),
    Reference(Reference),
}

/// A reference in a template.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reference {
    Param(String),
    Port(String),
    TaskId,
    TaskName,
    WorkflowName,
    /// The item of an element of an array, or one key of it.
    Item(Option<String>),
    Runtime(RuntimeReference),
}

impl Reference {
    /// The name of the parameter, for a parameter reference.
    pub(crate) fn param(&self) -> Option<&str> {
        match self {
            Self::Param(name) => Some(name),
            _ => None,
        }
    }
}

impl std::fmt::Display for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Param(name) => write!(f, "{{{{ params.{name} }}}}"),
            Self::Port(name) => write!(f, "{{{{ ports.{name} }}}}"),
            Self::TaskId => f.write_str("{{ task.id }}"),
            Self::TaskName => f.write_str("{{ task.name }}"),
            Self::WorkflowName => f.write_str("{{ workflow.name }}"),
            Self::Item(None) => f.write_str("{{ item }}"),
            Self::Item(Some(key)) => write!(f, "{{{{ item.{key} }}}}"),
            Self::Runtime(reference) => write!(f, "{{{{ {reference} }}}}"),
        }
    }
}

/// A reference with the location of its template.
#[derive(Clone, Debug)]
pub(crate) struct LocatedReference {
    pub(crate) reference: Reference,
    pub(crate) location: Location,
}

/// The values of references.
#[derive(Debug, Default)]
pub(crate) struct Values {
    pub(crate) params: BTreeMap<String, Option<String>>,
    pub(crate) ports: BTreeMap<String, u16>,
    pub(crate) task_id: Option<String>,
    pub(crate) task_name: String,
    /// The name of the workflow; `None` in a task file.
    pub(crate) workflow: Option<String>,
    /// The item of an element of an array.
    pub(crate) item: Option<serde_json::Value>,
    /// Parameters that only a launch can render: references to them stay.
    pub(crate) late: BTreeSet<String>,
}

impl Template {
    /// Parses the references. Whether they have values is checked by [`Template::render`].
    pub(crate) fn parse(
        text: &str,
        item: &Item<'_>,
        scope: Scope,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let mut pieces = Vec::new();
        for token in core::scan(text) {
            match token {
                // One piece, however many escapes it has.
                Token::Literal(text) => match pieces.last_mut() {
                    Some(Piece::Literal(literal)) => literal.push_str(text),
                    _ => pieces.push(Piece::Literal(text.to_owned())),
                },
                Token::Reference { inside, .. } => {
                    let parsed = match scope {
                        Scope::Task => task_reference(inside, problems.len()),
                        Scope::Workflow => workflow_reference(inside, problems.len()),
                    };
                    match parsed {
                        Ok(reference) => pieces.push(Piece::Reference(reference)),
                        Err((kind, message, hint)) => {
                            problems.push(item.problem(kind, message, hint));
                        }
                    }
                }
                Token::Unclosed(open) => problems.push(item.problem(
                    Kind::Template,
                    format!("the template {} is not closed", quote(open)),
                    "close it with `}}`; write `{{{{` for literal braces",
                )),
            }
        }
        Self { pieces }
    }

    /// All references of the template at `item`.
    pub(crate) fn references(self, item: &Item<'_>) -> impl Iterator<Item = LocatedReference> {
        let references = self.pieces.into_iter().filter_map(|piece| match piece {
            Piece::Reference(reference) => Some(reference),
            Piece::Literal(_) => None,
        });
        references.map(|reference| LocatedReference {
            reference,
            location: item.location(),
        })
    }

    /// Replaces every reference, or reports those without a value at `item`.
    pub(crate) fn render(
        &self,
        item: &Item<'_>,
        values: &Values,
        problems: &mut Vec<Problem>,
    ) -> String {
        // Escape the whole run of literals and values: a double brace may span two pieces.
        let (mut text, mut open) = (String::new(), String::new());
        for piece in &self.pieces {
            // Too long already; the caller reports it.
            if text.len() + open.len() > ARGUMENT_BYTES_MAX {
                break;
            }
            match piece {
                Piece::Literal(literal) => open.push_str(literal),
                Piece::Reference(reference) => match values.runtime(reference) {
                    Some(reference) => {
                        problems.extend(brace_before(item, &open, &reference));
                        text.push_str(&values.literal(&std::mem::take(&mut open)));
                        text.push_str(&format!("{{{{ {reference} }}}}"));
                    }
                    None => match values.get(reference, problems.len()) {
                        Ok(value) => open.push_str(&value),
                        Err((kind, message, hint)) => {
                            problems.push(item.problem(
                                kind,
                                format!("{reference} {message}"),
                                hint,
                            ));
                        }
                    },
                },
            }
        }
        text.push_str(&values.literal(&open));
        text
    }
}

/// Reports a single brace before a reference: it would open the template too early.
fn brace_before(item: &Item<'_>, before: &str, reference: &RuntimeReference) -> Option<Problem> {
    let braces = before.len() - before.trim_end_matches('{').len();
    (braces % 2 == 1).then(|| {
        item.problem(
            Kind::Template,
            format!("a brace directly precedes {{{{ {reference} }}}}"),
            "separate them, or pass the value in a variable of `env`",
        )
    })
}

type TemplateError = (Kind, String, String);

impl Values {
    /// Whether the result is rendered a second time: when an item of a workflow is ready, or when
    /// a task with late parameters is launched.
    fn is_rendered_again(&self) -> bool {
        self.workflow.is_some() || !self.late.is_empty()
    }

    /// Escapes a literal for the second rendering.
    pub(crate) fn literal(&self, text: &str) -> String {
        if self.is_rendered_again() {
            core::escape(text)
        } else {
            text.to_owned()
        }
    }

    /// Returns a rendered value with runtime references replaced by a sample, for validation.
    pub(crate) fn sample<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.is_rendered_again() {
            core::render(text, |_| Some("x".into())).into()
        } else {
            text.into()
        }
    }

    /// The reference that stays for the second rendering, if this is one.
    fn runtime(&self, reference: &Reference) -> Option<RuntimeReference> {
        match reference {
            Reference::Runtime(reference) => Some(reference.clone()),
            Reference::Param(name) if self.late.contains(name) => {
                Some(RuntimeReference::Param(name.clone()))
            }
            _ => None,
        }
    }

    /// The value of a parameter as the text of a variable.
    pub(crate) fn variable(&self, name: &str, value: &str) -> String {
        if self.late.contains(name) {
            format!("{{{{ {} }}}}", RuntimeReference::Param(name.to_owned()))
        } else {
            self.literal(value)
        }
    }

    fn get(&self, reference: &Reference, found: usize) -> Result<String, TemplateError> {
        match reference {
            Reference::Param(name) => match self.params.get(name) {
                Some(Some(value)) => Ok(value.clone()),
                Some(None) => Err((
                    Kind::Unbound,
                    "has no value".to_owned(),
                    format!("pass -p {name}=VALUE, or add a default in `params`"),
                )),
                None => Err((
                    Kind::UnknownReference,
                    match &self.workflow {
                        Some(_) => "is not a parameter of this workflow".to_owned(),
                        None => "is not a parameter of this task".to_owned(),
                    },
                    suggest::hint(
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
                        "has no value".to_owned(),
                        format!(
                            "pass -P {name}:PORT; the bound ports are: {}",
                            suggest::list(self.ports.keys().map(String::as_str))
                        ),
                    ))
                },
                |port| Ok(port.to_string()),
            ),
            Reference::TaskId => self.task_id.clone().ok_or_else(|| {
                (
                    Kind::Unbound,
                    "is known only at run time".to_owned(),
                    "pass --task-id ID".to_owned(),
                )
            }),
            Reference::TaskName => Ok(self.task_name.clone()),
            Reference::WorkflowName => Ok(self.workflow.clone().unwrap_or_default()),
            Reference::Item(key) => self.item(key.as_deref()),
            Reference::Runtime(reference) => Ok(format!("{{{{ {reference} }}}}")),
        }
    }

    fn item(&self, key: Option<&str>) -> Result<String, TemplateError> {
        let Some(item) = &self.item else {
            return Err((
                Kind::Unbound,
                "has a value only in an array of items".to_owned(),
                "submit the task with --each-line FILE or --from-json FILE".to_owned(),
            ));
        };
        let value = match key {
            None => Some(item),
            Some(key) => item.get(key),
        };
        value
            .map(|value| core::plain(value).into_owned())
            .ok_or_else(|| {
                let shown: String = item.to_string().chars().take(60).collect();
                (
                    Kind::Unbound,
                    format!("has no value in the item {shown}"),
                    "every item needs that key".to_owned(),
                )
            })
    }
}

/// Parses the inside of a template in a workflow.
fn workflow_reference(inside: &str, found: usize) -> Result<Reference, TemplateError> {
    const HINT: &str = "write `{{ params.NAME }}`, `{{ workflow.name }}`, `{{ task.name }}`, `{{ item }}`, \
                        `{{ matrix.KEY }}` or `{{ tasks.NAME.outputs.KEY }}`; `{{{{` for literal \
                        braces";
    let inside = inside.trim();
    let shown = quote(&format!("{{{{ {inside} }}}}"));
    if let Some(error) = nominal_time(inside, &shown) {
        return Err(error);
    }
    match inside {
        "workflow.name" => return Ok(Reference::WorkflowName),
        "task.name" => return Ok(Reference::TaskName),
        "task.id" => {
            return Err((
                Kind::UnknownReference,
                format!("{shown} does not exist in a workflow"),
                "write `{{ task.name }}`, or use the variable BATON_INSTANCE in the command"
                    .to_owned(),
            ));
        }
        _ => {}
    }
    match RuntimeReference::parse(inside) {
        Ok(RuntimeReference::Param(name)) if is_name(&name) => return Ok(Reference::Param(name)),
        Ok(RuntimeReference::Param(_)) | Err(_) => {}
        Ok(reference) => return Ok(Reference::Runtime(reference)),
    }
    let namespace = inside.split('.').next().unwrap_or_default();
    if namespace == "ports" {
        return Err((
            Kind::UnknownReference,
            format!("{shown}: tasks of a workflow have no ports"),
            "let the command choose a free port, or write the port number".to_owned(),
        ));
    }
    if is_name(inside) && !WORKFLOW_NAMESPACES.contains(&inside) {
        let hint = match suggest::nearest(inside, ["item"]) {
            Some(_) => "did you mean `{{ item }}`?".to_owned(),
            None => format!(
                "did you mean `{{{{ params.{inside} }}}}`? Write `{{{{{{{{` for literal braces"
            ),
        };
        return Err((Kind::Template, format!("{shown} is not a reference"), hint));
    }
    if !is_name(namespace) || WORKFLOW_NAMESPACES.contains(&namespace) {
        return Err((
            Kind::Template,
            format!("{shown} is not a reference"),
            HINT.to_owned(),
        ));
    }
    let names = WORKFLOW_NAMESPACES.iter().copied();
    Err((
        Kind::UnknownReference,
        format!(
            "{shown} refers to an unknown namespace {}",
            quote(namespace)
        ),
        suggest::hint(found, namespace, names, "the namespaces are:"),
    ))
}

/// The error of a reference to the nominal time outside the default of a parameter.
fn nominal_time(inside: &str, shown: &str) -> Option<TemplateError> {
    let word = inside
        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .next();
    (word == Some("nominal_time")).then(|| {
        (
            Kind::UnknownReference,
            format!("{shown} is for defaults of parameters only"),
            "write params: { day: \"{{ nominal_time }}\" }, and here {{ params.day }}".to_owned(),
        )
    })
}

/// Parses the inside of a template in a task file.
fn task_reference(inside: &str, found: usize) -> Result<Reference, TemplateError> {
    let inside = inside.trim();
    let shown = quote(&format!("{{{{ {inside} }}}}"));
    if let Some(error) = nominal_time(inside, &shown) {
        return Err(error);
    }
    if inside == "item" {
        return Ok(Reference::Item(None));
    }
    let Some((namespace, name)) = inside.split_once('.').filter(|(_, name)| is_name(name)) else {
        // `{{ day }}` is usually a parameter without its namespace.
        let hint = if is_name(inside) && !NAMESPACES.contains(&inside) {
            format!("did you mean `{{{{ params.{inside} }}}}`? Write `{{{{{{{{` for literal braces")
        } else {
            "write `{{ params.NAME }}`, `{{ item }}`, `{{ ports.NAME }}`, `{{ task.id }}` or \
             `{{ task.name }}`; `{{{{` for literal braces"
                .to_owned()
        };
        return Err((Kind::Template, format!("{shown} is not a reference"), hint));
    };
    match (namespace, name) {
        ("params", name) => Ok(Reference::Param(name.to_owned())),
        ("item", name) => Ok(Reference::Item(Some(name.to_owned()))),
        ("ports", name) => Ok(Reference::Port(name.to_owned())),
        ("task", "id") => Ok(Reference::TaskId),
        ("task", "name") => Ok(Reference::TaskName),
        ("task", name) => Err((
            Kind::UnknownReference,
            format!("{shown} does not exist"),
            suggest::hint(
                found,
                name,
                TASK_FIELDS.iter().copied(),
                "the fields of `task` are:",
            ),
        )),
        (namespace, _) => Err((
            Kind::UnknownReference,
            format!(
                "{shown} refers to an unknown namespace {}",
                quote(namespace)
            ),
            suggest::hint(
                found,
                namespace,
                NAMESPACES.iter().copied(),
                "the namespaces are:",
            ),
        )),
    }
}

/// True for a valid name of a parameter, port or axis.
pub(crate) fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// Reports every template in a value that does not support templates, at any depth.
pub(crate) fn reject_templates(item: &Item<'_>, problems: &mut Vec<Problem>) {
    let mut open = vec![item.tree];
    while let Some(tree) = open.pop() {
        match &tree.value {
            Value::List(items) => open.extend(items.iter().rev()),
            Value::Map(_) => open.extend(tree.entries().iter().rev().map(|entry| &entry.value)),
            _ => {
                let item = Item {
                    tree,
                    path: item.path.clone(),
                };
                reject_template(&item, problems);
            }
        }
    }
}

/// Reports a template in a field that does not support templates.
pub(crate) fn reject_template(item: &Item<'_>, problems: &mut Vec<Problem>) {
    if let Value::String(text) = &item.tree.value
        && text.contains("{{")
    {
        problems.push(item.problem(
            Kind::Template,
            format!(
                "{} contains a template, but templates are not supported here",
                quote(text)
            ),
            "write the value itself; templates work in `run`, `env`, `cwd` and checks",
        ));
    }
}
