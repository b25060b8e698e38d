//! Shares of owners in fair turns.

use axum::extract::{Extension, Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use baton_core::scheduler::{Command, Reply};
use baton_model::api::{FieldProblem, List, SetShare, Share};
use baton_model::limits::SHARE_WEIGHT_MAX;

use super::app::App;
use super::conditional::tagged;
#[cfg(feature = "openapi")]
use super::openapi::answers::Unchanged;
use super::problem::{Answer, Fault};
use super::response::respond;
use super::{extract, views};
use crate::access::Caller;

/// All shares that were set
///
/// Every other owner has weight 1.
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/shares/",
    tag = "limits",
    operation_id = "shares",
    responses(
        (status = 200, description = "All on one page, by owner.", body = List<Share>),
        Unchanged
    )
))]
pub(super) async fn list(State(app): State<App>) -> Answer<Response> {
    let shares = app.shares().await?;
    Ok(tagged(&List {
        total: Some(shares.len() as u64),
        items: shares,
        links: views::links([("self", "/shares/".to_owned())]),
    }))
}

/// Set the share of an owner
///
/// While owners have work waiting of the same priority, one with weight 3 gets three turns for each one of an
/// owner with weight 1. What runs is not touched.
#[cfg_attr(feature = "openapi", utoipa::path(
    put,
    path = "/shares/{owner}",
    tag = "limits",
    operation_id = "set-share",
    params(("owner" = String, Path, description = "The owner.")),
    request_body = SetShare,
    responses(
        (status = 200, description = "Set and durable.", body = Share),
        (status = 422, description = "The owner or the weight is invalid.")
    )
))]
pub(super) async fn set(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(owner): Path<String>,
    request: Request,
) -> Answer<Response> {
    let SetShare { weight } = extract::body(request).await?;
    if owner.is_empty() || owner.chars().any(|c| c == '/' || c.is_control()) {
        let message = "it is not the name of an owner".to_owned();
        let hint = "write one word, as `owner` of a task file has it";
        return Err(unusable("owner", message, hint));
    }
    if !(1..=SHARE_WEIGHT_MAX).contains(&weight) {
        let message = format!("{weight} is not from 1 to {SHARE_WEIGHT_MAX}");
        let hint = "an owner without a share has weight 1";
        return Err(unusable("weight", message, hint));
    }
    change(&app, &caller, &owner, weight).await?;
    Ok(respond(StatusCode::OK, &view(owner, weight)))
}

/// Remove the share of an owner, which then has weight 1
#[cfg_attr(feature = "openapi", utoipa::path(
    delete,
    path = "/shares/{owner}",
    tag = "limits",
    operation_id = "remove-share",
    params(("owner" = String, Path, description = "The owner.")),
    responses((status = 204, description = "Removed and durable."))
))]
pub(super) async fn remove(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(owner): Path<String>,
) -> Answer<StatusCode> {
    if !app.shares().await?.iter().any(|it| it.owner == owner) {
        return Err(Fault::not_found(format!(
            "owner {owner:?} has no share; `baton share ls` lists them"
        )));
    }
    change(&app, &caller, &owner, 1).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn change(app: &App, caller: &Caller, owner: &str, weight: u32) -> Answer<()> {
    let owner = owner.to_owned();
    let set = Command::SetShare { owner, weight };
    let Reply::ShareSet(done) = app.command(caller.principal(), set).await? else {
        return Err(Fault::wrong_reply());
    };
    done.map_err(|error| {
        let hint = "remove one with `baton share rm OWNER`";
        unusable("owner", error.to_string(), hint)
    })
}

fn unusable(field: &str, message: String, hint: &str) -> Fault {
    let at = FieldProblem {
        field: field.to_owned(),
        message: message.clone(),
        hint: hint.to_owned(),
    };
    Fault::unusable(format!("`{field}`: {message}"), vec![at])
}

fn view(owner: String, weight: u32) -> Share {
    let path = format!("/shares/{owner}");
    Share {
        owner,
        weight,
        links: views::links([("self", path)]),
    }
}

impl App {
    async fn shares(&self) -> Answer<Vec<Share>> {
        self.query(|leader| {
            let shares = leader.ledger().shares().iter();
            shares
                .map(|(owner, weight)| view(owner.clone(), *weight))
                .collect()
        })
        .await
    }
}
