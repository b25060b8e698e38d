//! The items that stay DONE at a resume, derived from its definition, independently of
//! `baton_core::workflow::compare`.
//!
//! A DONE item stays DONE, except: a task to rerun, with its downstream tasks if requested;
//! under a changed plan, a task with another command, other dependencies, or a changed upstream
//! task; an item that no longer exists; and an item that handled the end of something that now
//! runs again, with everything downstream.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::workflow::{Condition, Edges, ItemEnd, Plan, PlanTask};

use super::ItemPosition;
use super::oracle::Oracle;
use crate::plans::count;

/// How a task of the new plan compares with the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskMatch {
    Same,
    /// The same work with other items.
    Recounted,
    Changed,
}

/// Returns the positions in the new plan that stay DONE.
pub(super) fn done_items(
    old: &Plan,
    ends: &BTreeMap<ItemPosition, ItemEnd>,
    new: Option<&Plan>,
    again: Option<&(String, bool)>,
) -> BTreeSet<ItemPosition> {
    let rerun_tasks = rerun_tasks(old, again);
    let done = ends.iter().filter(|(_, end)| **end == ItemEnd::Done);
    let done = done.map(|(task_index, _)| *task_index);
    let done = done.filter(|(task, _)| !rerun_tasks.contains(task));
    let Some(new) = new else {
        return drop_invalidated(old, done.collect());
    };
    let task_matches = task_matches(old, new);
    let moved = done.filter_map(|(task, item)| {
        let name = &old.tasks[task as usize].name;
        let at = task_index(new, name)?;
        let there = item < count(&new.tasks[at as usize]);
        let stays = task_matches[at as usize] != TaskMatch::Changed;
        (there && stays).then_some((at, item))
    });
    drop_invalidated(new, moved.collect())
}

/// Removes items that handled the end of something that is not settled any more.
fn drop_invalidated(plan: &Plan, done: BTreeSet<ItemPosition>) -> BTreeSet<ItemPosition> {
    let ends: BTreeMap<ItemPosition, ItemEnd> =
        done.iter().map(|it| (*it, ItemEnd::Done)).collect();
    let statuses = Oracle::new(plan, &ends, []).all();
    let open: BTreeSet<ItemPosition> = statuses
        .iter()
        .filter(|(_, status)| !status.is_settled())
        .map(|(task_index, _)| *task_index)
        .collect();
    // A task without items passes the signals of its dependencies on.
    let (mut undone, mut empty) = (BTreeSet::<ItemPosition>::new(), BTreeSet::<u32>::new());
    for (task, at) in plan.tasks.iter().zip(0_u32..) {
        let answers = |item: u32| {
            task.after.iter().any(|after| {
                let behind = |places: &BTreeSet<ItemPosition>| match &after.edges {
                    Edges::All => places.iter().any(|(task, _)| *task == after.task),
                    Edges::Same => places.contains(&(after.task, item)),
                    Edges::Lists(lists) => {
                        let mut named = lists.of(item).iter();
                        named.any(|it| places.contains(&(after.task, *it)))
                    }
                };
                let handles = after.condition != Condition::Success;
                let handed = after.edges == Edges::All && empty.contains(&after.task);
                behind(&undone) || handed || handles && behind(&open)
            })
        };
        let items: Vec<u32> = (0..count(task)).filter(|item| answers(*item)).collect();
        if count(task) == 0 && answers(0) {
            empty.insert(at);
        }
        undone.extend(items.into_iter().map(|item| (at, item)));
    }
    done.difference(&undone).copied().collect()
}

fn task_index(plan: &Plan, name: &str) -> Option<u32> {
    let mut tasks = plan.tasks.iter().zip(0_u32..);
    tasks.find(|(task, _)| task.name == name).map(|(_, at)| at)
}

/// The tasks to rerun.
fn rerun_tasks(plan: &Plan, again: Option<&(String, bool)>) -> BTreeSet<u32> {
    let mut rerun_tasks = BTreeSet::new();
    let Some((name, downstream)) = again else {
        return rerun_tasks;
    };
    rerun_tasks.extend(task_index(plan, name));
    if *downstream {
        for (task, at) in plan.tasks.iter().zip(0_u32..) {
            if task.after.iter().any(|it| rerun_tasks.contains(&it.task)) {
                rerun_tasks.insert(at);
            }
        }
    }
    rerun_tasks
}

fn task_matches(old: &Plan, new: &Plan) -> Vec<TaskMatch> {
    let mut task_matches = Vec::new();
    for task in &new.tasks {
        let before = task_index(old, &task.name).map(|at| &old.tasks[at as usize]);
        let mut upstream = task.after.iter();
        let settled = upstream.all(|it| task_matches[it.task as usize] == TaskMatch::Same);
        let task_match = match before {
            Some(before) if settled && is_same_work(old, before, new, task) => {
                if before.items == task.items {
                    TaskMatch::Same
                } else {
                    TaskMatch::Recounted
                }
            }
            _ => TaskMatch::Changed,
        };
        task_matches.push(task_match);
    }
    task_matches
}

fn is_same_work(old: &Plan, before: &PlanTask, new: &Plan, task: &PlanTask) -> bool {
    let edges = |plan: &Plan, task: &PlanTask| -> Vec<(String, _, Edges)> {
        let after = task.after.iter();
        let named = |at: u32| plan.tasks[at as usize].name.clone();
        after
            .map(|it| (named(it.task), it.condition, it.edges.clone()))
            .collect()
    };
    before.spec.work == task.spec.work
        && before.when == task.when
        && edges(old, before) == edges(new, task)
}
