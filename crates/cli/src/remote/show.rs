//! `baton show`: details of an instance, counts of a range, or a view of a run.

use std::io::Write;

use baton_client::{Client, Span, View};
use baton_model::api::{AttemptProcesses, Event, Instance, InstanceFilter, RangeSummary};
use baton_model::limits::SAMPLES_PER_PROCESS_MAX;
use baton_model::state::UniversalState;
use baton_model::time::Wall;
use clap::Args;
use serde::Serialize;
use serde_json::Value;

use super::data::DataArgs;
use super::filters::OtherFilterArgs;
use super::runs::show::RunViewArgs;
use super::selection::{self, Sequence};
use super::{details, processes, runs};
use crate::connection::refused;
use crate::ids;
use crate::ids::{IdArg, Target};
use crate::output::{CommandResult, Failure, Output, Style, clean};
use crate::table::{Cell, Table};
use crate::text::grouped;
use crate::time::{between, now, since, size, span, stamp};
use crate::views::rows;

/// Show details of instances, ranges of instances, and runs
///
/// For an instance: its attributes, the processes of its last attempt while it runs, and its events.
/// For a range: counts by state. For a run: its
/// tasks, its graph, its timeline or its items.
///
/// With --json, an object: instance, processes and timeline, in the API's format; processes is null if
/// the instance does not run, and processes_error says why it is null otherwise. For a range, its first, last
/// and counts by state; for a run, run, tasks and errors. With --items or --timeline, an array of
/// items.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton show i12
  baton show i12 i15 'i1523[3]'      several, also as lists print them
  baton show i1..i1000               counts by state
  baton show --name nightly-report --state FAILED --since 1d
  baton show i12 --json | jq .instance.state
  baton show r3                      a run
  baton show r3 --graph
  baton show r3 --svg > graph.svg
  baton show r3 --timeline
  baton show r3 --items --task extract --state FAILED
  baton show r3 --items --json | jq -r '.[].instance'")]
pub(crate) struct Show {
    /// Instances (i12), ranges (i1..i9) and runs (r3)
    #[arg(value_name = "ID", value_parser = ids::arg)]
    ids: Vec<IdArg>,
    #[command(flatten)]
    view: RunViewArgs,
    /// Print JSON; an array for several, and with a filter
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub(super) data: DataArgs,
    #[command(flatten, next_help_heading = "Filters")]
    filter: OtherFilterArgs,
}

#[derive(Serialize)]
struct InstanceDetails<'a> {
    instance: InstanceWithOutputs<'a>,
    processes: Option<&'a AttemptProcesses>,
    #[serde(skip_serializing_if = "Option::is_none")]
    processes_error: Option<String>,
    timeline: &'a [Event],
}

/// The API's format of an instance.
#[derive(Serialize)]
struct InstanceWithOutputs<'a> {
    #[serde(flatten)]
    instance: &'a Instance,
    #[serde(skip_serializing_if = "Option::is_none")]
    outputs: Option<Value>,
}

pub(super) async fn run(command: &Show, client: &Client) -> CommandResult {
    let items = &command.view.items_args;
    let state = items.state.filter(|_| !items.items);
    let filter = command.filter.filter(state);
    let unfiltered = filter == InstanceFilter::default();
    let (targets, several) = if unfiltered && !command.ids.is_empty() {
        let targets = selection::check_indices(&command.ids, client).await?;
        let several = targets.len() > 1;
        (targets, several)
    } else {
        let views = &[View::Bullpen, View::Arena, View::History];
        let units = selection::resolve(&command.ids, &filter, views, client).await?;
        (selection::expand(&units, selection::EXPANDED_MAX)?, true)
    };
    let mut results = Sequence::new(command.json && several);
    for (place, target) in targets.into_iter().enumerate() {
        results.begin()?;
        if place > 0 && !command.json {
            writeln!(std::io::stdout())?;
        }
        results.record(one(target, command, client).await)?;
    }
    results.end()
}

async fn one(target: Target, command: &Show, client: &Client) -> CommandResult {
    let span = match target {
        Target::Run(id) => return runs::show::run(id, &command.view, command.json, client).await,
        Target::Instances(_) if command.view.is_some() => {
            return Err(Failure::usage(
                "--graph, --dot, --svg, --timeline and --items apply to runs only; name a run such \
                 as r12",
            ));
        }
        Target::Instances(span) => span,
    };
    let mut out = Output::new();
    if span.count() > 1 {
        let summary = client.range(span).await.map_err(refused)?;
        if command.json {
            out.json(&summary)?
        } else {
            range(&summary, span).print(&mut out)?
        }
        return out.done();
    }
    let id = span.first;
    let instance = client.instance(id).await.map_err(refused)?;
    let timeline = client.timeline(id).await.map_err(refused)?;
    let processes = match instance.state {
        // A worker that cannot be asked does not hide the rest.
        UniversalState::Launched | UniversalState::Running => {
            Some(client.processes(id, None, samples(command)).await)
        }
        _ => None,
    };
    if command.json {
        let found = processes.as_ref().and_then(|it| it.as_ref().ok());
        let error = processes.as_ref().and_then(|it| it.as_ref().err());
        out.json(&InstanceDetails {
            instance: InstanceWithOutputs {
                instance: &instance,
                outputs: details::outputs(&timeline),
            },
            processes: found,
            processes_error: error.map(ToString::to_string),
            timeline: &timeline,
        })?;
        return out.done();
    }
    let now = now();
    let mut table = facts(&instance, &timeline, now);
    if let Some(found) = &instance.details {
        let sizes = match instance.attempts {
            0 => [None, None],
            _ => details::log_sizes(client, id).await,
        };
        add(&mut table, details::files(&instance, found, sizes));
    }
    if let Some(outputs) = details::outputs(&timeline) {
        add(&mut table, vec![("outputs", clean(&outputs.to_string()))]);
    }
    table.print(&mut out)?;
    match &processes {
        Some(Ok(found)) => {
            writeln!(out)?;
            process_table(found, now).print(&mut out)?;
        }
        Some(Err(error)) => {
            writeln!(out)?;
            let text = format!("processes: {}", clean(&error.to_string()));
            writeln!(out, "{}", out.paint(Style::Odd, &text))?;
        }
        None => {}
    }
    if instance.stderr_tail.is_some() {
        writeln!(out)?;
        write_tail(&mut out, &instance)?;
    }
    if !timeline.is_empty() {
        writeln!(out)?;
        events(&timeline).print(&mut out)?;
    }
    out.done()
}

/// Writes the last lines of standard error of an instance that has failed, if there are any.
pub(super) fn write_tail(out: &mut Output, instance: &Instance) -> CommandResult {
    let Some(tail) = &instance.stderr_tail else {
        return Ok(());
    };
    let head = out.paint(Style::Faint, "last lines of standard error:");
    writeln!(out, "{head}")?;
    for line in tail.lines() {
        writeln!(out, "  {}", clean(line))?;
    }
    Ok(())
}

/// As many samples as a reader of the output can use.
const fn samples(command: &Show) -> u32 {
    if command.json {
        SAMPLES_PER_PROCESS_MAX
    } else {
        processes::SAMPLES
    }
}

fn process_table(found: &AttemptProcesses, now: Wall) -> Table {
    let mut table = Table::headed(processes::PROCESS);
    for process in &found.processes {
        table.row(processes::row(process, now));
    }
    if let Some(more) = processes::omitted(found) {
        table.row([Cell::new(more, Style::Faint)]);
    }
    table
}

fn range(summary: &RangeSummary, span: Span) -> Table {
    let mut table = Table::default();
    table.row([Cell::new(ids::describe(span), Style::Strong)]);
    for (state, count) in &summary.counts {
        let state = Cell::new(format!("  {state}"), rows::style(*state));
        table.row([state, grouped(*count).into()]);
    }
    table
}

fn add(table: &mut Table, rows: Vec<(&str, String)>) {
    for (name, value) in rows {
        table.row([Cell::new(name, Style::Faint), value.into()]);
    }
}

fn facts(instance: &Instance, timeline: &[Event], now: Wall) -> Table {
    let mut table = Table::default();
    let mut add = |name: &str, value: Cell| {
        table.row([Cell::new(name, Style::Faint), value]);
    };
    add("id", Cell::new(rows::id(instance), Style::Strong));
    add("name", clean(&instance.name).into());
    add("owner", clean(&instance.owner).into());
    if let Some(item) = &instance.item {
        add("item", clean(item).into());
    }
    let work = instance.details.as_ref().map(|it| details::work(it));
    for (name, value) in work.unwrap_or_default() {
        add(name, value.into());
    }
    if let Some(run) = &instance.run {
        add("run", clean(run).into());
    }
    let state = if instance.stopping && !instance.state.is_terminal() {
        format!("{}, stopping", instance.state)
    } else {
        instance.state.to_string()
    };
    add("state", Cell::new(state, rows::style(instance.state)));
    if let Some(reason) = &instance.reason {
        add("reason", clean(reason).into());
    }
    if let Some(progress) = &instance.progress {
        let at = span(between(Wall(progress.at), now));
        let text = format!("{}, {at} ago", clean(&progress.text()));
        add("progress", text.into());
    }
    add("attempts", instance.attempts_text(timeline).into());
    if let Some(worker) = &instance.worker {
        add("worker", clean(worker).into());
    }
    if let Some(executor) = &instance.executor {
        add("executor", clean(executor).into());
    }
    if let Some(end) = &instance.end_text {
        add("end", clean(end).into());
    }
    let age = |at: u64| format!("{}, {} ago", stamp(Wall(at)), span(between(Wall(at), now)));
    add("submitted", age(instance.submitted_at).into());
    if let Some(started) = instance.started_at {
        add("started", age(started).into());
    }
    if let Some(elapsed) = rows::elapsed(instance, now) {
        add("elapsed", span(elapsed).into());
    }
    if let Some(seconds) = instance.cpu_seconds {
        add("cpu", span(rows::millis(seconds)).into());
    }
    if let Some(bytes) = instance.memory_peak_bytes {
        add("memory", format!("{} at most", size(bytes)).into());
    }
    table
}

/// The events, with times relative to the first.
fn events(timeline: &[Event]) -> Table {
    let mut table = Table::default();
    let first = timeline.first().map_or(Wall(0), |event| Wall(event.at));
    for event in timeline {
        let at = since(between(first, Wall(event.at)));
        table.row([Cell::new(at, Style::Faint), clean(&event.text).into()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use baton_model::fact::Fact;
    use baton_model::ids::InstanceId;
    use baton_model::outcome::KillMode;

    use super::*;

    #[test]
    fn an_instance_is_shown_with_what_is_known_of_it() {
        let instance = Instance {
            state: UniversalState::Failed,
            attempts: 3,
            failures: 2,
            losses: 1,
            worker: Some("w1".to_owned()),
            executor: Some("node7:4211:00000001".to_owned()),
            end_text: Some("exit 7".to_owned()),
            started_at: Some(61_000),
            elapsed_seconds: Some(2.0),
            cpu_seconds: Some(0.5),
            memory_peak_bytes: Some(3 << 20),
            ..rows::tests::fresh("i12")
        };
        assert_eq!(
            facts(&instance, &[], Wall(121_000)).lines(&Output::new()),
            [
                "id         i12",
                "name       hello",
                "owner      default",
                "state      FAILED",
                "attempts   3, 2 failed, 1 lost",
                "worker     w1",
                "executor   node7:4211:00000001",
                "end        exit 7",
                "submitted  1970-01-01 00:00:01Z, 2m00s ago",
                "started    1970-01-01 00:01:01Z, 1m00s ago",
                "elapsed    2s",
                "cpu        500ms",
                "memory     3MiB at most",
            ]
        );
    }

    #[test]
    fn the_failures_of_attempts_count_since_the_last_retry() {
        let instance = |failures, losses| Instance {
            attempts: 5,
            failures,
            losses,
            ..rows::tests::fresh("i12")
        };
        let retried = [Event {
            seq: 1,
            at: 1,
            epoch: 1,
            text: String::new(),
            fact: Fact::InstanceRetried {
                instance: InstanceId(12),
            },
            requested_by: None,
            links: BTreeMap::new(),
        }];
        let since = |failures, losses| instance(failures, losses).attempts_text(&retried);
        assert_eq!(since(0, 0), "5");
        assert_eq!(since(1, 0), "5, 1 failed since the last retry");
        assert_eq!(since(1, 2), "5, 1 failed and 2 lost since the last retry");
        assert_eq!(instance(1, 2).attempts_text(&[]), "5, 1 failed, 2 lost");
    }

    #[test]
    fn a_timeline_counts_from_its_beginning() {
        let event = |at, text: &str| Event {
            seq: 1,
            at,
            epoch: 1,
            text: text.to_owned(),
            fact: Fact::StopRequested {
                instance: InstanceId(1),
                mode: KillMode::Graceful,
                reason: None,
            },
            requested_by: None,
            links: BTreeMap::new(),
        };
        let lines = events(&[event(5_000, "submitted"), event(6_250, "stopped")]);
        assert_eq!(
            lines.lines(&Output::new()),
            ["+0.000s  submitted", "+1.250s  stopped"]
        );
    }

    #[test]
    fn a_range_is_shown_by_its_counts() {
        let span = ids::span("i1..i1500").expect("a range");
        let summary = RangeSummary {
            first: "i1".to_owned(),
            last: "i1500".to_owned(),
            counts: BTreeMap::from([(UniversalState::Done, 1_200), (UniversalState::Queued, 300)]),
            parts: Vec::new(),
            links: BTreeMap::new(),
        };
        assert_eq!(
            range(&summary, span).lines(&Output::new()),
            [
                "i1..i1500 (1,500 instances)",
                "  QUEUED  300",
                "  DONE    1,200",
            ]
        );
    }
}
