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

/// The links of the root. One with braces is a URI template (RFC 6570).
const LINKS: &[(&str, &str)] = &[
    ("self", "/"),
    ("submit", "POST /instances/"),
    ("runs", "/runs/"),
    ("submit-run", "POST /runs/"),
    ("bullpen", "/bullpen/"),
    ("reasons", "/bullpen/reasons"),
    ("arena", "/arena/"),
    ("history", "/history/"),
    ("ticks", "/history/ticks/"),
    ("library", "/library/"),
    ("create-task", "POST /{owner}/tasks/"),
    ("owner", "/{owner}/"),
    ("backfills", "/backfills/"),
    ("workers", "/workers/"),
    ("schedulers", "/schedulers/"),
    ("fleets", "/fleets/"),
    ("limits", "/limits/"),
    ("shares", "/shares/"),
    ("alarms", "/alarms/"),
    ("notifications", "/notifications/"),
    ("channels", "/notifications/channels/"),
    ("secrets", "/secrets/"),
    ("usage", "/usage/"),
    ("task-usage", "/usage/tasks/"),
    ("fleet-usage", "/usage/fleets/"),
    ("events", "/events"),
    ("tokens", "/tokens/"),
    ("health", "/healthz"),
    ("ready", "/readyz"),
    ("metrics", "/metrics"),
    ("openapi", "/openapi.json"),
    ("docs", "/docs"),
    ("task-schema", "/schemas/task.json"),
    ("workflow-schema", "/schemas/workflow.json"),
    ("fleets-schema", "/schemas/fleets.json"),
];

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
    let links: Links = LINKS
        .iter()
        .map(|(relation, target)| ((*relation).to_owned(), (*target).to_owned()))
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

#[cfg(test)]
mod tests {
    use super::super::routes::ROUTES;
    use super::*;

    /// The link that a route needs: GET has the path alone.
    fn target(method: &str, path: &str) -> String {
        match method {
            "GET" => path.to_owned(),
            method => format!("{method} {path}"),
        }
    }

    #[test]
    fn the_root_links_to_every_collection_of_the_route_table() {
        let is_linked = |target: &str| LINKS.iter().any(|(_, it)| *it == target);
        for route in ROUTES {
            let name = route.path.trim_matches('/');
            let is_read = route.method == "GET" && !name.contains('{');
            // Where something is created by a client, as far as no other object is needed for it.
            let is_created =
                route.method == "POST" && route.path.ends_with('/') && !name.contains(['{', '/']);
            let has_reader = ROUTES
                .iter()
                .any(|it| it.path == route.path && it.method == "GET");
            if is_read || (is_created && !has_reader) {
                let target = target(route.method, route.path);
                assert!(
                    is_linked(&target),
                    "GET / has no link to `{target}`: add it to LINKS in http/server.rs"
                );
            }
        }
    }

    #[test]
    fn each_link_of_the_root_is_a_route_and_named_once() {
        for (place, (relation, link)) in LINKS.iter().enumerate() {
            let is_it = |it: &super::super::routes::Route| target(it.method, it.path) == *link;
            assert!(ROUTES.iter().any(is_it), "{relation}: {link} is no route");
            let mut others = LINKS[place + 1..].iter();
            assert!(
                !others.any(|(it, to)| it == relation || to == link),
                "{relation} {link} twice"
            );
        }
    }
}
