//! `baton local inspect`: validation and description of a task file.

mod describe;
mod trigger;

use std::io::Write;
use std::path::PathBuf;

use baton_files::{Binding, Errors, TaskFile};
use clap::Args;

use super::binding::BindingArgs;
use crate::output::{CommandResult, Failure, Output, USAGE};

/// Validate a task file, and describe the task in it
///
/// Lists the processes in dependency order; those with the same number do not depend on each
/// other. Missing ports and parameters are listed, and placeholders are shown for them. Exits with
/// 0 if the file is valid, and with 2 if it is not.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton local inspect report.yaml
  baton local inspect report.yaml -p day=today -P http:8080
  baton local inspect report.yaml --json | jq '.processes[].name'")]
pub(super) struct Inspect {
    /// Task file (.yaml, .toml or .json)
    file: PathBuf,
    #[command(flatten)]
    binding: BindingArgs,
    /// Print the bound task, or the errors, as JSON
    #[arg(long)]
    json: bool,
}

/// Placeholder for the task id, which is not assigned yet.
const NO_ID: &str = "TASK-ID";

/// Placeholders for missing ports count down from this one.
const FIRST_PLACEHOLDER_PORT: u16 = u16::MAX;

pub(super) fn run(inspect: &Inspect) -> CommandResult {
    let mut out = Output::new();
    if inspect.json {
        print_json(inspect, &mut out)?
    } else {
        print_text(inspect, &mut out)?
    }
    out.done()
}

fn print_json(inspect: &Inspect, out: &mut Output) -> CommandResult {
    let binding = binding(inspect)?;
    let task = baton_files::load(&inspect.file).and_then(|file| file.bind(&binding));
    match task {
        Ok(task) => out.json(&task),
        Err(errors) => {
            out.json(&errors)?;
            out.flush()?;
            Err(Failure::Silent(USAGE))
        }
    }
}

fn print_text(inspect: &Inspect, out: &mut Output) -> CommandResult {
    let file = baton_files::load(&inspect.file).map_err(print_errors)?;
    let mut binding = binding(inspect)?;
    let missing = fill_in(&file, &mut binding);
    let task = file.bind(&binding).map_err(print_errors)?;
    describe::task(out, &task, &file.policy, &inspect.binding.env)?;
    describe::params(out, &file.params, &binding.params)?;
    describe::missing(out, &missing)?;
    Ok(())
}

fn binding(inspect: &Inspect) -> Result<Binding, Failure> {
    Ok(Binding {
        task_id: Some(NO_ID.to_owned()),
        ..inspect.binding.binding()?
    })
}

/// A required value that is missing: how to pass it, and the placeholder shown instead.
struct Missing {
    what: String,
    give: String,
    shown: String,
}

/// Fills missing parameters and ports with placeholders.
fn fill_in(file: &TaskFile, binding: &mut Binding) -> Vec<Missing> {
    let mut missing = Vec::new();
    for (name, param) in &file.params {
        if param.default.is_none() && !binding.params.contains_key(name) {
            let example = param.kind.example();
            let shown = example.unwrap_or_else(|| format!("{{{{params.{name}}}}}"));
            missing.push(Missing {
                what: format!("the parameter {name}"),
                give: format!("-p {name}=VALUE"),
                shown: shown.clone(),
            });
            binding.params.insert(name.clone(), shown);
        }
    }
    let mut ports = (1..=FIRST_PLACEHOLDER_PORT).rev();
    for name in file.ports() {
        if !binding.ports.contains_key(name)
            && let Some(port) = ports.next()
        {
            missing.push(Missing {
                what: format!("the port {name}"),
                give: format!("-P {name}:PORT"),
                shown: port.to_string(),
            });
            binding.ports.insert(name.to_owned(), port);
        }
    }
    missing
}

/// Prints the errors of a file, each with its location and its hint.
fn print_errors(errors: Errors) -> Failure {
    // If standard error is closed, the exit code still reports the failure.
    let _ = writeln!(std::io::stderr(), "{errors}");
    Failure::Silent(USAGE)
}
