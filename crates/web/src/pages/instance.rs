//! One instance: where it is, why, what it did and what it printed.

use askama::Template;
use baton_model::api::{Alarm, AttemptProcesses, Event, Explanation, Instance, List, Process};
use baton_model::state::UniversalState;
use serde_json::Value;

use super::attention::{self, AttentionRow};
use super::{Offer, actions};
use crate::ansi;
use crate::attempts::Attempts;
use crate::chart;
use crate::frame::{Action, Frame, Mood, Refresh};
use crate::json;
use crate::markup::Markup;
use crate::progress::{self, ProgressRow};
use crate::text::{bytes, duration, encoded, shell};
use crate::time::{ExactStamp, Stamp};

/// Events of the timeline on the page: those of fifty attempts, and some more.
const EVENTS_MAX: usize = 200;

/// The page of an instance.
#[derive(Template)]
#[template(path = "instance.html")]
pub struct InstancePage {
    pub frame: Frame,
    pub id: String,
    pub name: String,
    pub state: &'static str,
    /// The states that it passes through, and whether it is there.
    pub steps: Vec<(&'static str, bool)>,
    /// How far its attempt has come, in its own words.
    pub progress: Vec<ProgressRow>,
    pub reason: Option<String>,
    pub alarms: Vec<AttentionRow>,
    /// Names and commands of its processes; the name of a single one is empty.
    pub commands: Vec<(String, Markup)>,
    /// The last lines of standard error, if it has failed.
    pub stderr: Markup,
    /// Label and value.
    pub facts: Vec<(&'static str, String)>,
    /// Names and values; a viewer sees names alone.
    pub params: Vec<(String, String)>,
    /// Label, name and link.
    pub links: Vec<(&'static str, String, String)>,
    pub times: Vec<(&'static str, Stamp)>,
    pub definition: Markup,
    pub actions: Vec<Action>,
    pub attempts: Attempts,
    /// The attempt of the output and the processes, if there are several.
    pub selected: Option<u32>,
    pub timeline: Vec<TimelineRow>,
    /// Number of earlier events that are left out.
    pub earlier: usize,
    pub processes: Vec<ProcessRow>,
    /// Why processes are not shown.
    pub no_processes: Option<String>,
    pub logs: Vec<LogView>,
}

/// An event of the timeline.
#[derive(Debug)]
pub struct TimelineRow {
    pub at: ExactStamp,
    /// The time since the event before; empty for the first one.
    pub later: String,
    pub text: String,
}

/// A process of the attempt.
#[derive(Debug)]
pub struct ProcessRow {
    pub name: String,
    /// Its page, if it has one.
    pub href: Option<String>,
    /// What it does or waits for, beside its state.
    pub note: String,
    pub state: &'static str,
    pub pid: String,
    pub runs: u64,
    pub failures: u64,
    pub last_end: String,
    pub cpu: Markup,
    pub memory: Markup,
}

/// The end of an output.
#[derive(Debug)]
pub struct LogView {
    /// `stdout` or `stderr`.
    pub stream: &'static str,
    pub html: Markup,
    pub size: String,
    /// Address of the whole, and the name of the file that it is saved as.
    pub href: String,
    pub file: String,
    /// Bytes at the beginning that are left out.
    pub begin: u64,
    /// Why it is not shown.
    pub missing: Option<String>,
}

impl LogView {
    /// The last part of an output of this size, which is whole at `href`.
    #[must_use]
    pub fn new(stream: &'static str, output: &[u8], size: u64, of: &str, href: String) -> Self {
        Self {
            href,
            file: format!("{of}.{stream}.txt"),
            stream,
            html: ansi::render(output),
            size: bytes(size),
            begin: size.saturating_sub(output.len() as u64),
            missing: None,
        }
    }

    /// An output that cannot be shown.
    #[must_use]
    pub fn missing(stream: &'static str, reason: String) -> Self {
        Self {
            stream,
            html: Markup::default(),
            size: String::new(),
            href: String::new(),
            file: String::new(),
            begin: 0,
            missing: Some(reason),
        }
    }
}

/// Answers of the API about an instance.
pub struct Answers {
    pub instance: Instance,
    pub explanation: Option<Explanation>,
    /// Those of its owner.
    pub alarms: Option<List<Alarm>>,
    /// All events, the oldest first.
    pub timeline: Vec<Event>,
    /// The attempt that the viewer has selected; otherwise it is the last one.
    pub selected: Option<u32>,
    pub processes: Result<AttemptProcesses, String>,
    pub logs: Vec<LogView>,
}

impl InstancePage {
    #[must_use]
    pub fn new(mut frame: Frame, answers: Answers) -> Self {
        let Answers {
            instance,
            explanation,
            alarms,
            timeline,
            selected,
            processes,
            logs,
        } = answers;
        let state = instance.state;
        frame.mood = mood(state);
        // Output, and the reason why it waits, change without an entry in the history.
        frame.refresh = if state.is_terminal() {
            Refresh::Changes
        } else {
            Refresh::Often
        };
        let (processes, no_processes) = match processes {
            Ok(found) => (found.processes.iter().map(ProcessRow::new).collect(), None),
            Err(reason) => (Vec::new(), Some(reason)),
        };
        let definition = definition(&timeline);
        let earlier = timeline.len().saturating_sub(EVENTS_MAX);
        let selected = selected.unwrap_or(instance.attempts);
        Self {
            attempts: Attempts::new(&timeline, state, selected, frame.now),
            selected: (instance.attempts > 1).then_some(selected),
            earlier,
            id: instance.id.clone(),
            name: instance.name.clone(),
            state: state.word(),
            steps: steps(state),
            progress: progress::of_instance(&instance),
            alarms: attention::about(alarms, &instance.id),
            reason: explanation.map(|it| it.text),
            commands: commands(&instance),
            stderr: failure_output(&instance),
            facts: facts(&instance, &timeline),
            params: params(&instance),
            links: links(&instance),
            times: times(&instance),
            definition,
            actions: actions(&instance.links, OFFERED),
            timeline: timeline_rows(&timeline, earlier),
            processes,
            no_processes,
            logs,
            frame,
        }
    }
}

const OFFERED: &[Offer] = &[
    ("retry", |target| Action::new("Retry", target)),
    ("kill", |target| {
        Action::new("Kill the attempt", target).ask(
            "Kill the attempt that runs? It counts as a failure, and retries follow.".to_owned(),
        )
    }),
    ("cancel", |target| {
        Action::new("Cancel", target)
            .ask("Cancel the instance? What runs is killed, and nothing is tried again.".to_owned())
    }),
];

/// The colour of the icon for a state.
pub(crate) fn mood(state: UniversalState) -> Mood {
    match state {
        UniversalState::Failed => Mood::Failed,
        state if state.is_terminal() => Mood::Idle,
        _ => Mood::Busy,
    }
}

/// The way of an instance through its states, with the current one marked.
fn steps(state: UniversalState) -> Vec<(&'static str, bool)> {
    let end = if state.is_terminal() {
        state
    } else {
        UniversalState::Done
    };
    let way = [
        UniversalState::Queued,
        UniversalState::Launched,
        UniversalState::Running,
        end,
    ];
    let mut steps: Vec<_> = way.iter().map(|it| (it.word(), *it == state)).collect();
    if !way.contains(&state) {
        steps.insert(0, (state.word(), true));
    }
    steps
}

/// The events after the first ones, each with its distance from the one before.
fn timeline_rows(timeline: &[Event], earlier: usize) -> Vec<TimelineRow> {
    let mut before = None;
    let rows = timeline.iter().map(|event| {
        let later = before.map_or_else(String::new, |at| later(event.at.saturating_sub(at)));
        before = Some(event.at);
        TimelineRow {
            at: ExactStamp(Stamp(event.at)),
            later,
            text: event.text.clone(),
        }
    });
    rows.skip(earlier).collect()
}

/// A distance of time: to the millisecond below a minute, where that matters.
fn later(ms: u64) -> String {
    let seconds = ms as f64 / 1_000.0;
    if ms < 60_000 {
        format!("+{seconds:.3} s")
    } else {
        format!("+{}", duration(seconds))
    }
}

/// What it runs, with words of a command line as a shell reads them.
fn commands(it: &Instance) -> Vec<(String, Markup)> {
    let processes = it.details.as_ref().map(|details| &details.processes);
    let processes = processes.map(Vec::as_slice).unwrap_or_default();
    let commands = processes.iter().map(|process| {
        let words = process.command.iter();
        let words = words.map(|word| {
            if process.shell {
                word.clone()
            } else {
                shell(word)
            }
        });
        let name = if processes.len() > 1 {
            process.name.clone()
        } else {
            String::new()
        };
        let command = words.collect::<Vec<_>>().join(" ");
        (name, ansi::render(command.as_bytes()))
    });
    commands.collect()
}

/// What stands beside the verdict of a failure.
fn failure_output(it: &Instance) -> Markup {
    let tail = it.stderr_tail.as_deref();
    let tail = tail.filter(|_| it.state == UniversalState::Failed);
    tail.map(|tail| ansi::render(tail.as_bytes()))
        .unwrap_or_default()
}

fn facts(it: &Instance, timeline: &[Event]) -> Vec<(&'static str, String)> {
    let mut facts = vec![("Owner", it.owner.clone())];
    let mut add = |label, value: Option<String>| facts.extend(value.map(|value| (label, value)));
    let origin = it.details.as_ref().map(|details| &details.origin);
    let by = origin.and_then(|origin| origin.submitted_by.as_ref());
    add("Submitted by", by.map(|it| it.text.clone()));
    add(
        "Directory",
        it.details.as_ref().and_then(|it| it.cwd.clone()),
    );
    let secrets = it.details.iter().flat_map(|it| &it.secrets);
    let secrets: Vec<String> = secrets.map(ToString::to_string).collect();
    add("Secrets", (!secrets.is_empty()).then(|| secrets.join(", ")));
    add("User", it.details.as_ref().and_then(|it| it.user.clone()));
    add("Array index", it.array_index.map(|index| index.to_string()));
    let nodes = it.details.as_ref().map(|details| details.nodes);
    let nodes = nodes.filter(|nodes| nodes.is_gang());
    add("Nodes", nodes.map(|nodes| nodes.get().to_string()));
    add("Attempts", Some(it.attempts_text(timeline)));
    add("End", it.end_text.clone());
    add("Elapsed", it.elapsed_seconds.map(duration));
    add("CPU time", it.cpu_seconds.map(duration));
    add("Peak memory", it.memory_peak_bytes.map(bytes));
    facts
}

fn links(it: &Instance) -> Vec<(&'static str, String, String)> {
    let mut links = Vec::new();
    if let (Some(run), Some(href)) = (&it.run, it.links.get("run")) {
        links.push(("Run", run.clone(), href.clone()));
    }
    if let Some(href) = it.links.get("task") {
        let entry = format!("{}/{}", it.owner, it.name);
        links.push(("Library", entry, href.clone()));
    }
    let origin = it.details.as_ref().map(|details| &details.origin);
    if let Some(backfill) = origin.and_then(|origin| origin.backfill.clone()) {
        let href = format!("/backfills/{}", encoded(&backfill));
        links.push(("Backfill", backfill, href));
    }
    if let Some(worker) = &it.worker {
        links.push(worker_link("Worker", worker));
    }
    let members = it.details.iter().flat_map(|details| &details.members);
    let others = members.filter(|member| it.worker.as_ref() != Some(*member));
    links.extend(others.map(|member| worker_link("Member", member)));
    links
}

fn params(it: &Instance) -> Vec<(String, String)> {
    let details = it.details.as_ref();
    let params = details.map(|details| details.params.clone());
    params.unwrap_or_default().into_iter().collect()
}

fn worker_link(label: &'static str, worker: &str) -> (&'static str, String, String) {
    let href = format!("/workers/{}", encoded(worker));
    (label, worker.to_owned(), href)
}

fn times(it: &Instance) -> Vec<(&'static str, Stamp)> {
    let times = [
        ("Due", it.nominal_at),
        ("Submitted", Some(it.submitted_at)),
        ("Started", it.started_at),
        ("Changed", Some(it.changed_at)),
    ];
    let known = times.into_iter();
    known
        .filter_map(|(label, at)| Some((label, Stamp(at?))))
        .collect()
}

/// What was submitted, from the first entry of the timeline.
fn definition(timeline: &[Event]) -> Markup {
    let first = timeline.first();
    let fact = first.and_then(|event| serde_json::to_value(&event.fact).ok());
    let spec = fact.as_ref().and_then(|fact| find(fact, "spec"));
    spec.map(json::render).unwrap_or_default()
}

fn find<'a>(value: &'a Value, field: &str) -> Option<&'a Value> {
    let fields = value.as_object()?;
    fields
        .get(field)
        .or_else(|| fields.values().find_map(|value| find(value, field)))
}

impl ProcessRow {
    #[must_use]
    pub fn new(process: &Process) -> Self {
        let samples = &process.usage;
        let cpu: Vec<(u64, f64)> = samples
            .windows(2)
            .filter_map(|pair| {
                let [before, after] = pair else { return None };
                let seconds = after.at.checked_sub(before.at).filter(|ms| *ms > 0)? as f64 / 1e3;
                let used = (after.cpu_seconds - before.cpu_seconds).max(0.0);
                Some((after.at, used / seconds))
            })
            .collect();
        let memory: Vec<(u64, f64)> = samples
            .iter()
            .map(|sample| (sample.at, sample.memory_bytes as f64))
            .collect();
        let most = |points: &[(u64, f64)]| points.iter().map(|it| it.1).fold(0.0, f64::max);
        let (cores, peak) = (
            format!("{:.2} cores", most(&cpu)),
            bytes(most(&memory) as u64),
        );
        Self {
            name: process.name.clone(),
            href: None,
            note: String::new(),
            state: process.state.word(),
            pid: process.pid.map(|pid| pid.to_string()).unwrap_or_default(),
            runs: process.runs,
            failures: process.failures,
            last_end: process.last_end_text.clone().unwrap_or_default(),
            cpu: chart::curve("CPU", &cpu, &cores),
            memory: chart::curve("Memory", &memory, &peak),
        }
    }
}
