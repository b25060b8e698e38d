//! The observer of a host: web pages of its tasks, without a scheduler.
//!
//! Strictly read-only: it answers GET alone, writes no file and signals no process.
//!
//! | module | holds |
//! |---|---|
//! | `access` | the key of the address, and the header *Host* |
//! | `tasks` | the tasks of the roots: listed, found by an address, read |
//! | `pages` | the page of each address |
//! | `format` | the choice between a page and JSON |
//! | `download` | a whole log |
//! | [`status`], [`messages`], [`resume`] | states and events of a task in words, which `baton local` prints, too |
//!
//! An address names a task by the key of its root and by its id. Both are looked up in what the
//! roots list; no part of an address becomes a path, and no link below a root is followed.

mod access;
mod download;
mod format;
pub mod messages;
mod pages;
pub mod resume;
pub mod status;
mod tasks;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::http::HeaderValue;
use axum::middleware;
use axum::response::Response;
use axum::routing::get;
use baton_web::headers;
use tokio::net::TcpListener;

use access::Access;
pub use tasks::{Host, HostError};

/// An observer with its key: the state of its handlers.
#[derive(Debug)]
pub struct Observer {
    host: Host,
    access: Access,
}

impl Observer {
    /// An observer that is reached at this address.
    #[must_use]
    pub fn new(host: Host, address: SocketAddr) -> Self {
        let access = Access::new(address);
        Self { host, access }
    }

    /// The address that opens the pages, with its key.
    #[must_use]
    pub fn url(&self) -> String {
        self.access.url()
    }

    /// Serves the pages; returns if connections can be accepted no more.
    pub async fn serve(self, listener: TcpListener) -> io::Result<()> {
        axum::serve(listener, router(self)).await
    }
}

/// Adds the header that every response has.
async fn with_every_header(mut response: Response) -> Response {
    let (name, value) = headers::EVERY;
    let value = HeaderValue::from_static(value);
    response.headers_mut().insert(name, value);
    response
}

fn router(observer: Observer) -> Router {
    let observer = Arc::new(observer);
    Router::new()
        .route("/", get(pages::list))
        .route("/tasks/{root}/{id}", get(pages::task))
        .route(
            "/tasks/{root}/{id}/processes/{process}",
            get(pages::process),
        )
        .route(
            "/tasks/{root}/{id}/processes/{process}/{run}/{stream}",
            get(download::log),
        )
        .route("/-/keys", get(pages::keys))
        .route("/-/assets/{name}", get(pages::asset))
        .fallback(pages::unknown)
        .layer(middleware::from_fn_with_state(
            Arc::clone(&observer),
            access::check,
        ))
        .layer(middleware::map_response(with_every_header))
        .with_state(observer)
}
