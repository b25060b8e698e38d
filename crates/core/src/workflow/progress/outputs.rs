//! Outputs of tasks, and values of items.
//!
//! Only outputs that a task refers to are kept. The outputs of a task are joined once, when all
//! its items are settled, since the referring task may have many items.

use std::borrow::Cow;
use std::sync::Arc;

use baton_model::workflow::{ItemEnd, Items, PlanTask};
use serde_json::{Map, Value};

use super::{ItemResult, ItemState, Progress};
use crate::workflow::template::{Reference, plain};
use crate::workflow::{Dag, items};

/// Bytes of an output list joined from many items: a longer one does not fit into an argument.
const JOINED_BYTES_MAX: usize = 128 * 1_024 - 1;

/// An output of a whole task: the value, if the task has a single item, or the list of the values
/// of all items.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct JoinedOutput {
    value: Arc<Value>,
    text: Arc<str>,
}

impl JoinedOutput {
    fn new(value: Value) -> Self {
        Self {
            text: Arc::from(plain(&value).as_ref()),
            value: Arc::new(value),
        }
    }
}

impl Progress {
    /// The value of an item.
    #[must_use]
    pub fn value(&self, dag: &Dag, task: u32, item: u32) -> Option<Value> {
        let own = dag.plan.tasks.get(task as usize)?;
        match &own.items {
            Items::Output { .. } => {
                let text = self.lists.get(&task)?.get(item as usize)?;
                serde_json::from_str(text).ok()
            }
            items => items::value(items, item),
        }
    }

    /// Value of a reference in an item's `when`. A missing output is null if its task is not
    /// DONE: a condition may test for it.
    pub(super) fn condition_value<'a>(
        &'a self,
        dag: &'a Dag,
        (task, item): (u32, u32),
        reference: &Reference,
    ) -> Result<Cow<'a, Value>, String> {
        let unknown = || format!("`{reference}` has no value");
        let value = match reference {
            Reference::Item => self.value(dag, task, item),
            Reference::ItemKey(key) => {
                let value = self.value(dag, task, item);
                value.and_then(|value| value.get(key).cloned())
            }
            Reference::Param(name) => dag.plan.params.get(name).cloned().map(Value::String),
            Reference::Output { task: from, key } => {
                let from = dag.index_of(from).ok_or_else(unknown)?;
                return match self.visible_output(dag, (task, item), from, key) {
                    Err(_) if !self.is_source_done(dag, (task, item), from) => {
                        Ok(Cow::Owned(Value::Null))
                    }
                    found => found,
                };
            }
        };
        value.map(Cow::Owned).ok_or_else(unknown)
    }

    /// Text of a reference in a template of a ready item.
    pub(in crate::workflow) fn text_value<'a>(
        &'a self,
        dag: &'a Dag,
        (task, item): (u32, u32),
        value: Option<&'a Value>,
        reference: &Reference,
    ) -> Option<Cow<'a, str>> {
        match reference {
            Reference::Item => value.map(plain),
            Reference::ItemKey(key) => value?.get(key).map(plain),
            Reference::Param(name) => {
                let value = dag.plan.params.get(name)?;
                Some(Cow::Borrowed(value))
            }
            Reference::Output { task: from, key } => {
                let from = dag.index_of(from)?;
                if let Some(Ok(joined)) = self.joined(dag, task, from, key) {
                    return Some(Cow::Borrowed(&joined.text));
                }
                let value = self.visible_output(dag, (task, item), from, key).ok()?;
                Some(Cow::Owned(plain(&value).into_owned()))
            }
        }
    }

    /// An upstream output as an item sees it: that of the upstream item of the same index if the
    /// tasks are connected item by item, or else the joined output.
    pub(super) fn visible_output<'a>(
        &'a self,
        dag: &'a Dag,
        (task, item): (u32, u32),
        from: u32,
        key: &str,
    ) -> Result<Cow<'a, Value>, String> {
        let missing = || {
            let name = &dag.plan.tasks[from as usize].name;
            format!("`{name}` has no output `{key}`")
        };
        if dag.graph.is_per_item(task, from) {
            let value = self.item_output(from, item, key);
            return value.map(Cow::Owned).ok_or_else(missing);
        }
        match self.joined(dag, task, from, key) {
            Some(Ok(joined)) => Ok(Cow::Borrowed(&joined.value)),
            Some(Err(reason)) => Err(reason.clone()),
            None => Err(missing()),
        }
    }

    /// The joined output of a task, if that is what the items of another see.
    fn joined(
        &self,
        dag: &Dag,
        task: u32,
        from: u32,
        key: &str,
    ) -> Option<&Result<JoinedOutput, String>> {
        let whole = !dag.graph.is_per_item(task, from);
        whole.then(|| self.joined.get(&from)?.get(key)).flatten()
    }

    /// Whether the source of the outputs that an item sees is DONE.
    fn is_source_done(&self, dag: &Dag, (task, item): (u32, u32), from: u32) -> bool {
        if dag.graph.is_per_item(task, from) {
            return self.state(from, item) == Some(ItemState::Done);
        }
        self.tally(from).of(ItemState::Done) > 0
    }

    fn item_output(&self, task: u32, item: u32, key: &str) -> Option<Value> {
        let text = self.outputs.get(&(task, item))?;
        let mut value: Map<String, Value> = serde_json::from_str(text).ok()?;
        value.remove(key)
    }

    /// Joins the outputs of a task whose items are all settled.
    pub(super) fn join_outputs(&mut self, dag: &Dag, task: u32) {
        for key in dag.graph.joined_keys(task) {
            let joined = self.join_output(dag, task, key);
            let of_task = self.joined.entry(task).or_default();
            of_task.insert(key.clone(), joined);
        }
    }

    /// For a task with items: one value for each that is DONE, null if it has no such output.
    fn join_output(&self, dag: &Dag, task: u32, key: &str) -> Result<JoinedOutput, String> {
        let PlanTask { name, items, .. } = &dag.plan.tasks[task as usize];
        if *items == Items::One {
            let value = self.item_output(task, 0, key);
            let value = value.ok_or_else(|| format!("`{name}` has no output `{key}`"))?;
            return Ok(JoinedOutput::new(value));
        }
        let done = (0..self.item_count(task))
            .filter(|item| self.state(task, *item) == Some(ItemState::Done));
        let (mut list, mut bytes, mut found) = (Vec::new(), 2, false);
        for item in done {
            let value = self.item_output(task, item, key);
            found |= value.is_some();
            let value = value.unwrap_or_default();
            bytes += value.to_string().len() + 1;
            if bytes > JOINED_BYTES_MAX {
                return Err(format!(
                    "the joined output `{key}` of `{name}` is longer than {JOINED_BYTES_MAX} bytes \
                     and does not fit into an argument; let its items write files, and output \
                     their names"
                ));
            }
            list.push(value);
        }
        if !found && !list.is_empty() {
            return Err(format!("`{name}` has no output `{key}`"));
        }
        Ok(JoinedOutput::new(Value::Array(list)))
    }

    /// Bytes that joined outputs add to the rendered texts of each item of this task.
    pub(super) fn filled_bytes(&self, dag: &Dag, task: u32) -> usize {
        let needs = dag.graph.required_outputs(task).iter();
        let joined = needs.filter_map(|(from, key)| {
            let joined = self.joined(dag, task, *from, key)?;
            joined.as_ref().ok().map(|it| it.text.len())
        });
        joined.sum()
    }

    /// The list output from which another task makes its items. If the source task has items
    /// itself, their outputs are concatenated: the elements of a list, or a single value.
    pub(super) fn output_list(
        &self,
        dag: &Dag,
        task: u32,
        key: &str,
    ) -> Result<Vec<Value>, String> {
        let many = dag.plan.tasks[task as usize].items != Items::One;
        let range = self.outputs.range((task, 0)..=(task, u32::MAX));
        let mut list = Vec::new();
        let mut found = false;
        for ((_, item), _) in range {
            match self.item_output(task, *item, key) {
                Some(Value::Array(values)) => list.extend(values),
                Some(value) if many => list.push(value),
                Some(other) => {
                    return Err(format!(
                        "its items come from the output `{key}`, which is not a list: {other}"
                    ));
                }
                None => continue,
            }
            found = true;
        }
        if found {
            Ok(list)
        } else {
            Err(format!(
                "its items come from the output `{key}`, which does not exist"
            ))
        }
    }

    /// Keeps those outputs of a result that a task refers to.
    pub(super) fn keep_outputs(&mut self, dag: &Dag, ended: &ItemResult) {
        let Some(outputs) = &ended.outputs else {
            return;
        };
        let known = (ended.task as usize) < dag.plan.tasks.len();
        if !known || ended.end != ItemEnd::Done {
            return;
        }
        let referenced = dag.graph.referenced_keys(ended.task);
        if referenced.is_empty() {
            return;
        }
        let Ok(mut values) = serde_json::from_str::<Map<String, Value>>(outputs) else {
            return;
        };
        let all = values.len();
        values.retain(|key, _| referenced.contains(key));
        let kept = match values.len() {
            kept if kept == all => Arc::clone(outputs),
            _ => Arc::from(Value::Object(values).to_string()),
        };
        self.outputs.insert((ended.task, ended.item), kept);
    }
}
