//! Two plans of one run: what is DONE and stays it, and what runs again.
//!
//! Tasks are the same if their names and their contents are: what is run, with which variables
//! and items, after what, and when. What only says where, how often or how long (resources,
//! labels, retries, timeouts, priorities, limits) may change without anything running again.
//! Contents are compared as they are, not by a digest of them. What comes after something that
//! has changed runs again with it. Items of a task that has other values than before are told
//! apart by their values.

use std::collections::BTreeMap;

use baton_model::workflow::{CarriedItems, Edges, ItemSpan, Items, Plan, PlanTask};

use super::{Dag, ItemResult, items};

/// What becomes of a task under another plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskChange {
    /// It is what it was.
    Unchanged,
    /// It was not there.
    New,
    /// It has changed.
    Changed,
    /// Something that it comes after has.
    Downstream,
}

/// What another plan means to what is DONE.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// For each task of the new plan.
    pub changes: Vec<TaskChange>,
    /// What stays DONE, of everything that could be.
    pub carried: Vec<CarriedItems>,
    /// Tasks that are no more.
    pub removed: Vec<String>,
}

/// Holds a new plan against the one before it. `lengths` says how many items each task of the
/// one before had.
#[must_use]
pub fn compare(before: &Dag, after: &Dag, lengths: impl Fn(u32) -> u32) -> Comparison {
    let mut comparison = Comparison::default();
    for (task, at) in after.plan.tasks.iter().zip(0_u32..) {
        let was = before.place(&task.name);
        let upstream_changed = task.after.iter().any(|it| {
            let change = comparison.changes.get(it.task as usize);
            change != Some(&TaskChange::Unchanged)
        });
        let change = match was {
            None => TaskChange::New,
            Some(was) => {
                let old = &before.plan.tasks[was as usize];
                if !same(&before.plan, old, &after.plan, task) {
                    TaskChange::Changed
                } else if upstream_changed {
                    TaskChange::Downstream
                } else {
                    let length = lengths(was);
                    carry(old, task, was, at, length, &mut comparison.carried)
                }
            }
        };
        comparison.changes.push(change);
    }
    let gone = before.plan.tasks.iter();
    let gone = gone.filter(|task| after.place(&task.name).is_none());
    comparison.removed = gone.map(|task| task.name.clone()).collect();
    comparison
}

/// Whether a task does what it did. Which values its items have is looked at apart.
fn same(before: &Plan, old: &PlanTask, after: &Plan, new: &PlanTask) -> bool {
    let named = |plan: &Plan, task: &PlanTask| {
        let mut names: Vec<_> = task
            .after
            .iter()
            .map(|it| {
                let by_item = it.edges != Edges::All;
                (
                    plan.tasks[it.task as usize].name.clone(),
                    it.condition,
                    by_item,
                )
            })
            .collect();
        names.sort();
        names
    };
    let source = |plan: &Plan, task: &PlanTask| match &task.items {
        Items::Output { task, key } => Some((plan.tasks[*task as usize].name.clone(), key.clone())),
        _ => None,
    };
    let (was, is) = (&old.spec, &new.spec);
    was.work == is.work
        && was.env == is.env
        && was.user == is.user
        && was.uris == is.uris
        && old.when == new.when
        && named(before, old) == named(after, new)
        && source(before, old) == source(after, new)
}

/// Finds the items of a task that were there before.
fn carry(
    old: &PlanTask,
    new: &PlanTask,
    was: u32,
    at: u32,
    length: u32,
    carried: &mut Vec<CarriedItems>,
) -> TaskChange {
    let by_item = |task: &PlanTask| {
        let lists = task.after.iter().filter(|it| it.edges != Edges::All);
        lists.map(|it| it.edges.clone()).collect::<Vec<_>>()
    };
    let edges = by_item(old) == by_item(new);
    let is_source = matches!(new.items, Items::Output { .. });
    if edges && (old.items == new.items || is_source) {
        if let Some(last) = length.checked_sub(1) {
            carried.push(carried_span(was, 0, last, at, 0));
        }
        return TaskChange::Unchanged;
    }
    if !edges || !by_item(new).is_empty() {
        return TaskChange::Changed;
    }
    let mut places: BTreeMap<String, u32> = BTreeMap::new();
    for item in 0..length {
        let value = items::value(&old.items, item).map(|it| it.to_string());
        places.entry(value.unwrap_or_default()).or_insert(item);
    }
    let count = items::count(&new.items).unwrap_or(0);
    for item in 0..u32::try_from(count).unwrap_or(u32::MAX) {
        let value = items::value(&new.items, item).map(|it| it.to_string());
        // Each value is carried once; a second item of the same value is new.
        let Some(from) = places.remove(&value.unwrap_or_default()) else {
            continue;
        };
        match carried.last_mut() {
            Some(last)
                if last.from.task == was
                    && last.from.last + 1 == from
                    && last.first + (last.from.last - last.from.first) + 1 == item =>
            {
                last.from.last = from;
            }
            _ => carried.push(carried_span(was, from, from, at, item)),
        }
    }
    TaskChange::Changed
}

const fn carried_span(was: u32, first: u32, last: u32, task: u32, to: u32) -> CarriedItems {
    CarriedItems {
        from: ItemSpan {
            task: was,
            first,
            last,
        },
        task,
        first: to,
    }
}

/// Where items are under another plan.
#[derive(Clone, Debug, Default)]
pub struct CarriedIndex(BTreeMap<(u32, u32), CarriedItems>);

/// Where what is DONE is under another plan, if it stays that.
#[must_use]
pub fn carry_over(done: Vec<ItemResult>, carried: &[CarriedItems]) -> Vec<ItemResult> {
    let moves = CarriedIndex::new(carried);
    let done = done.into_iter();
    done.filter_map(|it| {
        let (task, item) = moves.of(it.task, it.item)?;
        Some(ItemResult { task, item, ..it })
    })
    .collect()
}

impl CarriedIndex {
    #[must_use]
    pub fn new(carried: &[CarriedItems]) -> Self {
        let keyed = carried
            .iter()
            .map(|it| ((it.from.task, it.from.first), *it));
        Self(keyed.collect())
    }

    /// Where an item is now, if it is carried.
    #[must_use]
    pub fn of(&self, task: u32, item: u32) -> Option<(u32, u32)> {
        let (_, it) = self.0.range(..=(task, item)).next_back()?;
        let within = it.from.task == task && item <= it.from.last;
        within.then(|| (it.task, it.first + (item - it.from.first)))
    }
}
