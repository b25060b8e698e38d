//! `baton logs`: the output of an instance, or of an item of a run; optionally followed to its end.

use std::io::{IsTerminal as _, Write};
use std::time::Duration;

use baton_client::{Client, ClientError, LogChunk, LogQuery, Stream, View};
use baton_model::api::Instance;
use baton_model::ids::InstanceId;
use clap::Args;
use futures_util::future::join_all;

use super::data::DataArgs;
use super::details;
use super::filters::InstanceFilterArgs;
use super::runs::items::{self, ItemRef};
use super::selection::{self, Failures};
use super::waiting::{describe_state, retry_while_unreachable};
use crate::connection::refused;
use crate::ids;
use crate::ids::{IdArg, Target};
use crate::local::StreamPrinter;
use crate::output::{CommandResult, Failure, Output, Style, clean, note};
use crate::text::count;

/// Interval between two requests while a log does not grow.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Instances that are followed at once: each is asked for twice per [`POLL_INTERVAL`].
const FOLLOWED_MAX: usize = 50;
/// Timeout of one long-poll request for an item that has not started.
const LONG_POLL: Duration = Duration::from_secs(1);

/// Show the output of instances, or of an item of a run
///
/// Standard output and standard error of the work are printed to those of this command, the second after
/// the first; with -f, both as they arrive. With -f of several, each line begins with its instance.
///
/// For a run, --task and --item select the item; its last instance is shown. They may be omitted if
/// there is only one.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton logs i12
  baton logs i12 -f                  follow it to its end, across attempts
  baton logs i12 --stderr --attempt 1 --process fetch --run 0
  baton logs i1..i9
  baton logs i1..i4 i12 -f           follow several at once
  baton logs --name nightly-report --state FAILED --since 1d
  baton logs r3 --task extract --item 1 -f")]
pub(crate) struct Logs {
    /// Instances (i12, i1..i9) and runs (r3); of several, each begins with a line of its own, or with
    /// -f each line with its instance
    #[arg(value_name = "ID", value_parser = ids::arg)]
    ids: Vec<IdArg>,
    /// Task of the run
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    /// Item of the task, from 0
    #[arg(long, value_name = "N", requires = "task")]
    item: Option<u32>,
    /// Follow the output until the instances have ended: at most 50
    #[arg(short, long)]
    follow: bool,
    /// Show standard output only
    #[arg(long, conflicts_with = "stderr")]
    stdout: bool,
    /// Show standard error only, on standard output
    #[arg(long)]
    stderr: bool,
    /// Attempt number, from 1 [default: the last; with -f, the last and later ones]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    attempt: Option<u32>,
    /// Process of the task [default: the first]
    #[arg(long, value_name = "NAME")]
    process: Option<String>,
    /// Run of the process, from 0, if it was restarted [default: the last; with -f, the last and
    /// later ones]
    #[arg(long, value_name = "N")]
    run: Option<u32>,
    /// Print one JSON object per line for each chunk: stream, attempt, run, offset, text, end
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(super) data: DataArgs,
    #[command(flatten, next_help_heading = "Filters")]
    filter: InstanceFilterArgs,
}

/// JSON object for a chunk.
#[derive(serde::Serialize)]
struct Piece<'a> {
    /// The instance, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
    stream: &'a str,
    attempt: u32,
    run: Option<u32>,
    offset: u64,
    text: &'a str,
    end: bool,
}

pub(super) async fn run(command: &Logs, client: &Client) -> CommandResult {
    // What is queued has no output yet, but will have.
    let views = &[View::Arena, View::History, View::Bullpen];
    let views = &views[..if command.follow { 3 } else { 2 }];
    let units = selection::resolve(&command.ids, &command.filter.filter(), views, client).await?;
    let targets = selection::expand(&units)?;
    if let [target] = *targets {
        return one(target, false, command, client).await;
    }
    if command.follow {
        return follow_all(targets, command, client).await;
    }
    let mut failures = Failures::default();
    for (place, target) in targets.into_iter().enumerate() {
        if !command.json {
            let mut out = Output::new();
            let before = if place > 0 { "\n" } else { "" };
            let header = format!("==> {target} <==");
            writeln!(out, "{before}{}", out.paint(Style::Strong, &header))?;
            out.done()?;
        }
        failures.record(one(target, true, command, client).await)?;
    }
    failures.end()
}

/// Follows several at once, each to its end.
async fn follow_all(targets: Vec<Target>, command: &Logs, client: &Client) -> CommandResult {
    if targets.len() > FOLLOWED_MAX {
        return Err(Failure::usage(format!(
            "-f follows at most {FOLLOWED_MAX} instances, and these are {}; name fewer",
            targets.len()
        )));
    }
    let followed = targets.into_iter();
    let followed = followed.map(|target| one(target, true, command, client));
    let mut failures = Failures::default();
    for ended in join_all(followed).await {
        failures.record(ended)?;
    }
    failures.end()
}

/// Prints the output of one instance, which is named with it if it is one of several.
async fn one(target: Target, several: bool, command: &Logs, client: &Client) -> CommandResult {
    let id = instance(target, command, client).await?;
    let mut first = command.attempt;
    if command.follow {
        first = Some(first_attempt(client, id, command).await?);
    }
    let log = |stream, stderr, quiet| Log {
        id,
        stream,
        first,
        printer: Printer::new(command, several.then_some(id), stream, stderr),
        quiet,
    };
    let bytes = match (command.stdout, command.stderr) {
        (true, _) => {
            log(Stream::Stdout, false, false)
                .print(command, client)
                .await?
        }
        (_, true) => {
            log(Stream::Stderr, false, false)
                .print(command, client)
                .await?
        }
        _ => {
            // Each stream goes where the work itself has written it.
            let stderr = !command.json;
            let stdout = log(Stream::Stdout, false, false).print(command, client);
            let stderr = log(Stream::Stderr, stderr, true).print(command, client);
            if command.follow {
                let (stdout, stderr) = tokio::try_join!(stdout, stderr)?;
                stdout + stderr
            } else {
                stdout.await? + stderr.await?
            }
        }
    };
    if bytes == 0 && !command.json {
        let text = explain_silence(client, id, command).await;
        let name = if several && command.follow {
            format!("{id}: ")
        } else {
            String::new()
        };
        note(&format!("{name}{text}"));
    }
    Ok(())
}

/// Says why nothing was printed.
async fn explain_silence(client: &Client, id: InstanceId, command: &Logs) -> String {
    let instance = client.instance(id).await.ok();
    let ended = instance.as_ref().is_none_or(|it| it.state.is_terminal());
    let details = instance.and_then(|instance| instance.details);
    let (stdout, stderr) = details.map_or((None, None), |it| (it.stdout, it.stderr));
    let files = [("stdout", stdout), ("stderr", stderr)];
    let files: Vec<String> = files
        .into_iter()
        .filter_map(|(name, file)| Some(format!("{name} of {id} goes to {}", clean(&file?))))
        .collect();
    if !files.is_empty() {
        return files.join("; ");
    }
    let other = match (command.stdout, command.stderr) {
        (true, _) => Some(("stdout", "stderr", 1)),
        (_, true) => Some(("stderr", "stdout", 0)),
        _ => None,
    };
    let Some((selected, other, place)) = other else {
        let reason = if ended {
            "it printed nothing, or its logs were removed"
        } else {
            "it has printed nothing yet"
        };
        return format!("nothing on stdout and stderr: {reason}");
    };
    match details::log_sizes(client, id).await[place] {
        Some(0) => format!("nothing on {selected}, nor on {other}"),
        Some(bytes) => format!(
            "nothing on {selected}; {} on {other}",
            count(bytes, "byte", "bytes")
        ),
        None => format!("nothing on {selected}"),
    }
}

/// One stream of an instance.
struct Log {
    id: InstanceId,
    stream: Stream,
    /// The attempt to begin with.
    first: Option<u32>,
    printer: Printer,
    /// Leaves notes about attempts to the other stream.
    quiet: bool,
}

impl Log {
    /// Prints it to its end; returns the number of bytes.
    async fn print(mut self, command: &Logs, client: &Client) -> Result<u64, Failure> {
        let mut query = LogQuery {
            instance: self.id,
            stream: self.stream,
            attempt: self.first,
            process: command.process.clone(),
            run: command.run,
            offset: 0,
            cursor: None,
        };
        let mut bytes = 0;
        loop {
            let piece = if command.follow {
                retry_while_unreachable(note, || client.logs(&query)).await
            } else {
                client.logs(&query).await
            };
            let piece = piece.map_err(refused)?;
            self.printer.print(&piece, query.offset)?;
            let length = u64::try_from(piece.bytes.len()).unwrap_or_default();
            bytes += length;
            // Stay with this attempt and run, whatever starts meanwhile.
            query.attempt = Some(piece.attempt);
            query.run = piece.run.or(query.run);
            query.offset += length;
            query.cursor = piece.cursor.or(query.cursor);
            if piece.end || (piece.bytes.is_empty() && !command.follow) {
                let goes_on = command.follow && command.run.is_none();
                if let Some(run) = piece.next_run.filter(|_| goes_on) {
                    // A restarted process writes a new log.
                    (query.run, query.offset, query.cursor) = (Some(run), 0, None);
                    continue;
                }
                let next = if goes_on && command.attempt.is_none() {
                    next_attempt(client, self.id, piece.attempt, self.quiet).await?
                } else {
                    None
                };
                let Some(next) = next else { break };
                (query.attempt, query.run) = (Some(next), None);
                (query.offset, query.cursor) = (0, None);
            } else if piece.bytes.is_empty() {
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
        self.printer.finish()?;
        Ok(bytes)
    }
}

/// Resolves the instance; with -f, waits until there is one.
async fn instance(target: Target, command: &Logs, client: &Client) -> Result<InstanceId, Failure> {
    let run = match target {
        Target::Instances(_) if command.task.is_some() => {
            return Err(Failure::usage(
                "--task and --item apply to runs only; name a run such as r12",
            ));
        }
        Target::Instances(span) => {
            // Only a scheduler that has answered once is waited for.
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
        let text = format!("{run}: the item has not started");
        if !command.follow {
            return Err(Failure::failed(format!(
                "{text}; see `baton explain {run}`, or wait for it with -f"
            )));
        }
        if !noted {
            note(&format!("{text}; waiting for it"));
            noted = true;
        }
        let waited = retry_while_unreachable(note, || client.wait_run(run, LONG_POLL)).await;
        waited.map_err(refused)?;
    }
}

/// Waits for the attempt to follow.
async fn first_attempt(client: &Client, id: InstanceId, command: &Logs) -> Result<u32, Failure> {
    let wanted = command.attempt.unwrap_or(1);
    let mut noted = false;
    loop {
        let instance = fetch(client, id).await.map_err(refused)?;
        // An attempt without output yet has an empty log, which can be followed.
        if instance.attempts >= wanted {
            return Ok(command.attempt.unwrap_or(instance.attempts));
        }
        if instance.state.is_terminal() {
            return Err(Failure::failed(format!(
                "{}: there is no attempt {wanted}, and none will follow",
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

/// Waits for the attempt after this one; `None` if the instance has ended.
async fn next_attempt(
    client: &Client,
    id: InstanceId,
    attempt: u32,
    quiet: bool,
) -> Result<Option<u32>, Failure> {
    let mut noted = quiet;
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
                "attempt {attempt} of {id} has ended; waiting for the next"
            ));
            noted = true;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn fetch(client: &Client, id: InstanceId) -> Result<Instance, ClientError> {
    retry_while_unreachable(note, || client.instance(id)).await
}

struct Printer {
    out: Output,
    printer: Option<StreamPrinter>,
    instance: Option<InstanceId>,
    stream: Stream,
    /// Prints to standard error.
    stderr: bool,
}

impl Printer {
    /// With an instance, prints for one of several.
    fn new(command: &Logs, instance: Option<InstanceId>, stream: Stream, stderr: bool) -> Self {
        let out = Output::new();
        let terminal = if stderr {
            std::io::stderr().is_terminal()
        } else {
            out.terminal
        };
        // Lines of several that are followed are interleaved.
        let named = instance.filter(|_| command.follow);
        let prefix = named.map(|id| format!("{id} | "));
        Self {
            out,
            printer: (!command.json).then(|| StreamPrinter::new(prefix, terminal)),
            instance,
            stream,
            stderr,
        }
    }

    fn print(&mut self, piece: &LogChunk, offset: u64) -> CommandResult {
        match &mut self.printer {
            Some(printer) if self.stderr => {
                printer.print(&piece.bytes, &mut std::io::stderr().lock())?;
            }
            Some(printer) => printer.print(&piece.bytes, &mut self.out)?,
            None => {
                serde_json::to_writer(
                    &mut self.out,
                    &Piece {
                        instance: self.instance.map(|id| id.to_string()),
                        stream: self.stream.into_str(),
                        attempt: piece.attempt,
                        run: piece.run,
                        offset,
                        text: &String::from_utf8_lossy(&piece.bytes),
                        end: piece.end,
                    },
                )?;
                writeln!(self.out)?;
            }
        }
        // Output is shown as it arrives.
        Ok(self.out.flush()?)
    }

    fn finish(mut self) -> CommandResult {
        match &mut self.printer {
            Some(printer) if self.stderr => printer.finish(&mut std::io::stderr().lock())?,
            Some(printer) => printer.finish(&mut self.out)?,
            None => {}
        }
        self.out.done()
    }
}
