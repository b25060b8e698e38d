//! `baton run`: a task or workflow on this host, with its own scheduler and worker.
//!
//! | file | holds |
//! |---|---|
//! | `live` | the output of the task |
//! | `program` | a command in the place of a file, which is refused |
//! | `workflow` | the same for a workflow: a run instead of an instance |
//!
//! [`baton_embedded`] holds the scheduler, the worker and the data directory.

mod live;
mod program;
mod workflow;

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::{Duration, Instant};

use baton_client::Client;
use baton_embedded::{RunDirectory, io_failure, supervise, worker_state};
use baton_files::{AnyFile, Binding, TaskFile};
use baton_model::api::{Instance, Submit};
use baton_model::hex::hex;
use baton_model::ids::InstanceId;
use baton_model::json;
use baton_model::outcome::KillMode;
use baton_model::spec::Work;
use baton_model::state::UniversalState;
use baton_model::time::Wall;
use baton_store::data_dir;
use clap::Args;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::connection::{accepted_instance, block_on, refused};
use crate::ids;
use crate::local::{pair, params};
use crate::output::{CommandResult, Failure, Output, clean, note};
use crate::painter::Progress;
use crate::remote::waiting::{self, describe_state};
use crate::time::{now, span, stamp};
use live::Live;

/// Timeout of one long-poll request; short enough to refresh the progress line.
const LONG_POLL: Duration = Duration::from_secs(1);
/// Interval at which new output is printed.
const PRINT_INTERVAL: Duration = Duration::from_millis(100);
/// An instance that is queued for longer is explained.
const EXPLAIN_AFTER: Duration = Duration::from_secs(3);
/// Lines shown of each stream from before this command started.
const LINES_BEFORE: usize = 20;
/// Hex digits of a hash that identify a file.
const HASH_DIGITS: usize = 16;

const EXAMPLES: &str = "\
Examples:
  baton run report.yaml -p day=2026-11-15
  baton run report.yaml              repeated: resume it, try it again if it has failed, or replay it
  baton run report.yaml --again      start from the beginning
  baton run report.yaml --quiet      without its output
  baton run etl.yaml                 a workflow
  baton run etl.yaml --quiet --json | jq .items

Exit status: 0 DONE; the exit code of the command, if it exited with one; 130 cancelled, or ended
with ^C; 1 failed otherwise; 2 a file with errors; 3, 5 an internal error of Baton.
^C stops the task; repeating the command resumes it with a new attempt. A second ^C does not wait.";

/// Run a task or a workflow on this host, and wait for it
///
/// Starts its own scheduler and worker; none need to be running. If the command is killed, repeating
/// it resumes the same instance or run. A task that has failed is tried again; of a workflow that has
/// failed or was halted, everything that is not DONE runs, and changed tasks run again with
/// everything downstream. The output of a task that is DONE is replayed. `baton show`, `explain` and
/// `logs` with --data look into the data directory afterwards.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Run {
    /// Task or workflow file
    #[arg(required_unless_present = "command")]
    file: Option<PathBuf>,
    /// Refused, with a hint: only files are run
    #[arg(last = true, value_name = "CMD", hide = true, conflicts_with = "file")]
    command: Vec<String>,
    /// Value of a parameter; may be repeated
    #[arg(short = 'p', long = "param", value_name = "NAME=VALUE", value_parser = pair)]
    params: Vec<(String, String)>,
    /// Data directory of the run [default: a directory per file below .baton/run]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// File (YAML, TOML or JSON) of the secrets that its tasks are given: in files, in variables of this
    /// command, or by a program
    #[arg(long, value_name = "FILE")]
    secrets_file: Option<PathBuf>,
    /// Start from the beginning, even if an earlier run has not ended
    #[arg(long)]
    again: bool,
    /// Show only the outcome: neither output nor progress
    #[arg(short, long)]
    quiet: bool,
    /// Print the ended run or instance as JSON; the output of a task is not shown
    #[arg(long)]
    json: bool,
}

/// The submission of this command.
enum Submission {
    Task(TaskSubmission),
    Workflow(workflow::WorkflowSubmission),
}

/// The submission of a task.
struct TaskSubmission {
    /// The task has more than one process.
    several: bool,
    submit: Submit<serde_json::Value>,
    /// Hash of the task and its parameters.
    hash: String,
}

pub(crate) fn run(command: &Run) -> CommandResult {
    let Some(file) = &command.file else {
        return Err(program::refuse(&command.command));
    };
    let submission = match program::load(file)? {
        AnyFile::Task(file) => Submission::Task(task_submission(command, &file)?),
        AnyFile::Workflow(file) => {
            Submission::Workflow(workflow::submission(&file, &command.params)?)
        }
    };
    let data = match &command.data {
        Some(data) => data.clone(),
        None => default_data(file)?,
    };
    let secrets = command
        .secrets_file
        .as_deref()
        .map(secrets_file)
        .transpose()?;
    // For commands to copy: as the user would write it.
    let shown = workflow::word(&data.display().to_string());
    data_dir::open_with_worker(&data).map_err(Failure::data_dir)?;
    // The children get an absolute path.
    let data = fs::canonicalize(&data).map_err(|error| io_failure(&data, &error))?;
    let directory = RunDirectory::open(&data)?;
    // On this thread, the only one: see `supervise`.
    block_on(supervise(&data, secrets.as_deref(), async |client| {
        let worker = worker_state(&data);
        watch(command, &submission, &directory, client, (&worker, &shown)).await
    }))
}

/// The file of sources of secrets, whose errors are told before anything starts.
fn secrets_file(path: &Path) -> Result<PathBuf, Failure> {
    baton_files::load_secret_sources(path).map_err(Failure::usage)?;
    fs::canonicalize(path).map_err(|error| io_failure(path, &error))
}

fn task_submission(command: &Run, file: &TaskFile) -> Result<TaskSubmission, Failure> {
    let submit = Submit {
        file: file.to_json(),
        params: params(&command.params)?,
        array: None,
        ..Default::default()
    };
    // Errors in parameters are reported before anything is started.
    let binding = Binding {
        params: submit.params.clone(),
        nominal_time: Some(now()),
        ..Binding::default()
    };
    let spec = file.instance(&binding).map_err(Failure::usage)?;
    let text = serde_json::to_string(&submit)?;
    Ok(TaskSubmission {
        several: matches!(&spec.work, Work::Task(task) if task.processes.len() > 1),
        submit,
        hash: hash(text.as_bytes()),
    })
}

fn hash(bytes: &[u8]) -> String {
    let mut hex = hex(Sha256::digest(bytes));
    hex.truncate(HASH_DIGITS);
    hex
}

fn default_data(file: &Path) -> Result<PathBuf, Failure> {
    use std::os::unix::ffi::OsStrExt;
    let file = fs::canonicalize(file).map_err(|error| io_failure(file, &error))?;
    let hash = hash(file.as_os_str().as_bytes());
    Ok(Path::new(".baton/run").join(hash))
}

async fn watch(
    command: &Run,
    submission: &Submission,
    directory: &RunDirectory,
    client: &Client,
    (worker, shown): (&Path, &str),
) -> CommandResult {
    let submission = match submission {
        Submission::Task(submission) => submission,
        Submission::Workflow(submission) => {
            return workflow::watch(command, submission, directory, client, shown).await;
        }
    };
    let (id, known) = choose(command, submission, directory, client).await?;
    let before = client.instance(id).await.map_err(refused)?;
    let has_failed = known && is_retried(before.state);
    let earlier = known.then_some(if has_failed { 0 } else { LINES_BEFORE });
    let quiet = command.quiet || command.json;
    // Before a retry: what is written from now on is new.
    let live = if quiet {
        Live::quiet()
    } else {
        Live::new(worker, id, submission.several, earlier)
    };
    if has_failed {
        client.retry(id).await.map_err(refused)?;
    }
    if known {
        note(&describe_earlier(&before));
    }
    let instance = follow(client, id, command.quiet, live).await?;
    let more = match instance.state {
        UniversalState::Done => String::new(),
        _ => format!("; more: baton show {id} --data {shown}"),
    };
    note(&format!("{}{more}", describe_end(&instance)));
    if quiet {
        waiting::print_tail(&instance);
    }
    if command.json {
        print(&instance)?;
    }
    match waiting::exit_code(&instance) {
        0 => Ok(()),
        code => Err(Failure::Silent(code)),
    }
}

const fn is_retried(state: UniversalState) -> bool {
    matches!(state, UniversalState::Failed | UniversalState::Halted)
}

/// What happens to an instance of an earlier command.
fn describe_earlier(before: &Instance) -> String {
    let (id, state) = (clean(&before.id), before.state);
    if is_retried(state) {
        format!("{id} was {state}; trying it again")
    } else if state.is_terminal() {
        let ended = stamp(Wall(before.changed_at));
        format!("replayed from an earlier run: {id} is {state} since {ended}; --again runs it anew")
    } else {
        format!("resuming {}", describe_state(before))
    }
}

/// Prints the result as JSON.
fn print(value: &impl Serialize) -> CommandResult {
    let mut out = Output::new();
    out.json(value)?;
    out.done()
}

/// Finds or submits the instance; returns true if an earlier command submitted it.
async fn choose(
    command: &Run,
    submission: &TaskSubmission,
    directory: &RunDirectory,
    client: &Client,
) -> Result<(InstanceId, bool), Failure> {
    let send = async |body, key: &str| send(client, body, key).await;
    let Some((id, hash)) = directory.earlier(send).await? else {
        return submit(submission, directory, client).await;
    };
    let id = InstanceId(id);
    let instance = match client.instance(id).await {
        Ok(instance) => instance,
        Err(error) if error.is_not_found() => {
            return submit(submission, directory, client).await;
        }
        Err(error) => return Err(refused(error)),
    };
    let over = instance.state.is_terminal();
    if hash == submission.hash && !command.again {
        return Ok((id, true));
    }
    if !over && !command.again {
        return Err(Failure::usage(format!(
            "the file or its parameters have changed, but {id} has not ended; undo the change \
             to resume it, or start from the beginning with --again"
        )));
    }
    if !over {
        client
            .cancel(
                ids::span(&id.to_string()).map_err(Failure::usage)?,
                KillMode::Graceful,
            )
            .await
            .map_err(refused)?;
    }
    submit(submission, directory, client).await
}

async fn submit(
    submission: &TaskSubmission,
    directory: &RunDirectory,
    client: &Client,
) -> Result<(InstanceId, bool), Failure> {
    let send = async |body, key: &str| send(client, body, key).await;
    let sent = directory.submit(&submission.submit, &submission.hash, send);
    Ok((InstanceId(sent.await?), false))
}

async fn send(client: &Client, body: serde_json::Value, key: &str) -> Result<u64, Failure> {
    let submit: Submit<serde_json::Value> = json::from_value(&body)?;
    let submitted = client.submit_once(&submit, key).await.map_err(refused)?;
    Ok(accepted_instance(&submitted.first)?.0)
}

/// Shows progress and output until the instance has ended. If it is queued for long, the reason is
/// printed once.
async fn follow(
    client: &Client,
    id: InstanceId,
    quiet: bool,
    mut live: Live,
) -> Result<Instance, Failure> {
    let began = Instant::now();
    let mut progress = Progress::new();
    let mut waits = Some(began).filter(|_| !quiet);
    loop {
        let instance = wait_and_print(client, id, &mut live, &mut progress).await?;
        if instance.state.is_terminal() {
            // The rest of its output.
            while live.print_new(&mut progress) {
                tokio::task::yield_now().await;
            }
            live.finish(&mut progress);
            return Ok(instance);
        }
        if quiet {
            continue;
        }
        waiting::show_state(&mut progress, &instance, began);
        let long = waits.is_some_and(|since| since.elapsed() > EXPLAIN_AFTER);
        if instance.state != UniversalState::Queued {
            waits = None;
        } else if long {
            let explanation = client.explain(id).await.map_err(refused)?;
            progress.note(&format!("{id} {}", clean(&explanation.text)));
            waits = None;
        }
    }
}

/// Waits until the instance has ended or the long poll times out, and prints output meanwhile.
async fn wait_and_print(
    client: &Client,
    id: InstanceId,
    live: &mut Live,
    progress: &mut Progress,
) -> Result<Instance, Failure> {
    // A temporary failure of the store must not end the work.
    let unreachable = Cell::new(None);
    let mut waiting = pin!(waiting::retry_while_unreachable(
        |text| unreachable.set(Some(text.to_owned())),
        || client.wait(id, LONG_POLL)
    ));
    loop {
        tokio::select! {
            biased;
            instance = &mut waiting => return instance.map_err(refused),
            () = tokio::time::sleep(PRINT_INTERVAL) => {
                live.print_new(progress);
                if let Some(text) = unreachable.take() {
                    progress.note(&text);
                }
            }
        }
    }
}

fn describe_end(instance: &Instance) -> String {
    let mut text = format!("{} {}", clean(&instance.id), instance.state);
    if let Some(end) = &instance.end_text {
        text.push_str(&format!(": {}", clean(end)));
    }
    if let Some(seconds) = instance.elapsed_seconds {
        let elapsed = crate::views::rows::millis(seconds);
        text.push_str(&format!(", after {}", span(elapsed)));
    }
    if instance.attempts > 1 {
        text.push_str(&format!(", attempt {}", instance.attempts));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::rows::tests::fresh;

    #[test]
    fn the_end_is_told_in_a_line() {
        let instance = Instance {
            state: UniversalState::Failed,
            end_text: Some("exit 7".to_owned()),
            elapsed_seconds: Some(2.5),
            attempts: 3,
            ..fresh("i1")
        };
        assert_eq!(
            describe_end(&instance),
            "i1 FAILED: exit 7, after 2.5s, attempt 3"
        );
    }

    #[test]
    fn two_files_have_two_places_and_one_has_one() {
        assert_eq!(hash(b"a"), hash(b"a"));
        assert_ne!(hash(b"a"), hash(b"b"));
        assert_eq!(hash(b"a").len(), HASH_DIGITS);
    }
}
