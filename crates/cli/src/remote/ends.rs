//! `baton cancel` and `baton retry`.

use std::io::Write;

use baton_client::{Client, Span};
use baton_model::api::CancelReply;
use clap::Args;
use serde_json::json;

use super::ids::Which;
use super::runs::change::{self, Again, More};
use super::{ids, refused};
use crate::output::{Ended, Failure, Output};

/// Stop instances or a run: what waits at once, what runs as soon as it can be
///
/// With --json, an object: halted and stopping, both counts; of a run, its id and generation.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton cancel i12
  baton cancel i1..i1000
  baton cancel r3                    kill a run; `baton halt` is gentler")]
pub(crate) struct Cancel {
    /// Which: i12, a range i1..i9, or a run r3
    #[arg(value_name = "ID", value_parser = ids::which)]
    which: Which,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Give an instance or a run that has ended badly another chance
///
/// Of a run, what is not DONE is done; with --task, that task is done again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton retry i12
  baton history --state FAILED       what could be retried
  baton retry r3
  baton retry r3 --task extract --downstream --dry-run")]
pub(crate) struct Retry {
    /// Which: i12, or a run r3
    #[arg(value_name = "ID", value_parser = ids::one_or_run)]
    which: Which,
    #[command(flatten)]
    again: Again,
    #[command(flatten)]
    more: More,
}

pub(super) async fn cancel(command: &Cancel, client: &Client) -> Ended {
    let mut out = Output::new();
    let which = match command.which {
        Which::Instances(span) => span,
        Which::Run(run) => {
            let answer = client.kill_run(run).await.map_err(refused)?;
            match command.json {
                true => out.json(&answer)?,
                false => writeln!(out, "{run}: being killed")?,
            }
            return out.done();
        }
    };
    let cancelled = client.cancel(which).await.map_err(refused)?;
    match command.json {
        true => out.json(&cancelled)?,
        false => writeln!(out, "{}", told(which, &cancelled))?,
    }
    out.done()
}

fn told(which: Span, cancelled: &CancelReply) -> String {
    let shown = ids::shown(which);
    let (halted, stopping) = (cancelled.halted, cancelled.stopping);
    match (which.count(), halted, stopping) {
        (_, 0, 0) => format!("{shown}: nothing to cancel, it is all over"),
        (1, 0, _) => format!("{shown}: being stopped"),
        (1, _, 0) => format!("{shown}: halted"),
        _ => format!(
            "{shown}: {} halted, {} being stopped",
            ids::count(halted),
            ids::count(stopping)
        ),
    }
}

pub(super) async fn retry(command: &Retry, client: &Client) -> Ended {
    let (again, more) = (&command.again, &command.more);
    let id = match command.which {
        Which::Run(run) => return change::retry(run, again, more, client).await,
        Which::Instances(span) => span.first,
    };
    if again.task.is_some() || more.is_for_runs() {
        return Err(Failure::usage(
            "--task, --downstream, --dry-run, --wait, --watch and --generation are for runs: r12",
        ));
    }
    client.retry(id).await.map_err(refused)?;
    let mut out = Output::new();
    match more.json {
        true => out.json(&json!({ "id": id.to_string() }))?,
        false => writeln!(out, "{id}: queued again")?,
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
        let came = |which, halted, stopping| told(which, &CancelReply { halted, stopping });
        assert_eq!(came(one, 1, 0), "i1: halted");
        assert_eq!(came(one, 0, 1), "i1: being stopped");
        assert_eq!(came(one, 0, 0), "i1: nothing to cancel, it is all over");
        assert_eq!(
            came(many, 990, 10),
            "i1..i1000 (1,000 instances): 990 halted, 10 being stopped"
        );
    }
}
