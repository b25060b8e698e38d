//! `baton halt`, `baton resume`, and `baton retry` of a run.

use std::io::Write;
use std::path::PathBuf;

use baton_client::{Client, ResumeRequest};
use baton_model::api::{HaltRun, ResumePreview, ResumeRun, RetryRun};
use baton_model::ids::RunId;
use baton_model::workflow::HaltMode;
use clap::Args;

use super::follow::{ProgressMode, follow};
use super::submit::{WaitArgs, print_accepted};
use crate::connection::{accepted_run, refused};
use crate::ids;
use crate::local::{pair, params};
use crate::output::{CommandResult, Failure, Output, Style, clean, note};
use crate::table::{Cell, Table};
use crate::text::grouped;

/// Halt a run: start nothing more of it
///
/// Running items finish; with --kill they are killed. The run is HALTED when none is left, and is
/// continued with `baton resume`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton halt r12                     drain: running items finish
  baton halt r12 --kill              running items stop, and run their final processes
  baton halt r12 --kill --now        all their processes are killed at once
  baton halt r12 --wait && baton resume r12 etl.yaml")]
pub(crate) struct HaltCommand {
    /// Run id, such as r12
    #[arg(value_name = "RUN", value_parser = ids::run)]
    run: RunId,
    /// Kill running items
    #[arg(long)]
    kill: bool,
    /// Kill all processes at once, without running final processes
    #[arg(long, requires = "kill")]
    now: bool,
    /// Wait until the run is HALTED
    #[arg(long)]
    wait: bool,
    /// Only if this is the run's current generation
    #[arg(long, value_name = "N")]
    generation: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Resume a run: run everything that is not DONE
///
/// Without a file the run keeps its workflow. With a file, changed tasks run again with everything
/// downstream; with another value of a parameter, the tasks that refer to it. Unchanged tasks that
/// are DONE do not run again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton resume r12
  baton resume r12 etl.yaml --dry-run      show what would run, and why
  baton resume r12 -p day=2026-11-15       the same workflow with another value
  baton resume r12 etl.yaml -p day=2026-11-15 --watch")]
pub(crate) struct ResumeCommand {
    /// Run id, such as r12
    #[arg(value_name = "RUN", value_parser = ids::run)]
    run: RunId,
    /// Workflow file, if it has changed
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Value of a parameter; may be repeated
    #[arg(short = 'p', long = "param", value_name = "NAME=VALUE", value_parser = pair)]
    params: Vec<(String, String)>,
    #[command(flatten)]
    resume: ResumeArgs,
}

/// Options of resuming a run.
#[derive(Debug, Args)]
pub(in super::super) struct ResumeArgs {
    /// Show what would run, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Wait until it has ended, and exit with its status
    #[arg(long)]
    wait: bool,
    /// Show live progress until it has ended, and exit with its status
    #[arg(long)]
    watch: bool,
    /// Only if this is the run's current generation
    #[arg(long, value_name = "N")]
    generation: Option<u32>,
    /// Print JSON; with --wait or --watch, also the ended run, one object per line
    #[arg(long)]
    pub(in super::super) json: bool,
}

impl ResumeArgs {
    /// True if an option is set that applies to runs only.
    pub(in super::super) const fn is_for_runs(&self) -> bool {
        self.dry_run || self.wait || self.watch || self.generation.is_some()
    }
}

/// Which items of a run are rerun.
#[derive(Debug, Args)]
pub(in super::super) struct RerunArgs {
    /// Of a run: rerun this task, including items that are DONE
    #[arg(long, value_name = "TASK")]
    pub(in super::super) task: Option<String>,
    /// Of a run: rerun everything downstream of the task, too
    #[arg(long, requires = "task")]
    pub(in super::super) downstream: bool,
    /// Of a run: another value of a parameter; may be repeated
    #[arg(short = 'p', long = "param", value_name = "NAME=VALUE", value_parser = pair)]
    pub(in super::super) params: Vec<(String, String)>,
}

impl RerunArgs {
    /// True if an option is set, all of which apply to runs only.
    pub(in super::super) const fn is_set(&self) -> bool {
        self.task.is_some() || !self.params.is_empty()
    }
}

pub(in super::super) async fn halt(command: &HaltCommand, client: &Client) -> CommandResult {
    let halt = HaltRun {
        mode: match (command.kill, command.now) {
            (_, true) => HaltMode::KillNow,
            (true, false) => HaltMode::Kill,
            (false, false) => HaltMode::Drain,
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
        (false, true) => writeln!(out, "{}: halted", command.run)?,
        (false, false) => writeln!(out, "{}: halting, nothing more starts", command.run)?,
    }
    out.done()
}

pub(in super::super) async fn resume(command: &ResumeCommand, client: &Client) -> CommandResult {
    let params = params(&command.params)?;
    let file = match &command.file {
        None => None,
        Some(path) => {
            // Only the scheduler can check that every parameter has a value: the run has some.
            let file = baton_files::load_workflow(path).map_err(Failure::usage)?;
            Some(file.to_json())
        }
    };
    let request = ResumeRequest::Resume(ResumeRun {
        file,
        params,
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
        params: params(&rerun.params)?,
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
    if args.dry_run {
        let mut out = Output::new();
        let preview = client.preview_resume(run, request).await.map_err(refused)?;
        if args.json {
            out.json(&preview)?
        } else {
            preview_table(&preview).print(&mut out)?
        }
        return out.done();
    }
    let answer = client.resume_run(run, request).await.map_err(refused)?;
    let run = accepted_run(&answer)?;
    let text = format!("{run}: resumed, generation {}", answer.generation);
    let args = WaitArgs {
        wait: args.wait,
        watch: args.watch,
        json: args.json,
    };
    print_accepted(client, run, &answer, &text, args).await
}

/// One row for each task: items kept, items to run, and why.
fn preview_table(preview: &ResumePreview) -> Table {
    let mut table = Table::default();
    table.row(["TASK", "KEPT", "RUNS", "WHY"].map(|it| Cell::new(it, Style::Faint)));
    for task in &preview.tasks {
        let style = match task.reason {
            Some(_) => Style::Strong,
            None => Style::Plain,
        };
        let runs = task.runs.map_or_else(|| "?".to_owned(), grouped);
        table.row([
            Cell::new(clean(&task.name), style),
            grouped(task.kept).into(),
            runs.into(),
            task.reason.as_deref().map(clean).unwrap_or_default().into(),
        ]);
    }
    if !preview.removed.is_empty() {
        let names: Vec<_> = preview.removed.iter().map(|it| clean(it)).collect();
        note(&format!("removed tasks: {}", names.join(", ")));
    }
    table
}
