//! `baton scheduler`: the server in this process.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use baton_files::units;
use baton_model::time::Millis;
use baton_model::timeouts::Timeouts;
use baton_server::limits::Traffic;
use baton_server::{Backend, Config, Ready, ServeError, serve};
use baton_tls::ServerFiles;
use clap::{Args, ValueEnum};
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::credentials::CredentialArgs;
use crate::logging;
use crate::output::{CommandResult, Failure};

/// The exit code where another scheduler uses the data: the usual one for what may pass.
pub(crate) const STORE_IN_USE: u8 = 75;

/// Runs the scheduler: takes submissions, keeps them, and gives them to workers.
///
/// Example: baton scheduler --data /var/lib/baton --limit db/orders=4
#[derive(Debug, Args)]
pub(crate) struct Scheduler {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// How the server is set up.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// The directory that everything is kept in.
    #[arg(long, value_name = "DIR", default_value = ".baton")]
    pub(crate) data: PathBuf,
    /// Where clients connect; port 0 lets the kernel choose.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    pub(crate) listen: SocketAddr,
    /// Where workers connect.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8081")]
    pub(crate) worker_listen: SocketAddr,
    /// Demand tokens on loopback addresses as well; on all others they always are.
    #[arg(long)]
    require_tokens: bool,
    /// The server's certificate (PEM), with those between it and its CA: TLS on both ports.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The key (PEM) of that certificate.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Take certificates that this CA (PEM) has signed: workers have to show one, clients may.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    client_ca: Option<PathBuf>,
    /// The most connections of clients at a time; half of them for one address.
    #[arg(long, value_name = "N", default_value_t = 1_024, value_parser = connections)]
    max_connections: usize,
    /// The most requests in a second of one token, certificate or address; 0 for any number.
    #[arg(long, value_name = "RATE", default_value_t = 5_000)]
    max_requests: u32,
    /// Where facts are kept.
    #[arg(long, value_enum, default_value_t = StoreKind::Sqlite)]
    store: StoreKind,
    /// A directory whose files define tasks; it is looked at again whenever one changes.
    #[arg(long, value_name = "DIR")]
    library: Option<PathBuf>,
    /// What the whole cluster may use of something, such as db/orders=4.
    #[arg(long = "limit", value_name = "NAME=N", value_parser = limit)]
    limits: Vec<(String, u64)>,
    /// How long a silent worker may go on with its work.
    #[arg(long, value_name = "DURATION", default_value = "90s", value_parser = duration)]
    lease: Millis,
    /// How long ended instances are kept.
    #[arg(long, value_name = "DURATION", default_value = "720h", value_parser = duration)]
    keep: Millis,
    /// How many ended instances are kept.
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    keep_max: u64,
    /// Say where it listens as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StoreKind {
    /// In a file of the data directory.
    Sqlite,
    /// In memory: gone with the process.
    Memory,
}

impl ServerArgs {
    pub(crate) fn config(&self) -> Config {
        let mut config = Config {
            data: self.data.clone(),
            listen: self.listen,
            worker_listen: self.worker_listen,
            require_tokens: self.require_tokens,
            tls: self.tls(),
            traffic: Traffic {
                client_connections_max: self.max_connections,
                requests_per_second: self.max_requests,
                ..Traffic::default()
            },
            backend: match self.store {
                StoreKind::Sqlite => Backend::Sqlite,
                StoreKind::Memory => Backend::Memory,
            },
            library: self.library.clone(),
            limits: self.limits.clone(),
            timeouts: timeouts(self.lease),
            ..Config::default()
        };
        config.retention.history_age = Some(self.keep);
        config.retention.terminal_instances_max = Some(self.keep_max);
        config
    }

    fn tls(&self) -> Option<ServerFiles> {
        Some(ServerFiles {
            cert: self.tls_cert.clone()?,
            key: self.tls_key.clone()?,
            client_ca: self.client_ca.clone(),
        })
    }

    /// Says that it is ready, in one line.
    pub(crate) fn announce(&self, ready: &Ready) {
        let scheme = if self.tls_cert.is_some() {
            "https"
        } else {
            "http"
        };
        let url = format!("{scheme}://{}", ready.clients);
        let line = if self.json {
            let workers = ready.workers.to_string();
            json!({"url": url, "workers": workers, "epoch": ready.epoch.0}).to_string()
        } else {
            format!("baton scheduler ready: {url}, workers at {}", ready.workers)
        };
        let mut out = std::io::stdout();
        if let Err(error) = writeln!(out, "{line}").and_then(|()| out.flush()) {
            // Nobody reads it; the server is there all the same.
            tracing::debug!("cannot say that it is ready: {error}");
        }
    }
}

pub(crate) fn run(command: &Scheduler, credentials: &CredentialArgs) -> CommandResult {
    logging::init();
    credentials.reject_for_server()?;
    let server = &command.server;
    runtime()?.block_on(async {
        let mut interrupts = Interrupts::new()?;
        let ready = |ready: Ready| server.announce(&ready);
        serve(server.config(), ready, interrupts.next())
            .await
            .map_err(|error| failure(&error))
    })
}

pub(crate) fn runtime() -> Result<Runtime, Failure> {
    Runtime::new().map_err(|error| Failure::failed(format!("cannot start threads: {error}")))
}

/// ^C, and a request to end.
pub(crate) struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupts {
    pub(crate) fn new() -> Result<Self, Failure> {
        let listen = |kind| {
            let failed = |error| Failure::failed(format!("cannot listen to signals: {error}"));
            signal(kind).map_err(failed)
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    /// Resolves with the next of them.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

pub(crate) fn failure(error: &ServeError) -> Failure {
    match error {
        ServeError::NoTokens { .. } | ServeError::Tls(_) | ServeError::Timeouts(_) => {
            Failure::usage(error)
        }
        ServeError::Taken { .. } => Failure::Message(STORE_IN_USE, error.to_string()),
        _ => Failure::failed(error),
    }
}

/// The default budget, shrunk or stretched to this lease.
fn timeouts(lease: Millis) -> Timeouts {
    let usual = Timeouts::default();
    let scaled = |span: Millis| Millis(span.scaled(lease.0, usual.lease().0).0.max(1));
    Timeouts {
        heartbeat_period: scaled(usual.heartbeat_period),
        heartbeat_gap: scaled(usual.heartbeat_gap),
        lose_after: scaled(usual.lose_after),
        kill_grace: scaled(usual.kill_grace),
        kill_slack: scaled(usual.kill_slack),
        ..usual
    }
}

fn duration(text: &str) -> Result<Millis, String> {
    units::duration(text).map_err(|error| error.to_string())
}

fn connections(text: &str) -> Result<usize, String> {
    let most = text.parse().ok().filter(|most| *most > 0);
    most.ok_or_else(|| "write a number from 1".to_owned())
}

fn limit(text: &str) -> Result<(String, u64), String> {
    let wrong = || format!("{text:?} is no limit; write it as db/orders=4");
    let (name, total) = text.split_once('=').ok_or_else(wrong)?;
    let total = total.parse().map_err(|_| wrong())?;
    if name.is_empty() {
        return Err(wrong());
    }
    Ok((name.to_owned(), total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_of_any_length_leaves_the_worker_its_share() {
        for seconds in [1, 3, 60, 90, 3_600] {
            let timeouts = timeouts(Millis::from_secs(seconds));
            assert_eq!(timeouts.validate(), Ok(()), "{seconds} s");
        }
        assert_eq!(timeouts(Millis::from_secs(90)), Timeouts::default());
    }

    #[test]
    fn a_limit_is_a_name_and_a_number() {
        assert_eq!(limit("db/orders=4"), Ok(("db/orders".to_owned(), 4)));
        for bad in ["", "x", "=3", "x=", "x=-1"] {
            assert!(limit(bad).is_err(), "{bad}");
        }
    }
}
