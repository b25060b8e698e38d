//! A task or workflow as JSON: the form in which clients submit it, with its templates.
//!
//! A tree keeps the text of a number, because `1.10` as a parameter means those four characters;
//! JSON keeps only the number. So numbers become strings in fields that take strings, and stay
//! numbers elsewhere. An item becomes a string only if the number would be written differently.
//! [`from_json`] reads back the same task that [`task_to_json`] writes.

use crate::error::Problem;
use crate::limits::{DEPTH_MAX, SizeLimits};
use crate::tree::{Entry, Tree, Value, too_large};

/// Converts the tree of a task.
pub(crate) fn task_to_json(tree: &Tree) -> serde_json::Value {
    json(tree, &mut Vec::new(), number_form)
}

/// Converts the tree of a workflow.
pub(crate) fn workflow_to_json(tree: &Tree) -> serde_json::Value {
    json(tree, &mut Vec::new(), |path| match path {
        ["defaults", rest @ ..] | ["tasks" | "templates", _, rest @ ..] => match rest {
            ["for_each" | "matrix", ..] => NumberForm::AsWritten,
            rest => number_form(rest),
        },
        path => number_form(path),
    })
}

/// The JSON form of a number.
enum NumberForm {
    Number,
    Text,
    /// A number if JSON writes it like the file, or else a string.
    AsWritten,
}

/// Converts a value outside the schema.
pub(crate) fn value_to_json(tree: &Tree) -> serde_json::Value {
    json(tree, &mut Vec::new(), |_| NumberForm::AsWritten)
}

/// Converts a file as other programs read it.
#[cfg(test)]
pub(crate) fn plain_json(tree: &Tree) -> serde_json::Value {
    json(tree, &mut Vec::new(), |_| NumberForm::Number)
}

/// `path` are the keys from the root to `tree`, without list indexes.
fn json<'a>(
    tree: &'a Tree,
    path: &mut Vec<&'a str>,
    numbers: fn(&[&str]) -> NumberForm,
) -> serde_json::Value {
    use serde_json::Value as Json;
    match &tree.value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::String(text) => Json::String(text.clone()),
        Value::Number(text) => match (numbers(path), number(text)) {
            (NumberForm::Text, _) => Json::String(text.clone()),
            (NumberForm::AsWritten, number) => {
                let read = number.to_string();
                if read == *text {
                    number
                } else {
                    Json::String(text.clone())
                }
            }
            (NumberForm::Number, number) => number,
        },
        Value::List(items) => {
            let items = items.iter().map(|item| json(item, path, numbers));
            Json::Array(items.collect())
        }
        Value::Map(entries) => {
            let mut map = serde_json::Map::new();
            for entry in entries {
                path.push(&entry.key);
                map.insert(entry.key.clone(), json(&entry.value, path, numbers));
                path.pop();
            }
            Json::Object(map)
        }
    }
}

/// Returns the form of numbers in a field: strings where the user's spelling counts.
fn number_form(path: &[&str]) -> NumberForm {
    let is_bound = matches!(path, ["params", _, "min" | "max"]);
    let takes = matches!(
        path,
        [
            "params" | "env" | "run" | "cwd" | "stdout" | "stderr" | "constraints",
            ..
        ] | ["processes", "env" | "run" | "cwd", ..]
            | ["processes", "ready" | "health", "command", ..]
    );
    if takes && !is_bound {
        NumberForm::Text
    } else {
        NumberForm::Number
    }
}

fn number(text: &str) -> serde_json::Value {
    if let Ok(whole) = text.parse::<i64>() {
        return whole.into();
    }
    if let Ok(whole) = text.parse::<u64>() {
        return whole.into();
    }
    // A JSON number would lose digits, so keep a string.
    if text
        .bytes()
        .all(|b| b.is_ascii_digit() || b == b'-' || b == b'+')
    {
        return text.into();
    }
    let fraction = text.parse().ok().and_then(serde_json::Number::from_f64);
    fraction.map_or_else(|| text.into(), serde_json::Value::Number)
}

/// Converts JSON to a tree without positions.
pub(crate) fn from_json(
    value: &serde_json::Value,
    size: &SizeLimits,
) -> Result<Tree, Vec<Problem>> {
    let mut budget = Budget {
        bytes: 0,
        values: 0,
        size,
    };
    to_tree(value, 0, &mut budget).map_err(|problem| vec![problem])
}

/// Bytes and values consumed so far.
struct Budget<'a> {
    bytes: usize,
    values: usize,
    size: &'a SizeLimits,
}

impl Budget<'_> {
    fn take(&mut self, bytes: usize) -> Result<(), Problem> {
        self.bytes += 1 + bytes;
        self.values += 1;
        let bound = if self.bytes > self.size.file_bytes_max {
            format!("{} bytes", self.size.file_bytes_max)
        } else if self.values > self.size.json_values_max {
            format!("{} values", self.size.json_values_max)
        } else {
            return Ok(());
        };
        Err(too_large(self.size, &bound, None))
    }
}

fn to_tree(
    value: &serde_json::Value,
    depth: usize,
    budget: &mut Budget<'_>,
) -> Result<Tree, Problem> {
    use serde_json::Value as Json;
    if depth > DEPTH_MAX {
        return Err(crate::tree::too_deep(None));
    }
    budget.take(match value {
        Json::String(text) => text.len(),
        _ => 0,
    })?;
    let value = match value {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => Value::Number(number.to_string()),
        Json::String(text) => Value::String(text.clone()),
        Json::Array(items) => {
            let items = items.iter().map(|item| to_tree(item, depth + 1, budget));
            Value::List(items.collect::<Result<_, _>>()?)
        }
        Json::Object(map) => {
            let mut entries = Vec::with_capacity(map.len());
            for (key, value) in map {
                budget.bytes += key.len();
                entries.push(Entry {
                    key: key.clone(),
                    position: None,
                    value: to_tree(value, depth + 1, budget)?,
                });
            }
            Value::Map(entries)
        }
    };
    Ok(Tree {
        value,
        position: None,
    })
}
