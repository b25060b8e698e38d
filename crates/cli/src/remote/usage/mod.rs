//! `baton usage`: resource usage by owner and time; of fleets; and of tasks (`tasks`).

mod tasks;

use std::collections::BTreeMap;

use baton_client::{Client, UsageQuery};
use baton_files::units::duration;
use baton_model::api;
use baton_model::time::{Millis, Wall};
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::connection::refused;
use crate::output::{CommandResult, Failure, Output, Style, clean, note};
use crate::table::{Cell, Table};
use crate::text;
use crate::time::{now, span, stamp};
use crate::views::rows;

const DAY: Millis = Millis::from_secs(24 * 60 * 60);

/// Show resource usage by owner and hour
///
/// CPU CLAIMED is the reserved CPU times the duration; CPU USED is the CPU time consumed. An attempt
/// is accounted in the hour in which it ended, with all of its time. With --by fleet, the run times of
/// the jobs of fleets within the period: WORKER TIME is that of a job times its workers. With --by task, what
/// the last 200 attempts of each task have used, whenever they ran, beside what they requested: percentiles of those that
/// succeeded, over all elements of an array and all items of a task of a workflow.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton usage
  baton usage --since 30d --by owner
  baton usage --by fleet --since 7d
  baton usage --by task --suggest
  baton usage --owner analytics --since 7d --by day --json")]
pub(crate) struct Usage {
    /// Only usage of this owner
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,
    /// Start of the period, as a duration before now, rounded to the hour
    #[arg(long, value_name = "SPAN", default_value = "24h", value_parser = since)]
    since: Millis,
    /// Group rows by hour and owner, by day (UTC) and owner, or by owner; or show the jobs of fleets, or tasks
    #[arg(long, value_enum, default_value_t = By::Hour)]
    by: By,
    /// With --by task: suggest requests for each task, as lines for its file
    #[arg(long)]
    suggest: bool,
    /// Print a JSON array; times are milliseconds since 1970
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    Hour,
    Day,
    Owner,
    /// Jobs of fleets instead: how many ran, and for how long
    Fleet,
    /// Tasks instead: what they have requested and used
    Task,
}

fn since(text: &str) -> Result<Millis, String> {
    duration(text).map_err(|error| error.to_string())
}

/// One row.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    /// Start of the hour or the day.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<u64>,
    owner: String,
    done: u64,
    failed: u64,
    halted: u64,
    attempts: u64,
    cpu_claimed_seconds: f64,
    cpu_used_seconds: f64,
    memory_claimed_mib_seconds: f64,
    waited_seconds: f64,
}

impl Row {
    fn add(&mut self, used: &api::Usage) {
        self.done += used.done;
        self.failed += used.failed;
        self.halted += used.halted;
        self.attempts += used.attempts;
        self.cpu_claimed_seconds += used.cpu_claimed_seconds;
        self.cpu_used_seconds += used.cpu_used_seconds;
        self.memory_claimed_mib_seconds += used.memory_claimed_mib_seconds;
        self.waited_seconds += used.waited_seconds;
    }

    fn cells(&self, style: Style) -> Vec<Cell> {
        let when = self.at.map(|at| stamp(Wall(at)));
        let time = |seconds: f64| span(rows::millis(seconds));
        let numbers = [self.done, self.failed, self.halted, self.attempts];
        let mut cells = Vec::new();
        cells.extend(when.map(Cell::from));
        cells.push(Cell::new(clean(&self.owner), style));
        cells.extend(numbers.map(|number| Cell::from(text::grouped(number))));
        cells.extend([
            time(self.cpu_claimed_seconds).into(),
            time(self.cpu_used_seconds).into(),
            format!("{:.2}", self.memory_claimed_mib_seconds / 1_024.0 / 3_600.0).into(),
            time(self.waited_seconds).into(),
        ]);
        cells
    }
}

pub(super) async fn run(command: &Usage, client: &Client) -> CommandResult {
    let to = now();
    if command.suggest && command.by != By::Task {
        return Err(Failure::usage(
            "--suggest: requests are those of tasks; add --by task",
        ));
    }
    if command.by == By::Fleet {
        let from = Wall(to.0.saturating_sub(command.since.0));
        let used = client.fleet_usage(from, to).await.map_err(refused)?;
        return fleets(&used, command);
    }
    if command.by == By::Task {
        let owner = command.owner.as_deref();
        let used = client.task_usage(owner).await.map_err(refused)?;
        return tasks::show(&used, command.suggest, command.json);
    }
    let query = UsageQuery {
        owner: command.owner.clone(),
        from: Wall(to.0.saturating_sub(command.since.0)),
        to,
    };
    let used = client.usage(&query).await.map_err(refused)?;
    let rows = grouped(&used, command.by);
    let mut out = Output::new();
    if command.json {
        out.json(&rows)?;
    } else if rows.is_empty() {
        note("no usage in this period");
    } else {
        table(&rows, &used, command.by).print(&mut out)?;
    }
    out.done()
}

fn fleets(used: &[api::FleetUsage], command: &Usage) -> CommandResult {
    if command.owner.is_some() {
        return Err(Failure::usage("--by fleet: a fleet has no owner"));
    }
    let mut out = Output::new();
    if command.json {
        out.json(&used)?;
    } else if used.is_empty() {
        note("no job of a fleet ran in this period");
    } else {
        let mut table = Table::default();
        let head = ["FLEET", "JOBS", "FAILED", "JOB TIME", "WORKER TIME"];
        table.row(head.map(|it| Cell::new(it, Style::Faint)));
        for it in used {
            table.row([
                Cell::new(clean(&it.fleet), Style::Strong),
                text::grouped(it.jobs).into(),
                text::grouped(it.failed).into(),
                span(rows::millis(it.job_seconds)).into(),
                span(rows::millis(it.worker_seconds)).into(),
            ]);
        }
        table.print(&mut out)?;
    }
    out.done()
}

fn grouped(used: &[api::Usage], by: By) -> Vec<Row> {
    let mut rows: BTreeMap<(Option<u64>, &str), Row> = BTreeMap::new();
    for it in used {
        let at = match by {
            By::Hour => Some(it.hour_at),
            By::Day => Some(it.hour_at - it.hour_at % DAY.0),
            By::Owner | By::Fleet | By::Task => None,
        };
        let row = rows.entry((at, &it.owner)).or_insert_with(|| Row {
            at,
            owner: it.owner.clone(),
            ..Row::default()
        });
        row.add(it);
    }
    rows.into_values().collect()
}

fn table(rows: &[Row], used: &[api::Usage], by: By) -> Table {
    let mut names = vec![
        "OWNER",
        "DONE",
        "FAILED",
        "HALTED",
        "ATTEMPTS",
        "CPU CLAIMED",
        "CPU USED",
        "GIB HOURS",
        "WAITED",
    ];
    match by {
        By::Hour => names.insert(0, "HOUR"),
        By::Day => names.insert(0, "DAY"),
        By::Owner | By::Fleet | By::Task => {}
    }
    let mut table = Table::headed(&names);
    let mut total = Row {
        owner: "total".to_owned(),
        ..Row::default()
    };
    used.iter().for_each(|it| total.add(it));
    for row in rows {
        table.row(row.cells(Style::Plain));
    }
    let mut cells = total.cells(Style::Strong);
    if by != By::Owner {
        cells.insert(0, "".into());
    }
    table.row(cells);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(hour: u64, owner: &str) -> api::Usage {
        api::Usage {
            hour_at: hour * 3_600_000,
            owner: owner.to_owned(),
            done: 1_000,
            failed: 1,
            halted: 0,
            attempts: 1_001,
            cpu_claimed_seconds: 3_600.0,
            cpu_used_seconds: 1.5,
            memory_claimed_mib_seconds: 3_600.0 * 512.0,
            waited_seconds: 60.0,
        }
    }

    #[test]
    fn rows_are_grouped_and_the_total_is_that_of_all() {
        let all = [used(23, "a"), used(23, "b"), used(24, "a"), used(25, "a")];
        let count = |by| grouped(&all, by).len();
        assert_eq!(
            (count(By::Hour), count(By::Day), count(By::Owner)),
            (4, 3, 2)
        );
        let lines = |by| table(&grouped(&all, by), &all, by).lines(&Output::new());
        assert_eq!(
            lines(By::Owner),
            [
                "OWNER  DONE   FAILED  HALTED  ATTEMPTS  CPU CLAIMED  CPU USED  GIB HOURS  WAITED",
                "a      3,000  3       0       3,003     3h00m        4.5s      1.50       3m00s",
                "b      1,000  1       0       1,001     1h00m        1.5s      0.50       1m00s",
                "total  4,000  4       0       4,004     4h00m        6s        2.00       4m00s",
            ]
        );
        let days = lines(By::Day);
        assert!(days[0].starts_with("DAY "), "{days:?}");
        assert!(days[3].starts_with("1970-01-02 00:00:00Z  a "), "{days:?}");
        assert!(days[4].trim_start().starts_with("total "), "{days:?}");
    }
}
