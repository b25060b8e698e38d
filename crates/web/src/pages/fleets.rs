//! Fleets: what each requests and why no more, its jobs, and the ends of their logs.

use askama::Template;
use baton_model::api::{Fleet, FleetJob, FleetJobLog, FleetPage as Page, FleetState, List, Worker};
use baton_model::fleet::JobEnd;
use serde_json::Value;

use super::fleet::WorkerRow;
use super::{Offer, actions};
use crate::ansi;
use crate::frame::{Action, Frame};
use crate::markup::Markup;
use crate::text::{duration, encoded};
use crate::time::Stamp;

/// The list of fleets.
#[derive(Template)]
#[template(path = "fleets.html")]
pub struct FleetsPage {
    pub frame: Frame,
    /// Errors of the file of fleets: the file, and its errors.
    pub problems: Vec<(String, String)>,
    pub rows: Vec<FleetRow>,
}

/// A fleet.
#[derive(Debug)]
pub struct FleetRow {
    pub name: String,
    pub href: String,
    pub backend: String,
    pub state: &'static str,
    /// The class of its colour.
    pub class: &'static str,
    pub workers: u32,
    pub expected: u32,
    pub wanted: u32,
    pub max: u32,
    pub plan: String,
    pub alarms: Vec<String>,
}

impl FleetRow {
    #[must_use]
    pub fn new(fleet: &Fleet) -> Self {
        let state = fleet.state();
        Self {
            name: fleet.name.clone(),
            href: format!("/fleets/{}", encoded(&fleet.name)),
            backend: fleet.backend.clone(),
            state: state.word(),
            class: match state {
                FleetState::Well => "s-DONE",
                FleetState::Trouble => "s-FAILED",
                FleetState::Paused | FleetState::Ending => "s-HALTED",
            },
            workers: fleet.workers,
            expected: fleet.expected,
            wanted: fleet.wanted,
            max: fleet.max,
            plan: fleet.plan.clone(),
            alarms: fleet.alarms.clone(),
        }
    }

    /// The fleets with alarms, of those that are not paused.
    #[must_use]
    pub fn in_trouble(fleets: &[Fleet]) -> Vec<Self> {
        let bad = fleets.iter().filter(|it| it.state() == FleetState::Trouble);
        bad.map(Self::new).collect()
    }
}

impl FleetsPage {
    #[must_use]
    pub fn new(frame: Frame, page: Page) -> Self {
        let problems = page.problems.into_iter();
        Self {
            frame,
            problems: problems.map(|it| (it.file, it.text)).collect(),
            rows: page.items.iter().map(FleetRow::new).collect(),
        }
    }
}

/// The page of a fleet.
#[derive(Template)]
#[template(path = "fleet.html")]
pub struct FleetPage {
    pub frame: Frame,
    pub fleet: FleetRow,
    /// The file that defines it; empty if a client has.
    pub file: String,
    /// The time to its next trial; empty if it is well.
    pub next_trial: String,
    pub avoided: String,
    pub definition: Vec<(String, String)>,
    pub actions: Vec<Action>,
    pub workers: Vec<WorkerRow>,
    pub jobs: Vec<JobRow>,
    /// The job whose logs are shown.
    pub selected: Option<SelectedJob>,
}

/// A job.
#[derive(Debug)]
pub struct JobRow {
    pub id: String,
    /// The address of its log on this page.
    pub href: String,
    pub is_selected: bool,
    pub native: String,
    pub state: &'static str,
    pub class: &'static str,
    pub text: String,
    pub workers: u32,
    pub nodes: String,
    pub requested: Stamp,
    pub started: Option<Stamp>,
    pub ended: Option<Stamp>,
    /// How long it has run; empty if it has not.
    pub ran: String,
}

/// A job with its logs.
#[derive(Debug)]
pub struct SelectedJob {
    pub id: String,
    pub name: String,
    /// Why there are no logs; empty if there are some.
    pub missing: String,
    pub logs: Vec<LogEnd>,
}

/// The end of a log.
#[derive(Debug)]
pub struct LogEnd {
    pub file: String,
    pub is_cut: bool,
    pub html: Markup,
}

/// Answers of the API for the page of a fleet. What the viewer may not read is missing.
pub struct Answers {
    pub fleet: Fleet,
    pub jobs: List<FleetJob>,
    pub workers: Option<List<Worker>>,
    /// The job whose logs are shown, with its logs.
    pub selected: Option<(String, Option<List<FleetJobLog>>)>,
}

impl FleetPage {
    #[must_use]
    pub fn new(frame: Frame, answers: Answers) -> Self {
        let Answers {
            fleet,
            jobs,
            workers,
            selected,
        } = answers;
        let of_fleet = |it: &&Worker| it.labels.get("fleet") == Some(&fleet.name);
        let workers = workers.map(|list| list.items).unwrap_or_default();
        let row = FleetRow::new(&fleet);
        let shown = selected.as_ref().map(|(id, _)| id.as_str());
        let rows = jobs.items.iter().map(|stored| {
            // Of an open job the leader knows more than the store.
            let open = fleet.jobs.iter().find(|it| it.id == stored.id);
            let job = open.unwrap_or(stored);
            JobRow::new(job, &row.href, shown, frame.now)
        });
        let rows: Vec<JobRow> = rows.collect();
        let selected = selected.map(|(id, logs)| {
            let job = jobs.items.iter().find(|it| it.id == id);
            SelectedJob::new(id, job, logs)
        });
        let mut actions = actions(&fleet.links, OFFERED);
        // One of the two makes sense, and only an administrator may remove it.
        actions.retain(|action| match action.label.as_str() {
            "Pause" => fleet.removed.is_none() && !fleet.paused,
            "Resume" => fleet.removed.is_none() && fleet.paused,
            _ => frame.viewer.may_administer && fleet.removed.is_none() && fleet.file.is_none(),
        });
        Self {
            file: fleet.file.clone().unwrap_or_default(),
            next_trial: fleet
                .next_trial_seconds
                .map_or_else(String::new, |it| duration(it as f64)),
            avoided: fleet.avoided_nodes.join(", "),
            definition: definition(&fleet.definition),
            actions,
            workers: workers
                .iter()
                .filter(of_fleet)
                .map(WorkerRow::new)
                .collect(),
            jobs: rows,
            selected,
            fleet: row,
            frame,
        }
    }
}

/// The job whose logs a page shows if none is asked for: the last that has failed, of a fleet in trouble.
#[must_use]
pub fn suspect<'a>(fleet: &Fleet, jobs: &'a [FleetJob]) -> Option<&'a str> {
    if fleet.alarms.is_empty() {
        return None;
    }
    let failed = |it: &&FleetJob| matches!(it.end, Some(JobEnd::Failed | JobEnd::Ended));
    jobs.iter().find(failed).map(|it| it.id.as_str())
}

impl JobRow {
    fn new(job: &FleetJob, fleet: &str, selected: Option<&str>, now: u64) -> Self {
        let (state, class) = match (job.end, job.state) {
            (Some(JobEnd::Failed | JobEnd::Refused), _) => ("failed", "s-FAILED"),
            (Some(JobEnd::Preempted), _) => ("preempted", "s-HALTED"),
            (Some(JobEnd::NeverSeen | JobEnd::Vanished), _) => ("gone", "s-HALTED"),
            (Some(JobEnd::Ended), _) => ("ended", "s-DONE"),
            (None, _) if job.cancel.is_some() => ("ending", "s-HALTED"),
            (None, Some(state)) if job.started_at.is_some() => (state.word(), "s-RUNNING"),
            (None, Some(state)) => (state.word(), "s-QUEUED"),
            (None, None) => ("requested", "s-QUEUED"),
        };
        let until = job.ended_at.unwrap_or(now);
        let ran = job
            .started_at
            .map(|began| duration(until.saturating_sub(began) as f64 / 1e3));
        Self {
            href: format!("{fleet}?job={}#h-log", encoded(&job.id)),
            is_selected: selected == Some(&job.id),
            id: job.id.clone(),
            native: job.native.clone().unwrap_or_default(),
            state,
            class,
            text: job.text.clone(),
            workers: job.workers,
            nodes: job.nodes.join(", "),
            requested: Stamp(job.requested_at),
            started: job.started_at.map(Stamp),
            ended: job.ended_at.map(Stamp),
            ran: ran.unwrap_or_default(),
        }
    }
}

impl SelectedJob {
    fn new(id: String, job: Option<&FleetJob>, logs: Option<List<FleetJobLog>>) -> Self {
        let missing = match &logs {
            None => "You may not read it, or it cannot be read.",
            Some(list) if list.items.is_empty() => {
                "The scheduler's host has none: the job has not started, its log was removed, or it is on the job's own host."
            }
            Some(_) => "",
        };
        let logs = logs.map(|list| list.items).unwrap_or_default();
        let logs = logs.into_iter().map(|log| LogEnd {
            file: log.file,
            is_cut: log.begin > 0,
            html: ansi::render(log.text.as_bytes()),
        });
        Self {
            name: job.map(|it| it.name.clone()).unwrap_or_default(),
            id,
            missing: missing.to_owned(),
            logs: logs.collect(),
        }
    }
}

/// The fields of a definition, as a file has them.
fn definition(definition: &Value) -> Vec<(String, String)> {
    let fields = definition.as_object().into_iter().flatten();
    let fields = fields.map(|(name, value)| (name.clone(), text(value)));
    fields.collect()
}

/// A value as people write it.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.trim_end().to_owned(),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(" "),
        Value::Object(map) => {
            let pairs = map
                .iter()
                .map(|(name, value)| format!("{name}={}", text(value)));
            pairs.collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

const OFFERED: &[Offer] = &[
    ("pause", |target| {
        Action::new("Pause", target)
            .with("{\"paused\":true}")
            .ask("Pause the fleet? It requests no more jobs; those that it has go on.".to_owned())
    }),
    ("pause", |target| {
        Action::new("Resume", target).with("{\"paused\":false}")
    }),
    ("remove", |target| {
        Action::new("Drain and remove", &format!("{target}?drain=true")).ask(
            "Remove the fleet? Its queued jobs are cancelled; running ones end when their workers have no more work."
                .to_owned(),
        )
    }),
    ("remove", |target| {
        Action::new("Remove", target).ask(
            "Remove the fleet, and cancel all its jobs? What runs there is killed, and runs elsewhere.".to_owned(),
        )
    }),
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_definition_has_a_row_for_each_field() {
        let fields = json!({
            "args": ["-v", "-A"], "backend": "ssh", "cpus": 0.5, "labels": { "a": "b", "c": "d" },
            "before": "module load x\n",
        });
        let rows = definition(&fields);
        let row = |name: &str| rows.iter().find(|it| it.0 == name).map(|it| it.1.as_str());
        assert_eq!(row("args"), Some("-v -A"));
        assert_eq!(row("cpus"), Some("0.5"));
        assert_eq!(row("labels"), Some("a=b, c=d"));
        assert_eq!(row("before"), Some("module load x"));
    }
}
