//! The client port: a hypermedia API over HTTP/1.1.
//!
//! | file | holds |
//! |---|---|
//! | `conditional` | ETags and conditional requests |
//! | `connection` | one client connection, with TLS or without |
//! | `peer` | properties of a connection that its requests carry |
//! | `guard` | checks before every handler: host, origin, credentials, rate limit |
//! | `roles` | the role that each route requires |
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
//! | `metrics` | `/metrics`, and the request counters |
//! | `openapi` | the OpenAPI document, and its HTML page |
//! | `routes` | a router that knows its paths |
//! | `streams` | streaming responses |
//!
//! Every response has the media type of the API or is a problem, whatever the client accepts.

mod conditional;
mod connection;
mod events;
mod extract;
mod fleet;
mod guard;
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
pub(crate) mod roles;
mod routes;
mod runs;
mod streams;
#[cfg(test)]
mod testing;
mod tokens;
mod usage;
mod views;

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post, put};
use axum::{Json, Router, middleware};
use baton_model::api::{Links, MEDIA_TYPE, Readiness, Root};
use baton_store::{Store, StoreError};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::timeout;

use crate::accept::Acceptor;
use crate::access::Access;
use crate::driver::Status;
use crate::driver::event::{Event, Inbox, LeaderRequest, Reply};
use crate::library::Problems;
use crate::limits::{ANSWER_WAIT, BODY_BYTES_MAX, STREAMS_MAX, WORKFLOW_BYTES_MAX};
use crate::metrics::Metrics;
use crate::prune::HistoryLock;
use crate::rate_limit::RateLimiter;
use crate::until_shutdown;
#[cfg(feature = "openapi")]
use openapi::answers::Unchanged;
use problem::{Answer, Fault};
use routes::Routes;

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

    /// Sends a request to the driver, and waits for the answer.
    async fn request<T>(&self, request: impl FnOnce(Reply<T>) -> LeaderRequest) -> Answer<T> {
        let (reply, answer) = oneshot::channel();
        self.0.inbox.send(Event::Request(request(reply)));
        match timeout(ANSWER_WAIT, answer).await {
            Ok(Ok(answer)) => Ok(answer?),
            Ok(Err(_)) | Err(_) => Err(Fault::no_answer()),
        }
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

/// Serves clients until shutdown, and then finishes the requests in flight.
pub(crate) async fn listen(
    listener: TcpListener,
    acceptor: Acceptor,
    app: App,
    mut shutdown: watch::Receiver<bool>,
) {
    let router = router(app);
    let acceptor = Arc::new(acceptor);
    loop {
        let (stream, peer, slot) = tokio::select! {
            () = until_shutdown(&mut shutdown) => break,
            next = acceptor.next(&listener) => next,
        };
        let (router, shutdown) = (router.clone(), shutdown.clone());
        let acceptor = Arc::clone(&acceptor);
        tokio::spawn(async move {
            connection::accept_client(stream, peer, router, shutdown, &acceptor).await;
            drop(slot);
        });
    }
    drop(listener);
    acceptor.until_idle().await;
}

fn router(app: App) -> Router {
    routes()
        .into_router()
        .fallback(unknown)
        .method_not_allowed_fallback(other_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(app.clone(), guard::check))
        .layer(middleware::from_fn(conditional::check))
        .layer(middleware::from_fn_with_state(app.clone(), metrics::count))
        .with_state(app)
}

fn routes() -> Routes {
    let instance = get(instances::show).delete(instances::cancel);
    let tokens = get(tokens::list).post(tokens::create);
    let tasks = get(library::read::of_owner).post(library::change::create);
    let task = get(library::read::show)
        .put(library::change::replace)
        .delete(library::change::remove);
    let revisions = get(library::read::revisions);
    let ticks = get(library::ticks::of_task);
    // A workflow of a million items is larger than any other body.
    let large = DefaultBodyLimit::max(WORKFLOW_BYTES_MAX);
    let runs = get(runs::read::list)
        .post(runs::change::submit)
        .layer(large);
    let run = get(runs::read::show).delete(runs::change::kill);
    let run_tasks = get(runs::read::tasks)
        .post(runs::change::extend)
        .layer(large);
    let resume = post(runs::resume::resume).layer(large);
    Routes::default()
        .route("/", get(root))
        .route("/healthz", get(health))
        .route("/readyz", get(ready))
        .route("/openapi.json", get(openapi::document))
        .route("/docs", get(openapi::docs))
        .route("/metrics", get(metrics::show))
        .route("/instances", post(instances::submit))
        .route("/instances/", post(instances::submit))
        .route("/instances/{id}", instance)
        .route("/instances/{id}/retry", post(instances::retry))
        .route("/instances/{id}/timeline", get(lists::timeline))
        .route("/instances/{id}/explain", get(instances::explain))
        .route("/instances/{id}/logs/{stream}", get(logs::read))
        .route("/runs", runs.clone())
        .route("/runs/", runs)
        .route("/runs/{run}", run)
        .route("/runs/{run}/tasks", run_tasks.clone())
        .route("/runs/{run}/tasks/", run_tasks)
        .route("/runs/{run}/items", get(runs::items::list))
        .route("/runs/{run}/items/", get(runs::items::list))
        .route("/runs/{run}/errors", get(runs::read::errors))
        .route("/runs/{run}/start", post(runs::change::start))
        .route("/runs/{run}/halt", post(runs::change::halt))
        .route("/runs/{run}/resume", resume)
        .route("/runs/{run}/retry", post(runs::resume::retry))
        .route("/bullpen", get(lists::bullpen))
        .route("/bullpen/", get(lists::bullpen))
        .route("/arena", get(lists::arena))
        .route("/arena/", get(lists::arena))
        .route("/history", get(lists::history))
        .route("/history/", get(lists::history))
        .route("/history/ticks", get(library::ticks::all))
        .route("/history/ticks/", get(library::ticks::all))
        .route("/library", get(library::read::list))
        .route("/library/", get(library::read::list))
        .route("/{owner}/tasks", tasks.clone())
        .route("/{owner}/tasks/", tasks)
        .route("/{owner}/tasks/{name}", task)
        .route("/{owner}/tasks/{name}/due", get(library::read::due))
        .route("/{owner}/tasks/{name}/revisions", revisions.clone())
        .route("/{owner}/tasks/{name}/revisions/", revisions)
        .route("/{owner}/tasks/{name}/ticks", ticks.clone())
        .route("/{owner}/tasks/{name}/ticks/", ticks)
        .route("/{owner}/tasks/{name}/run", post(library::trigger::by_hand))
        .route(
            "/{owner}/tasks/{name}/trigger",
            post(library::trigger::remote),
        )
        .route("/events", get(events::follow))
        .route("/usage", get(usage::list))
        .route("/usage/", get(usage::list))
        .route("/workers", get(fleet::list))
        .route("/workers/", get(fleet::list))
        .route("/workers/{name}", get(fleet::show))
        .route("/workers/{name}/drained", put(fleet::drain))
        .route("/workers/{name}/forget", post(fleet::forget))
        .route("/tokens", tokens.clone())
        .route("/tokens/", tokens)
        .route("/tokens/{id}", delete(tokens::revoke))
}

/// A response with the media type of the API.
fn respond(status: StatusCode, body: &impl Serialize) -> Response {
    let mut response = (status, Json(body)).into_response();
    let media = HeaderValue::from_static(MEDIA_TYPE);
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response
}

/// Links to all resources
#[cfg_attr(feature = "openapi", utoipa::path(
    get,
    path = "/",
    tag = "server",
    operation_id = "root",
    responses((status = 200, description = "Links to all resources.", body = Root), Unchanged)
))]
async fn root() -> Response {
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
        ("usage", "/usage/"),
        ("events", "/events"),
        ("tokens", "/tokens/"),
        ("health", "/healthz"),
        ("ready", "/readyz"),
        ("metrics", "/metrics"),
        ("openapi", "/openapi.json"),
        ("docs", "/docs"),
    ];
    let links: Links = links
        .into_iter()
        .map(|(relation, path)| (relation.to_owned(), path.to_owned()))
        .collect();
    let root = Root {
        name: "baton".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
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
    responses((status = 200, description = "The process is alive.", body = String))
))]
async fn health() -> &'static str {
    "ok"
}

/// Readiness: whether the server leads and its store accepts writes
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
async fn ready(State(app): State<App>) -> Response {
    let status = app.0.status.borrow().clone();
    match status {
        Status::Leading(epoch) => {
            let ready = Readiness {
                ready: true,
                epoch: Some(epoch.0),
                reason: None,
            };
            respond(StatusCode::OK, &ready)
        }
        Status::Failed(reason) => {
            let ready = Readiness {
                ready: false,
                epoch: None,
                reason: Some(reason),
            };
            respond(StatusCode::SERVICE_UNAVAILABLE, &ready)
        }
    }
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
