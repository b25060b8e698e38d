//! What stays DONE when a run goes on, said from the meaning of a resume, apart from
//! `baton_core::workflow::compare`.
//!
//! What is DONE stays it, except: a task that is asked for again, with all that comes after it
//! if that is asked for too; under another plan, a task that does something else, or comes
//! after other things, or after a task that has changed; and an item that is no more.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::workflow::{Edges, ItemEnd, Plan, PlanTask};

use super::Place;
use crate::plans::count;

/// How far a task of the new plan is the one that it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Same,
    /// It does what it did, but to other items.
    Recounted,
    Other,
}

/// The places, under the plan in force afterwards, that stay DONE.
pub(super) fn done(
    old: &Plan,
    ends: &BTreeMap<Place, ItemEnd>,
    new: Option<&Plan>,
    again: Option<&(String, bool)>,
) -> BTreeSet<Place> {
    let redone = redone(old, again);
    let done = ends.iter().filter(|(_, end)| **end == ItemEnd::Done);
    let done = done.map(|(place, _)| *place);
    let done = done.filter(|(task, _)| !redone.contains(task));
    let Some(new) = new else {
        return done.collect();
    };
    let standings = standings(old, new);
    let moved = done.filter_map(|(task, item)| {
        let name = &old.tasks[task as usize].name;
        let at = place(new, name)?;
        let there = item < count(&new.tasks[at as usize]);
        let stays = standings[at as usize] != Standing::Other;
        (there && stays).then_some((at, item))
    });
    moved.collect()
}

fn place(plan: &Plan, name: &str) -> Option<u32> {
    let mut tasks = plan.tasks.iter().zip(0_u32..);
    tasks.find(|(task, _)| task.name == name).map(|(_, at)| at)
}

/// The tasks that are asked for again.
fn redone(plan: &Plan, again: Option<&(String, bool)>) -> BTreeSet<u32> {
    let mut redone = BTreeSet::new();
    let Some((name, downstream)) = again else {
        return redone;
    };
    redone.extend(place(plan, name));
    if *downstream {
        for (task, at) in plan.tasks.iter().zip(0_u32..) {
            if task.after.iter().any(|it| redone.contains(&it.task)) {
                redone.insert(at);
            }
        }
    }
    redone
}

fn standings(old: &Plan, new: &Plan) -> Vec<Standing> {
    let mut standings = Vec::new();
    for task in &new.tasks {
        let before = place(old, &task.name).map(|at| &old.tasks[at as usize]);
        let mut upstream = task.after.iter();
        let settled = upstream.all(|it| standings[it.task as usize] == Standing::Same);
        let standing = match before {
            Some(before) if settled && does_the_same(old, before, new, task) => {
                match before.items == task.items {
                    true => Standing::Same,
                    false => Standing::Recounted,
                }
            }
            _ => Standing::Other,
        };
        standings.push(standing);
    }
    standings
}

fn does_the_same(old: &Plan, before: &PlanTask, new: &Plan, task: &PlanTask) -> bool {
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
