//! A task as JSON: the form in which it travels to a scheduler, templates and all.
//!
//! A number keeps its text in a tree, and `1.10` as a parameter means those four
//! characters; JSON values keep only the number. So numbers become texts in the fields
//! that take texts, and stay numbers elsewhere. What is written by [`of`] and read by
//! [`tree`] is the same task.

use crate::TaskFile;
use crate::error::{Kind, Place, Problem};
use crate::limits::{DEPTH_MAX, FILE_BYTES_MAX};
use crate::tree::{Entry, Tree, Value};

impl TaskFile {
    /// The task as it was read, with its templates open. [`crate::from_json`] makes the
    /// same task of it.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        self.source.clone()
    }
}

/// The tree of a task as JSON.
pub(crate) fn of(tree: &Tree) -> serde_json::Value {
    json(tree, &mut Vec::new())
}

/// `path` are the keys on the way to it, without the places in lists.
fn json<'a>(tree: &'a Tree, path: &mut Vec<&'a str>) -> serde_json::Value {
    use serde_json::Value as Json;
    match &tree.value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::String(text) => Json::String(text.clone()),
        Value::Number(text) if takes_text(path) => Json::String(text.clone()),
        Value::Number(text) => number(text),
        Value::List(items) => Json::Array(items.iter().map(|item| json(item, path)).collect()),
        Value::Map(entries) => {
            let mut map = serde_json::Map::new();
            for entry in entries {
                path.push(&entry.key);
                map.insert(entry.key.clone(), json(&entry.value, path));
                path.pop();
            }
            Json::Object(map)
        }
    }
}

/// True for the fields in which a number is what somebody typed.
fn takes_text(path: &[&str]) -> bool {
    let is_bound = matches!(path, ["params", _, "min" | "max"]);
    let takes = matches!(
        path,
        ["params" | "env" | "run" | "constraints", ..]
            | ["processes", "env" | "run" | "cwd", ..]
            | ["processes", "ready" | "health", "command", ..]
    );
    takes && !is_bound
}

fn number(text: &str) -> serde_json::Value {
    if let Ok(whole) = text.parse::<i64>() {
        return whole.into();
    }
    let fraction = text.parse().ok().and_then(serde_json::Number::from_f64);
    fraction.map_or_else(|| text.into(), serde_json::Value::Number)
}

/// JSON as a tree without places.
pub(crate) fn tree(value: &serde_json::Value) -> Result<Tree, Vec<Problem>> {
    let mut bytes = 0;
    walk(value, 0, &mut bytes).map_err(|problem| vec![problem])
}

fn walk(value: &serde_json::Value, depth: usize, bytes: &mut usize) -> Result<Tree, Problem> {
    use serde_json::Value as Json;
    if depth > DEPTH_MAX {
        return Err(crate::tree::too_deep(None));
    }
    *bytes += 1;
    let value = match value {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => Value::Number(number.to_string()),
        Json::String(text) => {
            *bytes += text.len();
            Value::String(text.clone())
        }
        Json::Array(items) => {
            let items = items.iter().map(|item| walk(item, depth + 1, bytes));
            Value::List(items.collect::<Result<_, _>>()?)
        }
        Json::Object(map) => {
            let mut entries = Vec::with_capacity(map.len());
            for (key, value) in map {
                *bytes += key.len();
                entries.push(Entry {
                    key: key.clone(),
                    position: None,
                    value: walk(value, depth + 1, bytes)?,
                });
            }
            Value::Map(entries)
        }
    };
    if *bytes > FILE_BYTES_MAX {
        return Err(Place::default().problem(
            Kind::TooLarge,
            format!("the task has more than {FILE_BYTES_MAX} bytes"),
            "move data into files of their own, or make a workflow of several tasks",
        ));
    }
    Ok(Tree {
        value,
        position: None,
    })
}
