//! `baton local tail`: output of a task's processes.
//!
//! | file | holds |
//! |---|---|
//! | `screen` | filtering of control characters for a terminal |

mod screen;

use std::io::Write;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use baton_model::message::LogStream;
use baton_model::task::{ProcessName, RunNo};
use baton_observer::resume::resume_command;
use baton_runner::logs::{Follower, LogSource, ProcessLogs};
use baton_runner::root::{Phase, Root, TaskId};
use clap::Args;

use crate::output::{CommandResult, Failure, Output, clean, note};
pub(crate) use screen::StreamPrinter;

/// Show the last lines of a process's output
///
/// Shows the newest run, unless --run selects another; rotated files are read as one. Without a
/// process, all processes of the task are shown, each line with the name of its process. In a pipe
/// the output is unchanged; on a terminal, control characters other than colours are escaped.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton local tail nightly fetch -n 50
  baton local tail nightly fetch --stderr --run 0
  baton local tail nightly -f")]
pub(super) struct Tail {
    /// Task id or a part of it
    task: String,
    /// Name of the process [default: all]
    process: Option<String>,
    /// Show standard error instead of standard output
    #[arg(long)]
    stderr: bool,
    /// Follow the output until the task has ended, including later runs
    #[arg(short, long)]
    follow: bool,
    /// Number of the run, from 0 [default: the newest]
    #[arg(long, value_name = "N")]
    run: Option<u64>,
    /// Number of lines
    #[arg(short = 'n', long, value_name = "LINES", default_value_t = 10)]
    lines: usize,
}

/// Interval between two reads.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Reads between two checks for a running runner: five seconds.
const POLLS_PER_RUNNER_CHECK: u64 = 25;

/// One followed process.
struct TailedProcess {
    follower: Follower,
    printer: StreamPrinter,
}

pub(super) fn run(tail: &Tail, root: &Root) -> CommandResult {
    let entry = root.find_one(&tail.task)?;
    let header = root.header(&entry)?;
    let names: Vec<ProcessName> = header.spec.processes.into_iter().map(|p| p.name).collect();
    let chosen = chosen(&names, tail.process.as_deref())?;
    let mut out = Output::new();
    let mut tailed = Vec::new();
    for name in &chosen {
        let follower = follower(tail, Path::new(&header.sandbox), name)?;
        let prefix = (chosen.len() > 1).then(|| prefix(&chosen, name));
        let printer = StreamPrinter::new(prefix, out.terminal);
        tailed.push(TailedProcess { follower, printer });
    }
    if tail.follow {
        follow(&mut out, &mut tailed, root, &entry.id)?;
    }
    // One after another, each to its end, so that lines are not interleaved.
    for each in &mut tailed {
        each.print_new(&mut out)?;
        each.printer.finish(&mut out)?;
    }
    out.done()?;
    if let ([only], [name]) = (&tailed[..], &chosen[..])
        && !tail.follow
        && only.follower.has_no_file()
    {
        let name = clean(&name.0);
        note(&format!("{name} has no output yet; wait for it with -f"));
    }
    Ok(())
}

fn chosen<'a>(
    names: &'a [ProcessName],
    wanted: Option<&str>,
) -> Result<Vec<&'a ProcessName>, Failure> {
    let Some(wanted) = wanted else {
        return Ok(names.iter().collect());
    };
    match names.iter().find(|name| name.0 == wanted) {
        Some(name) => Ok(vec![name]),
        None => {
            let known: Vec<String> = names.iter().map(|name| clean(&name.0)).collect();
            Err(Failure::failed(format!(
                "the task has no process `{}`; it has: {}",
                clean(wanted),
                known.join(", ")
            )))
        }
    }
}

fn follower(tail: &Tail, sandbox: &Path, name: &ProcessName) -> Result<Follower, Failure> {
    let stream = if tail.stderr {
        LogStream::Stderr
    } else {
        LogStream::Stdout
    };
    let process = clean(&name.0);
    let logs = ProcessLogs::new(sandbox, &name.0)
        .ok_or_else(|| Failure::failed(format!("the process `{process}` has no log directory")))?;
    let unreadable = |error| Failure::failed(format!("cannot read the logs of {process}: {error}"));
    let run = tail.run.map(RunNo);
    if let Some(wanted) = run
        && !tail.follow
        && tail.process.is_some()
    {
        let runs = logs.runs().map_err(unreadable)?;
        if !runs.contains(&wanted) {
            return Err(Failure::failed(match runs.last() {
                Some(last) => format!(
                    "{process} has no log of run {}; its last run is {}",
                    wanted.0, last.0
                ),
                None => format!("{process} has not run yet"),
            }));
        }
    }
    let source = LogSource::Process(logs, stream);
    let mut follower = match run {
        Some(run) => Follower::of_run(source, run),
        None => Follower::new(source),
    };
    follower.skip(tail.lines).map_err(unreadable)?;
    Ok(follower)
}

/// `name | `, all of one width.
fn prefix(all: &[&ProcessName], name: &ProcessName) -> String {
    let length = |name: &ProcessName| clean(&name.0).chars().count();
    let width = all.iter().map(|name| length(name)).max().unwrap_or(0);
    let padding = " ".repeat(width - length(name));
    format!("{}{padding} | ", clean(&name.0))
}

impl TailedProcess {
    /// Prints new output.
    fn print_new(&mut self, out: &mut Output) -> CommandResult {
        let Self { follower, printer } = self;
        // A write error (such as a closed pipe) is reported differently from a read error.
        let mut written = Ok(());
        let mut print = |bytes: &[u8]| {
            written = printer.print(bytes, out);
            written.is_ok()
        };
        follower
            .read(&mut print)
            .map_err(|error| Failure::failed(format!("cannot read the log: {error}")))?;
        Ok(written?)
    }
}

fn follow(
    out: &mut Output,
    tailed: &mut [TailedProcess],
    root: &Root,
    id: &TaskId,
) -> CommandResult {
    let mut warned = false;
    for polls in 0_u64.. {
        // Checked before reading, so that output written before the end is not missed. A task
        // that was removed has ended, too.
        let over = root.phase(id)? != Some(Phase::Active);
        for each in &mut *tailed {
            each.print_new(out)?;
        }
        out.flush()?;
        if over {
            break;
        }
        if !warned && polls.is_multiple_of(POLLS_PER_RUNNER_CHECK) && !root.is_driven(id)? {
            warned = true;
            let next = match root.attempt() {
                Some(_) => "its worker starts it again, or ends it".to_owned(),
                None => format!("resume it with {}", resume_command(root, id)),
            };
            note(&format!("{id} has no runner; {next}"));
        }
        sleep(POLL_INTERVAL);
    }
    Ok(())
}
