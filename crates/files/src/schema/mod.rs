//! The fields of files, described once in tables: names, types, bounds,
//! defaults, descriptions.
//!
//! | module | holds |
//! |---|---|
//! | [`task`], [`process`], [`workflow`], [`fleet`], [`notify`], [`secrets`] | the tables |
//! | [`json`] | the JSON Schema made from them |
//!
//! `read` takes the names, bounds and keywords of fields from the tables; a test writes the page
//! `docs/tasks.md` from them. What a table cannot say (references, order, values that depend on
//! each other) only the reader checks, so a file that is valid by the schema may still have errors.

/// The pattern of a duration.
macro_rules! span {
    () => {
        "([0-9]+(\\.[0-9]+)?(d|h|m|s|ms))+"
    };
}

/// The pattern of a size.
macro_rules! bytes {
    () => {
        "[0-9]+(\\.[0-9]+)? *([KMGT]i?B|[KMGT]|B)?"
    };
}

mod json;
// One line for each field.
#[rustfmt::skip]
pub(crate) mod fleet;
#[rustfmt::skip]
pub(crate) mod notify;
#[rustfmt::skip]
pub(crate) mod process;
#[rustfmt::skip]
pub(crate) mod secrets;
#[rustfmt::skip]
pub(crate) mod task;
#[rustfmt::skip]
pub(crate) mod workflow;

#[cfg(test)]
mod page;
#[cfg(test)]
mod tests;

use crate::limits::COUNT_MAX;

/// The JSON Schema (draft 2020-12) of task files.
#[must_use]
pub fn task_schema() -> serde_json::Value {
    json::schema(&task::TASK, "A task file of Baton")
}

/// The JSON Schema (draft 2020-12) of workflow files.
#[must_use]
pub fn workflow_schema() -> serde_json::Value {
    json::schema(&workflow::WORKFLOW, "A workflow file of Baton")
}

/// The JSON Schema (draft 2020-12) of files of fleets.
#[must_use]
pub fn fleets_schema() -> serde_json::Value {
    json::schema(&fleet::FLEETS, "A file of fleets of Baton")
}

/// A map with known fields.
#[derive(Debug)]
pub(crate) struct Object {
    /// The heading of its section in the docs, and its name in the schema.
    pub(crate) title: &'static str,
    /// The subject of an error message: "a process".
    pub(crate) what: &'static str,
    pub(crate) fields: &'static [Field],
    /// The type of any other field; `None` if there may be none.
    pub(crate) others: Option<Type>,
    /// All fields of at least one of these groups are required.
    pub(crate) any_of: &'static [&'static [&'static str]],
    /// At most one of these fields may be used.
    pub(crate) exclusive: &'static [&'static str],
}

/// One field of a map.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) kind: Type,
    /// One line of Markdown.
    pub(crate) about: &'static str,
    /// As in a file; empty if there is none.
    pub(crate) default: &'static str,
    pub(crate) required: bool,
}

/// Joins lists of fields, of `N` in all.
pub(crate) const fn join<const N: usize>(parts: &[&[Field]]) -> [Field; N] {
    let mut all = [parts[0][0]; N];
    let (mut part, mut count) = (0, 0);
    while part < parts.len() {
        let mut at = 0;
        while at < parts[part].len() {
            all[count] = parts[part][at];
            (count, at) = (count + 1, at + 1);
        }
        part += 1;
    }
    assert!(count == N, "the length of a table is wrong");
    all
}

/// The values that a field takes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Type {
    Any,
    Null,
    Bool,
    Number,
    /// An integer within these bounds.
    Integer(i64, i64),
    /// A decimal number within these bounds, in thousandths.
    Factor(u64, u64),
    /// A string without templates.
    Text,
    /// A string with templates, or a number or boolean as it is written.
    Scalar,
    /// A string that can be a file name.
    Name,
    Duration(Zero),
    /// One of these strings.
    Word(&'static [&'static str]),
    /// A string with this description that matches this pattern.
    Pattern(&'static str, &'static str),
    /// A kernel limit in bytes, or a range from soft to hard.
    ByteLimit,
    /// Any other kernel limit, or a range from soft to hard.
    NumberLimit,
    /// A list with a minimum and a maximum length.
    List(&'static Type, usize, usize),
    /// A map with arbitrary keys, and a minimum of them.
    Map(&'static Type, usize),
    Object(&'static Object),
    AnyOf(&'static [Type]),
}

/// Whether a duration may be zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Zero {
    Allowed,
    /// Zero would mean never, or an endless loop.
    Refused,
}

/// A number of something that may be zero.
pub(crate) const COUNT: Type = Type::Integer(0, COUNT_MAX as i64);
/// The same, at least one.
pub(crate) const POSITIVE: Type = Type::Integer(1, COUNT_MAX as i64);
/// A number of bytes, with or without a unit.
pub(crate) const SIZE: Type =
    Type::AnyOf(&[Type::Pattern("size", concat!("^", bytes!(), "$")), BYTES]);
const BYTES: Type = Type::Integer(0, i64::MAX);
pub(crate) const HASH: Type =
    Type::Pattern("SHA-256 in hexadecimal, in quotes", "^[0-9a-fA-F]{64}$");

impl Object {
    pub(crate) const fn new(
        title: &'static str,
        what: &'static str,
        fields: &'static [Field],
    ) -> Self {
        Self {
            title,
            what,
            fields,
            others: None,
            any_of: &[],
            exclusive: &[],
        }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> + Clone {
        self.fields.iter().map(|field| field.name)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    /// A field that the reader knows.
    ///
    /// # Panics
    /// If the table lacks it.
    pub(crate) fn field(&self, name: &str) -> &'static Field {
        match self.fields.iter().find(|field| field.name == name) {
            Some(field) => field,
            None => panic!("the table of {} lacks `{name}`", self.what),
        }
    }
}

/// An optional field without a default.
pub(crate) const fn field(name: &'static str, kind: Type, about: &'static str) -> Field {
    Field {
        name,
        kind,
        about,
        default: "",
        required: false,
    }
}

impl Field {
    pub(crate) const fn required(self) -> Self {
        Self {
            required: true,
            ..self
        }
    }

    pub(crate) const fn or(self, default: &'static str) -> Self {
        Self { default, ..self }
    }
}
