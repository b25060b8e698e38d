//! `baton logs`: the output of an instance, or of an item of a run; optionally followed to its end.

use std::io::{IsTerminal as _, Write};
use std::time::Duration;

use baton_client::{Client, ClientError, LogChunk, LogQuery, Span, Stream, View};
use baton_model::api::Instance;
use baton_model::ids::InstanceId;
use clap::Args;
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream;

use super::data::DataArgs;
use super::details;
use super::filters::InstanceFilterArgs;
use super::runs::items::{self, ItemRef};
use super::selection::{self, Failures};
use super::waiting::{describe_state, retry_while_unreachable, wait_quietly};
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
/// Instances whose output is printed in one go: their ids are held in memory. More of them are files for `--output`.
const PRINTED_MAX: u64 = 1_000_000;
/// Instances of which the output is read while that of an earlier one is printed.
const READ_AHEAD: usize = 16;
/// Timeout of one long-poll request for an item that has not started.
const LONG_POLL: Duration = Duration::from_secs(1);

/// Show the output of instances, or of an item of a run
///
/// Standard output and standard error of the work are printed to those of this command, the second after
/// the first; with -f, both as they arrive. With -f of several, each line begins with its instance.
///
/// For a run, --task and --item select the item; its last instance is shown. They may be omitted if
/// there is only one.
#[derive(Debug, Default, Args)]
#[command(after_help = "\
Examples:
  baton logs i12
  baton logs i12 -f                  follow it to its end, across attempts
  baton logs i12 --stderr --attempt 1 --process fetch --run 0
  baton logs i1..i9
  baton logs i1..i5000 --no-header > all.txt
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
    /// Of several instances, print their output alone: without a line before each
    #[arg(long, conflicts_with = "follow")]
    no_header: bool,
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
    let targets = selection::expand(&units, PRINTED_MAX)?;
    if let [target] = *targets {
        return one(target, false, command, client).await;
    }
    if command.follow {
        return follow_all(targets, command, client).await;
    }
    let targets = stream::iter(targets);
    let read = targets.map(|target| async move {
        let begun = Beginning::read(target, command, client).await;
        (target, begun)
    });
    print_in_order(read, command, client).await
}

/// Prints the output of instances that were just submitted: of one as it comes, of several in order, each when
/// it has ended.
pub(super) async fn print_as_they_end(client: &Client, span: Span) -> CommandResult {
    let mut command = Logs::default();
    if span.count() == 1 {
        command.follow = true;
        return one(Target::Instances(span), false, &command, client).await;
    }
    command.no_header = true;
    let command = &command;
    let ids = stream::iter(span.first.0..=span.last.0);
    let read = ids.map(|id| async move {
        let id = InstanceId(id);
        let target = Target::Instances(selection::one_of(id));
        let ended = wait_quietly(client, id).await.map_err(refused);
        let begun = match ended {
            Ok(_) => Beginning::read(target, command, client).await,
            Err(failure) => Err(failure),
        };
        (target, begun)
    });
    print_in_order(read, command, client).await
}

/// Prints outputs in the order of their instances; the next ones are read meanwhile.
async fn print_in_order<F>(
    read: impl stream::Stream<Item = F>,
    command: &Logs,
    client: &Client,
) -> CommandResult
where
    F: Future<Output = (Target, Result<Beginning, Failure>)>,
{
    let mut read = std::pin::pin!(read.buffered(READ_AHEAD));
    let mut failures = Failures::default();
    let mut is_first = true;
    while let Some((target, begun)) = read.next().await {
        let is_error = begun.as_ref().is_ok_and(Beginning::is_on_stderr_only);
        if !command.json && !command.no_header {
            print_header(target, is_first, is_error && !command.stderr)?;
        }
        is_first = false;
        let printed = match begun {
            Ok(begun) => print(begun, true, command, client).await,
            Err(failure) => Err(failure),
        };
        failures.record(printed)?;
    }
    failures.end()
}

/// Prints the line before the output of an instance, to where that goes.
fn print_header(target: Target, is_first: bool, is_error: bool) -> CommandResult {
    let before = if is_first { "" } else { "\n" };
    let header = format!("==> {target} <==");
    let mut out = Output::new();
    if is_error {
        // A closed standard error is ignored, as by `note`.
        let _ = writeln!(std::io::stderr(), "{before}{header}");
        return Ok(());
    }
    writeln!(out, "{before}{}", out.paint(Style::Strong, &header))?;
    out.done()
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
    let mut begun = Beginning::of(id, command);
    if command.follow {
        begun.first = Some(first_attempt(client, id, command).await?);
    }
    print(begun, several, command, client).await
}

/// The output of an instance, of which some may have been read.
struct Beginning {
    id: InstanceId,
    /// The attempt to begin with.
    first: Option<u32>,
    stdout: Option<LogChunk>,
    stderr: Option<LogChunk>,
}

impl Beginning {
    const fn of(id: InstanceId, command: &Logs) -> Self {
        Self {
            id,
            first: command.attempt,
            stdout: None,
            stderr: None,
        }
    }

    /// Reads the first part of each stream that is wanted.
    async fn read(target: Target, command: &Logs, client: &Client) -> Result<Self, Failure> {
        let id = instance(target, command, client).await?;
        let mut begun = Self::of(id, command);
        let read = async |stream| {
            let query = query(id, stream, command.attempt, command);
            client.logs(&query).await.map_err(refused)
        };
        if !command.stderr {
            begun.stdout = Some(read(Stream::Stdout).await?);
        }
        if !command.stdout {
            begun.stderr = Some(read(Stream::Stderr).await?);
        }
        Ok(begun)
    }

    fn is_on_stderr_only(&self) -> bool {
        let has = |chunk: &Option<LogChunk>| chunk.as_ref().is_some_and(|it| !it.bytes.is_empty());
        has(&self.stderr) && !has(&self.stdout)
    }
}

/// Prints what has been read, and the rest.
async fn print(begun: Beginning, several: bool, command: &Logs, client: &Client) -> CommandResult {
    let (id, first) = (begun.id, begun.first);
    let log = |stream, stderr, quiet, read| Log {
        id,
        stream,
        first,
        printer: Printer::new(command, several.then_some(id), stream, stderr),
        quiet,
        read,
    };
    let bytes = match (command.stdout, command.stderr) {
        (true, _) => {
            log(Stream::Stdout, false, false, begun.stdout)
                .print(command, client)
                .await?
        }
        (_, true) => {
            log(Stream::Stderr, false, false, begun.stderr)
                .print(command, client)
                .await?
        }
        _ => {
            // Each stream goes where the work itself has written it.
            let stderr = !command.json;
            let stdout = log(Stream::Stdout, false, false, begun.stdout).print(command, client);
            let stderr = log(Stream::Stderr, stderr, true, begun.stderr).print(command, client);
            if command.follow {
                let (stdout, stderr) = tokio::try_join!(stdout, stderr)?;
                stdout + stderr
            } else {
                stdout.await? + stderr.await?
            }
        }
    };
    if bytes == 0 && !command.json && !command.no_header {
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
    /// The first part, if it was read already.
    read: Option<LogChunk>,
}

fn query(id: InstanceId, stream: Stream, attempt: Option<u32>, command: &Logs) -> LogQuery {
    LogQuery {
        instance: id,
        stream,
        attempt,
        process: command.process.clone(),
        run: command.run,
        offset: 0,
        cursor: None,
    }
}

impl Log {
    /// Prints it to its end; returns the number of bytes.
    async fn print(mut self, command: &Logs, client: &Client) -> Result<u64, Failure> {
        let mut query = query(self.id, self.stream, self.first, command);
        let mut bytes = 0;
        loop {
            let piece = match self.read.take() {
                Some(read) => Ok(read),
                None if command.follow => {
                    retry_while_unreachable(note, || client.logs(&query)).await
                }
                None => client.logs(&query).await,
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
