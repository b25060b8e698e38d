//! `baton trigger`: manual trigger of a task or workflow of the library.

use std::io::Write;
use std::path::PathBuf;

use baton_client::{Client, TriggerRequest};
use baton_model::api::TriggerTask;
use baton_model::library::TaskName;
use clap::Args;

use super::library::{refused_entry, task_name};
use super::runs;
use super::submit::{self, Shows};
use crate::ids::{self, Target};
use crate::local::{pair, params};
use crate::output::{CommandResult, Failure, Output, clean, note};

/// Environment variable with the trigger secret of an entry.
const SECRET_VARIABLE: &str = "BATON_TRIGGER_SECRET";

/// Trigger a task or workflow of the library
///
/// Prints the id of the instance (i12) or run (r12) once it is durable. The scheduler refuses it if
/// max_instances or launch_rate is reached.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton trigger analytics/report
  baton trigger analytics/report -p day=2026-11-15 --wait
  baton trigger analytics/report --idempotency-key order-4711   repeated, it launches once
  curl -X POST -H 'Baton-Trigger-Secret: …' http://127.0.0.1:8080/analytics/tasks/report/trigger

Exit status with --wait: 0 DONE; the exit code of the command of a task, if it exited with one;
130 cancelled; 1 failed otherwise. Always: 1 no such entry; 2 wrong usage or parameters; 3 the
scheduler cannot be reached, or refuses.")]
pub(crate) struct Trigger {
    /// Name of the task or workflow
    #[arg(value_name = "OWNER/NAME", value_parser = task_name)]
    task: TaskName,
    /// Value of a parameter; may be repeated
    #[arg(short = 'p', long = "param", value_name = "NAME=VALUE", value_parser = pair)]
    params: Vec<(String, String)>,
    /// Idempotency key: a repeated request with the same key launches nothing
    #[arg(long = "idempotency-key", value_name = "TEXT")]
    request_key: Option<String>,
    /// Use its trigger URL, as another system would, with the secret in --secret-file or
    /// $BATON_TRIGGER_SECRET if it has one
    #[arg(long)]
    remote: bool,
    /// File with the trigger secret
    #[arg(long, value_name = "FILE", requires = "remote")]
    secret_file: Option<PathBuf>,
    /// Wait until it has ended, and exit with its status
    #[arg(long)]
    wait: bool,
    /// Print JSON; with --wait, also the ended instance or run, one object per line
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(command: &Trigger, client: &Client) -> CommandResult {
    let request = TriggerRequest {
        request: TriggerTask {
            params: params(&command.params)?,
        },
        remote: command.remote,
        key: command.request_key.clone(),
        secret: secret(command)?,
    };
    let triggered = match client.trigger(&command.task, &request).await {
        Ok(triggered) => triggered,
        Err(error) => return Err(refused_entry(client, &command.task, error).await),
    };
    let target = ids::target(&triggered.id).map_err(|_| {
        let text = clean(&triggered.id);
        Failure::Message(
            crate::connection::REFUSED,
            format!("the scheduler returned an invalid id, `{text}`"),
        )
    })?;
    let mut out = Output::new();
    if command.json {
        out.json_line(&triggered)?
    } else {
        writeln!(out, "{}", clean(&triggered.id))?
    }
    out.flush()?;
    if triggered.repeated && !command.json {
        note("an earlier request with this key launched it");
    }
    match target {
        _ if !command.wait => out.done(),
        Target::Instances(span) => submit::wait(client, span, Shows::end(command.json), out).await,
        Target::Run(run) => runs::submit::wait(client, run, command.json, out).await,
    }
}

/// Reads the secret from a file or the environment; never from the command line, which other
/// users can read.
fn secret(command: &Trigger) -> Result<Option<String>, Failure> {
    if !command.remote {
        return Ok(None);
    }
    let Some(path) = &command.secret_file else {
        let set = std::env::var(SECRET_VARIABLE).ok();
        return Ok(set.filter(|secret| !secret.is_empty()));
    };
    let text = std::fs::read_to_string(path).map_err(|error| {
        let path = path.display();
        Failure::usage(format!("cannot read the secret file {path}: {error}"))
    })?;
    Ok(Some(text.trim_end_matches(['\n', '\r']).to_owned()))
}
