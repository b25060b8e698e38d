//! `baton local kill`: ends tasks, with or without a running runner.

use baton_model::state::AttemptState;
use baton_runner::root::{Entry, Phase, Root, RootError, TaskId};
use baton_runner::sys::proc;
use baton_runner::task::{
    ControlReply, ControlRequest, LAUNCH_TIMEOUT, NoopWatcher, Task, TaskError,
    send_control_request,
};
use clap::Args;
use serde::Serialize;
use std::io::Write;

use crate::output::{CommandResult, FAILED, Failure, Output, Style, note};

const EXAMPLES: &str = "\
Examples:
  baton local kill web-1                stop it, run its final processes, and wait for that
  baton local kill 'nightly-*' --now    kill all processes of these tasks at once";

/// End tasks: stop their processes, then run their final processes
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Kill {
    /// Task ids, prefixes of ids, or patterns with * and ?
    #[arg(required = true, value_name = "PATTERN")]
    patterns: Vec<String>,
    /// Kill all processes at once, without running final processes
    #[arg(long)]
    now: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct KillResult {
    id: String,
    /// Final state; `None` if the task could not be ended.
    state: Option<AttemptState>,
    error: Option<String>,
}

/// Ends every matching task, one after another.
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
        writeln!(out, "nothing to kill: all matching tasks have ended")?;
    }
    let failed = killed.iter().any(|killed| killed.error.is_some());
    out.done()?;
    if failed {
        Err(Failure::Silent(FAILED))
    } else {
        Ok(())
    }
}

/// Asks the task's runner to end it, or takes over as its runner if there is none.
pub(super) fn end(root: &Root, entry: &Entry, now: bool) -> Result<AttemptState, TaskError> {
    // A runner may exit or start meanwhile; a few rounds are enough for that.
    for _ in 0..ROUNDS_MAX {
        let path = root.control_socket(&entry.id);
        let reply = send_control_request(&path, ControlRequest::Kill { now }, &mut |pid| {
            report_runner(&entry.id, pid)
        });
        if let Ok(Some(ControlReply::Ended(state))) = reply {
            return Ok(state);
        }
        match Task::resume(
            root,
            &entry.id,
            &super::resume::options(true, LAUNCH_TIMEOUT),
        ) {
            Ok(mut task) => {
                task.kill(now);
                return task.drive(&mut NoopWatcher);
            }
            Err(TaskError::Root(RootError::Driven(_))) => {}
            Err(error) if is_without_log(&error) => {
                note(&format!("{error}"));
                note("all its processes are killed, and no final processes run");
                return Task::abandon(root, entry, &super::resume::options(true, LAUNCH_TIMEOUT));
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

/// Reports which runner the command is waiting for.
fn report_runner(id: &TaskId, pid: u32) {
    let state = match proc::stat(pid) {
        Ok(Some(stat)) if matches!(stat.state, b'T' | b't') => {
            format!(
                "is stopped (SIGSTOP); continue it with `kill -CONT {pid}`, or run `kill -9 {pid}` \
                 and this command again"
            )
        }
        _ => "is still ending the task".to_owned(),
    };
    note(&format!("the runner of {id}, pid {pid}, {state}"));
}
