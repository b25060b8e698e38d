//! Workers.

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use baton_model::api::{AcceptReply, DrainRequest, List, Worker};
use baton_model::ids::WorkerName;

use super::conditional::tagged_by;
#[cfg(feature = "openapi")]
use super::openapi::answers::{BadBody, BadRequest, NotFound, Unavailable, Unchanged};
use super::problem::{Answer, Fault};
use super::{App, extract, respond, views};
use crate::driver::event::LeaderRequest;

/// All known workers
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/workers/",
    tag = "workers",
    operation_id = "workers",
    responses(
        (status = 200, description = "All on one page.", body = List<Worker>),
        Unchanged, Unavailable
    )
))]
pub(super) async fn list(State(app): State<App>) -> Answer<Response> {
    let workers = app
        .request(|reply| LeaderRequest::Workers { name: None, reply })
        .await?;
    let list = List {
        total: Some(workers.len() as u64),
        items: workers.into_iter().map(views::worker).collect(),
        links: views::links([("self", "/workers/".to_owned())]),
    };
    let matters: Vec<Worker> = list.items.iter().map(lasting).collect();
    Ok(tagged_by(&list, &matters))
}

/// A worker
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/workers/{name}",
    tag = "workers",
    operation_id = "worker",
    params(
        ("name" = String, Path, description = "The name of the worker (its seat)."),
    ),
    responses(
        (status = 200, description = "The worker, as the scheduler knows it.", body = Worker),
        NotFound,
        Unchanged, Unavailable
    )
))]
pub(super) async fn show(State(app): State<App>, Path(name): Path<String>) -> Answer<Response> {
    let worker = app.worker(&name).await?;
    Ok(tagged_by(&worker, &lasting(&worker)))
}

/// Drain or undrain a worker
#[cfg_attr(feature = "openapi", utoipa::path(
    put,
    path = "/workers/{name}/drained",
    tag = "workers",
    operation_id = "drain",
    request_body = DrainRequest,
    params(
        ("name" = String, Path, description = "The name of the worker (its seat)."),
    ),
    responses(
        (status = 200, description = "Changed and durable.", body = Worker),
        BadRequest,
        BadBody,
        NotFound,
        Unavailable
    )
))]
pub(super) async fn drain(
    State(app): State<App>,
    Path(name): Path<String>,
    request: Request,
) -> Answer<Response> {
    let DrainRequest { drained } = extract::body(request).await?;
    app.worker(&name).await?;
    let worker = WorkerName::new(&name);
    let done = app.request(|reply| LeaderRequest::Drain {
        worker,
        drained,
        reply,
    });
    done.await?;
    let worker = app.worker(&name).await?;
    Ok(respond(StatusCode::OK, &worker))
}

/// Declare a worker gone: the operator vouches that none of its processes runs
#[cfg_attr(feature = "openapi", utoipa::path(
    post,
    path = "/workers/{name}/forget",
    tag = "workers",
    operation_id = "forget",
    params(
        ("name" = String, Path, description = "The name of the worker (its seat)."),
    ),
    responses(
        (status = 202, description = "What it held is retried on other workers.", body = AcceptReply),
        NotFound,
        Unavailable
    )
))]
pub(super) async fn forget(State(app): State<App>, Path(name): Path<String>) -> Answer<Response> {
    let worker = WorkerName::new(&name);
    let known = app
        .request(|reply| LeaderRequest::Forget { worker, reply })
        .await?;
    if !known {
        return Err(no_worker(&name));
    }
    let accepted = AcceptReply {
        links: views::links([("workers", "/workers/".to_owned())]),
    };
    Ok(respond(StatusCode::ACCEPTED, &accepted))
}

/// A worker without the fields that change with every heartbeat.
fn lasting(worker: &Worker) -> Worker {
    Worker {
        heard_seconds: 0.0,
        ..worker.clone()
    }
}

fn no_worker(name: &str) -> Fault {
    let name: String = name.chars().take(100).collect();
    Fault::not_found(format!(
        "there is no worker {name:?}; GET /workers/ lists them"
    ))
}

impl App {
    async fn worker(&self, name: &str) -> Answer<Worker> {
        let wanted = Some(WorkerName::new(name));
        let found = self.request(|reply| LeaderRequest::Workers {
            name: wanted,
            reply,
        });
        let found = found.await?.into_iter().next();
        found.map(views::worker).ok_or_else(|| no_worker(name))
    }
}
