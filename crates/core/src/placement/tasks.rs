//! Tasks of which something waits, with their histories.
//!
//! Here are only those that a change of their history concerns: a task is dropped when nothing of it waits. All
//! histories are in the ledger.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::measurement::TaskPath;
use baton_model::time::Millis;
use slab::Slab;

use super::Placement;
use super::limits::TASKS_WAITING_MAX;
use crate::ledger::moved;
use crate::wait::ClassId;

/// A task, and how long its attempts take.
#[derive(Clone, Copy, Debug)]
pub struct TaskHistory<'a> {
    pub path: &'a TaskPath,
    /// None if none of them has ended.
    pub estimate: Option<Millis>,
}

impl Placement {
    /// Sets how long the attempts of a task take, of which something may wait.
    pub fn set_estimate(&mut self, task: &TaskPath, estimate: Millis) {
        self.queue.set_estimate(task, estimate);
    }

    /// Updates the estimated run time of a class: by it instances are placed ahead, and workers requested. It
    /// does not affect the order.
    pub fn record_run_time(&mut self, class: ClassId, runtime: Millis) {
        if let Some(class) = self.classes.all.get_mut(class.0) {
            let estimate = class.estimate.unwrap_or(runtime);
            class.estimate = Some(moved(estimate, runtime));
        }
    }
}

/// One task.
#[derive(Clone, Debug)]
pub(super) struct Task {
    path: TaskPath,
    /// How long its attempts take, if it is known.
    pub(super) estimate: Option<Millis>,
    /// Its task queues. None of them is empty.
    pub(super) queues: BTreeSet<u32>,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Tasks {
    pub(super) all: Slab<Task>,
    by_path: BTreeMap<TaskPath, usize>,
}

impl Tasks {
    pub(super) fn find(&self, path: &TaskPath) -> Option<usize> {
        self.by_path.get(path).copied()
    }

    /// The task, made if need be; none beyond the limit.
    pub(super) fn find_or_add(
        &mut self,
        path: &TaskPath,
        estimate: Option<Millis>,
    ) -> Option<usize> {
        if let Some(at) = self.find(path) {
            return Some(at);
        }
        if self.all.len() >= TASKS_WAITING_MAX {
            return None;
        }
        let at = self.all.insert(Task {
            path: path.clone(),
            estimate,
            queues: BTreeSet::new(),
        });
        self.by_path.insert(path.clone(), at);
        Some(at)
    }

    /// Takes in that a task queue is gone.
    pub(super) fn remove_queue(&mut self, at: usize, queue: u32) {
        let task = &mut self.all[at];
        task.queues.remove(&queue);
        if task.queues.is_empty() {
            let task = self.all.remove(at);
            self.by_path.remove(&task.path);
        }
    }
}
