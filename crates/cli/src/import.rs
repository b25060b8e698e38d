//! `baton import`: conversion of workflows from other formats.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use baton_files::wfcommons::{self, Work as Burn};
use baton_model::json;
use clap::{Args, Subcommand, ValueEnum};

use crate::output::{CommandResult, Failure, Output, clean, note};

/// Convert a workflow from another format: a WfCommons trace (WfFormat 1.4 or 1.5)
///
/// The result is a workflow file in JSON. The only format so far is WfCommons.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  baton import wfcommons trace.json --speed 100 -o trace.workflow.json")]
pub(crate) struct Import {
    #[command(subcommand)]
    from: From,
}

#[derive(Debug, Subcommand)]
enum From {
    Wfcommons(Wfcommons),
}

/// Convert a WfCommons trace of a scientific workflow (WfFormat 1.4 or 1.5)
///
/// Each task of the trace becomes a task that sleeps, or uses a CPU, for as long as the recorded
/// one ran.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton import wfcommons trace.json --speed 100 -o trace.yaml.json
  baton import wfcommons trace.json --work cpu | tee wf.json && baton run wf.json")]
struct Wfcommons {
    /// Trace file (JSON)
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Divide all durations by this factor
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    speed: f64,
    /// Kind of work that each task does
    #[arg(long, value_enum, default_value_t = Work::Sleep)]
    work: Work,
    /// Request the CPUs and memory recorded in the trace
    #[arg(long)]
    resources: bool,
    /// Name of the workflow [default: its name in the trace]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Output file (JSON) [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Work {
    /// Sleep without using a CPU
    Sleep,
    /// Keep a CPU busy
    Cpu,
}

pub(crate) fn run(command: &Import) -> CommandResult {
    let From::Wfcommons(command) = &command.from;
    let wrong = |path: &Path, error: &dyn std::fmt::Display| {
        Failure::usage(format!("{}: {error}", clean(&path.display().to_string())))
    };
    let text = fs::read(&command.file).map_err(|error| wrong(&command.file, &error))?;
    let trace = json::from_slice(&text).map_err(|error| wrong(&command.file, &error))?;
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
        "wrote {}; run it with `baton run`",
        clean(&path.display().to_string())
    ));
    Ok(())
}
