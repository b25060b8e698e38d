//! `baton wait`: until instances and runs have ended.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use baton_client::{Client, View};
use baton_files::units::duration;
use baton_model::api::RangeSummary;
use baton_model::state::UniversalState;
use baton_model::time::Millis;
use clap::Args;
use serde::Serialize;

use super::filters::InstanceFilterArgs;
use super::readiness::ReadinessReport;
use super::runs;
use super::selection::{self, Matches, Unit};
use super::submit::{self, Shows};
use super::waiting;
use crate::connection::refused;
use crate::ids;
use crate::ids::IdArg;
use crate::output::{CANCELLED, CommandResult, FAILED, Failure, Output, Style, note};
use crate::painter::{Progress, done_bar};
use crate::text::Line;
use crate::time::span;

/// Exit code when the time is over, as `timeout` has it.
pub(super) const TIMED_OUT: u8 = 124;

/// Timeout of one long-poll request; short enough to refresh the progress line.
const LONG_POLL: Duration = Duration::from_secs(1);

/// Wait until instances and runs have ended, and exit with their status
///
/// ^C stops waiting; the work continues, and a line says how to go on. With --json, one object per line for each instance, range or
/// run that was named, when it has ended.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton wait i12
  baton wait i1..i1000 r3 --timeout 2h
  baton wait --name nightly-report
  baton submit --array 1-100 -- ./shard.sh && baton wait i1..i100

Exit status: 0 all DONE; the exit code of the command, for a single instance; 130 cancelled; 124 the
--timeout is over; 1 failed otherwise, or not found; 3 the scheduler cannot be reached, or refuses.")]
pub(crate) struct Wait {
    /// Instances (i12, i1..i9) and runs (r3)
    #[arg(value_name = "ID", value_parser = ids::arg)]
    ids: Vec<IdArg>,
    /// Give up after this time, such as 90s or 2h
    #[arg(long, value_name = "TIME", value_parser = time)]
    timeout: Option<Millis>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten, next_help_heading = "Filters")]
    filter: InstanceFilterArgs,
}

pub(super) fn time(text: &str) -> Result<Millis, String> {
    duration(text).map_err(|error| error.to_string())
}

/// JSON of the instances that have matched a filter.
#[derive(Serialize)]
struct Ended<'a> {
    filter: &'a str,
    counts: &'a BTreeMap<UniversalState, u64>,
}

pub(super) async fn run(command: &Wait, client: &Client) -> CommandResult {
    let views = &[View::Bullpen, View::Arena];
    let units = selection::resolve(&command.ids, &command.filter.filter(), views, client).await?;
    // What does not exist is not waited for, whatever comes before it.
    for unit in &units {
        match unit {
            Unit::Instance(id) => {
                client.instance(*id).await.map_err(refused)?;
            }
            Unit::Range(span) => {
                client.range(*span).await.map_err(refused)?;
            }
            Unit::Run(run) => {
                client.run(*run).await.map_err(refused)?;
            }
            Unit::Matches(_) => {}
        }
    }
    let waited = wait_for_all(&units, command.json, client);
    let waited = waiting::unless_interrupted(interrupted(command, &units), waited);
    let Some(limit) = command.timeout else {
        return waited.await;
    };
    let limit_time = Duration::from_millis(limit.0);
    match tokio::time::timeout(limit_time, waited).await {
        Ok(ended) => ended,
        Err(_) => Err(Failure::Message(
            TIMED_OUT,
            format!(
                "not all have ended after {}; the work continues",
                span(limit)
            ),
        )),
    }
}

/// What ^C prints: the work continues.
fn interrupted(command: &Wait, units: &[Unit]) -> String {
    let words = selection::command_line(&command.ids, &command.filter.filter());
    let what = match units {
        [Unit::Matches(matches)] => matches.describe(),
        _ => words.clone(),
    };
    let is_one = matches!(units, [Unit::Instance(_) | Unit::Range(_) | Unit::Run(_)]);
    let (verb, it) = if is_one {
        ("continues", "it")
    } else {
        ("continue", "them")
    };
    format!(
        "{what} {verb}; `baton wait {words}` waits for {it} again, `baton cancel {words}` cancels {it}"
    )
}

/// Waits for one after the other: together they take as long as the last.
async fn wait_for_all(units: &[Unit], json: bool, client: &Client) -> CommandResult {
    let mut codes = Vec::new();
    for unit in units {
        let out = Output::new();
        let ended = match unit {
            Unit::Instance(id) => {
                let one = selection::one_of(*id);
                submit::wait(client, one, Shows::end(json), out).await
            }
            Unit::Range(span) => submit::wait(client, *span, Shows::end(json), out).await,
            Unit::Run(run) => runs::submit::wait(client, *run, json, out).await,
            Unit::Matches(matches) => wait_for_matches(matches, json, out, client).await,
        };
        match ended {
            Ok(()) => codes.push(0),
            Err(Failure::Silent(code)) => codes.push(code),
            Err(other) => return Err(other),
        }
    }
    match exit_code(&codes) {
        0 => Ok(()),
        code => Err(Failure::Silent(code)),
    }
}

/// The exit code of several: failure takes precedence over cancellation.
fn exit_code(codes: &[u8]) -> u8 {
    match codes {
        [code] => *code,
        codes if codes.iter().all(|code| *code == 0) => 0,
        codes if codes.iter().all(|code| [0, CANCELLED].contains(code)) => CANCELLED,
        _ => FAILED,
    }
}

async fn wait_for_matches(
    matches: &Matches,
    json: bool,
    mut out: Output,
    client: &Client,
) -> CommandResult {
    let began = Instant::now();
    let mut progress = Progress::new();
    let mut readiness = ReadinessReport::new();
    let counts = loop {
        let wait = || client.wait_all(&matches.spans, LONG_POLL);
        let counts = waiting::retry_while_unreachable(|text| progress.note(text), wait).await;
        let counts = counts.map_err(refused)?;
        if counts.keys().all(|state| state.is_terminal()) {
            progress.clear();
            break counts;
        }
        let ended = counts.iter().filter(|(state, _)| state.is_terminal());
        let ended = ended.map(|(_, count)| count).sum();
        let mut line = Line::new();
        if progress.terminal {
            line.extend(done_bar(ended, matches.count()));
        } else {
            line.add(Style::Plain, matches.describe());
        }
        line.add(
            Style::Plain,
            format!(" {}", waiting::counts(&summary(&counts))),
        );
        let elapsed = Millis::from_secs(began.elapsed().as_secs());
        progress.update(line, &format!(", {}", span(elapsed)));
        readiness.update(client, |text| progress.note(text)).await;
    };
    if json {
        let filter = &*matches.filter;
        let counts = &counts;
        out.json_line(&Ended { filter, counts })?;
    } else {
        let counts = waiting::counts(&summary(&counts));
        note(&format!("{} {counts}", matches.describe()));
    }
    out.done()?;
    match waiting::range_exit_code(&summary(&counts)) {
        0 => Ok(()),
        code => Err(Failure::Silent(code)),
    }
}

fn summary(counts: &BTreeMap<UniversalState, u64>) -> RangeSummary {
    RangeSummary {
        first: String::new(),
        last: String::new(),
        counts: counts.clone(),
        parts: Vec::new(),
        links: BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_a_failure_counts_more_than_a_cancellation() {
        assert_eq!(exit_code(&[7]), 7);
        assert_eq!(exit_code(&[0, 0]), 0);
        assert_eq!(exit_code(&[0, CANCELLED]), CANCELLED);
        assert_eq!(exit_code(&[CANCELLED, 7, 0]), FAILED);
    }
}
