//! `baton library pause` and `unpause`.

use std::io::Write;

use baton_client::Client;
use baton_model::api::PauseRequest;
use baton_model::library::TaskName;
use clap::Args;

use super::{refused_entry, task_name};
use crate::output::{CommandResult, Output, clean};

/// Pause a task or workflow: its schedule and its upstream entries launch nothing
///
/// Each due time is recorded as skipped. What runs or waits for its turn continues, and `baton
/// trigger` still launches it. The pause survives new revisions.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  baton library pause analytics/report --reason \"the warehouse is being moved\""
)]
pub(super) struct Pause {
    /// Name of the task or workflow
    #[arg(value_name = "OWNER/NAME", value_parser = task_name)]
    task: TaskName,
    /// Why, for other operators
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// End the pause of a task or workflow
///
/// Due times during the pause stay skipped.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  baton library unpause analytics/report")]
pub(super) struct Unpause {
    /// Name of the task or workflow
    #[arg(value_name = "OWNER/NAME", value_parser = task_name)]
    task: TaskName,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn pause(command: &Pause, client: &Client) -> CommandResult {
    let request = PauseRequest {
        paused: true,
        reason: command.reason.clone(),
    };
    let text = "paused, due times are skipped";
    set(client, &command.task, &request, command.json, text).await
}

pub(super) async fn unpause(command: &Unpause, client: &Client) -> CommandResult {
    let request = PauseRequest {
        paused: false,
        reason: None,
    };
    let text = "unpaused, the next due time is launched";
    set(client, &command.task, &request, command.json, text).await
}

async fn set(
    client: &Client,
    name: &TaskName,
    request: &PauseRequest,
    json: bool,
    text: &str,
) -> CommandResult {
    let task = match client.pause(name, request).await {
        Ok(task) => task,
        Err(error) => return Err(refused_entry(client, name, error).await),
    };
    let mut out = Output::new();
    if json {
        out.json(&task)?;
    } else {
        writeln!(out, "{}: {text}", clean(&name.to_string()))?;
    }
    out.done()
}
