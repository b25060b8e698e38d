//! What texts and conditions of a workflow refer to: it must exist, and be known by then.

use std::collections::BTreeSet;

use baton_model::workflow::{Edges, Items, Plan};

use super::order::{Names, unknown};
use super::{DraftAfter, DraftTask, Keys, Surroundings};
use crate::error::{Kind, Place, Problem, quote};
use crate::limits::UPSTREAM_STEPS_MAX;
use crate::suggest;
use crate::template::{Later, Reference};

/// Checks everything but the order: parameters, items, and that tasks exist.
pub(super) fn check_own(
    drafts: &[DraftTask],
    around: &Surroundings<'_>,
    names: &Names,
    problems: &mut Vec<Problem>,
) {
    for draft in drafts {
        for text in draft.body.texts() {
            for reference in text.references() {
                let found = problems.len();
                problems.extend(match reference {
                    Reference::Param(name) => param(found, name, &text.place, around),
                    Reference::Later(later) => later_of(found, draft, later, &text.place, names),
                    _ => None,
                });
            }
        }
        let Some(when) = &draft.when else { continue };
        for later in &when.references {
            let found = problems.len();
            problems.extend(match later {
                Later::Param(name) => param(found, name, &when.place, around),
                later => later_of(found, draft, later, &when.place, names),
            });
        }
    }
}

fn param(found: usize, name: &str, place: &Place, around: &Surroundings<'_>) -> Option<Problem> {
    if around.params.contains(name) {
        return None;
    }
    let known = around.params.iter().copied();
    Some(place.problem(
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

fn later_of(
    found: usize,
    draft: &DraftTask,
    later: &Later,
    place: &Place,
    names: &Names,
) -> Option<Problem> {
    let problem =
        |message: String, hint: String| Some(place.problem(Kind::UnknownReference, message, hint));
    let shown = quote(&later.to_string());
    match (later, &draft.items.keys) {
        (Later::Output { task, .. }, _) => match names.contains_key(task) {
            true => None,
            false => Some(unknown(found, task, place, names)),
        },
        (Later::Item | Later::ItemKey(_), Keys::NoItem) => problem(
            format!("{shown} is used, and {} has no items", quote(draft.name())),
            "write `for_each` or `matrix` into the task".to_owned(),
        ),
        (Later::ItemKey(_), Keys::Whole) => problem(
            format!(
                "{shown} is used, and not every item of {} is a map",
                quote(draft.name())
            ),
            "write `{{ item }}`, or maps in `for_each`".to_owned(),
        ),
        (Later::ItemKey(key), Keys::Of(keys)) if !keys.contains(key) => {
            let known = keys.iter().map(String::as_str);
            problem(
                format!(
                    "not every item of {} has {}",
                    quote(draft.name()),
                    quote(key)
                ),
                suggest::hint(found, key, known, "what they have is:"),
            )
        }
        (Later::ItemKey(_), Keys::Of(_) | Keys::Unknown)
        | (Later::Item, Keys::Whole | Keys::Of(_) | Keys::Unknown)
        | (Later::Param(_), _) => None,
    }
}

/// Looks for tasks whose outputs others refer to.
pub(super) struct References<'a> {
    drafts: &'a [DraftTask],
    before: &'a Plan,
    /// For each task the last one that was asked whether it comes after it.
    seen: Vec<usize>,
    steps: usize,
}

impl<'a> References<'a> {
    /// `drafts` stand in the order of a plan, behind those of `around`.
    pub(super) fn new(drafts: &'a [DraftTask], around: &Surroundings<'a>) -> Self {
        Self {
            drafts,
            before: around.before,
            seen: vec![usize::MAX; around.before.tasks.len() + drafts.len()],
            steps: 0,
        }
    }

    /// Notes every reference to the outputs of a task that need not be over by then. Who refers
    /// to one that it comes after only by way of others comes after it itself: says of which
    /// draft that is true, and how.
    pub(super) fn check_upstream(
        mut self,
        names: &Names,
        problems: &mut Vec<Problem>,
    ) -> Vec<(usize, DraftAfter)> {
        let drafts = self.drafts;
        let mut implied: Vec<(usize, DraftAfter)> = Vec::new();
        for (at, draft) in drafts.iter().enumerate() {
            let mut wanted = wanted(draft, names);
            // Most often it is one of those that it comes directly after.
            wanted.retain(|(wanted, task)| {
                let near = draft.after.iter().find(|after| after.at == *task);
                problems.extend(near.and_then(|after| self.partial(draft, after, wanted)));
                near.is_none()
            });
            let Some(lowest) = wanted.iter().map(|(_, task)| *task).min() else {
                continue;
            };
            self.walk(at, lowest);
            for ((name, key, place), task) in wanted {
                if self.steps > UPSTREAM_STEPS_MAX {
                    problems.push(place.problem(
                        Kind::TooLarge,
                        "too many tasks lie between those that refer to outputs and those that put them out".to_owned(),
                        format!("name the task itself: `after: [{name}]`"),
                    ));
                    return implied;
                }
                if name == draft.name() {
                    problems.push(place.problem(
                        Kind::NotUpstream,
                        format!("{} refers to what it puts out itself", quote(name)),
                        "remove the reference",
                    ));
                } else if self.seen.get(task as usize) != Some(&at) {
                    problems.push(place.problem(
                        Kind::NotUpstream,
                        format!(
                            "{} may not be known yet: {} does not come after {}",
                            quote(&format!("tasks.{name}.outputs.{key}")),
                            quote(draft.name()),
                            quote(name)
                        ),
                        format!("write `after: [{name}]` into the task, or remove the reference"),
                    ));
                } else if !implied
                    .iter()
                    .rev()
                    .take_while(|it| it.0 == at)
                    .any(|it| it.1.at == task)
                {
                    let edges = match self.follows(at, task) {
                        true => Edges::Same,
                        false => Edges::All,
                    };
                    let after = DraftAfter::new(name, place.clone());
                    let after = DraftAfter {
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

    /// Why what a task puts out cannot be known to one that waits for some of its items.
    fn partial(
        &self,
        draft: &DraftTask,
        after: &DraftAfter,
        (name, key, place): &Wanted<'_>,
    ) -> Option<Problem> {
        let listed = matches!(after.edges, Edges::Lists(_));
        (listed && *self.items(after.at) != Items::One).then(|| {
            place.problem(
                Kind::NotUpstream,
                format!(
                    "{} is of all items, and {} waits for some of them",
                    quote(&format!("tasks.{name}.outputs.{key}")),
                    quote(draft.name())
                ),
                format!("wait for all of it (`after: [{name}]`), or for the item of the same place with `each`"),
            )
        })
    }

    fn items(&self, at: u32) -> &Items {
        match self.before.tasks.get(at as usize) {
            Some(task) => &task.items,
            None => {
                &self.drafts[at as usize - self.before.tasks.len()]
                    .items
                    .items
            }
        }
    }

    /// Whether the items of a draft follow those of a task one by one, by way of others.
    fn follows(&mut self, at: usize, task: u32) -> bool {
        let first = self.before.tasks.len();
        let (mut open, mut seen) = (vec![first + at], BTreeSet::new());
        while let Some(from) = open.pop() {
            let upstream: Vec<u32> = match self.before.tasks.get(from) {
                Some(from) => {
                    let same = from.after.iter().filter(|it| it.edges == Edges::Same);
                    same.map(|it| it.task).collect()
                }
                None => {
                    let same = self.drafts[from - first].after.iter();
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

    /// Marks everything upstream of a task, down to the place `lowest`.
    fn walk(&mut self, at: usize, lowest: u32) {
        let first = self.before.tasks.len();
        let mut open = vec![first + at];
        while let Some(task) = open.pop() {
            for index in 0.. {
                let upstream = match self.before.tasks.get(task) {
                    Some(task) => task.after.get(index).map(|after| after.task),
                    None => {
                        let after = self.drafts[task - first].after.get(index);
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

/// The name of a task, what is wanted of it, and where that stands.
type Wanted<'a> = (&'a str, &'a str, &'a Place);

/// Whose outputs a task refers to, with their places in the plan.
fn wanted<'a>(draft: &'a DraftTask, names: &Names) -> Vec<(Wanted<'a>, u32)> {
    let mut wanted = Vec::new();
    let mut add = |later: &'a Later, place: &'a Place| {
        if let Later::Output { task, key } = later
            && let Some(at) = names.get(task)
        {
            wanted.push(((task.as_str(), key.as_str(), place), *at));
        }
    };
    for text in draft.body.texts() {
        for reference in text.references() {
            if let Reference::Later(later) = reference {
                add(later, &text.place);
            }
        }
    }
    if let Some(when) = &draft.when {
        when.references
            .iter()
            .for_each(|later| add(later, &when.place));
    }
    wanted
}
