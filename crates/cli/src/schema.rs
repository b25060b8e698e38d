//! `baton schema`: the JSON Schemas of files.

use clap::{Args, ValueEnum};

use crate::output::{CommandResult, Output};

/// Print the JSON Schema of task, workflow or fleets files, for editors
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton schema task > task.schema.json
  baton schema workflow > workflow.schema.json
  baton schema fleets > fleets.schema.json

In a YAML file, the first line names the schema for editors that speak to yaml-language-server:
  # yaml-language-server: $schema=task.schema.json")]
pub(crate) struct Schema {
    /// Kind of file
    #[arg(value_enum, value_name = "KIND", default_value = "task")]
    kind: FileKind,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FileKind {
    Task,
    Workflow,
    Fleets,
}

pub(crate) fn run(command: &Schema) -> CommandResult {
    let schema = match command.kind {
        FileKind::Task => baton_files::task_schema(),
        FileKind::Workflow => baton_files::workflow_schema(),
        FileKind::Fleets => baton_files::fleets_schema(),
    };
    let mut out = Output::new();
    out.json(&schema)?;
    out.done()
}
