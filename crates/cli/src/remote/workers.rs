//! `baton workers`, `drain` and `forget`.

use std::io::{self, BufRead, IsTerminal, Write};
use std::time::{Duration, Instant};

use baton_client::{Client, PageOptions, View};
use baton_model::api::InstanceFilter;
use baton_model::time::Millis;
use clap::Args;
use serde_json::json;

use super::wait::{TIMED_OUT, time};
use super::waiting;
use crate::connection::refused;
use crate::output::{CommandResult, FAILED, Failure, Output, Style, clean, note};
use crate::painter::Progress;
use crate::table::Table;
use crate::text::{Line, count};
use crate::time::span;
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
  baton drain w1 --wait && ssh w1 reboot
  baton drain w1 --wait --timeout 1h || baton kill --worker w1 -y
  baton drain w1 --undo

Exit status: 0 drained, with --wait also idle; 124 the --timeout is over; 1 no such worker; 3 the scheduler
cannot be reached, or refuses.")]
pub(crate) struct Drain {
    /// Name of the worker
    worker: String,
    /// Allow placement on the worker again
    #[arg(long)]
    undo: bool,
    /// Wait until nothing runs on it any more
    #[arg(long, conflicts_with = "undo")]
    wait: bool,
    /// Give up waiting after this time, such as 90s or 2h; what runs goes on
    #[arg(long, value_name = "TIME", value_parser = time, requires = "wait")]
    timeout: Option<Millis>,
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
    out.done()?;
    if command.wait {
        let name = clean(&command.worker);
        let interrupted = format!(
            "{name} stays drained; `baton drain {name} --wait` waits for it again, `baton drain {name} --undo` ends it"
        );
        let idle = until_idle(command, client);
        return waiting::unless_interrupted(interrupted, idle).await;
    }
    Ok(())
}

/// Interval between two looks at a worker.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Waits until a worker has no attempts: it may have left by then.
async fn until_idle(command: &Drain, client: &Client) -> CommandResult {
    let name = clean(&command.worker);
    let limit = command.timeout.map(|limit| Duration::from_millis(limit.0));
    let began = Instant::now();
    let mut progress = Progress::new();
    loop {
        let workers =
            waiting::retry_while_unreachable(|text| progress.note(text), || client.workers());
        let workers = workers.await.map_err(refused)?;
        let worker = workers.iter().find(|worker| worker.name == command.worker);
        let attempts = worker.map_or(0, |worker| u64::from(worker.attempts));
        if attempts == 0 {
            progress.clear();
            note(&format!("{name}: nothing runs on it any more"));
            return Ok(());
        }
        if !worker.is_some_and(|worker| worker.drained) {
            progress.clear();
            return Err(Failure::failed(format!(
                "{name}: its drain was ended meanwhile"
            )));
        }
        let running = count(attempts, "attempt", "attempts");
        if limit.is_some_and(|limit| began.elapsed() >= limit) {
            progress.clear();
            let waited = span(command.timeout.unwrap_or_default());
            return Err(Failure::Message(
                TIMED_OUT,
                format!(
                    "{name}: {running} after {waited}{}; see `baton arena --worker {name}`, or end them with \
                     `baton kill --worker {name}`",
                    example(command, client).await
                ),
            ));
        }
        let mut line = Line::new();
        line.add(Style::Plain, format!("{name}: {running}"));
        progress.update(line, "");
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// The one that was submitted first of what runs on a worker, as a clause.
async fn example(command: &Drain, client: &Client) -> String {
    let filter = InstanceFilter {
        worker: Some(command.worker.clone()),
        ..InstanceFilter::default()
    };
    let options = PageOptions {
        limit: Some(1),
        ..PageOptions::default()
    };
    let page = client.view(View::Arena, &filter, &options).next().await;
    let first = page
        .ok()
        .flatten()
        .and_then(|page| page.items.into_iter().next());
    first.map_or_else(String::new, |it| {
        format!(", such as {} ({})", clean(&it.id), clean(&it.name))
    })
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
