//! Who comes after whom: every name known and unique, no circle, edges between items that
//! exist, and an order in which each task stands behind those that it comes after.
//!
//! Loops are over explicit lists, never recursion: a chain may be as long as a file allows.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use baton_core::workflow::items;
use baton_model::limits::PLAN_EDGES_MAX;
use baton_model::workflow::{Edges, Items};

use super::references::{self, References};
use super::{DraftAfter, DraftItems, DraftTask, Surroundings};
use crate::error::{Kind, Place, Problem, quote};
use crate::graph;
use crate::limits::SUGGESTED_TASKS_MAX;
use crate::suggest;

/// The places of tasks by their names; those of `before` come first.
pub(super) type Names = BTreeMap<String, u32>;

/// Checks tasks as they stand in a file, and puts them into the order of a plan. What comes
/// out is of use only if no problem was noted.
pub(crate) fn resolve(
    mut drafts: Vec<DraftTask>,
    around: &Surroundings<'_>,
    problems: &mut Vec<Problem>,
) -> Vec<DraftTask> {
    let names = names(&drafts, around, problems);
    let first = u32::try_from(around.before.tasks.len()).unwrap_or(u32::MAX);
    for draft in &mut drafts {
        imply(draft, problems);
        draft
            .after
            .retain_mut(|after| match names.get(&after.task) {
                Some(at) => {
                    after.at = *at;
                    true
                }
                None => {
                    problems.push(unknown(problems.len(), &after.task, &after.place, &names));
                    false
                }
            });
    }
    check_edges(&drafts, around, problems);
    let found = problems.len();
    circles(&drafts, first, problems);
    if problems.len() > found {
        references::check_own(&drafts, around, &names, problems);
        return drafts;
    }
    sort(&mut drafts, first);
    let names = drafts.iter().zip(first..);
    let mut names: Names = names
        .map(|(draft, at)| (draft.name().to_owned(), at))
        .collect();
    for (task, at) in around.before.tasks.iter().zip(0..) {
        names.insert(task.name.clone(), at);
    }
    references::check_own(&drafts, around, &names, problems);
    let implied = References::new(&drafts, around).check_upstream(&names, problems);
    for (at, after) in implied {
        drafts[at].after.push(after);
    }
    drafts
}

fn names(drafts: &[DraftTask], around: &Surroundings<'_>, problems: &mut Vec<Problem>) -> Names {
    let before = around.before.tasks.iter().map(|task| &task.name);
    let mut names: Names = before.cloned().zip(0..).collect();
    let first = u32::try_from(names.len()).unwrap_or(u32::MAX);
    for (draft, at) in drafts.iter().zip(first..) {
        let other = names.entry(draft.name().to_owned()).or_insert(at);
        if *other != at {
            problems.push(draft.place.problem(
                Kind::DuplicateName,
                format!("the workflow has a task {} already", quote(draft.name())),
                "give one of the two another name",
            ));
        }
    }
    names
}

pub(super) fn unknown(found: usize, name: &str, place: &Place, names: &Names) -> Problem {
    let hint = match names.len() <= SUGGESTED_TASKS_MAX {
        true => suggest::hint(
            found,
            name,
            names.keys().map(String::as_str),
            "the tasks are:",
        ),
        false => "name a task of this workflow".to_owned(),
    };
    let message = format!("there is no task {}", quote(name));
    place.problem(Kind::UnknownTask, message, hint)
}

/// A task whose items another puts out comes after all of it.
fn imply(draft: &mut DraftTask, problems: &mut Vec<Problem>) {
    let Some(from) = &draft.items.from else {
        return;
    };
    match draft.after.iter().find(|after| after.task == *from) {
        None => draft
            .after
            .push(DraftAfter::new(from, draft.items.place.clone())),
        Some(after) if after.edges == Edges::All => {}
        Some(after) => problems.push(after.edges_place.problem(
            Kind::BadEdges,
            format!(
                "the items come from {}, so all of it must be over before",
                quote(from)
            ),
            "remove `each` and `items`",
        )),
    }
}

fn check_edges(drafts: &[DraftTask], around: &Surroundings<'_>, problems: &mut Vec<Problem>) {
    let before = &around.before.tasks;
    let other = |at: u32| {
        (at as usize)
            .checked_sub(before.len())
            .map(|at| &drafts[at].items)
    };
    let count = |at: u32| match other(at) {
        Some(draft) => items::count(&draft.items),
        None => items::count(&before[at as usize].items),
    };
    let is_wrong = |at: u32| other(at).is_some_and(DraftItems::is_wrong);
    let mut edges = before
        .iter()
        .flat_map(|task| &task.after)
        .map(|after| match &after.edges {
            Edges::Lists(lists) => lists.all().len(),
            Edges::All | Edges::Same => 0,
        })
        .sum::<usize>();
    for draft in drafts {
        let own = items::count(&draft.items.items);
        for after in &draft.after {
            let is_source = draft.items.from.as_ref() == Some(&after.task);
            if !is_source && !draft.items.is_wrong() && !is_wrong(after.at) {
                problems.extend(misfit(draft, after, own, count(after.at)));
            }
            let Edges::Lists(lists) = &after.edges else {
                continue;
            };
            let before = edges;
            edges = edges.saturating_add(lists.all().len());
            if before <= PLAN_EDGES_MAX && edges > PLAN_EDGES_MAX {
                problems.push(after.edges_place.problem(
                    Kind::TooLarge,
                    format!("with these the workflow has more than {PLAN_EDGES_MAX} edges"),
                    "wait for whole tasks where that will do, or for the item of the same place with `each`",
                ));
            }
        }
    }
}

/// Why edges do not fit the items on both sides, if they do not.
fn misfit(
    draft: &DraftTask,
    after: &DraftAfter,
    own: Option<u64>,
    theirs: Option<u64>,
) -> Option<Problem> {
    let other = quote(&after.task);
    let problem = |message: String, hint: &str| {
        Some(after.edges_place.problem(Kind::BadEdges, message, hint))
    };
    if after.edges == Edges::All {
        return None;
    }
    let (Some(own), Some(theirs)) = (own, theirs) else {
        let unknown = match own {
            None => quote(draft.name()),
            Some(_) => other,
        };
        return problem(
            format!("how many items {unknown} has is known only when it runs"),
            "wait for the whole task: remove `each` and `items`",
        );
    };
    match &after.edges {
        Edges::All => None,
        Edges::Same if own == theirs => None,
        Edges::Same => problem(
            format!(
                "{} has {own} items, and {other} has {theirs}",
                quote(draft.name())
            ),
            "give both as many, list the edges with `items`, or remove `each`",
        ),
        Edges::Lists(lists) if lists.len() as u64 != own => problem(
            format!("these are {} lists of edges, for {own} items", lists.len()),
            "write one list for each item, with `;` between them: \"0,1;1,2;2\"",
        ),
        Edges::Lists(lists) => {
            let wrong = lists
                .all()
                .iter()
                .find(|item| u64::from(**item) >= theirs)?;
            problem(
                format!("there is no item {wrong}: {other} has {theirs}, from 0"),
                "write numbers of items that exist",
            )
        }
    }
}

fn circles(drafts: &[DraftTask], first: u32, problems: &mut Vec<Problem>) {
    let arrows: Vec<Vec<(usize, &Place)>> = drafts
        .iter()
        .map(|draft| {
            let own = draft.after.iter().filter(|after| after.at >= first);
            own.map(|after| ((after.at - first) as usize, &after.place))
                .collect()
        })
        .collect();
    graph::circles("tasks", &arrows, |at| drafts[at].name(), problems);
}

/// Puts each task behind those that it comes after, and otherwise leaves them in the order of
/// the file. There is no circle.
fn sort(drafts: &mut [DraftTask], first: u32) {
    let own = |after: &DraftAfter| Some(after.at.checked_sub(first)? as usize);
    let mut waits = vec![0_usize; drafts.len()];
    let mut waiters: Vec<Vec<usize>> = vec![Vec::new(); drafts.len()];
    for (at, draft) in drafts.iter().enumerate() {
        for upstream in draft.after.iter().filter_map(own) {
            waits[at] += 1;
            waiters[upstream].push(at);
        }
    }
    let ready = (0..drafts.len()).filter(|at| waits[*at] == 0);
    let mut ready: BinaryHeap<Reverse<usize>> = ready.map(Reverse).collect();
    let mut next = first;
    while let Some(Reverse(at)) = ready.pop() {
        drafts[at].at = next;
        next += 1;
        for waiter in &waiters[at] {
            waits[*waiter] -= 1;
            if waits[*waiter] == 0 {
                ready.push(Reverse(*waiter));
            }
        }
    }
    let places: Vec<u32> = drafts.iter().map(|draft| draft.at).collect();
    drafts.sort_by_cached_key(|draft| draft.at);
    for draft in drafts {
        for after in &mut draft.after {
            if let Some(at) = own(after) {
                after.at = places[at];
            }
        }
        if let Items::Output { task, .. } = &mut draft.items.items {
            let from = draft.items.from.as_ref();
            let after = draft.after.iter().find(|after| Some(&after.task) == from);
            *task = after.map_or(0, |after| after.at);
        }
    }
}
