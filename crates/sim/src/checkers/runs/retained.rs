//! The items that stay DONE at a resume, derived from its definition, independently of
//! `baton_core::workflow::compare`.
//!
//! A DONE item stays DONE, except: a task to rerun, with its downstream tasks if requested;
//! under a changed plan, a task with another command or other dependencies, and one that waits for
//! all items of a task that differs in any item; an item that is not in the new plan, which is
//! found by its value and, item by item, by its upstream items; and an item that handled the end of
//! something that now runs again, with everything downstream.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::workflow::{Condition, Edges, ItemEnd, Plan, PlanTask, Upstream};

use super::ItemPosition;
use super::oracle::Oracle;
use crate::plans::{count, value};

/// Returns the positions in the new plan that stay DONE.
pub(super) fn done_items(
    old: &Plan,
    ends: &BTreeMap<ItemPosition, ItemEnd>,
    new: Option<&Plan>,
    rerun: Option<&(String, bool)>,
) -> BTreeSet<ItemPosition> {
    let rerun_tasks = rerun_tasks(old, rerun);
    let done = ends.iter().filter(|(_, end)| **end == ItemEnd::Done);
    let done = done.map(|(task_index, _)| *task_index);
    let done = done.filter(|(task, _)| !rerun_tasks.contains(task));
    let Some(new) = new else {
        return drop_invalidated(old, done.collect());
    };
    let done: BTreeSet<ItemPosition> = done.collect();
    let kept = origins(old, new).into_iter();
    let kept = kept.filter(|(_, from)| done.contains(from));
    drop_invalidated(new, kept.map(|(to, _)| to).collect())
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
fn rerun_tasks(plan: &Plan, rerun: Option<&(String, bool)>) -> BTreeSet<u32> {
    let mut rerun_tasks = BTreeSet::new();
    let Some((name, downstream)) = rerun else {
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

/// The old position of each item of the new plan that was there before.
fn origins(old: &Plan, new: &Plan) -> BTreeMap<ItemPosition, ItemPosition> {
    let mut origins = BTreeMap::new();
    let mut untouched = Vec::new();
    for (task, at) in new.tasks.iter().zip(0_u32..) {
        let before = task_index(old, &task.name).map(|was| (was, &old.tasks[was as usize]));
        let mut whole = task.after.iter().filter(|it| it.edges == Edges::All);
        let settled = whole.all(|it| untouched[it.task as usize]);
        let same = before.filter(|(_, it)| settled && is_same_work(old, it, new, task));
        let Some((was, before)) = same else {
            untouched.push(false);
            continue;
        };
        let mut left: Vec<u32> = (0..count(before)).collect();
        for item in 0..count(task) {
            let is_same = |from: &u32| {
                value(before, *from) == value(task, item)
                    && has_same_upstream((before, *from), (task, item), &origins)
            };
            if let Some(place) = left.iter().position(is_same) {
                origins.insert((at, item), (was, left.remove(place)));
            }
        }
        let stays = |item: u32| origins.get(&(at, item)) == Some(&(was, item));
        untouched.push(count(before) == count(task) && (0..count(task)).all(stays));
    }
    origins
}

/// Whether two items of one task come after the same items, edge by edge.
fn has_same_upstream(
    (before, from): (&PlanTask, u32),
    (task, item): (&PlanTask, u32),
    origins: &BTreeMap<ItemPosition, ItemPosition>,
) -> bool {
    let named = |after: &Upstream, item: u32| -> BTreeSet<ItemPosition> {
        match &after.edges {
            Edges::All => BTreeSet::new(),
            Edges::Same => BTreeSet::from([(after.task, item)]),
            Edges::Lists(lists) => lists.of(item).iter().map(|it| (after.task, *it)).collect(),
        }
    };
    let mut edges = before.after.iter().zip(&task.after);
    edges.all(|(old, new)| {
        let now = named(new, item);
        let then: Option<BTreeSet<_>> = now.iter().map(|it| origins.get(it).copied()).collect();
        then == Some(named(old, from))
    })
}

fn is_same_work(old: &Plan, before: &PlanTask, new: &Plan, task: &PlanTask) -> bool {
    let edges = |plan: &Plan, task: &PlanTask| -> Vec<(String, _, bool)> {
        let after = task.after.iter();
        let named = |at: u32| plan.tasks[at as usize].name.clone();
        after
            .map(|it| (named(it.task), it.condition, it.edges == Edges::All))
            .collect()
    };
    before.spec.work == task.spec.work
        && before.when == task.when
        && edges(old, before) == edges(new, task)
}
