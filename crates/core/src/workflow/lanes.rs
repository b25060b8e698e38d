//! Which of what is ready goes next, within the limits of the run, of each template and of each
//! task. Every question costs the same, however much is ready.
//!
//! A lane is a limit that several tasks share, or a task that shares none. It is open while
//! something in it is ready and its limit leaves room.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::limits::{RUN_RELEASED_MAX, TASK_RELEASED_MAX};
use baton_model::workflow::Plan;

/// What is ready and on its way, by task and by lane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Lanes {
    /// Items that could begin, by task.
    ready: BTreeMap<u32, BTreeSet<u32>>,
    /// How many instances are on their way, by task.
    live: BTreeMap<u32, u32>,
    /// The same by shared limit.
    pooled: BTreeMap<u32, u32>,
    total: u32,
    /// Limits of tasks whose instances have grown large.
    narrow: BTreeMap<u32, u32>,
    /// By lane the tasks that have something ready and room of their own.
    tasks: BTreeMap<u64, BTreeSet<u32>>,
    /// Lanes that something can go from.
    open: BTreeSet<u64>,
}

/// Shared limits come first, then the tasks that share none.
fn lane(plan: &Plan, task: u32) -> u64 {
    let pools = plan.pools.len() as u64;
    let pool = plan.tasks[task as usize].pool;
    pool.map_or(pools + u64::from(task), u64::from)
}

impl Lanes {
    /// An item could begin.
    pub(super) fn ready(&mut self, plan: &Plan, task: u32, item: u32) {
        self.ready.entry(task).or_default().insert(item);
        self.look(plan, task);
    }

    /// An item is not ready any more.
    pub(super) fn unready(&mut self, plan: &Plan, task: u32, item: u32) {
        if let Some(items) = self.ready.get_mut(&task) {
            items.remove(&item);
            if items.is_empty() {
                self.ready.remove(&task);
            }
        }
        self.look(plan, task);
    }

    /// An instance of a task is on its way, or no longer.
    pub(super) fn count(&mut self, plan: &Plan, task: u32, more: bool) {
        let by = |count: u32| {
            if more {
                count + 1
            } else {
                count.saturating_sub(1)
            }
        };
        let bump = |counts: &mut BTreeMap<u32, u32>, key| {
            let count = by(counts.get(&key).copied().unwrap_or_default());
            match count {
                0 => counts.remove(&key),
                count => counts.insert(key, count),
            };
        };
        bump(&mut self.live, task);
        if let Some(pool) = plan.tasks[task as usize].pool {
            bump(&mut self.pooled, pool);
        }
        self.total = by(self.total);
        self.look(plan, task);
    }

    /// No more than so many instances of a task shall be on their way at once.
    pub(super) fn narrow(&mut self, task: u32, limit: u32) {
        self.narrow.insert(task, limit);
    }

    pub(super) fn next(&self, plan: &Plan) -> Option<(u32, u32)> {
        if self.total >= plan.max_concurrent.unwrap_or(RUN_RELEASED_MAX) {
            return None;
        }
        let lane = self.open.first()?;
        let task = *self.tasks.get(lane)?.first()?;
        let item = *self.ready.get(&task)?.first()?;
        Some((task, item))
    }

    /// Everything that is ready, by task.
    pub(super) fn all(&self) -> impl Iterator<Item = (u32, &BTreeSet<u32>)> {
        self.ready.iter().map(|(task, items)| (*task, items))
    }

    /// How many instances are on their way.
    pub(super) const fn total(&self) -> u32 {
        self.total
    }

    /// Files a task, and its lane, under what they can do now.
    fn look(&mut self, plan: &Plan, task: u32) {
        let live = |counts: &BTreeMap<u32, u32>, key| counts.get(&key).copied().unwrap_or(0);
        let own = &plan.tasks[task as usize];
        let limit = own.max_concurrent.unwrap_or(TASK_RELEASED_MAX);
        let limit = limit.min(self.narrow.get(&task).copied().unwrap_or(u32::MAX));
        let room = live(&self.live, task) < limit;
        let lane = lane(plan, task);
        let tasks = self.tasks.entry(lane).or_default();
        if room && self.ready.contains_key(&task) {
            tasks.insert(task);
        } else {
            tasks.remove(&task);
        }
        let some = !tasks.is_empty();
        if !some {
            self.tasks.remove(&lane);
        }
        let room = own.pool.is_none_or(|pool| {
            let limit = plan.pools[pool as usize].max_concurrent;
            live(&self.pooled, pool) < limit
        });
        if some && room {
            self.open.insert(lane);
        } else {
            self.open.remove(&lane);
        }
    }
}
