//! Every token and component of the design, for those who change it.
//!
//! The page uses the functions and the templates of the other pages, so it shows what they show. A
//! test compares its colours with the tokens of the style sheet.

use askama::Template;
use baton_model::alarm::AlarmKind;
use baton_model::api::{Alarm, Event, ItemCounts, Run, RunEdge, RunItem, RunTask};
use baton_model::state::{AttemptState, ProcessState, UniversalState, WorkerState};
use baton_model::time::Wall;
use baton_model::workflow::Condition;
use serde_json::json;

use super::attention::{self, AttentionRow, Failing};
use super::grid::Grid;
use super::instance::LogView;
use crate::attempts::Attempts;
use crate::chart::{self, Bar};
use crate::diff;
use crate::frame::{Action, Frame};
use crate::gantt::{self, Timeline};
use crate::graph;
use crate::json;
use crate::markup::Markup;
use crate::time::Stamp;
use crate::yaml;

/// The colours of the style sheet.
const COLOURS: [&str; 23] = [
    "text", "faint", "line", "paper", "raised", "link", "focus", "danger", "done", "done-bg",
    "run", "run-bg", "wait", "wait-bg", "fail", "fail-bg", "halt", "halt-bg", "series-1",
    "series-2", "series-3", "series-4", "series-5",
];

/// The time of all examples.
const AT: u64 = 1_763_331_003_250;

/// The page of components.
#[derive(Template)]
#[template(path = "components.html")]
pub struct ComponentsPage {
    pub frame: Frame,
    pub colours: [&'static str; 23],
    pub states: Vec<&'static str>,
    pub steps: Vec<(&'static str, bool)>,
    pub at: Stamp,
    pub actions: Vec<Action>,
    pub logs: Vec<LogView>,
    pub json: Markup,
    pub yaml: Markup,
    pub diff: Markup,
    pub grid: Grid,
    pub errors: [(&'static str, &'static str); 1],
    pub bars: Markup,
    pub curve: Markup,
    pub large_curve: Markup,
    pub graph: Markup,
    pub gantt: Markup,
    pub attempts: Attempts,
    pub outcomes: [&'static str; 4],
    pub attention: Vec<AttentionRow>,
}

impl ComponentsPage {
    #[must_use]
    pub fn new(frame: Frame) -> Self {
        let points: Vec<(u64, f64)> = (0..40)
            .map(|at: u32| (AT + u64::from(at) * 60_000, f64::from(at * 7 % 17)))
            .collect();
        let bars: Vec<Bar> = (0..24)
            .map(|hour: u64| Bar {
                hour: Stamp(AT + hour * 3_600_000),
                parts: vec![
                    ("done", hour * 5 % 11),
                    ("failed", hour % 3),
                    ("halted", hour % 2),
                ],
            })
            .collect();
        let output = b"plain \x1b[1mbold\x1b[0m \x1b[31mred \x1b[32mgreen \x1b[33myellow \x1b[34mblue \x1b[35mmagenta\x1b[0m\n";
        let href = "/-/components".to_owned();
        Self {
            frame,
            colours: COLOURS,
            states: states(),
            steps: vec![("QUEUED", false), ("RUNNING", true), ("DONE", false)],
            at: Stamp(AT),
            actions: vec![
                Action::new("Retry", "POST /-/components"),
                Action::new("Cancel", "POST /-/components").ask("Cancel the example?".to_owned()),
            ],
            logs: vec![
                LogView::new("stdout", output, 1 << 20, "example", href),
                LogView::missing("stderr", "No attempt has begun.".to_owned()),
            ],
            json: json::render(&json!({"text": "a", "number": 1, "list": [true, null]})),
            yaml: yaml::highlight(
                &json!({"run": "set -e\nmake\n", "retries": 3, "after": ["load"]}),
            ),
            grid: Grid::of_runs(&[(run(), tasks())], AT),
            errors: [("runn", "a task has no field `runn`")],
            diff: diff::render(
                &json!({"run": "old", "user": "ann"}),
                &json!({"run": "new", "user": "ann"}),
            ),
            bars: chart::bars("Instances that ended, by hour", &bars),
            curve: chart::curve("CPU", &points, "16.00 cores"),
            large_curve: chart::large_curve("Waiting instances", &points, "16"),
            graph: graph::render(&run(), &tasks()),
            gantt: {
                let (run, tasks, items) = (run(), tasks(), items());
                let timeline = Timeline {
                    run: &run,
                    items: &items,
                    more: 0,
                    now: Wall(AT),
                };
                gantt::render(&timeline, &gantt::critical_path(&run, &tasks, &items))
            },
            attempts: Attempts::new(&timeline(), UniversalState::Running, 2, AT),
            outcomes: ["launched", "late", "skipped", "backfilled"],
            attention: attention::rows(&[], &[], &[], &[alarm()], &[failing()]),
        }
    }
}

fn alarm() -> Alarm {
    Alarm {
        kind: AlarmKind::Slow,
        subject: "r3".to_owned(),
        owner: "ann".to_owned(),
        name: "etl".to_owned(),
        raised_at: AT,
        reason: "has run for 50 min 0 s, and 40 min 0 s are expected".to_owned(),
        links: [("subject".to_owned(), "/-/components".to_owned())].into(),
    }
}

fn failing() -> Failing {
    let here = "/-/components".to_owned();
    Failing {
        name: "billing/nightly".to_owned(),
        href: here.clone(),
        failures: 3,
        is_cut: false,
        last: ("i7".to_owned(), here),
        end_text: "exit 4".to_owned(),
        ended_at: AT,
    }
}

/// Every state that a page may show, once.
fn states() -> Vec<&'static str> {
    let mut states: Vec<&'static str> = Vec::new();
    let all = UniversalState::ALL.iter().map(|state| state.word());
    let all = all.chain(AttemptState::ALL.iter().map(|state| state.word()));
    let all = all.chain(ProcessState::ALL.iter().map(|state| state.word()));
    for state in all.chain(WorkerState::ALL.iter().map(|state| state.word())) {
        if !states.contains(&state) {
            states.push(state);
        }
    }
    states
}

fn run() -> Run {
    Run {
        id: "r1".to_owned(),
        name: "example".to_owned(),
        owner: "ann".to_owned(),
        state: UniversalState::Running,
        generation: 1,
        halting: None,
        timed_out: false,
        replaced: false,
        revision: None,
        nominal_at: None,
        backfill: None,
        after: None,
        submitted_at: AT - 60_000,
        submitted_by: None,
        begun_at: AT - 60_000,
        ended_at: None,
        params: std::collections::BTreeMap::new(),
        tasks: None,
        items: None,
        problems: Vec::new(),
        links: std::collections::BTreeMap::new(),
    }
}

fn tasks() -> Vec<RunTask> {
    let of = |done, running, failed, waiting| ItemCounts {
        done,
        running,
        failed,
        waiting,
        ..ItemCounts::default()
    };
    let task = |name: &str, index, items, after: &[&str]| RunTask {
        name: name.to_owned(),
        index,
        items,
        unmapped: false,
        after: after
            .iter()
            .map(|upstream| RunEdge {
                task: (*upstream).to_owned(),
                condition: Condition::Success,
                by_item: false,
            })
            .collect(),
        when: None,
        reason: None,
        mean_seconds: None,
        progress: None,
    };
    vec![
        task("fetch", 0, of(3, 0, 0, 0), &[]),
        task("check", 1, of(0, 0, 1, 0), &["fetch"]),
        task("load", 2, of(0, 1, 0, 0), &["fetch"]),
        task("report", 3, of(0, 0, 0, 1), &["check", "load"]),
    ]
}

fn items() -> Vec<RunItem<serde_json::Value>> {
    let item = |task: &str, item, state, from: u64, to: u64| RunItem {
        task: task.to_owned(),
        item,
        value: None,
        instance: format!("i{}", item + 1),
        state,
        generation: 1,
        attempts: 1,
        started_at: Some(AT - from),
        ended_at: Some(AT - to),
        worker: None,
        end_text: None,
        cpu_seconds: None,
        memory_peak_bytes: None,
        outputs: None,
        links: std::collections::BTreeMap::new(),
    };
    vec![
        item("fetch", 0, UniversalState::Done, 60_000, 40_000),
        item("fetch", 1, UniversalState::Done, 58_000, 30_000),
        item("check", 2, UniversalState::Failed, 30_000, 5_000),
        item("load", 3, UniversalState::Running, 30_000, 0),
    ]
}

/// The timeline of an instance with a failed attempt and a running one.
fn timeline() -> Vec<Event> {
    let at = |before: u64, kind: &str, number: u32, more: serde_json::Value| {
        let lease = json!({"attempt": {"instance": 1, "number": number}, "epoch": "1"});
        let mut fact = json!({"instance": 1, "lease": lease});
        fact.as_object_mut()
            .into_iter()
            .for_each(|fact| fact.extend(more.as_object().cloned().unwrap_or_default()));
        json!({"seq": 1, "at": AT - before, "epoch": 1, "text": "", "fact": { kind: fact }})
    };
    let incarnation = json!({"lineage": "1", "number": 1});
    let holder = json!({"worker": "w1", "incarnation": incarnation, "host": "1", "boot": "1"});
    let none = serde_json::Value::Null;
    let end = json!({"end": {"real": {"exited": 3}}, "verdict": "requeued", "stats": null, "next_attempt": null});
    let events = json!([
        at(60_000, "instance-retried", 0, none.clone()),
        at(50_000, "lease-granted", 1, json!({ "holder": holder })),
        at(46_000, "attempt-confirmed", 1, none.clone()),
        at(30_000, "attempt-ended", 1, end),
        at(22_000, "lease-granted", 2, json!({ "holder": holder })),
        at(20_000, "attempt-confirmed", 2, none),
    ]);
    baton_model::json::from_value(&events).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_attempts_is_valid() {
        let attempts = Attempts::new(&timeline(), UniversalState::Running, 2, AT);
        let states: Vec<_> = attempts.rows.iter().map(|row| row.state).collect();
        assert_eq!(states, ["RUNNING", "FAILED"]);
    }

    #[test]
    fn every_colour_of_the_style_sheet_has_a_swatch() {
        let sheet = include_str!("../../assets/app.css");
        let root = sheet.split_once(":root {").expect("tokens").1;
        let root = root.split_once('}').expect("closed").0;
        let mut colours: Vec<&str> = root
            .split(';')
            .filter_map(|token| token.trim().strip_prefix("--")?.split_once(": #"))
            .map(|(name, _)| name)
            .collect();
        let mut shown = COLOURS.to_vec();
        colours.sort_unstable();
        shown.sort_unstable();
        assert_eq!(shown, colours);
        for colour in COLOURS {
            let rule = format!(".swatch.c-{colour} {{ background: var(--{colour}); }}");
            assert!(sheet.contains(&rule), "{rule}");
        }
    }
}
