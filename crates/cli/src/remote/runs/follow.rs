//! Following a run to its end: a picture on a terminal, a line for each change elsewhere.
//!
//! Whoever stops watching stops nothing: the run is the scheduler's.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use baton_client::{Client, ClientError};
use baton_model::api::{ErrorGroup, Run, RunTask};
use baton_model::ids::RunId;
use baton_model::limits::PLAN_TASKS_MAX;
use baton_model::state::UniversalState;
use clap::Args;

use super::super::refused;
use super::super::waiting::{CANCELLED, patiently};
use super::id;
use crate::output::{Ended, FAILED, Failure, Output};
use crate::time::now;
use crate::views::{live, summary};

/// How long the scheduler is asked to wait at a time: often enough for a picture.
const GLANCE: Duration = Duration::from_secs(1);
/// Tasks that are looked at while it runs: more than a terminal has lines. At the end, all are.
const TASKS_MAX: usize = 1_000;
/// The terminal's size, where it does not tell.
const SIZE: (usize, usize) = (80, 24);

/// Watch a run until it is over
///
/// Stop watching with ^C; the run goes on.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton watch r12
  baton watch r12 --quiet && deploy
  baton watch r12 --quiet --json | jq .items

Exit status: 0 DONE; 130 HALTED; 1 FAILED or ABORTED; 3 the scheduler cannot be reached, or refuses.")]
pub(crate) struct Watch {
    /// Which run
    #[arg(value_name = "RUN", value_parser = id)]
    run: RunId,
    /// Only wait, and exit with the status of the run
    #[arg(short, long)]
    quiet: bool,
    /// At the end, print the run as JSON
    #[arg(long)]
    json: bool,
}

pub(in super::super) async fn run(command: &Watch, client: &Client) -> Ended {
    let how = match command.quiet {
        true => How::Quiet,
        false => How::Shown,
    };
    // Where nobody answers at first, or there is no such run, nobody is waited for.
    client.run(command.run).await.map_err(refused)?;
    let run = follow(client, command.run, how).await?;
    if command.json {
        let mut out = Output::new();
        out.json(&run)?;
        out.done()?;
    }
    ended(&run)
}

/// How much of it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// How it goes, and a summary at the end.
    Shown,
    /// Nothing.
    Quiet,
}

/// The status that stands for the end of a run.
pub(crate) fn ended(run: &Run) -> Ended {
    match run.state {
        UniversalState::Done => Ok(()),
        UniversalState::Halted => Err(Failure::Silent(CANCELLED)),
        _ => Err(Failure::Silent(FAILED)),
    }
}

/// Follows a run to its end.
pub(crate) async fn follow(client: &Client, run: RunId, how: How) -> Result<Run, Failure> {
    if how == How::Quiet {
        return wait(client, run).await;
    }
    let seen = to_end(client, run, how).await?;
    tell_end(&seen, None)?;
    Ok(seen.0)
}

/// Waits for the end of a run.
async fn wait(client: &Client, run: RunId) -> Result<Run, Failure> {
    loop {
        let seen = patiently(|| client.wait_run(run, GLANCE)).await;
        let seen = seen.map_err(refused)?;
        if seen.state.is_terminal() {
            return Ok(seen);
        }
    }
}

/// Follows a run to its end, and leaves the last word to the caller.
pub(crate) async fn to_end(client: &Client, run: RunId, how: How) -> Result<Seen, Failure> {
    if how == How::Quiet {
        wait(client, run).await?;
    }
    let mut picture = Picture::new();
    loop {
        let seen = patiently(|| look(client, run)).await.map_err(refused)?;
        if seen.0.state.is_terminal() {
            picture.clear();
            return Ok(seen);
        }
        picture.draw(&seen.0, &seen.1, &seen.2);
        patiently(|| client.wait_run(run, GLANCE))
            .await
            .map_err(refused)?;
    }
}

/// A run, its tasks, and what has failed.
pub(crate) type Seen = (Run, Vec<RunTask>, Vec<ErrorGroup>);

async fn look(client: &Client, run: RunId) -> Result<Seen, ClientError> {
    let seen = client.run(run).await?;
    let most = match seen.state.is_terminal() {
        true => PLAN_TASKS_MAX,
        false => TASKS_MAX,
    };
    let tasks = client.run_tasks(run, most).await?;
    let failed = seen.items.is_some_and(|items| items.failed > 0);
    let errors = match failed {
        true => client.run_errors(run).await?,
        false => Vec::new(),
    };
    Ok((seen, tasks, errors))
}

/// The last word about a run, on standard error: it is about the answer, not the answer. `again`
/// is the command that goes on with it where no scheduler is left to be asked.
pub(crate) fn tell_end((run, tasks, errors): &Seen, again: Option<&str>) -> Ended {
    let (width, _) = size();
    let colours = Output::new().colours && io::stderr().is_terminal();
    let lines = summary::render(
        &summary::Summary {
            run,
            tasks,
            errors,
            again,
            now: now(),
        },
        width,
        colours,
    );
    let mut out = io::stderr().lock();
    for line in lines {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Columns and lines of the terminal.
pub(crate) fn size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(io::stderr());
    size.map_or(SIZE, |size| match (size.ws_col, size.ws_row) {
        (0, _) | (_, 0) => SIZE,
        (columns, lines) => (columns.into(), lines.into()),
    })
}

/// What is drawn over, or said line by line.
enum Picture {
    Terminal { lines: usize, colours: bool },
    Lines(live::Plain),
}

impl Picture {
    fn new() -> Self {
        match io::stderr().is_terminal() {
            true => Self::Terminal {
                lines: 0,
                colours: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
            },
            false => Self::Lines(live::Plain::default()),
        }
    }

    fn draw(&mut self, run: &Run, tasks: &[RunTask], errors: &[ErrorGroup]) {
        let frame = live::Frame {
            run,
            tasks,
            errors,
            now: now(),
        };
        // Without anybody to tell there is nothing else to do about it.
        let mut out = io::stderr().lock();
        match self {
            Self::Terminal { lines, colours } => {
                let (width, height) = size();
                let drawn = live::render(&frame, width, height.saturating_sub(1), *colours);
                let mut text = back(*lines);
                for line in &drawn {
                    text.push_str(line);
                    text.push('\n');
                }
                *lines = drawn.len();
                let _ = out.write_all(text.as_bytes());
            }
            Self::Lines(plain) => {
                for line in plain.lines(&frame) {
                    let _ = writeln!(out, "baton: {line}");
                }
            }
        }
        let _ = out.flush();
    }

    /// Removes what is drawn over.
    fn clear(&mut self) {
        if let Self::Terminal { lines, .. } = self {
            // As above.
            let _ = write!(io::stderr(), "{}", back(std::mem::take(lines)));
        }
    }
}

/// Goes back over what was drawn, and removes it.
fn back(lines: usize) -> String {
    match lines {
        0 => String::new(),
        lines => format!("\x1b[{lines}A\r\x1b[J"),
    }
}
