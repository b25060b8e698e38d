//! `baton run`: a task here, with a scheduler and a worker of its own.
//!
//! | file | holds |
//! |---|---|
//! | `children` | the scheduler and the worker, as child processes |
//! | `memory` | which instance this is, across our own deaths |
//! | `live` | what the task prints |
//! | `workflow` | the same for a workflow: a run instead of an instance |
//!
//! The scheduler and the worker are those of a cluster, only their ports and their data
//! are nobody else's. The instance lives in the scheduler's store: whoever runs the same
//! file again goes on with it. So nothing here needs to be careful, but for one moment:
//! see `memory`.

mod children;
mod live;
mod record;
mod workflow;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::{Duration, Instant};

use baton_client::Client;
use baton_files::{AnyFile, Binding, TaskFile};
use baton_model::api::{Instance, Submit};
use baton_model::ids::InstanceId;
use baton_model::spec::Work;
use baton_model::state::UniversalState;
use baton_model::time::Millis;
use clap::Args;
use rustix::process::Signal;
use serde::Serialize;
use sha2::{Digest, Sha256};

pub(crate) use children::{TETHER, tether};

use crate::local::{pair, params};
use crate::output::{CommandResult, Failure, Output, clean, note};
use crate::remote::waiting::{self, CANCELLED, ProgressLine, describe_state};
use crate::remote::{REFUSED, block_on, ids, refused};
use crate::scheduler::Interrupts;
use crate::time::span;
use children::Children;
use live::Live;
use record::{RunDirectory, RunRecord};

/// An error of Baton itself.
const INTERNAL: u8 = 5;
/// How long the scheduler is asked to wait at a time: often enough for a picture.
const LONG_POLL: Duration = Duration::from_secs(1);
/// Between two looks at what is printed.
const PRINT_INTERVAL: Duration = Duration::from_millis(100);
/// What waits for longer than this is explained.
const EXPLAIN_AFTER: Duration = Duration::from_secs(3);
/// Digits of a hash that tell two files apart.
const HASH_DIGITS: usize = 16;

const EXAMPLES: &str = "\
Examples:
  baton run report.yaml -p day=2026-11-15
  baton run report.yaml              the same again: goes on with it, or says how it ended
  baton run report.yaml --again      from the beginning
  baton run report.yaml --quiet      without what it prints
  baton run etl.yaml                 a workflow
  baton run etl.yaml --quiet --json | jq .items

Exit status: 0 DONE; the exit code of the command, if it exited with one; 130 cancelled, or ended
with ^C; 1 failed otherwise; 2 a file with errors; 3, 5 an error of Baton itself.
^C stops the task; run again, it goes on with a new attempt. A second ^C does not wait for it.";

/// Run a task or a workflow here, with a scheduler and a worker of its own
///
/// Killed and run again, it goes on with the same instance or run. Of a workflow that had failed or
/// was halted, what is not DONE runs; and what has changed in its file, with all that comes after it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Run {
    /// The file of the task or workflow
    file: PathBuf,
    /// A parameter instead of its default; may be repeated
    #[arg(short = 'p', long = "param", value_name = "NAME=VALUE", value_parser = pair)]
    params: Vec<(String, String)>,
    /// Where the run is kept [default: a directory of its own below .baton/run]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Start afresh, even if an earlier run has not ended
    #[arg(long)]
    again: bool,
    /// Show nothing but the end: not what it prints, and not how it goes
    #[arg(short, long)]
    quiet: bool,
    /// At the end, print the run or instance as JSON; what a task prints is not shown
    #[arg(long)]
    json: bool,
}

/// What is to be run.
enum Submission {
    Task(TaskSubmission),
    Workflow(workflow::WorkflowSubmission),
}

/// A task that is to be run.
struct TaskSubmission {
    /// It has more than one process.
    several: bool,
    submit: Submit<serde_json::Value>,
    /// Of the task and its parameters.
    hash: String,
}

pub(crate) fn run(command: &Run) -> CommandResult {
    let submission = match baton_files::load_any(&command.file).map_err(Failure::usage)? {
        AnyFile::Task(file) => Submission::Task(task_submission(command, &file)?),
        AnyFile::Workflow(file) => {
            Submission::Workflow(workflow::submission(&file, &command.params)?)
        }
    };
    let data = match &command.data {
        Some(data) => data.clone(),
        None => default_data(&command.file)?,
    };
    fs::create_dir_all(&data).map_err(|error| io_failure(&data, &error))?;
    // The directory may be named from anywhere, and the children are given it.
    let data = fs::canonicalize(&data).map_err(|error| io_failure(&data, &error))?;
    let directory = RunDirectory::open(&data)?;
    // The children are bound to this thread, and it is the first and only one.
    block_on(supervise(command, &submission, &directory, &data))
}

fn task_submission(command: &Run, file: &TaskFile) -> Result<TaskSubmission, Failure> {
    let submit = Submit {
        file: file.to_json(),
        params: params(&command.params)?,
        array: None,
    };
    // What is wrong with the parameters is told before anything is started.
    let binding = Binding {
        params: submit.params.clone(),
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
    let digest = Sha256::digest(bytes);
    let mut hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    hex.truncate(HASH_DIGITS);
    hex
}

fn default_data(file: &Path) -> Result<PathBuf, Failure> {
    use std::os::unix::ffi::OsStrExt;
    let file = fs::canonicalize(file).map_err(|error| io_failure(file, &error))?;
    let hash = hash(file.as_os_str().as_bytes());
    Ok(Path::new(".baton/run").join(hash))
}

fn io_failure(path: &Path, error: &io::Error) -> Failure {
    Failure::Message(
        INTERNAL,
        format!("{}: {error}", clean(&path.display().to_string())),
    )
}

/// Starts the children, watches the work, and ends the children, however that went.
async fn supervise(
    command: &Run,
    submission: &Submission,
    directory: &RunDirectory,
    data: &Path,
) -> CommandResult {
    let mut interrupts = Interrupts::new()?;
    let mut children = tokio::select! {
        children = Children::start(data) => children?,
        () = interrupts.next() => return Err(Failure::Silent(CANCELLED)),
    };
    let client = children.client.clone();
    let worker = children::worker_state(data);
    let result = tokio::select! {
        result = watch(command, submission, directory, &client, &worker) => result,
        failure = children.supervise() => Err(failure),
        () = interrupts.next() => {
            note("stopping; run again to go on. ^C again does not wait");
            Err(Failure::Silent(CANCELLED))
        }
    };
    // A scheduler that does not answer because it is gone has said why.
    let result = match result {
        Err(Failure::Message(REFUSED, message)) => Err(tokio::select! {
            failure = children.supervise() => failure,
            () = tokio::time::sleep(LONG_POLL) => Failure::Message(REFUSED, message),
        }),
        result => result,
    };
    tokio::select! {
        () = children.end() => {}
        () = interrupts.next() => children.signal(Signal::KILL),
    }
    result
}

async fn watch(
    command: &Run,
    submission: &Submission,
    directory: &RunDirectory,
    client: &Client,
    worker: &Path,
) -> CommandResult {
    let submission = match submission {
        Submission::Task(submission) => submission,
        Submission::Workflow(submission) => {
            return workflow::watch(command, submission, directory, client, worker).await;
        }
    };
    let (id, known) = choose(command, submission, directory, client).await?;
    let before = client.instance(id).await.map_err(refused)?;
    if known && before.state.is_terminal() {
        note(&format!(
            "{id} is over since an earlier run; run with --again to start afresh"
        ));
    } else if known {
        note(&format!("going on with {}", describe_state(&before)));
    }
    let live = if command.quiet || command.json {
        Live::quiet()
    } else {
        Live::new(worker, id, submission.several, known)
    };
    let instance = follow(client, id, command.quiet, live).await?;
    note(&describe_end(&instance));
    if command.json {
        print(&instance)?;
    }
    match waiting::exit_code(&instance) {
        0 => Ok(()),
        code => Err(Failure::Silent(code)),
    }
}

/// The end, for programs.
fn print(value: &impl Serialize) -> CommandResult {
    let mut out = Output::new();
    out.json(value)?;
    out.done()
}

/// The instance of this run, and whether an earlier one began it.
async fn choose(
    command: &Run,
    submission: &TaskSubmission,
    directory: &RunDirectory,
    client: &Client,
) -> Result<(InstanceId, bool), Failure> {
    let Some(record) = directory.read()? else {
        return submit(submission, directory, client, 0).await;
    };
    let above = record.instance.unwrap_or(record.above);
    if let Some((id, instance)) = find_earlier(client, &record).await? {
        let over = instance.state.is_terminal();
        let same = record.hash == submission.hash;
        if same && !command.again {
            directory.write(&RunRecord {
                instance: Some(id.0),
                ..record
            })?;
            return Ok((id, true));
        }
        if !over && !command.again {
            return Err(Failure::usage(format!(
                "the file or its parameters have changed since {id} began, which is not over; \
                 undo the change to go on with it, or start afresh with --again"
            )));
        }
        if !over {
            client
                .cancel(ids::span(&id.to_string()).map_err(Failure::usage)?)
                .await
                .map_err(refused)?;
        }
        return submit(submission, directory, client, id.0).await;
    }
    submit(submission, directory, client, above).await
}

/// What an earlier run has begun, if it came that far.
async fn find_earlier(
    client: &Client,
    record: &RunRecord,
) -> Result<Option<(InstanceId, Instance)>, Failure> {
    // Ids count up, and nobody else submits: the one that was being submitted is the next.
    let id = InstanceId(record.instance.unwrap_or(record.above + 1));
    match client.instance(id).await {
        Ok(instance) => Ok(Some((id, instance))),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(refused(error)),
    }
}

async fn submit(
    submission: &TaskSubmission,
    directory: &RunDirectory,
    client: &Client,
    above: u64,
) -> Result<(InstanceId, bool), Failure> {
    let mut record = RunRecord {
        instance: None,
        above,
        hash: submission.hash.clone(),
    };
    directory.write(&record)?;
    let submitted = client.submit(&submission.submit).await.map_err(refused)?;
    let id = ids::instance(&submitted.first).map_err(|_| {
        let first = clean(&submitted.first);
        Failure::Message(INTERNAL, format!("the scheduler calls it `{first}`"))
    })?;
    record.instance = Some(id.0);
    directory.write(&record)?;
    Ok((id, false))
}

/// Tells how it stands and what it prints until it is over; what waits for long is explained
/// once.
async fn follow(
    client: &Client,
    id: InstanceId,
    quiet: bool,
    mut live: Live,
) -> Result<Instance, Failure> {
    let began = Instant::now();
    let mut progress = ProgressLine::new();
    let mut waits = Some(began).filter(|_| !quiet);
    loop {
        let instance = wait_and_print(client, id, &mut live, &mut progress).await?;
        if instance.state.is_terminal() {
            // By now it has printed everything.
            while live.print_new(&mut progress) {
                tokio::task::yield_now().await;
            }
            live.finish(&mut progress);
            return Ok(instance);
        }
        if quiet {
            continue;
        }
        let elapsed = span(Millis::from_secs(began.elapsed().as_secs()));
        progress.update(&describe_state(&instance), &format!(", {elapsed}"));
        let long = waits.is_some_and(|since| since.elapsed() > EXPLAIN_AFTER);
        if instance.state != UniversalState::Queued {
            waits = None;
        } else if long {
            let explanation = client.explain(id).await.map_err(refused)?;
            progress.clear();
            note(&format!("{id} {}", clean(&explanation.text)));
            waits = None;
        }
    }
}

/// How it stands when it is over, or after a while; what it prints is shown meanwhile.
async fn wait_and_print(
    client: &Client,
    id: InstanceId,
    live: &mut Live,
    progress: &mut ProgressLine,
) -> Result<Instance, Failure> {
    // A store that fails for a while is no reason to kill the work.
    let mut waiting = pin!(waiting::retry_while_unreachable(
        || client.wait(id, LONG_POLL)
    ));
    loop {
        tokio::select! {
            biased;
            instance = &mut waiting => return instance.map_err(refused),
            () = tokio::time::sleep(PRINT_INTERVAL) => {
                live.print_new(progress);
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
        let elapsed = crate::remote::rows::millis(seconds);
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
    use crate::remote::rows::tests::fresh;

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
