//! `baton local observe`: web pages of the tasks on this host, without a scheduler.
//!
//! [`baton_observer`] holds the observer.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use baton_observer::{Host, HostError, Observer};
use baton_runner::root::Root;
use baton_terminal::interrupts::Interrupts;
use clap::Args;
use serde_json::json;
use tokio::net::TcpListener;

use crate::output::{CommandResult, Failure, Output, note};
use crate::runtime;

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

/// Serves the tasks of these roots, or of all on this host, until a signal arrives.
pub(super) fn run(command: &Observe, roots: &[PathBuf], own: Option<Root>) -> CommandResult {
    let host = Host::new(roots, own).map_err(|error| match error {
        HostError::Unreadable { .. } => Failure::usage(format!("{error}; check --root")),
        HostError::Root(error) => error.into(),
    })?;
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
    let observer = Observer::new(host, address);
    let mut out = Output::new();
    if command.json {
        out.json(&json!({ "url": observer.url() }))?;
    } else {
        writeln!(out, "baton observer ready: {}", observer.url())?;
    }
    out.done()?;
    tokio::select! {
        ended = observer.serve(listener) => {
            ended.map_err(|error| Failure::failed(format!("cannot accept connections: {error}")))
        }
        _ = interrupts.next() => Ok(()),
    }
}
