//! Validation of a plan. The leader validates every plan before it becomes a fact. The reader of
//! workflow files reports the same errors and more, with their locations.

use std::collections::BTreeMap;

use baton_model::limits::{PLAN_EDGES_MAX, PLAN_TASKS_MAX, RUN_ITEMS_MAX};
use baton_model::workflow::{Edges, Items, Plan, PlanTask};

use super::graph::output_reference;
use super::template::Reference;
use super::when::WhenExpr;
use super::{items, texts};

/// Validates a plan.
///
/// # Errors
/// The first error found.
pub fn check(plan: &Plan) -> Result<(), String> {
    if plan.tasks.len() > PLAN_TASKS_MAX {
        return Err(format!(
            "the workflow has more than {PLAN_TASKS_MAX} tasks; turn similar tasks into items of one, with for_each"
        ));
    }
    let mut names = BTreeMap::new();
    let (mut all, mut edges) = (0_u64, 0_usize);
    for (task, at) in plan.tasks.iter().zip(0_u32..) {
        if names.insert(task.name.clone(), at).is_some() {
            return Err(format!("two tasks have the name `{}`", task.name));
        }
        all = all.saturating_add(items::count(&task.items).unwrap_or(1));
        if all > RUN_ITEMS_MAX {
            return Err(format!("the workflow has more than {RUN_ITEMS_MAX} items"));
        }
        edges = edges.saturating_add(check_task(plan, task, at)?);
        check_references(plan, task, &names)?;
    }
    if edges > PLAN_EDGES_MAX {
        return Err(format!("the workflow has more than {PLAN_EDGES_MAX} edges"));
    }
    if plan.max_concurrent == Some(0) || plan.pools.iter().any(|pool| pool.max_concurrent == 0) {
        return Err("max_concurrent must be at least 1".to_owned());
    }
    Ok(())
}

/// Validates one task; returns the number of its item-level edges.
fn check_task(plan: &Plan, task: &PlanTask, at: u32) -> Result<usize, String> {
    let wrong = |what: &str| Err(format!("the task `{}` {what}", task.name));
    if task.max_concurrent == Some(0) {
        return wrong("has a max_concurrent of 0; it must be at least 1");
    }
    let pools = plan.pools.len();
    if task.pool.is_some_and(|pool| pool as usize >= pools) {
        return wrong("refers to a shared limit that does not exist");
    }
    if let Some(text) = &task.when
        && let Err(error) = WhenExpr::parse(text)
    {
        return wrong(&format!("has an invalid `when`: {error}"));
    }
    if let Items::Output { task: from, .. } = &task.items
        && !task
            .after
            .iter()
            .any(|it| it.task == *from && matches!(it.edges, Edges::All))
    {
        return wrong("takes its items from the output of a task that it does not come after");
    }
    let own = items::count(&task.items);
    let mut edges = 0;
    for after in &task.after {
        let Some(other) = plan
            .tasks
            .get(after.task as usize)
            .filter(|_| after.task < at)
        else {
            return wrong("comes after a task that is not listed before it");
        };
        let theirs = items::count(&other.items);
        match &after.edges {
            Edges::All => {}
            Edges::Same if own.is_some() && own == theirs => {}
            // The values of the same output: equally many, in the same order.
            Edges::Same if own.is_none() && task.items == other.items => {}
            Edges::Same => {
                return wrong(&format!(
                    "has another number of items than `{}`",
                    other.name
                ));
            }
            Edges::Lists(lists) => {
                let (Some(own), Some(theirs)) = (own, theirs) else {
                    return wrong(
                        "has item-level edges although the number of items is not known yet",
                    );
                };
                if lists.len() as u64 != own {
                    return wrong("does not have one list of edges for each item");
                }
                if lists.all().iter().any(|it| u64::from(*it) >= theirs) {
                    return wrong(&format!(
                        "waits for an item that `{}` does not have",
                        other.name
                    ));
                }
                edges += lists.all().len();
            }
        }
    }
    Ok(edges)
}

/// Validates references to outputs. A task must come directly after each task whose outputs it
/// refers to: a task in between may stay DONE when they run again.
fn check_references(
    plan: &Plan,
    task: &PlanTask,
    names: &BTreeMap<String, u32>,
) -> Result<(), String> {
    let mut referred = Vec::new();
    texts::references(&task.spec, &mut |reference| referred.push(reference));
    let when = task
        .when
        .as_deref()
        .and_then(|text| WhenExpr::parse(text).ok());
    let in_condition = when.iter().flat_map(WhenExpr::references).cloned();
    referred.extend(in_condition);
    for reference in &referred {
        let Reference::Output { task: name, .. } = reference else {
            continue;
        };
        let from = output_reference(reference, names).map(|(from, _)| from);
        let edge = task.after.iter().find(|it| Some(it.task) == from);
        let one = |at: u32| plan.tasks[at as usize].items == Items::One;
        let known = edge.is_some_and(|it| !matches!(it.edges, Edges::Lists(_)) || one(it.task));
        if !known {
            return Err(format!(
                "the task `{}` refers to `{reference}`, but does not come after all of `{name}`",
                task.name
            ));
        }
    }
    Ok(())
}
