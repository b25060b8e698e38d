//! Outcomes of due times.

use std::collections::BTreeSet;

use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::Response;
use baton_model::api::{Links, List, Tick};
use baton_model::fact::Fact;
use baton_model::ids::{Revision, TaskNo};
use baton_model::library::{Cause, Execution, TaskName};
use baton_model::schedule::{SkipReason, TickVerdict};
use baton_store::view::{RecordedFact, Seq, TickQuery};

use super::super::app::App;
use super::super::conditional::tagged;
use super::super::extract::Parameters;
use super::super::lists::page_links;
#[cfg(feature = "openapi")]
use super::super::openapi::answers::Unchanged;
use super::super::problem::Answer;
use super::super::{backfills, runs, views};
use super::{name, path};
use crate::limits::PAGE_ITEMS_DEFAULT;

/// Outcomes of all due times, newest first
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/history/ticks/",
    tag = "library",
    operation_id = "ticks",
    params(
        ("cursor" = Option<u64>, Query, description = "Only entries before this sequence number; from the link `next`."),
        ("limit" = Option<u64>, Query, description = "Maximum number of entries."),
    ),
    responses(
        (status = 200, description = "A page.", body = List<Tick>),
        Unchanged
    )
))]
pub(in super::super) async fn all(State(app): State<App>, uri: Uri) -> Answer<Response> {
    page(&app, None, "/history/ticks/", &uri).await
}

/// Outcomes of the due times of one task, newest first
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/{owner}/tasks/{name}/ticks/",
    tag = "library",
    operation_id = "ticks-of-task",
    params(
        ("owner" = String, Path, description = "The owner of the task."),
        ("name" = String, Path, description = "The name of the task."),
        ("cursor" = Option<u64>, Query, description = "Only entries before this sequence number; from the link `next`."),
        ("limit" = Option<u64>, Query, description = "Maximum number of entries."),
    ),
    responses(
        (status = 200, description = "A page.", body = List<Tick>),
        Unchanged
    )
))]
pub(in super::super) async fn of_task(
    State(app): State<App>,
    Path((owner, task)): Path<(String, String)>,
    uri: Uri,
) -> Answer<Response> {
    let name = name(&owner, &task);
    // A removed task still has its first revision.
    let number = app.task(&name, Some(Revision(1))).await?.number;
    let path = format!("{}/ticks/", path(&name));
    page(&app, Some(number), &path, &uri).await
}

async fn page(app: &App, task: Option<TaskNo>, path: &str, uri: &Uri) -> Answer<Response> {
    let parameters = Parameters::of(uri, &["cursor", "limit"])?;
    let query = TickQuery {
        task,
        before: parameters.number("cursor")?.map(Seq),
        limit: parameters.number("limit")?.unwrap_or(PAGE_ITEMS_DEFAULT),
    };
    let (page, names) = app
        .read(move |store| {
            let page = store.ticks(&query)?;
            let numbers: BTreeSet<TaskNo> =
                page.items.iter().filter_map(|it| it.fact.task()).collect();
            let names = store.task_names(&numbers)?;
            Ok((page, names))
        })
        .await?;
    let ticks = page.items.iter().filter_map(|entry| {
        let name = names.get(&entry.fact.task()?)?;
        tick(entry, name)
    });
    let list = List {
        items: ticks.collect(),
        total: None,
        links: page_links(path, &parameters, page.next.map(|next| next.0.to_string())),
    };
    Ok(tagged(&list))
}

fn tick(entry: &RecordedFact, name: &TaskName) -> Option<Tick> {
    let Fact::Launched {
        revision,
        cause,
        verdict,
        execution,
        ..
    } = &entry.fact
    else {
        return None;
    };
    let (first, last, count) = match cause {
        Cause::Due { first, last, count } => (*first, *last, *count),
        Cause::Upstream { at, .. } => (*at, *at, 1),
        Cause::Backfill { nominal, .. } => (*nominal, *nominal, 1),
        Cause::Request { .. } => return None,
    };
    let (after, backfill) = match cause {
        Cause::Upstream { execution, .. } => (Some(execution), None),
        Cause::Backfill { backfill, .. } => (None, Some(*backfill)),
        _ => (None, None),
    };
    let (late, reason) = match verdict {
        TickVerdict::Launch => (None, None),
        TickVerdict::Late { by } => (Some(views::seconds(*by)), None),
        TickVerdict::Skip(reason) => (None, Some(*reason)),
    };
    let verdict = match backfill {
        Some(_) => "backfilled",
        None => verdict.word(),
    };
    let mut links = links(name, *execution);
    if let Some(backfill) = backfill {
        links.insert("backfill".to_owned(), backfills::path(backfill));
    }
    Some(Tick {
        seq: entry.seq.0,
        owner: name.owner.clone(),
        name: name.name.clone(),
        revision: revision.0,
        nominal_at: first.0,
        last_at: last.0,
        count,
        recorded_at: entry.at.0,
        verdict: verdict.to_owned(),
        late_seconds: late,
        reason: reason.map(|reason| word(reason).to_owned()),
        text: entry.fact.sentence(None),
        instance: execution
            .and_then(Execution::instance)
            .map(|it| it.to_string()),
        run: execution.and_then(Execution::run).map(|it| it.to_string()),
        after: after.map(ToString::to_string),
        backfill: backfill.map(|it| it.to_string()),
        links,
    })
}

fn links(name: &TaskName, execution: Option<Execution>) -> Links {
    let mut links = views::links([("task", path(name))]);
    match execution {
        Some(Execution::Instance(instance)) => {
            links.insert("instance".to_owned(), views::path(instance, instance));
        }
        Some(Execution::Run(run)) => {
            links.insert("run".to_owned(), runs::path(run));
        }
        None => {}
    }
    links
}

const fn word(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::Missed => "missed",
        SkipReason::CatchUp => "catch-up",
        SkipReason::MaxInstances { .. } => "max-instances",
        SkipReason::QueueFull { .. } => "queue-full",
        SkipReason::LaunchRate => "launch-rate",
        SkipReason::Replaced => "replaced",
        SkipReason::Paused => "paused",
    }
}
