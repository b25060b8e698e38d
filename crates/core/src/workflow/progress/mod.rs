//! Where a run stands: what is ready, on its way, and over.
//!
//! An end is settled once: it sets free what waits for it, and what can never begin is settled
//! with it, down the graph. Each edge is looked at once, so a run costs its items and edges,
//! whatever their number.
//!
//! What an item waits for is met, or bars it: it is *skipped* if nothing went wrong and it is
//! not wanted, *blocked* if something before it has failed.
//!
//! Invariant: where something is on record of a task whose items another puts out, that other
//! was over when they were made, and nothing of it has run since: a resume that does it again
//! undoes them with it ([`super::invalidate`]). So its items are what the record says, whatever else
//! is on its way.
//!
//! | file | holds |
//! |---|---|
//! | `tally` | where items stand, and how many are where |
//! | `bars` | what keeps an item from beginning |
//! | `settle` | what follows from an end |
//! | `outputs` | what was put out, and the values of items |

mod bars;
mod outputs;
mod settle;
mod tally;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use baton_model::ids::InstanceId;
use baton_model::workflow::{ItemEnd, Items};

use super::Dag;
use super::lanes::Lanes;
use outputs::Joined;
use settle::TaskProgress;

pub use tally::{ItemState, Tally};

/// An end as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ItemResult {
    /// The task, as a place in the plan's list.
    pub task: u32,
    pub item: u32,
    pub end: ItemEnd,
    /// What it has put out, as the text of a JSON object.
    pub outputs: Option<Arc<str>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Progress {
    tasks: Vec<TaskProgress>,
    lanes: Lanes,
    live: BTreeMap<(u32, u32), InstanceId>,
    /// What was put out, where somebody wants to know it.
    outputs: BTreeMap<(u32, u32), Arc<str>>,
    /// The same of all items of a task together, where all are over.
    joined: BTreeMap<u32, BTreeMap<String, Result<Joined, String>>>,
    /// The values of items that another task has put out, as JSON.
    lists: BTreeMap<u32, Vec<String>>,
    total: Tally,
    /// Something has failed, and nothing more shall begin.
    failing: bool,
    problems: BTreeMap<(u32, u32), String>,
}

impl Progress {
    /// The progress of a run of which this is known: what is on its way, and what has ended.
    /// In whatever order it happened, the result is the same.
    #[must_use]
    pub fn new(
        dag: &Dag,
        live: impl IntoIterator<Item = (u32, u32, InstanceId)>,
        ended: impl IntoIterator<Item = ItemResult>,
    ) -> Self {
        let mut progress = Self::default();
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
        ended.iter().for_each(|it| progress.note(dag, it));
        let begun = live.iter().map(|it| it.0);
        let begun: BTreeSet<u32> = begun.chain(ended.iter().map(|it| it.task)).collect();
        for task in begun {
            progress.take_up(dag, task);
        }
        for (task, item, instance) in live {
            progress.began(dag, task, item, instance);
        }
        // What has ended has, whatever follows for it from the ends before it: until its turn it
        // counts as on its way, so that nothing settles it.
        for it in &ended {
            if progress.is_mapped(it.task)
                && progress.state(it.task, it.item) == Some(ItemState::Waiting)
            {
                progress.set(dag, it.task, it.item, ItemState::Live);
            }
        }
        progress.begin(dag);
        for it in ended {
            if progress.is_mapped(it.task) {
                progress.settle(dag, vec![(it.task, it.item, it.end.into())], false);
            }
        }
        let work = progress.closing(dag);
        progress.settle(dag, work, true);
        progress
    }

    /// Something is on record of this task: it has the items that it had.
    fn take_up(&mut self, dag: &Dag, task: u32) {
        let own = dag.plan.tasks.get(task as usize);
        if let Some(Items::Output { task: from, key }) = own.map(|own| &own.items) {
            // If there can be none any more, that is told when its turn comes, as for any other.
            let _ = self.assign(dag, task, *from, key);
        }
    }

    /// An item has an instance. False if there is no such item, or it has none to have.
    pub fn began(&mut self, dag: &Dag, task: u32, item: u32, instance: InstanceId) -> bool {
        let state = self.state(task, item);
        if !matches!(state, Some(ItemState::Waiting | ItemState::Ready)) || !self.is_mapped(task) {
            return false;
        }
        self.set(dag, task, item, ItemState::Live);
        self.live.insert((task, item), instance);
        true
    }

    /// The instance of an item has ended. What has become ready with it is in its lane.
    pub fn ended(&mut self, dag: &Dag, ended: &ItemResult) {
        if self.state(ended.task, ended.item) != Some(ItemState::Live) {
            return;
        }
        self.note(dag, ended);
        let work = vec![(ended.task, ended.item, ended.end.into())];
        self.settle(dag, work, true);
    }

    /// What goes next, within the limits.
    #[must_use]
    pub fn next(&self, dag: &Dag) -> Option<(u32, u32)> {
        self.lanes.next(&dag.plan)
    }

    #[must_use]
    pub fn state(&self, task: u32, item: u32) -> Option<ItemState> {
        let task = self.tasks.get(task as usize)?;
        task.states.get(item as usize).copied()
    }

    /// Where the items of a task stand.
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

    /// What is on its way, by task and item.
    pub fn live(&self) -> impl Iterator<Item = (u32, u32, InstanceId)> + '_ {
        self.live
            .iter()
            .map(|((task, item), id)| (*task, *item, *id))
    }

    /// What is on its way, from some place on.
    pub fn live_from(
        &self,
        from: Bound<(u32, u32)>,
    ) -> impl Iterator<Item = (u32, u32, InstanceId)> + '_ {
        let live = self.live.range((from, Bound::Unbounded));
        live.map(|((task, item), id)| (*task, *item, *id))
    }

    /// What is on its way of one task.
    pub fn live_of(&self, task: u32) -> impl Iterator<Item = InstanceId> + '_ {
        let range = self.live.range((task, 0)..=(task, u32::MAX));
        range.map(|(_, id)| *id)
    }

    /// True if nothing is on its way.
    #[must_use]
    pub const fn is_still(&self) -> bool {
        self.lanes.total() == 0
    }

    /// True if nothing more happens by itself.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.total.settled() == self.total.all()
    }

    /// True if all went well.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.total.bad() == 0
    }

    /// True if a failure has closed everything off.
    #[must_use]
    pub const fn is_failing(&self) -> bool {
        self.failing
    }

    /// Everything that is DONE, with what was put out as far as that is known.
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

    /// How many items a task has, as far as that is known.
    #[must_use]
    pub fn length(&self, task: u32) -> u32 {
        self.tally(task).all()
    }

    /// Items that could not begin for a reason of their own.
    pub fn problems(&self) -> impl Iterator<Item = (u32, u32, &str)> {
        let problems = self.problems.iter();
        problems.map(|((task, item), why)| (*task, *item, why.as_str()))
    }
}
