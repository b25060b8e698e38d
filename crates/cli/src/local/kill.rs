//! `baton local kill`: the end of tasks, whether somebody drives them or not.

use baton_model::state::AttemptState;
use baton_runner::root::{Entry, Phase, Root, RootError, TaskId};
use baton_runner::sys::proc;
use baton_runner::task::{
    ControlReply, ControlRequest, NoopWatcher, Task, TaskError, send_control_request,
};
use clap::Args;
use serde::Serialize;
use std::io::Write;

use crate::output::{CommandResult, FAILED, Failure, Output, Style, note};

const EXAMPLES: &str = "\
Examples:
  baton local kill web-1             stop it, run its final processes, and wait for that
  baton local kill 'nightly-*' --now kill everything of these at once";

/// End tasks: stop what runs, then run the final processes
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Kill {
    /// Which: ids, their beginnings, or patterns with * and ?
    #[arg(required = true, value_name = "PATTERN")]
    patterns: Vec<String>,
    /// Kill at once, without final processes
    #[arg(long)]
    now: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct KillResult {
    id: String,
    /// The state in which it ended; none if it could not be ended.
    state: Option<AttemptState>,
    error: Option<String>,
}

/// Ends every task that matches, one after the other.
pub(super) fn run(command: &Kill, root: &Root) -> CommandResult {
    let entries = root.find(&command.patterns)?;
    let mut out = Output::new();
    let mut killed = Vec::new();
    for entry in entries.iter().filter(|entry| entry.phase == Phase::Active) {
        if !command.json {
            write!(out, "{} … ", entry.id)?;
            out.flush()?;
        }
        let result = match end(root, entry, command.now) {
            Ok(state) => KillResult {
                id: entry.id.to_string(),
                state: Some(state),
                error: None,
            },
            Err(error) => KillResult {
                id: entry.id.to_string(),
                state: None,
                error: Some(error.to_string()),
            },
        };
        if !command.json {
            match (&result.state, &result.error) {
                (Some(state), _) => {
                    let word = out.paint(Style::of_attempt(*state), state.word());
                    writeln!(out, "{word}")?;
                }
                (None, error) => writeln!(out, "{}", error.as_deref().unwrap_or_default())?,
            }
        }
        killed.push(result);
    }
    if command.json {
        out.json(&killed)?;
    } else if killed.is_empty() {
        writeln!(out, "nothing to kill: all of them have ended")?;
    }
    let failed = killed.iter().any(|killed| killed.error.is_some());
    out.done()?;
    if failed {
        Err(Failure::Silent(FAILED))
    } else {
        Ok(())
    }
}

/// Asks the runner of a task, or becomes it where there is none.
fn end(root: &Root, entry: &Entry, now: bool) -> Result<AttemptState, TaskError> {
    // A runner may die or come while we look: a few rounds are enough for that.
    for _ in 0..ROUNDS_MAX {
        let path = root.control_socket(&entry.id);
        let told = send_control_request(&path, ControlRequest::Kill { now }, &mut |pid| {
            report_runner(&entry.id, pid)
        });
        if let Ok(Some(ControlReply::Ended(state))) = told {
            return Ok(state);
        }
        match Task::resume(root, &entry.id, &super::options(true)) {
            Ok(mut task) => {
                task.kill(now);
                return task.drive(&mut NoopWatcher);
            }
            Err(TaskError::Root(RootError::Driven(_))) => {}
            Err(error) if is_without_log(&error) => {
                note(&format!("{error}"));
                note("so no final processes run; everything of it is killed");
                return Task::abandon(root, entry, &super::options(true));
            }
            Err(error) => return Err(error),
        }
    }
    Err(TaskError::Root(RootError::Driven(entry.id.clone())))
}

const ROUNDS_MAX: u32 = 5;

/// True if the log of the task is lost or damaged.
const fn is_without_log(error: &TaskError) -> bool {
    matches!(
        error,
        TaskError::NoLog(_) | TaskError::Log(_) | TaskError::Replay(_) | TaskError::Plan(_)
    )
}

/// Nobody waits in silence.
fn report_runner(id: &TaskId, pid: u32) {
    let state = match proc::stat(pid) {
        Ok(Some(stat)) if matches!(stat.state, b'T' | b't') => {
            format!(
                "is stopped; let it go on with `kill -CONT {pid}`, or `kill -9 {pid}` and kill again"
            )
        }
        _ => "has not ended the task yet".to_owned(),
    };
    note(&format!("the runner of {id}, pid {pid}, {state}"));
}
