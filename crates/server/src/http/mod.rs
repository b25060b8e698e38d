//! The client port: a hypermedia API over HTTP/1.1.
//!
//! | file | holds |
//! |---|---|
//! | `conditional` | ETags and conditional requests |
//! | `connection` | one client connection, with TLS or without |
//! | `peer` | properties of a connection that its requests carry |
//! | `guard` | checks before every handler: host, origin, credentials, rate limit |
//! | `routes` | the table of routes |
//! | `roles` | authentication, and authorization by role |
//! | `owners` | authorization of tokens that are limited to one owner |
//! | `problem` | errors |
//! | `extract` | parsing of paths, queries and bodies |
//! | `instances` | submissions, single instances and ranges |
//! | `library` | library tasks, and their triggers |
//! | `runs` | workflow runs |
//! | `lists` | bullpen, arena, history, timelines |
//! | `logs` | output of attempts |
//! | `events` | the stream of facts |
//! | `usage` | resource usage by owner and hour |
//! | `fleet` | workers |
//! | `tokens` | tokens |
//! | `views` | conversion of stored records to `baton_model::api` |
//! | `messages` | facts and wait reasons as text |
//! | `metrics` | `/metrics` |
//! | `counters` | the request counters |
//! | `server` | the server itself: links, liveness, readiness |
//! | `openapi` | the OpenAPI document, and its HTML page |
//! | `streams` | streaming responses |
//!
//! Every response has the media type of the API or is a problem, whatever the client accepts.

mod conditional;
mod connection;
mod counters;
mod events;
mod extract;
mod fleet;
mod guard;
mod idempotency;
mod instances;
mod library;
mod lists;
mod logs;
mod messages;
mod metrics;
pub(crate) mod openapi;
mod owners;
mod peer;
mod problem;
mod roles;
pub(crate) mod routes;
mod runs;
mod server;
mod streams;
#[cfg(test)]
mod testing;
mod tokens;
mod usage;
mod views;

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Json, middleware};
use baton_core::scheduler::{Command, Reply, Scheduler};
use baton_model::api::MEDIA_TYPE;
use baton_store::{Store, StoreError};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::timeout;

use crate::accept::Acceptor;
use crate::access::Access;
use crate::driver::Status;
use crate::driver::event::{Event, Inbox, StoreFailed};
use crate::library::Problems;
use crate::limits::{ANSWER_WAIT, BODY_BYTES_MAX, STREAMS_MAX};
use crate::metrics::Metrics;
use crate::prune::HistoryLock;
use crate::rate_limit::RateLimiter;
use crate::until_shutdown;
use problem::{Answer, Fault};

/// Concurrent store reads: each needs a thread and a connection of its own.
const READERS_MAX: usize = 8;

/// Concurrent store reads for event streams, counted apart so that they do not starve other reads.
const FOLLOW_READERS_MAX: usize = 2;

/// Shared state of all handlers.
#[derive(Clone)]
pub(crate) struct App(Arc<Inner>);

struct Inner {
    parts: Parts,
    readers: Arc<Semaphore>,
    follow_readers: Arc<Semaphore>,
    /// Permits of streaming responses.
    streams: Arc<Semaphore>,
    ended_runs: runs::EndedRuns,
}

/// The parts of an [`App`].
pub(crate) struct Parts {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) inbox: Inbox,
    pub(crate) status: watch::Receiver<Status>,
    pub(crate) history: HistoryLock,
    pub(crate) address: SocketAddr,
    pub(crate) access: Access,
    /// Whether clients must authenticate.
    pub(crate) requires_credentials: bool,
    pub(crate) rate_limit: RateLimiter,
    pub(crate) shutdown: watch::Receiver<bool>,
    /// Changes whenever facts were committed.
    pub(crate) committed: watch::Receiver<()>,
    pub(crate) metrics: Arc<Metrics>,
    /// Errors of library files.
    pub(crate) problems: Problems,
}

impl Deref for Inner {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.parts
    }
}

impl App {
    pub(crate) fn new(parts: Parts) -> Self {
        Self(Arc::new(Inner {
            parts,
            readers: Arc::new(Semaphore::new(READERS_MAX)),
            follow_readers: Arc::new(Semaphore::new(FOLLOW_READERS_MAX)),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            ended_runs: runs::EndedRuns::default(),
        }))
    }

    /// Carries out a command, and waits until it is durable.
    async fn command(&self, command: Command) -> Answer<Reply> {
        answered(self.0.inbox.command(command)).await
    }

    /// Reads the memory of the leader, on its thread.
    async fn query<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Scheduler) -> T + Send + 'static,
    ) -> Answer<T> {
        let (reply, answer) = oneshot::channel();
        let query = Box::new(move |leader: Result<&Scheduler, StoreFailed>| {
            // The client may be gone.
            let _ = reply.send(leader.map(query));
        });
        self.0.inbox.send(Event::Query(query));
        answered(answer).await
    }

    /// Reads from the store, on a blocking thread.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Answer<T> {
        self.read_with(&self.0.readers, read).await
    }

    /// The same, for event streams.
    async fn follow_read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Answer<T> {
        self.read_with(&self.0.follow_readers, read).await
    }

    async fn read_with<T: Send + 'static>(
        &self,
        readers: &Arc<Semaphore>,
        read: impl FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Answer<T> {
        // The semaphore is never closed, so a permit always comes.
        let permit = Arc::clone(readers).acquire_owned().await;
        let store = Arc::clone(&self.0.store);
        let work = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            read(&*store)
        });
        match work.await {
            Ok(found) => Ok(found?),
            Err(error) => Err(Fault::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "bug",
                format!("reading the store failed: {error}"),
            )),
        }
    }
}

/// Waits for an answer of the leader.
async fn answered<T>(answer: oneshot::Receiver<Result<T, StoreFailed>>) -> Answer<T> {
    match timeout(ANSWER_WAIT, answer).await {
        Ok(Ok(answer)) => Ok(answer?),
        Ok(Err(_)) | Err(_) => Err(Fault::no_answer()),
    }
}

/// Serves clients until shutdown, and then finishes the requests in flight.
pub(crate) async fn listen(
    listener: TcpListener,
    acceptor: Acceptor,
    app: App,
    mut shutdown: watch::Receiver<bool>,
) {
    let service = service(app);
    let acceptor = Arc::new(acceptor);
    loop {
        let (stream, peer, slot) = tokio::select! {
            () = until_shutdown(&mut shutdown) => break,
            next = acceptor.next(&listener) => next,
        };
        let (service, shutdown) = (service.clone(), shutdown.clone());
        let acceptor = Arc::clone(&acceptor);
        tokio::spawn(async move {
            connection::accept_client(stream, peer, service, shutdown, &acceptor).await;
            drop(slot);
        });
    }
    drop(listener);
    acceptor.until_idle().await;
}

/// All routes, behind the checks and counters of every request.
fn service(app: App) -> routes::Service {
    let router = routes::router()
        .fallback(unknown)
        .method_not_allowed_fallback(other_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(app.clone(), guard::check))
        .layer(middleware::from_fn(conditional::check))
        .layer(middleware::from_fn_with_state(app.clone(), counters::count))
        .with_state(app);
    routes::serve(router)
}

/// A response with the media type of the API.
fn respond(status: StatusCode, body: &impl Serialize) -> Response {
    let mut response = (status, Json(body)).into_response();
    let media = HeaderValue::from_static(MEDIA_TYPE);
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response
}

async fn unknown() -> Fault {
    Fault::not_found("no resource at this path; GET / lists the resources")
}

async fn other_method() -> Fault {
    Fault::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method-not-allowed",
        "this path does not support the method; the header Allow lists the supported ones",
    )
}
