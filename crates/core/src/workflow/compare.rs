//! Comparison of two plans of one run: which DONE items stay DONE under the new plan.
//!
//! A task is unchanged if its name and its contents are: commands, variables, items, upstream
//! tasks and `when`. Parameters that it does not refer to do not count ([`super::params`]).
//! Settings that only control where, how often or how long it runs (resources, labels, retries,
//! timeouts, priorities, limits) may change without a rerun. Contents are compared directly, not by
//! digest.
//!
//! Items are matched by value. Those of a task that waits for all items of a changed task rerun
//! with it. With edges item by item, an item reruns with its upstream items, and the others stay:
//! one more value in a list that several tasks share runs one more item of each.

use std::collections::{BTreeMap, VecDeque};

use baton_model::workflow::{CarriedItems, Edges, ItemSpan, Items, Plan, PlanTask, Upstream};

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
    let mut origins: Vec<Origins> = Vec::with_capacity(after.plan.tasks.len());
    for (task, at) in after.plan.tasks.iter().zip(0_u32..) {
        let (change, origin) = match before.index_of(&task.name) {
            None => (TaskChange::New, Origins::None),
            Some(was) => {
                let pair = TaskPair {
                    before: &before.plan,
                    old: &before.plan.tasks[was as usize],
                    after: &after.plan,
                    new: task,
                };
                let (change, origin) = if !params.same(pair.old, task) || !pair.same() {
                    (TaskChange::Changed, Origins::None)
                } else if pair.whole_upstream_changed(&comparison.changes) {
                    (TaskChange::Downstream, Origins::None)
                } else {
                    pair.match_items(item_counts(was), &comparison.changes, &origins)
                };
                origin.push_spans(was, at, &mut comparison.carried);
                (change, origin)
            }
        };
        comparison.changes.push(change);
        origins.push(origin);
    }
    let removed = before.plan.tasks.iter();
    let removed = removed.filter(|task| after.index_of(&task.name).is_none());
    comparison.removed = removed.map(|task| task.name.clone()).collect();
    comparison
}

/// The old index of each item of a task of the new plan.
enum Origins {
    /// No item of it was there before, or all of them run again.
    None,
    /// All of its items, as many as this, have kept their index.
    Same(u32),
    Moved(Vec<Option<u32>>),
}

impl Origins {
    fn of(&self, item: u32) -> Option<u32> {
        match self {
            Self::None => None,
            Self::Same(count) => (item < *count).then_some(item),
            Self::Moved(origins) => origins.get(item as usize).copied().flatten(),
        }
    }

    /// Appends the items as spans of equal distance.
    fn push_spans(&self, was: u32, at: u32, carried: &mut Vec<CarriedItems>) {
        match self {
            Self::None | Self::Same(0) => {}
            Self::Same(count) => carried.push(carried_span(was, 0, count - 1, at, 0)),
            Self::Moved(origins) => {
                for (item, from) in (0_u32..).zip(origins) {
                    let Some(from) = *from else { continue };
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
            }
        }
    }
}

/// Identity of an item: its value, and the upstream items of its edges item by item as indices of
/// the old plan, [`END_OF_LIST`] after each edge.
type ItemKey = (String, Vec<u32>);

/// No item has this index: `RUN_ITEMS_MAX` is lower.
const END_OF_LIST: u32 = u32::MAX;

/// A task in both plans.
struct TaskPair<'a> {
    before: &'a Plan,
    old: &'a PlanTask,
    after: &'a Plan,
    new: &'a PlanTask,
}

impl TaskPair<'_> {
    /// Whether the contents of the task are unchanged, except for its items, its edges item by item
    /// and the contents that [`ParamChanges::same`] compares.
    fn same(&self) -> bool {
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
            Items::Output { task, key } => {
                Some((plan.tasks[*task as usize].name.clone(), key.clone()))
            }
            _ => None,
        };
        let (was, is) = (&self.old.spec, &self.new.spec);
        was.user == is.user
            && was.uris == is.uris
            && named(self.before, self.old) == named(self.after, self.new)
            && source(self.before, self.old) == source(self.after, self.new)
    }

    /// Whether a task has changed of which every item needs all items.
    fn whole_upstream_changed(&self, changes: &[TaskChange]) -> bool {
        let mut whole = self.new.after.iter().filter(|it| it.edges == Edges::All);
        whole.any(|it| changes[it.task as usize] != TaskChange::Unchanged)
    }

    /// Matches the items of the task with those it had before, `count` of them. An item is the same
    /// if its value and its upstream items are.
    fn match_items(
        &self,
        count: u32,
        changes: &[TaskChange],
        origins: &[Origins],
    ) -> (TaskChange, Origins) {
        let old_edges = item_edges(self.before, self.old);
        let new_edges = item_edges(self.after, self.new);
        let mut edges = old_edges.iter().zip(&new_edges);
        let is_source = matches!(self.new.items, Items::Output { .. });
        let same_items = is_source || self.old.items == self.new.items;
        let same_contents = same_items && edges.all(|(old, new)| old.edges == new.edges);
        let mut upstream = new_edges.iter();
        if same_contents && upstream.all(|it| changes[it.task as usize] == TaskChange::Unchanged) {
            return (TaskChange::Unchanged, Origins::Same(count));
        }
        let change = if same_contents {
            TaskChange::Downstream
        } else {
            TaskChange::Changed
        };
        // Values of an output are not known here, but then its upstream items have changed as one.
        if is_source {
            return (change, Origins::None);
        }
        let mut old_items: BTreeMap<ItemKey, VecDeque<u32>> = BTreeMap::new();
        for item in 0..count {
            let key = item_key(&self.old.items, item, &old_edges, |_, it| Some(it));
            old_items
                .entry(key.unwrap_or_default())
                .or_default()
                .push_back(item);
        }
        let moved: Vec<Option<u32>> = (0..items::count(&self.new.items).unwrap_or(0))
            .map(|item| {
                let item = u32::try_from(item).ok()?;
                let key = item_key(&self.new.items, item, &new_edges, |task, it| {
                    origins[task as usize].of(it)
                })?;
                // Of several items with one value, the first is the first.
                old_items.get_mut(&key)?.pop_front()
            })
            .collect();
        let kept = (0..count).map(Some);
        if kept.eq(moved.iter().copied()) {
            (TaskChange::Unchanged, Origins::Same(count))
        } else {
            (change, Origins::Moved(moved))
        }
    }
}

/// Edges item by item, in an order that both plans share.
fn item_edges<'a>(plan: &'a Plan, task: &'a PlanTask) -> Vec<&'a Upstream> {
    let edges = task.after.iter().filter(|it| it.edges != Edges::All);
    let mut edges: Vec<_> = edges.collect();
    edges.sort_by_key(|it| (&plan.tasks[it.task as usize].name, it.condition));
    edges
}

/// Identity of an item; none if an upstream item has no old index.
fn item_key(
    items: &Items,
    item: u32,
    edges: &[&Upstream],
    origin: impl Fn(u32, u32) -> Option<u32>,
) -> Option<ItemKey> {
    let mut upstream = Vec::with_capacity(2 * edges.len());
    for edge in edges {
        let start = upstream.len();
        match &edge.edges {
            Edges::All => {}
            Edges::Same => upstream.push(origin(edge.task, item)?),
            Edges::Lists(lists) => {
                for it in lists.of(item) {
                    upstream.push(origin(edge.task, *it)?);
                }
                upstream[start..].sort_unstable();
            }
        }
        upstream.push(END_OF_LIST);
    }
    let value = items::value(items, item).map(|it| it.to_string());
    Some((value.unwrap_or_default(), upstream))
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
