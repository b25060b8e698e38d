//! Open alarms.

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use baton_model::api::{Alarm, List};

use super::app::App;
use super::conditional::tagged;
use super::extract::Parameters;
#[cfg(feature = "openapi")]
use super::openapi::answers::Unchanged;
use super::problem::Answer;
use super::views;
use crate::limits::PAGE_ITEMS_DEFAULT;

/// Open alarms, the oldest first
///
/// Work that is late, slow, short or stuck. An alarm ends with its work or, if it was stuck, when it is
/// placed. The first 1,000 at most; `total` counts all.
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/alarms/",
    tag = "views",
    operation_id = "alarms",
    params(
        ("owner" = Option<String>, Query, description = "Only about work of this owner."),
        ("limit" = Option<u64>, Query, description = "Maximum number of alarms, at most 1,000."),
    ),
    responses(
        (status = 200, description = "The oldest alarms.", body = List<Alarm>),
        Unchanged
    )
))]
pub(super) async fn list(State(app): State<App>, uri: Uri) -> Answer<Response> {
    let parameters = Parameters::of(&uri, &["owner", "limit"])?;
    let owner = parameters.text("owner").map(str::to_owned);
    let limit = parameters.number("limit")?.unwrap_or(PAGE_ITEMS_DEFAULT);
    let page = app
        .read(move |store| store.alarms(owner.as_deref(), limit.clamp(1, ALARMS_MAX)))
        .await?;
    let list = List {
        items: page.alarms.into_iter().map(Alarm::from).collect(),
        total: Some(page.counts.values().sum()),
        links: views::links([("self", "/alarms/".to_owned())]),
    };
    Ok(tagged(&list))
}

/// Alarms in one answer. More of them are one problem, not a list to read.
const ALARMS_MAX: usize = 1_000;
