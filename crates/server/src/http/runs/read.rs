//! Runs, their tasks, and their failures.

use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::Response;
use baton_core::scheduler::TaskView;
use baton_core::wait::Wait;
use baton_core::workflow::Dag;
use baton_model::api::{ErrorGroup, List, Progress, Run, RunProblem, RunTask};
use baton_model::ids::RunId;
use baton_model::library::{Execution, TaskName};
use baton_model::state::UniversalState;
use baton_model::workflow::ItemEnd;
use baton_store::view::{RunQuery, RunRecord};
use tokio::time::Instant;

use super::super::app::App;
use super::super::conditional::tagged;
use super::super::extract::{self, Parameters};
use super::super::lists::page_links;
#[cfg(feature = "openapi")]
use super::super::openapi::answers::{RunFilter, Unchanged};
use super::super::problem::Answer;
use super::super::{filters, views as shapes};
use super::{counts, path, views};
use crate::clock;
use crate::limits::{EVENTS_PACE, PAGE_ITEMS_DEFAULT};
use crate::shutdown::until_shutdown;

/// Maximum page size of tasks and items.
pub(super) const PAGE_MAX: usize = 1_000;

/// Runs, newest first
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/runs/",
    tag = "runs",
    operation_id = "runs",
    params(
        RunFilter,
        ("sort" = Option<String>, Query, description = "`-submitted`, which is the default, or `submitted`: the oldest first."),
        ("cursor" = Option<u64>, Query, description = "Only runs after this one, in that order; from the link `next`."),
        ("limit" = Option<u64>, Query, description = "Maximum number of entries."),
    ),
    responses(
        (status = 200, description = "A page.", body = List<Run>),
        Unchanged
    )
))]
pub(in super::super) async fn list(State(app): State<App>, uri: Uri) -> Answer<Response> {
    let options = ["sort", "cursor", "limit"];
    let (filter, parameters) = filters::read(&uri, UniversalState::ALL, &options)?;
    let query = RunQuery {
        filter,
        oldest_first: parameters.is_reversed(["-submitted", "submitted"])?,
        after: parameters.number("cursor")?.map(RunId),
        limit: parameters.number("limit")?.unwrap_or(PAGE_ITEMS_DEFAULT),
    };
    let page = app.read(move |store| store.runs(&query)).await?;
    let next = page.next.map(|run| run.0.to_string());
    let mut links = page_links("/runs/", &parameters, next);
    links.insert("submit".to_owned(), "POST /runs/".to_owned());
    let list = List::<Run> {
        items: page.items.iter().map(|it| views::run(it, None)).collect(),
        total: None,
        links,
    };
    Ok(tagged(&list))
}

/// A run
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/runs/{run}",
    tag = "runs",
    operation_id = "show-run",
    params(
        ("wait" = Option<u64>, Query, description = "Long poll: answer when it has ended, or after this many seconds, at most 60."),
    ),
    responses(
        (status = 200, description = "The current state of the run.", body = Run),
        Unchanged
    )
))]
pub(in super::super) async fn show(
    State(app): State<App>,
    Path(run): Path<String>,
    uri: Uri,
) -> Answer<Response> {
    let run = extract::run(&run)?;
    let wait = Parameters::of(&uri, &["wait"])?.wait()?;
    let mut record = app.run_record(run).await?;
    if let Some(wait) = wait {
        record = app.until_run_ended(record, wait).await?;
    }
    let run_progress = app.run_progress(&record, 0, 0).await?;
    let mut shown = views::run(&record, Some(&run_progress.dag));
    shown.items = Some(run_progress.items);
    shown.problems = run_progress.problems;
    if let Some((task, due)) = record.head.origin.and_then(|it| Some((it.task, it.due?))) {
        let name = TaskName {
            owner: record.head.owner.clone(),
            name: record.head.name.clone(),
        };
        let execution = Execution::Run(run);
        let backfill = app
            .backfill_of((task, name), due.nominal, execution)
            .await?;
        shown.backfill = backfill.map(|it| it.to_string());
    }
    Ok(tagged(&shown))
}

/// The tasks of a run, in the order of its plan
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/runs/{run}/tasks/",
    tag = "runs",
    operation_id = "run-tasks",
    params(
        ("cursor" = Option<u32>, Query, description = "Index of the first task; from the link `next`."),
        ("limit" = Option<u64>, Query, description = "Maximum number of entries."),
    ),
    responses(
        (status = 200, description = "A page.", body = List<RunTask>),
        Unchanged
    )
))]
pub(in super::super) async fn tasks(
    State(app): State<App>,
    Path(run): Path<String>,
    uri: Uri,
) -> Answer<Response> {
    let run = extract::run(&run)?;
    let parameters = Parameters::of(&uri, &["cursor", "limit"])?;
    let from = parameters.number("cursor")?.unwrap_or(0);
    let limit = parameters
        .number("limit")?
        .unwrap_or(PAGE_ITEMS_DEFAULT)
        .clamp(1, PAGE_MAX);
    let record = app.run_record(run).await?;
    let run_progress = app.run_progress(&record, from, limit).await?;
    let total = run_progress.dag.plan.tasks.len();
    let next = u64::from(from).saturating_add(run_progress.tasks.len() as u64);
    let more = !run_progress.tasks.is_empty() && next < total as u64;
    let tasks = format!("{}/tasks/", path(run));
    let list = List::<RunTask> {
        items: run_progress.tasks,
        total: Some(total as u64),
        links: page_links(&tasks, &parameters, more.then(|| next.to_string())),
    };
    Ok(tagged(&list))
}

/// Failures of a run, grouped by kind, most frequent first
///
/// If the run failed because some of its instances were cancelled, these are included.
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/runs/{run}/errors",
    tag = "runs",
    operation_id = "run-errors",
    responses(
        (status = 200, description = "Each kind of failure with one example.", body = List<ErrorGroup>),
        Unchanged
    )
))]
pub(in super::super) async fn errors(
    State(app): State<App>,
    Path(run): Path<String>,
) -> Answer<Response> {
    let run = extract::run(&run)?;
    let record = app.run_record(run).await?;
    let dag = app.run_progress(&record, 0, 0).await?.dag;
    let counted = app.read(move |store| {
        let mut counted = Vec::new();
        for group in store.run_errors(run)? {
            let example = store.instance(group.example)?;
            let tail = example.and_then(|example| example.last?.stderr_tail);
            counted.push((group, tail));
        }
        Ok(counted)
    });
    let counted = counted.await?;
    let failed = counted.iter().any(|(it, _)| it.item == ItemEnd::Failed);
    // Items that `fail_fast` halted are not the cause of the failure.
    let shown_end = if dag.plan.fail_fast && failed {
        ItemEnd::Failed
    } else {
        ItemEnd::Halted
    };
    let counted = counted.into_iter();
    let counted = counted.filter(|(it, _)| it.item == ItemEnd::Failed || it.item == shown_end);
    let groups = counted.map(|(it, tail)| {
        let named = dag.plan.tasks.get(it.task as usize);
        let example = shapes::path(it.example, it.example);
        ErrorGroup {
            task: named.map_or_else(String::new, |task| task.name.clone()),
            end_text: match (it.item, it.end) {
                (ItemEnd::Halted, _) => "was cancelled".to_owned(),
                (_, Some(end)) => end.to_string(),
                (_, None) => "pruned from the history".to_owned(),
            },
            count: it.count,
            example: it.example.to_string(),
            stderr_tail: tail.map(|tail| tail.to_string()),
            links: shapes::links([
                ("example", example.clone()),
                ("stderr", format!("{example}/logs/stderr")),
            ]),
        }
    });
    let list = List::<ErrorGroup> {
        items: groups.collect(),
        total: None,
        links: shapes::links([("self", format!("{}/errors", path(run)))]),
    };
    Ok(tagged(&list))
}

/// Progress of a run.
pub(super) struct RunProgress {
    pub(super) dag: std::sync::Arc<Dag>,
    items: baton_model::api::ItemCounts,
    problems: Vec<RunProblem>,
    tasks: Vec<RunTask>,
}

impl App {
    /// Progress of a run, with `limit` of its tasks.
    pub(super) async fn run_progress(
        &self,
        record: &RunRecord,
        from: u32,
        limit: usize,
    ) -> Answer<RunProgress> {
        let run = record.head.id;
        if !record.head.state.is_terminal() {
            let view = self.query(move |leader| leader.run_view(run, from, limit, clock::now()));
            if let Some(view) = view.await? {
                let tasks = view.tasks.iter();
                let tasks = tasks.map(|task| live_task(&view.dag, task)).collect();
                return Ok(RunProgress {
                    items: counts::counts(&view.total, view.leased),
                    problems: problems(&view.dag, view.problems),
                    dag: view.dag,
                    tasks,
                });
            }
        }
        let ended = self.ended_run(record).await?;
        let dag = &ended.dag;
        let tasks = (from..).zip(ended.tasks.iter().skip(from as usize));
        let tasks = tasks.take(limit);
        let tasks = tasks.map(|(at, (counts, mapped))| views::task(dag, at, *counts, *mapped));
        Ok(RunProgress {
            items: ended.items,
            problems: problems(dag, ended.problems.clone()),
            tasks: tasks.collect(),
            dag: std::sync::Arc::clone(dag),
        })
    }

    /// Waits until a run has ended, at most for `wait`, and not past a shutdown.
    async fn until_run_ended(&self, mut record: RunRecord, wait: Duration) -> Answer<RunRecord> {
        let deadline = Instant::now() + wait;
        let mut committed = self.0.committed.clone();
        let mut shutdown = self.0.shutdown.clone();
        while !record.head.state.is_terminal() {
            committed.mark_unchanged();
            tokio::select! {
                changed = committed.changed() => if changed.is_err() { break },
                () = tokio::time::sleep_until(deadline) => break,
                () = until_shutdown(&mut shutdown) => break,
            }
            record = self.run_record(record.head.id).await?;
            if !record.head.state.is_terminal() {
                tokio::time::sleep(EVENTS_PACE).await;
                record = self.run_record(record.head.id).await?;
            }
        }
        Ok(record)
    }
}

fn live_task(dag: &Dag, view: &TaskView) -> RunTask {
    let counts = counts::counts(&view.tally, view.leased);
    RunTask {
        mean_seconds: view.mean.map(|mean| mean.0 as f64 / 1_000.0),
        reason: view.wait.as_ref().map(Wait::text),
        progress: view.progress.as_ref().map(|(instance, progress)| Progress {
            instance: Some(instance.to_string()),
            ..Progress::from(progress)
        }),
        ..views::task(dag, view.task, counts, view.mapped)
    }
}

fn problems(dag: &Dag, found: Vec<(u32, u32, String)>) -> Vec<RunProblem> {
    let named = found.into_iter().map(|(task, item, text)| RunProblem {
        task: dag.plan.tasks[task as usize].name.clone(),
        item,
        text,
    });
    named.collect()
}
