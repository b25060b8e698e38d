//! `baton logs`: what an instance, or an item of a run, printed, as far as it goes or to its end.

use std::io::{IsTerminal as _, Write};
use std::time::Duration;

use baton_client::{Client, ClientError, LogChunk, LogQuery, Stream};
use baton_model::api::Instance;
use baton_model::ids::InstanceId;
use clap::Args;

use super::ids::Target;
use super::runs::items::{self, ItemRef};
use super::waiting::{describe_state, retry_while_unreachable};
use super::{ids, refused};
use crate::local::StreamPrinter;
use crate::output::{CommandResult, Failure, Output, note};

/// Between two looks at a log that has not grown.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// How long the scheduler is asked to wait at a time for an item that has not begun.
const LONG_POLL: Duration = Duration::from_secs(1);

/// Show what an instance printed, or an item of a run
///
/// Of a run, the task and the item say which instance is meant: the last one of that item. They may
/// be left out where there is only one.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton logs i12
  baton logs i12 -f                  until it has ended, through every attempt
  baton logs i12 --stderr --attempt 1 --process fetch --run 0
  baton logs r3 --task extract --item 1 -f")]
pub(crate) struct Logs {
    /// Which: i12, or a run r3
    #[arg(value_name = "ID", value_parser = ids::instance_or_run)]
    target: Target,
    /// Of a run: of this task
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    /// Of a run: of this item of the task; the first is 0
    #[arg(long, value_name = "N", requires = "task")]
    item: Option<u32>,
    /// Go on until its end
    #[arg(short, long)]
    follow: bool,
    /// Standard error instead of standard output
    #[arg(long)]
    stderr: bool,
    /// Of this attempt [default: the last; with -f, from the last on]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    attempt: Option<u32>,
    /// Of this process of the task [default: the first]
    #[arg(long, value_name = "NAME")]
    process: Option<String>,
    /// Of this run of the process, where it was started again; 0 is the first [default: the last; with -f, from the last on]
    #[arg(long, value_name = "N")]
    run: Option<u32>,
    /// Print an object for each piece, one on a line: attempt, run, offset, text, end
    #[arg(long)]
    json: bool,
}

/// A piece for programs.
#[derive(serde::Serialize)]
struct Piece<'a> {
    attempt: u32,
    run: Option<u32>,
    offset: u64,
    text: &'a str,
    end: bool,
}

pub(super) async fn run(command: &Logs, client: &Client) -> CommandResult {
    let id = instance(command, client).await?;
    let stream = if command.stderr {
        Stream::Stderr
    } else {
        Stream::Stdout
    };
    let mut query = LogQuery {
        instance: id,
        stream,
        attempt: command.attempt,
        process: command.process.clone(),
        run: command.run,
        offset: 0,
    };
    if command.follow {
        query.attempt = Some(first_attempt(client, id, command).await?);
    }
    let mut printer = Printer::new(command.json);
    loop {
        let piece = if command.follow {
            retry_while_unreachable(|| client.logs(&query)).await
        } else {
            client.logs(&query).await
        };
        let piece = piece.map_err(refused)?;
        printer.print(&piece)?;
        if !piece.kept && std::io::stderr().is_terminal() {
            note("nothing is kept of it: it printed nothing, or its log was cleared away");
        }
        // From now on it is this attempt and this run, whatever begins meanwhile.
        query.attempt = Some(piece.attempt);
        query.run = piece.run.or(query.run);
        query.offset = piece.offset + u64::try_from(piece.bytes.len()).unwrap_or_default();
        if piece.end || (piece.bytes.is_empty() && !command.follow) {
            let goes_on = command.follow && command.run.is_none();
            if let Some(run) = piece.next_run.filter(|_| goes_on) {
                // A process that is started again writes another log, from its beginning.
                (query.run, query.offset) = (Some(run), 0);
                continue;
            }
            let next = if goes_on && command.attempt.is_none() {
                next_attempt(client, id, piece.attempt).await?
            } else {
                None
            };
            let Some(next) = next else { break };
            (query.attempt, query.run, query.offset) = (Some(next), None, 0);
        } else if piece.bytes.is_empty() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
    printer.finish()
}

/// The instance that is meant; with -f, as soon as there is one.
async fn instance(command: &Logs, client: &Client) -> Result<InstanceId, Failure> {
    let run = match command.target {
        Target::Instances(_) if command.task.is_some() => {
            return Err(Failure::usage("--task and --item are for runs: r12"));
        }
        Target::Instances(span) => {
            // Where nobody answers at first, nobody is waited for.
            if command.follow {
                client.instance(span.first).await.map_err(refused)?;
            }
            return Ok(span.first);
        }
        Target::Run(run) => run,
    };
    let item = ItemRef {
        run,
        task: command.task.as_deref(),
        item: command.item,
    };
    let mut noted = false;
    loop {
        if let Some(id) = items::instance(item, client).await? {
            return Ok(id);
        }
        let text = format!("{run}: that item has not begun");
        if !command.follow {
            return Err(Failure::failed(format!(
                "{text}; `baton explain {run}` tells why, and -f waits for it"
            )));
        }
        if !noted {
            note(&format!("{text}; waiting for it"));
            noted = true;
        }
        let waited = retry_while_unreachable(|| client.wait_run(run, LONG_POLL)).await;
        waited.map_err(refused)?;
    }
}

/// The attempt to follow, as soon as there is one.
async fn first_attempt(client: &Client, id: InstanceId, command: &Logs) -> Result<u32, Failure> {
    let wanted = command.attempt.unwrap_or(1);
    let mut noted = false;
    loop {
        let instance = fetch(client, id).await.map_err(refused)?;
        // The log of one that has not printed anything yet is empty, and grows.
        if instance.attempts >= wanted {
            return Ok(command.attempt.unwrap_or(instance.attempts));
        }
        if instance.state.is_terminal() {
            return Err(Failure::failed(format!(
                "{}: it has no attempt {wanted}, and will have none",
                describe_state(&instance)
            )));
        }
        if !noted {
            note(&format!(
                "{}: waiting for it to start",
                describe_state(&instance)
            ));
            noted = true;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// The attempt that follows this one, as soon as there is one; none if there will be none.
async fn next_attempt(
    client: &Client,
    id: InstanceId,
    attempt: u32,
) -> Result<Option<u32>, Failure> {
    let mut noted = false;
    loop {
        let instance = fetch(client, id).await.map_err(refused)?;
        if instance.attempts > attempt {
            return Ok(Some(attempt + 1));
        }
        if instance.state.is_terminal() {
            return Ok(None);
        }
        if !noted {
            note(&format!(
                "attempt {attempt} is over; waiting for what follows"
            ));
            noted = true;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn fetch(client: &Client, id: InstanceId) -> Result<Instance, ClientError> {
    retry_while_unreachable(|| client.instance(id)).await
}

struct Printer {
    out: Output,
    stream: Option<StreamPrinter>,
}

impl Printer {
    fn new(json: bool) -> Self {
        let out = Output::new();
        let stream = (!json).then(|| StreamPrinter::new(None, out.terminal));
        Self { out, stream }
    }

    fn print(&mut self, piece: &LogChunk) -> CommandResult {
        match &mut self.stream {
            Some(stream) => stream.print(&piece.bytes, &mut self.out)?,
            None => {
                serde_json::to_writer(
                    &mut self.out,
                    &Piece {
                        attempt: piece.attempt,
                        run: piece.run,
                        offset: piece.offset,
                        text: &String::from_utf8_lossy(&piece.bytes),
                        end: piece.end,
                    },
                )?;
                writeln!(self.out)?;
            }
        }
        // Somebody watches.
        Ok(self.out.flush()?)
    }

    fn finish(mut self) -> CommandResult {
        if let Some(stream) = &mut self.stream {
            stream.finish(&mut self.out)?;
        }
        self.out.done()
    }
}
