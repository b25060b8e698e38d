//! The texts of a spec that are templates.

use baton_model::spec::{InstanceSpec, Work};
use baton_model::task::{Check, CommandLine, Probe, ProcessSpec};

use super::template::{self, Piece, Reference};

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
pub(super) fn texts(spec: &mut InstanceSpec, each: &mut impl FnMut(&mut String)) {
    spec.env.values_mut().for_each(&mut *each);
    let paths = &mut spec.paths;
    for path in [&mut paths.cwd, &mut paths.stdout, &mut paths.stderr] {
        path.iter_mut().for_each(&mut *each);
    }
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
