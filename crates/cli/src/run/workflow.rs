//! `baton run` of a workflow: a run instead of an instance.
//!
//! The run is the scheduler's, which goes on with it by itself when it is started again. What
//! had failed or was halted is resumed; with another file, under the plan of that.

use std::path::Path;

use baton_agent::LogFollower;
use baton_client::{Client, ResumeRequest};
use baton_files::WorkflowFile;
use baton_model::api::{HaltRun, ResumeRun, Run, SubmitRun};
use baton_model::ids::{InstanceId, RunId};
use baton_model::message::LogStream;
use baton_model::state::UniversalState;
use baton_model::workflow::HaltMode;
use serde_json::Value;

use super::hash;
use super::memory::{Memory, Remembered};
use crate::output::{Ended, Failure, clean, note};
use crate::remote::runs::follow::{How, ended, tell_end, to_end};
use crate::remote::runs::{accepted, submit};
use crate::remote::{ids, refused};
use crate::views::shell;

/// Of what an example of the failures has printed.
const ERROR_LINES: usize = 5;

/// A workflow that is to be run.
pub(super) struct Wanted {
    submit: SubmitRun<Value>,
    /// Of the workflow and its parameters.
    hash: String,
}

pub(super) fn wanted(file: &WorkflowFile, params: &[(String, String)]) -> Result<Wanted, Failure> {
    let submit = submit::wanted(file, params)?;
    let text = serde_json::to_string(&submit)?;
    Ok(Wanted {
        hash: hash(text.as_bytes()),
        submit,
    })
}

/// Carries it out, and tells how it ended: with the last lines of what failed most, since the
/// scheduler that could be asked for more ends with us.
pub(super) async fn watch(
    command: &super::Run,
    wanted: &Wanted,
    memory: &Memory,
    client: &Client,
    worker: &Path,
) -> Ended {
    let run = choose(command.again, wanted, memory, client).await?;
    let how = match command.quiet {
        true => How::Quiet,
        false => How::Shown,
    };
    let seen = to_end(client, run, how).await?;
    tell_end(&seen, Some(&again(command)))?;
    if let Some(group) = seen.2.first()
        && let Ok(example) = ids::one(&group.example)
    {
        tell_errors(worker, example);
    }
    if command.json {
        super::print(&seen.0)?;
    }
    ended(&seen.0)
}

/// The command that goes on with this run.
fn again(command: &super::Run) -> String {
    let mut text = format!("baton run {}", word(&command.file.display().to_string()));
    for (name, value) in &command.params {
        text.push_str(&format!(" -p {}", word(&format!("{name}={value}"))));
    }
    if let Some(data) = &command.data {
        text.push_str(&format!(" --data {}", word(&data.display().to_string())));
    }
    text
}

fn word(text: &str) -> String {
    shell(&clean(text))
}

/// What an instance has printed last on its standard error.
fn tell_errors(worker: &Path, id: InstanceId) {
    let mut outputs = LogFollower::new(worker, id);
    let mut bytes = Vec::new();
    let read = outputs.skip(ERROR_LINES).and_then(|()| {
        outputs.read(|piece| {
            if piece.stream == LogStream::Stderr {
                bytes.extend_from_slice(piece.bytes);
            }
            Ok(())
        })
    });
    if let Err(error) = read {
        note(&format!("what {id} has printed cannot be read: {error}"));
    }
    for line in String::from_utf8_lossy(&bytes).lines() {
        note(&format!("{id} | {}", clean(line)));
    }
}

/// The run, begun, gone on with, or left as it is.
async fn choose(
    again: bool,
    wanted: &Wanted,
    memory: &Memory,
    client: &Client,
) -> Result<RunId, Failure> {
    let Some(remembered) = memory.read()? else {
        return begin(wanted, memory, client, 0).await;
    };
    // Ids count up, and nobody else submits: the one that was being submitted is the next.
    let id = RunId(remembered.instance.unwrap_or(remembered.above + 1));
    let run = match client.run(id).await {
        Ok(run) => run,
        Err(error) if error.is_not_found() => {
            return begin(wanted, memory, client, remembered.above).await;
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
        return begin(wanted, memory, client, id.0).await;
    }
    let same = remembered.hash == wanted.hash;
    if !same && !is_resumable(run.state) {
        return Err(Failure::usage(changed(id, run.state)));
    }
    // Before it goes on: if we die in between, it is this file that whoever runs it again has.
    memory.write(&Remembered {
        instance: Some(id.0),
        above: remembered.above,
        hash: wanted.hash.clone(),
    })?;
    go_on(id, &run, wanted, client).await?;
    Ok(id)
}

const fn is_resumable(state: UniversalState) -> bool {
    matches!(state, UniversalState::Failed | UniversalState::Halted)
}

/// Why a run does not go on with another file.
fn changed(id: RunId, state: UniversalState) -> String {
    match state.is_terminal() {
        true => format!(
            "{id} is {state}, and the file or its parameters have changed since; start afresh with \
             --again"
        ),
        false => format!(
            "the file or its parameters have changed since {id} began, which is not over; undo \
             the change to go on with it, or start afresh with --again"
        ),
    }
}

async fn go_on(id: RunId, run: &Run, wanted: &Wanted, client: &Client) -> Result<(), Failure> {
    if is_resumable(run.state) {
        // Also where it is the same as before: nobody knows whether we died with the last one
        // noted and not sent, and what has not changed does not run again.
        let how = ResumeRequest::Resume(ResumeRun {
            file: Some(wanted.submit.file.clone()),
            params: wanted.submit.params.clone(),
            generation: Some(run.generation),
        });
        let answer = client.resume_run(id, &how).await.map_err(refused)?;
        let state = run.state;
        note(&format!(
            "{id} was {state}; going on, generation {}",
            answer.generation
        ));
    } else if run.state.is_terminal() {
        note(&format!(
            "{id} is over since an earlier run; run with --again to start afresh"
        ));
    } else {
        note(&format!("going on with {id}"));
    }
    Ok(())
}

async fn begin(
    wanted: &Wanted,
    memory: &Memory,
    client: &Client,
    above: u64,
) -> Result<RunId, Failure> {
    let mut remembered = Remembered {
        instance: None,
        above,
        hash: wanted.hash.clone(),
    };
    memory.write(&remembered)?;
    let answer = client.submit_run(&wanted.submit).await.map_err(refused)?;
    let id = accepted(&answer)?;
    remembered.instance = Some(id.0);
    memory.write(&remembered)?;
    Ok(id)
}
