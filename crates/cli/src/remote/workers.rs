//! `baton workers`, `drain` and `forget`.

use std::io::{self, BufRead, IsTerminal, Write};

use baton_client::Client;
use clap::Args;
use serde_json::json;

use crate::connection::refused;
use crate::output::{CommandResult, FAILED, Failure, Output, clean, note};
use crate::table::Table;
use crate::views::rows;

/// List workers
///
/// CPU (cores) and MEMORY are what attempts have claimed, of the capacity; MEASURED is what their
/// processes use, as the worker last reported it, and HEARD how long ago that was. Lines below the
/// table list devices, such as GPUs, with the attempts that hold them. With --json, an array of
/// workers, in the API's format.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton workers
  baton workers --json | jq '.[] | select(.drained) | .name'")]
pub(crate) struct Workers {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Drain a worker: place nothing more on it; running attempts continue
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton drain w1
  baton drain w1 --undo")]
pub(crate) struct Drain {
    /// Name of the worker
    worker: String,
    /// Allow placement on the worker again
    #[arg(long)]
    undo: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Declare a worker permanently gone, with nothing of it running
///
/// Its attempts are restarted on other workers at once, including those with `exclusive: strict`.
/// If the worker is in fact still running, those attempts run twice. Its name is released: where
/// workers authenticate, it belonged to the token or certificate that used it first.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton forget w1                    asks for confirmation
  baton forget w1 -y")]
pub(crate) struct Forget {
    /// Name of the worker
    worker: String,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn workers(command: &Workers, client: &Client) -> CommandResult {
    let workers = client.workers().await.map_err(refused)?;
    let mut out = Output::new();
    if command.json {
        out.json(&workers)?;
    } else if workers.is_empty() {
        note("no workers; start one with `baton worker --scheduler ADDR`");
    } else {
        let mut table = Table::headed(rows::WORKER);
        for worker in &workers {
            table.row(rows::worker(worker));
        }
        table.print(&mut out)?;
        for line in workers.iter().flat_map(rows::worker_devices) {
            writeln!(out, "{line}")?;
        }
        for line in workers.iter().filter_map(rows::worker_trouble) {
            writeln!(out, "{line}")?;
        }
    }
    out.done()
}

pub(super) async fn drain(command: &Drain, client: &Client) -> CommandResult {
    let drained = !command.undo;
    let drain = client.drain(&command.worker, drained).await;
    drain.map_err(refused)?;
    let mut out = Output::new();
    if command.json {
        out.json(&json!({ "name": command.worker, "drained": drained }))?;
    } else {
        let what = if drained {
            "drained, nothing more is placed on it"
        } else {
            "undrained, placement is allowed again"
        };
        writeln!(out, "{}: {what}", clean(&command.worker))?;
    }
    out.done()
}

pub(super) async fn forget(command: &Forget, client: &Client) -> CommandResult {
    let worker = client.worker(&command.worker).await.map_err(refused)?;
    if !command.yes {
        let name = clean(&worker.name);
        confirm(&format!(
            "{name} is {}, last heard from {} ago, and may hold {} attempts. Is it permanently \
             gone, with nothing of it running?",
            worker.state,
            crate::time::span(rows::millis(worker.heard_seconds)),
            worker.attempts
        ))?;
    }
    client.forget(&command.worker).await.map_err(refused)?;
    let mut out = Output::new();
    if command.json {
        out.json(&json!({ "name": command.worker, "forgotten": true }))?
    } else {
        writeln!(out, "{}: forgotten", clean(&command.worker))?
    }
    out.done()
}

/// Asks for confirmation on the terminal; fails without one.
fn confirm(question: &str) -> CommandResult {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(Failure::usage(
            "cannot ask for confirmation without a terminal; confirm with -y",
        ));
    }
    write!(io::stderr(), "{question} [y/N] ")?;
    let mut answer = String::new();
    io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| Failure::failed(format!("cannot read the answer: {error}")))?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::Message(FAILED, "nothing was changed".to_owned())),
    }
}
