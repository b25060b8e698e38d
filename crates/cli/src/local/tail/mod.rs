//! `baton local tail`: what the processes of a task printed.
//!
//! | file | holds |
//! |---|---|
//! | `last` | where the last lines begin |
//! | `follow` | one stream, across rotations, truncations and runs |
//! | `screen` | what of it may reach a terminal |

mod follow;
mod last;
mod screen;

use std::io::Write;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use baton_model::task::{ProcessName, RunNo};
use baton_runner::root::{Phase, Root, Stream, TaskId, log_dir, run_dirs};
use clap::Args;

use super::resume_command;
use crate::output::{CommandResult, Failure, Output, clean, note};
pub(super) use follow::Follower;
pub(crate) use screen::StreamPrinter;

/// Show the last lines that a process printed
///
/// The newest run counts, unless --run names another; rotated files are read as one. Without
/// a process, all of the task are shown, each line with the name of its process. Into a pipe the
/// output goes as it is; on a terminal, control characters other than colours are shown as text.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton local tail nightly fetch -n 50
  baton local tail nightly fetch --stderr --run 0
  baton local tail nightly -f")]
pub(super) struct Tail {
    /// A task, by its id or a part of it
    task: String,
    /// A process of it
    process: Option<String>,
    /// Standard error instead of standard output
    #[arg(long)]
    stderr: bool,
    /// Go on until the task has ended, later runs included
    #[arg(short, long)]
    follow: bool,
    /// This run, from 0, instead of the newest
    #[arg(long, value_name = "N")]
    run: Option<u64>,
    /// So many lines
    #[arg(short = 'n', long, value_name = "LINES", default_value_t = 10)]
    lines: usize,
}

/// From one look to the next.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Looks from one question whether a runner is there to the next: five seconds.
const POLLS_PER_RUNNER_CHECK: u64 = 25;

/// One process that is shown.
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
    // One after the other, each to its end: lines of two are not mixed.
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
        note(&format!("{name} has printed nothing yet; -f waits for it"));
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
        Stream::Stderr
    } else {
        Stream::Stdout
    };
    let process = clean(&name.0);
    let dir = log_dir(sandbox, name)
        .ok_or_else(|| Failure::failed(format!("`{process}` cannot have logs")))?;
    let unreadable = |error| {
        Failure::failed(format!(
            "cannot read {}: {error}",
            clean(&dir.display().to_string())
        ))
    };
    let run = tail.run.map(RunNo);
    if let Some(wanted) = run
        && !tail.follow
        && tail.process.is_some()
    {
        let runs = run_dirs(&dir).map_err(unreadable)?;
        if !runs.contains(&wanted) {
            return Err(Failure::failed(match runs.last() {
                Some(last) => format!(
                    "{process} has no logs of run {}; its last is {}",
                    wanted.0, last.0
                ),
                None => format!("{process} has not run yet"),
            }));
        }
    }
    Follower::begin(dir.clone(), stream, run, tail.lines).map_err(unreadable)
}

/// `name | `, all of one width.
fn prefix(all: &[&ProcessName], name: &ProcessName) -> String {
    let length = |name: &ProcessName| clean(&name.0).chars().count();
    let width = all.iter().map(|name| length(name)).max().unwrap_or(0);
    let padding = " ".repeat(width - length(name));
    format!("{}{padding} | ", clean(&name.0))
}

impl TailedProcess {
    /// Prints what there is.
    fn print_new(&mut self, out: &mut Output) -> CommandResult {
        let Self { follower, printer } = self;
        // Reading and writing fail in different ways, and only one is about a file.
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
        // Before looking: what was printed before the end is then there to be seen. A
        // task that was cleared away has ended too.
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
            note(&format!(
                "nobody drives {id}; resume it with {}",
                resume_command(id)
            ));
        }
        sleep(POLL_INTERVAL);
    }
    Ok(())
}
