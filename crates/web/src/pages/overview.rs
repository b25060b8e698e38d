//! The overview: what needs attention, what runs, what is due next, and how it went.

use std::collections::BTreeMap;

use askama::Template;
use baton_model::api::{
    Alarm, FleetPage, Instance, LibraryPage as Entries, List, Readiness, Run, Scheduler, Usage,
    Worker,
};
use baton_model::state::WorkerState;
use serde_json::Value;

use super::attention::{self, AttentionRow, Failing};
use super::instances::InstanceRow;
use super::library::EntryRow;
use super::runs::RunRow;
use super::schedulers::{needs_attention, summary};
use crate::chart::{self, Bar};
use crate::frame::{Frame, Mood, Refresh};
use crate::markup::Markup;
use crate::time::Stamp;

const HOUR_MS: u64 = 3_600_000;

/// Hours of the chart.
const HOURS: u64 = 24;

/// Entries that are due next.
const DUE_MAX: usize = 8;

/// The overview.
#[derive(Template)]
#[template(path = "overview.html")]
pub struct OverviewPage {
    pub frame: Frame,
    /// What needs a person now.
    pub attention: Vec<AttentionRow>,
    /// Label, number, link, and the class of its colour.
    pub numbers: Vec<(&'static str, String, &'static str, &'static str)>,
    /// The leader and its followers, in sentences; empty if the viewer may not read it.
    pub leader: String,
    /// No scheduler leads, or one is silent.
    pub leader_needs_attention: bool,
    pub chart: Markup,
    /// The length of the queue since the server has started.
    pub queue: Markup,
    pub running: Vec<InstanceRow>,
    pub failed: Vec<InstanceRow>,
    pub runs: Vec<RunRow>,
    pub due: Vec<EntryRow>,
    pub is_empty: bool,
}

/// Answers of the API for the overview. What the viewer may not read is missing.
pub struct Answers {
    pub ready: Option<Readiness>,
    pub schedulers: Option<List<Scheduler>>,
    pub arena: List<Instance>,
    pub bullpen: List<Instance>,
    pub failed: List<Instance>,
    /// What has failed and not succeeded since, the latest first.
    pub failing: Vec<Failing>,
    pub alarms: Option<List<Alarm>>,
    pub runs: List<Run>,
    pub library: Option<Entries<Value>>,
    pub workers: Option<List<Worker>>,
    pub fleets: Option<FleetPage>,
    pub usage: Option<List<Usage>>,
    /// Minute by minute, oldest first.
    pub queue: Vec<QueuePoint>,
}

/// The highest number of waiting instances in a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePoint {
    /// The beginning of the minute, in milliseconds since 1970.
    pub at: u64,
    pub waiting: u64,
}

impl OverviewPage {
    #[must_use]
    pub fn new(mut frame: Frame, answers: Answers) -> Self {
        let Answers {
            ready,
            schedulers,
            arena,
            bullpen,
            failed,
            failing,
            alarms,
            runs,
            library,
            workers,
            fleets,
            usage,
            queue,
        } = answers;
        let now = frame.now;
        let workers = workers.map(|list| list.items).unwrap_or_default();
        let healthy = workers.iter().filter(|it| it.state == WorkerState::Healthy);
        let healthy = healthy.count();
        let schedulers = schedulers.map(|list| list.items).unwrap_or_default();
        let fleets = fleets.map(|page| page.items).unwrap_or_default();
        let alarms = alarms.map(|list| list.items).unwrap_or_default();
        let attention = attention::rows(&schedulers, &workers, &fleets, &alarms, &failing);
        let usage = usage.map(|list| list.items).unwrap_or_default();
        let failed_lately: u64 = usage.iter().map(|hour| hour.failed).sum();
        let known = |list: &List<Instance>| list.total.unwrap_or(list.items.len() as u64);
        let (running, waiting) = (known(&arena), known(&bullpen));
        frame.refresh = Refresh::Changes;
        frame.mood = match (failed_lately, running) {
            (0, 0) => Mood::Idle,
            (0, _) => Mood::Busy,
            _ => Mood::Failed,
        };
        let numbers = vec![
            ("running", running.to_string(), "/arena/", "s-RUNNING"),
            ("waiting", waiting.to_string(), "/bullpen/", "s-QUEUED"),
            (
                "failed in 24 h",
                failed_lately.to_string(),
                "/history/?state=FAILED",
                if failed_lately > 0 {
                    "s-FAILED"
                } else {
                    "s-DONE"
                },
            ),
            (
                "healthy workers",
                format!("{healthy}/{}", workers.len()),
                "/workers/",
                if healthy == workers.len() {
                    "s-DONE"
                } else {
                    "s-FAILED"
                },
            ),
        ];
        Self {
            attention,
            numbers,
            leader: leader(ready, &schedulers),
            leader_needs_attention: !schedulers.is_empty() && needs_attention(&schedulers),
            chart: chart::bars("Instances that ended, by hour", &bars(&usage, now)),
            queue: queue_chart(&queue),
            is_empty: arena.items.is_empty()
                && bullpen.items.is_empty()
                && failed.items.is_empty()
                && runs.items.is_empty(),
            running: arena.items.iter().map(InstanceRow::new).collect(),
            failed: failed.items.iter().map(InstanceRow::new).collect(),
            runs: runs.items.iter().map(|run| RunRow::new(run, now)).collect(),
            due: due(library),
            frame,
        }
    }
}

/// Who leads, and why this scheduler is not ready if it is not; empty if the viewer may not know.
fn leader(ready: Option<Readiness>, schedulers: &[Scheduler]) -> String {
    if schedulers.is_empty() {
        return String::new();
    }
    let mut leader = summary(schedulers);
    let answers = schedulers.iter().find(|it| it.answers);
    if let Some(answers) = answers.filter(|_| schedulers.len() > 1) {
        leader.push_str(&format!(" {} serves this page.", answers.name));
    }
    if let Some(reason) = ready.and_then(|ready| ready.reason) {
        leader.push_str(&format!(" It is not ready: {reason}."));
    }
    leader
}

/// The length of the queue as a curve of at most so many points.
fn queue_chart(queue: &[QueuePoint]) -> Markup {
    const POINTS: usize = 240;
    let step = queue.len().div_ceil(POINTS).max(1);
    let points = queue.chunks(step).map(|part| {
        let waiting = part.iter().map(|it| it.waiting).max().unwrap_or(0);
        (part[0].at, waiting as f64)
    });
    let points: Vec<(u64, f64)> = points.collect();
    let highest = queue.iter().map(|it| it.waiting).max().unwrap_or(0);
    chart::large_curve("Waiting instances", &points, &highest.to_string())
}

/// One bar for each hour, also of those in which nothing ended.
fn bars(usage: &[Usage], now: u64) -> Vec<Bar> {
    let mut hours: BTreeMap<u64, [u64; 3]> = BTreeMap::new();
    let last = now / HOUR_MS;
    for hour in (last + 1).saturating_sub(HOURS)..=last {
        hours.insert(hour, [0; 3]);
    }
    for it in usage {
        if let Some(sums) = hours.get_mut(&(it.hour_at / HOUR_MS)) {
            sums[0] += it.done;
            sums[1] += it.failed;
            sums[2] += it.halted;
        }
    }
    let bars = hours.into_iter().map(|(hour, [done, failed, halted])| Bar {
        hour: Stamp(hour * HOUR_MS),
        parts: vec![("done", done), ("failed", failed), ("halted", halted)],
    });
    bars.collect()
}

fn due(library: Option<Entries<Value>>) -> Vec<EntryRow> {
    let entries = library.map(|page| page.items).unwrap_or_default();
    let mut due: Vec<EntryRow> = entries
        .iter()
        .map(EntryRow::new)
        .filter(|row| row.next.is_some() && !row.is_paused)
        .collect();
    due.sort_by_key(|row| row.next);
    due.truncate(DUE_MAX);
    due
}
