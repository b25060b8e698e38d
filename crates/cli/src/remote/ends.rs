//! `baton cancel` and `baton retry`.

use std::io::Write;

use baton_client::{Client, Span};
use baton_model::api::Cancelled;
use baton_model::ids::InstanceId;
use clap::Args;
use serde_json::json;

use super::{ids, refused};
use crate::output::{Ended, Output};

/// Stop instances: those that wait at once, those that run as soon as they can be
///
/// With --json, an object: halted and stopping, both counts.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton cancel i12
  baton cancel i1..i1000")]
pub(crate) struct Cancel {
    /// Which: i12, or a range i1..i9
    #[arg(value_name = "ID", value_parser = ids::span)]
    which: Span,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Give an instance that has ended badly another chance
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton retry i12
  baton history --state FAILED       what could be retried")]
pub(crate) struct Retry {
    /// Which
    #[arg(value_name = "ID", value_parser = ids::one)]
    id: InstanceId,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn cancel(command: &Cancel, client: &Client) -> Ended {
    let cancelled = client.cancel(command.which).await.map_err(refused)?;
    let mut out = Output::new();
    match command.json {
        true => out.json(&cancelled)?,
        false => writeln!(out, "{}", told(command.which, &cancelled))?,
    }
    out.done()
}

fn told(which: Span, cancelled: &Cancelled) -> String {
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
    client.retry(command.id).await.map_err(refused)?;
    let mut out = Output::new();
    match command.json {
        true => out.json(&json!({ "id": command.id.to_string() }))?,
        false => writeln!(out, "{}: queued again", command.id)?,
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
        let came = |which, halted, stopping| told(which, &Cancelled { halted, stopping });
        assert_eq!(came(one, 1, 0), "i1: halted");
        assert_eq!(came(one, 0, 1), "i1: being stopped");
        assert_eq!(came(one, 0, 0), "i1: nothing to cancel, it is all over");
        assert_eq!(
            came(many, 990, 10),
            "i1..i1000 (1,000 instances): 990 halted, 10 being stopped"
        );
    }
}
