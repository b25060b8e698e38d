//! The page of each address. Files are read on threads of their own, so that a slow disk stops
//! no other page.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use baton_core::plan::ProcessView;
use baton_model::api::{Problem, Process};
use baton_model::limits::SAMPLES_PER_PROCESS_MAX;
use baton_model::message::LogStream;
use baton_model::task::{CommandLine, RunNo};
use baton_model::time::Wall;
use baton_runner::logs::STREAMS;
use baton_runner::root::{Phase, TaskView};
use baton_runner::sys::{clock, users};
use baton_web::frame::{Frame, Mood, Refresh, Site, Viewer};
use baton_web::pages::Template;
use baton_web::pages::host::{
    HostPage, PHASES, ProcessPage, TaskAnswers, TaskPage, TaskRow, TaskSummary,
};
use baton_web::pages::instance::LogView;
use baton_web::pages::plain::{ErrorPage, KeysPage};
use baton_web::text::{encoded, shell};
use baton_web::{assets, headers};
use tokio::task::spawn_blocking;

use crate::Observer;
use crate::format::{Format, json};
use crate::messages;
use crate::status::{self, current_activity};
use crate::tasks::{Task, tail};

/// Tasks of one page of the list.
const ROWS: usize = 100;
/// The end of an output that a page shows.
const LOG_BYTES: usize = 64 << 10;
/// The latest events that a page shows.
const EVENTS: usize = 500;
/// The latest runs of a process that a page links.
const RUNS: usize = 50;

const NO_PROCESS: &str = "the task has no such process";

/// The parameters of an address.
type Parameters = BTreeMap<String, String>;

pub(crate) async fn list(
    State(observer): State<Arc<Observer>>,
    format: Format,
    Query(parameters): Query<Parameters>,
) -> Response {
    in_background(format, move || {
        let chosen = Chosen::new(&observer, &parameters);
        Ok(match format {
            Format::Page => html(StatusCode::OK, &chosen.page(&observer)),
            Format::Json => json(StatusCode::OK, &chosen.json()),
        })
    })
    .await
}

/// The part of the list that an address asks for.
struct Chosen {
    phase: Option<Phase>,
    pattern: String,
    /// Tasks that match, on all pages.
    total: usize,
    tasks: Vec<Task>,
    /// The address of the next part.
    next: Option<String>,
}

impl Chosen {
    fn new(observer: &Observer, parameters: &Parameters) -> Self {
        let of = |name: &str| parameters.get(name).map_or("", |value| value.trim());
        let phase = match of("phase") {
            "active" => Some(Phase::Active),
            "finished" => Some(Phase::Finished),
            _ => None,
        };
        let pattern = of("q");
        let skipped: usize = of("skip").parse().unwrap_or(0);
        let tasks = observer.host.list(phase, pattern);
        let total = tasks.len();
        let tasks: Vec<Task> = tasks.into_iter().skip(skipped).take(ROWS).collect();
        let shown = skipped.saturating_add(tasks.len());
        let next = (shown < total).then(|| {
            let phase = phase.map_or("", |phase| phase.into_str());
            format!("/?phase={phase}&q={}&skip={shown}", encoded(pattern))
        });
        Self {
            phase,
            pattern: pattern.to_owned(),
            total,
            tasks,
            next,
        }
    }

    fn page(self, observer: &Observer) -> HostPage {
        let frame = frame("Tasks", "/");
        let rows = self.tasks.iter();
        let rows = rows.map(|task| TaskRow::new(task.summary(&task.view()), frame.now));
        HostPage {
            host: users::hostname(),
            total: self.total,
            phases: PHASES,
            phase: self
                .phase
                .map_or_else(String::new, |phase| phase.into_str().to_owned()),
            is_filtered: self.phase.is_some() || !self.pattern.is_empty(),
            pattern: self.pattern,
            roots_text: observer.host.text(),
            rows: rows.collect(),
            next: self.next,
            frame,
        }
    }

    fn json(&self) -> serde_json::Value {
        let now = now();
        let tasks = self.tasks.iter().map(|task| {
            let view = task.view();
            let href = task.summary(&view).href();
            let status = task.status(view);
            serde_json::json!({ "href": href, "task": status::json::task(&status, now) })
        });
        serde_json::json!({
            "host": users::hostname(),
            "total": self.total,
            "tasks": tasks.collect::<Vec<_>>(),
            "next": self.next,
        })
    }
}

pub(crate) async fn task(
    State(observer): State<Arc<Observer>>,
    format: Format,
    Path((root, id)): Path<(String, String)>,
) -> Response {
    in_background(format, move || {
        let (task, view, summary) = load(&observer, &root, &id)?;
        if format == Format::Json {
            let status = task.status(Ok(view));
            return Ok(json(StatusCode::OK, &status::json::task(&status, now())));
        }
        let page = TaskPage::new(frame("", ""), answers(&task, &view, summary));
        Ok(html(StatusCode::OK, &page))
    })
    .await
}

fn answers(task: &Task, view: &TaskView, summary: TaskSummary) -> TaskAnswers {
    let history = &view.history;
    let header = &history.header;
    let samples = view.samples();
    let statuses = history.statuses(&samples, SAMPLES_PER_PROCESS_MAX);
    let at = history.now(now());
    let known = history.plan.processes(at);
    let notes = known.map(|process| current_activity(history, &process, at));
    let processes: Vec<(Process, String)> = statuses
        .processes
        .into_iter()
        .map(Process::from)
        .zip(notes)
        .collect();
    let logs = match &*processes {
        [(only, _)] => output(task, view, &summary, &only.name, None).logs,
        _ => Vec::new(),
    };
    let ports = header.spec.ports.iter();
    let ports: Vec<String> = ports.map(|(name, port)| format!("{name}:{port}")).collect();
    // Values of variables may be secrets; their names are not.
    let variables: Vec<&str> = header.env.iter().map(|(name, _)| &**name).collect();
    let runner = match (history.runner_starts().last(), view.driven) {
        (Some(start), true) => format!("pid {}", start.pid),
        (Some(start), false) => format!("none; the last was pid {}", start.pid),
        (None, _) => String::new(),
    };
    let events = history.events();
    let events: Vec<(u64, String)> = events
        .map(|event| (event.at.wall.0, messages::event(&history.plan, event)))
        .collect();
    let left_out = events.len().saturating_sub(EVENTS);
    TaskAnswers {
        name: header.spec.name.clone(),
        facts: vec![
            ("User", format!("{} ({})", header.user, header.uid)),
            ("Host", header.host.clone()),
            ("Root", summary.root.clone()),
            ("Sandbox", header.sandbox.clone()),
            ("Ports", ports.join(", ")),
            ("Variables", variables.join(", ")),
            ("Runner", runner),
            ("Version", header.version.clone()),
        ],
        processes,
        omitted: statuses.omitted,
        logs,
        events: events.into_iter().skip(left_out).collect(),
        left_out,
        definition: definition(view),
        summary,
    }
}

/// The definition, with the values of variables masked.
fn definition(view: &TaskView) -> serde_json::Value {
    let mut spec = view.history.header.spec.clone();
    for process in &mut spec.processes {
        for value in process.env.values_mut() {
            "***".clone_into(value);
        }
    }
    // Plain data always serializes.
    serde_json::to_value(spec).unwrap_or_default()
}

pub(crate) async fn process(
    State(observer): State<Arc<Observer>>,
    format: Format,
    Path((root, id, name)): Path<(String, String, String)>,
    Query(parameters): Query<Parameters>,
) -> Response {
    in_background(format, move || {
        let (task, view, summary) = load(&observer, &root, &id)?;
        if format == Format::Json {
            let found = status::json::process(&view, &name, now());
            let found = found.ok_or_else(|| NO_PROCESS.to_owned())?;
            return Ok(json(StatusCode::OK, &found));
        }
        let run = parameters.get("run").and_then(|run| run.parse().ok());
        match process_page(&task, &view, &summary, &name, run) {
            Some(page) => Ok(html(StatusCode::OK, &page)),
            None => Err(NO_PROCESS.to_owned()),
        }
    })
    .await
}

fn process_page(
    task: &Task,
    view: &TaskView,
    summary: &TaskSummary,
    name: &str,
    run: Option<u64>,
) -> Option<ProcessPage> {
    let history = &view.history;
    let at = history.now(now());
    let mut known = history.plan.processes(at);
    let found = known.find(|process| process.spec.name.0 == name)?;
    let statuses = history.statuses(&view.samples(), SAMPLES_PER_PROCESS_MAX);
    let mut statuses = statuses.processes.into_iter();
    let status = statuses.find(|status| status.name == name)?;
    let note = current_activity(history, &found, at);
    let output = output(task, view, summary, name, run);
    Some(ProcessPage::new(
        frame("", ""),
        summary,
        (Process::from(status), note),
        facts(&found),
        (output.runs, output.run),
        output.logs,
    ))
}

fn facts(process: &ProcessView<'_>) -> Vec<(&'static str, String)> {
    let (spec, progress) = (process.spec, process.progress);
    let command = match &spec.run {
        CommandLine::Shell(line) => line.clone(),
        CommandLine::Exec(words) => {
            let words: Vec<String> = words.iter().map(|word| shell(word)).collect();
            words.join(" ")
        }
    };
    let number = |count: u64| {
        if count == 0 {
            String::new()
        } else {
            count.to_string()
        }
    };
    let live = progress.live.as_ref();
    let pid = live.and_then(|live| Some(live.identity?.pid.to_string()));
    vec![
        ("Command", command),
        ("Directory", spec.cwd.clone().unwrap_or_default()),
        ("User", spec.user.clone().unwrap_or_default()),
        ("Pid", pid.unwrap_or_default()),
        ("Runs", progress.runs.to_string()),
        ("Failures", number(progress.failures)),
        ("Kills", number(progress.kills)),
        ("Losses", number(progress.losses)),
        (
            "Last end",
            progress
                .last
                .as_ref()
                .map(messages::last)
                .unwrap_or_default(),
        ),
    ]
}

/// The output of a process.
struct ProcessOutput {
    /// The latest runs with output.
    runs: Vec<u64>,
    /// The one that is shown.
    run: Option<u64>,
    logs: Vec<LogView>,
}

/// The output of the given run of a process, or of its last one.
fn output(
    task: &Task,
    view: &TaskView,
    summary: &TaskSummary,
    process: &str,
    wanted: Option<u64>,
) -> ProcessOutput {
    let missing = |reason: &str| ProcessOutput {
        runs: Vec::new(),
        run: None,
        logs: STREAMS
            .iter()
            .map(|stream| LogView::missing(stream_word(*stream), reason.to_owned()))
            .collect(),
    };
    let Some(logs) = task.logs(view, process) else {
        return missing("The process has no logs.");
    };
    let all = match logs.runs() {
        Ok(all) if all.is_empty() => return missing("The process has not run yet."),
        Ok(all) => all,
        Err(error) => return missing(&format!("The logs cannot be read: {error}")),
    };
    let wanted = wanted.map(RunNo).filter(|run| all.contains(run));
    let run = wanted.or_else(|| all.last().copied()).unwrap_or_default();
    let href = summary.process_href(process);
    let of_stream = |stream: &LogStream| {
        let word = stream_word(*stream);
        match tail(&logs, *stream, run, LOG_BYTES) {
            Ok(Some((bytes, size))) => {
                let file = format!("{}.{}", summary.id, run.0);
                LogView::new(
                    word,
                    &bytes,
                    size,
                    &file,
                    format!("{href}/{}/{word}", run.0),
                )
            }
            Ok(None) => LogView::missing(word, "There is no such file.".to_owned()),
            Err(error) => LogView::missing(word, format!("It cannot be read: {error}")),
        }
    };
    let latest = all.iter().skip(all.len().saturating_sub(RUNS));
    ProcessOutput {
        runs: latest.map(|run| run.0).collect(),
        run: Some(run.0),
        logs: STREAMS.iter().map(of_stream).collect(),
    }
}

/// The task of an address, or why it cannot be shown.
fn load(
    observer: &Observer,
    root: &str,
    id: &str,
) -> Result<(Task, TaskView, TaskSummary), String> {
    let Some(task) = observer.host.find(root, id) else {
        return Err("there is no such task any more".to_owned());
    };
    let view = task.view();
    let summary = task.summary(&view);
    match view {
        Ok(view) => Ok((task, view, summary)),
        Err(error) => Err(format!("the task cannot be read: {error}")),
    }
}

pub(crate) async fn keys() -> Response {
    let mut frame = frame("Keys", "");
    frame.refresh = Refresh::Never;
    html(StatusCode::OK, &KeysPage { frame })
}

pub(crate) async fn asset(Path(name): Path<String>) -> Response {
    let Some(asset) = assets::find(&name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let media_type = [(header::CONTENT_TYPE, asset.media_type)];
    (media_type, headers::ASSET, asset.content).into_response()
}

pub(crate) async fn unknown(format: Format) -> Response {
    error(format, StatusCode::NOT_FOUND, "there is no such page")
}

pub(crate) const fn stream_word(stream: LogStream) -> &'static str {
    match stream {
        LogStream::Stdout => "stdout",
        LogStream::Stderr => "stderr",
    }
}

/// The answer to a request that has failed.
pub(crate) fn error(format: Format, status: StatusCode, detail: &str) -> Response {
    let title = status.canonical_reason().unwrap_or("Error");
    let mut frame = frame(title, "");
    frame.refresh = Refresh::Never;
    let problem = Problem {
        title: title.to_owned(),
        status: status.as_u16(),
        detail: detail.to_owned(),
        ..Problem::default()
    };
    if format == Format::Json {
        return json(status, &problem);
    }
    html(
        status,
        &ErrorPage::new(frame, problem, Some("/".to_owned())),
    )
}

/// A page that is made on a thread of its own; an error is that something is not there.
async fn in_background(
    format: Format,
    make: impl FnOnce() -> Result<Response, String> + Send + 'static,
) -> Response {
    match spawn_blocking(make).await {
        Ok(Ok(response)) => response,
        Ok(Err(reason)) => error(format, StatusCode::NOT_FOUND, &reason),
        Err(_) => error(
            format,
            StatusCode::INTERNAL_SERVER_ERROR,
            "the page cannot be made",
        ),
    }
}

fn html(status: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        Ok(text) => (status, headers::PAGE, Body::from(text)).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn frame(title: &str, section: &'static str) -> Frame {
    Frame {
        site: Site::Host,
        title: title.to_owned(),
        section,
        mood: Mood::Idle,
        viewer: Viewer::default(),
        here: String::new(),
        refresh: Refresh::Timer,
        failures: Vec::new(),
        now: now().0,
    }
}

/// The time of a page.
fn now() -> Wall {
    clock::now().wall
}
