//! An owner as a resource: links to what belongs to it.

use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::Response;
use baton_model::api::{InstanceFilter, Owner, RunFilter};
use baton_model::library::RESERVED_OWNERS;
use baton_store::usage::{Hour, UsageQuery};
use baton_store::view::{Query, RunQuery, TaskQuery, View};
use baton_store::{StoreError, Views};

use super::app::App;
use super::conditional::tagged;
use super::extract::Parameters;
#[cfg(feature = "openapi")]
use super::openapi::answers::Unchanged;
use super::problem::{Answer, Fault};
use super::views;
use crate::clock;

/// Lists that can be filtered by an owner, by relation.
const LISTS: &[(&str, &str)] = &[
    ("secrets", "/secrets/"),
    ("bullpen", "/bullpen/"),
    ("arena", "/arena/"),
    ("history", "/history/"),
    ("runs", "/runs/"),
    ("backfills", "/backfills/"),
    ("alarms", "/alarms/"),
    ("notifications", "/notifications/"),
    ("events", "/events"),
];

/// An owner
///
/// Links to what belongs to it. An owner is a name: it is there as soon as anything has it, and nothing
/// creates it. One that has no entry in the library, no run, no secret, no instance that waits or runs, and no usage
/// that is kept, is unknown.
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/{owner}/",
    tag = "owners",
    operation_id = "owner",
    params(("owner" = String, Path, description = "The owner.")),
    responses(
        (status = 200, description = "The owner.", body = Owner),
        Unchanged
    )
))]
pub(super) async fn show(
    State(app): State<App>,
    Path(owner): Path<String>,
    uri: Uri,
) -> Answer<Response> {
    check_name(&owner)?;
    Parameters::of(&uri, &[])?;
    let name = owner.clone();
    if !app.read(move |store| is_known(store, &name)).await? {
        return Err(unknown(&owner));
    }
    let path = path(&owner);
    let mut links = views::links([
        ("self", path.clone()),
        ("tasks", format!("{path}tasks/")),
        ("create-task", format!("POST {path}tasks/")),
        ("usage", format!("{path}usage")),
    ]);
    let encoded = views::encoded(&owner);
    let lists = LISTS.iter();
    links.extend(
        lists.map(|(relation, list)| ((*relation).to_owned(), format!("{list}?owner={encoded}"))),
    );
    Ok(tagged(&Owner { name: owner, links }))
}

/// The path of an owner, with its slash.
pub(super) fn path(owner: &str) -> String {
    format!("/{}/", views::encoded(owner))
}

/// Rejects the first segments of other paths: no owner has them.
pub(super) fn check_name(owner: &str) -> Answer<()> {
    if RESERVED_OWNERS.contains(&owner) {
        return Err(Fault::unknown_path());
    }
    Ok(())
}

fn unknown(owner: &str) -> Fault {
    let short: String = owner.chars().take(200).collect();
    Fault::not_found(format!(
        "there is no resource {short:?}, and nothing of an owner of this name; GET / lists the resources"
    ))
}

/// Whether anything belongs to an owner. What has ended is in its usage. Where other work waits that was not
/// looked through, it may.
fn is_known(store: &dyn Views, owner: &str) -> Result<bool, StoreError> {
    let of = || Some(owner.to_owned());
    let entries = store.tasks(&TaskQuery {
        owner: of(),
        after: None,
        limit: 1,
    })?;
    let usage = store.usage(&UsageQuery {
        owner: of(),
        from: Hour(0),
        to: Hour::of(clock::now().wall),
        after: None,
        limit: 1,
    })?;
    if !entries.items.is_empty() || !usage.items.is_empty() {
        return Ok(true);
    }
    for view in [View::Arena, View::Bullpen] {
        let mut query = Query::first(view, 1);
        query.filter = InstanceFilter {
            owner: of(),
            ..InstanceFilter::default()
        };
        let page = store.page(&query)?;
        if !page.items.is_empty() || page.next.is_some() {
            return Ok(true);
        }
    }
    let runs = store.runs(&RunQuery {
        filter: RunFilter {
            owner: of(),
            ..RunFilter::default()
        },
        oldest_first: false,
        after: None,
        limit: 1,
    })?;
    let mut secrets = store.secrets()?.into_iter();
    Ok(!runs.items.is_empty() || secrets.any(|secret| secret.owner == owner))
}
