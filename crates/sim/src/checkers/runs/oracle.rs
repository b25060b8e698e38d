//! The expected status of each item of a run, computed the slow way: recursively from its
//! dependencies, from the plan and the recorded ends alone.
//!
//! Implemented from the specification, independently of `baton_core::workflow`, which follows
//! edges forward and counts. The two must never disagree.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::workflow::{Condition, Edges, ItemEnd, Plan, PlanTask, Upstream};

use super::ItemPosition;
use crate::plans::{EXCLUDED_ITEM, count, value};

/// The status of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemStatus {
    /// A dependency is not settled.
    Waits,
    /// All dependencies are satisfied.
    Ready,
    /// In flight.
    Live,
    Done,
    /// Failed or halted.
    Bad,
    /// Excluded by a condition.
    Skipped,
    /// A dependency can no longer be satisfied.
    Blocked,
}

impl ItemStatus {
    pub(super) const fn is_settled(self) -> bool {
        matches!(self, Self::Done | Self::Bad | Self::Skipped | Self::Blocked)
    }

    pub(super) const fn is_good(self) -> bool {
        matches!(self, Self::Done | Self::Skipped)
    }
}

/// The signal of an edge to its downstream item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EdgeSignal {
    Go,
    Skip,
    Block,
    Wait,
}

/// A plan with its recorded ends and live items.
pub(super) struct Oracle<'a> {
    plan: &'a Plan,
    ends: &'a BTreeMap<ItemPosition, ItemEnd>,
    live: BTreeSet<ItemPosition>,
    known: BTreeMap<ItemPosition, ItemStatus>,
}

impl<'a> Oracle<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        ends: &'a BTreeMap<ItemPosition, ItemEnd>,
        live: impl IntoIterator<Item = ItemPosition>,
    ) -> Self {
        Self {
            plan,
            ends,
            live: live.into_iter().collect(),
            known: BTreeMap::new(),
        }
    }

    /// Whether fail-fast keeps the task from starting further items.
    pub(super) fn is_closed(&self, task: u32) -> bool {
        let failed = self.ends.values().any(|end| *end != ItemEnd::Done);
        let after = &self.plan.tasks[task as usize].after;
        let for_failures = after.iter().any(|it| it.condition != Condition::Success);
        self.plan.fail_fast && failed && !for_failures
    }

    /// The status of all items, in order.
    pub(super) fn all(&mut self) -> Vec<(ItemPosition, ItemStatus)> {
        let tasks = self.plan.tasks.iter().zip(0_u32..);
        let positions: Vec<ItemPosition> = tasks
            .flat_map(|(task, at)| (0..count(task)).map(move |item| (at, item)))
            .collect();
        positions
            .into_iter()
            .map(|it| (it, self.status(it)))
            .collect()
    }

    pub(super) fn status(&mut self, position: ItemPosition) -> ItemStatus {
        if let Some(status) = self.known.get(&position) {
            return *status;
        }
        let status = match self.ends.get(&position) {
            Some(ItemEnd::Done) => ItemStatus::Done,
            Some(ItemEnd::Failed | ItemEnd::Halted) => ItemStatus::Bad,
            None if self.live.contains(&position) => ItemStatus::Live,
            None => self.status_before_start(position),
        };
        self.known.insert(position, status);
        status
    }

    fn status_before_start(&mut self, (task, item): ItemPosition) -> ItemStatus {
        let own = &self.plan.tasks[task as usize];
        let mut combined = Vec::new();
        for after in &own.after {
            let signals = self.signals(after, item);
            combined.extend(signals.into_iter().map(|signal| (after.condition, signal)));
        }
        match combine(&combined) {
            EdgeSignal::Wait => ItemStatus::Waits,
            EdgeSignal::Block => ItemStatus::Blocked,
            EdgeSignal::Skip => ItemStatus::Skipped,
            EdgeSignal::Go if is_excluded(own, item) => ItemStatus::Skipped,
            EdgeSignal::Go if self.is_closed(task) => ItemStatus::Blocked,
            EdgeSignal::Go => ItemStatus::Ready,
        }
    }

    /// The signals of an edge to one item, one for each upstream item.
    fn signals(&mut self, after: &Upstream, item: u32) -> Vec<EdgeSignal> {
        let before = after.task;
        match &after.edges {
            Edges::Same => vec![item_signal(after.condition, self.status((before, item)))],
            Edges::Lists(lists) => {
                let named = lists.of(item).iter();
                named
                    .map(|it| item_signal(after.condition, self.status((before, *it))))
                    .collect()
            }
            Edges::All => vec![self.task_signal(before, after.condition)],
        }
    }

    /// The signal of a whole task to an item that waits for all of it.
    fn task_signal(&mut self, task: u32, condition: Condition) -> EdgeSignal {
        let own = &self.plan.tasks[task as usize];
        let statuses: Vec<ItemStatus> = (0..count(own)).map(|it| self.status((task, it))).collect();
        if statuses.is_empty() {
            return self.empty_task_signal(task, condition);
        }
        if statuses.iter().any(|it| !it.is_settled()) {
            return EdgeSignal::Wait;
        }
        let good = statuses.iter().all(|it| it.is_good());
        let skipped = statuses.iter().all(|it| *it == ItemStatus::Skipped);
        match condition {
            Condition::End => EdgeSignal::Go,
            Condition::Success if !good => EdgeSignal::Block,
            Condition::Success if skipped => EdgeSignal::Skip,
            Condition::Failure if good => EdgeSignal::Skip,
            Condition::Success | Condition::Failure => EdgeSignal::Go,
        }
    }

    /// A task without items ends as soon as it could start, and passes the signals of its own
    /// dependencies on.
    fn empty_task_signal(&mut self, task: u32, condition: Condition) -> EdgeSignal {
        let own = &self.plan.tasks[task as usize];
        let task_signal = own.after.iter().filter(|it| it.edges == Edges::All);
        let signals: Vec<_> = task_signal
            .map(|it| (it.condition, self.task_signal(it.task, it.condition)))
            .collect();
        match (combine(&signals), condition) {
            (EdgeSignal::Wait, _) => EdgeSignal::Wait,
            (_, Condition::End) => EdgeSignal::Go,
            (signal, Condition::Success) => signal,
            (EdgeSignal::Block, Condition::Failure) => EdgeSignal::Go,
            (_, Condition::Failure) => EdgeSignal::Skip,
        }
    }
}

/// Combines the signals of all edges. Not all required successes may be skipped, and at least
/// one required failure must have happened.
fn combine(signals: &[(Condition, EdgeSignal)]) -> EdgeSignal {
    let has = |wanted: EdgeSignal| signals.iter().any(|(_, signal)| *signal == wanted);
    let only_skips = |condition: Condition| {
        let mut signals = signals.iter().filter(|it| it.0 == condition).map(|it| it.1);
        signals.clone().count() > 0 && signals.all(|signal| signal == EdgeSignal::Skip)
    };
    if has(EdgeSignal::Wait) {
        EdgeSignal::Wait
    } else if has(EdgeSignal::Block) {
        EdgeSignal::Block
    } else if only_skips(Condition::Success) || only_skips(Condition::Failure) {
        EdgeSignal::Skip
    } else {
        EdgeSignal::Go
    }
}

/// The signal of one item to an item that waits for it.
const fn item_signal(condition: Condition, status: ItemStatus) -> EdgeSignal {
    match (condition, status) {
        (_, ItemStatus::Waits | ItemStatus::Ready | ItemStatus::Live) => EdgeSignal::Wait,
        (Condition::End, _)
        | (Condition::Success, ItemStatus::Done)
        | (Condition::Failure, ItemStatus::Bad | ItemStatus::Blocked) => EdgeSignal::Go,
        (Condition::Success, ItemStatus::Skipped)
        | (Condition::Failure, ItemStatus::Done | ItemStatus::Skipped) => EdgeSignal::Skip,
        (Condition::Success, ItemStatus::Bad | ItemStatus::Blocked) => EdgeSignal::Block,
    }
}

/// Whether a simulated `when` excludes the item.
fn is_excluded(task: &PlanTask, item: u32) -> bool {
    let when = task.when.as_deref();
    let excluded = when.and_then(|it| it.strip_prefix(EXCLUDED_ITEM)?.parse().ok());
    excluded.is_some() && value(task, item) == excluded
}
