//! Runs, their tasks and items, and what has failed.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::Response;
use baton_core::scheduler::TaskView;
use baton_core::workflow::Planned;
use baton_model::api::{ErrorGroup, List, Run, RunItem, RunProblem, RunTask};
use baton_model::ids::RunId;
use baton_model::state::UniversalState;
use baton_model::workflow::ItemEnd;
use baton_store::view::{ItemQuery, RunQuery, RunRecord};
use tokio::time::Instant;

use super::super::conditional::tagged;
use super::super::given::Parameters;
use super::super::lists::page_links;
use super::super::openapi::answers::{BadRequest, NotFound, OfRun, Unavailable, Unchanged};
use super::super::problem::{Answer, Fault};
use super::super::{App, shape as shapes, words};
use super::{id, shape};
use crate::driver::mail::Ask;
use crate::ends;
use crate::limits::{EVENTS_PACE, PAGE_ITEMS_DEFAULT};

/// Tasks or items of one page.
const PAGE_MAX: usize = 1_000;

/// Runs, the latest first
#[utoipa::path(
    get,
    path = "/runs/",
    tag = "runs",
    operation_id = "runs",
    params(
        ("state" = Option<String>, Query, description = "In this state only, such as RUNNING."),
        ("owner" = Option<String>, Query, description = "Of this owner only."),
        ("name" = Option<String>, Query, description = "Of this workflow only."),
        ("cursor" = Option<u64>, Query, description = "From before this run on; links lead there."),
        ("limit" = Option<u64>, Query, description = "How many at most."),
    ),
    responses(
        (status = 200, description = "A page.", body = List<Run>),
        BadRequest,
        Unchanged,
        Unavailable
    )
)]
pub(in super::super) async fn list(State(app): State<App>, uri: Uri) -> Answer<Response> {
    let given = Parameters::of(&uri, &["state", "owner", "name", "cursor", "limit"])?;
    let query = RunQuery {
        state: given.text("state").map(state).transpose()?,
        owner: given.text("owner").map(str::to_owned),
        name: given.text("name").map(str::to_owned),
        before: given.number("cursor")?.map(RunId),
        limit: given.number("limit")?.unwrap_or(PAGE_ITEMS_DEFAULT),
    };
    let page = app.read(move |store| store.runs(&query)).await?;
    let next = page.next.map(|run| run.0.to_string());
    let list = List::<Run> {
        items: page.items.iter().map(|it| shape::run(it, None)).collect(),
        total: None,
        links: page_links("/runs/", &given, next),
    };
    Ok(tagged(&list))
}

fn state(word: &str) -> Answer<UniversalState> {
    let found = UniversalState::ALL
        .iter()
        .find(|state| state.word() == word);
    found.copied().ok_or_else(|| {
        Fault::bad_request("state must be a state of a run, such as RUNNING or FAILED")
    })
}

/// A run
#[utoipa::path(
    get,
    path = "/runs/{run}",
    tag = "runs",
    operation_id = "show-run",
    params(
        OfRun,
        ("wait" = Option<u64>, Query, description = "Answer when it is over, or after so many seconds, at most 60."),
    ),
    responses(
        (status = 200, description = "How it stands.", body = Run),
        BadRequest,
        Unchanged,
        NotFound,
        Unavailable
    )
)]
pub(in super::super) async fn show(
    State(app): State<App>,
    Path(run): Path<String>,
    uri: Uri,
) -> Answer<Response> {
    let run = id(&run)?;
    let wait = Parameters::of(&uri, &["wait"])?.wait()?;
    let mut record = app.run_record(run).await?;
    if let Some(wait) = wait {
        record = app.run_over(record, wait).await?;
    }
    let seen = app.seen(&record, 0, 0).await?;
    let mut shown = shape::run(&record, Some(&seen.planned));
    shown.items = Some(seen.items);
    shown.problems = seen.problems;
    Ok(tagged(&shown))
}

/// The tasks of a run, in the order of its plan
#[utoipa::path(
    get,
    path = "/runs/{run}/tasks/",
    tag = "runs",
    operation_id = "run-tasks",
    params(
        OfRun,
        ("cursor" = Option<u32>, Query, description = "From the task of this place on; links lead there."),
        ("limit" = Option<u64>, Query, description = "How many at most."),
    ),
    responses(
        (status = 200, description = "A page.", body = List<RunTask>),
        BadRequest,
        Unchanged,
        NotFound,
        Unavailable
    )
)]
pub(in super::super) async fn tasks(
    State(app): State<App>,
    Path(run): Path<String>,
    uri: Uri,
) -> Answer<Response> {
    let run = id(&run)?;
    let given = Parameters::of(&uri, &["cursor", "limit"])?;
    let from = given.number("cursor")?.unwrap_or(0);
    let limit = given
        .number("limit")?
        .unwrap_or(PAGE_ITEMS_DEFAULT)
        .clamp(1, PAGE_MAX);
    let record = app.run_record(run).await?;
    let seen = app.seen(&record, from, limit).await?;
    let total = seen.planned.plan.tasks.len();
    let next = u64::from(from).saturating_add(seen.tasks.len() as u64);
    let more = !seen.tasks.is_empty() && next < total as u64;
    let path = format!("{}/tasks/", shape::path(run));
    let list = List::<RunTask> {
        items: seen.tasks,
        total: Some(total as u64),
        links: page_links(&path, &given, more.then(|| next.to_string())),
    };
    Ok(tagged(&list))
}

/// Items of a run that have ended or are on their way, by task
#[utoipa::path(
    get,
    path = "/runs/{run}/items/",
    tag = "runs",
    operation_id = "run-items",
    params(
        OfRun,
        ("task" = Option<String>, Query, description = "Of this task only."),
        ("item" = Option<u32>, Query, description = "This one only; with `task`."),
        ("state" = Option<String>, Query, description = "In this state only: QUEUED, LAUNCHED, RUNNING, DONE, FAILED or HALTED."),
        ("cursor" = Option<String>, Query, description = "From behind this item on; links lead there.", pattern = "^[0-9]{1,9}\\.[0-9]{1,9}$"),
        ("limit" = Option<u64>, Query, description = "How many at most."),
    ),
    responses(
        (status = 200, description = "A page.", body = List<RunItem>),
        BadRequest,
        Unchanged,
        NotFound,
        Unavailable
    )
)]
pub(in super::super) async fn items(
    State(app): State<App>,
    Path(run): Path<String>,
    uri: Uri,
) -> Answer<Response> {
    let run = id(&run)?;
    let given = Parameters::of(&uri, &["task", "item", "state", "cursor", "limit"])?;
    let limit = given
        .number("limit")?
        .unwrap_or(PAGE_ITEMS_DEFAULT)
        .clamp(1, PAGE_MAX);
    let record = app.run_record(run).await?;
    let planned = app.seen(&record, 0, 0).await?.planned;
    let task = match given.text("task") {
        None => None,
        Some(name) => Some(planned.place(name).ok_or_else(|| {
            Fault::bad_request(format!(
                "the run has no task {:?}",
                name.chars().take(60).collect::<String>()
            ))
        })?),
    };
    let only: Option<u32> = given.number("item")?;
    if only.is_some() && task.is_none() {
        return Err(Fault::bad_request(
            "item says which of a task's items: name the task, too",
        ));
    }
    let wanted = given.text("state").map(state).transpose()?;
    let mut after = given.text("cursor").map(place).transpose()?;
    let mut limit = limit;
    if let (Some(task), Some(item)) = (task, only) {
        after = item.checked_sub(1).map(|before| (task, before));
        limit = 1;
    }
    let window = Window {
        run,
        task,
        after,
        limit,
    };
    let mut found = app.window(&planned, window, wanted).await?;
    if let Some(item) = only {
        found.0.retain(|it| it.item == item);
        found.1 = None;
    }
    let path = format!("{}/items/", shape::path(run));
    let next = found.1.map(|(task, item)| format!("{task}.{item}"));
    let list = List::<RunItem> {
        items: found.0,
        total: None,
        links: page_links(&path, &given, next),
    };
    Ok(tagged(&list))
}

/// `task.item`, as links have it.
fn place(text: &str) -> Answer<(u32, u32)> {
    let parsed = text
        .split_once('.')
        .and_then(|(task, item)| Some((task.parse().ok()?, item.parse().ok()?)));
    parsed.ok_or_else(|| Fault::bad_request("cursor must be one that an earlier page gave"))
}

/// What has failed of a run: alike failures together, the most frequent first
#[utoipa::path(
    get,
    path = "/runs/{run}/errors",
    tag = "runs",
    operation_id = "run-errors",
    params(OfRun),
    responses(
        (status = 200, description = "Each kind of failure with one example.", body = List<ErrorGroup>),
        BadRequest,
        Unchanged,
        NotFound,
        Unavailable
    )
)]
pub(in super::super) async fn errors(
    State(app): State<App>,
    Path(run): Path<String>,
) -> Answer<Response> {
    let run = id(&run)?;
    let record = app.run_record(run).await?;
    let planned = app.seen(&record, 0, 0).await?.planned;
    let counted = app.read(move |store| store.run_errors(run)).await?;
    let groups = counted.into_iter().map(|it| {
        let named = planned.plan.tasks.get(it.task as usize);
        let path = shapes::path(it.example, it.example);
        ErrorGroup {
            task: named.map_or_else(String::new, |task| task.name.clone()),
            end_text: it
                .end
                .map_or_else(|| "not kept any more".to_owned(), |end| end.to_string()),
            count: it.count,
            example: it.example.to_string(),
            links: shapes::links([
                ("example", path.clone()),
                ("stderr", format!("{path}/logs/stderr")),
            ]),
        }
    });
    let list = List::<ErrorGroup> {
        items: groups.collect(),
        total: None,
        links: shapes::links([("self", format!("{}/errors", shape::path(run)))]),
    };
    Ok(tagged(&list))
}

/// How far a run is.
struct Seen {
    planned: std::sync::Arc<Planned>,
    items: baton_model::api::ItemCounts,
    problems: Vec<RunProblem>,
    tasks: Vec<RunTask>,
}

/// Which items are asked for.
#[derive(Clone, Copy)]
struct Window {
    run: RunId,
    task: Option<u32>,
    after: Option<(u32, u32)>,
    limit: usize,
}

impl App {
    /// How far a run is, with `limit` of its tasks.
    async fn seen(&self, record: &RunRecord, from: u32, limit: usize) -> Answer<Seen> {
        let run = record.head.id;
        if !record.head.state.is_terminal() {
            let ask = |reply| Ask::RunView {
                run,
                from,
                limit,
                reply,
            };
            if let Some(view) = self.ask(ask).await? {
                let mut tasks = Vec::with_capacity(view.tasks.len());
                for task in &view.tasks {
                    tasks.push(self.live_task(&view.planned, task).await?);
                }
                return Ok(Seen {
                    items: shape::counts(&view.total, view.leased),
                    problems: problems(&view.planned, view.problems),
                    planned: view.planned,
                    tasks,
                });
            }
        }
        let ended = self.ended_run(record).await?;
        let (planned, progress) = &*ended;
        let count = u32::try_from(planned.plan.tasks.len()).unwrap_or(u32::MAX);
        let tasks = (from..count).take(limit).map(|at| {
            let counts = shape::counts(&progress.tally(at), 0);
            shape::task(planned, at, counts, progress.is_mapped(at))
        });
        let why = progress.problems();
        let why = why.map(|(task, item, why)| (task, item, why.to_owned()));
        Ok(Seen {
            items: shape::counts(progress.total(), 0),
            problems: problems(planned, why.collect()),
            tasks: tasks.collect(),
            planned: std::sync::Arc::clone(planned),
        })
    }

    async fn live_task(&self, planned: &Planned, view: &TaskView) -> Answer<RunTask> {
        let counts = shape::counts(&view.tally, view.leased);
        let mut task = shape::task(planned, view.task, counts, view.mapped);
        task.mean_seconds = view.mean.map(|mean| mean.0 as f64 / 1_000.0);
        task.reason = match &view.reason {
            Some((instance, reason)) => {
                let id = *instance;
                let record = self.read(move |store| store.instance(id)).await?;
                record.map(|record| words::waiting(&record, reason).text)
            }
            None if counts.ready > 0 => {
                Some("held back: as many are on their way as the limits allow".to_owned())
            }
            None if counts.waiting > 0 => view
                .waits_for
                .map(|task| format!("comes after {}", planned.plan.tasks[task as usize].name)),
            None => None,
        };
        Ok(task)
    }

    /// Waits until a run is over, at most for so long, and not while the server ends.
    async fn run_over(&self, mut record: RunRecord, wait: Duration) -> Answer<RunRecord> {
        let deadline = Instant::now() + wait;
        let mut landed = self.0.landed.clone();
        let mut ending = self.0.ending.clone();
        while !record.head.state.is_terminal() {
            landed.mark_unchanged();
            tokio::select! {
                changed = landed.changed() => if changed.is_err() { break },
                () = tokio::time::sleep_until(deadline) => break,
                () = ends(&mut ending) => break,
            }
            record = self.run_record(record.head.id).await?;
            if !record.head.state.is_terminal() {
                tokio::time::sleep(EVENTS_PACE).await;
                record = self.run_record(record.head.id).await?;
            }
        }
        Ok(record)
    }

    /// A page of items: those that the leader has on their way, and those that the store has.
    async fn window(
        &self,
        planned: &Planned,
        window: Window,
        wanted: Option<UniversalState>,
    ) -> Answer<(Vec<RunItem>, Option<(u32, u32)>)> {
        let Window {
            run,
            task,
            after,
            limit,
        } = window;
        let end = match wanted {
            Some(UniversalState::Done) => Some(ItemEnd::Done),
            Some(UniversalState::Failed) => Some(ItemEnd::Failed),
            Some(UniversalState::Halted) => Some(ItemEnd::Halted),
            _ => None,
        };
        let mut found: Vec<((u32, u32), RunItem)> = Vec::new();
        let mut more = false;
        if wanted.is_none_or(|wanted| wanted.is_terminal()) {
            let query = ItemQuery {
                run,
                task,
                end,
                after,
                limit,
            };
            let page = self.read(move |store| store.run_items(&query)).await?;
            more |= page.next.is_some();
            let ended = page.items.iter();
            found.extend(ended.map(|it| ((it.task, it.item), shape::ended(planned, it))));
        }
        if wanted.is_none_or(|wanted| !wanted.is_terminal()) {
            let ask = |reply| Ask::RunLive {
                run,
                task,
                after,
                limit,
                reply,
            };
            let live = self.ask(ask).await?;
            more |= live.len() == limit;
            let read = self.read(move |store| {
                let mut records = Vec::with_capacity(live.len());
                for (task, item, instance) in live {
                    if let Some(record) = store.instance(instance)? {
                        records.push(((task, item), record));
                    }
                }
                Ok(records)
            });
            let records = read.await?;
            let wanted = records
                .iter()
                .filter(|(_, record)| wanted.is_none_or(|wanted| wanted == record.instance.state));
            found.extend(wanted.map(|(place, it)| (*place, shape::live(planned, *place, it))));
        }
        found.sort_by_key(|(place, _)| *place);
        // What has ended between the two looks is in both.
        found.dedup_by_key(|(place, _)| *place);
        let cut = found.len() > limit;
        found.truncate(limit);
        let next = found
            .last()
            .map(|(place, _)| *place)
            .filter(|_| more || cut);
        Ok((found.into_iter().map(|(_, item)| item).collect(), next))
    }
}

fn problems(planned: &Planned, found: Vec<(u32, u32, String)>) -> Vec<RunProblem> {
    let named = found.into_iter().map(|(task, item, text)| RunProblem {
        task: planned.plan.tasks[task as usize].name.clone(),
        item,
        text,
    });
    named.collect()
}
