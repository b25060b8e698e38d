//! What tasks have put out, and the values of items.

use std::sync::Arc;

use baton_model::workflow::{ItemEnd, Items};
use serde_json::Value;

use super::{Ended, Progress};
use crate::workflow::{Planned, items};

/// Bytes of a list that is put together from what many items have put out: one that is longer
/// fits into no argument.
const JOINED_BYTES_MAX: usize = 128 * 1_024;

impl Progress {
    /// The value of an item.
    #[must_use]
    pub fn value(&self, planned: &Planned, task: u32, item: u32) -> Option<Value> {
        let own = planned.plan.tasks.get(task as usize)?;
        match &own.items {
            Items::Output { .. } => {
                let text = self.lists.get(&task)?.get(item as usize)?;
                serde_json::from_str(text).ok()
            }
            items => items::value(items, item),
        }
    }

    /// What a task has put out: the value of a task that is one by itself, or the list of the
    /// values of all items.
    #[must_use]
    pub fn output(&self, planned: &Planned, task: u32, key: &str) -> Option<Value> {
        if planned.plan.tasks.get(task as usize)?.items == Items::One {
            return self.output_of(task, 0, key);
        }
        let (mut list, mut bytes) = (Vec::new(), 0);
        let done = self.outputs.range((task, 0)..=(task, u32::MAX));
        for ((_, item), _) in done {
            let Some(value) = self.output_of(task, *item, key) else {
                continue;
            };
            bytes += value.to_string().len() + 1;
            if bytes > JOINED_BYTES_MAX {
                return None;
            }
            list.push(value);
        }
        Some(Value::Array(list))
    }

    fn output_of(&self, task: u32, item: u32, key: &str) -> Option<Value> {
        let text = self.outputs.get(&(task, item))?;
        let value: Value = serde_json::from_str(text).ok()?;
        value.get(key).cloned()
    }

    /// The list that a task has put out for another to have its items of.
    pub(super) fn listed(&self, task: u32, key: &str) -> Result<Vec<Value>, String> {
        let range = self.outputs.range((task, 0)..=(task, u32::MAX));
        let mut list = Vec::new();
        let mut found = false;
        for ((_, item), _) in range {
            match self.output_of(task, *item, key) {
                Some(Value::Array(values)) => {
                    found = true;
                    list.extend(values);
                }
                Some(other) => {
                    return Err(format!(
                        "its items shall be the output `{key}`, and that is no list: {other}"
                    ));
                }
                None => {}
            }
        }
        match found {
            true => Ok(list),
            false => Err(format!(
                "its items shall be the output `{key}`, and nothing has put that out"
            )),
        }
    }

    pub(super) fn note(&mut self, planned: &Planned, ended: &Ended) {
        if let Some(outputs) = &ended.outputs
            && planned.graph.is_wanted(ended.task)
            && ended.end == ItemEnd::Done
        {
            self.outputs
                .insert((ended.task, ended.item), Arc::clone(outputs));
        }
    }
}
