//! The order of a task's processes: every name known and unique, no cycle, and
//! nothing that could never start.
//!
//! These are the invariants that `baton_model::task` promises to the plan. Loops
//! here are over explicit lists, never recursion: a chain may be as long as a file
//! allows.

use std::collections::BTreeMap;

use baton_model::task::Condition;

use crate::error::{Kind, Location, Problem, quote};
use crate::file::{UnboundDependency, UnboundProcess};
use crate::limits::PROBLEMS_MAX;
use crate::suggest;

/// Names in a row, each with its place.
pub(crate) type Chain = Vec<(String, Location)>;

/// Adds the arrows of `order`: each name waits for the success of the one before.
pub(crate) fn order(
    chains: &[Chain],
    processes: &mut [UnboundProcess],
    problems: &mut Vec<Problem>,
) {
    let known = names(processes);
    let mut arrows = Vec::new();
    for chain in chains {
        for (name, location) in chain
            .iter()
            .filter(|(name, _)| !known.contains_key(&**name))
        {
            problems.push(unknown_process(problems.len(), name, location, &known));
        }
        for ((before, _), (name, location)) in chain.iter().zip(chain.iter().skip(1)) {
            if let Some(&at) = known.get(&**name)
                && known.contains_key(&**before)
            {
                arrows.push((at, before, location));
            }
        }
    }
    for (at, before, location) in arrows {
        let after = &mut processes[at].after;
        // Said in `after` too, or in two chains: it means the same.
        let again = |known: &UnboundDependency| {
            known.process == *before && known.condition == Condition::Success
        };
        if !after.iter().any(again) {
            after.push(UnboundDependency {
                process: before.clone(),
                condition: Condition::Success,
                location: location.clone(),
            });
        }
    }
}

/// Checks names and arrows.
pub(crate) fn check(processes: &[UnboundProcess], problems: &mut Vec<Problem>) {
    report_duplicates(processes, problems);
    let known = names(processes);
    for process in processes {
        for dependency in &process.after {
            match known.get(dependency.process.as_str()) {
                Some(&at) => {
                    problems.extend(forbidden_dependency(process, dependency, &processes[at]))
                }
                None => problems.push(unknown_process(
                    problems.len(),
                    &dependency.process,
                    &dependency.location,
                    &known,
                )),
            }
        }
    }
    cycles(processes, &known, problems);
}

/// Where each name stands; the first one, if it is taken twice.
fn names(processes: &[UnboundProcess]) -> BTreeMap<&str, usize> {
    let mut names = BTreeMap::new();
    for (index, process) in processes.iter().enumerate() {
        names.entry(process.spec.name.0.as_str()).or_insert(index);
    }
    // Without a name; reported already.
    names.remove("");
    names
}

fn report_duplicates(processes: &[UnboundProcess], problems: &mut Vec<Problem>) {
    let known = names(processes);
    for (index, process) in processes.iter().enumerate() {
        let name = &process.spec.name.0;
        if let Some(&first) = known.get(name.as_str())
            && first != index
        {
            problems.push(process.name_location.problem(
                Kind::DuplicateName,
                format!(
                    "the name {} is taken by processes[{first}] already",
                    quote(name)
                ),
                "give one of the two another name",
            ));
        }
    }
}

fn unknown_process(
    found: usize,
    name: &str,
    location: &Location,
    known: &BTreeMap<&str, usize>,
) -> Problem {
    let names = known.keys().copied();
    location.problem(
        Kind::UnknownProcess,
        format!("there is no process {}", quote(name)),
        suggest::hint(found, name, names, "the processes are:"),
    )
}

/// Why `from` may not wait for `to` in this way, if it may not.
fn forbidden_dependency(
    from: &UnboundProcess,
    dependency: &UnboundDependency,
    to: &UnboundProcess,
) -> Vec<Problem> {
    let (waiter, waited) = (quote(&from.spec.name.0), quote(&to.spec.name.0));
    let mut problems = Vec::new();
    let ends = matches!(dependency.condition, Condition::Success | Condition::Exit);
    if to.spec.daemon && ends {
        problems.push(dependency.location.problem(
            Kind::DaemonDependency,
            format!("{waiter} waits for the end of {waited}, a daemon, which never ends"),
            format!(
                "wait for its start with {{ process: {}, condition: started }} or healthy, or remove \
                 `daemon`",
                to.spec.name
            ),
        ));
    }
    if from.spec.is_final != to.spec.is_final {
        let hint = if from.spec.is_final {
            "remove it: a final process starts when all regular ones are over anyway"
        } else {
            "remove it, or `final`: a final process starts when all regular ones are over"
        };
        let (first, second) = if from.spec.is_final {
            ("final", "regular")
        } else {
            ("regular", "final")
        };
        problems.push(dependency.location.problem(
            Kind::FinalDependency,
            format!("{waiter} is {first} and waits for {waited}, which is {second}"),
            hint,
        ));
    }
    if to.spec.ephemeral && !from.spec.ephemeral {
        problems.push(dependency.location.problem(
            Kind::EphemeralDependency,
            format!("{waiter} waits for {waited}, which is ephemeral and may never be waited for"),
            "make both ephemeral, or neither",
        ));
    }
    problems
}

fn cycles(
    processes: &[UnboundProcess],
    known: &BTreeMap<&str, usize>,
    problems: &mut Vec<Problem>,
) {
    let arrows: Vec<Vec<(usize, &Location)>> = processes
        .iter()
        .map(|process| {
            process
                .after
                .iter()
                .filter_map(|d| Some((*known.get(d.process.as_str())?, &d.location)))
                .collect()
        })
        .collect();
    let name = |at: usize| processes[at].spec.name.0.as_str();
    report_cycles("processes", &arrows, name, problems);
}

/// Reports circles that have nothing in common, each with its path. `arrows` go from each to
/// those that it waits for; `what` are they.
pub(crate) fn report_cycles<'a>(
    what: &str,
    arrows: &[Vec<(usize, &Location)>],
    name: impl Fn(usize) -> &'a str,
    problems: &mut Vec<Problem>,
) {
    let mut left: Vec<bool> = vec![true; arrows.len()];
    // Beyond what is shown, looking for more is lost time.
    for _ in 0..PROBLEMS_MAX {
        remove_acyclic(arrows, &mut left);
        let Some(start) = left.iter().position(|left| *left) else {
            return;
        };
        // Whatever is left waits for something that is left: walking on must
        // come back.
        let mut path: Vec<(usize, &Location)> = Vec::new();
        let mut seen: Vec<Option<usize>> = vec![None; arrows.len()];
        let mut at = start;
        while seen[at].is_none() {
            let Some(&(next, location)) = arrows[at].iter().find(|(next, _)| left[*next]) else {
                return;
            };
            seen[at] = Some(path.len());
            path.push((at, location));
            at = next;
        }
        let cycle = &path[seen[at].unwrap_or(0)..];
        problems.push(explain(what, &name, cycle));
        for (index, _) in cycle {
            left[*index] = false;
        }
    }
}

/// Takes away everything that could start once the rest has.
fn remove_acyclic(arrows: &[Vec<(usize, &Location)>], left: &mut [bool]) {
    let mut waits: Vec<usize> = vec![0; arrows.len()];
    let mut waiters: Vec<Vec<usize>> = vec![Vec::new(); arrows.len()];
    for (from, targets) in arrows.iter().enumerate().filter(|(from, _)| left[*from]) {
        for (to, _) in targets.iter().filter(|(to, _)| left[*to]) {
            waits[from] += 1;
            waiters[*to].push(from);
        }
    }
    let mut free: Vec<usize> = (0..arrows.len())
        .filter(|index| left[*index] && waits[*index] == 0)
        .collect();
    while let Some(index) = free.pop() {
        left[index] = false;
        for &waiter in &waiters[index] {
            waits[waiter] -= 1;
            if waits[waiter] == 0 {
                free.push(waiter);
            }
        }
    }
}

fn explain<'a>(
    what: &str,
    name: impl Fn(usize) -> &'a str,
    cycle: &[(usize, &Location)],
) -> Problem {
    const SHOWN_MAX: usize = 12;
    // Told from the first of them in the file, whichever was met first.
    let lead = (0..cycle.len())
        .min_by_key(|at| cycle[*at].0)
        .unwrap_or_default();
    let mut names: Vec<String> = cycle[lead..]
        .iter()
        .chain(&cycle[..lead])
        .map(|(index, _)| crate::error::clean(name(*index)))
        .collect();
    if names.len() > SHOWN_MAX {
        let more = names.len() - SHOWN_MAX;
        names.truncate(SHOWN_MAX);
        names.push(format!("… {more} more"));
    }
    let first = names[0].clone();
    let path = format!("{} -> {first}", names.join(" -> "));
    let message = if cycle.len() == 1 {
        format!("{} waits for itself", quote(&first))
    } else {
        format!("these {what} wait for each other: {path}")
    };
    let hint = if cycle.len() == 1 {
        "remove this dependency"
    } else {
        "remove one of these dependencies"
    };
    cycle[lead].1.problem(Kind::Cycle, message, hint)
}
