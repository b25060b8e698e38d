//! Resource usage by owner and hour.

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use baton_model::api::{List, Usage};
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
