//! What is done again when a run goes on: what somebody asks for, and what cannot stay DONE
//! beside what runs.
//!
//! What is DONE stays it, but for two kinds of tasks, which have answered to something that is
//! not over yet:
//! * one that comes after something whatever becomes of it, or because it has failed, and all
//!   that comes after that one: they shall see the new end too;
//! * one whose items another puts out, where that other runs: they may be other items.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::workflow::{CarriedItems, Condition, Edges, ItemSpan, Items, Upstream};

use super::{Dag, ItemResult, Progress};

/// Every item of a task and, with `downstream`, of whatever comes after it. A task whose items
/// are what another puts out is done again with that in any case.
#[must_use]
pub fn requested_spans(
    dag: &Dag,
    task: u32,
    downstream: bool,
    lengths: impl Fn(u32) -> u32,
) -> Vec<ItemSpan> {
    let count = dag.plan.tasks.len();
    let mut marked = vec![false; count];
    marked[task as usize] = true;
    for at in 0..count {
        let own = &dag.plan.tasks[at];
        let mapped = match &own.items {
            Items::Output { task, .. } => marked[*task as usize],
            _ => false,
        };
        let after = downstream && own.after.iter().any(|it| marked[it.task as usize]);
        marked[at] |= mapped || after;
    }
    let marked = marked.iter().zip(0_u32..).filter(|(marked, _)| **marked);
    marked
        .filter_map(|(_, task)| {
            let last = lengths(task).checked_sub(1)?;
            Some(ItemSpan {
                task,
                first: 0,
                last,
            })
        })
        .collect()
}

/// What of this cannot stay DONE, since something runs that it has answered to.
#[must_use]
pub fn stale_spans(dag: &Dag, done: &[ItemResult]) -> Vec<ItemSpan> {
    let answers = |task: &u32| {
        let own = &dag.plan.tasks[*task as usize];
        dag.is_handler(*task) || matches!(own.items, Items::Output { .. })
    };
    let tasks = 0..u32::try_from(dag.plan.tasks.len()).unwrap_or(u32::MAX);
    if done.is_empty() || !tasks.clone().any(|task| answers(&task)) {
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
        undone: vec![ItemSet::default(); dag.plan.tasks.len()],
        followed: vec![false; dag.plan.tasks.len()],
    };
    tasks.flat_map(|task| invalidation.task(task)).collect()
}

/// Which items of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum ItemSet {
    #[default]
    None,
    Some(BTreeSet<u32>),
    All,
}

struct Invalidation<'a> {
    dag: &'a Dag,
    /// Where the run would stand.
    progress: Progress,
    /// Of each task the last item that is DONE.
    lasts: BTreeMap<u32, u32>,
    undone: Vec<ItemSet>,
    /// For each task whether what comes after what is undone of it is undone too.
    followed: Vec<bool>,
}

impl Invalidation<'_> {
    /// Finds what is undone of a task; those before it have been looked at.
    fn task(&mut self, task: u32) -> Vec<ItemSpan> {
        let own = &self.dag.plan.tasks[task as usize];
        let mut marked = ItemSet::None;
        for after in &own.after {
            let handles = after.condition != Condition::Success;
            if handles || self.followed[after.task as usize] {
                let more = self.behind(task, after, handles);
                self.followed[task as usize] |= more != ItemSet::None;
                marked = marked.with(more);
            }
        }
        if let Items::Output { task: from, .. } = &own.items
            && self.runs(*from)
        {
            marked = ItemSet::All;
        }
        let spans = marked.spans(task, self.lasts.get(&task).copied());
        self.undone[task as usize] = marked;
        spans
    }

    /// Which items come after something that runs; or, if what runs by itself does not matter,
    /// that is undone.
    fn behind(&self, task: u32, after: &Upstream, by_itself: bool) -> ItemSet {
        let runs = |item: u32| match &self.undone[after.task as usize] {
            ItemSet::All => true,
            ItemSet::Some(items) if items.contains(&item) => true,
            _ => by_itself && self.is_open(after.task, item),
        };
        let items = 0..self.progress.length(task);
        let found: BTreeSet<u32> = match &after.edges {
            Edges::All => {
                let undone = self.undone[after.task as usize] != ItemSet::None;
                return match undone || by_itself && self.runs(after.task) {
                    true => ItemSet::All,
                    false => ItemSet::None,
                };
            }
            Edges::Same => items.filter(|item| runs(*item)).collect(),
            Edges::Lists(lists) => items
                .filter(|item| lists.of(*item).iter().any(|it| runs(*it)))
                .collect(),
        };
        match found.is_empty() {
            true => ItemSet::None,
            false => ItemSet::Some(found),
        }
    }

    /// Whether something of a task runs.
    fn runs(&self, task: u32) -> bool {
        let tally = self.progress.tally(task);
        self.undone[task as usize] != ItemSet::None
            || !self.progress.is_mapped(task)
            || tally.settled() < tally.all()
    }

    fn is_open(&self, task: u32, item: u32) -> bool {
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

    /// As far as something of it is DONE.
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

/// What of this stays DONE when these are done again.
#[must_use]
pub fn without(done: Vec<ItemResult>, again: &[ItemSpan]) -> Vec<ItemResult> {
    let spans = SpanSet::new(again);
    let kept = done.into_iter();
    kept.filter(|it| !spans.contains(it.task, it.item))
        .collect()
}

/// What is carried over to another plan when these, which are places of that plan, are done
/// again.
#[must_use]
pub fn carried_without(carried: Vec<CarriedItems>, again: &[ItemSpan]) -> Vec<CarriedItems> {
    if again.is_empty() {
        return carried;
    }
    let spans = SpanSet::new(again);
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

/// Items, to be looked up. SpanSet may overlap.
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

    /// Whether this item is one of them.
    #[must_use]
    pub fn contains(&self, task: u32, item: u32) -> bool {
        let Some(spans) = self.0.get(&task) else {
            return false;
        };
        let before = spans.partition_point(|span| span.first <= item);
        before > 0 && item <= spans[before - 1].last
    }

    /// Whether there is one of this task.
    #[must_use]
    pub fn contains_task(&self, task: u32) -> bool {
        self.0.contains_key(&task)
    }
}
