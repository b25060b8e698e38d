//! `baton local run` and `simplerun`: a task in the foreground, watched to its end.
//!
//! | file | output |
//! |---|---|
//! | `live` | on a terminal, a row for each process |
//! | `plain` | elsewhere, a line for each event |
//! | `json` | with `--json`, an object for each event |
//!
//! `nonblocking` writes without waiting for the reader; `console` reads the output of processes
//! that log to the console; `summary` is printed at the end. A reader that closes the output does
//! not end the task: only a signal does.

mod console;
mod json;
mod live;
mod nonblocking;
mod plain;
mod summary;

use std::path::PathBuf;

use baton_files::{Binding, Policy, Trigger, units};
use baton_model::state::AttemptState;
use baton_model::task::{CommandLine, LogDestination, Logger, ProcessSpec, Resources, TaskSpec};
use baton_model::time::Millis;
use baton_runner::root::{Root, TaskId};
use baton_runner::sys::random;
use baton_runner::task::{NewTask, Options, Task, TaskError, Watcher};
use clap::Args;

use super::binding::BindingArgs;
use crate::output::{CommandResult, FAILED, Failure, INTERNAL, Output, USAGE, note};
use crate::time;

/// Exit status: the task was killed by request.
const KILLED: u8 = 3;
/// Exit status: the outcome of the task is unknown.
const LOST: u8 = 4;

const RUN_EXAMPLES: &str = "\
Examples:
  baton local run report.yaml -p day=2026-11-15
  baton local run server.yaml --task-id web-1 -P http:8080
  baton local run --task-id web-1        resume it, for example after a crash or a reboot

Exit status: 0 SUCCESS, 1 FAILED, 2 invalid file or options, 3 KILLED, 4 LOST, 5 internal error.
^C stops the task and runs its final processes; a second ^C kills it.";

/// Run a task on this host in the foreground
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub(crate) struct Run {
    /// Task file; not needed to resume a task
    #[arg(required_unless_present = "task_id")]
    file: Option<PathBuf>,
    /// Task id; a task with this id is resumed [default: generated]
    #[arg(long, value_name = "ID")]
    task_id: Option<String>,
    /// Working directory of the task [default: a new directory below the root]
    #[arg(long, value_name = "DIR")]
    sandbox: Option<PathBuf>,
    #[command(flatten)]
    binding: BindingArgs,
    #[command(flatten)]
    args: RunArgs,
}

/// Options of running and showing a task.
#[derive(Debug, Args)]
struct RunArgs {
    /// Print one JSON object per line for each event
    #[arg(long)]
    json: bool,
    /// Do not use a cgroup, even if one is available
    #[arg(long)]
    no_cgroup: bool,
    /// How long the coordinator may take to start a process, or to answer; then it is replaced, and
    /// a launch in flight counts as LOST and is tried again
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = units::duration)]
    launch_timeout: Millis,
}

const SIMPLERUN_EXAMPLES: &str = "\
Examples:
  baton local simplerun -- ./train.sh --epochs 3
  baton local simplerun --name nap -- 'sleep 3; echo done'     a single argument is a shell command";

/// Run one command as a task, and show its output
#[derive(Debug, Args)]
#[command(after_help = SIMPLERUN_EXAMPLES)]
pub(crate) struct SimpleRun {
    /// Name of the task
    #[arg(long, default_value = "simple")]
    name: String,
    /// Task id; a task with this id is resumed [default: generated]
    #[arg(long, value_name = "ID")]
    task_id: Option<String>,
    /// User to run the command as
    #[arg(long)]
    user: Option<String>,
    /// Environment variable; may be repeated
    #[arg(short = 'E', long = "env", value_name = "NAME=VALUE", value_parser = super::binding::variable)]
    env: Vec<(String, String)>,
    #[command(flatten)]
    args: RunArgs,
    /// Command and its arguments
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
            refuse_secrets(&file.policy)?;
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
                assigned_env: Vec::new(),
                secrets: None,
            };
            Task::begin(root, &id, new, &options)
        }
        (None, Some(id)) => Task::resume(root, &id, &options),
        // Unreachable: clap requires one of the two.
        (None, None) => return Err(Failure::usage("name a task file, or a task with --task-id")),
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
        assigned_env: Vec::new(),
        secrets: None,
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
                    "{error}\nbaton: nothing is lost, and running processes continue; fix the \
                     cause, then resume with `{}`",
                    baton_observer::resume::resume_command_of(root, id)
                ),
            ))
        }
    }
}

/// Exit status for the final state of a task.
pub(crate) const fn code(state: AttemptState) -> u8 {
    match state {
        AttemptState::Success => 0,
        AttemptState::Failed => FAILED,
        AttemptState::Killed => KILLED,
        AttemptState::Lost => LOST,
        AttemptState::Active | AttemptState::Cleaning | AttemptState::Finalizing => INTERNAL,
    }
}

/// Exit status for a task that could not be run.
pub(crate) fn failure_code(error: &TaskError) -> u8 {
    if error.is_invalid() { USAGE } else { INTERNAL }
}

/// Reports why a task could not be run, with the exit status.
pub(super) fn failure(error: &TaskError) -> Failure {
    Failure::Message(failure_code(error), error.to_string())
}

/// Warns about fields of the file that only a scheduler implements.
/// A task without the secrets that it names would fail in ways that tell nothing.
fn refuse_secrets(policy: &Policy) -> CommandResult {
    let Some(secret) = policy.secrets.first() else {
        return Ok(());
    };
    Err(Failure::usage(format!(
        "secrets of the task: a scheduler gives a task its secrets, such as `{}`; use `baton run --secrets-file FILE`, \
         or submit it",
        secret.name
    )))
}

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
            "{} of the task: only a scheduler implements this; it has no effect here. Processes \
             have their own `timeout` and `max_failures`",
            ignored.join(", ")
        ));
    }
}

fn options(args: &RunArgs) -> Options {
    super::resume::options(!args.no_cgroup, args.launch_timeout)
}

fn generate_id(name: &str) -> TaskId {
    // Distinguishes two ids generated in the same second.
    let random = u16::try_from(random::number() >> 48).unwrap_or_default();
    TaskId::generate(name, time::now(), random)
}
