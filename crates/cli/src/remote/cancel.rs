//! `baton cancel`, `baton kill` and `baton retry`.

use std::io::Write;

use baton_client::{Client, Span};
use baton_model::api::CancelReply;
use baton_model::ids::InstanceId;
use baton_model::outcome::KillMode;
use clap::Args;
use serde_json::json;

use super::ids::Target;
use super::runs::change::{self, RerunArgs, ResumeArgs};
use super::{ids, refused};
use crate::output::{CommandResult, Failure, Output};

/// Cancel instances or a run
///
/// Queued instances are HALTED at once; running ones are stopped by their workers: a task stops its
/// processes and runs its final ones, within its finalization_wait. A run is killed likewise. With
/// --json, an object: the counts halted and stopping; for a run, its id and generation.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton cancel i12
  baton cancel i12 --now             kill all its processes, also those that are stopping
  baton cancel i1..i1000
  baton cancel r3                    kill a run; `baton halt` lets running tasks finish
  baton kill i12                     end the attempt only; retries follow")]
pub(crate) struct Cancel {
    /// Instance (i12), range (i1..i9) or run (r3)
    #[arg(value_name = "ID", value_parser = ids::target)]
    target: Target,
    /// Kill all processes at once, without running final processes
    #[arg(long)]
    now: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Kill the running attempt of an instance, as if it had ended by itself
///
/// Retries follow as after a failure, and it counts as one: without a retry left, the instance is
/// FAILED. `baton cancel` ends the instance instead. With --json, an object: id and attempt.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton kill i12
  baton kill i12 --attempt 2         only if attempt 2 still runs
  baton kill i12 --now               without final processes")]
pub(crate) struct Kill {
    /// Instance (i12)
    #[arg(value_name = "ID", value_parser = ids::instance)]
    id: InstanceId,
    /// Only if this attempt runs
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    /// Kill all processes at once, without running final processes
    #[arg(long)]
    now: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Retry an instance or a run that has failed or was halted
///
/// Of a run, everything that is not DONE runs again; with --task, all items of that task run again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton retry i12
  baton history --state FAILED       instances that can be retried
  baton retry r3
  baton retry r3 --task extract --downstream --dry-run")]
pub(crate) struct Retry {
    /// Instance (i12) or run (r3)
    #[arg(value_name = "ID", value_parser = ids::instance_or_run)]
    target: Target,
    #[command(flatten)]
    rerun: RerunArgs,
    #[command(flatten)]
    resume: ResumeArgs,
}

pub(super) async fn cancel(command: &Cancel, client: &Client) -> CommandResult {
    let mut out = Output::new();
    let mode = mode(command.now);
    let span = match command.target {
        Target::Instances(span) => span,
        Target::Run(run) => {
            let answer = client.kill_run(run, mode).await.map_err(refused)?;
            if command.json {
                out.json(&answer)?
            } else {
                writeln!(out, "{run}: killing")?
            }
            return out.done();
        }
    };
    let cancelled = client.cancel(span, mode).await.map_err(refused)?;
    if command.json {
        out.json(&cancelled)?
    } else {
        writeln!(out, "{}", describe_result(span, &cancelled))?
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
    let killed = client.kill_attempt(command.id, command.attempt, mode(command.now));
    let killed = killed.await.map_err(refused)?;
    let mut out = Output::new();
    if command.json {
        out.json(&killed)?
    } else {
        writeln!(out, "{}: killing attempt {}", killed.id, killed.attempt)?
    }
    out.done()
}

fn describe_result(span: Span, cancelled: &CancelReply) -> String {
    let shown = ids::describe(span);
    let (halted, stopping) = (cancelled.halted, cancelled.stopping);
    match (span.count(), halted, stopping) {
        (_, 0, 0) => format!("{shown}: nothing to cancel, already ended"),
        (1, 0, _) => format!("{shown}: stopping"),
        (1, _, 0) => format!("{shown}: halted"),
        _ => format!(
            "{shown}: {} halted, {} stopping",
            ids::count(halted),
            ids::count(stopping)
        ),
    }
}

pub(super) async fn retry(command: &Retry, client: &Client) -> CommandResult {
    let (rerun, resume) = (&command.rerun, &command.resume);
    let id = match command.target {
        Target::Run(run) => return change::retry(run, rerun, resume, client).await,
        Target::Instances(span) => span.first,
    };
    if rerun.task.is_some() || resume.is_for_runs() {
        return Err(Failure::usage(
            "--task, --downstream, --dry-run, --wait, --watch and --generation apply to runs only; \
             name a run such as r12",
        ));
    }
    client.retry(id).await.map_err(refused)?;
    let mut out = Output::new();
    if resume.json {
        out.json(&json!({ "id": id.to_string() }))?
    } else {
        writeln!(out, "{id}: queued again")?
    }
    out.done()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_of_it_is_told() {
        let one = ids::span("i1").expect("one");
        let many = ids::span("i1..i1000").expect("many");
        let came =
            |which, halted, stopping| describe_result(which, &CancelReply { halted, stopping });
        assert_eq!(came(one, 1, 0), "i1: halted");
        assert_eq!(came(one, 0, 1), "i1: stopping");
        assert_eq!(came(one, 0, 0), "i1: nothing to cancel, already ended");
        assert_eq!(
            came(many, 990, 10),
            "i1..i1000 (1,000 instances): 990 halted, 10 stopping"
        );
    }
}
