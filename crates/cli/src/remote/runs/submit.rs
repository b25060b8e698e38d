//! `baton submit` of a workflow.

use std::io::Write;

use baton_client::Client;
use baton_files::WorkflowFile;
use baton_model::api::{RunReply, SubmitRun};
use baton_model::ids::RunId;
use serde_json::Value;

use super::super::waiting::interruptible;
use super::follow::{ProgressMode, ended, follow};
use crate::connection::{accepted_run, refused};
use crate::local::params as parse_params;
use crate::output::{CommandResult, Failure, Output};
use crate::time::now;

/// Builds the request for a workflow. Errors in the file or its parameters are reported here, with
/// their locations.
pub(crate) fn request(
    file: &WorkflowFile,
    params: &[(String, String)],
) -> Result<SubmitRun<Value>, Failure> {
    let params = parse_params(params)?;
    file.plan(&params, now()).map_err(Failure::usage)?;
    Ok(SubmitRun {
        file: file.to_json(),
        params,
        open: false,
    })
}

/// What follows when a run was accepted.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct WaitArgs {
    pub(in super::super) wait: bool,
    pub(in super::super) watch: bool,
    pub(in super::super) json: bool,
}

pub(in super::super) async fn run(
    file: &WorkflowFile,
    params: &[(String, String)],
    args: WaitArgs,
    key: Option<&str>,
    client: &Client,
) -> CommandResult {
    let submit = request(file, params)?;
    let answer = match key {
        Some(key) => client.submit_run_once(&submit, key).await,
        None => client.submit_run(&submit).await,
    };
    let answer = answer.map_err(refused)?;
    let run = accepted_run(&answer)?;
    print_accepted(client, run, &answer, &run.to_string(), args).await
}

/// Prints what the scheduler has accepted; then follows the run, if that is wanted.
pub(super) async fn print_accepted(
    client: &Client,
    run: RunId,
    answer: &RunReply,
    text: &str,
    args: WaitArgs,
) -> CommandResult {
    let waits = args.wait || args.watch;
    let mut out = Output::new();
    match (args.json, waits) {
        (true, false) => out.json(answer)?,
        (true, true) => out.json_line(answer)?,
        (false, _) => writeln!(out, "{text}")?,
    }
    // Before waiting.
    out.flush()?;
    if !waits {
        return out.done();
    }
    let mode = if args.watch || !args.json {
        ProgressMode::Live
    } else {
        ProgressMode::Quiet
    };
    follow_and_exit(client, run, mode, args.json, out).await
}

/// Waits for the end of a run, and exits with its status.
pub(in super::super) async fn wait(
    client: &Client,
    run: RunId,
    json: bool,
    out: Output,
) -> CommandResult {
    let mode = if json {
        ProgressMode::Quiet
    } else {
        ProgressMode::Live
    };
    follow_and_exit(client, run, mode, json, out).await
}

async fn follow_and_exit(
    client: &Client,
    run: RunId,
    mode: ProgressMode,
    json: bool,
    mut out: Output,
) -> CommandResult {
    let run_end = interruptible(&run.to_string(), follow(client, run, mode)).await?;
    if json {
        out.json_line(&run_end)?;
    }
    out.done()?;
    ended(&run_end)
}
