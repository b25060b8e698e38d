//! `baton scheduler`: the scheduler in the foreground.

use std::env;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use baton_core::leader::ElectionTimeouts;
use baton_core::trace::Sampling;
use baton_files::units;
use baton_model::message::LogQuery;
use baton_model::rate::LimitValue;
use baton_model::time::Millis;
use baton_model::timeouts::{LOST_AFTER_DEFAULT, Timeouts};
use baton_runner::sys::{listeners, memory, users};
use baton_server::limits::{LEADER_LEASE_MAX, LEADER_LEASE_MIN, Traffic};
use baton_server::{
    Backend, Config, FleetSettings, LogBucket, LogReader, Ready, SecretSettings, ServeError,
    TraceEndpoint, TraceSettings, serve,
};
use baton_terminal::interrupts::Interrupts;
use baton_tls::{ClientFiles, ServerFiles, Trust};
use clap::Args;
use serde_json::json;

use crate::credentials::CredentialArgs;
use crate::logging;
use crate::output::{CommandResult, Failure, STORE_IN_USE};
use crate::runtime;
use crate::tzdata::TzdataArgs;

/// Run the scheduler: accept submissions, store them, and place them on workers
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  baton scheduler --data /tmp/baton
  baton scheduler --data /var/lib/baton --limit db/orders=4

Prints one line when it is ready. Log lines go to standard error; BATON_LOG=debug shows more.")]
pub(crate) struct Scheduler {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// Options of the server.
#[derive(Clone, Debug, Args)]
pub(crate) struct ServerArgs {
    /// Data directory
    #[arg(long, value_name = "DIR", default_value = ".baton")]
    pub(crate) data: PathBuf,
    /// Address of the HTTP API; port 0 lets the kernel choose one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    pub(crate) listen: SocketAddr,
    /// Address for workers; port 0 lets the kernel choose one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8081")]
    pub(crate) worker_listen: SocketAddr,
    /// Name of this scheduler among those that share a store [default: the host name]
    #[arg(long)]
    name: Option<String>,
    /// URL of the HTTP API for clients and other schedulers, such as https://scheduler-a:8080
    /// [default: from --listen]
    #[arg(long, value_name = "URL")]
    advertise: Option<String>,
    /// Address for workers as they reach it, such as scheduler-a:8081 [default: from
    /// --worker-listen]
    #[arg(long, value_name = "HOST:PORT")]
    advertise_workers: Option<String>,
    /// CA certificate (PEM) of other schedulers that share the store [default: the system's trust
    /// store]
    #[arg(long, value_name = "FILE")]
    peer_ca: Option<PathBuf>,
    /// Require tokens on loopback addresses, too; on other addresses they are always required
    #[arg(long)]
    require_tokens: bool,
    /// Server certificate (PEM) with its intermediate certificates; enables TLS on both ports
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key (PEM) of the server certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// CA (PEM) of client certificates: required of workers, accepted from clients
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    client_ca: Option<PathBuf>,
    /// Maximum number of concurrent client connections; one address may use half of them
    #[arg(long, value_name = "N", default_value_t = 1_024, value_parser = connections)]
    max_connections: usize,
    /// Maximum requests per second per token, certificate or address; 0 for unlimited
    #[arg(long, value_name = "RATE", default_value_t = 5_000)]
    max_requests: u32,
    /// Store: sqlite (a file in the data directory), memory (lost when the process exits), or the URL
    /// of a PostgreSQL database, which several schedulers may share: postgres://USER@HOST/DATABASE.
    /// BATON_STORE is an alternative that hides a password from other users [default: sqlite]
    #[arg(long, value_name = "STORE")]
    store: Option<Backend>,
    /// Directory of task files that define the library; reloaded when a file changes
    #[arg(long, value_name = "DIR")]
    library: Option<PathBuf>,
    /// File that defines fleets, from which the scheduler obtains workers; read again when it changes. A fleet
    /// that it no longer has is drained
    #[arg(long, value_name = "FILE")]
    fleets: Option<PathBuf>,
    /// Cluster-wide limit of a resource, such as db/orders=4, or a rate of starts, such as api=10/s; may be
    /// repeated
    #[arg(long = "limit", value_name = "NAME=N", value_parser = limit)]
    limits: Vec<(String, LimitValue)>,
    /// How long work outlives the contact between its worker and a scheduler, unless its task says
    /// otherwise: then it is lost, and replaced. Its worker kills it earlier (5m: after 3m43s)
    /// [default: 5m; 90s with --store memory]
    #[arg(long, alias = "lease", value_name = "DURATION", value_parser = units::duration)]
    lost_after: Option<Millis>,
    /// Lease of the leader among the schedulers that share a store, from 1s to 60s: one that is frozen
    /// or cut off from the database is replaced when it has passed. The same for all of them
    #[arg(long, value_name = "DURATION", default_value = "8s", value_parser = leader_lease)]
    leader_lease: Millis,
    /// Let a worker take the name of an unhealthy one that has another state directory
    #[arg(long)]
    allow_bump_unhealthy: bool,
    /// How long the first in line may wait for a worker before that is an alarm; 0s for no such alarms
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = units::duration)]
    stuck_after: Millis,
    /// How long ended instances are retained
    #[arg(long, value_name = "DURATION", default_value = "720h", value_parser = units::duration)]
    keep: Millis,
    /// Maximum number of ended instances retained
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    keep_max: u64,
    #[command(flatten)]
    tzdata: TzdataArgs,
    /// Collect the logs of ended attempts into the data directory, up to this size (such as 10GiB);
    /// the oldest are removed first
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    collect_logs: Option<u64>,
    /// Collect them into a bucket instead, which all schedulers of a shared store read:
    /// s3://BUCKET/PREFIX, with ?endpoint=URL&region=NAME for other stores than that of AWS. Credentials
    /// come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or ~/.aws/credentials
    #[arg(long, value_name = "URL", requires = "collect_logs")]
    collect_logs_to: Option<LogBucket>,
    /// File (YAML, TOML or JSON) of the channels and routes of notifications
    #[arg(long, value_name = "FILE")]
    notify_file: Option<PathBuf>,
    /// Receiver of traces (OpenTelemetry, OTLP over HTTP), such as http://127.0.0.1:4318
    #[arg(long, value_name = "URL")]
    trace_endpoint: Option<TraceEndpoint>,
    /// File with headers for it, one `Name: value` in each line; read again for each request
    #[arg(long, value_name = "FILE", requires = "trace_endpoint")]
    trace_headers_file: Option<PathBuf>,
    /// CA certificate (PEM) of it [default: the system's trust store]
    #[arg(long, value_name = "FILE", requires = "trace_endpoint")]
    trace_ca: Option<PathBuf>,
    /// Part of the traces that are sent, from 0 to 1; those that a submitter has begun are sent if the submitter
    /// records them [default: 1]
    #[arg(long, value_name = "RATIO", requires = "trace_endpoint", value_parser = ratio)]
    trace_ratio: Option<Sampling>,
    /// File with the keys of secrets, one in each line, as `baton secret key` prints them: the first encrypts
    /// [default: the systemd credential baton-secret-key, or secret.key in the data directory]
    #[arg(long, value_name = "FILE")]
    secret_key: Option<PathBuf>,
    /// File (YAML, TOML or JSON) of secrets that are kept elsewhere: in files, in variables of the
    /// scheduler, or by a program
    #[arg(long, value_name = "FILE")]
    secrets_file: Option<PathBuf>,
    /// Send secrets also over connections that are not encrypted, in a network that you trust
    #[arg(long)]
    allow_plain_secrets: bool,
    /// File with the token of workers that fleets start, as their hosts find it, of mode 0600
    #[arg(long, value_name = "FILE")]
    fleet_token_file: Option<PathBuf>,
    /// Directory of scripts, logs and states of workers that fleets start; on clusters, one that their
    /// hosts share [default: fleets in the data directory]
    #[arg(long, value_name = "DIR")]
    fleet_dir: Option<PathBuf>,
    /// The binary that fleets start as a worker, as their hosts find it [default: this one]
    #[arg(long, value_name = "FILE")]
    fleet_binary: Option<PathBuf>,
    /// Address of the worker port for workers of fleets, such as login1:8081, or @FILE for a file that
    /// has it, with an absolute path; may be repeated, and is tried in turn [default: --advertise-workers, or from --worker-listen]
    #[arg(long = "fleet-address", value_name = "HOST:PORT")]
    fleet_addresses: Vec<String>,
    /// State directory of a worker on this host whose logs are read while it is not connected
    #[arg(long, value_name = "DIR", hide = true)]
    worker_state: Option<PathBuf>,
    /// Print the ready line as JSON
    #[arg(long)]
    json: bool,
}

impl ServerArgs {
    pub(crate) fn config(&self) -> Result<Config, Failure> {
        let backend = self.backend()?;
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
            timeouts: Timeouts::with_lease(self.lost_after(&backend)),
            backend,
            library: self.library.clone(),
            fleets_file: self.fleets_file()?,
            limits: self.limits.clone(),
            election: ElectionTimeouts::of_lease(self.leader_lease),
            allow_bump_unhealthy: self.allow_bump_unhealthy,
            stuck_after: self.stuck_after,
            collect_logs: self.collect_logs,
            log_bucket: self.collect_logs_to.clone(),
            name: self.name.clone().unwrap_or_else(users::hostname),
            advertise: self.advertise.clone(),
            advertise_workers: self.advertise_workers.clone(),
            peer_files: self.peer_files(),
            log_reader: self.worker_state.clone().map(|state| {
                LogReader::new(move |query: &LogQuery| baton_agent::read_log(&state, query))
            }),
            release_memory: Some(memory::release_heap),
            ..Config::default()
        };
        config.retention.history_age = Some(self.keep);
        config.retention.terminal_instances_max = Some(self.keep_max);
        config.fleets = Some(self.fleet_settings()?);
        if let Some(file) = &self.notify_file {
            config.notify = baton_files::load_notifications(file).map_err(Failure::usage)?;
        }
        config.traces = self.traces()?;
        config.secrets = SecretSettings {
            key_file: self.secret_key.clone(),
            sources: match &self.secrets_file {
                Some(file) => baton_files::load_secret_sources(file).map_err(Failure::usage)?,
                None => Vec::new(),
            },
            allow_plain: self.allow_plain_secrets,
        };
        Ok(config)
    }

    /// The receiver of traces, with a file of headers that can be used.
    fn traces(&self) -> Result<Option<TraceSettings>, Failure> {
        let Some(endpoint) = &self.trace_endpoint else {
            return Ok(None);
        };
        let settings = TraceSettings {
            endpoint: endpoint.clone(),
            headers_file: self.trace_headers_file.clone(),
            ca_file: self.trace_ca.clone(),
            sampling: self.trace_ratio.unwrap_or(Sampling::ALL),
        };
        let headers = settings.headers();
        headers.map_err(|error| Failure::usage(format!("--trace-headers-file: {error}")))?;
        Ok(Some(settings))
    }

    /// The file of fleets. Its path is absolute: facts and errors name it.
    fn fleets_file(&self) -> Result<Option<PathBuf>, Failure> {
        let file = self.fleets.as_deref().map(std::path::absolute);
        file.transpose()
            .map_err(|error| Failure::usage(format!("--fleets: {error}")))
    }

    /// What workers of fleets need. Paths are absolute: other processes use them.
    fn fleet_settings(&self) -> Result<FleetSettings, Failure> {
        let absolute = |path: &Path| {
            std::path::absolute(path)
                .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
        };
        let own = || env::current_exe().map_err(|error| Failure::failed(format!("/proc: {error}")));
        let (token, dir) = (self.fleet_token_file.as_deref(), self.fleet_dir.as_deref());
        Ok(FleetSettings {
            binary: match &self.fleet_binary {
                Some(binary) => absolute(binary)?,
                None => own()?,
            },
            schedulers: self.fleet_addresses.clone(),
            token_file: token.map(absolute).transpose()?,
            dir: match dir {
                Some(dir) => absolute(dir)?,
                None => absolute(&self.data.join("fleets"))?,
            },
        })
    }

    /// How long work outlives its scheduler. Without a store a restarted scheduler waits as long
    /// before it places anything, so the default is shorter.
    fn lost_after(&self, backend: &Backend) -> Millis {
        let default = match backend {
            Backend::Memory => Timeouts::default().lease(),
            _ => LOST_AFTER_DEFAULT,
        };
        self.lost_after.unwrap_or(default)
    }

    fn backend(&self) -> Result<Backend, Failure> {
        match (&self.store, env::var("BATON_STORE")) {
            (Some(store), _) => Ok(store.clone()),
            (None, Ok(store)) if !store.is_empty() => {
                let store = store.parse();
                store.map_err(|error| Failure::usage(format!("BATON_STORE: {error}")))
            }
            (None, _) => Ok(Backend::Sqlite),
        }
    }

    /// Loads the time zone data of the schedules, for as long as the server runs.
    pub(crate) fn load_tzdata(&self) -> CommandResult {
        let release = self.tzdata.load()?;
        tracing::debug!("time zone data {release}");
        Ok(())
    }

    /// TLS files for requests to other schedulers.
    fn peer_files(&self) -> ClientFiles {
        let trust = match &self.peer_ca {
            Some(file) => Trust::Ca(file.clone()),
            // The system's certificates are many; read them only where there is TLS.
            None if self.tls_cert.is_some() => Trust::System,
            None => Trust::None,
        };
        ClientFiles {
            trust,
            identity: None,
        }
    }

    fn tls(&self) -> Option<ServerFiles> {
        Some(ServerFiles {
            cert: self.tls_cert.clone()?,
            key: self.tls_key.clone()?,
            client_ca: self.client_ca.clone(),
        })
    }

    /// Prints the ready line.
    pub(crate) fn announce(&self, ready: &Ready) {
        let scheme = if self.tls_cert.is_some() {
            "https"
        } else {
            "http"
        };
        let url = format!("{scheme}://{}", ready.clients);
        let line = if self.json {
            let workers = ready.workers.to_string();
            json!({"url": url, "workers": workers, "epoch": ready.epoch.map(|it| it.number())})
                .to_string()
        } else {
            format!("baton scheduler ready: {url}, workers at {}", ready.workers)
        };
        let mut out = std::io::stdout();
        if let Err(error) = writeln!(out, "{line}").and_then(|()| out.flush()) {
            // The server runs even if its standard output is closed.
            tracing::debug!("cannot print the ready line: {error}");
        }
    }
}

pub(crate) fn run(command: &Scheduler, credentials: &CredentialArgs) -> CommandResult {
    let _logging = logging::init(true)?;
    credentials.reject_for_server()?;
    let server = &command.server;
    server.load_tzdata()?;
    on_threads(async {
        let mut interrupts = Interrupts::new()?;
        let ready = |ready: Ready| server.announce(&ready);
        let stop = async move {
            interrupts.next().await;
        };
        serve(server.config()?, ready, stop)
            .await
            .map_err(|error| failure(&error))
    })
}

/// Runs a server on threads of its own.
pub(crate) fn on_threads(serving: impl Future<Output = CommandResult>) -> CommandResult {
    runtime::on_threads(serving)
        .map_err(|error| Failure::failed(format!("cannot start threads: {error}")))?
}

pub(crate) fn failure(error: &ServeError) -> Failure {
    match error {
        ServeError::NoTokens { .. }
        | ServeError::Tls(_)
        | ServeError::Timeouts(_)
        | ServeError::NotAdvertised { .. }
        | ServeError::BadAdvertise { .. } => Failure::usage(error),
        ServeError::Taken { .. } => Failure::Message(STORE_IN_USE, error.to_string()),
        ServeError::Listen { address, .. } => match listeners::holder_of(*address) {
            Some(holder) => Failure::failed(format!(
                "cannot listen on {address}: {holder} has the port; end it, or choose another \
                 address with --listen or --worker-listen"
            )),
            None => Failure::failed(error),
        },
        _ => Failure::failed(error),
    }
}

fn leader_lease(text: &str) -> Result<Millis, String> {
    let lease = units::duration(text).map_err(|error| error.to_string())?;
    if (LEADER_LEASE_MIN..=LEADER_LEASE_MAX).contains(&lease) {
        return Ok(lease);
    }
    Err(format!(
        "the lease of the leader is from {LEADER_LEASE_MIN} to {LEADER_LEASE_MAX}: a shorter one would \
         depose leaders that are only slow, and workers would kill their work during a longer one"
    ))
}

fn ratio(text: &str) -> Result<Sampling, String> {
    let ratio = text.parse::<f64>().ok();
    match ratio.filter(|ratio| (0.0..=1.0).contains(ratio)) {
        // The product is from 0 to a million.
        Some(ratio) => Ok(Sampling::per_million((ratio * 1e6).round() as u32)),
        None => Err("write a number from 0 to 1, such as 0.1 for a tenth".to_owned()),
    }
}

fn connections(text: &str) -> Result<usize, String> {
    let most = text.parse().ok().filter(|most| *most > 0);
    most.ok_or_else(|| "expected a number of at least 1".to_owned())
}

fn limit(text: &str) -> Result<(String, LimitValue), String> {
    let wrong =
        || format!("{text:?} is not a limit; expected NAME=N, such as db/orders=4 or api=10/s");
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    let value = match value.parse::<u64>() {
        Ok(total) => total.into(),
        Err(_) => LimitValue::of_rate(units::rate(value).map_err(|_| wrong())?, None),
    };
    if name.is_empty() {
        return Err(wrong());
    }
    Ok((name.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_name_and_a_number_or_a_rate() {
        assert_eq!(limit("db/orders=4"), Ok(("db/orders".to_owned(), 4.into())));
        let (name, value) = limit("api=10/s").expect("a rate");
        assert_eq!(
            (name.as_str(), value.to_string().as_str()),
            ("api", "10/s, burst 1")
        );
        for bad in ["", "api", "=4", "api=", "api=0/s", "api=-1"] {
            assert!(limit(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_lease_of_the_leader_has_bounds() {
        assert_eq!(leader_lease("1s"), Ok(Millis::from_secs(1)));
        assert_eq!(leader_lease("60s"), Ok(Millis::from_secs(60)));
        for bad in ["999ms", "61s", "0", "", "soon"] {
            assert!(leader_lease(bad).is_err(), "{bad}");
        }
        let usual = ElectionTimeouts::of_lease(Millis::from_secs(8));
        assert_eq!(usual, Config::default().election);
        assert_eq!(usual.renew, Millis::from_secs(1));
    }
}
