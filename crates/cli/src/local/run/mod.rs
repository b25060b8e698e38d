//! `baton local run` and `simplerun`: a task right here, watched to its end.
//!
//! | file | shows it |
//! |---|---|
//! | `live` | on a terminal, a row for each process |
//! | `plain` | elsewhere, a line for each change |
//! | `json` | to a program, an object for each change |
//!
//! `outlet` never waits for who reads; `shown` brings the output of processes that log to the console; `summary` has the last
//! word. A reader that goes away does not end the task: only a signal does.

mod console;
mod json;
mod live;
mod nonblocking;
mod plain;
mod summary;

use std::path::PathBuf;

use baton_files::{Binding, Policy, Trigger};
use baton_model::state::AttemptState;
use baton_model::task::{CommandLine, LogDestination, Logger, ProcessSpec, Resources, TaskSpec};
use baton_model::time::Millis;
use baton_runner::root::{Root, TaskId};
use baton_runner::sys::random;
use baton_runner::task::{NewTask, Options, Task, TaskError, Watcher};
use clap::Args;

use super::binding::BindingArgs;
use crate::output::{CommandResult, FAILED, Failure, Output, USAGE, note};
use crate::time;

/// Killed by request.
const KILLED: u8 = 3;
/// What became of it cannot be proved.
const LOST: u8 = 4;
/// An error of Baton itself.
const INTERNAL: u8 = 5;

const RUN_EXAMPLES: &str = "\
Examples:
  baton local run report.yaml -p day=2026-11-15
  baton local run server.yaml --task-id web-1 -P http:8080
  baton local run --task-id web-1        go on with it, after whatever has happened

Exit status: 0 SUCCESS, 1 FAILED, 2 invalid, 3 KILLED, 4 LOST, 5 an error of Baton itself.
^C stops the task and runs its final processes; a second ^C kills it.";

/// Run a task here, and watch it to its end
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct Run {
    /// The file of the task; may be left out to go on with a task that was begun
    #[arg(required_unless_present = "task_id")]
    file: Option<PathBuf>,
    /// The id of the task; one that was begun before is gone on with [default: made up]
    #[arg(long, value_name = "ID")]
    task_id: Option<String>,
    /// Where it runs [default: a directory of its own below the root]
    #[arg(long, value_name = "DIR")]
    sandbox: Option<PathBuf>,
    #[command(flatten)]
    binding: BindingArgs,
    #[command(flatten)]
    args: RunArgs,
}

/// How a task is run and shown.
#[derive(Debug, Args)]
struct RunArgs {
    /// Print an object for each change, one on a line
    #[arg(long)]
    json: bool,
    /// Do without a cgroup, even where there could be one
    #[arg(long)]
    no_cgroup: bool,
}

const SIMPLERUN_EXAMPLES: &str = "\
Examples:
  baton local simplerun -- ./train.sh --epochs 3
  baton local simplerun --name nap -- 'sleep 3; echo done'     one word is a shell command";

/// Run one command as a task, and show its output
#[derive(Debug, Args)]
#[command(after_help = SIMPLERUN_EXAMPLES)]
pub(crate) struct SimpleRun {
    /// The name of the task
    #[arg(long, default_value = "simple")]
    name: String,
    /// The id of the task; one that was begun before is gone on with [default: made up]
    #[arg(long, value_name = "ID")]
    task_id: Option<String>,
    /// Run as this user
    #[arg(long)]
    user: Option<String>,
    /// A variable for the environment; may be repeated
    #[arg(short = 'E', long = "env", value_name = "NAME=VALUE", value_parser = super::binding::variable)]
    env: Vec<(String, String)>,
    #[command(flatten)]
    args: RunArgs,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

/// `baton local run`.
pub(super) fn run(command: &Run, root: &Root) -> CommandResult {
    let task_id = command.task_id.as_deref().map(TaskId::new).transpose()?;
    let options = options(&command.args);
    let task = match (&command.file, task_id) {
        (Some(file), id) => {
            let file = baton_files::load(file).map_err(Failure::usage)?;
            warn_about_ignored_fields(&file.policy);
            let id = id.unwrap_or_else(|| generate_id(file.name()));
            let binding = Binding {
                task_id: Some(id.as_str().to_owned()),
                ..command.binding.binding()?
            };
            let new = NewTask {
                spec: file.bind(&binding).map_err(Failure::usage)?,
                sandbox: command.sandbox.clone(),
                env: command.binding.env.clone(),
            };
            Task::begin(root, &id, new, &options)
        }
        (None, Some(id)) => Task::resume(root, &id, &options),
        // Clap asks for one of the two.
        (None, None) => return Err(Failure::usage("name a file, or a task with --task-id")),
    };
    drive(task, &command.args, root)
}

/// `baton local simplerun`.
pub(super) fn simplerun(command: &SimpleRun, root: &Root) -> CommandResult {
    let id = match &command.task_id {
        Some(id) => TaskId::new(id)?,
        None => generate_id(&command.name),
    };
    let run = match &command.command[..] {
        [line] => CommandLine::Shell(line.clone()),
        words => CommandLine::Exec(words.to_vec()),
    };
    let mut process = ProcessSpec::new(&command.name, run);
    process.logger = Some(Logger {
        destination: LogDestination::Both,
        ..Logger::default()
    });
    let spec = TaskSpec {
        name: command.name.clone(),
        owner: None,
        processes: vec![process],
        max_failures: 1,
        max_concurrency: 0,
        finalization_wait: Millis::from_secs(30),
        user: command.user.clone(),
        resources: Resources::default(),
        ports: std::collections::BTreeMap::new(),
    };
    let new = NewTask {
        spec,
        sandbox: None,
        env: command.env.clone(),
    };
    let task = Task::begin(root, &id, new, &options(&command.args));
    drive(task, &command.args, root)
}

fn drive(task: Result<Task, TaskError>, args: &RunArgs, root: &Root) -> CommandResult {
    let mut task = task.map_err(|error| failure(&error))?;
    let out = Output::new();
    let mut watcher: Box<dyn Watcher> = if args.json {
        Box::new(json::Json::new(out, task.header()))
    } else if out.terminal {
        Box::new(live::Live::new(out, task.header(), root))
    } else {
        Box::new(plain::Plain::new(out, task.header(), root))
    };
    let driven = task.drive(watcher.as_mut());
    drop(watcher);
    match driven {
        Ok(AttemptState::Success) => Ok(()),
        Ok(state) => Err(Failure::Silent(code(state))),
        Err(error) => {
            let id = &task.header().task_id;
            Err(Failure::Message(
                INTERNAL,
                format!(
                    "{error}\nbaton: nothing is lost: what runs goes on without us; when this is \
                     fixed, go on with `{}`",
                    super::resume_command_of(id)
                ),
            ))
        }
    }
}

/// The exit status that stands for the end of a task.
pub(crate) const fn code(state: AttemptState) -> u8 {
    match state {
        AttemptState::Success => 0,
        AttemptState::Failed => FAILED,
        AttemptState::Killed => KILLED,
        AttemptState::Lost => LOST,
        AttemptState::Active | AttemptState::Cleaning | AttemptState::Finalizing => INTERNAL,
    }
}

/// The exit status that stands for a task that could not be run.
pub(crate) fn failure_code(error: &TaskError) -> u8 {
    if error.is_invalid() { USAGE } else { INTERNAL }
}

/// Why a task could not be run, with its exit status.
pub(super) fn failure(error: &TaskError) -> Failure {
    Failure::Message(failure_code(error), error.to_string())
}

/// What a file asks of a scheduler nobody does here; that must not go unnoticed.
fn warn_about_ignored_fields(policy: &Policy) {
    let ignored = [
        ("trigger", policy.trigger != Trigger::default()),
        ("retry", policy.retry.attempts > 1),
        ("timeout", policy.timeout.is_some()),
        ("priority", policy.priority != 0),
        ("constraints", !policy.constraints.is_empty()),
        ("uris", !policy.uris.is_empty()),
    ];
    let ignored: Vec<&str> = ignored
        .into_iter()
        .filter_map(|(name, ignored)| ignored.then_some(name))
        .collect();
    if !ignored.is_empty() {
        note(&format!(
            "{} of the task: left to a scheduler, without effect here; processes have `timeout` \
             and `max_failures` of their own",
            ignored.join(", ")
        ));
    }
}

fn options(args: &RunArgs) -> Options {
    super::options(!args.no_cgroup)
}

fn generate_id(name: &str) -> TaskId {
    // Only to tell two of the same second apart.
    let random = u16::try_from(random::number() >> 48).unwrap_or_default();
    TaskId::generate(name, time::now(), random)
}
