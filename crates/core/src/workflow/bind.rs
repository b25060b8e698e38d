//! The spec of an item's instance: its task's spec with every template rendered.

use baton_model::spec::{InstanceSpec, Work};
use baton_model::task::{Check, CommandLine, Probe, ProcessSpec};
use baton_model::workflow::Part;

use super::template::{self, Piece, Reference};
use super::{Dag, Progress, items};

/// Environment variable with the run's id.
const RUN: &str = "BATON_RUN";
const GENERATION: &str = "BATON_GENERATION";
const TASK: &str = "BATON_TASK";
/// Environment variable with the value of the item.
const ITEM: &str = "BATON_ITEM";
/// Environment variable with the index of the item.
const ITEM_INDEX: &str = "BATON_ITEM_INDEX";

/// The spec of one item.
#[must_use]
pub fn spec(dag: &Dag, progress: &Progress, part: Part) -> InstanceSpec {
    let task = &dag.plan.tasks[part.task as usize];
    let value = progress.value(dag, part.task, part.item);
    let mut spec = (*task.spec).clone();
    let index = (part.task, part.item);
    texts(&mut spec, &mut |text| {
        if text.contains("{{") {
            *text = template::render(text, |reference| {
                progress.text_value(dag, index, value.as_ref(), reference)
            });
        }
    });
    spec.name = items::label(task, part.item, value.as_ref());
    let mut own = vec![
        (RUN, part.run.to_string()),
        (GENERATION, part.generation.0.to_string()),
        (TASK, task.name.clone()),
    ];
    if let Some(value) = &value {
        own.push((ITEM, template::plain(value).into_owned()));
        own.push((ITEM_INDEX, part.item.to_string()));
    }
    let own = own
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value));
    spec.env.extend(own);
    spec.part = Some(part);
    spec
}

/// Calls `found` for every reference in the texts of a spec.
pub(super) fn references(spec: &InstanceSpec, found: &mut impl FnMut(Reference)) {
    let mut spec = spec.clone();
    texts(&mut spec, &mut |text| {
        for piece in template::pieces(text) {
            if let Piece::Reference(reference) = piece {
                found(reference);
            }
        }
    });
}

/// Calls `each` for every text of a spec that is a template.
fn texts(spec: &mut InstanceSpec, each: &mut impl FnMut(&mut String)) {
    spec.env.values_mut().for_each(&mut *each);
    match &mut spec.work {
        Work::Command(words) => words.iter_mut().for_each(each),
        Work::Task(task) => {
            for process in &mut task.processes {
                of_process(process, each);
            }
        }
    }
}

fn of_process(process: &mut ProcessSpec, each: &mut impl FnMut(&mut String)) {
    of_run(&mut process.run, each);
    process.env.values_mut().for_each(&mut *each);
    process.cwd.iter_mut().for_each(&mut *each);
    for check in [&mut process.ready, &mut process.health]
        .into_iter()
        .flatten()
    {
        of_check(check, each);
    }
}

fn of_run(run: &mut CommandLine, each: &mut impl FnMut(&mut String)) {
    match run {
        CommandLine::Shell(command) => each(command),
        CommandLine::Exec(words) => words.iter_mut().for_each(each),
    }
}

fn of_check(check: &mut Check, each: &mut impl FnMut(&mut String)) {
    match &mut check.probe {
        Probe::Command(run) => of_run(run, each),
        Probe::Http { path, .. } => each(path),
        Probe::Tcp { .. } => {}
    }
}
