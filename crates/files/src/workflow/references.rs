//! References of workflow templates and conditions: each must exist and be known in time.

use std::collections::BTreeSet;

use baton_model::workflow::{Edges, Items, Plan};

use super::order::{Names, unknown_task};
use super::{Context, ItemKeys, UnresolvedAfter, WorkflowTask};
use crate::error::{Kind, Location, Problem, quote};
use crate::limits::UPSTREAM_STEPS_MAX;
use crate::suggest;
use crate::template::{LocatedReference, Reference, RuntimeReference};

/// Checks everything except the order: parameters, items, and that tasks exist.
pub(super) fn check_own(
    tasks: &[WorkflowTask],
    context: &Context<'_>,
    names: &Names,
    problems: &mut Vec<Problem>,
) {
    for consumer in tasks {
        for LocatedReference {
            reference,
            location,
        } in &consumer.references
        {
            let found = problems.len();
            problems.extend(match reference {
                Reference::Param(name) => param(found, name, location, context),
                Reference::Runtime(reference) => {
                    check_runtime_reference(found, consumer, reference, location, names)
                }
                _ => None,
            });
        }
        if let Some(name) = &consumer.items.param {
            let location = &consumer.items.location;
            problems.extend(param(problems.len(), name, location, context));
        }
        let Some(when) = &consumer.when else { continue };
        for reference in &when.references {
            let found = problems.len();
            problems.extend(match reference {
                RuntimeReference::Param(name) => param(found, name, &when.location, context),
                reference => {
                    check_runtime_reference(found, consumer, reference, &when.location, names)
                }
            });
        }
    }
}

fn param(found: usize, name: &str, location: &Location, context: &Context<'_>) -> Option<Problem> {
    if context.params.contains(name) {
        return None;
    }
    let known = context.params.iter().copied();
    Some(location.problem(
        Kind::UnknownReference,
        format!(
            "`params.{}` is not a parameter of this workflow",
            crate::error::clean(name)
        ),
        suggest::hint(
            found,
            name,
            known,
            "declare it in `params`; the parameters are:",
        ),
    ))
}

fn check_runtime_reference(
    found: usize,
    consumer: &WorkflowTask,
    reference: &RuntimeReference,
    location: &Location,
    names: &Names,
) -> Option<Problem> {
    let problem = |message: String, hint: String| {
        Some(location.problem(Kind::UnknownReference, message, hint))
    };
    let shown = quote(&reference.to_string());
    match (reference, &consumer.items.keys) {
        (RuntimeReference::Output { task, .. }, _) => {
            if names.contains_key(task) {
                None
            } else {
                Some(unknown_task(found, task, location, names))
            }
        }
        (RuntimeReference::Item | RuntimeReference::ItemKey(_), ItemKeys::NoItem) => problem(
            format!(
                "{shown} is used, but {} has no items",
                quote(consumer.name())
            ),
            "add `for_each` or `matrix` to the task".to_owned(),
        ),
        (RuntimeReference::ItemKey(_), ItemKeys::Scalar) => problem(
            format!(
                "{shown} is used, but not every item of {} is a map",
                quote(consumer.name())
            ),
            "write `{{ item }}`, or use maps in `for_each`".to_owned(),
        ),
        (RuntimeReference::ItemKey(key), ItemKeys::Known(keys)) if !keys.contains(key) => {
            let known = keys.iter().map(String::as_str);
            problem(
                format!(
                    "not every item of {} has the key {}",
                    quote(consumer.name()),
                    quote(key)
                ),
                suggest::hint(found, key, known, "the common keys are:"),
            )
        }
        (RuntimeReference::ItemKey(_), ItemKeys::Known(_) | ItemKeys::Unknown)
        | (RuntimeReference::Item, ItemKeys::Scalar | ItemKeys::Known(_) | ItemKeys::Unknown)
        | (RuntimeReference::Param(_), _) => None,
    }
}

/// Upstream search for tasks whose outputs are referenced.
pub(super) struct References<'a> {
    tasks: &'a [WorkflowTask],
    before: &'a Plan,
    /// For each task, the last consumer whose search visited it.
    seen: Vec<usize>,
    steps: usize,
}

impl<'a> References<'a> {
    /// `tasks` are in dependency order and follow those of `context`.
    pub(super) fn new(tasks: &'a [WorkflowTask], context: &Context<'a>) -> Self {
        Self {
            tasks,
            before: context.before,
            seen: vec![usize::MAX; context.before.tasks.len() + tasks.len()],
            steps: 0,
        }
    }

    /// Reports every reference to outputs of a task that may not have ended in time. A task that
    /// refers to an indirect upstream task gets a direct dependency on it: returns these implied
    /// dependencies with the index of their task.
    pub(super) fn check_upstream(
        mut self,
        names: &Names,
        problems: &mut Vec<Problem>,
    ) -> Vec<(usize, UnresolvedAfter)> {
        let tasks = self.tasks;
        let mut implied: Vec<(usize, UnresolvedAfter)> = Vec::new();
        for (at, consumer) in tasks.iter().enumerate() {
            let mut wanted = output_references(consumer, names);
            // Usually it is a direct dependency.
            wanted.retain(|(wanted, task)| {
                let near = consumer.after.iter().find(|after| after.at == *task);
                problems.extend(near.and_then(|after| self.partial_wait(consumer, after, wanted)));
                near.is_none()
            });
            let Some(lowest) = wanted.iter().map(|(_, task)| *task).min() else {
                continue;
            };
            self.mark_upstream(at, lowest);
            for ((name, key, location), task) in wanted {
                if self.steps > UPSTREAM_STEPS_MAX {
                    problems.push(location.problem(
                        Kind::TooLarge,
                        "too many tasks lie between references to outputs and the tasks that report them".to_owned(),
                        format!("depend on the task directly: `after: [{name}]`"),
                    ));
                    return implied;
                }
                if name == consumer.name() {
                    problems.push(location.problem(
                        Kind::NotUpstream,
                        format!("{} refers to its own outputs", quote(name)),
                        "remove the reference",
                    ));
                } else if self.seen.get(task as usize) != Some(&at) {
                    problems.push(location.problem(
                        Kind::NotUpstream,
                        format!(
                            "{} may not be known yet: {} does not run after {}",
                            quote(&format!("tasks.{name}.outputs.{key}")),
                            quote(consumer.name()),
                            quote(name)
                        ),
                        format!("add `after: [{name}]` to the task, or remove the reference"),
                    ));
                } else if !implied
                    .iter()
                    .rev()
                    .take_while(|it| it.0 == at)
                    .any(|it| it.1.at == task)
                {
                    let edges = if self.follows_item_by_item(at, task) {
                        Edges::Same
                    } else {
                        Edges::All
                    };
                    let after = UnresolvedAfter::new(name, location.clone());
                    let after = UnresolvedAfter {
                        at: task,
                        edges,
                        ..after
                    };
                    implied.push((at, after));
                }
            }
        }
        implied
    }

    /// Reports a reference to the outputs of a task of which the consumer awaits only some items.
    fn partial_wait(
        &self,
        consumer: &WorkflowTask,
        after: &UnresolvedAfter,
        (name, key, location): &OutputReference<'_>,
    ) -> Option<Problem> {
        let listed = matches!(after.edges, Edges::Lists(_));
        (listed && *self.items(after.at) != Items::One).then(|| {
            location.problem(
                Kind::NotUpstream,
                format!(
                    "{} covers all items, but {} waits only for some of them",
                    quote(&format!("tasks.{name}.outputs.{key}")),
                    quote(consumer.name())
                ),
                format!("wait for the whole task (`after: [{name}]`), or for the item with the same index with `each`"),
            )
        })
    }

    fn items(&self, at: u32) -> &Items {
        match self.before.tasks.get(at as usize) {
            Some(task) => &task.items,
            None => {
                &self.tasks[at as usize - self.before.tasks.len()]
                    .items
                    .items
            }
        }
    }

    /// Whether the items of a consumer follow those of a task one by one, through other tasks.
    fn follows_item_by_item(&mut self, at: usize, task: u32) -> bool {
        let first = self.before.tasks.len();
        let (mut open, mut seen) = (vec![first + at], BTreeSet::new());
        while let Some(from) = open.pop() {
            let upstream: Vec<u32> = match self.before.tasks.get(from) {
                Some(from) => {
                    let same = from.after.iter().filter(|it| it.edges == Edges::Same);
                    same.map(|it| it.task).collect()
                }
                None => {
                    let same = self.tasks[from - first].after.iter();
                    let same = same.filter(|it| it.edges == Edges::Same);
                    same.map(|it| it.at).collect()
                }
            };
            for upstream in upstream {
                self.steps += 1;
                if upstream == task {
                    return true;
                }
                if upstream > task && seen.insert(upstream) {
                    open.push(upstream as usize);
                }
            }
        }
        false
    }

    /// Marks everything upstream of a task, down to the index `lowest`.
    fn mark_upstream(&mut self, at: usize, lowest: u32) {
        let first = self.before.tasks.len();
        let mut open = vec![first + at];
        while let Some(task) = open.pop() {
            for index in 0.. {
                let upstream = match self.before.tasks.get(task) {
                    Some(task) => task.after.get(index).map(|after| after.task),
                    None => {
                        let after = self.tasks[task - first].after.get(index);
                        after.map(|after| after.at)
                    }
                };
                let Some(upstream) = upstream else { break };
                self.steps += 1;
                let seen = &mut self.seen[upstream as usize];
                if upstream >= lowest && *seen != at {
                    *seen = at;
                    open.push(upstream as usize);
                }
            }
            if self.steps > UPSTREAM_STEPS_MAX {
                return;
            }
        }
    }
}

/// The name of a task, the key of its output, and the location of the reference.
type OutputReference<'a> = (&'a str, &'a str, &'a Location);

/// Returns the output references of a task, with the indexes of the referenced tasks.
fn output_references<'a>(
    consumer: &'a WorkflowTask,
    names: &Names,
) -> Vec<(OutputReference<'a>, u32)> {
    let mut wanted = Vec::new();
    let mut add = |reference: &'a RuntimeReference, location: &'a Location| {
        if let RuntimeReference::Output { task, key } = reference
            && let Some(at) = names.get(task)
        {
            wanted.push(((task.as_str(), key.as_str(), location), *at));
        }
    };
    for located in &consumer.references {
        if let Reference::Runtime(reference) = &located.reference {
            add(reference, &located.location);
        }
    }
    if let Some(when) = &consumer.when {
        when.references
            .iter()
            .for_each(|reference| add(reference, &when.location));
    }
    wanted
}
