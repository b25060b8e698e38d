//! `baton ticks`: outcomes of due times.

use baton_client::Client;
use baton_model::api::Tick;
use baton_model::library::TaskName;
use baton_model::time::Wall;
use clap::Args;

use super::library::{refused_entry, task_name};
use crate::connection::refused;
use crate::output::{CommandResult, Output, Style, clean, note};
use crate::table::{Cell, Table};
use crate::time::stamp;

/// List due times of schedules with their outcome, latest first
///
/// Every due time is launched, launched late, or skipped with a reason. The same holds for tasks
/// and workflows that the end of another's instance or run triggers.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton ticks
  baton ticks analytics/report -n 5
  baton ticks analytics/report --json")]
pub(crate) struct Ticks {
    /// Only due times of this task or workflow
    #[arg(value_name = "OWNER/NAME", value_parser = task_name)]
    task: Option<TaskName>,
    /// Maximum number of rows
    #[arg(short = 'n', value_name = "N", default_value_t = 50)]
    number: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(command: &Ticks, client: &Client) -> CommandResult {
    let ticks = match (
        client.ticks(command.task.as_ref(), command.number).await,
        &command.task,
    ) {
        (Err(error), Some(task)) => return Err(refused_entry(client, task, error).await),
        (ticks, _) => ticks.map_err(refused)?,
    };
    let mut out = Output::new();
    if command.json {
        out.json(&ticks)?;
    } else if ticks.is_empty() {
        note("no due times yet");
    } else {
        let mut table = Table::headed(&["DUE", "NAME", "REV", "WHAT", "LAUNCHED", "WHY"]);
        for tick in &ticks {
            table.row(row(tick));
        }
        table.print(&mut out)?;
    }
    out.done()
}

fn row(tick: &Tick) -> [Cell; 6] {
    let style = match &*tick.verdict {
        "launched" => Style::Good,
        "late" => Style::Odd,
        _ => Style::Bad,
    };
    let due = stamp(Wall(tick.nominal_at));
    let due = match (&tick.after, tick.count) {
        (Some(after), _) => format!("after {after}"),
        (None, 1) => due,
        (None, count) => format!("{due} +{}", count - 1),
    };
    let launched = tick.instance.as_ref().or(tick.run.as_ref());
    [
        clean(&due).into(),
        clean(&format!("{}/{}", tick.owner, tick.name)).into(),
        tick.revision.to_string().into(),
        Cell::new(clean(&tick.verdict), style),
        clean(launched.map_or("-", String::as_str)).into(),
        clean(&tick.text).into(),
    ]
}
