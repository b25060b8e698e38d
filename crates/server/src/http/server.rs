//! The server itself: links, liveness and readiness.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use baton_model::api::{Links, Readiness, Root, SchedulerRole, Tzdata};

use super::app::App;
use super::conditional;
#[cfg(feature = "openapi")]
use super::openapi::answers::Unchanged;
use super::response::respond;
use crate::driver::Status;

/// Links to all resources
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/",
    tag = "server",
    operation_id = "root",
    responses(
        (status = 200, description = "Links to all resources.", body = Root),
        Unchanged
    )
))]
pub(super) async fn root(State(app): State<App>) -> Response {
    let links = [
        ("self", "/"),
        ("submit", "POST /instances/"),
        ("runs", "/runs/"),
        ("submit-run", "POST /runs/"),
        ("bullpen", "/bullpen/"),
        ("arena", "/arena/"),
        ("history", "/history/"),
        ("ticks", "/history/ticks/"),
        ("library", "/library/"),
        ("workers", "/workers/"),
        ("schedulers", "/schedulers/"),
        ("fleets", "/fleets/"),
        ("limits", "/limits/"),
        ("alarms", "/alarms/"),
        ("notifications", "/notifications/"),
        ("secrets", "/secrets/"),
        ("usage", "/usage/"),
        ("events", "/events"),
        ("tokens", "/tokens/"),
        ("health", "/healthz"),
        ("ready", "/readyz"),
        ("metrics", "/metrics"),
        ("openapi", "/openapi.json"),
        ("docs", "/docs"),
        ("task-schema", "/schemas/task.json"),
        ("workflow-schema", "/schemas/workflow.json"),
    ];
    let links: Links = links
        .into_iter()
        .map(|(relation, path)| (relation.to_owned(), path.to_owned()))
        .collect();
    let tzdata = baton_core::clock::tzdata();
    let root = Root {
        name: "baton".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        build: baton_service::build_id().map(str::to_owned),
        tzdata: Tzdata {
            version: tzdata.version.map(str::to_owned),
            source: tzdata.source.to_owned(),
        },
        local_worker: app.0.local_worker.clone(),
        links,
    };
    conditional::tagged(&root)
}

/// Liveness of the process
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/healthz",
    tag = "server",
    operation_id = "health",
    responses(
        (status = 200, description = "The process is alive.", body = String)
    )
))]
pub(super) async fn health() -> &'static str {
    "ok"
}

/// Readiness: whether the server leads and its store accepts writes, or follows a leader
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/readyz",
    tag = "server",
    operation_id = "ready",
    responses(
        (status = 200, description = "Ready.", body = Readiness),
        (status = 503, description = "Not ready; `reason` names the cause.", body = Readiness)
    )
))]
pub(super) async fn ready(State(app): State<App>) -> Response {
    let status = app.0.status.borrow().clone();
    match status {
        Status::Leading(epoch) => {
            let ready = Readiness {
                ready: true,
                role: Some(SchedulerRole::Leader),
                epoch: Some(epoch.number().into()),
                reason: None,
            };
            respond(StatusCode::OK, &ready)
        }
        Status::Following(reason) => {
            let status = match reason {
                None => StatusCode::OK,
                Some(_) => StatusCode::SERVICE_UNAVAILABLE,
            };
            let ready = Readiness {
                ready: reason.is_none(),
                role: Some(SchedulerRole::Follower),
                epoch: None,
                reason,
            };
            respond(status, &ready)
        }
        Status::Failed(reason) => {
            let ready = Readiness {
                ready: false,
                role: None,
                epoch: None,
                reason: Some(reason),
            };
            respond(StatusCode::SERVICE_UNAVAILABLE, &ready)
        }
    }
}
