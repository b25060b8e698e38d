//! A command in the place of a file, as other tools take it: the failure leads to what runs it.

use std::path::Path;

use baton_files::{AnyFile, Kind, Problem};
use serde_json::json;

use crate::output::Failure;
use crate::text::shell;

/// Reads the file to run.
pub(super) fn load(path: &Path) -> Result<AnyFile, Failure> {
    baton_files::load_any(path).map_err(|errors| {
        let unknown = |problem: &Problem| problem.kind == Kind::UnknownFormat;
        if errors.problems.iter().any(unknown) {
            refuse(&[path.display().to_string()])
        } else {
            Failure::usage(errors)
        }
    })
}

/// The failure of a command in the place of a file.
pub(super) fn refuse(words: &[String]) -> Failure {
    let command: Vec<String> = words.iter().map(|word| shell(word)).collect();
    let command = command.join(" ");
    let file = json!({"task": "command", "run": words});
    Failure::usage(format!(
        "`baton run` takes a task or workflow file, whose name ends with .yaml, .yml, .toml or .json\n  \
         hint: a command runs on a scheduler, such as `baton up`: `baton submit --wait -- {command}`\n  \
         or without one from a file, `baton run command.json`, that has\n  {file}"
    ))
}
