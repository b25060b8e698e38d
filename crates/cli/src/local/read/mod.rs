//! `baton local read`: the log of a task, or of its coordinator.

mod coordinator;

use std::io::Write;
use std::path::{Path, PathBuf};

use baton_model::state::AttemptState;
use baton_model::task::{Moment, PlanEvent, ProcessProgress};
use baton_observer::messages;
use baton_runner::log::{self, Damage, Kind, LogError};
use baton_runner::record::{Header, RunnerRecord, RunnerStart};
use baton_runner::root::{History, ReplayError, Root, RootError, Step};
use clap::Args;
use serde::Serialize;
use serde_json::Value;

use crate::output::{CommandResult, Failure, Output, Style, clean};
use crate::table::{Cell, Table};
use crate::text::count;
use crate::time::{between, now, since, span, stamp};

/// Print the log of a task
///
/// Prints the task's header, each event with its time, and the state of each process; with
/// --coordinator, what its coordinator has observed and the runner has not taken over yet. The log is
/// only read, so a running task can be read. If the log is damaged, everything before the damage
/// is printed, and the command exits with 1.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton local read nightly-20261115-120000-3f2a
  baton local read nightly --simple                 the records as they are, one a line
  baton local read nightly --coordinator
  baton local read ./checkpoints/nightly/runner --json | jq '.events[-1]'")]
pub(super) struct Read {
    /// Task id or a part of it; or the path of a log file, with a slash in it
    #[arg(value_name = "TASK|LOGFILE")]
    what: String,
    /// Read the log of the task's coordinator; a file is recognised by its header
    #[arg(long)]
    coordinator: bool,
    /// Print the records as they are: the number of each, and its JSON
    #[arg(long, conflicts_with = "json")]
    simple: bool,
    /// Print JSON: header, compacted, runner_starts, events, state, torn_bytes, damage; of a coordinator's
    /// log: records, torn_bytes, damage
    #[arg(long)]
    json: bool,
}

pub(super) fn run(read: &Read, root: impl FnOnce() -> Result<Root, Failure>) -> CommandResult {
    let path = log_path(read, root)?;
    let records = Records::load(&path)?;
    let mut out = Output::new();
    let damage = if read.simple {
        records.print_raw(&mut out)?;
        records.damage
    } else if records.kind == Kind::Coordinator {
        coordinator::print(&mut out, &records, read.json)?;
        records.damage
    } else {
        let log = RecoveredLog::load(&path)?;
        if read.json {
            out.json(&log.json())?;
        } else {
            print_events(&mut out, &log.history)?;
            print_summary(&mut out, &log)?;
        }
        log.damage
    };
    out.done()?;
    match damage {
        Some(damage) => Err(Failure::failed(format!(
            "the log is damaged; only the records before the damage are shown: {damage}"
        ))),
        None => Ok(()),
    }
}

/// The records of a log of either kind, up to the first damage.
struct Records {
    kind: Kind,
    first_sequence: u64,
    records: Vec<Value>,
    torn_bytes: u64,
    damage: Option<String>,
}

impl Records {
    fn load(path: &Path) -> Result<Self, Failure> {
        let (kind, read) = match log::salvage::<Value>(path, Kind::Runner) {
            Err(LogError::WrongKind {
                found: Some(found), ..
            }) => (found, log::salvage(path, found)),
            read => (Kind::Runner, read),
        };
        let (recovered, damage) =
            read.map_err(|error| Failure::failed(clean(&error.to_string())))?;
        Ok(Self {
            kind,
            first_sequence: recovered.first_sequence,
            records: recovered.records,
            torn_bytes: recovered.torn_bytes,
            damage: damage.map(|damage| clean(&damage.to_string())),
        })
    }

    fn print_raw(&self, out: &mut Output) -> CommandResult {
        for (record, number) in self.records.iter().zip(self.first_sequence..) {
            // JSON escapes control characters.
            writeln!(out, "{number:>6}  {}", serde_json::to_string(record)?)?;
        }
        Ok(())
    }
}

fn log_path(read: &Read, root: impl FnOnce() -> Result<Root, Failure>) -> Result<PathBuf, Failure> {
    let what = &*read.what;
    if what.contains('/') {
        return Ok(what.into());
    }
    let root = root()?;
    match root.find_one(what) {
        Ok(entry) if read.coordinator => Ok(root.coordinator_log(&entry.id)),
        Ok(entry) => Ok(root.runner_log(&entry.id)),
        Err(RootError::NoMatch { .. }) if Path::new(what).is_file() => Ok(what.into()),
        Err(error) => Err(error.into()),
    }
}

/// A log, up to the first damage.
struct RecoveredLog {
    history: History,
    torn_bytes: u64,
    damage: Option<String>,
}

impl RecoveredLog {
    fn load(path: &Path) -> Result<Self, Failure> {
        let (recovered, damage) = log::salvage::<RunnerRecord>(path, Kind::Runner)
            .map_err(|error| Failure::failed(clean(&error.to_string())))?;
        let cause = |damage: &Damage| clean(&damage.to_string());
        let damage = damage.as_ref().map(cause);
        let (history, replay_error) = History::replay(recovered.records).map_err(|error| {
            let damage = damage.as_ref().map(|damage| format!(": {damage}"));
            Failure::failed(format!("{error}{}", damage.unwrap_or_default()))
        })?;
        let replay_error = replay_error.as_ref().map(ReplayError::to_string);
        Ok(Self {
            history,
            torn_bytes: recovered.torn_bytes,
            // An event that does not fit comes before bytes that cannot be read.
            damage: replay_error.or(damage),
        })
    }

    fn json(&self) -> Json<'_> {
        let history = &self.history;
        Json {
            header: &history.header,
            compacted: history.compacted,
            runner_starts: history.runner_starts().collect(),
            events: history.events().collect(),
            state: history.plan.state(),
            torn_bytes: self.torn_bytes,
            damage: self.damage.as_deref(),
        }
    }
}

#[derive(Serialize)]
struct Json<'a> {
    header: &'a Header,
    compacted: bool,
    runner_starts: Vec<&'a RunnerStart>,
    events: Vec<&'a PlanEvent>,
    state: AttemptState,
    torn_bytes: u64,
    damage: Option<&'a str>,
}

fn print_events(out: &mut Output, history: &History) -> std::io::Result<()> {
    let header = &history.header;
    writeln!(
        out,
        "task {} began {} on {} by {}",
        out.paint(Style::Strong, &clean(&header.task_id)),
        stamp(header.began.wall),
        clean(&header.host),
        clean(&header.user)
    )?;
    writeln!(out, "sandbox {}", clean(&header.sandbox))?;
    if history.compacted {
        writeln!(
            out,
            "the earliest events were compacted; only their totals are known"
        )?;
    }
    for step in &history.steps {
        let (at, text) = match step {
            Step::RunnerStarted(start) => {
                (start.began, format!("a runner started, pid {}", start.pid))
            }
            Step::Event(event) => (event.at, messages::event(&history.plan, event)),
        };
        let time = times(header.began, at);
        writeln!(out, "{}  {text}", out.paint(Style::Faint, &time))?;
    }
    writeln!(out)
}

/// The wall-clock time, and the time since the task began.
fn times(began: Moment, at: Moment) -> String {
    let after = between(began.wall, at.wall);
    format!("{}  {:>12}", stamp(at.wall), since(after))
}

fn print_summary(out: &mut Output, log: &RecoveredLog) -> std::io::Result<()> {
    let history = &log.history;
    let now = history.now(now());
    let mut table = Table::default();
    for process in history.plan.processes(now) {
        let progress = process.progress;
        let wait = process.wait.as_ref();
        let wait = wait.map(|wait| messages::wait(&history.plan, wait, now));
        let last = progress.last.as_ref().map(messages::last);
        table.row([
            clean(&process.spec.name.0).into(),
            Cell::new(progress.state.word(), Style::of_process(progress.state)),
            tally(progress).into(),
            last.map_or_else(String::new, |last| format!("last: {last}"))
                .into(),
            wait.unwrap_or_default().into(),
        ]);
    }
    table.print(out)?;
    let state = history.plan.state();
    let painted = out.paint(Style::of_attempt(state), state.word());
    match history.ended() {
        Some(at) => {
            let took = span(between(history.header.began.wall, at.wall));
            writeln!(out, "{painted} after {took}")?;
        }
        None => writeln!(out, "{painted}")?,
    }
    if log.torn_bytes > 0 {
        writeln!(
            out,
            "the last {} bytes are a torn record, and are ignored",
            log.torn_bytes
        )?;
    }
    Ok(())
}

fn tally(progress: &ProcessProgress) -> String {
    let mut text = count(progress.runs, "run", "runs");
    for (number, word) in [
        (progress.successes, "good"),
        (progress.failures, "failed"),
        (progress.kills, "killed"),
        (progress.losses, "lost"),
    ] {
        if number > 0 {
            text += &format!(", {number} {word}");
        }
    }
    text
}
