//! One entry of the library: definition, schedule, due times, ticks, revisions, and a form that
//! launches it.

use askama::Template;
use baton_model::api::{DueTimes, Instance, List, Run, RunTask, Task, TaskUsage, Tick};
use serde_json::Value;

use super::instances::InstanceRow;
use super::launch::{Control, LaunchForm, Refusal};
use super::library::word;
use super::runs::RunRow;
use super::suggestion::SizingBlock;
use super::{Offer, actions};
use crate::diff;
use crate::frame::{Action, Frame};
use crate::graph::TaskState;
use crate::json;
use crate::markup::Markup;
use crate::time::Stamp;

/// The page of an entry.
#[derive(Template)]
#[template(path = "entry.html")]
pub struct EntryPage {
    pub frame: Frame,
    pub owner: String,
    pub name: String,
    pub kind: String,
    pub revision: u32,
    pub defined: Stamp,
    pub file: Option<String>,
    pub schedule: Option<String>,
    /// Since when it is paused, and why.
    pub paused: Option<(Stamp, String)>,
    pub due: Vec<Stamp>,
    pub zone: String,
    pub actions: Vec<Action>,
    /// The form for a launch by hand.
    pub launch: Option<LaunchForm>,
    pub definition: Markup,
    pub ticks: Vec<TickRow>,
    pub instances: Vec<InstanceRow>,
    pub runs: Vec<RunRow>,
    pub revisions: Vec<RevisionRow>,
    /// Changes against the revision before.
    pub changes: Markup,
    /// The last runs by task, oldest first.
    pub grid: Grid,
    /// The target of a backfill.
    pub backfill: Option<String>,
    /// What its tasks have requested and used.
    pub sizing: Option<SizingBlock>,
}

/// A revision of the entry.
#[derive(Debug)]
pub struct RevisionRow {
    pub number: u32,
    pub defined: Stamp,
    pub is_current: bool,
    pub is_shown: bool,
}

/// The last runs of a workflow: a row for each task, a column for each run.
#[derive(Debug, Default)]
pub struct Grid {
    /// Id and state of each run.
    pub runs: Vec<(String, &'static str)>,
    /// Name of the task, and its state in each run, if it has it.
    pub rows: Vec<(String, Vec<Option<&'static str>>)>,
}

impl Grid {
    /// The grid of runs with their tasks, newest first.
    #[must_use]
    pub fn new(latest: &[(Run, Vec<RunTask>)]) -> Self {
        let mut names: Vec<&str> = Vec::new();
        for (_, tasks) in latest {
            let new = tasks.iter().map(|task| task.name.as_str());
            let new: Vec<&str> = new.filter(|name| !names.contains(name)).collect();
            names.extend(new);
        }
        names.truncate(GRID_TASKS_MAX);
        let columns = || latest.iter().rev();
        let rows = names.into_iter().map(|name| {
            let states = columns().map(|(run, tasks)| {
                let task = tasks.iter().find(|task| task.name == name)?;
                Some(TaskState::of(run, task).badge())
            });
            (name.to_owned(), states.collect())
        });
        Self {
            rows: rows.collect(),
            runs: columns()
                .map(|(run, _)| (run.id.clone(), run.state.word()))
                .collect(),
        }
    }
}

/// Tasks of a grid.
const GRID_TASKS_MAX: usize = 100;

/// The outcome of a due time.
#[derive(Debug)]
pub struct TickRow {
    pub at: Stamp,
    pub verdict: String,
    pub text: String,
    pub href: Option<String>,
    pub id: String,
}

/// Answers of the API about an entry.
pub struct Answers {
    pub entry: Task<Value>,
    pub due: Option<DueTimes>,
    pub ticks: List<Tick>,
    pub revisions: List<Task<Value>>,
    pub instances: Option<List<Instance>>,
    pub runs: Option<List<Run>>,
    /// The definition of the revision before.
    pub before: Option<Value>,
    /// Runs of the grid with their tasks, newest first.
    pub latest: Vec<(Run, Vec<RunTask>)>,
    /// What its tasks have requested and used.
    pub used: Option<List<TaskUsage>>,
    /// A launch that was refused.
    pub refusal: Option<Refusal>,
}

impl EntryPage {
    #[must_use]
    pub fn new(frame: Frame, answers: Answers) -> Self {
        let Answers {
            entry,
            due,
            ticks,
            revisions,
            instances,
            runs,
            before,
            latest,
            used,
            refusal,
        } = answers;
        let now = frame.now;
        let definition = entry.definition.unwrap_or(Value::Null);
        let due = due.unwrap_or(DueTimes {
            at: Vec::new(),
            zone: None,
            links: baton_model::api::Links::new(),
        });
        let instances = instances.as_ref().map(|list| &*list.items);
        let runs = runs.as_ref().map(|list| &*list.items);
        Self {
            frame,
            kind: word(&entry.kind),
            revision: entry.revision,
            defined: Stamp(entry.defined_at),
            file: entry.file,
            schedule: entry.schedule_text,
            paused: entry
                .paused_at
                .map(|at| (Stamp(at), entry.pause_reason.unwrap_or_default())),
            due: due.at.into_iter().map(Stamp).collect(),
            zone: due.zone.unwrap_or_default(),
            actions: actions(&entry.links, OFFERED),
            launch: entry
                .links
                .get("run")
                .map(|target| LaunchForm::new(target.clone(), &definition, refusal)),
            definition: json::render(&definition),
            ticks: ticks.items.iter().map(TickRow::new).collect(),
            instances: instances
                .unwrap_or_default()
                .iter()
                .map(InstanceRow::new)
                .collect(),
            runs: runs
                .unwrap_or_default()
                .iter()
                .map(|run| RunRow::new(run, now))
                .collect(),
            revisions: revisions
                .items
                .iter()
                .map(|it| RevisionRow {
                    number: it.revision,
                    defined: Stamp(it.defined_at),
                    is_current: it.current,
                    is_shown: it.revision == entry.revision,
                })
                .collect(),
            changes: before
                .map_or_else(Markup::default, |before| diff::render(&before, &definition)),
            grid: Grid::new(&latest),
            backfill: entry.links.get("backfill").cloned(),
            sizing: used.as_ref().and_then(SizingBlock::new),
            owner: entry.owner,
            name: entry.name,
        }
    }
}

const OFFERED: &[Offer] = &[
    ("pause", |target| {
        Action::new("Pause", target)
            .with("{\"paused\":true}")
            .ask("Pause the entry? Its due times are skipped until the pause ends.".to_owned())
    }),
    ("unpause", |target| {
        Action::new("End the pause", target).with("{\"paused\":false}")
    }),
];

impl TickRow {
    fn new(tick: &Tick) -> Self {
        let instance = tick
            .instance
            .as_ref()
            .map(|id| (format!("/instances/{id}"), id));
        let run = tick.run.as_ref().map(|id| (format!("/runs/{id}"), id));
        let launched = instance.or(run);
        Self {
            at: Stamp(tick.nominal_at),
            verdict: tick.verdict.clone(),
            text: tick.text.clone(),
            id: launched
                .as_ref()
                .map(|(_, id)| (*id).clone())
                .unwrap_or_default(),
            href: launched.map(|(href, _)| href),
        }
    }
}
