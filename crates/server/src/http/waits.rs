//! What all that waits is waiting for, in groups.

use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use baton_model::api::{List, WaitGroup};

use super::app::App;
use super::conditional::tagged;
use super::extract::Parameters;
#[cfg(feature = "openapi")]
use super::openapi::answers::Unchanged;
use super::problem::Answer;
use super::views;
use crate::clock;

/// What queued instances wait for: one group for each reason, the largest first
///
/// `total` also counts instances whose reasons are not looked up: beyond 100 classes of equal requests, and beyond
/// 10,000 in backoff or after other work.
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/bullpen/reasons",
    tag = "views",
    operation_id = "wait-groups",
    params(
        ("owner" = Option<String>, Query, description = "Only instances of this owner."),
    ),
    responses(
        (status = 200, description = "The groups.", body = List<WaitGroup>),
        Unchanged
    )
))]
pub(super) async fn list(State(app): State<App>, uri: Uri) -> Answer<Response> {
    let parameters = Parameters::of(&uri, &["owner"])?;
    let owner = parameters.text("owner").map(str::to_owned);
    let groups = app.query(move |leader| leader.wait_groups(owner.as_deref(), clock::now()));
    let groups = groups.await?;
    let items = groups.groups.iter().map(|group| {
        let path = views::path(group.first, group.first);
        WaitGroup {
            count: group.count,
            first: group.first.to_string(),
            reason: group.wait.reason.word().to_owned(),
            text: group.wait.first_text(),
            links: views::links([("explain", format!("{path}/explain")), ("instance", path)]),
        }
    });
    let items: Vec<WaitGroup> = items.collect();
    let counted: u64 = items.iter().map(|group| group.count).sum();
    let list = List {
        items,
        total: Some(counted + groups.others),
        links: views::links([
            ("self", "/bullpen/reasons".to_owned()),
            ("bullpen", "/bullpen/".to_owned()),
        ]),
    };
    Ok(tagged(&list))
}
