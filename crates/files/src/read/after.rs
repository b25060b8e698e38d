//! Dependencies (`after`) and conditions (`when`) of a workflow task.

use std::collections::BTreeSet;

use baton_core::workflow::when::WhenExpr;
use baton_model::limits::RUN_ITEMS_MAX;
use baton_model::workflow::{Condition, EdgeLists, Edges};

use super::{Item, Reader};
use crate::error::{Kind, Location, clean, quote};
use crate::schema::workflow::AFTER;
use crate::tree::{Tree, Value};
use crate::workflow::{UnresolvedAfter, UnresolvedWhen};

const AFTER_HINT: &str = "write a list, such as [extract, { task: load, on: end }]";
const EDGES_HINT: &str =
    "write, for each item, the items that it waits for, separated by `;`: \"0,1;1,2;2\"";

impl Reader {
    /// Reads one entry or a list of entries.
    pub(super) fn after_in_workflow(&mut self, item: &Item<'_>) -> Vec<UnresolvedAfter> {
        let items = match item.tree.value {
            Value::String(_) | Value::Map(_) => vec![item.clone()],
            _ => self.list(item, AFTER_HINT),
        };
        let mut known = BTreeSet::new();
        let mut after = Vec::with_capacity(items.len());
        for item in &items {
            let Some(entry) = self.after_entry(item) else {
                continue;
            };
            if !known.insert(entry.task.clone()) {
                let message = format!("{} is listed twice", quote(&entry.task));
                let hint = "keep one entry; `on: end` waits for success or failure";
                self.note(item, Kind::DuplicateName, message, hint);
                continue;
            }
            after.push(entry);
        }
        after
    }

    fn after_entry(&mut self, item: &Item<'_>) -> Option<UnresolvedAfter> {
        if !matches!(item.tree.value, Value::Map(_)) {
            let task = self.text(item, AFTER_HINT)?;
            return Some(UnresolvedAfter::new(task, item.location()));
        }
        let fields = self.fields(item, &AFTER, |key| {
            (key == "condition").then(|| "did you mean `on`?".to_owned())
        })?;
        let condition = self.word_field(&fields, "on");
        let each = self.bool_field(&fields, "each");
        let lists = match fields.get("items") {
            Some(item) => Some(self.edges(&item)?),
            None => None,
        };
        if each == Some(true) && lists.is_some() {
            self.problems.push(fields.key_problem(
                "items",
                Kind::Conflict,
                "`each` and `items` cannot be combined".to_owned(),
                "remove `each` to wait for the listed items, or `items` to wait for the item with the same index",
            ));
        }
        let Some(task) = fields.get("task") else {
            self.missing(&fields, "task", AFTER_HINT);
            return None;
        };
        let name = self.text(&task, AFTER_HINT)?;
        Some(UnresolvedAfter {
            condition: condition?,
            edges: match lists {
                Some(lists) => Edges::Lists(lists),
                None if each == Some(true) => Edges::Same,
                None => Edges::All,
            },
            edges_location: fields
                .get("items")
                .or(fields.get("each"))
                .unwrap_or_else(|| item.clone())
                .location(),
            ..UnresolvedAfter::new(name, task.location())
        })
    }

    /// Reads a string such as `0,1;2`, or a list of lists.
    fn edges(&mut self, item: &Item<'_>) -> Option<EdgeLists> {
        let lists = match &item.tree.value {
            Value::String(text) | Value::Number(text) => {
                let lists = text.bytes().filter(|byte| *byte == b';').count() as u64;
                if lists < RUN_ITEMS_MAX {
                    EdgeLists::try_from(text.clone())
                } else {
                    Err(format!("the edges have more than {RUN_ITEMS_MAX} lists"))
                }
            }
            Value::List(lists) => listed(lists),
            _ => {
                self.wrong_type(item, "edges", EDGES_HINT);
                return None;
            }
        };
        lists
            .map_err(|message| self.note(item, Kind::BadEdges, message, EDGES_HINT))
            .ok()
    }

    pub(super) fn when(&mut self, item: &Item<'_>) -> Option<UnresolvedWhen> {
        const HINT: &str =
            "write a condition, such as \"params.day != '' and tasks.list.outputs.count > 0\"";
        let text = match &item.tree.value {
            Value::String(text) => text.clone(),
            Value::Bool(truth) => truth.to_string(),
            _ => {
                self.wrong_type(item, "a condition", HINT);
                return None;
            }
        };
        match WhenExpr::parse(&text) {
            Ok(when) => Some(UnresolvedWhen {
                references: when.references().into_iter().cloned().collect(),
                text,
                location: item.location(),
            }),
            Err(error) => {
                let hint = if text.contains("{{") {
                    "write references without braces here: params.day, item, tasks.list.outputs.count"
                } else {
                    HINT
                };
                let message = format!("invalid condition: {}", shorten(&error));
                self.note(item, Kind::BadValue, message, hint);
                None
            }
        }
    }
}

impl UnresolvedAfter {
    /// A dependency on the success of all items of a task.
    pub(crate) fn new(task: &str, location: Location) -> Self {
        Self {
            task: task.to_owned(),
            at: 0,
            condition: Condition::Success,
            edges: Edges::All,
            edges_location: location.clone(),
            location,
        }
    }
}

/// Shortens an error message of the parser, which may quote user text.
fn shorten(error: &str) -> String {
    const CHARS_MAX: usize = 120;
    clean(&error.chars().take(CHARS_MAX).collect::<String>())
}

fn listed(lists: &[Tree]) -> Result<EdgeLists, String> {
    let mut edges = EdgeLists::default();
    let mut numbers = Vec::new();
    for list in lists {
        let Value::List(items) = &list.value else {
            return Err("each list of edges must be a list of numbers".to_owned());
        };
        numbers.clear();
        for item in items {
            let number = match &item.value {
                Value::Number(text) => text.parse().ok(),
                _ => None,
            };
            numbers.push(number.ok_or("each edge must be an item index, from 0")?);
        }
        edges.push(&numbers)?;
    }
    Ok(edges)
}
