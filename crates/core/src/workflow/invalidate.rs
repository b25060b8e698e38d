//! Invalidation: which DONE items a resume runs again, because the operator requests it or
//! because something upstream of them runs.
//!
//! DONE items stay DONE, except for two kinds of tasks whose upstream task runs again:
//! * a task with condition `failure` or `end`, and everything downstream of it: it must see the
//!   new outcome;
//! * a task whose items are an output of the upstream task: the items may be different ones.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::workflow::{CarriedItems, Condition, Edges, ItemSpan, Items, Upstream};

use super::{Dag, ItemResult, Progress};

/// All items of a task that an operator wants to rerun and, with `downstream`, of every task
/// downstream of it. Tasks whose items are its output are rerun in any case.
#[must_use]
pub fn requested_spans(
    dag: &Dag,
    task: u32,
    downstream: bool,
    item_counts: impl Fn(u32) -> u32,
) -> Vec<ItemSpan> {
    let count = dag.plan.tasks.len();
    let mut selected = vec![false; count];
    selected[task as usize] = true;
    for at in 0..count {
        let own = &dag.plan.tasks[at];
        let mapped = match &own.items {
            Items::Output { task, .. } => selected[*task as usize],
            _ => false,
        };
        let after = downstream && own.after.iter().any(|it| selected[it.task as usize]);
        selected[at] |= mapped || after;
    }
    let selected = selected
        .iter()
        .zip(0_u32..)
        .filter(|(selected, _)| **selected);
    selected
        .filter_map(|(_, task)| {
            let last = item_counts(task).checked_sub(1)?;
            Some(ItemSpan {
                task,
                first: 0,
                last,
            })
        })
        .collect()
}

/// Items of `done` that cannot stay DONE, since they depend on the outcome or the outputs of
/// something that runs.
#[must_use]
pub fn stale_spans(dag: &Dag, done: &[ItemResult]) -> Vec<ItemSpan> {
    let is_affected = |task: &u32| {
        let own = &dag.plan.tasks[*task as usize];
        dag.is_handler(*task) || matches!(own.items, Items::Output { .. })
    };
    let tasks = 0..u32::try_from(dag.plan.tasks.len()).unwrap_or(u32::MAX);
    if done.is_empty() || !tasks.clone().any(|task| is_affected(&task)) {
        return Vec::new();
    }
    let mut invalidation = Invalidation {
        dag,
        progress: Progress::new(dag, [], done.iter().cloned()),
        lasts: done.iter().fold(BTreeMap::new(), |mut lasts, it| {
            let last = lasts.entry(it.task).or_insert(it.item);
            *last = it.item.max(*last);
            lasts
        }),
        stale: vec![ItemSet::default(); dag.plan.tasks.len()],
        propagates: vec![false; dag.plan.tasks.len()],
    };
    tasks
        .flat_map(|task| invalidation.stale_items(task))
        .collect()
}

/// A set of items of one task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum ItemSet {
    #[default]
    None,
    Some(BTreeSet<u32>),
    All,
}

struct Invalidation<'a> {
    dag: &'a Dag,
    /// Progress of the resumed run.
    progress: Progress,
    /// Last DONE item of each task.
    lasts: BTreeMap<u32, u32>,
    stale: Vec<ItemSet>,
    /// For each task: whether items downstream of its stale items are stale, too.
    propagates: Vec<bool>,
}

impl Invalidation<'_> {
    /// Stale items of a task; those of all tasks before it are known.
    fn stale_items(&mut self, task: u32) -> Vec<ItemSpan> {
        let own = &self.dag.plan.tasks[task as usize];
        let mut selected = ItemSet::None;
        for after in &own.after {
            let handles = after.condition != Condition::Success;
            if handles || self.propagates[after.task as usize] {
                let more = self.downstream_of(task, after, handles);
                self.propagates[task as usize] |= more != ItemSet::None;
                selected = selected.with(more);
            }
        }
        if let Items::Output { task: from, .. } = &own.items
            && self.runs(*from)
        {
            selected = ItemSet::All;
        }
        let spans = selected.spans(task, self.lasts.get(&task).copied());
        self.stale[task as usize] = selected;
        spans
    }

    /// Items downstream of something that runs: of stale items and, with `unsettled`, of items that
    /// are not settled.
    fn downstream_of(&self, task: u32, after: &Upstream, unsettled: bool) -> ItemSet {
        let runs = |item: u32| match &self.stale[after.task as usize] {
            ItemSet::All => true,
            ItemSet::Some(items) if items.contains(&item) => true,
            _ => unsettled && self.is_unsettled(after.task, item),
        };
        let items = 0..self.progress.item_count(task);
        let found: BTreeSet<u32> = match &after.edges {
            Edges::All => {
                let stale = self.stale[after.task as usize] != ItemSet::None;
                return if stale || unsettled && self.runs(after.task) {
                    ItemSet::All
                } else {
                    ItemSet::None
                };
            }
            // A placeholder stands for all items.
            Edges::Same if !self.progress.is_mapped(after.task) => {
                items.filter(|_| runs(0)).collect()
            }
            Edges::Same => items.filter(|item| runs(*item)).collect(),
            Edges::Lists(lists) => items
                .filter(|item| lists.of(*item).iter().any(|it| runs(*it)))
                .collect(),
        };
        if found.is_empty() {
            ItemSet::None
        } else {
            ItemSet::Some(found)
        }
    }

    /// Whether any item of a task runs.
    fn runs(&self, task: u32) -> bool {
        let tally = self.progress.tally(task);
        self.stale[task as usize] != ItemSet::None
            || !self.progress.is_mapped(task)
            || tally.settled() < tally.all()
    }

    fn is_unsettled(&self, task: u32, item: u32) -> bool {
        let state = self.progress.state(task, item);
        state.is_some_and(|state| !state.is_settled())
    }
}

impl ItemSet {
    fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::All, _) | (_, Self::All) => Self::All,
            (Self::Some(mut items), Self::Some(more)) => {
                items.extend(more);
                Self::Some(items)
            }
            (Self::None, it) | (it, Self::None) => it,
        }
    }

    /// The set as spans, up to the last DONE item.
    fn spans(&self, task: u32, last: Option<u32>) -> Vec<ItemSpan> {
        let span = |first, last| ItemSpan { task, first, last };
        let Some(last) = last else {
            return Vec::new();
        };
        match self {
            Self::None => Vec::new(),
            Self::All => vec![span(0, last)],
            Self::Some(items) => {
                let mut spans: Vec<ItemSpan> = Vec::new();
                for item in items.range(..=last) {
                    match spans.last_mut() {
                        Some(before) if before.last + 1 == *item => before.last = *item,
                        _ => spans.push(span(*item, *item)),
                    }
                }
                spans
            }
        }
    }
}

/// The results that stay DONE when the items of `rerun` run again.
#[must_use]
pub fn without(done: Vec<ItemResult>, rerun: &[ItemSpan]) -> Vec<ItemResult> {
    let spans = SpanSet::new(rerun);
    let kept = done.into_iter();
    kept.filter(|it| !spans.contains(it.task, it.item))
        .collect()
}

/// The items carried over to another plan, without those of `rerun`, which are indices of that
/// plan.
#[must_use]
pub fn carried_without(carried: Vec<CarriedItems>, rerun: &[ItemSpan]) -> Vec<CarriedItems> {
    if rerun.is_empty() {
        return carried;
    }
    let spans = SpanSet::new(rerun);
    let mut kept: Vec<CarriedItems> = Vec::new();
    for it in carried {
        let mut open = false;
        for item in it.from.first..=it.from.last {
            let to = it.first + (item - it.from.first);
            if spans.contains(it.task, to) {
                open = false;
                continue;
            }
            match kept.last_mut() {
                Some(last) if open => last.from.last = item,
                _ => kept.push(CarriedItems {
                    from: ItemSpan {
                        first: item,
                        last: item,
                        ..it.from
                    },
                    task: it.task,
                    first: to,
                }),
            }
            open = true;
        }
    }
    kept
}

/// A set of items, built from spans that may overlap.
#[derive(Clone, Debug, Default)]
pub struct SpanSet(BTreeMap<u32, Vec<ItemSpan>>);

impl SpanSet {
    #[must_use]
    pub fn new(spans: &[ItemSpan]) -> Self {
        let mut by_task: BTreeMap<u32, Vec<ItemSpan>> = BTreeMap::new();
        for span in spans {
            by_task.entry(span.task).or_default().push(*span);
        }
        for spans in by_task.values_mut() {
            spans.sort_unstable();
            let mut merged: Vec<ItemSpan> = Vec::with_capacity(spans.len());
            for span in spans.drain(..) {
                match merged.last_mut() {
                    Some(last) if span.first <= last.last.saturating_add(1) => {
                        last.last = last.last.max(span.last);
                    }
                    _ => merged.push(span),
                }
            }
            *spans = merged;
        }
        Self(by_task)
    }

    #[must_use]
    pub fn contains(&self, task: u32, item: u32) -> bool {
        let Some(spans) = self.0.get(&task) else {
            return false;
        };
        let before = spans.partition_point(|span| span.first <= item);
        before > 0 && item <= spans[before - 1].last
    }

    /// Whether it has an item of this task.
    #[must_use]
    pub fn contains_task(&self, task: u32) -> bool {
        self.0.contains_key(&task)
    }
}
