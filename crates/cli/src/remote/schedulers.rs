//! `baton schedulers`.

use baton_client::Client;
use baton_model::api::{Scheduler, SchedulerRole};
use clap::Args;

use crate::connection::refused;
use crate::output::{CommandResult, Output, Style, clean};
use crate::table::{Cell, Table};
use crate::time::span;
use crate::views::rows;

/// List the schedulers of the store: which one leads, and which ones can take over
///
/// With --json, an array of schedulers, in the API's format.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton schedulers
  baton schedulers --json | jq -r '.[] | select(.role == \"leader\") | .url'")]
pub(crate) struct Schedulers {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn schedulers(command: &Schedulers, client: &Client) -> CommandResult {
    let schedulers = client.schedulers().await.map_err(refused)?;
    let mut out = Output::new();
    if command.json {
        out.json(&schedulers)?;
    } else {
        let headings = &["NAME", "ROLE", "EPOCH", "URL", "WORKERS", "UP", "HEARD"];
        let mut table = Table::headed(headings);
        for scheduler in &schedulers {
            table.row(row(scheduler));
        }
        table.print(&mut out)?;
    }
    out.done()
}

fn row(scheduler: &Scheduler) -> Vec<Cell> {
    let style = match scheduler.role {
        SchedulerRole::Leader => Style::Good,
        SchedulerRole::Follower => Style::Plain,
        SchedulerRole::Silent => Style::Odd,
    };
    let epoch = scheduler.epoch.map(|epoch| epoch.to_string());
    vec![
        Cell::new(clean(&scheduler.name), Style::Strong),
        Cell::new(scheduler.role.word().to_owned(), style),
        epoch.unwrap_or_else(|| "-".to_owned()).into(),
        clean(&scheduler.url).into(),
        clean(&scheduler.workers).into(),
        span(rows::millis(scheduler.started_seconds)).into(),
        format!("{} ago", span(rows::millis(scheduler.heard_seconds))).into(),
    ]
}
