//! Following a run to its end: a live display on a terminal, a line for each change elsewhere.
//!
//! The run belongs to the scheduler: ending the command does not affect it.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use baton_client::{Client, ClientError};
use baton_model::api::{ErrorGroup, Run, RunTask};
use baton_model::ids::RunId;
use baton_model::limits::PLAN_TASKS_MAX;
use baton_model::state::UniversalState;
use clap::Args;

use super::super::readiness::ReadinessReport;
use super::super::waiting::{interruptible, retry_while_unreachable};
use crate::connection::refused;
use crate::ids;
use crate::output::{CANCELLED, CommandResult, FAILED, Failure, Output, colours, note};
use crate::painter::{Progress, size};
use crate::time::now;
use crate::views::{live, summary};

/// Timeout of one long-poll request; short enough to refresh the display.
const LONG_POLL: Duration = Duration::from_secs(1);
/// Tasks fetched while the run is live: more than a terminal has lines. At the end, all are.
const TASKS_MAX: usize = 1_000;

/// Show live progress of a run until it has ended
///
/// ^C stops watching; the run continues.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton watch r12
  baton watch r12 --quiet && deploy
  baton watch r12 --quiet --json | jq .items

Exit status: 0 DONE; 130 HALTED; 1 FAILED or ABORTED; 3 the scheduler cannot be reached, or refuses.")]
pub(crate) struct Watch {
    /// Run id, such as r12
    #[arg(value_name = "RUN", value_parser = ids::run)]
    run: RunId,
    /// Show nothing; wait, and exit with the status of the run
    #[arg(short, long)]
    quiet: bool,
    /// Print the ended run as JSON
    #[arg(long)]
    json: bool,
}

pub(in super::super) async fn run(command: &Watch, client: &Client) -> CommandResult {
    let mode = if command.quiet {
        ProgressMode::Quiet
    } else {
        ProgressMode::Live
    };
    // Only a scheduler that has answered once, and an existing run, are waited for.
    client.run(command.run).await.map_err(refused)?;
    let followed = follow(client, command.run, mode);
    let run = interruptible(&command.run.to_string(), followed).await?;
    if command.json {
        let mut out = Output::new();
        out.json(&run)?;
        out.done()?;
    }
    ended(&run)
}

/// How much progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgressMode {
    /// Live progress, and a summary at the end.
    Live,
    Quiet,
}

/// Converts the final state of a run into an exit status.
pub(crate) fn ended(run: &Run) -> CommandResult {
    match run.state {
        UniversalState::Done => Ok(()),
        UniversalState::Halted => Err(Failure::Silent(CANCELLED)),
        _ => Err(Failure::Silent(FAILED)),
    }
}

/// Follows a run to its end, and prints its summary.
pub(crate) async fn follow(
    client: &Client,
    run: RunId,
    mode: ProgressMode,
) -> Result<Run, Failure> {
    if mode == ProgressMode::Quiet {
        return wait(client, run).await;
    }
    let snapshot = follow_to_end(client, run, mode).await?;
    print_summary(&snapshot, None)?;
    Ok(snapshot.0)
}

/// Waits until a run has ended.
async fn wait(client: &Client, run: RunId) -> Result<Run, Failure> {
    let mut readiness = ReadinessReport::new();
    loop {
        let snapshot = retry_while_unreachable(note, || client.wait_run(run, LONG_POLL)).await;
        let snapshot = snapshot.map_err(refused)?;
        if snapshot.state.is_terminal() {
            return Ok(snapshot);
        }
        readiness.update(client, note).await;
    }
}

/// Follows a run to its end; the caller prints the summary.
pub(crate) async fn follow_to_end(
    client: &Client,
    run: RunId,
    mode: ProgressMode,
) -> Result<RunSnapshot, Failure> {
    if mode == ProgressMode::Quiet {
        wait(client, run).await?;
    }
    let mut progress = Progress::new();
    let mut plain = live::Plain::default();
    let mut readiness = ReadinessReport::new();
    loop {
        let snapshot =
            retry_while_unreachable(|text| progress.note(text), || fetch(client, run)).await;
        let snapshot = snapshot.map_err(refused)?;
        if snapshot.0.state.is_terminal() {
            progress.clear();
            return Ok(snapshot);
        }
        draw(&mut progress, &mut plain, &snapshot);
        readiness.update(client, |text| progress.note(text)).await;
        let wait = || client.wait_run(run, LONG_POLL);
        let waited = retry_while_unreachable(|text| progress.note(text), wait).await;
        waited.map_err(refused)?;
    }
}

/// A run, its tasks, and its failures.
pub(crate) type RunSnapshot = (Run, Vec<RunTask>, Vec<ErrorGroup>);

async fn fetch(client: &Client, run: RunId) -> Result<RunSnapshot, ClientError> {
    let snapshot = client.run(run).await?;
    let most = if snapshot.state.is_terminal() {
        PLAN_TASKS_MAX
    } else {
        TASKS_MAX
    };
    let tasks = client.run_tasks(run, most).await?;
    let failed = snapshot.items.is_some_and(|items| items.failed > 0);
    let errors = if failed {
        client.run_errors(run).await?
    } else {
        Vec::new()
    };
    Ok((snapshot, tasks, errors))
}

/// Prints the summary of a run to standard error; `local` for `baton run`, whose scheduler ends with
/// it.
pub(crate) fn print_summary(
    (run, tasks, errors): &RunSnapshot,
    local: Option<summary::LocalCommands<'_>>,
) -> CommandResult {
    let (width, _) = size(io::stderr());
    let lines = summary::render(
        &summary::Summary {
            run,
            tasks,
            errors,
            local,
            whole: false,
            now: now(),
        },
        width,
        colours(io::stderr().is_terminal()),
    );
    let mut out = io::stderr().lock();
    for line in lines {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Shows progress: a frame on a terminal, elsewhere a line for each change.
fn draw(progress: &mut Progress, plain: &mut live::Plain, (run, tasks, errors): &RunSnapshot) {
    let frame = live::Frame {
        run,
        tasks,
        errors,
        now: now(),
    };
    if progress.terminal {
        let (width, height) = size(io::stderr());
        progress.draw(live::render(&frame, width, height.saturating_sub(1)));
    } else {
        plain.lines(&frame).iter().for_each(|line| note(line));
    }
}
