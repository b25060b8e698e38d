//! One run: its graph, its tasks, its items over time, and what failed.

use askama::Template;
use baton_model::api::{Alarm, ErrorGroup, ItemCounts, List, ResumePreview, Run, RunItem, RunTask};
use baton_model::time::Wall;
use serde_json::Value;

use super::attention::{self, AttentionRow};
use super::compare::{Comparison, Side};
use super::{Offer, actions, next};
use crate::frame::{Action, Frame, Refresh};
use crate::gantt::{self, Timeline};
use crate::graph::{self, TaskState};
use crate::markup::Markup;
use crate::progress::{self, ProgressRow};
use crate::text::{duration, encoded};
use crate::time::Stamp;

/// The page of a run.
#[derive(Template)]
#[template(path = "run.html")]
pub struct RunPage {
    pub frame: Frame,
    pub id: String,
    pub name: String,
    pub state: &'static str,
    pub halting: bool,
    /// How far its tasks have come, in their own words.
    pub progress: Vec<ProgressRow>,
    pub alarms: Vec<AttentionRow>,
    pub facts: Vec<(&'static str, String)>,
    pub times: Vec<(&'static str, Stamp)>,
    pub links: Vec<(&'static str, String)>,
    pub params: Vec<(String, String)>,
    /// Number of items by status, without those of none.
    pub counts: Vec<(&'static str, u64)>,
    pub done: u64,
    pub total: u64,
    pub problems: Vec<(String, String)>,
    pub causes: Vec<Cause>,
    /// Causes that are not shown.
    pub more_causes: usize,
    pub is_ended: bool,
    pub graph: Markup,
    pub tasks: Vec<TaskRow>,
    pub columns: TaskColumns,
    /// Whether the run has more tasks than are shown.
    pub more_tasks: bool,
    pub gantt: Markup,
    /// The critical path in words: names, and their time.
    pub critical: String,
    pub items: Vec<ItemRow>,
    /// Classes that hide the columns of items that are empty.
    pub hidden: String,
    pub more_items: Option<String>,
    pub actions: Vec<Action>,
    /// Whether its tasks may be run again.
    pub may_retry: bool,
    /// The previous run of the same workflow, if there is one.
    pub comparison: Option<Comparison>,
}

/// A task of the run.
#[derive(Debug)]
pub struct TaskRow {
    pub name: String,
    pub query: String,
    pub state: &'static str,
    pub done: u64,
    pub total: u64,
    pub failed: u64,
    pub after: String,
    pub mean: String,
    pub reason: String,
}

/// Columns of tasks that say something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskColumns {
    pub failed: bool,
    pub after: bool,
    pub mean: bool,
    pub reason: bool,
}

/// Failures with the same end and the same output.
#[derive(Debug, PartialEq, Eq)]
pub struct Cause {
    pub count: u64,
    /// Names of the tasks.
    pub tasks: String,
    pub end_text: String,
    pub example: String,
    /// The last lines of standard error of the example; of the first causes only.
    pub stderr: String,
}

/// An item of the run.
#[derive(Debug)]
pub struct ItemRow {
    pub instance: String,
    pub name: String,
    pub value: String,
    pub state: &'static str,
    pub worker: String,
    pub end: String,
    pub outputs: String,
}

/// Answers of the API about a run.
pub struct Answers {
    pub run: Run,
    pub tasks: List<RunTask>,
    pub items: List<RunItem<Value>>,
    pub errors: List<ErrorGroup>,
    /// Those of its owner.
    pub alarms: Option<List<Alarm>>,
    /// The previous run of the same workflow, its tasks, and its first items.
    pub before: Option<(Run, List<RunTask>, List<RunItem<Value>>)>,
}

impl RunPage {
    #[must_use]
    pub fn new(mut frame: Frame, answers: Answers) -> Self {
        let Answers {
            run,
            tasks,
            items,
            errors,
            alarms,
            before,
        } = answers;
        frame.mood = super::instance::mood(run.state);
        let counts = run.items.unwrap_or_default();
        // Progress that items report changes without an entry in the history.
        frame.refresh = if counts.running > 0 {
            Refresh::Often
        } else {
            Refresh::Changes
        };
        let now = frame.now;
        let side = Side {
            run: &run,
            tasks: &tasks,
            items: &items,
        };
        let timed = side.timed();
        let more_items = next(&items.links);
        // Of a part of the items it is not known which ended last.
        let critical = match more_items {
            None => gantt::critical_path(&run, &tasks.items, &items.items),
            Some(_) => Vec::new(),
        };
        let causes = causes(errors.items);
        let rows: Vec<ItemRow> = items.items.iter().map(ItemRow::new).collect();
        Self {
            id: run.id.clone(),
            name: run.name.clone(),
            state: run.state.word(),
            halting: run.halting.is_some() && !run.state.is_terminal(),
            progress: progress::of_tasks(&tasks.items),
            alarms: attention::about(alarms, &run.id),
            facts: facts(&run, now),
            times: times(&run),
            links: run
                .links
                .get("task")
                .map(|path| ("Library", path.clone()))
                .into_iter()
                .collect(),
            params: run.params.clone().into_iter().collect(),
            done: counts.done,
            total: graph::total(&counts),
            counts: by_status(&counts),
            problems: run
                .problems
                .iter()
                .map(|it| (format!("{}[{}]", it.task, it.item), it.text.clone()))
                .collect(),
            more_causes: causes.len().saturating_sub(CAUSES_MAX),
            causes: causes.into_iter().take(CAUSES_MAX).collect(),
            is_ended: run.state.is_terminal(),
            graph: graph::render(&run, &tasks.items),
            columns: TaskColumns {
                failed: timed.iter().any(|task| task.items.failed > 0),
                after: timed.iter().any(|task| !task.after.is_empty()),
                mean: timed.iter().any(|task| task.mean_seconds.is_some()),
                reason: timed.iter().any(|task| task.reason.is_some()),
            },
            tasks: task_rows(&run, &timed),
            more_tasks: next(&tasks.links).is_some(),
            gantt: gantt::render(
                &Timeline {
                    run: &run,
                    items: &items.items,
                    more: more_items.as_ref().map_or(0, |_| {
                        gantt::begun(&run).saturating_sub(items.items.len() as u64)
                    }),
                    now: Wall(now),
                },
                &critical,
            ),
            critical: critical_text(&critical, now),
            hidden: hidden(&rows),
            items: rows,
            more_items,
            actions: actions(&run.links, OFFERED),
            may_retry: run.state.is_terminal(),
            comparison: before.map(|(before, tasks_before, items_before)| {
                let before = Side {
                    run: &before,
                    tasks: &tasks_before,
                    items: &items_before,
                };
                Comparison::new(&side, &before, now)
            }),
            frame,
        }
    }
}

const OFFERED: &[Offer] = &[
    ("start", |target| Action::new("Start", target)),
    ("halt", |target| {
        Action::new("Halt", target)
            .with("{\"mode\":\"drain\"}")
            .ask("Halt the run? What runs finishes, and nothing new begins.".to_owned())
    }),
    ("resume", |target| Action::new("Resume", target).with("{}")),
];

/// With more tasks, those come first that have failed or run.
const ORDERED_TASKS_MAX: usize = 20;

/// The tasks in the order of the plan, as long as all of them are in sight.
fn task_rows(run: &Run, tasks: &[RunTask]) -> Vec<TaskRow> {
    let mut tasks: Vec<&RunTask> = tasks.iter().collect();
    if tasks.len() > ORDERED_TASKS_MAX {
        tasks.sort_by_key(|task| TaskState::of(run, task));
    }
    tasks.iter().map(|task| TaskRow::new(run, task)).collect()
}

/// Causes that are shown, and of them those with output, of 4 KiB each at most.
const CAUSES_MAX: usize = 40;
const OUTPUTS_MAX: usize = 8;
/// Names of a list in a line.
const NAMES_MAX: usize = 6;

/// Failures of different tasks with the same end and the same output, the most frequent first.
fn causes(errors: Vec<ErrorGroup>) -> Vec<Cause> {
    let mut groups: Vec<(Vec<String>, ErrorGroup)> = Vec::new();
    for error in errors {
        let same = groups
            .iter_mut()
            .find(|(_, it)| it.end_text == error.end_text && it.stderr_tail == error.stderr_tail);
        match same {
            Some((tasks, group)) => {
                group.count += error.count;
                tasks.push(error.task);
            }
            None => groups.push((vec![error.task.clone()], error)),
        }
    }
    groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.count));
    let causes = groups.into_iter().enumerate().map(|(at, (tasks, group))| {
        let stderr = group.stderr_tail.filter(|_| at < OUTPUTS_MAX);
        Cause {
            count: group.count,
            tasks: names(&tasks, ", "),
            end_text: group.end_text,
            example: group.example,
            stderr: stderr.unwrap_or_default(),
        }
    });
    causes.collect()
}

/// The first names of a list, and how many more there are.
fn names(names: &[String], separator: &str) -> String {
    let shown = names.len().min(NAMES_MAX);
    let text = names[..shown].join(separator);
    match names.len() - shown {
        0 => text,
        more => format!("{text}{separator}{more} more"),
    }
}

/// A critical path in words; empty if there is none.
fn critical_text(path: &[&RunItem<Value>], now: u64) -> String {
    let (Some(first), Some(last)) = (path.first(), path.last()) else {
        return String::new();
    };
    let from = first.started_at.unwrap_or(now);
    let took = last.ended_at.unwrap_or(now).saturating_sub(from);
    let of_path = path.iter().map(|item| match item.value {
        Some(_) => format!("{}[{}]", item.task, item.item),
        None => item.task.clone(),
    });
    let of_path: Vec<String> = of_path.collect();
    let took = duration(took as f64 / 1_000.0);
    format!("{} ({took})", names(&of_path, " → "))
}

/// Classes that hide the columns without a value: the third and the last one.
pub(super) fn hidden(rows: &[ItemRow]) -> String {
    let columns = [
        ("hide-3", rows.iter().all(|row| row.value.is_empty())),
        ("hide-7", rows.iter().all(|row| row.outputs.is_empty())),
    ];
    let hidden = columns.iter().filter(|(_, is_empty)| *is_empty);
    let hidden: Vec<&str> = hidden.map(|(class, _)| *class).collect();
    hidden.join(" ")
}

pub(crate) fn facts(run: &Run, now: u64) -> Vec<(&'static str, String)> {
    let elapsed = run.ended_at.unwrap_or(now).saturating_sub(run.begun_at);
    let mut facts = vec![
        ("Owner", run.owner.clone()),
        ("Elapsed", duration(elapsed as f64 / 1_000.0)),
        ("Generation", run.generation.to_string()),
    ];
    let by = run.submitted_by.as_ref().map(|it| it.text.clone());
    facts.extend(by.map(|it| ("Submitted by", it)));
    facts.extend(run.revision.map(|it| ("Revision", it.to_string())));
    facts.extend(run.backfill.clone().map(|it| ("Backfill", it)));
    facts.extend(run.after.clone().map(|it| ("After", it)));
    facts
}

pub(crate) fn times(run: &Run) -> Vec<(&'static str, Stamp)> {
    let times = [
        ("Due", run.nominal_at),
        ("Submitted", Some(run.submitted_at)),
        ("Began", Some(run.begun_at)),
        ("Ended", run.ended_at),
    ];
    let known = times.into_iter();
    known
        .filter_map(|(label, at)| Some((label, Stamp(at?))))
        .collect()
}

/// Number of items by status, without those of none.
pub(crate) fn by_status(items: &ItemCounts) -> Vec<(&'static str, u64)> {
    let all = [
        ("DONE", items.done),
        ("RUNNING", items.running),
        ("QUEUED", items.queued),
        ("READY", items.ready),
        ("WAITING", items.waiting),
        ("FAILED", items.failed),
        ("BLOCKED", items.blocked),
        ("HALTED", items.halted),
        ("SKIPPED", items.skipped),
    ];
    all.into_iter().filter(|(_, count)| *count > 0).collect()
}

impl TaskRow {
    fn new(run: &Run, task: &RunTask) -> Self {
        let after: Vec<&str> = task.after.iter().map(|edge| edge.task.as_str()).collect();
        Self {
            name: task.name.clone(),
            query: encoded(&task.name),
            state: TaskState::of(run, task).badge(),
            done: task.items.done,
            total: graph::total(&task.items),
            failed: task.items.failed,
            after: after.join(", "),
            mean: task.mean_seconds.map(duration).unwrap_or_default(),
            reason: task.reason.clone().unwrap_or_default(),
        }
    }
}

impl ItemRow {
    #[must_use]
    pub fn new(item: &RunItem<Value>) -> Self {
        let value = item.value.as_ref();
        Self {
            instance: item.instance.clone(),
            name: format!("{}[{}]", item.task, item.item),
            value: value.map(short).unwrap_or_default(),
            state: item.state.word(),
            worker: item.worker.clone().unwrap_or_default(),
            end: item.end_text.clone().unwrap_or_default(),
            outputs: item
                .outputs
                .as_deref()
                .map(|text| text.chars().take(VALUE_CHARS_MAX).collect())
                .unwrap_or_default(),
        }
    }
}

/// Characters of a value or an output in a table.
const VALUE_CHARS_MAX: usize = 200;

fn short(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    text.chars().take(VALUE_CHARS_MAX).collect()
}

/// What a retry would run, before it is asked for.
#[derive(Template)]
#[template(path = "preview.html")]
pub struct PreviewPage {
    pub frame: Frame,
    pub run: String,
    pub task: String,
    pub downstream: bool,
    pub rows: Vec<baton_model::api::ResumeTask>,
    pub target: String,
    pub body: String,
}

impl PreviewPage {
    #[must_use]
    pub fn new(
        frame: Frame,
        run: &str,
        task: &str,
        downstream: bool,
        body: String,
        preview: ResumePreview,
    ) -> Self {
        Self {
            frame,
            run: run.to_owned(),
            task: task.to_owned(),
            downstream,
            rows: preview.tasks,
            target: format!("POST /runs/{run}/retry"),
            body,
        }
    }
}

#[cfg(test)]
mod tests {
    use baton_model::json;
    use serde_json::json;

    use super::*;
    use crate::frame::{Mood, Site, Viewer};

    /// The API has means of live runs only.
    #[test]
    fn the_page_of_an_ended_run_has_means() {
        let run = json!({"id": "r1", "name": "w", "owner": "o", "state": "DONE",
            "generation": 1, "submittedAt": 0, "begunAt": 0, "endedAt": 4_000, "links": {}});
        let counts = ItemCounts {
            done: 1,
            ..ItemCounts::default()
        };
        let tasks = json!({"items": [{"name": "load", "index": 0, "items": counts, "after": []}],
            "links": {}});
        let items = json!({"items": [{"task": "load", "item": 0, "instance": "i1", "state": "DONE",
            "generation": 1, "startedAt": 0, "endedAt": 3_000, "links": {}}], "links": {}});
        let answers = Answers {
            run: json::from_value(&run).expect("a run"),
            tasks: json::from_value(&tasks).expect("tasks"),
            items: json::from_value(&items).expect("items"),
            errors: json::from_value(&json!({"items": [], "links": {}})).expect("errors"),
            alarms: None,
            before: None,
        };
        let frame = Frame {
            site: Site::Scheduler,
            title: "r1".to_owned(),
            section: "",
            mood: Mood::Idle,
            viewer: Viewer::default(),
            here: "/runs/r1".to_owned(),
            refresh: Refresh::Changes,
            failures: Vec::new(),
            now: 9_000,
        };
        let page = RunPage::new(frame, answers);
        assert_eq!(page.tasks[0].mean, "3.00 s");
        let columns = TaskColumns {
            failed: false,
            after: false,
            mean: true,
            reason: false,
        };
        assert_eq!((page.columns, &*page.hidden), (columns, "hide-3 hide-7"));
    }

    #[test]
    fn failures_with_the_same_output_are_one_cause() {
        let group = |task: &str, end: &str, count, tail: &str| ErrorGroup {
            task: task.to_owned(),
            end_text: end.to_owned(),
            count,
            example: "i1".to_owned(),
            stderr_tail: Some(tail.to_owned()),
            links: std::collections::BTreeMap::new(),
        };
        let found = causes(vec![
            group("load", "exit 4", 1, "no rates"),
            group("mail", "exit 4", 2, "no rates"),
            group("check", "exit 4", 9, "other"),
        ]);
        let seen: Vec<_> = found
            .iter()
            .map(|it| (it.count, &*it.tasks, &*it.stderr))
            .collect();
        assert_eq!(seen, [(9, "check", "other"), (3, "load, mail", "no rates")]);
        let many: Vec<String> = (0..8).map(|at| format!("t{at}")).collect();
        assert_eq!(names(&many, ", "), "t0, t1, t2, t3, t4, t5, 2 more");
    }
}
