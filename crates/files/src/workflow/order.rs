//! Dependency order of workflow tasks: every name is known and unique, there is no cycle, edges
//! connect existing items, and each task is sorted after its upstream tasks.
//!
//! The code iterates over explicit lists and never recurses: a chain may be as long as a file
//! allows.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use baton_core::workflow::items;
use baton_model::limits::PLAN_EDGES_MAX;
use baton_model::workflow::{Edges, Items};

use super::references::{self, References};
use super::{Context, UnresolvedAfter, UnresolvedItems, WorkflowTask};
use crate::error::{Kind, Location, Problem, quote};
use crate::graph;
use crate::limits::SUGGESTED_TASKS_MAX;
use crate::suggest;

/// Indexes of tasks by name; those of `before` come first.
pub(super) type Names = BTreeMap<String, u32>;

/// Checks tasks in file order and sorts them into dependency order. The result is valid only if
/// no problem is reported.
pub(crate) fn resolve(
    mut tasks: Vec<WorkflowTask>,
    context: &Context<'_>,
    problems: &mut Vec<Problem>,
) -> Vec<WorkflowTask> {
    let names = names(&tasks, context, problems);
    let first = u32::try_from(context.before.tasks.len()).unwrap_or(u32::MAX);
    for task in &mut tasks {
        add_implied_dependency(task, problems);
        task.after.retain_mut(|after| match names.get(&after.task) {
            Some(at) => {
                after.at = *at;
                true
            }
            None => {
                problems.push(unknown_task(
                    problems.len(),
                    &after.task,
                    &after.location,
                    &names,
                ));
                false
            }
        });
    }
    check_edges(&tasks, context, problems);
    let found = problems.len();
    report_cycles(&tasks, first, problems);
    if problems.len() > found {
        references::check_own(&tasks, context, &names, problems);
        return tasks;
    }
    sort(&mut tasks, first);
    let names = tasks.iter().zip(first..);
    let mut names: Names = names
        .map(|(task, at)| (task.name().to_owned(), at))
        .collect();
    for (task, at) in context.before.tasks.iter().zip(0..) {
        names.insert(task.name.clone(), at);
    }
    references::check_own(&tasks, context, &names, problems);
    let implied = References::new(&tasks, context).check_upstream(&names, problems);
    for (at, after) in implied {
        tasks[at].after.push(after);
    }
    tasks
}

fn names(tasks: &[WorkflowTask], context: &Context<'_>, problems: &mut Vec<Problem>) -> Names {
    let before = context.before.tasks.iter().map(|task| &task.name);
    let mut names: Names = before.cloned().zip(0..).collect();
    let first = u32::try_from(names.len()).unwrap_or(u32::MAX);
    for (task, at) in tasks.iter().zip(first..) {
        let other = names.entry(task.name().to_owned()).or_insert(at);
        if *other != at {
            problems.push(task.location.problem(
                Kind::DuplicateName,
                format!("the workflow already has a task {}", quote(task.name())),
                "rename one of the two",
            ));
        }
    }
    names
}

pub(super) fn unknown_task(
    found: usize,
    name: &str,
    location: &Location,
    names: &Names,
) -> Problem {
    let hint = if names.len() <= SUGGESTED_TASKS_MAX {
        suggest::hint(
            found,
            name,
            names.keys().map(String::as_str),
            "the tasks are:",
        )
    } else {
        "use the name of a task of this workflow".to_owned()
    };
    let message = format!("unknown task {}", quote(name));
    location.problem(Kind::UnknownTask, message, hint)
}

/// A task whose items are an output of another depends on all of that task.
fn add_implied_dependency(task: &mut WorkflowTask, problems: &mut Vec<Problem>) {
    let Some(from) = &task.items.from else {
        return;
    };
    match task.after.iter().find(|after| after.task == *from) {
        None => task
            .after
            .push(UnresolvedAfter::new(from, task.items.location.clone())),
        Some(after) if after.edges == Edges::All => {}
        Some(after) => problems.push(after.edges_location.problem(
            Kind::BadEdges,
            format!(
                "the items are an output of {}, so the whole task must end first",
                quote(from)
            ),
            "remove `each` and `items`",
        )),
    }
}

fn check_edges(tasks: &[WorkflowTask], context: &Context<'_>, problems: &mut Vec<Problem>) {
    let before = &context.before.tasks;
    let other = |at: u32| {
        (at as usize)
            .checked_sub(before.len())
            .map(|at| &tasks[at].items)
    };
    let count = |at: u32| match other(at) {
        Some(task) => items::count(&task.items),
        None => items::count(&before[at as usize].items),
    };
    let is_wrong = |at: u32| other(at).is_some_and(UnresolvedItems::is_wrong);
    // Both have the values of the same output, so equally many and in the same order.
    let same_source = |task: &WorkflowTask, at: u32| {
        let key = |items: &Items| match items {
            Items::Output { key, .. } => Some(key.clone()),
            _ => None,
        };
        let (from, theirs) = match other(at) {
            Some(items) => (items.from.clone(), key(&items.items)),
            None => match &before[at as usize].items {
                Items::Output { task, key } => {
                    let name = before[*task as usize].name.clone();
                    (Some(name), Some(key.clone()))
                }
                _ => (None, None),
            },
        };
        from.is_some() && from == task.items.from && theirs == key(&task.items.items)
    };
    let mut edges = before
        .iter()
        .flat_map(|task| &task.after)
        .map(|after| match &after.edges {
            Edges::Lists(lists) => lists.all().len(),
            Edges::All | Edges::Same => 0,
        })
        .sum::<usize>();
    for task in tasks {
        let own = items::count(&task.items.items);
        for after in &task.after {
            let is_source = task.items.from.as_ref() == Some(&after.task);
            // Their number is known when the parameter is: see `bound_edge_problems`.
            let is_open =
                is_bound_later(task) || other(after.at).is_some_and(|it| it.param.is_some());
            let same = after.edges == Edges::Same && same_source(task, after.at);
            if !is_source && !is_open && !same && !task.items.is_wrong() && !is_wrong(after.at) {
                problems.extend(edge_mismatch(task, after, own, count(after.at)));
            }
            let Edges::Lists(lists) = &after.edges else {
                continue;
            };
            let before = edges;
            edges = edges.saturating_add(lists.all().len());
            if before <= PLAN_EDGES_MAX && edges > PLAN_EDGES_MAX {
                problems.push(after.edges_location.problem(
                    Kind::TooLarge,
                    format!("with these edges, the workflow has more than {PLAN_EDGES_MAX} edges"),
                    "wait for whole tasks where possible, or for the item with the same index with `each`",
                ));
            }
        }
    }
}

/// Whether its items are a parameter.
const fn is_bound_later(task: &WorkflowTask) -> bool {
    task.items.param.is_some()
}

/// Checks the edges of tasks whose items, or whose upstream items, are a parameter. `count` is the
/// number of items of each task of the plan.
pub(crate) fn bound_edge_problems(
    tasks: &[WorkflowTask],
    count: impl Fn(u32) -> Option<u64>,
) -> Vec<Problem> {
    let bound: BTreeSet<u32> = tasks
        .iter()
        .filter(|task| is_bound_later(task))
        .map(|task| task.at)
        .collect();
    let mut problems = Vec::new();
    for task in tasks {
        let affected =
            |after: &&UnresolvedAfter| bound.contains(&task.at) || bound.contains(&after.at);
        for after in task.after.iter().filter(affected) {
            problems.extend(edge_mismatch(task, after, count(task.at), count(after.at)));
        }
    }
    problems
}

/// Returns why edges do not match the items of both tasks.
fn edge_mismatch(
    task: &WorkflowTask,
    after: &UnresolvedAfter,
    own: Option<u64>,
    theirs: Option<u64>,
) -> Option<Problem> {
    let other = quote(&after.task);
    let problem = |message: String, hint: &str| {
        Some(after.edges_location.problem(Kind::BadEdges, message, hint))
    };
    if after.edges == Edges::All {
        return None;
    }
    let (Some(own), Some(theirs)) = (own, theirs) else {
        let unknown = match own {
            None => quote(task.name()),
            Some(_) => other,
        };
        return problem(
            format!("the number of items of {unknown} is known only at run time"),
            "wait for the whole task: remove `each` and `items`; `each` works if both tasks have \
             the same output in `for_each`",
        );
    };
    match &after.edges {
        Edges::All => None,
        Edges::Same if own == theirs => None,
        Edges::Same => problem(
            format!(
                "{} has {own} items, but {other} has {theirs}",
                quote(task.name())
            ),
            "give both tasks the same number of items, list the edges with `items`, or remove `each`",
        ),
        Edges::Lists(lists) if lists.len() as u64 != own => problem(
            format!("{} lists of edges for {own} items", lists.len()),
            "write one list for each item, separated by `;`: \"0,1;1,2;2\"",
        ),
        Edges::Lists(lists) => {
            let wrong = lists
                .all()
                .iter()
                .find(|item| u64::from(**item) >= theirs)?;
            problem(
                format!("unknown item {wrong}: {other} has {theirs} items, numbered from 0"),
                "use indexes of existing items",
            )
        }
    }
}

fn report_cycles(tasks: &[WorkflowTask], first: u32, problems: &mut Vec<Problem>) {
    let arrows: Vec<Vec<(usize, &Location)>> = tasks
        .iter()
        .map(|task| {
            let own = task.after.iter().filter(|after| after.at >= first);
            own.map(|after| ((after.at - first) as usize, &after.location))
                .collect()
        })
        .collect();
    graph::report_cycles("tasks", &arrows, |at| tasks[at].name(), problems);
}

/// Sorts tasks topologically, otherwise in file order. There is no cycle.
fn sort(tasks: &mut [WorkflowTask], first: u32) {
    let own = |after: &UnresolvedAfter| Some(after.at.checked_sub(first)? as usize);
    let mut waits = vec![0_usize; tasks.len()];
    let mut waiters: Vec<Vec<usize>> = vec![Vec::new(); tasks.len()];
    for (at, task) in tasks.iter().enumerate() {
        for upstream in task.after.iter().filter_map(own) {
            waits[at] += 1;
            waiters[upstream].push(at);
        }
    }
    let ready = (0..tasks.len()).filter(|at| waits[*at] == 0);
    let mut ready: BinaryHeap<Reverse<usize>> = ready.map(Reverse).collect();
    let mut next = first;
    while let Some(Reverse(at)) = ready.pop() {
        tasks[at].at = next;
        next += 1;
        for waiter in &waiters[at] {
            waits[*waiter] -= 1;
            if waits[*waiter] == 0 {
                ready.push(Reverse(*waiter));
            }
        }
    }
    let indexes: Vec<u32> = tasks.iter().map(|task| task.at).collect();
    tasks.sort_by_cached_key(|task| task.at);
    for task in tasks {
        for after in &mut task.after {
            if let Some(at) = own(after) {
                after.at = indexes[at];
            }
        }
        if let Items::Output { task: source, .. } = &mut task.items.items {
            let from = task.items.from.as_ref();
            let after = task.after.iter().find(|after| Some(&after.task) == from);
            *source = after.map_or(0, |after| after.at);
        }
    }
}
