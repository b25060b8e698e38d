//! `baton local gc`: removal of finished tasks.

use std::io::{self, IsTerminal, Write};

use baton_files::units;
use baton_model::state::AttemptState;
use baton_model::time::{Millis, Wall};
use baton_runner::root::{
    GcCandidates, GcPolicy, GcReport, Orphan, Root, SandboxAction, find_gc_candidates, find_orphans,
};
use baton_runner::task::TaskError;
use clap::Args;
use serde::Serialize;

use super::kill;
use crate::output::{CommandResult, FAILED, Failure, Output, Style, clean, note};
use crate::table::{Cell, Table};
use crate::time::{between, now, size, span};

/// Remove finished tasks, and end those whose runner is gone for good
///
/// Removes the oldest finished tasks until the limits are met, with their sandboxes below the
/// root; a sandbox elsewhere is never touched, and active tasks are kept. Lists what would be
/// removed and asks for confirmation. Checkpoints without a task are removed after a day.
///
/// With --end-orphans, active tasks whose runner has given no sign of itself for that long are ended
/// first, as `baton local kill` ends them: with their final processes, and filed as KILLED or LOST.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton local gc --max-age 2d --dry-run
  baton local gc --max-space 20G --max-tasks 1000 -y
  baton local gc --max-age 7d --keep-logs -y --json
  baton local gc --end-orphans 7d --dry-run")]
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
    /// End active tasks whose runner has been gone for longer than this, such as 7d
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    end_orphans: Option<Millis>,
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
    /// remove), driven, bytes, kept_tasks, kept_bytes, removed, orphans (id, since_ms, state),
    /// failed (id, error)
    #[arg(long)]
    json: bool,
}

pub(super) fn run(gc: &Gc, root: &Root) -> CommandResult {
    let policy = policy(gc)?;
    let now = now();
    let candidates = find_gc_candidates(root, &policy, now)?;
    let orphans = match gc.end_orphans {
        Some(gone) => find_orphans(root, gone, now)?,
        None => Vec::new(),
    };
    let mut out = Output::new();
    if !gc.json {
        print_orphans(&mut out, &orphans, now)?;
        print_candidates(&mut out, &candidates, now)?;
        out.flush()?;
    }
    let is_empty = candidates.is_empty() && orphans.is_empty();
    let goes_on = !gc.dry_run && !is_empty && confirm(gc, &candidates, orphans.len())?;
    let ended: Vec<EndedOrphan> = if goes_on {
        let end = |orphan: &Orphan| kill::end(root, &orphan.entry, false);
        orphans
            .iter()
            .map(|it| (it.clone(), Some(end(it))))
            .collect()
    } else {
        orphans.into_iter().map(|orphan| (orphan, None)).collect()
    };
    let report = goes_on.then(|| candidates.apply()).transpose()?;
    if gc.json {
        out.json(&json(gc, &candidates, &ended, report.as_ref()))?;
    } else if let Some(report) = &report {
        for (orphan, state) in &ended {
            if let Some(Ok(state)) = state {
                writeln!(out, "{} … {}", orphan.entry.id, state.word())?;
            }
        }
        let (count, bytes) = (report.removed.len(), size(report.bytes));
        writeln!(out, "removed {count}, {bytes}")?;
    }
    out.done()?;
    let failures = report.map(|report| report.failures).unwrap_or_default();
    for (id, error) in &failures {
        note(&clean(&format!("{id} is not removed: {error}")));
    }
    let mut has_failed = !failures.is_empty();
    for (orphan, state) in &ended {
        if let Some(Err(error)) = state {
            has_failed = true;
            note(&clean(&format!(
                "{} is not ended: {error}",
                orphan.entry.id
            )));
        }
    }
    if !has_failed {
        Ok(())
    } else {
        Err(Failure::Silent(FAILED))
    }
}

/// A task whose runner is gone, and how it was ended.
type EndedOrphan = (Orphan, Option<Result<AttemptState, TaskError>>);

fn policy(gc: &Gc) -> Result<GcPolicy, Failure> {
    let has_limit = gc.max_age.is_some() || gc.max_space.is_some() || gc.max_tasks.is_some();
    if !has_limit && gc.end_orphans.is_none() {
        return Err(Failure::usage(
            "no limit is given; add --max-age TIME, --max-space SIZE or --max-tasks N, or \
             --end-orphans TIME",
        ));
    }
    Ok(GcPolicy {
        max_age: gc.max_age,
        max_space: gc.max_space,
        max_tasks: gc.max_tasks,
        keep_logs: gc.keep_logs,
    })
}

fn print_orphans(out: &mut Output, orphans: &[Orphan], now: Wall) -> io::Result<()> {
    for orphan in orphans {
        let id = out.paint(Style::Strong, orphan.entry.id.as_str());
        let gone = span(between(orphan.since, now));
        writeln!(
            out,
            "{id}: its runner is gone, last seen {gone} ago; to be ended"
        )?;
    }
    Ok(())
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

fn confirm(gc: &Gc, candidates: &GcCandidates, orphans: usize) -> Result<bool, Failure> {
    if gc.yes {
        return Ok(true);
    }
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(
            "cannot ask for confirmation without a terminal; add -y to remove, or --dry-run to list",
        ));
    }
    let mut prompt = io::stderr();
    let ending = match orphans {
        0 => String::new(),
        count => format!("end {count} tasks and "),
    };
    write!(
        prompt,
        "{ending}remove {}? [y/N] ",
        size(candidates.bytes())
    )
    .and_then(|()| prompt.flush())?;
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
    orphans: Vec<JsonOrphan<'a>>,
    failed: Vec<JsonFailure<'a>>,
}

#[derive(Serialize)]
struct JsonTask<'a> {
    id: &'a str,
    reason: &'static str,
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
struct JsonOrphan<'a> {
    id: &'a str,
    since_ms: u64,
    state: Option<AttemptState>,
}

#[derive(Serialize)]
struct JsonFailure<'a> {
    id: &'a str,
    error: String,
}

fn json<'a>(
    gc: &Gc,
    candidates: &'a GcCandidates,
    ended: &'a [EndedOrphan],
    report: Option<&'a GcReport>,
) -> Json<'a> {
    let orphan = |(orphan, state): &'a EndedOrphan| JsonOrphan {
        id: orphan.entry.id.as_str(),
        since_ms: orphan.since.0,
        state: state
            .as_ref()
            .and_then(|state| state.as_ref().ok().copied()),
    };
    let not_ended = ended.iter().filter_map(|(orphan, state)| {
        let error = state.as_ref()?.as_ref().err()?.to_string();
        let id = orphan.entry.id.as_str();
        Some(JsonFailure { id, error })
    });
    let task = |task: &'a baton_runner::root::Removal| JsonTask {
        id: task.id.as_str(),
        reason: task.reason.into_str(),
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
        orphans: ended.iter().map(orphan).collect(),
        failed: failures
            .iter()
            .map(|(id, error)| JsonFailure {
                id: id.as_str(),
                error: error.to_string(),
            })
            .chain(not_ended)
            .collect(),
    }
}
