//! `baton top`: running instances with their processes, live.

use std::io::{self, Write};
use std::time::Duration;

use baton_client::{Client, ClientError, PageOptions, View};
use baton_model::api::{AttemptProcesses, Instance, InstanceFilter, List, Process};
use baton_model::ids::InstanceId;
use baton_model::time::Wall;
use clap::Args;
use serde::Serialize;
use tokio::task::JoinSet;

use super::processes;
use super::waiting::retry_while_unreachable;
use crate::connection::refused;
use crate::output::{CommandResult, Output, Style, clean, colours, note};
use crate::painter::{Painter, size};
use crate::table::{Cell, Table};
use crate::text::Line;
use crate::time::{now, span};
use crate::views::rows;

/// Default number of instances.
const INSTANCES: u64 = 20;

/// Show running instances and their processes, live
///
/// One line for each process that runs: its state, its runs and failures, its process id on the
/// worker, its share of one core, its processor time and memory, and how long its instance has been
/// running. The workers are asked for this; the scheduler stores none of it. ^C ends it. If standard
/// output is not a terminal, one list is printed.
///
/// With --json, an array of objects: instance and processes, in the API's format; error, if the
/// worker is unavailable.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton top
  baton top --owner analytics --every 5
  baton top --once --json | jq '.[].processes.processes[].usage[-1].memoryBytes'")]
pub(crate) struct Top {
    /// Maximum number of instances
    #[arg(short = 'n', long, value_name = "N", default_value_t = INSTANCES, value_parser = clap::value_parser!(u64).range(1..=200))]
    number: u64,
    /// Only instances of this owner
    #[arg(long, value_name = "OWNER")]
    owner: Option<String>,
    /// Only instances with this name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Seconds between two lists
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
    every: u64,
    /// Print one list and exit
    #[arg(long)]
    once: bool,
    /// Print one list as JSON and exit
    #[arg(long)]
    json: bool,
}

/// An instance with its processes, or why they are unknown.
#[derive(Debug, Serialize)]
struct Activity {
    instance: Instance,
    processes: Option<AttemptProcesses>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

pub(super) async fn run(command: &Top, client: &Client) -> CommandResult {
    // Only a scheduler that has answered once is waited for.
    let (mut activities, mut total) = fetch(command, client).await.map_err(refused)?;
    let mut out = Output::new();
    if command.json {
        out.json(&activities)?;
        return out.done();
    }
    if command.once || !out.terminal {
        if activities.is_empty() {
            note("nothing is running");
        } else {
            table(&activities, now()).print(&mut out)?;
        }
        return out.done();
    }
    let mut painter = Painter::new(colours(true));
    loop {
        let (width, height) = size(io::stdout());
        let frame = frame(&activities, total, now(), height);
        let text = painter.replace(&[], &frame, width);
        out.write_all(text.as_bytes())?;
        out.flush()?;
        tokio::time::sleep(Duration::from_secs(command.every)).await;
        let fetched = retry_while_unreachable(note, || fetch(command, client)).await;
        (activities, total) = fetched.map_err(refused)?;
    }
}

/// The running instances, each with its processes, and how many there are.
async fn fetch(
    command: &Top,
    client: &Client,
) -> Result<(Vec<Activity>, Option<u64>), ClientError> {
    let filter = InstanceFilter {
        owner: command.owner.clone(),
        name: command.name.clone(),
        ..InstanceFilter::default()
    };
    let options = PageOptions {
        limit: Some(command.number),
        ..PageOptions::default()
    };
    let mut pages = client.view(View::Arena, &filter, &options);
    let page: Option<List<Instance>> = pages.next().await?;
    let Some(page) = page else {
        return Ok((Vec::new(), None));
    };
    // At once: each worker that does not answer costs seconds.
    let mut requests = JoinSet::new();
    for (place, instance) in page.items.into_iter().enumerate() {
        let client = client.clone();
        requests.spawn(async move { (place, activity(&client, instance).await) });
    }
    let mut activities = requests.join_all().await;
    activities.sort_unstable_by_key(|(place, _)| *place);
    let activities = activities.into_iter().map(|(_, activity)| activity);
    Ok((activities.collect(), page.total))
}

async fn activity(client: &Client, instance: Instance) -> Activity {
    let digits = instance.id.trim_start_matches('i');
    let id = digits.parse().map(InstanceId).unwrap_or_default();
    let (processes, error) = match client.processes(id, None, processes::SAMPLES).await {
        Ok(processes) => (Some(processes), None),
        Err(error) => (None, Some(error.to_string())),
    };
    Activity {
        instance,
        processes,
        error,
    }
}

fn table(activities: &[Activity], now: Wall) -> Table {
    let mut table = Table::headed(&[
        "ID", "NAME", "PROCESS", "STATE", "RUNS", "FAILED", "PID", "CPU", "TIME", "MEMORY",
        "ELAPSED", "WORKER",
    ]);
    for activity in activities {
        let found = activity.processes.as_ref();
        let all = found.map_or(&[][..], |found| &found.processes);
        let live: Vec<&Process> = all.iter().filter(|it| processes::is_live(it)).collect();
        for process in &live {
            let mut cells = processes::row(process, now);
            cells.truncate(8);
            table.row(line(&activity.instance, cells, now));
        }
        if live.is_empty() {
            let reason = match &activity.error {
                Some(error) => Cell::new(clean(error), Style::Odd),
                None => Cell::new("no process runs", Style::Faint),
            };
            let mut cells = vec![Cell::from("-"); 8];
            cells[1] = Cell::new(
                activity.instance.state.to_string(),
                rows::style(activity.instance.state),
            );
            let mut cells = line(&activity.instance, cells, now);
            cells.push(reason);
            table.row(cells);
        }
    }
    table
}

/// A row: what identifies the instance, the cells of a process, and where it runs.
fn line(instance: &Instance, process: Vec<Cell>, now: Wall) -> Vec<Cell> {
    let elapsed = rows::elapsed(instance, now);
    let elapsed = elapsed.map_or_else(|| "-".to_owned(), span);
    let mut cells = vec![
        Cell::new(rows::id(instance), Style::Strong),
        clean(&instance.name).into(),
    ];
    cells.extend(process);
    cells.push(elapsed.into());
    cells.push(clean(instance.worker.as_deref().unwrap_or("-")).into());
    cells
}

/// The list, in a frame that fits the terminal.
fn frame(activities: &[Activity], total: Option<u64>, now: Wall, height: usize) -> Vec<Line> {
    let mut head = Line::new();
    let count = total.unwrap_or(activities.len() as u64);
    head.add(Style::Strong, format!("{count} running"));
    head.add(Style::Faint, format!("  {}", crate::time::stamp(now)));
    let mut lines = vec![head];
    if !activities.is_empty() {
        lines.extend(table(activities, now).styled());
    }
    // The cursor stays below the frame.
    let room = height.saturating_sub(1).max(1);
    if lines.len() > room {
        let hidden = lines.len() - room + 1;
        lines.truncate(room - 1);
        let mut more = Line::new();
        more.add(Style::Faint, format!("{hidden} more lines"));
        lines.push(more);
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use baton_model::state::{AttemptState, ProcessState, UniversalState};

    use super::super::processes::tests::{process, sample};
    use super::*;

    fn running(id: &str) -> Instance {
        Instance {
            state: UniversalState::Running,
            worker: Some("w1".to_owned()),
            elapsed_seconds: Some(65.0),
            ..rows::tests::fresh(id)
        }
    }

    fn activities() -> Vec<Activity> {
        let processes = vec![
            process("done", ProcessState::Success),
            Process {
                pid: Some(7),
                usage: vec![sample(1_000, 1.0), sample(2_000, 2.0)],
                ..process("busy", ProcessState::Running)
            },
        ];
        let processes = AttemptProcesses {
            id: "i1".to_owned(),
            attempt: 1,
            worker: "w1".to_owned(),
            state: AttemptState::Active,
            processes,
            omitted: 0,
            links: BTreeMap::new(),
        };
        vec![
            Activity {
                instance: running("i1"),
                processes: Some(processes),
                error: None,
            },
            Activity {
                instance: running("i2"),
                processes: None,
                error: Some("worker w1 is not connected".to_owned()),
            },
        ]
    }

    #[test]
    fn each_live_process_is_a_line_and_an_unreachable_worker_is_named() {
        let table = table(&activities(), Wall(3_000));
        assert_eq!(
            table.lines(&Output::new()),
            [
                "ID  NAME   PROCESS  STATE    RUNS  FAILED  PID  CPU   TIME  MEMORY  ELAPSED  WORKER",
                "i1  hello  busy     RUNNING  1     0       7    100%  2s    3MiB    1m05s    w1",
                "i2  hello  -        RUNNING  -     -       -    -     -     -       1m05s    w1      \
                 worker w1 is not connected",
            ]
        );
    }

    #[test]
    fn a_frame_fits_the_terminal() {
        let lines = |height| {
            let frame = frame(&activities(), Some(2), Wall(3_000), height);
            let lines = frame.iter().map(|line| line.paint(200, false));
            lines.collect::<Vec<_>>()
        };
        assert_eq!(lines(10)[0], "2 running  1970-01-01 00:00:03Z");
        assert_eq!(lines(10).len(), 4);
        assert_eq!(lines(4).last().map(String::as_str), Some("2 more lines"));
        assert_eq!(lines(4).len(), 3);
        assert_eq!(frame(&[], None, Wall(0), 24).len(), 1);
    }
}
