//! `baton halt`, `baton resume`, and `baton retry` of a run.

use std::io::Write;
use std::path::PathBuf;

use baton_client::{Client, ResumeRequest};
use baton_model::api::{HaltRun, ResumePreview, ResumeRun, RetryRun};
use baton_model::ids::RunId;
use baton_model::workflow::HaltMode;
use clap::Args;

use super::super::{ids, refused, submit::line};
use super::follow::{ProgressMode, ended, follow};
use super::{accepted, id};
use crate::local::{pair, params};
use crate::output::{CommandResult, Failure, Output, Style, clean, note};
use crate::table::{Cell, Table};

/// Let nothing more of a run begin
///
/// What has begun ends by itself; with --kill it is killed. The run is HALTED when nothing of it
/// is left, and goes on with `baton resume`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton halt r12                     drain: what runs may end
  baton halt r12 --kill
  baton halt r12 --wait && baton resume r12 etl.yaml")]
pub(crate) struct HaltCommand {
    /// Which run
    #[arg(value_name = "RUN", value_parser = id)]
    run: RunId,
    /// Kill what runs
    #[arg(long)]
    kill: bool,
    /// Wait until nothing of it is left
    #[arg(long)]
    wait: bool,
    /// Only if this generation of it is the live one
    #[arg(long, value_name = "N")]
    generation: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Let a run go on with what is not DONE
///
/// Without a file it goes on with the workflow that it has. With one, what has changed runs again
/// with all that comes after it, and what is DONE and has not changed does not.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton resume r12
  baton resume r12 etl.yaml --dry-run      what would run, and why
  baton resume r12 etl.yaml -p day=2026-11-15 --watch")]
pub(crate) struct ResumeCommand {
    /// Which run
    #[arg(value_name = "RUN", value_parser = id)]
    run: RunId,
    /// The workflow, if it has changed
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// A parameter instead of its default; may be repeated
    #[arg(short = 'p', long = "param", value_name = "NAME=VALUE", value_parser = pair, requires = "file")]
    params: Vec<(String, String)>,
    #[command(flatten)]
    resume: ResumeArgs,
}

/// How a run goes on.
#[derive(Debug, Args)]
pub(in super::super) struct ResumeArgs {
    /// Only show what would run
    #[arg(long)]
    dry_run: bool,
    /// Wait for its end, and exit with its status
    #[arg(long)]
    wait: bool,
    /// Watch it until it is over
    #[arg(long)]
    watch: bool,
    /// Only if this generation of it is the last one
    #[arg(long, value_name = "N")]
    generation: Option<u32>,
    /// Print JSON; of a run with --wait or --watch also how it ended, one object on a line
    #[arg(long)]
    pub(in super::super) json: bool,
}

impl ResumeArgs {
    /// True if something was asked for that only runs have.
    pub(in super::super) const fn is_for_runs(&self) -> bool {
        self.dry_run || self.wait || self.watch || self.generation.is_some()
    }
}

/// What of a run is done again.
#[derive(Debug, Args)]
pub(in super::super) struct RerunArgs {
    /// Of a run: do this task again, also what is DONE of it
    #[arg(long, value_name = "TASK")]
    pub(in super::super) task: Option<String>,
    /// Of a run: and everything that comes after it
    #[arg(long, requires = "task")]
    pub(in super::super) downstream: bool,
}

pub(in super::super) async fn halt(command: &HaltCommand, client: &Client) -> CommandResult {
    let halt = HaltRun {
        mode: if command.kill {
            HaltMode::Kill
        } else {
            HaltMode::Drain
        },
        generation: command.generation,
    };
    let answer = client.halt_run(command.run, &halt).await.map_err(refused)?;
    let mut out = Output::new();
    if command.wait {
        follow(client, command.run, ProgressMode::Quiet).await?;
    }
    match (command.json, command.wait) {
        (true, _) => out.json(&answer)?,
        (false, true) => writeln!(out, "{}: nothing of it is left", command.run)?,
        (false, false) => writeln!(out, "{}: nothing more begins", command.run)?,
    }
    out.done()
}

pub(in super::super) async fn resume(command: &ResumeCommand, client: &Client) -> CommandResult {
    let given = params(&command.params)?;
    let file = match &command.file {
        None => None,
        Some(path) => {
            // Whether every parameter has a value, only the scheduler knows: the run has some.
            let file = baton_files::load_workflow(path).map_err(Failure::usage)?;
            Some(file.to_json())
        }
    };
    let request = ResumeRequest::Resume(ResumeRun {
        file,
        params: given,
        generation: command.resume.generation,
    });
    continue_run(command.run, &request, &command.resume, client).await
}

pub(in super::super) async fn retry(
    run: RunId,
    rerun: &RerunArgs,
    args: &ResumeArgs,
    client: &Client,
) -> CommandResult {
    let request = ResumeRequest::Retry(RetryRun {
        task: rerun.task.clone(),
        downstream: rerun.downstream,
        generation: args.generation,
    });
    continue_run(run, &request, args, client).await
}

async fn continue_run(
    run: RunId,
    request: &ResumeRequest,
    args: &ResumeArgs,
    client: &Client,
) -> CommandResult {
    let mut out = Output::new();
    if args.dry_run {
        let preview = client.preview_resume(run, request).await.map_err(refused)?;
        if args.json {
            out.json(&preview)?
        } else {
            preview_table(&preview).print(&mut out)?
        }
        return out.done();
    }
    let answer = client.resume_run(run, request).await.map_err(refused)?;
    let run = accepted(&answer)?;
    let waits = args.wait || args.watch;
    match (args.json, waits) {
        (true, false) => out.json(&answer)?,
        (true, true) => line(&mut out, &answer)?,
        (false, _) => writeln!(out, "{run}: goes on, generation {}", answer.generation)?,
    }
    // Whoever waits wants to know for what.
    out.flush()?;
    if !waits {
        return out.done();
    }
    let mode = if args.watch || !args.json {
        ProgressMode::Live
    } else {
        ProgressMode::Quiet
    };
    let run_end = follow(client, run, mode).await?;
    if args.json {
        line(&mut out, &run_end)?;
    }
    out.done()?;
    ended(&run_end)
}

/// One line for each task: what stays, what runs, and why.
fn preview_table(preview: &ResumePreview) -> Table {
    let mut table = Table::default();
    table.row(["TASK", "KEPT", "RUNS", "WHY"].map(|it| Cell::new(it, Style::Faint)));
    for task in &preview.tasks {
        let style = match task.why {
            Some(_) => Style::Strong,
            None => Style::Plain,
        };
        let runs = task.runs.map_or_else(|| "?".to_owned(), ids::count);
        table.row([
            Cell::new(clean(&task.name), style),
            ids::count(task.kept).into(),
            runs.into(),
            task.why.as_deref().map(clean).unwrap_or_default().into(),
        ]);
    }
    if !preview.removed.is_empty() {
        let names: Vec<_> = preview.removed.iter().map(|it| clean(it)).collect();
        note(&format!("no longer there: {}", names.join(", ")));
    }
    table
}
