//! What tasks have put out, and the values of items.
//!
//! Of what was put out only that is kept which somebody refers to. What a task has put out is
//! put together once, when all of it is over: whoever refers to it may have many items.

use std::borrow::Cow;
use std::sync::Arc;

use baton_model::workflow::{ItemEnd, Items, PlanTask};
use serde_json::{Map, Value};

use super::{ItemResult, ItemState, Progress};
use crate::workflow::template::{Reference, plain};
use crate::workflow::{Dag, items};

/// Bytes of a list that is put together from what many items have put out: one that is longer
/// fits into no argument.
const JOINED_BYTES_MAX: usize = 128 * 1_024 - 1;

/// What a task has put out under one name: the value of a task that is one by itself, or the list
/// of the values of all items.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Joined {
    value: Arc<Value>,
    text: Arc<str>,
}

impl Joined {
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

    /// What a reference means in the condition of an item. What something has not put out that
    /// is not DONE is null: a condition may ask for it.
    pub(super) fn asked<'a>(
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
                let from = dag.place(from).ok_or_else(unknown)?;
                return match self.output(dag, (task, item), from, key) {
                    Err(_) if !self.is_done(dag, (task, item), from) => Ok(Cow::Owned(Value::Null)),
                    found => found,
                };
            }
        };
        value.map(Cow::Owned).ok_or_else(unknown)
    }

    /// What a reference means in a text of an item that may begin.
    pub(in crate::workflow) fn filled<'a>(
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
                let from = dag.place(from)?;
                if let Some(Ok(joined)) = self.joined(dag, task, from, key) {
                    return Some(Cow::Borrowed(&joined.text));
                }
                let value = self.output(dag, (task, item), from, key).ok()?;
                Some(Cow::Owned(plain(&value).into_owned()))
            }
        }
    }

    /// What an item sees of what a task has put out: that of the item of the same place where they
    /// follow one by one, or else that of all of it.
    pub(super) fn output<'a>(
        &'a self,
        dag: &'a Dag,
        (task, item): (u32, u32),
        from: u32,
        key: &str,
    ) -> Result<Cow<'a, Value>, String> {
        let nothing = || {
            let name = &dag.plan.tasks[from as usize].name;
            format!("`{name}` has not put out `{key}`")
        };
        if dag.graph.is_one_by_one(task, from) {
            let value = self.output_of(from, item, key);
            return value.map(Cow::Owned).ok_or_else(nothing);
        }
        match self.joined(dag, task, from, key) {
            Some(Ok(joined)) => Ok(Cow::Borrowed(&joined.value)),
            Some(Err(why)) => Err(why.clone()),
            None => Err(nothing()),
        }
    }

    /// What all of a task has put out, if that is what the items of another see.
    fn joined(
        &self,
        dag: &Dag,
        task: u32,
        from: u32,
        key: &str,
    ) -> Option<&Result<Joined, String>> {
        let whole = !dag.graph.is_one_by_one(task, from);
        whole.then(|| self.joined.get(&from)?.get(key)).flatten()
    }

    /// Whether that is DONE of which an item sees what it has put out.
    fn is_done(&self, dag: &Dag, (task, item): (u32, u32), from: u32) -> bool {
        if dag.graph.is_one_by_one(task, from) {
            return self.state(from, item) == Some(ItemState::Done);
        }
        self.tally(from).of(ItemState::Done) > 0
    }

    fn output_of(&self, task: u32, item: u32, key: &str) -> Option<Value> {
        let text = self.outputs.get(&(task, item))?;
        let mut value: Map<String, Value> = serde_json::from_str(text).ok()?;
        value.remove(key)
    }

    /// All of a task is over: puts together what it has put out.
    pub(super) fn join(&mut self, dag: &Dag, task: u32) {
        for key in dag.graph.joined(task) {
            let joined = self.put_together(dag, task, key);
            let of_task = self.joined.entry(task).or_default();
            of_task.insert(key.clone(), joined);
        }
    }

    /// Of items, one value for each that is DONE; null where it has put out nothing of that name.
    fn put_together(&self, dag: &Dag, task: u32, key: &str) -> Result<Joined, String> {
        let PlanTask { name, items, .. } = &dag.plan.tasks[task as usize];
        if *items == Items::One {
            let value = self.output_of(task, 0, key);
            let value = value.ok_or_else(|| format!("`{name}` has not put out `{key}`"))?;
            return Ok(Joined::new(value));
        }
        let done =
            (0..self.length(task)).filter(|item| self.state(task, *item) == Some(ItemState::Done));
        let (mut list, mut bytes, mut found) = (Vec::new(), 2, false);
        for item in done {
            let value = self.output_of(task, item, key);
            found |= value.is_some();
            let value = value.unwrap_or_default();
            bytes += value.to_string().len() + 1;
            if bytes > JOINED_BYTES_MAX {
                return Err(format!(
                    "`{name}` has put out more of `{key}` than fits into an argument; \
                     let its items write files, and name those"
                ));
            }
            list.push(value);
        }
        if !found && !list.is_empty() {
            return Err(format!("`{name}` has not put out `{key}`"));
        }
        Ok(Joined::new(Value::Array(list)))
    }

    /// Bytes that the texts of each item of this task grow by, of what others have put out.
    pub(super) fn filled_bytes(&self, dag: &Dag, task: u32) -> usize {
        let needs = dag.graph.needs(task).iter();
        let joined = needs.filter_map(|(from, key)| {
            let joined = self.joined(dag, task, *from, key)?;
            joined.as_ref().ok().map(|it| it.text.len())
        });
        joined.sum()
    }

    /// The list that a task has put out for another to have its items of. Of many items it has
    /// what each of them has put out: the elements of a list, or a value by itself.
    pub(super) fn listed(&self, dag: &Dag, task: u32, key: &str) -> Result<Vec<Value>, String> {
        let many = dag.plan.tasks[task as usize].items != Items::One;
        let range = self.outputs.range((task, 0)..=(task, u32::MAX));
        let mut list = Vec::new();
        let mut found = false;
        for ((_, item), _) in range {
            match self.output_of(task, *item, key) {
                Some(Value::Array(values)) => list.extend(values),
                Some(value) if many => list.push(value),
                Some(other) => {
                    return Err(format!(
                        "its items shall be the output `{key}`, and that is no list: {other}"
                    ));
                }
                None => continue,
            }
            found = true;
        }
        match found {
            true => Ok(list),
            false => Err(format!(
                "its items shall be the output `{key}`, and nothing has put that out"
            )),
        }
    }

    /// Keeps of what was put out what somebody wants to know.
    pub(super) fn note(&mut self, dag: &Dag, ended: &ItemResult) {
        let Some(outputs) = &ended.outputs else {
            return;
        };
        let known = (ended.task as usize) < dag.plan.tasks.len();
        if !known || ended.end != ItemEnd::Done {
            return;
        }
        let wanted = dag.graph.wanted(ended.task);
        if wanted.is_empty() {
            return;
        }
        let Ok(mut values) = serde_json::from_str::<Map<String, Value>>(outputs) else {
            return;
        };
        let all = values.len();
        values.retain(|key, _| wanted.contains(key));
        let kept = match values.len() {
            kept if kept == all => Arc::clone(outputs),
            _ => Arc::from(Value::Object(values).to_string()),
        };
        self.outputs.insert((ended.task, ended.item), kept);
    }
}
