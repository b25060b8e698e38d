//! Progress of a run: which items are ready, in flight, and settled.
//!
//! Each item is settled once. That decrements the in-degree of its downstream items; items that
//! can never run are settled along with it, down the graph. Each edge is visited once, so a run
//! costs O(items + edges).
//!
//! An item whose upstream items are all settled becomes ready, or is *skipped* (nothing failed,
//! but it is not needed) or *blocked* (an upstream item failed).
//!
//! Invariant: if a result is stored for a task whose items are another task's output, that other
//! task was settled when the items were made, and nothing of it has run since: a resume that
//! reruns it invalidates them, too ([`super::invalidate`]). So the stored outputs determine the
//! items, whatever else is in flight.
//!
//! | file | holds |
//! |---|---|
//! | `tally` | item states, and the number of items in each |
//! | `block` | why an item does not run |
//! | `settle` | what follows when an item is settled |
//! | `outputs` | outputs of tasks, and values of items |

mod block;
mod outputs;
mod settle;
mod tally;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use baton_model::ids::InstanceId;
use baton_model::workflow::{ItemEnd, Items};

use super::Dag;
use super::ready_queue::ReadyQueue;
use crate::limits::{Limit, RunLimit};
use outputs::JoinedOutput;
use settle::TaskProgress;

pub use tally::{ItemState, Tally};

/// How an item ended, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ItemResult {
    /// Index into the plan's tasks.
    pub task: u32,
    pub item: u32,
    pub end: ItemEnd,
    /// Its outputs, as the text of a JSON object.
    pub outputs: Option<Arc<str>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Progress {
    tasks: Vec<TaskProgress>,
    queue: ReadyQueue,
    live: BTreeMap<(u32, u32), InstanceId>,
    /// Outputs by (task, item), as far as a task refers to them.
    outputs: BTreeMap<(u32, u32), Arc<str>>,
    /// Outputs of all items of a settled task, joined by key.
    joined: BTreeMap<u32, BTreeMap<String, Result<JoinedOutput, String>>>,
    /// Item values that come from another task's output, as JSON.
    lists: BTreeMap<u32, Vec<String>>,
    total: Tally,
    /// An item failed and `fail_fast` is set: only failure handlers may still start.
    failing_fast: bool,
    problems: BTreeMap<(u32, u32), String>,
}

impl Progress {
    /// Computes the progress of a run from its in-flight instances and its item results. Their
    /// order does not matter.
    #[must_use]
    pub fn new(
        dag: &Dag,
        live: impl IntoIterator<Item = (u32, u32, InstanceId)>,
        ended: impl IntoIterator<Item = ItemResult>,
    ) -> Self {
        let mut progress = Self {
            queue: ReadyQueue::new(&dag.plan),
            ..Self::default()
        };
        for task in &dag.plan.tasks {
            let begun = TaskProgress::new(task);
            for state in &begun.states {
                progress.total.add(*state, 1);
            }
            progress.tasks.push(begun);
        }
        let mut ended: Vec<_> = ended.into_iter().collect();
        ended.sort_by_key(|it| (it.task, it.item));
        let live: Vec<_> = live.into_iter().collect();
        ended.iter().for_each(|it| progress.keep_outputs(dag, it));
        let begun = live.iter().map(|it| it.0);
        let begun: BTreeSet<u32> = begun.chain(ended.iter().map(|it| it.task)).collect();
        for task in begun {
            progress.restore_items(dag, task);
        }
        for (task, item, instance) in live {
            progress.start_item(dag, task, item, instance);
        }
        // A stored result holds whatever upstream results imply: until its turn the item counts
        // as in flight, so that nothing else settles it.
        for it in &ended {
            if progress.is_mapped(it.task)
                && progress.state(it.task, it.item) == Some(ItemState::Waiting)
            {
                progress.set_state(dag, it.task, it.item, ItemState::Live);
            }
        }
        progress.start_roots(dag);
        for it in ended {
            if progress.is_mapped(it.task) {
                progress.settle(dag, vec![(it.task, it.item, it.end.into())], false);
            }
        }
        let work = progress.fail_fast(dag);
        progress.settle(dag, work, true);
        progress
    }

    /// Makes the items of a task that has stored results or instances, or edges item by item to a
    /// task of the same list.
    fn restore_items(&mut self, dag: &Dag, task: u32) {
        let own = dag.plan.tasks.get(task as usize);
        if !self.is_mapped(task)
            && let Some(Items::Output { task: from, key }) = own.map(|own| &own.items)
        {
            // An error is reported when the task is unblocked, as for any other task.
            let _ = self.assign_items(dag, task, *from, key);
        }
    }

    /// Records that an item has an instance. False if there is no such item, or it is past that.
    pub fn start_item(&mut self, dag: &Dag, task: u32, item: u32, instance: InstanceId) -> bool {
        let state = self.state(task, item);
        if !matches!(state, Some(ItemState::Waiting | ItemState::Ready)) || !self.is_mapped(task) {
            return false;
        }
        self.set_state(dag, task, item, ItemState::Live);
        self.live.insert((task, item), instance);
        true
    }

    /// Settles an item whose instance has ended.
    pub fn end_item(&mut self, dag: &Dag, ended: &ItemResult) {
        if self.state(ended.task, ended.item) != Some(ItemState::Live) {
            return;
        }
        self.keep_outputs(dag, ended);
        let work = vec![(ended.task, ended.item, ended.end.into())];
        self.settle(dag, work, true);
    }

    /// The next item to start as (task, item), within the concurrency limits.
    #[must_use]
    pub fn next_ready(&self, dag: &Dag) -> Option<(u32, u32)> {
        debug_assert_eq!(self.tasks.len(), dag.plan.tasks.len(), "another plan");
        self.queue.next()
    }

    /// A concurrency limit of the run.
    #[must_use]
    pub fn limit(&self, key: RunLimit) -> Option<Limit> {
        self.queue.limit(key)
    }

    /// The narrowest limit for which no ready item of a task may start now.
    #[must_use]
    pub fn short_of(&self, dag: &Dag, task: u32) -> Option<RunLimit> {
        self.queue.short_of(&dag.plan, task)
    }

    #[must_use]
    pub fn state(&self, task: u32, item: u32) -> Option<ItemState> {
        let task = self.tasks.get(task as usize)?;
        task.states.get(item as usize).copied()
    }

    /// Number of a task's items by state.
    #[must_use]
    pub fn tally(&self, task: u32) -> Tally {
        self.tasks
            .get(task as usize)
            .map_or_else(Tally::default, |it| it.tally)
    }

    #[must_use]
    pub const fn total(&self) -> &Tally {
        &self.total
    }

    /// Whether the items of a task are known.
    #[must_use]
    pub fn is_mapped(&self, task: u32) -> bool {
        self.tasks.get(task as usize).is_some_and(|it| it.mapped)
    }

    /// Instances in flight, in order of task and item.
    pub fn live(&self) -> impl Iterator<Item = (u32, u32, InstanceId)> + '_ {
        self.live
            .iter()
            .map(|((task, item), id)| (*task, *item, *id))
    }

    /// Instances in flight, from a (task, item) on.
    pub fn live_from(
        &self,
        from: Bound<(u32, u32)>,
    ) -> impl Iterator<Item = (u32, u32, InstanceId)> + '_ {
        let live = self.live.range((from, Bound::Unbounded));
        live.map(|((task, item), id)| (*task, *item, *id))
    }

    /// Instances of one task in flight.
    pub fn live_of(&self, task: u32) -> impl Iterator<Item = InstanceId> + '_ {
        let range = self.live.range((task, 0)..=(task, u32::MAX));
        range.map(|(_, id)| *id)
    }

    /// True if no instance is in flight.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.queue.in_flight() == 0
    }

    /// True if every item is settled.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.total.settled() == self.total.all()
    }

    /// True if no item failed, was halted or is blocked.
    #[must_use]
    pub fn is_successful(&self) -> bool {
        self.total.unsuccessful() == 0
    }

    /// True if a failure has triggered `fail_fast`.
    #[must_use]
    pub const fn is_failing_fast(&self) -> bool {
        self.failing_fast
    }

    /// Results of all items that are DONE, with those outputs that a task refers to.
    pub fn done(&self) -> impl Iterator<Item = ItemResult> + '_ {
        let tasks = self.tasks.iter().zip(0_u32..);
        tasks.flat_map(move |(own, task)| {
            let items = own.states.iter().zip(0_u32..);
            let done = items.filter(|(state, _)| **state == ItemState::Done);
            done.map(move |(_, item)| ItemResult {
                task,
                item,
                end: ItemEnd::Done,
                outputs: self.outputs.get(&(task, item)).cloned(),
            })
        })
    }

    /// Number of items of a task; 1 if they are not known yet.
    #[must_use]
    pub fn item_count(&self, task: u32) -> u32 {
        self.tally(task).all()
    }

    /// Items that failed to start, as (task, item, reason): unresolved references, `when` errors.
    pub fn problems(&self) -> impl Iterator<Item = (u32, u32, &str)> {
        let problems = self.problems.iter();
        problems.map(|((task, item), reason)| (*task, *item, reason.as_str()))
    }
}
