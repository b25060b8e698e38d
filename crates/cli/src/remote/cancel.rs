//! `baton cancel` and `baton retry`.

use std::io::Write;

use baton_client::{Client, Span};
use baton_model::api::CancelReply;
use clap::Args;
use serde_json::json;

use super::ids::Target;
use super::runs::change::{self, RerunArgs, ResumeArgs};
use super::{ids, refused};
use crate::output::{CommandResult, Failure, Output};

/// Cancel instances or a run
///
/// Queued instances are HALTED at once; running ones are stopped by their workers. A run is
/// killed. With --json, an object: the counts halted and stopping; for a run, its id and
/// generation.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton cancel i12
  baton cancel i1..i1000
  baton cancel r3                    kill a run; `baton halt` lets running tasks finish")]
pub(crate) struct Cancel {
    /// Instance (i12), range (i1..i9) or run (r3)
    #[arg(value_name = "ID", value_parser = ids::target)]
    target: Target,
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
    let span = match command.target {
        Target::Instances(span) => span,
        Target::Run(run) => {
            let answer = client.kill_run(run).await.map_err(refused)?;
            if command.json {
                out.json(&answer)?
            } else {
                writeln!(out, "{run}: killing")?
            }
            return out.done();
        }
    };
    let cancelled = client.cancel(span).await.map_err(refused)?;
    if command.json {
        out.json(&cancelled)?
    } else {
        writeln!(out, "{}", describe_result(span, &cancelled))?
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
