//! Ready items, and which of them is next within the concurrency limits of the run, of each
//! template and of each task. The cost of an operation does not depend on the number of ready
//! items.
//!
//! A limit group is either a pool (a limit that several tasks share) or a task without a pool. A
//! group is open while it has a ready item and its limit is not reached.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::limits::{RUN_RELEASED_MAX, TASK_RELEASED_MAX};
use baton_model::workflow::Plan;

/// Ready and in-flight items by task and by limit group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct ReadyQueue {
    /// Ready items by task.
    ready: BTreeMap<u32, BTreeSet<u32>>,
    /// Number of instances in flight by task.
    in_flight: BTreeMap<u32, u32>,
    /// Number of instances in flight by pool.
    in_flight_by_pool: BTreeMap<u32, u32>,
    in_flight_total: u32,
    /// Lower limits for tasks whose instances are large.
    caps: BTreeMap<u32, u32>,
    /// By limit group: tasks with a ready item that have not reached their own limit.
    eligible: BTreeMap<u64, BTreeSet<u32>>,
    open_groups: BTreeSet<u64>,
}

/// The limit group of a task. Pools come first, then the tasks without one.
fn limit_group(plan: &Plan, task: u32) -> u64 {
    let pools = plan.pools.len() as u64;
    let pool = plan.tasks[task as usize].pool;
    pool.map_or(pools + u64::from(task), u64::from)
}

impl ReadyQueue {
    pub(super) fn insert(&mut self, plan: &Plan, task: u32, item: u32) {
        self.ready.entry(task).or_default().insert(item);
        self.refresh(plan, task);
    }

    pub(super) fn remove(&mut self, plan: &Plan, task: u32, item: u32) {
        if let Some(items) = self.ready.get_mut(&task) {
            items.remove(&item);
            if items.is_empty() {
                self.ready.remove(&task);
            }
        }
        self.refresh(plan, task);
    }

    /// Counts an instance of a task that is in flight now, or no longer.
    pub(super) fn count_in_flight(&mut self, plan: &Plan, task: u32, more: bool) {
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
        bump(&mut self.in_flight, task);
        if let Some(pool) = plan.tasks[task as usize].pool {
            bump(&mut self.in_flight_by_pool, pool);
        }
        self.in_flight_total = by(self.in_flight_total);
        self.refresh(plan, task);
    }

    /// Limits how many instances of a task may be in flight at once.
    pub(super) fn cap(&mut self, task: u32, limit: u32) {
        self.caps.insert(task, limit);
    }

    /// The next item to start as (task, item), if the limits allow one.
    pub(super) fn next(&self, plan: &Plan) -> Option<(u32, u32)> {
        if self.in_flight_total >= plan.max_concurrent.unwrap_or(RUN_RELEASED_MAX) {
            return None;
        }
        let group = self.open_groups.first()?;
        let task = *self.eligible.get(group)?.first()?;
        let item = *self.ready.get(&task)?.first()?;
        Some((task, item))
    }

    pub(super) fn ready_items(&self) -> impl Iterator<Item = (u32, &BTreeSet<u32>)> {
        self.ready.iter().map(|(task, items)| (*task, items))
    }

    /// Number of instances in flight.
    pub(super) const fn in_flight(&self) -> u32 {
        self.in_flight_total
    }

    /// Updates whether a task is eligible and whether its limit group is open.
    fn refresh(&mut self, plan: &Plan, task: u32) {
        let count_of = |counts: &BTreeMap<u32, u32>, key| counts.get(&key).copied().unwrap_or(0);
        let own = &plan.tasks[task as usize];
        let limit = own.max_concurrent.unwrap_or(TASK_RELEASED_MAX);
        let limit = limit.min(self.caps.get(&task).copied().unwrap_or(u32::MAX));
        let room = count_of(&self.in_flight, task) < limit;
        let group = limit_group(plan, task);
        let tasks = self.eligible.entry(group).or_default();
        if room && self.ready.contains_key(&task) {
            tasks.insert(task);
        } else {
            tasks.remove(&task);
        }
        let any = !tasks.is_empty();
        if !any {
            self.eligible.remove(&group);
        }
        let room = own.pool.is_none_or(|pool| {
            let limit = plan.pools[pool as usize].max_concurrent;
            count_of(&self.in_flight_by_pool, pool) < limit
        });
        if any && room {
            self.open_groups.insert(group);
        } else {
            self.open_groups.remove(&group);
        }
    }
}
