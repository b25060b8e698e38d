//! Workers.

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use baton_model::api::{Drained, List, Worker};
use baton_model::ids::WorkerName;

use super::problem::{Answer, Fault};
use super::{App, given, shape, shown};
use crate::driver::mail::Ask;

/// `GET /workers/`
pub(super) async fn list(State(app): State<App>) -> Answer<Response> {
    let workers = app.ask(|reply| Ask::Workers { name: None, reply }).await?;
    let list = List {
        total: Some(workers.len() as u64),
        items: workers.into_iter().map(shape::worker).collect(),
        links: shape::links([("self", "/workers/".to_owned())]),
    };
    Ok(shown(StatusCode::OK, &list))
}

/// `GET /workers/{name}`
pub(super) async fn show(State(app): State<App>, Path(name): Path<String>) -> Answer<Response> {
    let worker = app.worker(&name).await?;
    Ok(shown(StatusCode::OK, &worker))
}

/// `PUT /workers/{name}/drained`
pub(super) async fn drain(
    State(app): State<App>,
    Path(name): Path<String>,
    request: Request,
) -> Answer<Response> {
    let Drained { drained } = given::body(request).await?;
    app.worker(&name).await?;
    let worker = WorkerName::new(&name);
    let done = app.ask(|reply| Ask::Drain {
        worker,
        drained,
        reply,
    });
    done.await?;
    let worker = app.worker(&name).await?;
    Ok(shown(StatusCode::OK, &worker))
}

/// `POST /workers/{name}/forget`
pub(super) async fn forget(State(app): State<App>, Path(name): Path<String>) -> Answer<Response> {
    let worker = WorkerName::new(&name);
    let known = app.ask(|reply| Ask::Forget { worker, reply }).await?;
    if !known {
        return Err(no_worker(&name));
    }
    let accepted = shape::links([("workers", "/workers/".to_owned())]);
    Ok(shown(StatusCode::ACCEPTED, &accepted))
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
        let found = self.ask(|reply| Ask::Workers {
            name: wanted,
            reply,
        });
        let found = found.await?.into_iter().next();
        found.map(shape::worker).ok_or_else(|| no_worker(name))
    }
}
