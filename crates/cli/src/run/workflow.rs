//! `baton run` of a workflow: a run instead of an instance.
//!
//! A restarted scheduler continues a live run by itself. A run that has failed or was halted is
//! resumed, with the workflow of the current file.

use baton_client::{Client, ResumeRequest};
use baton_files::WorkflowFile;
use baton_model::api::{HaltRun, ResumeRun, Run, SubmitRun};
use baton_model::ids::RunId;
use baton_model::json;
use baton_model::state::UniversalState;
use baton_model::workflow::HaltMode;
use serde_json::Value;

use super::hash;
use crate::connection::{accepted_run, refused};
use crate::output::{CommandResult, Failure, clean, note};
use crate::remote::runs::follow::{ProgressMode, ended, follow_to_end, print_summary};
use crate::remote::runs::submit;
use crate::text::shell;
use crate::views::summary::LocalCommands;
use baton_embedded::RunDirectory;

/// The submission of a workflow.
pub(super) struct WorkflowSubmission {
    submit: SubmitRun<Value>,
    /// Hash of the workflow and its parameters.
    hash: String,
}

pub(super) fn submission(
    file: &WorkflowFile,
    params: &[(String, String)],
) -> Result<WorkflowSubmission, Failure> {
    let submit = submit::request(file, params)?;
    let text = serde_json::to_string(&submit)?;
    Ok(WorkflowSubmission {
        hash: hash(text.as_bytes()),
        submit,
    })
}

/// Runs the workflow and prints the outcome.
pub(super) async fn watch(
    command: &super::Run,
    submission: &WorkflowSubmission,
    directory: &RunDirectory,
    client: &Client,
    data: &str,
) -> CommandResult {
    let run = choose(command.again, submission, directory, client).await?;
    let mode = if command.quiet {
        ProgressMode::Quiet
    } else {
        ProgressMode::Live
    };
    let snapshot = follow_to_end(client, run, mode).await?;
    let local = LocalCommands {
        resume: &resume_command(command),
        data,
    };
    print_summary(&snapshot, Some(local))?;
    if command.json {
        super::print(&snapshot.0)?;
    }
    ended(&snapshot.0)
}

/// The command that resumes this run.
fn resume_command(command: &super::Run) -> String {
    let mut text = "baton run".to_owned();
    if let Some(file) = &command.file {
        text.push_str(&format!(" {}", word(&file.display().to_string())));
    }
    for (name, value) in &command.params {
        text.push_str(&format!(" -p {}", word(&format!("{name}={value}"))));
    }
    if let Some(data) = &command.data {
        text.push_str(&format!(" --data {}", word(&data.display().to_string())));
    }
    text
}

pub(super) fn word(text: &str) -> String {
    shell(&clean(text))
}

/// Submits the run, resumes it, or leaves it as it is; returns its id.
async fn choose(
    again: bool,
    submission: &WorkflowSubmission,
    directory: &RunDirectory,
    client: &Client,
) -> Result<RunId, Failure> {
    let send = async |body, key: &str| send(client, body, key).await;
    let Some((id, hash)) = directory.earlier(send).await? else {
        return begin(submission, directory, client).await;
    };
    let id = RunId(id);
    let run = match client.run(id).await {
        Ok(run) => run,
        Err(error) if error.is_not_found() => {
            return begin(submission, directory, client).await;
        }
        Err(error) => return Err(refused(error)),
    };
    if again {
        if !run.state.is_terminal() {
            let halt = HaltRun {
                mode: HaltMode::Kill,
                generation: None,
            };
            client.halt_run(id, &halt).await.map_err(refused)?;
        }
        return begin(submission, directory, client).await;
    }
    let same = hash == submission.hash;
    if !same && !is_resumable(run.state) {
        return Err(Failure::usage(changed_file(id, run.state)));
    }
    // Recorded before the resume: after a crash in between, this file counts as submitted.
    directory.submitted(id.0, &submission.hash)?;
    resume_if_ended(id, &run, submission, client).await?;
    Ok(id)
}

const fn is_resumable(state: UniversalState) -> bool {
    matches!(state, UniversalState::Failed | UniversalState::Halted)
}

/// The error if the file has changed and the run cannot be resumed with it.
fn changed_file(id: RunId, state: UniversalState) -> String {
    if state.is_terminal() {
        format!(
            "{id} is {state}, and the file or its parameters have changed since; start from the \
             beginning with --again"
        )
    } else {
        format!(
            "the file or its parameters have changed, but {id} has not ended; undo the change to \
             resume it, or start from the beginning with --again"
        )
    }
}

async fn resume_if_ended(
    id: RunId,
    run: &Run,
    submission: &WorkflowSubmission,
    client: &Client,
) -> Result<(), Failure> {
    if is_resumable(run.state) {
        // The file is sent even if it is unchanged: a crash may have happened between recording and
        // sending it. Unchanged tasks do not run again.
        let request = ResumeRequest::Resume(ResumeRun {
            file: Some(submission.submit.file.clone()),
            params: submission.submit.params.clone(),
            generation: Some(run.generation),
        });
        let answer = client.resume_run(id, &request).await.map_err(refused)?;
        let state = run.state;
        note(&format!(
            "{id} was {state}; resumed, generation {}",
            answer.generation
        ));
    } else if run.state.is_terminal() {
        note(&format!(
            "{id} is {} since an earlier run, and nothing of it runs; --again runs it anew",
            run.state
        ));
    } else {
        note(&format!("resuming {id}"));
    }
    Ok(())
}

async fn begin(
    submission: &WorkflowSubmission,
    directory: &RunDirectory,
    client: &Client,
) -> Result<RunId, Failure> {
    let send = async |body, key: &str| send(client, body, key).await;
    let sent = directory.submit(&submission.submit, &submission.hash, send);
    Ok(RunId(sent.await?))
}

async fn send(client: &Client, body: Value, key: &str) -> Result<u64, Failure> {
    let submit: SubmitRun<Value> = json::from_value(&body)?;
    let answer = client.submit_run_once(&submit, key).await;
    Ok(accepted_run(&answer.map_err(refused)?)?.0)
}
