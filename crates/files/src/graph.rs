//! Dependencies of a task's processes: every name is known and unique, there is no cycle, and
//! every process can start.
//!
//! These are the invariants that `baton_model::task` promises to the plan. The code iterates
//! over explicit lists and never recurses: a chain may be as long as a file allows.

use std::collections::BTreeMap;

use baton_model::task::{Condition, Dependency, ProcessName, ProcessSpec};

use crate::error::{Kind, Location, Problem, quote};
use crate::limits::PROBLEMS_MAX;
use crate::suggest;

/// A process with the locations of its name and of its dependencies.
#[derive(Debug)]
pub(crate) struct LocatedProcess {
    pub(crate) spec: ProcessSpec,
    pub(crate) name_location: Location,
    /// One for each of `spec.after`.
    pub(crate) after_locations: Vec<Location>,
}

impl LocatedProcess {
    fn dependencies(&self) -> impl Iterator<Item = (&Dependency, &Location)> {
        self.spec.after.iter().zip(&self.after_locations)
    }
}

/// A chain of process names with their locations.
pub(crate) type Chain = Vec<(String, Location)>;

/// Adds the dependencies of `order`: each process waits for the success of the one before.
pub(crate) fn order(
    chains: &[Chain],
    processes: &mut [LocatedProcess],
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
        let process = &mut processes[at];
        let dependency = Dependency {
            process: ProcessName(before.clone()),
            condition: Condition::Success,
        };
        // Also in `after`, or in two chains: add it once.
        if !process.spec.after.contains(&dependency) {
            process.spec.after.push(dependency);
            process.after_locations.push(location.clone());
        }
    }
}

/// Checks names and dependencies.
pub(crate) fn check(processes: &[LocatedProcess], problems: &mut Vec<Problem>) {
    report_duplicates(processes, problems);
    let known = names(processes);
    for process in processes {
        for (dependency, location) in process.dependencies() {
            let name = dependency.process.0.as_str();
            match known.get(name) {
                Some(&at) => {
                    let (from, to) = (&process.spec, &processes[at].spec);
                    problems.extend(forbidden_dependency(from, to, dependency, location));
                }
                None => problems.push(unknown_process(problems.len(), name, location, &known)),
            }
        }
    }
    cycles(processes, &known, problems);
}

/// Maps each name to its index; to the first one if it is used twice.
fn names(processes: &[LocatedProcess]) -> BTreeMap<&str, usize> {
    let mut names = BTreeMap::new();
    for (index, process) in processes.iter().enumerate() {
        names.entry(process.spec.name.0.as_str()).or_insert(index);
    }
    // A missing name is already reported.
    names.remove("");
    names
}

fn report_duplicates(processes: &[LocatedProcess], problems: &mut Vec<Problem>) {
    let known = names(processes);
    for (index, process) in processes.iter().enumerate() {
        let name = &process.spec.name.0;
        if let Some(&first) = known.get(name.as_str())
            && first != index
        {
            problems.push(process.name_location.problem(
                Kind::DuplicateName,
                format!(
                    "the name {} is already used by processes[{first}]",
                    quote(name)
                ),
                "rename one of the two",
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
        format!("unknown process {}", quote(name)),
        suggest::hint(found, name, names, "the processes are:"),
    )
}

/// Returns why `from` must not wait for `to` with this condition.
fn forbidden_dependency(
    from: &ProcessSpec,
    to: &ProcessSpec,
    dependency: &Dependency,
    location: &Location,
) -> Vec<Problem> {
    let (waiter, waited) = (quote(&from.name.0), quote(&to.name.0));
    let mut problems = Vec::new();
    let ends = matches!(dependency.condition, Condition::Success | Condition::Exit);
    if to.daemon && ends {
        problems.push(location.problem(
            Kind::DaemonDependency,
            format!("{waiter} waits for {waited} to end, but {waited} is a daemon and never ends"),
            format!(
                "wait for its start with {{ process: {}, condition: started }} or healthy, or remove \
                 `daemon`",
                to.name
            ),
        ));
    }
    if from.is_final != to.is_final {
        let hint = if from.is_final {
            "remove it: a final process starts after all regular processes anyway"
        } else {
            "remove it, or remove `final`: a final process starts only after all regular processes"
        };
        let (first, second) = if from.is_final {
            ("final", "regular")
        } else {
            ("regular", "final")
        };
        problems.push(location.problem(
            Kind::FinalDependency,
            format!(
                "{waiter} is a {first} process and cannot wait for {waited}, a {second} process"
            ),
            hint,
        ));
    }
    if to.ephemeral && !from.ephemeral {
        problems.push(location.problem(
            Kind::EphemeralDependency,
            format!("{waiter} waits for {waited}, which is ephemeral: the task does not wait for it to end"),
            "make both ephemeral, or neither",
        ));
    }
    problems
}

fn cycles(
    processes: &[LocatedProcess],
    known: &BTreeMap<&str, usize>,
    problems: &mut Vec<Problem>,
) {
    let arrows: Vec<Vec<(usize, &Location)>> = processes
        .iter()
        .map(|process| {
            let known = process.dependencies().filter_map(|(dependency, location)| {
                Some((*known.get(dependency.process.0.as_str())?, location))
            });
            known.collect()
        })
        .collect();
    let name = |at: usize| processes[at].spec.name.0.as_str();
    report_cycles("processes", &arrows, name, problems);
}

/// Reports disjoint cycles, each with its path. `arrows` lead from each node to those it waits
/// for; `what` names the nodes.
pub(crate) fn report_cycles<'a>(
    what: &str,
    arrows: &[Vec<(usize, &Location)>],
    name: impl Fn(usize) -> &'a str,
    problems: &mut Vec<Problem>,
) {
    let mut left: Vec<bool> = vec![true; arrows.len()];
    // More cycles than reported problems need not be found.
    for _ in 0..PROBLEMS_MAX {
        remove_acyclic(arrows, &mut left);
        let Some(start) = left.iter().position(|left| *left) else {
            return;
        };
        // Each remaining node waits for another remaining one, so the walk closes a cycle.
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

/// Removes the nodes that are not on or behind a cycle.
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
    // Start with the node that comes first in the file.
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
        format!("dependency cycle of {what}: {path}")
    };
    let hint = if cycle.len() == 1 {
        "remove this dependency"
    } else {
        "remove one of these dependencies"
    };
    cycle[lead].1.problem(Kind::Cycle, message, hint)
}
