//! `baton cancel`, `baton kill` and `baton retry`.

use std::io::Write;
use std::slice;

use baton_client::{Client, View};
use baton_model::api::CancelReply;
use baton_model::outcome::KillMode;
use baton_model::state::UniversalState;
use clap::Args;
use serde_json::json;

use super::filters::InstanceFilterArgs;
use super::runs::change::{self, RerunArgs, ResumeArgs};
use super::selection::{self, ConfirmArgs, Sequence, Unit};
use crate::connection::refused;
use crate::ids;
use crate::ids::IdArg;
use crate::output::{CommandResult, Failure, Output};
use crate::text::grouped;

/// Cancel instances or runs
///
/// Queued instances are HALTED at once; running ones are stopped by their workers: a task stops its
/// processes and runs its final ones, within its finalization_wait. A run is killed likewise. A filter
/// cancels all instances that match and have not ended; it asks first, unless -y is given. With
/// --json, an object: the counts halted and stopping; for a run, its id and generation; for several,
/// an array.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton cancel i12
  baton cancel i12 --now             kill all its processes, also those that are stopping
  baton cancel i1..i1000 i1012 r3
  baton cancel --name sim --state QUEUED -y
  baton cancel r3                    kill a run; `baton halt` lets running tasks finish
  baton kill i12                     end the attempt only; retries follow")]
pub(crate) struct Cancel {
    /// Instances (i12, i1..i9) and runs (r3)
    #[arg(value_name = "ID", value_parser = ids::arg)]
    ids: Vec<IdArg>,
    /// Kill all processes at once, without running final processes
    #[arg(long)]
    now: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten, next_help_heading = "Filters")]
    filter: InstanceFilterArgs,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

/// Kill the running attempts of instances, as if they had ended by themselves
///
/// Retries follow as after a failure, and it counts as one: without a retry left, the instance is
/// FAILED. `baton cancel` ends the instance instead. Of a range or a filter, those that run are killed.
/// With --json, an object: id and attempt; of a range, the counts killed and skipped; for several, an
/// array.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton kill i12
  baton kill i12 --attempt 2         only if attempt 2 still runs
  baton kill i12 --now               without final processes
  baton kill i1..i9 i12
  baton kill --name sim -y")]
pub(crate) struct Kill {
    /// Instances (i12, i1..i9)
    #[arg(value_name = "ID", value_parser = ids::arg)]
    ids: Vec<IdArg>,
    /// Only if this attempt runs
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    /// Kill all processes at once, without running final processes
    #[arg(long)]
    now: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten, next_help_heading = "Filters")]
    filter: InstanceFilterArgs,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

/// Retry instances or runs that have failed or were halted
///
/// Of a range or a filter, the instances that are FAILED run again, and the others are skipped; those
/// that were cancelled only with --state HALTED. Of a run, everything that is not DONE runs again;
/// with --task, all items of that task run again, also if the run is DONE. With --json, an object:
/// the id; of a range, the counts retried and skipped; for several, an array.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton retry i12
  baton retry i1..i1000              those of them that are FAILED
  baton retry i1..i1000 --state HALTED
  baton retry --name sim --since 2h -y
  baton history --state FAILED       instances that can be retried
  baton retry r3
  baton retry r3 --task extract --downstream --dry-run
  baton retry r3 --task load -p day=2026-11-15       and the tasks that refer to the parameter")]
pub(crate) struct Retry {
    /// Instances (i12, i1..i9) and runs (r3)
    #[arg(value_name = "ID", value_parser = ids::arg)]
    ids: Vec<IdArg>,
    #[command(flatten)]
    rerun: RerunArgs,
    #[command(flatten)]
    resume: ResumeArgs,
    #[command(flatten, next_help_heading = "Filters")]
    filter: InstanceFilterArgs,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

pub(super) async fn cancel(command: &Cancel, client: &Client) -> CommandResult {
    let mode = mode(command.now);
    let views = &[View::Bullpen, View::Arena];
    let units = selection::resolve(&command.ids, &command.filter.filter(), views, client).await?;
    selection::confirm("cancel", &units, &command.ids, &command.confirm)?;
    let mut results = Sequence::new(command.json && units.len() > 1);
    for unit in &units {
        results.begin()?;
        results.record(cancel_one(unit, mode, command.json, client).await)?;
    }
    results.end()
}

async fn cancel_one(unit: &Unit, mode: KillMode, json: bool, client: &Client) -> CommandResult {
    let mut out = Output::new();
    let (cancelled, text) = match unit {
        Unit::Run(run) => {
            let answer = client.kill_run(*run, mode).await.map_err(refused)?;
            if json {
                out.json(&answer)?
            } else {
                writeln!(out, "{run}: killing")?
            }
            return out.done();
        }
        Unit::Instance(id) => {
            let one = selection::one_of(*id);
            let cancelled = client.cancel(one, mode).await.map_err(refused)?;
            let text = describe_result(&id.to_string(), 1, &cancelled);
            (cancelled, text)
        }
        Unit::Range(span) => {
            let cancelled = client.cancel(*span, mode).await.map_err(refused)?;
            let text = describe_result(&ids::describe(*span), u64::MAX, &cancelled);
            (cancelled, text)
        }
        Unit::Matches(matches) => {
            let cancelled = client.cancel_all(&matches.spans, mode);
            let cancelled = cancelled.await.map_err(refused)?;
            let text = describe_result(&matches.describe(), u64::MAX, &cancelled);
            (cancelled, text)
        }
    };
    if json {
        out.json(&cancelled)?
    } else {
        writeln!(out, "{text}")?
    }
    out.done()
}

const fn mode(now: bool) -> KillMode {
    if now {
        KillMode::Now
    } else {
        KillMode::Graceful
    }
}

pub(super) async fn kill(command: &Kill, client: &Client) -> CommandResult {
    let views = &[View::Arena];
    let units = selection::resolve(&command.ids, &command.filter.filter(), views, client).await?;
    let one = matches!(&*units, [Unit::Instance(_)]);
    if command.attempt.is_some() && !one {
        return Err(Failure::usage("--attempt applies to one instance"));
    }
    selection::confirm(
        "kill the attempts of",
        &units,
        &command.ids,
        &command.confirm,
    )?;
    let mut results = Sequence::new(command.json && units.len() > 1);
    for unit in &units {
        results.begin()?;
        results.record(kill_one(unit, command, client).await)?;
    }
    results.end()
}

async fn kill_one(unit: &Unit, command: &Kill, client: &Client) -> CommandResult {
    let mode = mode(command.now);
    let mut out = Output::new();
    let (spans, shown) = match unit {
        Unit::Instance(id) => {
            let killed = client.kill_attempt(*id, command.attempt, mode);
            let killed = killed.await.map_err(refused)?;
            if command.json {
                out.json(&killed)?
            } else {
                writeln!(out, "{}: killing attempt {}", killed.id, killed.attempt)?
            }
            return out.done();
        }
        Unit::Range(span) => (slice::from_ref(span), ids::describe(*span)),
        Unit::Matches(matches) => (&*matches.spans, matches.describe()),
        Unit::Run(run) => {
            return Err(Failure::usage(format!(
                "{run} is a run; `baton cancel {run}` kills it, `baton halt {run} --kill` lets it \
                 be resumed"
            )));
        }
    };
    let counts = client.kill_all(spans, mode).await.map_err(refused)?;
    if command.json {
        out.json(&counts)?
    } else {
        let killed = grouped(counts.killed);
        writeln!(
            out,
            "{shown}: killing {killed} attempts{}",
            skipped(counts.skipped, "not running")
        )?
    }
    out.done()
}

/// Tells how many were not concerned, and why.
fn skipped(count: u64, reason: &str) -> String {
    match count {
        0 => String::new(),
        count => format!(", {} skipped ({reason})", grouped(count)),
    }
}

fn describe_result(shown: &str, count: u64, cancelled: &CancelReply) -> String {
    let (halted, stopping) = (cancelled.halted, cancelled.stopping);
    match (count, halted, stopping) {
        (_, 0, 0) => format!("{shown}: nothing to cancel, already ended"),
        (1, 0, _) => format!("{shown}: stopping"),
        (1, _, 0) => format!("{shown}: halted"),
        _ => format!(
            "{shown}: {} halted, {} stopping",
            grouped(halted),
            grouped(stopping)
        ),
    }
}

pub(super) async fn retry(command: &Retry, client: &Client) -> CommandResult {
    let views = &[View::History];
    let filter = command.filter.filter();
    let state = filter.state.unwrap_or(UniversalState::Failed);
    if !matches!(state, UniversalState::Failed | UniversalState::Halted) {
        return Err(Failure::usage(
            "only FAILED or HALTED instances can be retried; --state takes one of them",
        ));
    }
    let units = selection::resolve_retried(&command.ids, &filter, views, client).await?;
    selection::confirm("retry", &units, &command.ids, &command.confirm)?;
    let mut results = Sequence::new(command.resume.json && units.len() > 1);
    for unit in &units {
        results.begin()?;
        results.record(retry_one(unit, state, command, client).await)?;
    }
    results.end()
}

async fn retry_one(
    unit: &Unit,
    state: UniversalState,
    command: &Retry,
    client: &Client,
) -> CommandResult {
    let (rerun, resume) = (&command.rerun, &command.resume);
    if let Unit::Run(run) = unit {
        return change::retry(*run, rerun, resume, client).await;
    }
    if rerun.is_set() || resume.is_for_runs() {
        return Err(Failure::usage(
            "--task, --downstream, --dry-run, --wait, --watch and --generation apply to runs only; \
             name a run such as r12",
        ));
    }
    let mut out = Output::new();
    let (spans, shown) = match unit {
        Unit::Instance(id) => {
            client.retry(*id).await.map_err(refused)?;
            if resume.json {
                out.json(&json!({ "id": id.to_string() }))?
            } else {
                writeln!(out, "{id}: queued again")?
            }
            return out.done();
        }
        Unit::Range(span) => (slice::from_ref(span), ids::describe(*span)),
        Unit::Matches(matches) => (&*matches.spans, matches.describe()),
        // Handled above.
        Unit::Run(_) => return Ok(()),
    };
    let counts = client.retry_all(spans, state).await.map_err(refused)?;
    if resume.json {
        out.json(&counts)?
    } else {
        let retried = grouped(counts.retried);
        let reason = format!("not {state}, or part of a run");
        writeln!(
            out,
            "{shown}: {retried} queued again{}",
            skipped(counts.skipped, &reason)
        )?
    }
    out.done()
}

#[cfg(test)]
mod tests {
    use baton_client::Span;

    use super::*;

    #[test]
    fn what_came_of_it_is_told() {
        let one = ids::span("i1").expect("one");
        let many = ids::span("i1..i1000").expect("many");
        let came = |which: Span, halted, stopping| {
            let reply = CancelReply { halted, stopping };
            describe_result(&ids::describe(which), which.count(), &reply)
        };
        assert_eq!(came(one, 1, 0), "i1: halted");
        assert_eq!(came(one, 0, 1), "i1: stopping");
        assert_eq!(came(one, 0, 0), "i1: nothing to cancel, already ended");
        assert_eq!(
            came(many, 990, 10),
            "i1..i1000 (1,000 instances): 990 halted, 10 stopping"
        );
    }
}
