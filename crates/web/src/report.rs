//! The report of a run as one HTML file, for `baton report`: no script, nothing that it loads, light and dark.
//!
//! Graph and timeline are those of the pages, without links. Each part is bounded; what is left out is counted.

use std::collections::{BTreeMap, HashMap};

use askama::Template;
use baton_model::api::{ErrorGroup, Run, RunItem, RunTask};
use baton_model::task::Resources;
use baton_model::time::Wall;
use serde_json::Value;

use crate::ansi;
use crate::assets::{STYLE, STYLE_OF_PICTURES};
use crate::gantt::{self, Timeline};
use crate::graph::{self, TaskState};
use crate::markup::Markup;
use crate::pages::run::{by_status, facts, times};
use crate::text::{bytes, clean, cores, duration, grouped};
use crate::time::Stamp;

/// Started items that a report is made from; times and usage of more are not counted.
pub const REPORT_ITEMS_MAX: usize = 20_000;
/// Tasks whose requests are asked for.
pub const REPORT_REQUESTS_MAX: usize = 100;
/// Rows of the table of tasks.
const TASKS_MAX: usize = 500;
/// Kinds of failures, and items that could not start.
const FAILURES_MAX: usize = 50;
const PARAMS_MAX: usize = 100;
/// Characters of the value of a parameter.
const VALUE_CHARS_MAX: usize = 400;

/// Answers of the API about a run.
#[derive(Clone, Copy, Debug)]
pub struct Answers<'a> {
    pub run: &'a Run,
    pub tasks: &'a [RunTask],
    /// The first of its started items.
    pub items: &'a [RunItem<Value>],
    /// Started items that are not among them.
    pub more_items: u64,
    pub errors: &'a [ErrorGroup],
    /// What an instance of a task requests, by the name of the task; not of all tasks.
    pub requests: &'a BTreeMap<String, Resources>,
    /// The version of Baton.
    pub version: &'a str,
    pub now: Wall,
}

/// Renders the report.
#[must_use]
pub fn render(answers: &Answers<'_>) -> String {
    let report = Report::new(answers);
    // Only writing to a text can fail, and it does not.
    report.render().unwrap_or_default()
}

#[derive(Template)]
#[template(path = "report.html")]
struct Report {
    title: String,
    style: Markup,
    id: String,
    name: String,
    state: &'static str,
    halting: bool,
    counts: Vec<(&'static str, u64)>,
    done: u64,
    total: u64,
    facts: Vec<(&'static str, String)>,
    times: Vec<(&'static str, Stamp)>,
    params: Vec<(String, String)>,
    failures: Vec<Failure>,
    problems: Vec<(String, String)>,
    graph: Markup,
    gantt: Markup,
    tasks: Vec<TaskRow>,
    /// What is left out, as sentences.
    omitted: Vec<String>,
    version: String,
    at: Stamp,
}

struct Failure {
    count: String,
    task: String,
    end: String,
    example: String,
    stderr: Markup,
}

struct TaskRow {
    name: String,
    state: &'static str,
    items: String,
    failed: u64,
    attempts: String,
    median: String,
    longest: String,
    cpu: String,
    memory: String,
    /// Why it waits, or how far it is.
    note: String,
}

/// Times and usage of the items of a task.
#[derive(Default)]
struct Samples {
    attempts: u64,
    /// Milliseconds of the last attempt of each item.
    elapsed: Vec<u64>,
    /// Thousandths of a core, of each.
    cpu: Vec<u64>,
    memory_peak: Option<u64>,
}

impl Samples {
    fn add(&mut self, item: &RunItem<Value>) {
        self.attempts += u64::from(item.attempts);
        if let (Some(from), Some(to)) = (item.started_at, item.ended_at) {
            let elapsed = to.saturating_sub(from);
            self.elapsed.push(elapsed);
            // A shorter attempt has no rate worth a name.
            if let Some(cpu) = item.cpu_seconds.filter(|_| elapsed >= RATE_OVER_MIN_MS) {
                self.cpu.push((cpu * 1_000_000.0 / elapsed as f64) as u64);
            }
        }
        self.memory_peak = self.memory_peak.max(item.memory_peak_bytes);
    }
}

/// Milliseconds of an attempt from which on its use of processors is a rate.
const RATE_OVER_MIN_MS: u64 = 100;

impl Report {
    fn new(answers: &Answers<'_>) -> Self {
        let Answers { run, tasks, .. } = *answers;
        let counts = run.items.unwrap_or_default();
        let mut samples: HashMap<&str, Samples> = HashMap::new();
        for item in answers.items {
            samples.entry(&item.task).or_default().add(item);
        }
        let rows = tasks.iter().take(TASKS_MAX).map(|task| {
            let found = samples.remove(task.name.as_str()).unwrap_or_default();
            TaskRow::new(run, task, found, answers.requests.get(&task.name))
        });
        let title = clean(&format!("{} {} {}", run.id, run.name, run.state));
        Self {
            title,
            style: Markup(format!("{STYLE}{STYLE_OF_PICTURES}{STYLE_OF_REPORTS}")),
            id: run.id.clone(),
            name: run.name.clone(),
            state: run.state.word(),
            halting: run.halting.is_some() && !run.state.is_terminal(),
            counts: by_status(&counts),
            done: counts.done,
            total: graph::total(&counts),
            facts: [("Workflow", run.name.clone())]
                .into_iter()
                .chain(facts(run, answers.now.0))
                .collect(),
            times: times(run),
            params: params(run),
            failures: answers
                .errors
                .iter()
                .take(FAILURES_MAX)
                .map(failure)
                .collect(),
            problems: run
                .problems
                .iter()
                .take(FAILURES_MAX)
                .map(|it| (format!("{}[{}]", it.task, it.item), it.text.clone()))
                .collect(),
            graph: graph::render_unlinked(run, tasks),
            gantt: gantt::render_unlinked(&Timeline {
                run,
                items: answers.items,
                more: answers.more_items,
                now: answers.now,
            }),
            tasks: rows.collect(),
            omitted: omitted(answers),
            version: answers.version.to_owned(),
            at: Stamp(answers.now.0),
        }
    }
}

/// Rules that only reports need: they have no script that shows what is hidden, and may be printed.
const STYLE_OF_REPORTS: &str = "\
.report main { margin: 0 auto; }\n\
.report details { margin: 0.25rem 0 0.75rem; } .report pre { max-height: 24rem; overflow: auto; }\n\
@media print { .report .scroll, .report pre { overflow: visible; max-height: none; } }\n";

fn params(run: &Run) -> Vec<(String, String)> {
    let params = run.params.iter().take(PARAMS_MAX);
    let params = params.map(|(name, value)| {
        let mut shown: String = value.chars().take(VALUE_CHARS_MAX).collect();
        if shown.len() < value.len() {
            shown.push('…');
        }
        (name.clone(), shown)
    });
    params.collect()
}

fn failure(group: &ErrorGroup) -> Failure {
    let stderr = group.stderr_tail.as_deref().unwrap_or_default();
    Failure {
        count: grouped(group.count),
        task: group.task.clone(),
        end: group.end_text.clone(),
        example: group.example.clone(),
        stderr: ansi::render(stderr.as_bytes()),
    }
}

/// Sentences about what the report does not have.
fn omitted(answers: &Answers<'_>) -> Vec<String> {
    let mut omitted = Vec::new();
    if answers.more_items > 0 {
        omitted.push(format!(
            "Times, attempts and usage are those of the first {} started items; {} more are not counted.",
            grouped(answers.items.len() as u64),
            grouped(answers.more_items)
        ));
    }
    let mut leave = |number: usize, most: usize, what: &str| {
        if let Some(more) = number.checked_sub(most).filter(|more| *more > 0) {
            omitted.push(format!(
                "{} more {what} are left out.",
                grouped(more as u64)
            ));
        }
    };
    leave(answers.tasks.len(), TASKS_MAX, "tasks");
    leave(answers.errors.len(), FAILURES_MAX, "kinds of failures");
    leave(
        answers.run.problems.len(),
        FAILURES_MAX,
        "items that could not start",
    );
    leave(answers.run.params.len(), PARAMS_MAX, "parameters");
    omitted
}

impl TaskRow {
    fn new(run: &Run, task: &RunTask, found: Samples, request: Option<&Resources>) -> Self {
        let seconds = |ms: u64| duration(ms as f64 / 1_000.0);
        let cpu = request.map(|it| it.cpu_milli).filter(|it| *it > 0);
        let memory = request.map(|it| it.memory_min).filter(|it| *it > 0);
        let told = task.progress.as_ref().map(baton_model::api::Progress::text);
        let total = graph::total(&task.items);
        Self {
            name: task.name.clone(),
            state: TaskState::of(run, task).badge(),
            items: format!("{}/{}", grouped(task.items.done), grouped(total)),
            failed: task.items.failed,
            attempts: if found.attempts > 0 {
                grouped(found.attempts)
            } else {
                String::new()
            },
            longest: found
                .elapsed
                .iter()
                .max()
                .copied()
                .map_or_else(String::new, seconds),
            median: median(found.elapsed).map_or_else(String::new, seconds),
            cpu: against(
                median(found.cpu).map(|milli| cores(milli.next_multiple_of(10))),
                cpu.map(cores),
            ),
            memory: against(found.memory_peak.map(bytes), memory.map(bytes)),
            note: told.or_else(|| task.reason.clone()).unwrap_or_default(),
        }
    }
}

/// The lower median.
fn median(mut numbers: Vec<u64>) -> Option<u64> {
    numbers.sort_unstable();
    let middle = numbers.len().checked_sub(1)? / 2;
    numbers.get(middle).copied()
}

/// An amount beside the request: `0.9 of 2`.
fn against(used: Option<String>, request: Option<String>) -> String {
    match (used, request) {
        (Some(used), Some(request)) => format!("{used} of {request}"),
        (Some(used), None) => used,
        (None, Some(request)) => format!("- of {request}"),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use baton_model::json;
    use serde_json::json;

    use super::*;

    const AT: u64 = 1_700_000_000_000;

    fn run() -> Run {
        let run = json!({"id": "r7", "name": "etl <b>", "owner": "lab", "state": "FAILED", "generation": 1,
            "submittedAt": AT, "begunAt": AT, "endedAt": AT + 65_000, "tasks": 2,
            "params": {"day": "2026-11-19", "long": "x".repeat(1_000)},
            "items": {"waiting": 0, "ready": 0, "queued": 0, "running": 0, "done": 3, "failed": 1,
                "halted": 0, "skipped": 0, "blocked": 0},
            "submittedBy": {"kind": "unauthenticated", "text": "ann (not authenticated)"}, "links": {}});
        json::from_value(&run).expect("a run")
    }

    fn tasks() -> Vec<RunTask> {
        let counts = |done: u64, failed: u64| {
            json!({"waiting": 0, "ready": 0, "queued": 0, "running": 0, "done": done, "failed": failed,
                "halted": 0, "skipped": 0, "blocked": 0})
        };
        let tasks = json!([
            {"name": "fetch", "index": 0, "items": counts(3, 0), "after": []},
            {"name": "load", "index": 1, "items": counts(0, 1),
             "after": [{"task": "fetch", "condition": "success", "byItem": false}]}]);
        json::from_value(&tasks).expect("tasks")
    }

    fn item(task: &str, item: u32, from: u64, to: u64, state: &str) -> RunItem<Value> {
        let item = json!({"task": task, "item": item, "instance": format!("i{item}"), "state": state,
            "generation": 1, "attempts": 2, "startedAt": AT + from, "endedAt": AT + to,
            "cpuSeconds": 1.5, "memoryPeakBytes": 300 << 20, "links": {}});
        json::from_value(&item).expect("an item")
    }

    fn report(more_items: u64) -> String {
        let errors = json!([{"task": "load", "endText": "exit 7", "count": 1, "example": "i9",
            "stderrTail": "no such table\n<script>alert(1)</script>", "links": {}}]);
        let errors: Vec<ErrorGroup> = json::from_value(&errors).expect("errors");
        let requests = Resources {
            cpu_milli: 2_000,
            memory_min: 512 << 20,
            ..Resources::default()
        };
        let items = [
            item("fetch", 0, 0, 2_000, "DONE"),
            item("fetch", 1, 0, 3_000, "DONE"),
            item("fetch", 2, 0, 30_000, "DONE"),
            item("load", 9, 30_000, 65_000, "FAILED"),
        ];
        render(&Answers {
            run: &run(),
            tasks: &tasks(),
            items: &items,
            more_items,
            errors: &errors,
            requests: &BTreeMap::from([("fetch".to_owned(), requests)]),
            version: "0.1.0",
            now: Wall(AT + 90_000),
        })
    }

    /// The text of the cells of the row of a task.
    fn cells(html: &str, task: &str) -> Vec<String> {
        let row = html
            .split("<tr>")
            .find(|row| row.contains(&format!(">{task}<")));
        let row = row.expect("a row").split("</tr>").next().expect("closed");
        let cells = row.split("</td>").map(|cell| {
            let text = cell.split('>').skip(1).map(|part| part.split('<').next());
            text.flatten().collect::<String>().trim().to_owned()
        });
        cells.collect()
    }

    #[test]
    fn a_report_has_everything_about_a_run() {
        let html = report(0);
        let fetch = cells(&html, "fetch");
        let expected = [
            "fetch",
            "DONE",
            "3/3",
            "0",
            "6",
            "3.00 s",
            "30 s",
            "0.5 of 2",
            "300.0 MiB of 512.0 MiB",
        ];
        assert_eq!(fetch[..expected.len()], expected, "{fetch:?}");
        for part in [
            "FAILED",
            "ann (not authenticated)",
            "2026-11-19",
            "1 min 5 s",
            "exit 7",
            "no such table",
            "class=\"graph\"",
            "class=\"gantt\"",
        ] {
            assert!(html.contains(part), "{part}");
        }
        assert!(!html.contains("left out") && !html.contains("not counted"));
    }

    #[test]
    fn a_report_is_one_file_without_script() {
        let html = report(0);
        for part in [
            "<script", "<link", "src=", "href=", "url(", "@import", "etl <b>",
        ] {
            let found = html.match_indices(part);
            // Arrow heads are in the same picture.
            let outside = found.filter(|(at, _)| !html[*at..].starts_with("url(#arrow"));
            assert_eq!(outside.count(), 0, "{part}");
        }
        assert!(html.contains("prefers-color-scheme: dark"));
        assert!(html.contains("default-src 'none'"));
    }

    #[test]
    fn a_report_says_what_it_leaves_out() {
        let html = report(96_000);
        assert!(
            html.contains("first 4 started items; 96,000 more are not counted"),
            "{html}"
        );
        let many: Vec<RunTask> = (0..TASKS_MAX + 3).map(|_| tasks().remove(0)).collect();
        let html = render(&Answers {
            run: &run(),
            tasks: &many,
            items: &[],
            more_items: 0,
            errors: &[],
            requests: &BTreeMap::new(),
            version: "0.1.0",
            now: Wall(AT),
        });
        assert!(html.contains("3 more tasks are left out."));
        assert!(html.len() < 1 << 20, "{}", html.len());
    }

    #[test]
    fn medians_are_of_what_there_is() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3]), Some(3));
        assert_eq!(median(vec![9, 1, 5, 3]), Some(3));
        assert_eq!(against(None, None), "");
        assert_eq!(against(None, Some("2".to_owned())), "- of 2");
    }
}
