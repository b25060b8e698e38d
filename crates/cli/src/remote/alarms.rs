//! `baton alarms`: what is late, slow, short or stuck.

use baton_client::Client;
use baton_model::alarm::AlarmKind;
use baton_model::api::Alarm;
use baton_model::time::Wall;
use clap::Args;

use crate::connection::refused;
use crate::output::{CommandResult, Output, Style, clean, note};
use crate::table::{Cell, Table};
use crate::text::grouped;
use crate::time::stamp;

/// The columns of [`row`].
pub(super) const COLUMNS: &[&str] = &["ALARM", "SUBJECT", "WORK", "SINCE", "REASON"];

/// List open alarms: work that is late, slow, short or stuck
///
/// `deadline:` and `expected:` in a task or workflow file say when work is late, slow or short; it is
/// stuck if nothing like it was placed for the scheduler's --stuck-after. An alarm ends with its work, and
/// never changes it.
///
/// With --json, an array of alarms, in the API's format.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton alarms
  baton alarms --owner billing --json | jq -r '.[].subject'")]
pub(crate) struct Alarms {
    /// Only about work of this owner
    #[arg(long)]
    owner: Option<String>,
    /// Maximum number of rows
    #[arg(short = 'n', value_name = "N", default_value_t = 100)]
    number: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(command: &Alarms, client: &Client) -> CommandResult {
    let found = client.alarms(command.owner.as_deref(), command.number);
    let (alarms, total) = found.await.map_err(refused)?;
    let mut out = Output::new();
    if command.json {
        out.json(&alarms)?;
    } else if alarms.is_empty() {
        note("no alarms");
    } else {
        let mut table = Table::headed(COLUMNS);
        for alarm in &alarms {
            table.row(row(alarm));
        }
        table.print(&mut out)?;
        let more = total.saturating_sub(alarms.len() as u64);
        if more > 0 {
            note(&format!("{} more", grouped(more)));
        }
    }
    out.done()
}

pub(super) fn row(alarm: &Alarm) -> [Cell; 5] {
    let style = match alarm.kind {
        AlarmKind::Late | AlarmKind::Stuck => Style::Bad,
        AlarmKind::Slow | AlarmKind::Short => Style::Odd,
    };
    [
        Cell::new(alarm.kind.word(), style),
        Cell::new(clean(&alarm.subject), Style::Strong),
        clean(&format!("{}/{}", alarm.owner, alarm.name)).into(),
        stamp(Wall(alarm.raised_at)).into(),
        clean(&alarm.reason).into(),
    ]
}
