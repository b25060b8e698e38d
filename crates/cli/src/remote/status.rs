//! `baton status`: one screen of everything.

use std::io::Write;

use baton_client::{Client, PageOptions, View};
use baton_model::api::{
    Alarm, Instance, InstanceFilter, NotificationChannel, Readiness, Run, RunFilter, WaitGroup,
    Worker,
};
use baton_model::state::{UniversalState, WorkerState};
use baton_model::time::{Millis, Wall};
use clap::Args;
use serde::Serialize;

use super::alarms;
use crate::connection::refused;
use crate::ids;
use crate::output::{CommandResult, Failure, Output, Style, clean};
use crate::table::{Cell, Table};
use crate::text::{count, grouped};
use crate::time::{between, now, span};
use crate::views::rows;
use crate::views::total;

/// Rows of each part.
const ROWS: usize = 5;
/// Runs among which those in progress are searched.
const RUNS_MAX: usize = 50;
/// Failures that are older are not shown.
const LATELY: Millis = Millis::from_secs(24 * 60 * 60);

/// Show everything on one screen: scheduler, workers, what runs, waits, has failed and comes next
///
/// With --json, an object: scheduler, workers, running, launched (on a worker, not started), waiting
/// (with reasons), failed, runs, due, alarms and failing_channels (of notifications).
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton status
  watch -n 5 baton status
  baton status --json | jq .waiting.total
  baton status --ready               a health check")]
pub(crate) struct Status {
    /// Only ask whether the scheduler is ready, which needs no token; exit with 1 if it is not
    #[arg(long)]
    ready: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The state of the whole cluster, as far as one screen shows it.
#[derive(Serialize)]
struct Overview {
    url: String,
    scheduler: Readiness,
    workers: Vec<Worker>,
    running: Part,
    /// Instances that a worker has and has not started.
    launched: u64,
    waiting: Waiting,
    /// Of the last day.
    failed: Vec<Instance>,
    /// In progress.
    runs: Vec<Run>,
    /// The next due times of schedules.
    due: Vec<Due>,
    /// The oldest open ones.
    alarms: Alarms,
    /// Channels of notifications that do not deliver.
    failing_channels: Vec<NotificationChannel>,
}

#[derive(Serialize)]
struct Alarms {
    total: u64,
    items: Vec<Alarm>,
}

/// Instances in one view.
#[derive(Serialize)]
struct Part {
    total: u64,
    items: Vec<Instance>,
}

#[derive(Serialize)]
struct Waiting {
    total: u64,
    /// The most frequent first.
    reasons: Vec<WaitGroup>,
}

#[derive(Serialize)]
struct Due {
    name: String,
    at: u64,
}

pub(super) async fn run(command: &Status, client: &Client) -> CommandResult {
    if command.ready {
        return report_readiness(command.json, client).await;
    }
    let overview = read(client).await?;
    let mut out = Output::new();
    if command.json {
        out.json(&overview)?;
    } else {
        print(&overview, &mut out)?;
    }
    out.done()
}

async fn report_readiness(json: bool, client: &Client) -> CommandResult {
    let scheduler = client.ready().await.map_err(refused)?;
    let mut out = Output::new();
    if json {
        out.json(&scheduler)?;
    } else if scheduler.ready {
        writeln!(out, "ready")?;
    }
    out.done()?;
    if scheduler.ready {
        return Ok(());
    }
    let reason = scheduler.reason.as_deref().unwrap_or("it gives no reason");
    Err(Failure::failed(format!(
        "the scheduler is not ready: {}",
        clean(reason)
    )))
}

async fn read(client: &Client) -> Result<Overview, Failure> {
    let scheduler = client.ready().await.map_err(refused)?;
    let workers = client.workers().await.map_err(refused)?;
    let running = part(View::Arena, Some(UniversalState::Running), ROWS, client).await?;
    let launched = part(View::Arena, Some(UniversalState::Launched), 1, client).await?;
    let (reasons, waiting) = client.wait_groups(None).await.map_err(refused)?;
    let failed = part(View::History, Some(UniversalState::Failed), ROWS, client).await?;
    let since = now().0.saturating_sub(LATELY.0);
    let mut failed = failed.items;
    failed.retain(|instance| instance.changed_at >= since);
    let library = client.library(None).await.map_err(refused)?;
    let mut due: Vec<Due> = library
        .items
        .iter()
        .filter(|entry| entry.paused_at.is_none())
        .filter_map(|entry| {
            Some(Due {
                name: format!("{}/{}", entry.owner, entry.name),
                at: entry.next_at?,
            })
        })
        .collect();
    due.sort_by_key(|due| due.at);
    due.truncate(ROWS);
    Ok(Overview {
        url: client.url().to_owned(),
        scheduler,
        workers,
        waiting: Waiting {
            total: waiting,
            reasons,
        },
        running,
        launched: launched.total,
        failed,
        runs: runs_in_progress(client).await?,
        due,
        alarms: open_alarms(client).await?,
        failing_channels: failing_channels(client).await,
    })
}

async fn part(
    view: View,
    state: Option<UniversalState>,
    limit: usize,
    client: &Client,
) -> Result<Part, Failure> {
    let filter = InstanceFilter {
        state,
        ..InstanceFilter::default()
    };
    let options = PageOptions {
        limit: u64::try_from(limit).ok(),
        ..PageOptions::default()
    };
    let mut pages = client.view(view, &filter, &options);
    let page = pages.next().await.map_err(refused)?;
    Ok(page.map_or(
        Part {
            total: 0,
            items: Vec::new(),
        },
        |page| Part {
            total: page.total.unwrap_or_default(),
            items: page.items,
        },
    ))
}

/// The latest runs that have not ended, with their progress.
async fn runs_in_progress(client: &Client) -> Result<Vec<Run>, Failure> {
    let latest = client.runs(&RunFilter::default(), None, RUNS_MAX).await;
    let mut found = Vec::new();
    for run in latest.map_err(refused)? {
        if run.state.is_terminal() || found.len() == ROWS {
            continue;
        }
        // A list has no counts.
        let whole = match ids::run(&run.id) {
            Ok(id) => client.run(id).await.ok(),
            Err(_) => None,
        };
        found.push(whole.unwrap_or(run));
    }
    Ok(found)
}

async fn open_alarms(client: &Client) -> Result<Alarms, Failure> {
    let (items, total) = client.alarms(None, ROWS).await.map_err(refused)?;
    Ok(Alarms { total, items })
}

/// None, too, if the token is limited to one owner, and may not see them.
async fn failing_channels(client: &Client) -> Vec<NotificationChannel> {
    let mut channels = client.notification_channels().await.unwrap_or_default();
    channels.retain(|channel| channel.error.is_some());
    channels
}

fn print(overview: &Overview, out: &mut Output) -> CommandResult {
    let now = now();
    let mut table = Table::default();
    for (name, value) in summary(overview) {
        table.row([Cell::new(name, Style::Faint), value]);
    }
    table.print(out)?;
    let alarms = overview.alarms.items.iter();
    let alarms = alarms.map(|alarm| alarms::row(alarm).into());
    let more = overview.alarms.total.saturating_sub(ROWS as u64);
    let title = match more {
        0 => "alarms".to_owned(),
        more => format!("alarms ({} more: baton alarms)", grouped(more)),
    };
    section(&title, alarms::COLUMNS, alarms.collect(), out)?;
    let failing = overview.failing_channels.iter().map(|channel| {
        vec![
            Cell::new(clean(&channel.name), Style::Bad),
            grouped(channel.waiting).into(),
            clean(channel.error.as_deref().unwrap_or_default()).into(),
        ]
    });
    section(
        "channels of notifications that fail",
        &["CHANNEL", "WAITING", "REASON"],
        failing.collect(),
        out,
    )?;
    let running = overview.running.items.iter();
    let running = running.map(|instance| rows::instance(instance, now));
    section("running", rows::INSTANCE, running.collect(), out)?;
    let reasons = &overview.waiting.reasons;
    let waiting = reasons.iter().take(ROWS).map(super::list::wait_group);
    let title = match reasons.len().saturating_sub(ROWS) {
        0 => "waiting".to_owned(),
        more => format!(
            "waiting ({}: baton bullpen --reasons)",
            count(more as u64, "more reason", "more reasons")
        ),
    };
    section(&title, super::list::WAIT_GROUP, waiting.collect(), out)?;
    let failed = overview.failed.iter();
    let failed = failed.map(|instance| rows::instance(instance, now));
    section(
        "failed in the last day",
        rows::INSTANCE,
        failed.collect(),
        out,
    )?;
    let in_progress = overview.runs.iter().map(|run| {
        let progress = run.items.map_or_else(
            || "-".to_owned(),
            |items| format!("{}/{}", grouped(items.done), grouped(total(&items))),
        );
        vec![
            Cell::new(clean(&run.id), Style::Strong),
            clean(&run.name).into(),
            Cell::new(run.state.to_string(), rows::style(run.state)),
            progress.into(),
            span(between(Wall(run.begun_at), now)).into(),
        ]
    });
    section(
        "runs in progress",
        &["RUN", "WORKFLOW", "STATE", "ITEMS", "SINCE"],
        in_progress.collect(),
        out,
    )?;
    let due = overview.due.iter().map(|due| {
        let wait = span(between(now, Wall(due.at)));
        vec![
            Cell::new(clean(&due.name), Style::Strong),
            format!("in {wait}").into(),
        ]
    });
    section("due next", &["NAME", "DUE"], due.collect(), out)
}

/// The counts, one line each.
fn summary(overview: &Overview) -> Vec<(&'static str, Cell)> {
    let scheduler = match (&overview.scheduler, overview.scheduler.epoch) {
        (Readiness { ready: true, .. }, Some(epoch)) => Cell::new(
            format!("leads at {} (epoch {epoch})", clean(&overview.url)),
            Style::Good,
        ),
        (Readiness { ready: true, .. }, None) => {
            Cell::new(format!("follows at {}", clean(&overview.url)), Style::Good)
        }
        (Readiness { reason, .. }, _) => {
            let reason = reason.as_deref().unwrap_or("no reason is given");
            Cell::new(format!("not ready: {}", clean(reason)), Style::Bad)
        }
    };
    let workers = &overview.workers;
    let healthy = workers.iter().filter(|it| it.state == WorkerState::Healthy);
    let (healthy, all) = (healthy.clone().count(), workers.len());
    let attempts: u64 = workers.iter().map(|it| u64::from(it.attempts)).sum();
    let cores: u64 = workers.iter().map(|it| it.capacity.cpu_milli).sum();
    let style = if healthy == all && all > 0 {
        Style::Good
    } else {
        Style::Odd
    };
    let hint = match all {
        0 => "; start one with `baton worker`",
        _ => "",
    };
    let workers = format!(
        "{healthy} of {all} healthy, {} on {} cores{hint}",
        count(attempts, "attempt", "attempts"),
        rows::cores(cores)
    );
    vec![
        ("scheduler", scheduler),
        ("workers", Cell::new(workers, style)),
        ("running", running(overview).into()),
        ("waiting", grouped(overview.waiting.total).into()),
    ]
}

/// `2, and 86 wait on workers`.
fn running(overview: &Overview) -> String {
    let running = grouped(overview.running.total);
    match overview.launched {
        0 => running,
        1 => format!("{running}, and 1 waits on its worker"),
        launched => format!("{running}, and {} wait on workers", grouped(launched)),
    }
}

/// Prints one part, unless it is empty.
fn section(title: &str, head: &[&str], rows: Vec<Vec<Cell>>, out: &mut Output) -> CommandResult {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", out.paint(Style::Strong, title))?;
    let mut table = Table::headed(head);
    for row in rows {
        table.row(row);
    }
    Ok(table.print(out)?)
}
