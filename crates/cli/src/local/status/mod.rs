//! `baton local status`: the tasks of a root with their state.

mod details;

use std::io::Write;

use baton_agent::command_attempts;
use baton_model::time::Wall;
use baton_observer::status::{TaskStatus, counts, json, note_for};
use baton_runner::root::{Entry, Phase, Root, TaskView, find_roots, find_workers};
use baton_runner::sys::users;
use clap::{Args, ValueEnum};

use crate::output::{CommandResult, FAILED, Failure, Output, Style, clean, note};
use crate::table::{Cell, Table};
use crate::time::{between, now, span};

/// List tasks with their state
///
/// With --all, the tasks of every root on this host: the default roots, those of tasks that run, and
/// the attempts of workers that run; as root, those of all users.
///
/// A pattern is a task id, a prefix of one, or contains * and ?. Exits with 1 if a pattern matches
/// nothing, or if a task cannot be read.
///
/// With --json, an array of objects: id, root, phase (active, finished), state, driven, orphaned, name,
/// user, host, sandbox, ports, began_ms, ended_ms, duration_ms, torn_bytes, processes, error. Each
/// process: name, state, fate, runs, successes, failures, kills, losses, last_end, last (run,
/// exit_code, signal, started_ms, ended_ms), pid, wait, usage (run, wall_ms, cpu_ms, cpu_percent,
/// rss_bytes, rss_peak_bytes, threads, processes, read_bytes, written_bytes). Times are milliseconds
/// since 1970, in UTC. Unknown values are null.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton local status
  baton local status 'nightly-*' --only active -v
  sudo baton local status --all
  baton local status --json | jq '.[] | select(.orphaned) | .id'")]
pub(super) struct Status {
    /// Tasks to list [default: all]
    #[arg(value_name = "PATTERN")]
    patterns: Vec<String>,
    /// List only active or only finished tasks
    #[arg(long, value_enum, value_name = "WHICH")]
    only: Option<Only>,
    /// List the tasks of all roots on this host
    #[arg(long)]
    all: bool,
    /// Add the processes (-v), the environment (-vv), every run (-vvv)
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Only {
    Active,
    Finished,
}

pub(super) fn run(status: &Status, root: impl FnOnce() -> Result<Root, Failure>) -> CommandResult {
    let (listed, place) = if status.all {
        (
            of_host(status, root().ok().as_ref())?,
            "any root".to_owned(),
        )
    } else {
        let root = root()?;
        (of_root(status, &root)?, root.path().display().to_string())
    };
    let (mut out, now) = (Output::new(), now());
    if status.json {
        let tasks: Vec<json::Task> = listed.iter().map(|task| json::task(task, now)).collect();
        out.json(&tasks)?;
    } else if listed.is_empty() {
        note(&format!("no tasks in {place}"));
    } else {
        print(&mut out, &listed, status, now)?;
    }
    out.done()?;
    if listed.iter().all(|task| task.view.is_ok()) {
        Ok(())
    } else {
        Err(Failure::Silent(FAILED))
    }
}

/// The tasks of one root.
fn of_root(status: &Status, root: &Root) -> Result<Vec<TaskStatus>, Failure> {
    let tasks = chosen(status, root)?.into_iter();
    let status = |entry: Entry| TaskStatus {
        root: root.clone(),
        entry: entry.clone(),
        view: TaskView::load(root, entry),
    };
    Ok(tasks.map(status).collect())
}

/// The tasks of all roots on this host. Roots of others are read with care, and only as root.
fn of_host(status: &Status, own: Option<&Root>) -> Result<Vec<TaskStatus>, Failure> {
    let phase = status.only.map(Only::phase);
    let roots = find_roots(own, users::effective_uid() == 0);
    let mut listed = Vec::new();
    for root in &roots {
        let entries = root.list_guarded().into_iter();
        let entries = entries.filter(|entry| phase.is_none_or(|phase| entry.phase == phase));
        listed.extend(entries.map(|entry| TaskStatus {
            root: root.clone(),
            entry: entry.clone(),
            view: TaskView::load_guarded(root, entry),
        }));
    }
    for state in find_workers() {
        let root = Root::new(&state)?;
        let commands = command_attempts(&state).into_iter().map(|it| it.view);
        let commands = commands.filter(|it| phase.is_none_or(|phase| it.entry.phase == phase));
        listed.extend(commands.map(|view| TaskStatus {
            root: root.clone(),
            entry: view.entry.clone(),
            view: Ok(view),
        }));
    }
    let patterns = &status.patterns;
    listed
        .retain(|task| patterns.is_empty() || patterns.iter().any(|it| task.entry.id.matches(it)));
    if listed.is_empty() && !patterns.is_empty() {
        return Err(Failure::failed("no task of this host matches"));
    }
    Ok(listed)
}

impl Only {
    const fn phase(self) -> Phase {
        match self {
            Self::Active => Phase::Active,
            Self::Finished => Phase::Finished,
        }
    }
}

fn chosen(status: &Status, root: &Root) -> Result<Vec<Entry>, Failure> {
    let phase = status.only.map(Only::phase);
    let mut found = root.find(&status.patterns)?;
    found.retain(|entry| phase.is_none_or(|phase| entry.phase == phase));
    if found.is_empty()
        && !status.patterns.is_empty()
        && let Some(phase) = phase
    {
        let word = phase.into_str();
        return Err(Failure::failed(format!(
            "no matching task is {word}; omit --only to list all that match"
        )));
    }
    Ok(found)
}

fn print(
    out: &mut Output,
    tasks: &[TaskStatus],
    status: &Status,
    now: Wall,
) -> std::io::Result<()> {
    let verbose = status.verbose;
    let mut names = vec!["ID", "STATE", "PROCESSES", "AGE", "DURATION", "NOTE"];
    if status.all {
        names.splice(5..5, ["USER", "ROOT"]);
    }
    let mut table = Table::headed(&names);
    for task in tasks {
        let mut cells = line(task, now);
        if status.all {
            let user = task
                .view
                .as_ref()
                .map(|view| clean(&view.history.header.user));
            let user = user.unwrap_or_else(|_| "-".to_owned());
            let root = clean(&task.root.path().display().to_string());
            cells.splice(5..5, [user.into(), root.into()]);
        }
        table.row(cells);
    }
    let lines = table.lines(out);
    if verbose == 0 {
        return lines.iter().try_for_each(|line| writeln!(out, "{line}"));
    }
    let (head, rest) = lines.split_at(1);
    head.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    for (line, task) in rest.iter().zip(tasks) {
        writeln!(out, "{line}")?;
        if let Ok(view) = &task.view {
            details::print(out, view, verbose, now)?;
        }
    }
    Ok(())
}

fn line(task: &TaskStatus, now: Wall) -> Vec<Cell> {
    let id = Cell::new(task.entry.id.as_str(), Style::Strong);
    let view = match &task.view {
        Ok(view) => view,
        Err(error) => {
            let blank = || Cell::from("-");
            let reason = clean(&error.to_string());
            let state = Cell::new("UNREADABLE", Style::Bad);
            return vec![id, state, blank(), blank(), blank(), reason.into()];
        }
    };
    let began = view.history.header.began.wall;
    let ended = view.history.ended().map_or(now, |at| at.wall);
    let state = view.state();
    vec![
        id,
        Cell::new(state.word(), Style::of_attempt(state)),
        counts(&view.history.plan).into(),
        span(between(began, now)).into(),
        span(between(began, ended)).into(),
        Cell::new(note_for(&task.root, view), Style::Odd),
    ]
}
