//! Resource usage by owner and hour.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use baton_model::api::{FleetUsage, List, Usage};
use baton_model::fleet::{FleetJob, JobEnd};
use baton_model::time::{Millis, Wall};
use baton_store::usage::{self as kept, Hour, UsageCursor, UsageQuery};

use super::app::App;
use super::conditional::tagged;
use super::extract::Parameters;
use super::lists::page_links;
#[cfg(feature = "openapi")]
use super::openapi::answers::Unchanged;
use super::problem::{Answer, Fault};
use super::views;
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
    let to = parameters.number("to")?.map_or(clock::now().wall, Wall);
    let day_before = Wall(to.0.saturating_sub(SPAN_DEFAULT.0));
    let from = parameters.number("from")?.map_or(day_before, Wall);
    let query = UsageQuery {
        owner: parameters.text("owner").map(str::to_owned),
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
        links: page_links("/usage/", &parameters, next),
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
