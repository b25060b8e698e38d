//! The client port: a hypermedia API over HTTP/1.1.
//!
//! | file | holds |
//! |---|---|
//! | `app` | the state that all handlers share |
//! | `conditional` | ETags and conditional requests |
//! | `connection` | one client connection, with TLS or without |
//! | `peer` | properties of a connection that its requests carry |
//! | `guard` | checks before every handler: host, origin, credentials, rate limit |
//! | `schemas` | the JSON Schemas of files |
//! | `routes` | the table of routes |
//! | `roles` | authentication, and authorization by role |
//! | `owner` | an owner as a resource |
//! | `owners` | authorization of tokens that are limited to one owner |
//! | `negotiation` | media types that a client accepts |
//! | `problem` | errors |
//! | `redaction` | environment values, which only operators and admins see |
//! | `response` | responses with a body of the API |
//! | `bodies` | reading of bodies, within one budget for all |
//! | `extract` | parsing of paths, queries and bodies |
//! | `instances` | submissions, single instances and ranges |
//! | `arrays` | indices and items of a submission |
//! | `bulk` | cancelling, killing and retrying ranges of instances |
//! | `library` | library tasks, and their triggers |
//! | `backfills` | backfills of library tasks |
//! | `runs` | workflow runs |
//! | `lists` | bullpen, arena, history, timelines |
//! | `attempt` | the attempt that a request is about |
//! | `logs` | output of attempts |
//! | `processes` | processes of attempts |
//! | `ranges` | states and failures of ranges of instances |
//! | `events` | the stream of facts |
//! | `usage` | resource usage by owner and hour, and by task |
//! | `fleet` | workers |
//! | `schedulers` | the schedulers of the store |
//! | `forward` | requests to a follower that only the leader can answer |
//! | `cluster_limits` | cluster-wide limits of resources |
//! | `array_limits` | concurrency limits of arrays |
//! | `shares` | shares of owners in fair turns |
//! | `alarms` | open alarms |
//! | `secrets` | names of secrets |
//! | `notifications` | notifications, and their channels |
//! | `tokens` | tokens |
//! | `views` | conversion of stored records to `baton_model::api` |
//! | `messages` | wait reasons as text |
//! | `metrics` | `/metrics` |
//! | `counters` | the request counters |
//! | `server` | the server itself: links, liveness, readiness |
//! | `openapi` | the OpenAPI document, and its HTML page |
//! | `streams` | streaming responses |
//! | `pages` | web pages, made from answers of the API |
//!
//! Every response has a media type of the API that the client accepts, or is a problem.

mod alarms;
pub(crate) mod app;
mod array_limits;
mod arrays;
mod attempt;
mod backfills;
pub(crate) mod bodies;
mod bulk;
mod cluster_limits;
mod conditional;
mod conditions;
mod connection;
mod counters;
mod details;
mod events;
mod extract;
mod filters;
mod fleet;
mod fleets;
mod forward;
mod guard;
mod idempotency;
mod instances;
mod library;
mod lists;
mod logs;
mod messages;
mod metrics;
mod negotiation;
mod notifications;
pub(crate) mod openapi;
mod owner;
mod owners;
mod pages;
mod peer;
mod problem;
mod processes;
mod ranges;
mod redaction;
mod response;
mod roles;
pub(crate) mod routes;
mod runs;
mod schedulers;
mod schemas;
mod secrets;
mod server;
mod shares;
mod streams;
#[cfg(test)]
mod testing;
mod tokens;
mod trace;
mod usage;
mod views;
mod waits;

pub(crate) use logs::collect::run as collect_logs;

pub use guard::is_our_host;
pub use negotiation::prefers_json;

use std::sync::Arc;

use axum::http::HeaderValue;
use axum::middleware;
use axum::response::Response;
use baton_web::headers;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::accept::Acceptor;
use crate::shutdown::until_shutdown;
use app::App;
use problem::Fault;

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
        .fallback(async || Fault::unknown_path())
        .method_not_allowed_fallback(async || Fault::other_method())
        .layer(middleware::from_fn(negotiation::negotiate))
        .layer(middleware::from_fn_with_state(
            app.clone(),
            forward::to_leader,
        ))
        .layer(middleware::from_fn_with_state(app.clone(), guard::check))
        .layer(middleware::from_fn(conditional::check))
        .layer(middleware::from_fn_with_state(app.clone(), counters::count))
        .with_state(app.clone());
    let router = pages::router(router, app.clone())
        .layer(middleware::from_fn_with_state(app, bodies::hold))
        .layer(middleware::map_response(with_every_header));
    routes::serve(router)
}

/// Adds the header that every response has.
async fn with_every_header(mut response: Response) -> Response {
    let (name, value) = headers::EVERY;
    let value = HeaderValue::from_static(value);
    response.headers_mut().insert(name, value);
    response
}
