//! Comparison of two plans of one run: which DONE items stay DONE under the new plan.
//!
//! A task is unchanged if its name and its contents are: commands, variables, items, upstream
//! tasks and `when`. Parameters that it does not refer to do not count ([`super::params`]). Settings that only control where, how often or how long it runs (resources,
//! labels, retries, timeouts, priorities, limits) may change without a rerun. Contents are
//! compared directly, not by digest. Tasks downstream of a changed task rerun with it. If the item
//! values of a task change, items are matched by value.

use std::collections::BTreeMap;

use baton_model::workflow::{CarriedItems, Edges, ItemSpan, Items, Plan, PlanTask};

use super::params::ParamChanges;
use super::{Dag, ItemResult, items};

/// How a task differs from the plan before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskChange {
    Unchanged,
    New,
    Changed,
    /// An upstream task changed.
    Downstream,
}

/// Differences between two plans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// One entry for each task of the new plan.
    pub changes: Vec<TaskChange>,
    /// Items that stay DONE if they are DONE.
    pub carried: Vec<CarriedItems>,
    /// Names of tasks that the new plan does not have.
    pub removed: Vec<String>,
}

/// Compares a new plan with the one before it. `item_counts` is the number of items that each task
/// of the one before had.
#[must_use]
pub fn compare(before: &Dag, after: &Dag, item_counts: impl Fn(u32) -> u32) -> Comparison {
    let mut comparison = Comparison::default();
    let params = ParamChanges::new(&before.plan, &after.plan);
    for (task, at) in after.plan.tasks.iter().zip(0_u32..) {
        let was = before.index_of(&task.name);
        let upstream_changed = task.after.iter().any(|it| {
            let change = comparison.changes.get(it.task as usize);
            change != Some(&TaskChange::Unchanged)
        });
        let change = match was {
            None => TaskChange::New,
            Some(was) => {
                let old = &before.plan.tasks[was as usize];
                if !params.same(old, task) || !same(&before.plan, old, &after.plan, task) {
                    TaskChange::Changed
                } else if upstream_changed {
                    TaskChange::Downstream
                } else {
                    let item_count = item_counts(was);
                    carry(old, task, was, at, item_count, &mut comparison.carried)
                }
            }
        };
        comparison.changes.push(change);
    }
    let removed = before.plan.tasks.iter();
    let removed = removed.filter(|task| after.index_of(&task.name).is_none());
    comparison.removed = removed.map(|task| task.name.clone()).collect();
    comparison
}

/// Whether the contents of a task are unchanged, except for its item values and what
/// [`ParamChanges::same`] compares.
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
    was.user == is.user
        && was.uris == is.uris
        && named(before, old) == named(after, new)
        && source(before, old) == source(after, new)
}

/// Matches the items of a task with those it had before.
fn carry(
    old: &PlanTask,
    new: &PlanTask,
    was: u32,
    at: u32,
    item_count: u32,
    carried: &mut Vec<CarriedItems>,
) -> TaskChange {
    let by_item = |task: &PlanTask| {
        let lists = task.after.iter().filter(|it| it.edges != Edges::All);
        lists.map(|it| it.edges.clone()).collect::<Vec<_>>()
    };
    let edges = by_item(old) == by_item(new);
    let is_source = matches!(new.items, Items::Output { .. });
    if edges && (old.items == new.items || is_source) {
        if let Some(last) = item_count.checked_sub(1) {
            carried.push(carried_span(was, 0, last, at, 0));
        }
        return TaskChange::Unchanged;
    }
    if !edges || !by_item(new).is_empty() {
        return TaskChange::Changed;
    }
    let mut old_items: BTreeMap<String, u32> = BTreeMap::new();
    for item in 0..item_count {
        let value = items::value(&old.items, item).map(|it| it.to_string());
        old_items.entry(value.unwrap_or_default()).or_insert(item);
    }
    let count = items::count(&new.items).unwrap_or(0);
    for item in 0..u32::try_from(count).unwrap_or(u32::MAX) {
        let value = items::value(&new.items, item).map(|it| it.to_string());
        // Each value is carried once; a second item of the same value is new.
        let Some(from) = old_items.remove(&value.unwrap_or_default()) else {
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

/// The new index of each carried item.
#[derive(Clone, Debug, Default)]
pub struct CarriedIndex(BTreeMap<(u32, u32), CarriedItems>);

/// The results that stay DONE under another plan, with their new indices.
#[must_use]
pub fn carry_over(done: Vec<ItemResult>, carried: &[CarriedItems]) -> Vec<ItemResult> {
    let index = CarriedIndex::new(carried);
    let done = done.into_iter();
    done.filter_map(|it| {
        let (task, item) = index.of(it.task, it.item)?;
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

    /// New (task, item) of an item, if it is carried.
    #[must_use]
    pub fn of(&self, task: u32, item: u32) -> Option<(u32, u32)> {
        let (_, it) = self.0.range(..=(task, item)).next_back()?;
        let within = it.from.task == task && item <= it.from.last;
        within.then(|| (it.task, it.first + (item - it.from.first)))
    }
}
