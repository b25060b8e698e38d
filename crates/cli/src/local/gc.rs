//! `baton local gc`: removal of finished tasks.

use std::io::{self, IsTerminal, Write};

use baton_files::units;
use baton_model::time::{Millis, Wall};
use baton_runner::root::{
    GcCandidates, GcPolicy, GcReport, Root, SandboxAction, find_gc_candidates,
};
use clap::Args;
use serde::Serialize;

use crate::output::{CommandResult, FAILED, Failure, Output, Style, clean, note};
use crate::table::{Cell, Table};
use crate::time::{between, now, size, span};

/// Remove finished tasks
///
/// Removes the oldest finished tasks until the limits are met, with their sandboxes below the
/// root; a sandbox elsewhere is never touched, and active tasks are kept. Lists what would be
/// removed and asks for confirmation. Checkpoints without a task are removed after a day.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton local gc --max-age 2d --dry-run
  baton local gc --max-space 20G --max-tasks 1000 -y
  baton local gc --max-age 7d --keep-logs -y --json")]
pub(super) struct Gc {
    /// Remove tasks that ended longer ago than this, such as 12h or 2d
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    max_age: Option<Millis>,
    /// Remove the oldest tasks until the others take at most this much space, such as 20G
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    max_space: Option<u64>,
    /// Remove the oldest tasks until at most this many are left
    #[arg(long, value_name = "N")]
    max_tasks: Option<usize>,
    /// Keep the logs in the sandboxes
    #[arg(long)]
    keep_logs: bool,
    /// List what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(short = 'y', long)]
    yes: bool,
    /// Print JSON: dry_run, tasks (id, why, ended_ms, bytes, sandbox), leftovers (id, bytes,
    /// remove), driven, bytes, kept_tasks, kept_bytes, removed, failed (id, error)
    #[arg(long)]
    json: bool,
}

pub(super) fn run(gc: &Gc, root: &Root) -> CommandResult {
    let policy = policy(gc)?;
    let now = now();
    let candidates = find_gc_candidates(root, &policy, now)?;
    let mut out = Output::new();
    if !gc.json {
        print_candidates(&mut out, &candidates, now)?;
        out.flush()?;
    }
    let report = if !gc.dry_run && !candidates.is_empty() && confirm(gc, &candidates)? {
        Some(candidates.apply()?)
    } else {
        None
    };
    if gc.json {
        out.json(&json(gc, &candidates, report.as_ref()))?;
    } else if let Some(report) = &report {
        let (count, bytes) = (report.removed.len(), size(report.bytes));
        writeln!(out, "removed {count}, {bytes}")?;
    }
    out.done()?;
    let failures = report.map(|report| report.failures).unwrap_or_default();
    for (id, error) in &failures {
        note(&clean(&format!("{id} is not removed: {error}")));
    }
    if failures.is_empty() {
        Ok(())
    } else {
        Err(Failure::Silent(FAILED))
    }
}

fn policy(gc: &Gc) -> Result<GcPolicy, Failure> {
    if gc.max_age.is_none() && gc.max_space.is_none() && gc.max_tasks.is_none() {
        return Err(Failure::usage(
            "no limit is given; add --max-age TIME, --max-space SIZE or --max-tasks N",
        ));
    }
    Ok(GcPolicy {
        max_age: gc.max_age,
        max_space: gc.max_space,
        max_tasks: gc.max_tasks,
        keep_logs: gc.keep_logs,
    })
}

fn print_candidates(out: &mut Output, candidates: &GcCandidates, now: Wall) -> io::Result<()> {
    if !candidates.tasks.is_empty() {
        let mut table = Table::headed(&["ID", "ENDED", "SIZE", "WHY", "SANDBOX"]);
        for task in &candidates.tasks {
            table.row([
                Cell::new(task.id.as_str(), Style::Strong),
                format!("{} ago", span(between(task.ended, now))).into(),
                size(task.bytes).into(),
                task.reason.into_str().into(),
                sandbox(task.sandbox).into(),
            ]);
        }
        table.print(out)?;
    }
    for leftover in &candidates.leftovers {
        let then = if leftover.remove {
            "removed"
        } else {
            "kept until it is a day old"
        };
        let bytes = size(leftover.bytes);
        writeln!(
            out,
            "{}: a checkpoint without a task, {bytes}: {then}",
            leftover.id
        )?;
    }
    for id in &candidates.driven {
        writeln!(
            out,
            "{id}: in use by a runner, or owned by another user; kept"
        )?;
    }
    writeln!(
        out,
        "{} of {} finished tasks to remove, {}; {} kept",
        candidates.tasks.len(),
        candidates.tasks.len() + candidates.kept_tasks,
        size(candidates.bytes()),
        size(candidates.kept_bytes)
    )
}

const fn sandbox(action: SandboxAction) -> &'static str {
    match action {
        SandboxAction::Remove => "removed",
        SandboxAction::KeepLogs => "removed, logs kept",
        SandboxAction::Keep => "kept: outside the root",
    }
}

fn confirm(gc: &Gc, candidates: &GcCandidates) -> Result<bool, Failure> {
    if gc.yes {
        return Ok(true);
    }
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(
            "cannot ask for confirmation without a terminal; add -y to remove, or --dry-run to list",
        ));
    }
    let mut ask = io::stderr();
    write!(ask, "remove {}? [y/N] ", size(candidates.bytes())).and_then(|()| ask.flush())?;
    let mut answer = String::new();
    io::stdin()
        .read_line(&mut answer)
        .map_err(|error| Failure::failed(format!("cannot read the answer: {error}")))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

#[derive(Serialize)]
struct Json<'a> {
    dry_run: bool,
    tasks: Vec<JsonTask<'a>>,
    leftovers: Vec<JsonLeftover<'a>>,
    driven: Vec<&'a str>,
    bytes: u64,
    kept_tasks: usize,
    kept_bytes: u64,
    removed: Vec<&'a str>,
    failed: Vec<JsonFailure<'a>>,
}

#[derive(Serialize)]
struct JsonTask<'a> {
    id: &'a str,
    why: &'static str,
    ended_ms: u64,
    bytes: u64,
    sandbox: &'static str,
}

#[derive(Serialize)]
struct JsonLeftover<'a> {
    id: &'a str,
    bytes: u64,
    remove: bool,
}

#[derive(Serialize)]
struct JsonFailure<'a> {
    id: &'a str,
    error: String,
}

fn json<'a>(gc: &Gc, candidates: &'a GcCandidates, report: Option<&'a GcReport>) -> Json<'a> {
    let task = |task: &'a baton_runner::root::Removal| JsonTask {
        id: task.id.as_str(),
        why: task.reason.into_str(),
        ended_ms: task.ended.0,
        bytes: task.bytes,
        sandbox: task.sandbox.into_str(),
    };
    let leftover = |leftover: &'a baton_runner::root::Leftover| JsonLeftover {
        id: leftover.id.as_str(),
        bytes: leftover.bytes,
        remove: leftover.remove,
    };
    let removed = report.map_or(&[][..], |report| &report.removed);
    let failures = report.map_or(&[][..], |report| &report.failures);
    Json {
        dry_run: gc.dry_run,
        tasks: candidates.tasks.iter().map(task).collect(),
        leftovers: candidates.leftovers.iter().map(leftover).collect(),
        driven: candidates.driven.iter().map(|id| id.as_str()).collect(),
        bytes: candidates.bytes(),
        kept_tasks: candidates.kept_tasks,
        kept_bytes: candidates.kept_bytes,
        removed: removed.iter().map(|id| id.as_str()).collect(),
        failed: failures
            .iter()
            .map(|(id, error)| JsonFailure {
                id: id.as_str(),
                error: error.to_string(),
            })
            .collect(),
    }
}
