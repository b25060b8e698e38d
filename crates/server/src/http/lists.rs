//! Pages: bullpen, arena, history, and timelines.

use axum::extract::{Extension, Path, State};
use axum::http::Uri;
use axum::response::Response;
use baton_model::api::{Event, Instance, InstanceFilter, Links, List, Submitter};
use baton_store::view::{Query, Seq, View};

use super::app::App;
use super::conditional::{tagged, tagged_by};
use super::extract::{self, Parameters};
#[cfg(feature = "openapi")]
use super::openapi::answers::{Page, Unchanged};
use super::problem::Answer;
use super::redaction::visible;
use super::{filters, views};
use crate::access::Caller;
use crate::clock;
use crate::limits::{PAGE_ITEMS_DEFAULT, TIMELINE_EVENTS_MAX};

/// Instances of a page for which the leader is asked why they wait.
const REASONS_MAX: usize = 100;

/// Instances that are ready and have no lease, in the order of submission
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/bullpen/",
    tag = "views",
    operation_id = "bullpen",
    params(
        Page,
        InstanceFilter,
        ("sort" = Option<String>, Query, description = "`submitted`, which is the default, or `-submitted`: the latest first."),
        ("reasons" = Option<bool>, Query, description = "`true`: with the reason for which each of the first 100 waits."),
    ),
    responses(
        (status = 200, description = "A page.", body = List<Instance>),
        Unchanged
    )
))]
pub(super) async fn bullpen(State(app): State<App>, uri: Uri) -> Answer<Response> {
    page(&app, View::Bullpen, "/bullpen/", &uri).await
}

/// Instances that are leased, in the order of submission
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/arena/",
    tag = "views",
    operation_id = "arena",
    params(
        Page,
        InstanceFilter,
        ("sort" = Option<String>, Query, description = "`submitted`, which is the default, or `-submitted`: the latest first."),
    ),
    responses(
        (status = 200, description = "A page.", body = List<Instance>),
        Unchanged
    )
))]
pub(super) async fn arena(State(app): State<App>, uri: Uri) -> Answer<Response> {
    page(&app, View::Arena, "/arena/", &uri).await
}

/// Instances that have ended, most recent first
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/history/",
    tag = "views",
    operation_id = "history",
    params(
        Page,
        InstanceFilter,
        ("sort" = Option<String>, Query, description = "`-ended`, which is the default, or `ended`: the oldest end first."),
    ),
    responses(
        (status = 200, description = "A page.", body = List<Instance>),
        Unchanged
    )
))]
pub(super) async fn history(State(app): State<App>, uri: Uri) -> Answer<Response> {
    page(&app, View::History, "/history/", &uri).await
}

async fn page(app: &App, view: View, path: &str, uri: &Uri) -> Answer<Response> {
    let options = ["cursor", "limit", "sort", "reasons"];
    let (filter, parameters) = filters::read::<InstanceFilter>(uri, view.states(), &options)?;
    let orders = match view {
        View::Bullpen | View::Arena => ["submitted", "-submitted"],
        View::History => ["-ended", "ended"],
    };
    let with_reasons = parameters
        .parsed("reasons", "true or false")?
        .unwrap_or(false);
    let (is_filtered, only) = (!filter.is_by_state_only(), filter.state);
    let query = Query {
        view,
        filter,
        after: parameters.parsed("cursor", "a cursor")?,
        reversed: parameters.is_reversed(orders)?,
        limit: parameters.number("limit")?.unwrap_or(PAGE_ITEMS_DEFAULT),
    };
    let limit = query.items_max();
    let (page, counts) = app
        .read(move |store| Ok((store.page(&query)?, store.counts()?)))
        .await?;
    let in_view = view.states().iter();
    let in_view = in_view.filter(|state| only.is_none_or(|only| only == **state));
    let total: u64 = in_view.filter_map(|state| counts.states.get(state)).sum();
    let now = clock::now().wall;
    let items = page.items.iter();
    let mut items: Vec<Instance> = items.map(|record| views::instance(record, now)).collect();
    app.add_progress(&mut items, &page.items).await?;
    if with_reasons && view == View::Bullpen {
        let explained = &page.items[..page.items.len().min(REASONS_MAX)];
        let reasons = app.reasons(explained).await?;
        for (item, reason) in items.iter_mut().zip(reasons) {
            item.reason = reason;
        }
    }
    let mut links = page_links(path, &parameters, page.next.map(|next| next.to_string()));
    if let Some(next) = page.next.filter(|_| items.len() < limit) {
        links.insert("last".to_owned(), views::path(next.last(), next.last()));
    }
    if view == View::Bullpen {
        links.insert("reasons".to_owned(), "/bullpen/reasons".to_owned());
    }
    if view == View::History {
        links.insert("ticks".to_owned(), "/history/ticks/".to_owned());
    }
    let list = List::<Instance> {
        items,
        total: (!is_filtered).then_some(total),
        links,
    };
    let lasting: Vec<Instance> = list.items.iter().map(views::lasting).collect();
    Ok(tagged_by(&list, &(lasting, list.total, &list.links)))
}

/// Timeline of an instance, oldest event first
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/instances/{id}/timeline",
    tag = "instances",
    operation_id = "timeline",
    params(
        ("cursor" = Option<u64>, Query, description = "Start after the event of this number; from the link `next`."),
        ("limit" = Option<u64>, Query, description = "Maximum number of entries."),
    ),
    responses(
        (status = 200, description = "Events.", body = List<Event>),
        Unchanged
    )
))]
pub(super) async fn timeline(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    uri: Uri,
) -> Answer<Response> {
    let id = extract::instance(&id)?;
    let parameters = Parameters::of(&uri, &["cursor", "limit"])?;
    let after = parameters.number("cursor")?.map(Seq);
    let limit = parameters.number("limit")?.unwrap_or(TIMELINE_EVENTS_MAX);
    app.record(id).await?;
    let page = app
        .read(move |store| store.timeline(id, after, limit))
        .await?;
    let more = page.next.is_some();
    let next = page.items.last().filter(|_| more);
    let next = next.map(|entry| entry.seq.0.to_string());
    let events = page.items.into_iter().map(|entry| Event {
        seq: entry.seq.0,
        at: entry.at.0,
        epoch: entry.epoch.number().into(),
        text: entry.fact.sentence(entry.requested_by.as_deref()),
        fact: entry.fact,
        requested_by: entry.requested_by.as_deref().map(Submitter::from),
        links: Links::new(),
    });
    let path = format!("{}/timeline", views::path(id, id));
    let list = List {
        items: events.collect(),
        total: None,
        links: page_links(&path, &parameters, next),
    };
    Ok(tagged(&visible(&caller, &list)))
}

pub(super) fn page_links(path: &str, parameters: &Parameters, next: Option<String>) -> Links {
    let filters: Vec<String> = parameters
        .filters()
        .map(|(name, value)| format!("{name}={}", views::encoded(value)))
        .collect();
    let with = |more: Option<String>| {
        let all: Vec<String> = filters.iter().cloned().chain(more).collect();
        if all.is_empty() {
            path.to_owned()
        } else {
            format!("{path}?{}", all.join("&"))
        }
    };
    let here = parameters.text("cursor");
    let here = here.map(|cursor| format!("cursor={}", views::encoded(cursor)));
    let mut links = views::links([("self", with(here))]);
    if let Some(next) = next {
        links.insert("next".to_owned(), with(Some(format!("cursor={next}"))));
    }
    links
}
