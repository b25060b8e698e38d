//! Whether a plan is one. Whoever reads files says more, with places; this is what a leader
//! holds every plan to before it becomes a fact.

use std::collections::BTreeMap;

use baton_model::limits::{PLAN_EDGES_MAX, PLAN_TASKS_MAX, RUN_ITEMS_MAX};
use baton_model::workflow::{Edges, Items, Plan, PlanTask};

use super::graph::output;
use super::template::Reference;
use super::when::When;
use super::{bind, items};

/// Looks for what is wrong with a plan.
///
/// # Errors
/// The first thing found, in words.
pub fn check(plan: &Plan) -> Result<(), String> {
    if plan.tasks.len() > PLAN_TASKS_MAX {
        return Err(format!(
            "the workflow has more than {PLAN_TASKS_MAX} tasks; make items of those that are alike, with for_each"
        ));
    }
    let mut names = BTreeMap::new();
    let (mut all, mut edges) = (0_u64, 0_usize);
    for (task, at) in plan.tasks.iter().zip(0_u32..) {
        if names.insert(task.name.clone(), at).is_some() {
            return Err(format!("two tasks are called `{}`", task.name));
        }
        all = all.saturating_add(items::count(&task.items).unwrap_or(1));
        if all > RUN_ITEMS_MAX {
            return Err(format!("the workflow has more than {RUN_ITEMS_MAX} items"));
        }
        edges = edges.saturating_add(one(plan, task, at)?);
        outputs(plan, task, &names)?;
    }
    if edges > PLAN_EDGES_MAX {
        return Err(format!("the workflow has more than {PLAN_EDGES_MAX} edges"));
    }
    if plan.max_concurrent == Some(0) || plan.pools.iter().any(|pool| pool.max_concurrent == 0) {
        return Err("max_concurrent is at least 1".to_owned());
    }
    Ok(())
}

/// Looks at one task; says how many edges item by item it has.
fn one(plan: &Plan, task: &PlanTask, at: u32) -> Result<usize, String> {
    let wrong = |what: &str| Err(format!("the task `{}` {what}", task.name));
    if task.max_concurrent == Some(0) {
        return wrong("has a max_concurrent of 0; it is at least 1");
    }
    let pools = plan.pools.len();
    if task.pool.is_some_and(|pool| pool as usize >= pools) {
        return wrong("has a limit that does not exist");
    }
    if let Some(text) = &task.when
        && let Err(error) = When::parse(text)
    {
        return wrong(&format!("has a `when` that cannot be read: {error}"));
    }
    if let Items::Output { task: from, .. } = &task.items
        && !task
            .after
            .iter()
            .any(|it| it.task == *from && matches!(it.edges, Edges::All))
    {
        return wrong("has items that a task puts out which it does not come after");
    }
    let own = items::count(&task.items);
    let mut edges = 0;
    for after in &task.after {
        let Some(other) = plan
            .tasks
            .get(after.task as usize)
            .filter(|_| after.task < at)
        else {
            return wrong("comes after a task that does not stand before it");
        };
        let theirs = items::count(&other.items);
        match &after.edges {
            Edges::All => {}
            Edges::Same if own.is_some() && own == theirs => {}
            Edges::Same => return wrong(&format!("has not as many items as `{}`", other.name)),
            Edges::Lists(lists) => {
                let (Some(own), Some(theirs)) = (own, theirs) else {
                    return wrong("has edges between items that are not known yet");
                };
                if lists.len() as u64 != own {
                    return wrong("has not one list of edges for each item");
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

/// Looks at whose outputs a task refers to. It must come after those themselves: something in
/// between may be DONE since before they are done again.
fn outputs(plan: &Plan, task: &PlanTask, names: &BTreeMap<String, u32>) -> Result<(), String> {
    let mut referred = Vec::new();
    bind::references(&task.spec, &mut |reference| referred.push(reference));
    let when = task.when.as_deref().and_then(|text| When::parse(text).ok());
    let asked = when.iter().flat_map(When::references).cloned();
    referred.extend(asked);
    for reference in &referred {
        let Reference::Output { task: name, .. } = reference else {
            continue;
        };
        let from = output(reference, names).map(|(from, _)| from);
        let edge = task.after.iter().find(|it| Some(it.task) == from);
        let one = |at: u32| plan.tasks[at as usize].items == Items::One;
        let known = edge.is_some_and(|it| !matches!(it.edges, Edges::Lists(_)) || one(it.task));
        if !known {
            return Err(format!(
                "the task `{}` refers to `{reference}`, and does not come after all of `{name}`",
                task.name
            ));
        }
    }
    Ok(())
}
