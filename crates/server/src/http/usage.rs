//! Resource usage by owner and hour, and by task.

use std::collections::BTreeMap;

use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::Response;
use baton_core::sizing::{Sizing, Spread};
use baton_files::SizingText;
use baton_model::api::{FleetUsage, List, Percentiles, Suggestion, TaskRequests, TaskUsage, Usage};
use baton_model::fleet::{FleetJob, JobEnd};
use baton_model::measurement::TaskPath;
use baton_model::time::{Millis, Wall};
use baton_store::measurements::{self, TaskUsageQuery};
use baton_store::usage::{self as kept, Hour, UsageCursor, UsageQuery};

use super::app::App;
use super::conditional::tagged;
use super::extract::Parameters;
use super::lists::page_links;
#[cfg(feature = "openapi")]
use super::openapi::answers::Unchanged;
use super::problem::{Answer, Fault};
use super::{owner, views};
use crate::clock;
use crate::limits::PAGE_ITEMS_DEFAULT;

/// Default period.
const SPAN_DEFAULT: Millis = Millis::from_secs(24 * 60 * 60);

/// Resource usage by hour and owner
///
/// Usage is kept when the history is pruned.
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/usage/",
    tag = "views",
    operation_id = "usage",
    params(
        ("owner" = Option<String>, Query, description = "Only of this owner."),
        ("from" = Option<u64>, Query, description = "From the hour of this time, in milliseconds since 1970; default: a day before `to`."),
        ("to" = Option<u64>, Query, description = "To the hour of this time; default: now."),
        ("limit" = Option<u64>, Query, description = "Maximum number of entries."),
        ("cursor" = Option<String>, Query, description = "Start of the page; from the link `next`."),
    ),
    responses(
        (status = 200, description = "A page. Hours in which an owner used nothing are omitted.", body = List<Usage>),
        Unchanged
    )
))]
pub(super) async fn list(State(app): State<App>, uri: Uri) -> Answer<Response> {
    let parameters = Parameters::of(&uri, &["owner", "from", "to", "limit", "cursor"])?;
    let owner = parameters.text("owner").map(str::to_owned);
    page(&app, owner, &parameters, "/usage/").await
}

/// Resource usage of an owner by hour
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/{owner}/usage",
    tag = "owners",
    operation_id = "owner-usage",
    params(
        ("owner" = String, Path, description = "The owner."),
        ("from" = Option<u64>, Query, description = "From the hour of this time, in milliseconds since 1970; default: a day before `to`."),
        ("to" = Option<u64>, Query, description = "To the hour of this time; default: now."),
        ("limit" = Option<u64>, Query, description = "Maximum number of entries."),
        ("cursor" = Option<String>, Query, description = "Start of the page; from the link `next`."),
    ),
    responses(
        (status = 200, description = "A page. Hours in which the owner used nothing are omitted.", body = List<Usage>),
        Unchanged
    )
))]
pub(super) async fn of_owner(
    State(app): State<App>,
    Path(owner): Path<String>,
    uri: Uri,
) -> Answer<Response> {
    owner::check_name(&owner)?;
    let parameters = Parameters::of(&uri, &["from", "to", "limit", "cursor"])?;
    let path = owner::path(&owner);
    let path = format!("{path}usage");
    page(&app, Some(owner), &parameters, &path).await
}

async fn page(
    app: &App,
    owner: Option<String>,
    parameters: &Parameters,
    path: &str,
) -> Answer<Response> {
    let to = parameters.number("to")?.map_or(clock::now().wall, Wall);
    let day_before = Wall(to.0.saturating_sub(SPAN_DEFAULT.0));
    let from = parameters.number("from")?.map_or(day_before, Wall);
    let query = UsageQuery {
        owner,
        from: Hour::of(from),
        to: Hour::of(to),
        after: parameters.text("cursor").map(place).transpose()?,
        limit: parameters.number("limit")?.unwrap_or(PAGE_ITEMS_DEFAULT),
    };
    let page = app.read(move |store| store.usage(&query)).await?;
    let next = page.next.map(|(hour, owner)| format!("{}.{owner}", hour.0));
    let next = next.map(|next| views::encoded(&next));
    let list = List {
        items: page.items.into_iter().map(usage_view).collect(),
        total: None,
        links: page_links(path, parameters, next),
    };
    Ok(tagged(&list))
}

/// What tasks have requested and used, with suggestions
///
/// By owner, workflow and task. Of each task the last 200 attempts are looked at, as far as they were measured; they
/// outlive the history. Elements of an array and items of a workflow are attempts of one task.
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/usage/tasks/",
    tag = "views",
    operation_id = "task-usage",
    params(
        ("owner" = Option<String>, Query, description = "Only of this owner."),
        ("workflow" = Option<String>, Query, description = "Only tasks of this workflow, and its runs; empty for tasks of none."),
        ("task" = Option<String>, Query, description = "Only tasks of this name."),
        ("limit" = Option<u64>, Query, description = "Maximum number of entries."),
        ("cursor" = Option<String>, Query, description = "Start of the page; from the link `next`."),
    ),
    responses(
        (status = 200, description = "A page.", body = List<TaskUsage>),
        Unchanged
    )
))]
pub(super) async fn tasks(State(app): State<App>, uri: Uri) -> Answer<Response> {
    let parameters = Parameters::of(&uri, &["owner", "workflow", "task", "limit", "cursor"])?;
    let text = |name| parameters.text(name).map(str::to_owned);
    let query = TaskUsageQuery {
        owner: text("owner"),
        workflow: text("workflow"),
        task: text("task"),
        after: parameters.text("cursor").map(task_place).transpose()?,
        limit: parameters.number("limit")?.unwrap_or(PAGE_ITEMS_DEFAULT),
    };
    let page = app.read(move |store| store.task_usage(&query)).await?;
    let next = page.next.map(|path| {
        let parts = [&*path.owner, &*path.workflow, &*path.task];
        views::encoded(&serde_json::json!(parts).to_string())
    });
    let list = List {
        items: page.items.into_iter().map(task_view).collect(),
        total: None,
        links: page_links("/usage/tasks/", &parameters, next),
    };
    Ok(tagged(&list))
}

/// What the jobs of fleets have used
///
/// The run times of their jobs, from the start to the end that the cluster manager reported, as far as they lie within
/// the period. Of the jobs that have ended the last 10,000 are known.
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/usage/fleets/",
    tag = "views",
    operation_id = "fleet-usage",
    params(
        ("from" = Option<u64>, Query, description = "From this time, in milliseconds since 1970; default: a day before `to`."),
        ("to" = Option<u64>, Query, description = "To this time; default: now."),
    ),
    responses(
        (status = 200, description = "All fleets whose jobs ran, by name.", body = List<FleetUsage>),
        Unchanged
    )
))]
pub(super) async fn fleets(State(app): State<App>, uri: Uri) -> Answer<Response> {
    let parameters = Parameters::of(&uri, &["from", "to"])?;
    let to = parameters.number("to")?.map_or(clock::now().wall, Wall);
    let day_before = Wall(to.0.saturating_sub(SPAN_DEFAULT.0));
    let from = parameters.number("from")?.map_or(day_before, Wall);
    let jobs = app.read(move |store| store.fleet_jobs_since(from)).await?;
    let items = used_by_fleets(&jobs, from, to.min(clock::now().wall));
    Ok(tagged(&List {
        total: Some(items.len() as u64),
        items,
        links: views::links([("self", "/usage/fleets/".to_owned())]),
    }))
}

/// The run times of jobs within a period, by fleet.
fn used_by_fleets(jobs: &[FleetJob], from: Wall, to: Wall) -> Vec<FleetUsage> {
    let mut fleets: BTreeMap<&str, FleetUsage> = BTreeMap::new();
    for job in jobs {
        let Some(started) = job.started_at else {
            continue;
        };
        let ended = job.ended_at.unwrap_or(to).min(to);
        let started = started.max(from);
        if started >= ended {
            continue;
        }
        let seconds = ended.since(started).0 as f64 / 1_000.0;
        let name = job.fleet.as_str();
        let used = fleets.entry(name).or_insert_with(|| FleetUsage {
            fleet: name.to_owned(),
            ..FleetUsage::default()
        });
        used.jobs += 1;
        used.failed += u64::from(job.end == Some(JobEnd::Failed));
        used.job_seconds += seconds;
        used.worker_seconds += seconds * f64::from(job.workers);
    }
    fleets.into_values().collect()
}

/// The cursor of a page: the hour, a dot, and the owner.
fn place(cursor: &str) -> Answer<UsageCursor> {
    let parts = cursor.split_once('.');
    let place = parts.and_then(|(hour, owner)| Some((Hour(hour.parse().ok()?), owner.to_owned())));
    let wrong = "invalid cursor; use the link `next` of a page";
    place.ok_or_else(|| Fault::bad_request(wrong))
}

/// The cursor of a page of tasks: owner, workflow and task, as JSON.
fn task_place(cursor: &str) -> Answer<TaskPath> {
    let parts: Result<[String; 3], _> = serde_json::from_str(cursor);
    let wrong = "invalid cursor; use the link `next` of a page";
    let [owner, workflow, task] = parts.map_err(|_| Fault::bad_request(wrong))?;
    Ok(TaskPath {
        owner: owner.into(),
        workflow: workflow.into(),
        task: task.into(),
    })
}

/// What a task has used, with a suggestion.
pub(super) fn task_view(row: measurements::TaskUsage) -> TaskUsage {
    let seconds = |time: Millis| time.0 as f64 / 1_000.0;
    let sizing = Sizing::new(&row.requested, &row.measurements);
    let percentiles = |spread: Option<Spread>, unit: f64| {
        spread.map(|it| Percentiles {
            p50: it.p50 as f64 / unit,
            p95: it.p95 as f64 / unit,
            max: it.max as f64 / unit,
        })
    };
    let named = |name: &str| Some(name.to_owned()).filter(|name| !name.is_empty());
    // A run as a whole requests nothing.
    let text = if row.path.task.is_empty() {
        SizingText::default()
    } else {
        SizingText::new(&row.requested, &sizing)
    };
    let resources = &row.requested.resources;
    TaskUsage {
        owner: row.path.owner.to_string(),
        workflow: named(&row.path.workflow),
        task: named(&row.path.task),
        attempts: sizing.attempts as u64,
        measured: row.attempts,
        succeeded: sizing.succeeded as u64,
        failed: sizing.failed as u64,
        out_of_memory: sizing.out_of_memory as u64,
        timed_out: sizing.timed_out as u64,
        since_at: sizing.since.unwrap_or(row.changed).0,
        last_at: row.changed.0,
        requested: TaskRequests {
            cpus: resources.cpu_milli as f64 / 1_000.0,
            memory: resources.memory_min,
            memory_limit: resources.memory_max,
            time_request_seconds: row.requested.time_request.map(seconds),
            timeout_seconds: row.requested.timeout.map(seconds),
        },
        cores: percentiles(sizing.cpu_milli, 1_000.0),
        memory: percentiles(sizing.memory, 1.0),
        elapsed_seconds: percentiles(sizing.elapsed, 1_000.0),
        cpu_percent: sizing.cpu_percent,
        memory_percent: sizing.memory_percent,
        suggestion: Suggestion {
            lines: text.lines,
            reasons: text.reasons,
        },
    }
}

fn usage_view(row: kept::Usage) -> Usage {
    let used = row.used;
    let seconds = |ms: u64| ms as f64 / 1_000.0;
    Usage {
        hour_at: row.hour.start().0,
        owner: row.owner,
        done: used.done,
        failed: used.failed,
        halted: used.halted,
        attempts: used.attempts,
        cpu_claimed_seconds: seconds(used.cpu_claimed.0),
        cpu_used_seconds: seconds(used.cpu_used.0),
        memory_claimed_mib_seconds: seconds(used.memory_claimed),
        waited_seconds: seconds(used.waited.0),
    }
}

#[cfg(test)]
mod tests {
    use baton_model::ids::JobId;

    use super::*;

    fn job(id: u64, fleet: &str, started: Option<u64>, ended: Option<u64>) -> FleetJob {
        FleetJob {
            id: JobId(id),
            fleet: fleet.parse().expect("a name"),
            name: format!("baton-0-{fleet}-p{id}"),
            requested_at: Wall(0),
            workers: 2,
            native: None,
            state: None,
            detail: None,
            nodes: Vec::new(),
            started_at: started.map(Wall),
            arrived_at: None,
            cancel: None,
            end: ended.map(|_| JobEnd::Failed),
            ended_at: ended.map(Wall),
        }
    }

    #[test]
    fn run_times_count_within_the_period() {
        let jobs = [
            job(1, "gpu", Some(0), Some(3_000)),
            job(2, "gpu", Some(4_000), None),
            job(3, "cpu", None, Some(2_000)),
            job(4, "cpu", Some(500), Some(900)),
        ];
        let used = used_by_fleets(&jobs, Wall(1_000), Wall(10_000));
        let expected = FleetUsage {
            fleet: "gpu".to_owned(),
            jobs: 2,
            failed: 1,
            job_seconds: 8.0,
            worker_seconds: 16.0,
        };
        assert_eq!(used, [expected]);
        assert_eq!(used_by_fleets(&jobs, Wall(20_000), Wall(10_000)), []);
    }
}
