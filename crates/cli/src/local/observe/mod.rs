//! `baton local observe`: web pages of the tasks on this host, without a scheduler.
//!
//! Strictly read-only: it answers GET alone, writes no file and signals no process.
//!
//! | file | holds |
//! |---|---|
//! | `access` | the key of the address, and the header *Host* |
//! | `tasks` | the tasks of the roots: listed, found by an address, read |
//! | `pages` | the page of each address |
//! | `format` | the choice between a page and JSON |
//! | `download` | a whole log |
//!
//! An address names a task by the key of its root and by its id. Both are looked up in what the
//! roots list; no part of an address becomes a path, and no link below a root is followed.

mod access;
mod download;
mod format;
mod pages;
mod tasks;

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::http::HeaderValue;
use axum::middleware;
use axum::response::Response;
use axum::routing::get;
use baton_runner::root::Root;
use baton_web::headers;
use clap::Args;
use serde_json::json;
use tokio::net::TcpListener;

use crate::output::{CommandResult, Failure, Output, note};
use crate::runtime;
use crate::scheduler::Interrupts;
use access::Access;
use tasks::Host;

/// Serve web pages of the tasks on this host: states, processes, output, resource usage
///
/// Read-only, and without a scheduler. Prints the address, with a key that only its reader knows:
/// other users of this host can connect to the port, too. Without --root, the tasks of every root on
/// this host are shown: the default roots, those of tasks that run, and the attempts of workers that
/// run; as root, those of all users.
///
/// The same addresses answer JSON to `Accept: application/json`, as of `baton local status --json`; a
/// program may send the key as `Authorization: Bearer KEY`.
///
/// With --json, prints an object: url.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton local observe
  sudo baton local observe --port 8090
  baton local observe --root /srv/etl --root /srv/reports

^C ends it; the tasks go on.")]
pub(super) struct Observe {
    /// Port to listen on; 0 for any
    #[arg(long, value_name = "N", default_value_t = 8_082)]
    port: u16,
    /// Address to listen on; the pages are not encrypted
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    address: IpAddr,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Adds the header that every response has.
async fn with_every_header(mut response: Response) -> Response {
    let (name, value) = headers::EVERY;
    let value = HeaderValue::from_static(value);
    response.headers_mut().insert(name, value);
    response
}

/// State of the handlers.
struct Observer {
    host: Host,
    access: Access,
}

/// Serves the tasks of these roots, or of all on this host, until a signal arrives.
pub(super) fn run(command: &Observe, roots: &[PathBuf], own: Option<Root>) -> CommandResult {
    let host = Host::new(roots, own)?;
    runtime::on_this_thread(serve(command, host))
        .map_err(|error| Failure::failed(format!("cannot start the runtime: {error}")))?
}

async fn serve(command: &Observe, host: Host) -> CommandResult {
    let mut interrupts = Interrupts::new()?;
    let wanted = SocketAddr::new(command.address, command.port);
    let listener = TcpListener::bind(wanted).await.map_err(|error| {
        Failure::failed(format!(
            "cannot listen on {wanted}: {error}; choose another port with --port, or --port 0 for \
             any"
        ))
    })?;
    let address = listener.local_addr();
    let address =
        address.map_err(|error| Failure::failed(format!("cannot read the port: {error}")))?;
    if !address.ip().is_loopback() {
        note("the pages are not encrypted: who can read the network can read them, and the key");
    }
    let access = Access::new(address);
    let mut out = Output::new();
    if command.json {
        out.json(&json!({ "url": access.url() }))?;
    } else {
        writeln!(out, "baton observer ready: {}", access.url())?;
    }
    out.done()?;
    let server = axum::serve(listener, router(Observer { host, access }));
    tokio::select! {
        ended = server => {
            ended.map_err(|error| Failure::failed(format!("cannot accept connections: {error}")))
        }
        _ = interrupts.next() => Ok(()),
    }
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
