//! From a tree of values to the types of `baton_model`, field by field: without values of
//! templates to check a file, and with values to bind it.
//!
//! A [`Reader`] reports every problem and continues with a default; the caller discards the
//! result if there is any problem. So every visible default is a documented one.
//!
//! | module | reads |
//! |---|---|
//! | [`scalars`] | strings, numbers, durations, sizes, names |
//! | [`task`] | the top level of a task file |
//! | [`process`], [`check`] | a process and its checks |
//! | [`render`] | strings with templates, with and without their values |
//! | [`params`] | parameters |
//! | [`expected`] | when work is late, and how long it runs |
//! | [`notify`] | who is told, and the file of channels and routes |
//! | [`trigger`] | schedule, launch limits, upstream tasks of the library |
//! | [`policy`] | retry, backoff |
//! | [`scale`] | scaling and fallback between attempts |
//! | [`resources`] | resources and kernel limits |
//! | [`placement`] | priority, constraints on workers |
//! | [`uris`] | files to fetch |
//! | [`secrets`] | secrets that a task is given |
//! | [`workflow`] | the top level of a workflow file, and parts of a workflow |
//! | [`layers`] | defaults and templates of workflow tasks |
//! | [`items`], [`after`] | items, dependencies and conditions of workflow tasks |
//! | [`fleet`](mod@fleet) | fleets |

mod after;
mod check;
mod expected;
mod fleet;
mod items;
mod layers;
mod notify;
mod params;
mod placement;
mod policy;
mod process;
mod render;
mod resources;
mod scalars;
mod scale;
mod secrets;
mod task;
mod trigger;
mod uris;
mod workflow;

use crate::error::{Kind, Position, Problem, quote};
use crate::schema::Object;
use crate::suggest;
use crate::template::{LocatedReference, Scope};
use crate::tree::{Entry, Item, Value};

pub(crate) use fleet::{fleet, fleets, is_fleets};
pub(crate) use notify::settings;
pub use resources::is_resource_name;
pub(crate) use secrets::sources;
pub(crate) use task::{bound_task, task};
pub(crate) use workflow::{BoundTasks, is_workflow, part, workflow};

/// Reads a tree and collects problems.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    pub(crate) problems: Vec<Problem>,
    /// Decides the namespaces of templates.
    pub(crate) scope: Scope,
    /// Amounts that are limited for a whole workflow.
    totals: items::Totals,
    /// The values of templates; `None` to check a file without them.
    pub(crate) rendering: Option<render::Rendering>,
    /// The references of templates that were read without values.
    references: Vec<LocatedReference>,
}

/// The fields of one map.
pub(crate) struct Fields<'a> {
    item: Item<'a>,
    entries: &'a [Entry],
    table: &'static Object,
}

impl<'a> Fields<'a> {
    /// The fields of a map whose keys are checked already.
    fn checked(item: Item<'a>, table: &'static Object) -> Self {
        Self {
            entries: item.tree.entries(),
            item,
            table,
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<Item<'a>> {
        debug_assert!(self.table.has(name), "{}: {name}", self.table.what);
        let entry = self.entries.iter().find(|entry| entry.key == name)?;
        Some(Item {
            tree: &entry.value,
            path: self.item.path_of(name),
        })
    }

    fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == name)
    }

    /// A problem at the position of a key, where a conflict is easiest to see.
    fn key_problem(&self, key: &str, kind: Kind, message: String, hint: &str) -> Problem {
        let entry = self.entries.iter().find(|entry| entry.key == key);
        Problem {
            kind,
            position: entry
                .and_then(|entry| entry.position)
                .or(self.item.position()),
            path: self.item.path_of(key),
            message,
            hint: hint.to_owned(),
        }
    }
}

impl Reader {
    pub(crate) fn note(
        &mut self,
        item: &Item<'_>,
        kind: Kind,
        message: String,
        hint: impl Into<String>,
    ) {
        self.problems.push(item.problem(kind, message, hint));
    }

    pub(crate) fn wrong_type(&mut self, item: &Item<'_>, expected: &str, hint: &str) {
        let found = item.tree.value.describe();
        let message = format!("expected {expected}, found {found}");
        self.note(item, Kind::WrongType, message, hint);
    }

    /// Reads the map `item` and reports keys that its table lacks. `misplaced` may return a hint
    /// for a field that belongs elsewhere.
    fn fields<'a>(
        &mut self,
        item: &Item<'a>,
        table: &'static Object,
        misplaced: impl Fn(&str) -> Option<String>,
    ) -> Option<Fields<'a>> {
        let Value::Map(entries) = &item.tree.value else {
            let known: Vec<&str> = table.names().collect();
            let hint = format!("write a map; the fields are: {}", known.join(", "));
            self.wrong_type(item, "a map", &hint);
            return None;
        };
        for entry in entries {
            if table.has(&entry.key) {
                continue;
            }
            let hint = misplaced(&entry.key).unwrap_or_else(|| {
                suggest::hint(
                    self.problems.len(),
                    &entry.key,
                    table.names(),
                    "the fields are:",
                )
            });
            self.problems.push(Problem {
                kind: Kind::UnknownField,
                position: entry.position,
                path: item.path_of(&entry.key),
                message: format!("{} has no field {}", table.what, quote(&entry.key)),
                hint,
            });
        }
        Some(Fields::checked(item.clone(), table))
    }

    /// Reads a map with arbitrary keys.
    fn entries<'a>(
        &mut self,
        item: &Item<'a>,
        hint: &str,
    ) -> Vec<(&'a str, Item<'a>, Option<Position>)> {
        let Value::Map(entries) = &item.tree.value else {
            self.wrong_type(item, "a map", hint);
            return Vec::new();
        };
        entries
            .iter()
            .map(|entry| {
                let value = Item {
                    tree: &entry.value,
                    path: item.path_of(&entry.key),
                };
                (entry.key.as_str(), value, entry.position)
            })
            .collect()
    }

    fn list<'a>(&mut self, item: &Item<'a>, hint: &str) -> Vec<Item<'a>> {
        let Value::List(items) = &item.tree.value else {
            self.wrong_type(item, "a list", hint);
            return Vec::new();
        };
        items
            .iter()
            .enumerate()
            .map(|(index, tree)| item.index(index, tree))
            .collect()
    }

    fn missing(&mut self, fields: &Fields<'_>, name: &str, hint: &str) {
        let item = &fields.item;
        self.problems.push(Problem {
            path: item.path_of(name),
            ..item.problem(
                Kind::MissingField,
                format!("the field `{name}` is missing"),
                hint,
            )
        });
    }
}
