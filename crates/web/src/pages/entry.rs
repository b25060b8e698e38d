//! One entry of the library: how its last executions went, due times and their outcomes, definition,
//! revisions, and a form that launches it.

use askama::Template;
use baton_model::api::{DueTimes, Instance, List, Run, RunTask, Task, TaskUsage, Tick};
use baton_model::library::{EntryKind, Trigger};
use baton_model::state::UniversalState;
use serde_json::Value;

use super::grid::{Grid, Outcome};
use super::instances::InstanceRow;
use super::launch::{Control, LaunchForm, Refusal};
use super::library::word;
use super::runs::{RunRow, without_progress};
use super::suggestion::SizingBlock;
use super::{Offer, actions};
use crate::frame::{Action, Frame};
use crate::markup::Markup;
use crate::text::{encoded, span};
use crate::time::Stamp;
use crate::{diff, yaml};

/// Executions in the table below the grid.
const TABLE_ROWS: usize = 10;

/// Outcomes of due times that are listed: of those that were not launched on time.
const EXCEPTIONS_MAX: usize = 12;

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
    /// Since when it is paused, and why.
    pub paused: Option<(Stamp, String)>,
    /// Fields of its trigger, in words.
    pub trigger: Vec<(&'static str, String)>,
    pub due: Vec<DueRow>,
    pub actions: Vec<Action>,
    /// The address of the form that changes it.
    pub edit: Option<String>,
    /// The form for a launch by hand, and whether it is open.
    pub launch: Option<LaunchForm>,
    pub is_refused: bool,
    pub definition: Markup,
    /// The outcomes of the latest due times, newest first.
    pub ticks: Vec<TickRow>,
    /// Those that were not launched on time.
    pub exceptions: Vec<TickRow>,
    pub instances: Vec<InstanceRow>,
    pub runs: Vec<RunRow>,
    /// The class that hides their progress, if none has any.
    pub hidden: String,
    pub revisions: Vec<RevisionRow>,
    /// Changes against another revision, and its number.
    pub changes: Markup,
    pub against: Option<u32>,
    /// The last executions, oldest first.
    pub grid: Grid,
    pub outcome: Option<Outcome>,
    /// The last execution, if it has failed.
    pub failure: Option<Failure>,
    /// The target of a backfill.
    pub backfill: Option<String>,
    /// What its tasks have requested and used.
    pub sizing: Option<SizingBlock>,
}

/// A due time: as its schedule's zone has it, and as a time.
#[derive(Debug)]
pub struct DueRow {
    pub clock: String,
    pub at: Stamp,
}

/// The last execution, which has failed.
#[derive(Debug)]
pub struct Failure {
    pub id: String,
    pub href: String,
    /// How it has ended, or which of its tasks have failed.
    pub text: String,
    /// The last lines of its standard error.
    pub stderr: String,
}

/// A revision of the entry.
#[derive(Debug)]
pub struct RevisionRow {
    pub number: u32,
    pub defined: Stamp,
    pub is_current: bool,
    pub is_shown: bool,
}

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
    /// The same times as the zone of the schedule has them.
    pub clock: Vec<String>,
    pub ticks: List<Tick>,
    pub revisions: List<Task<Value>>,
    /// Those that run and those that have ended, in the order of their submission.
    pub instances: Vec<Instance>,
    /// Another revision, and its definition.
    pub against: Option<(u32, Value)>,
    /// The latest runs with their tasks, newest first.
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
            clock,
            ticks,
            revisions,
            instances,
            against,
            latest,
            used,
            refusal,
        } = answers;
        let now = frame.now;
        let definition = entry.definition.unwrap_or(Value::Null);
        let due = due.map(|due| due.at).unwrap_or_default();
        let due = due.into_iter().zip(clock);
        let newest: Vec<&Instance> = instances.iter().rev().collect();
        let grid = match entry.kind {
            EntryKind::Workflow => Grid::of_runs(&latest, now),
            EntryKind::Task => Grid::of_instances(&instances.iter().collect::<Vec<_>>()),
        };
        let runs = latest.iter().take(TABLE_ROWS);
        let runs: Vec<RunRow> = runs.map(|(run, _)| RunRow::new(run, now)).collect();
        let exceptions = ticks.items.iter();
        let exceptions = exceptions.filter(|tick| tick.verdict != "launched");
        Self {
            frame,
            kind: word(&entry.kind),
            revision: entry.revision,
            defined: Stamp(entry.defined_at),
            file: entry.file,
            paused: entry
                .paused_at
                .map(|at| (Stamp(at), entry.pause_reason.unwrap_or_default())),
            trigger: trigger(&entry.trigger, entry.schedule_text),
            due: due
                .map(|(at, clock)| DueRow {
                    clock,
                    at: Stamp(at),
                })
                .collect(),
            actions: actions(&entry.links, OFFERED),
            edit: entry.links.get("replace").map(|_| {
                let entry = format!("{}/{}", entry.owner, entry.name);
                format!("/-/edit?entry={}", encoded(&entry))
            }),
            is_refused: refusal.is_some(),
            launch: entry
                .links
                .get("run")
                .map(|target| LaunchForm::new(target.clone(), &definition, refusal)),
            definition: yaml::highlight(&definition),
            exceptions: exceptions.take(EXCEPTIONS_MAX).map(TickRow::new).collect(),
            ticks: ticks.items.iter().map(TickRow::new).collect(),
            instances: newest
                .iter()
                .take(TABLE_ROWS)
                .map(|instance| InstanceRow::new(instance))
                .collect(),
            hidden: without_progress(&runs),
            runs,
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
            against: against.as_ref().map(|(revision, _)| *revision),
            changes: against.map_or_else(Markup::default, |(_, before)| {
                diff::render(&before, &definition)
            }),
            outcome: grid.outcome(),
            failure: Failure::of_run(&latest).or_else(|| Failure::of_instance(&newest)),
            grid,
            backfill: entry.links.get("backfill").cloned(),
            sizing: used.as_ref().and_then(SizingBlock::new),
            owner: entry.owner,
            name: entry.name,
        }
    }
}

impl Failure {
    /// That of the newest run that has ended.
    fn of_run(latest: &[(Run, Vec<RunTask>)]) -> Option<Self> {
        let (run, tasks) = latest.iter().find(|(run, _)| run.state.is_terminal())?;
        if run.state != UniversalState::Failed {
            return None;
        }
        let failed = tasks.iter().filter(|task| task.items.failed > 0);
        let failed: Vec<&str> = failed.map(|task| task.name.as_str()).collect();
        Some(Self {
            id: run.id.clone(),
            href: format!("/runs/{}", run.id),
            text: match failed[..] {
                [] => "failed".to_owned(),
                [only] => format!("failed in {only}"),
                [first, ref others @ ..] => format!("failed in {first} and {} more", others.len()),
            },
            stderr: String::new(),
        })
    }

    /// That of the newest instance that has ended.
    fn of_instance(newest: &[&Instance]) -> Option<Self> {
        let ended = newest.iter().find(|it| it.state.is_terminal())?;
        let row = InstanceRow::new(ended);
        (ended.state == UniversalState::Failed).then(|| Self {
            id: row.id,
            href: row.href,
            text: format!("failed: {}", row.end),
            stderr: ended.stderr_tail.clone().unwrap_or_default(),
        })
    }
}

/// The fields of a trigger that are set, in words.
fn trigger(trigger: &Trigger, schedule_text: Option<String>) -> Vec<(&'static str, String)> {
    let mut fields = Vec::new();
    fields.extend(schedule_text.map(|text| ("Schedule", text)));
    if let Some(schedule) = &trigger.schedule {
        fields.push(("Time zone", schedule.zone.clone()));
        fields.push(("Slack", span(schedule.slack)));
        fields.push(("Catch-up", word(&schedule.catch_up)));
        let jitter = Some(schedule.jitter).filter(|jitter| jitter.0 > 0);
        fields.extend(jitter.map(|jitter| ("Jitter", span(jitter))));
    }
    let overlap = word(&trigger.overlap);
    let most = trigger.max_instances;
    fields.extend(most.map(|most| ("At once", format!("{most}, then {overlap}"))));
    let rate = trigger.launch_rate.as_ref();
    fields.extend(rate.map(|it| ("Launch rate", format!("{} per {}", it.count, span(it.per)))));
    if !trigger.after.is_empty() {
        let after: Vec<String> = trigger.after.iter().map(ToString::to_string).collect();
        fields.push(("After", after.join(", ")));
    }
    fields
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
    ("remove", |target| {
        let question =
            "Remove the entry? Its instances and runs continue, and its revisions stay readable.";
        Action::new("Remove", target).ask(question.to_owned())
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
