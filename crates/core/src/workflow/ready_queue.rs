//! Ready items, and which of them is next within the concurrency limits of the run, of each
//! template and of each task. The cost of an operation does not depend on the number of ready
//! items.
//!
//! A limit group is either a template (a limit that several tasks share) or a task without one. A
//! group is open while it has a ready item and its limit is not reached.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::limits::{RUN_RELEASED_MAX, TASK_RELEASED_MAX};
use baton_model::workflow::Plan;

use crate::limits::{Limit, Limits, RunLimit};

/// Ready items by task, and instances in flight by limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct ReadyQueue {
    /// Ready items by task.
    ready: BTreeMap<u32, BTreeSet<u32>>,
    /// Instances in flight. That of a task is here while it has some, or if it was lowered.
    limits: Limits<RunLimit>,
    /// By limit group: tasks with a ready item that have not reached their own limit.
    eligible: BTreeMap<u64, BTreeSet<u32>>,
    open_groups: BTreeSet<u64>,
}

/// The limit group of a task. Templates come first, then the tasks without one.
fn limit_group(plan: &Plan, task: u32) -> u64 {
    let pools = plan.pools.len() as u64;
    let pool = plan.tasks[task as usize].pool;
    pool.map_or(pools + u64::from(task), u64::from)
}

/// The limits that an instance of a task takes one of each, the narrowest first.
fn limits_of(plan: &Plan, task: u32) -> Vec<(RunLimit, u64)> {
    let pool = plan.tasks[task as usize].pool;
    let template = pool.map(RunLimit::Template);
    let keys = [Some(RunLimit::Task(task)), template, Some(RunLimit::Run)];
    keys.into_iter().flatten().map(|key| (key, 1)).collect()
}

/// The limit of a task, unless it is lowered.
fn task_total(plan: &Plan, task: u32) -> u64 {
    let own = plan.tasks[task as usize].max_concurrent;
    u64::from(own.unwrap_or(TASK_RELEASED_MAX))
}

impl ReadyQueue {
    pub(super) fn new(plan: &Plan) -> Self {
        let mut limits = Limits::default();
        let mut set = |key, total: u32| {
            let total = u64::from(total);
            limits.insert(key, Limit { total, used: 0 });
        };
        set(
            RunLimit::Run,
            plan.max_concurrent.unwrap_or(RUN_RELEASED_MAX),
        );
        for (pool, at) in plan.pools.iter().zip(0..) {
            set(RunLimit::Template(at), pool.max_concurrent);
        }
        Self {
            limits,
            ..Self::default()
        }
    }

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
        let (limits, key) = (limits_of(plan, task), RunLimit::Task(task));
        let total = task_total(plan, task);
        if more {
            if !self.limits.contains(&key) {
                self.limits.insert(key, Limit { total, used: 0 });
            }
            self.limits.charge(&limits);
        } else {
            self.limits.discharge(&limits);
            if self.limits.get(&key) == Some(Limit { total, used: 0 }) {
                self.limits.remove(&key);
            }
        }
        self.refresh(plan, task);
    }

    /// Lowers the limit of a task whose instances are large.
    pub(super) fn cap(&mut self, plan: &Plan, task: u32, total: u64) {
        let key = RunLimit::Task(task);
        if total < task_total(plan, task) && !self.limits.set_total(&key, total) {
            self.limits.insert(key, Limit { total, used: 0 });
        }
    }

    /// The next item to start as (task, item), if the limits allow one.
    pub(super) fn next(&self) -> Option<(u32, u32)> {
        if self.limits.short_of(&[(RunLimit::Run, 1)]).is_some() {
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
    pub(super) fn in_flight(&self) -> u128 {
        self.limit(RunLimit::Run).map_or(0, |it| it.used)
    }

    pub(super) fn limit(&self, key: RunLimit) -> Option<Limit> {
        self.limits.get(&key)
    }

    /// The narrowest limit for which no item of a task may start now.
    pub(super) fn short_of(&self, plan: &Plan, task: u32) -> Option<RunLimit> {
        self.limits.short_of(&limits_of(plan, task)).copied()
    }

    /// Updates whether a task is eligible and whether its limit group is open.
    fn refresh(&mut self, plan: &Plan, task: u32) {
        let has_room = |key| self.limits.short_of(&[(key, 1)]).is_none();
        let room = has_room(RunLimit::Task(task));
        let pool = plan.tasks[task as usize].pool;
        let group_room = pool.is_none_or(|pool| has_room(RunLimit::Template(pool)));
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
        if any && group_room {
            self.open_groups.insert(group);
        } else {
            self.open_groups.remove(&group);
        }
    }
}
