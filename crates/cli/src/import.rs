//! `baton import`: workflows of others.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use baton_files::wfcommons::{self, Work as Burn};
use clap::{Args, Subcommand, ValueEnum};

use crate::output::{CommandResult, Failure, Output, clean, note};

/// Make a workflow of what others have recorded
#[derive(Debug, Args)]
pub(crate) struct Import {
    #[command(subcommand)]
    from: From,
}

#[derive(Debug, Subcommand)]
enum From {
    Wfcommons(Wfcommons),
}

/// From a trace of a scientific workflow (WfFormat 1.4 or 1.5)
///
/// Each task of the trace becomes a task that sleeps, or burns a processor, for as long as the
/// recorded one ran.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton import wfcommons trace.json --speed 100 -o trace.yaml.json
  baton import wfcommons trace.json --work cpu | tee wf.json && baton run wf.json")]
struct Wfcommons {
    /// The trace
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// So many times faster than it was
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    speed: f64,
    /// What tasks do
    #[arg(long, value_enum, default_value_t = Work::Sleep)]
    work: Work,
    /// Ask for the processors and the memory of the trace
    #[arg(long)]
    resources: bool,
    /// What to call the workflow [default: its name in the trace]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Where to write the workflow, as JSON [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Work {
    /// Wait
    Sleep,
    /// Keep a processor busy
    Cpu,
}

pub(crate) fn run(command: &Import) -> CommandResult {
    let From::Wfcommons(command) = &command.from;
    let wrong = |path: &Path, error: &dyn std::fmt::Display| {
        Failure::usage(format!("{}: {error}", clean(&path.display().to_string())))
    };
    let text = fs::read(&command.file).map_err(|error| wrong(&command.file, &error))?;
    let trace = serde_json::from_slice(&text).map_err(|error| wrong(&command.file, &error))?;
    let options = wfcommons::Import {
        speed: command.speed,
        work: match command.work {
            Work::Sleep => Burn::Sleep,
            Work::Cpu => Burn::Cpu,
        },
        resources: command.resources,
        name: command.name.clone(),
    };
    let workflow = wfcommons::wfcommons(&trace, &options);
    let workflow = workflow.map_err(|error| wrong(&command.file, &clean(&error)))?;
    let Some(path) = &command.output else {
        let mut out = Output::new();
        out.json(&workflow)?;
        return out.done();
    };
    let mut text = serde_json::to_string_pretty(&workflow)?;
    text.push('\n');
    let mut file = fs::File::create(path).map_err(|error| wrong(path, &error))?;
    file.write_all(text.as_bytes())
        .map_err(|error| wrong(path, &error))?;
    note(&format!(
        "wrote {}; `baton run` runs it",
        clean(&path.display().to_string())
    ));
    Ok(())
}
