//! The scheduler as a process: the pure core of `baton_core::scheduler`, driven by real
//! sockets, clocks and a store, and its HTTP API.
//!
//! ```text
//!   workers ══ frames ══▶ workers ──▶ ┌────────┐ ──▶ store ──▶ disk
//!                                     │ driver │      ▲
//!   clients ══ HTTP ════▶ http ─────▶ └────────┘      │
//!                          └───────── reads ──────────┘
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `driver` | the thread that owns the leader, and recovery from store failures |
//! | `workers` | the worker port |
//! | `http` | the client port |
//! | `accept`, `tls`, `write_timeout` | connections: limits, handshakes, write timeouts |
//! | `access` | authentication: tokens and certificates |
//! | `rate_limit` | rate limiting per client |
//! | `metrics` | counters |
//! | `fleets` | calls of the backends of fleets |
//! | `followers` | what the leader does because of facts: notifications, collection of logs |
//! | `pilot_tokens` | tokens that are issued for pilots |
//! | `library` | the directory that tasks are read from |
//! | `fleet_file` | the file that fleets are read from |
//! | `leadership` | the lock of the data directory, and the epoch |
//! | `ports` | the addresses, reserved before the store is opened |
//! | `peers` | the other schedulers of a shared store |
//! | `mark` | the file beside the store that recognises copies of it |
//! | `prune` | pruning of the history |
//! | `log_archive` | collected logs of ended attempts |
//! | `log_throttle` | rate limiting of repeated log messages |
//! | [`limits`] | every bound, with its reason |
//!
//! Writes go through the driver. Reads go to the store, on threads of their own, and continue
//! while nothing can be written. Of several schedulers that share a store one leads; the others serve
//! reads, and forward the rest to it. All decisions about instances and workers are made in
//! `baton_core`. The types of the HTTP API are `baton_model::api`.

mod accept;
mod access;
mod clock;
mod driver;
mod error;
#[cfg(test)]
mod faulty;
mod fleet_file;
mod fleets;
mod followers;
mod http;
mod leadership;
mod library;
pub mod limits;
mod log_archive;
mod log_reader;
mod log_throttle;
mod mark;
mod metrics;
mod peers;
mod pilot_tokens;
mod ports;
mod prune;
mod rate_limit;
mod secrets;
mod shutdown;
mod tls;
mod workers;
mod write_timeout;

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use baton_core::leader::ElectionTimeouts;
use baton_core::scheduler::{Config as CoreConfig, StoreMode};
use baton_model::api::LocalWorker;
use baton_model::ids::Epoch;
use baton_model::notify::NotifySettings;
use baton_model::rate::LimitValue;
use baton_model::time::Millis;
use baton_model::timeouts::Timeouts;
use baton_model::token::Secret;
use baton_store::postgres::{PostgresStore, StoreUrl};
use baton_store::{Retention, SqliteStore, Store, StoreError};
use baton_tls::{ClientFiles, ServerFiles};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub use error::ServeError;
pub use fleets::FleetSettings;
pub use followers::traces::{TraceEndpoint, TraceSettings};
pub use http::routes::{ROUTES, Route};
pub use http::{is_our_host, prefers_json};
pub use leadership::{DataHolder, DataLock};
pub use log_archive::{BucketError, LogBucket};
pub use log_reader::LogReader;
pub use metrics::LOG_LINES_DROPPED;
pub use ports::Ports;
pub use secrets::{KEY_HINT, KeyError, SecretSettings, new_key};

use accept::Acceptor;
use access::Access;
use driver::event::Event;
use driver::{Handle, Setup};
use followers::notifications::{Notifications, Setup as NotificationSetup};
use followers::{Source, traces};
use http::app::{App, Parts};
use http::bodies::BodyBudget;
use limits::{BUCKET_PROBE_WAIT, LEADER_LEASE_DEFAULT, SHUTDOWN_WAIT, Traffic};
use log_archive::{Bucket, LogArchive};
use mark::MarkFile;
use metrics::{Metrics, Port};
use peers::{Advertised, Contact};
use pilot_tokens::PilotTokens;
use rate_limit::RateLimiter;
use secrets::Secrets;
use tls::Tls;

/// The OpenAPI document of the HTTP API.
#[cfg(feature = "openapi")]
#[must_use]
pub fn openapi() -> String {
    http::openapi::generate::text()
}

/// The page that lists the metrics of `/metrics`.
#[must_use]
pub fn metrics_page() -> String {
    metrics::page()
}

/// File name of the store in the data directory.
pub const STORE_FILE: &str = "baton.db";

/// File name of the key of secrets in the data directory, unless another file is named.
pub const SECRET_KEY_FILE: &str = "secret.key";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// A file in the data directory.
    Sqlite,
    /// In memory: lost with the process.
    Memory,
    /// A PostgreSQL database, which other schedulers may share.
    Postgres(StoreUrl),
}

impl FromStr for Backend {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "sqlite" => Ok(Self::Sqlite),
            "memory" => Ok(Self::Memory),
            url if StoreUrl::is_one(url) => Ok(Self::Postgres(StoreUrl::from(url))),
            _ => Err(
                "write sqlite, memory, or postgres://USER:PASSWORD@HOST:PORT/DATABASE".to_owned(),
            ),
        }
    }
}

/// Configuration of a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Data directory.
    pub data: PathBuf,
    /// Address of the client port; port 0 lets the kernel choose.
    pub listen: SocketAddr,
    /// Address of the worker port, likewise.
    pub worker_listen: SocketAddr,
    /// Require tokens on loopback addresses, too.
    pub require_tokens: bool,
    /// TLS files for both ports, if any.
    pub tls: Option<ServerFiles>,
    pub traffic: Traffic,
    /// Secret of the worker of this process, which no store knows.
    pub own_worker: Option<Secret>,
    /// The worker of this process, for clients on the same host.
    pub local_worker: Option<LocalWorker>,
    pub backend: Backend,
    /// Directory whose files define tasks.
    pub library: Option<PathBuf>,
    /// File that defines fleets.
    pub fleets_file: Option<PathBuf>,
    /// Cluster-wide limits by name.
    pub limits: Vec<(String, LimitValue)>,
    /// Time budget of the protocol.
    pub timeouts: Timeouts,
    /// Whether a worker with another state directory may take the name of one that is unhealthy.
    pub allow_bump_unhealthy: bool,
    /// How long the first in line may wait for a worker before that is an alarm; zero for ever.
    pub stuck_after: Millis,
    /// Retention of the history.
    pub retention: Retention,
    /// Returns freed memory of this process to the system, if the allocator keeps it.
    pub release_memory: Option<fn()>,
    /// Reads logs of a worker on this host that is not connected.
    pub log_reader: Option<LogReader>,
    /// Bytes of the data directory for logs of ended attempts, which are then collected.
    pub collect_logs: Option<u64>,
    /// Where these logs go; the data directory if there is none.
    pub log_bucket: Option<LogBucket>,
    /// Name of this scheduler, for people.
    pub name: String,
    /// URL of the client port for other schedulers and clients, if not that of its address.
    pub advertise: Option<String>,
    /// Address of the worker port for workers, likewise.
    pub advertise_workers: Option<String>,
    /// TLS files for requests to other schedulers.
    pub peer_files: ClientFiles,
    /// Intervals of the election among the schedulers of a shared store.
    pub election: ElectionTimeouts,
    /// Channels and routes of notifications.
    pub notify: NotifySettings,
    /// What workers of fleets need; without it no fleet can request any.
    pub fleets: Option<FleetSettings>,
    /// Keys and sources of secrets.
    pub secrets: SecretSettings,
    /// The receiver of traces, if there is one.
    pub traces: Option<TraceSettings>,
}

impl Default for Config {
    fn default() -> Self {
        let loopback = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Self {
            data: PathBuf::from(".baton"),
            listen: loopback(8080),
            worker_listen: loopback(8081),
            require_tokens: false,
            tls: None,
            traffic: Traffic::default(),
            own_worker: None,
            local_worker: None,
            backend: Backend::Sqlite,
            library: None,
            fleets_file: None,
            limits: Vec::new(),
            timeouts: Timeouts::default(),
            allow_bump_unhealthy: false,
            stuck_after: CoreConfig::default().stuck_after,
            retention: Retention {
                history_age: Some(Millis::from_secs(30 * 24 * 60 * 60)),
                history_bytes: None,
                terminal_instances_max: Some(1_000_000),
            },
            release_memory: None,
            log_reader: None,
            collect_logs: None,
            log_bucket: None,
            name: "scheduler".to_owned(),
            advertise: None,
            advertise_workers: None,
            peer_files: ClientFiles::none(),
            election: ElectionTimeouts::of_lease(LEADER_LEASE_DEFAULT),
            notify: NotifySettings::default(),
            fleets: None,
            secrets: SecretSettings::default(),
            traces: None,
        }
    }
}

impl Config {
    /// Whether clients must authenticate: on every address that other machines can reach.
    #[must_use]
    pub fn clients_need_tokens(&self) -> bool {
        self.require_tokens || !self.listen.ip().is_loopback()
    }

    /// Whether workers must authenticate: likewise, and wherever client certificates are accepted.
    #[must_use]
    pub fn workers_need_tokens(&self) -> bool {
        self.require_tokens || !self.worker_listen.ip().is_loopback() || self.takes_certificates()
    }

    /// Where a scheduler keeps the key of secrets that shares its store with no other.
    fn own_secret_key(&self) -> Option<PathBuf> {
        match self.backend {
            Backend::Sqlite | Backend::Memory => Some(self.data.join(SECRET_KEY_FILE)),
            Backend::Postgres(_) => None,
        }
    }

    fn advertised(&self) -> Advertised {
        Advertised {
            name: self.name.clone(),
            clients: self.advertise.clone(),
            workers: self.advertise_workers.clone(),
            secure: self.tls.is_some(),
        }
    }

    fn takes_certificates(&self) -> bool {
        let files = self.tls.as_ref();
        files.is_some_and(|files| files.client_ca.is_some())
    }
}

/// A server that listens: it leads, or follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    pub clients: SocketAddr,
    pub workers: SocketAddr,
    /// Epoch that it started with; none with a shared store, whose election comes later.
    pub epoch: Option<Epoch>,
}

/// Serves until `stop` resolves. Calls `ready` once both ports are open and the store is taken
/// over; one that is shared is taken over later, when the election is won.
///
/// # Errors
/// [`ServeError`] if it cannot start, or ended because of a bug.
pub async fn serve(
    config: Config,
    ready: impl FnOnce(Ready),
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let ports = Ports::reserve(&config)?;
    serve_at(config, ports, ready, stop).await
}

/// As [`serve`], at ports that were reserved before.
///
/// # Errors
/// As [`serve`].
pub async fn serve_at(
    config: Config,
    ports: Ports,
    ready: impl FnOnce(Ready),
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    config.timeouts.validate().map_err(ServeError::Timeouts)?;
    let lock = DataLock::take(&config.data)?;
    let opened = config.clone();
    let (store, mark) = blocking(move || open(&opened)).await?;
    let served = run(config, ports, store, mark, ready, stop).await;
    drop(lock);
    served
}

/// Serves a store that is already open, such as one that several schedulers share.
///
/// # Errors
/// As [`serve`].
pub async fn serve_store(
    config: Config,
    store: Arc<dyn Store>,
    ready: impl FnOnce(Ready),
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    config.timeouts.validate().map_err(ServeError::Timeouts)?;
    let lock = DataLock::take(&config.data)?;
    let mark = Arc::new(MarkFile::in_memory(&config.data));
    let ports = Ports::reserve(&config)?;
    let served = run(config, ports, store, mark, ready, stop).await;
    drop(lock);
    served
}

async fn run(
    config: Config,
    ports: Ports,
    store: Arc<dyn Store>,
    mark: Arc<MarkFile>,
    ready: impl FnOnce(Ready),
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let tls = load_tls(&config)?;
    let (tokens, own_worker) = (Arc::clone(&store), config.own_worker.clone());
    let access =
        blocking(move || Access::new(tokens, own_worker.as_ref()).map_err(ServeError::Store))
            .await?;
    check_tokens(&config, &access)?;
    let (clients, workers) = ports.listen()?;
    warn_of_listeners(&config);
    let metrics = Arc::new(Metrics::default());
    let log_archive = match config.collect_logs {
        Some(budget) => Some(open_archive(&config, budget, &store, &metrics).await?),
        None => None,
    };
    let addresses = [
        address(&clients, config.listen)?,
        address(&workers, config.worker_listen)?,
    ];
    let entry = match store.sharing() {
        Some(_) => {
            let (advertised, files) = (config.advertised(), &config.peer_files);
            let [clients, workers] = addresses;
            Some(peers::prepare(advertised, files, clients, workers)?)
        }
        None => None,
    };
    let mut starting = (config.clone(), Arc::clone(&store), Arc::clone(&mark));
    if let Some(fleets) = &mut starting.0.fleets
        && fleets.schedulers.is_empty()
    {
        let mut advertised = config.advertised();
        let workers = addresses[1];
        if workers.ip().is_unspecified() {
            let host = rustix::system::uname();
            let host = host.nodename().to_string_lossy();
            let here = || format!("{host}:{}", workers.port());
            advertised.workers = advertised.workers.or_else(|| Some(here()));
        }
        let contact = Contact::new(advertised, addresses[0], workers);
        fleets.schedulers.push(contact.workers);
    }
    let needs_tokens = config.workers_need_tokens();
    let fleet_site = starting.0.fleets.as_ref();
    let fleet_site = fleet_site.map(|it| {
        it.site(
            needs_tokens,
            "baton".to_owned(),
            baton_fleet::Containment::default(),
        )
    });
    let counting = Arc::clone(&metrics);
    let pilot_tokens = config.workers_need_tokens().then(|| PilotTokens {
        store: Arc::clone(&store) as _,
        access: access.clone(),
    });
    let (for_secrets, settings, own_key) = (
        Arc::clone(&store),
        config.secrets.clone(),
        config.own_secret_key(),
    );
    let secrets = blocking(move || {
        Secrets::open(for_secrets, &settings, own_key).map_err(ServeError::SecretKey)
    })
    .await?;
    let secrets = Arc::new(secrets);
    let leaders_secrets = Arc::clone(&secrets);
    let (handle, epoch) = blocking(move || {
        let (config, store, mark) = starting;
        start(
            &config,
            &store,
            mark,
            counting,
            pilot_tokens,
            leaders_secrets,
        )
    })
    .await?;
    let Handle {
        inbox,
        status,
        committed,
        mut ended,
    } = handle;
    let joined = entry.map(|entry| entry.join(Arc::clone(&store) as _, status.clone()));
    let (peers, keeper) = joined.unzip();
    let started = Ready {
        clients: addresses[0],
        workers: addresses[1],
        epoch,
    };
    let (shutdown_sender, shutdown) = watch::channel(false);
    let history = prune::HistoryLock::default();
    let problems = library::Problems::of("library");
    let fleet_problems = library::Problems::of("fleets");
    let worker_access = config.workers_need_tokens().then(|| access.clone());
    let [for_clients, for_workers] = [Port::Clients, Port::Workers]
        .map(|port| Acceptor::new(port, config.traffic, tls.clone(), Arc::clone(&metrics)));
    let contact = Contact::new(config.advertised(), started.clients, started.workers);
    let source = Source {
        store: Arc::clone(&store),
        status: status.clone(),
        committed: committed.clone(),
    };
    let exporting = traces::start(config.traces.clone(), source.clone(), Arc::clone(&metrics));
    let notifications = Notifications::new(NotificationSetup {
        settings: config.notify.clone(),
        url: contact.url.clone(),
        scheduler: config.name.clone(),
        source,
        inbox: inbox.clone(),
        metrics: Arc::clone(&metrics),
    });
    let bodies = BodyBudget::new(config.traffic.body_bytes_max);
    let app = App::new(Parts {
        store: Arc::clone(&store),
        inbox: inbox.clone(),
        status: status.clone(),
        history: Arc::clone(&history),
        address: started.clients,
        access: access.clone(),
        requires_credentials: config.clients_need_tokens(),
        rate_limit: RateLimiter::new(config.traffic.requests_per_second),
        bodies: Arc::clone(&bodies),
        shutdown: shutdown.clone(),
        committed: committed.clone(),
        metrics,
        problems: problems.clone(),
        fleet_dir: config.fleets.as_ref().map(|it| it.dir.clone()),
        fleet_problems: fleet_problems.clone(),
        contact,
        notifications: notifications.clone(),
        peers: peers.clone(),
        local_worker: config.local_worker,
        log_reader: config.log_reader,
        log_archive: log_archive.clone(),
        fleet_site,
        secrets,
    });
    let collecting = log_archive
        .map(|archive| tokio::spawn(http::collect_logs(app.clone(), archive, committed.clone())));
    let sync = config.library.map(|directory| library::LibrarySync {
        directory,
        store: Arc::clone(&store) as _,
        inbox: inbox.clone(),
        status: status.clone(),
        problems,
    });
    let syncing = sync.map(|sync| tokio::spawn(sync.run(shutdown.clone())));
    let following = config.fleets_file.map(|file| {
        let sync = fleet_file::FleetFileSync {
            file,
            inbox: inbox.clone(),
            status: status.clone(),
            problems: fleet_problems,
        };
        tokio::spawn(sync.run(shutdown.clone()))
    });
    let workers = tokio::spawn(workers::listen(
        workers,
        for_workers,
        inbox.clone(),
        worker_access,
        peers.clone().map(|peers| (peers, status.clone())),
        shutdown.clone(),
    ));
    let http = tokio::spawn(http::listen(clients, for_clients, app, shutdown));
    let marking = tokio::spawn(mark::keep(mark, Arc::clone(&store) as _, committed));
    let pruning = prune::run(Arc::clone(&store) as _, config.retention, status, history);
    let pruning = tokio::spawn(pruning);
    let mut background = vec![
        marking,
        pruning,
        exporting,
        tokio::spawn(access.refresh_periodically()),
    ];
    let release = config.release_memory;
    background.extend(release.map(|release| tokio::spawn(bodies.release_memory(release))));
    background.extend(tls.map(|tls| tokio::spawn(tls.reload_on_sighup())));
    background.extend(syncing);
    background.extend(following);
    background.extend(collecting);
    background.extend(notifications.start());
    background.extend(keeper.map(|keeper| tokio::spawn(keeper.run())));
    ready(started);
    baton_service::ready();
    let failure = tokio::select! {
        () = stop => None,
        end = &mut ended => Some(match end {
            Ok(Some(reason)) => ServeError::StoreDied(reason),
            Ok(None) | Err(_) => ServeError::DriverDied,
        }),
    };
    tracing::info!("shutting down");
    baton_service::stopping();
    background.iter().for_each(JoinHandle::abort);
    shutdown_sender.send_replace(true);
    // Requests in flight are still answered, then the last commits finish.
    if timeout(SHUTDOWN_WAIT, http).await.is_err() {
        tracing::warn!("some client requests did not end in time");
    }
    workers.abort();
    inbox.send(Event::Stop);
    if failure.is_none() && timeout(2 * SHUTDOWN_WAIT, ended).await.is_err() {
        tracing::warn!("the store did not finish its commits in time");
    }
    if let Some(peers) = peers {
        let withdrawn = timeout(SHUTDOWN_WAIT, peers::withdraw(store, peers)).await;
        if withdrawn.is_err() {
            tracing::warn!("the announcement of this scheduler was not withdrawn in time");
        }
    }
    failure.map_or(Ok(()), Err)
}

/// Runs what blocks, as every call of the store does, on a thread where it may.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ServeError> + Send + 'static,
) -> Result<T, ServeError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime shuts down.
            Err(_) => Err(ServeError::Store(StoreError::Closed)),
        },
    }
}

/// Opens the archive of collected logs. A bucket that is missing or denied is an error of the
/// configuration; one that does not answer delays the collection, not the scheduler.
async fn open_archive(
    config: &Config,
    budget: u64,
    store: &Arc<dyn Store>,
    metrics: &Metrics,
) -> Result<LogArchive, ServeError> {
    let Some(location) = &config.log_bucket else {
        let path = config.data.clone();
        return LogArchive::open(&config.data, budget)
            .map_err(|error| ServeError::Data { path, error });
    };
    let failed = |error| ServeError::LogBucket {
        location: location.to_string(),
        error,
    };
    let store = Arc::clone(store);
    let found = blocking(move || store.fingerprint().map_err(ServeError::Store)).await?;
    let bucket = Bucket::new(location, found.store, budget).map_err(failed)?;
    let problem = match timeout(BUCKET_PROBE_WAIT, bucket.probe()).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) if error.is_permanent() => return Err(failed(error)),
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some("it does not answer".to_owned()),
    };
    if let Some(problem) = problem {
        metrics.log_archive_failed();
        tracing::warn!("cannot collect logs into {location} yet: {problem}; trying again");
    }
    Ok(LogArchive::Bucket(Arc::new(bucket)))
}

fn load_tls(config: &Config) -> Result<Option<Arc<Tls>>, ServeError> {
    let tls = config.tls.clone().map(Tls::load).transpose();
    Ok(tls.map_err(ServeError::Tls)?.map(Arc::new))
}

/// Opens the store, and the file beside it.
fn open(config: &Config) -> Result<(Arc<dyn Store>, Arc<MarkFile>), ServeError> {
    let without_file = || Arc::new(MarkFile::in_memory(&config.data));
    Ok(match &config.backend {
        Backend::Sqlite => {
            let path = config.data.join(STORE_FILE);
            let mark = MarkFile::of(&config.data, &path);
            let store = SqliteStore::open(&path).map_err(ServeError::Store)?;
            (Arc::new(store), Arc::new(mark))
        }
        Backend::Memory => {
            let store = SqliteStore::in_memory().map_err(ServeError::Store)?;
            (Arc::new(store), without_file())
        }
        Backend::Postgres(url) => {
            let store = PostgresStore::connect(url).map_err(ServeError::Store)?;
            for warning in store.warnings().map_err(ServeError::Store)? {
                tracing::warn!("{}: {warning}", store.place());
            }
            (Arc::new(store), without_file())
        }
    })
}

/// Refuses to open a port to other machines while there is no valid token, and any port that no
/// client could ever use.
fn check_tokens(config: &Config, access: &Access) -> Result<(), ServeError> {
    let ports = [
        (config.listen, config.clients_need_tokens()),
        (config.worker_listen, config.workers_need_tokens()),
    ];
    if config.takes_certificates() || access.has_valid_token(clock::now().wall) {
        return Ok(());
    }
    for (address, _) in ports
        .into_iter()
        .filter(|(_, requires_credentials)| *requires_credentials)
    {
        let store = match config.backend {
            Backend::Sqlite => Some(format!("--data {}", config.data.display())),
            Backend::Memory => None,
            Backend::Postgres(_) => Some("--store postgres://…".to_owned()),
        };
        if store.is_none() || !address.ip().is_loopback() {
            return Err(ServeError::NoTokens { address, store });
        }
        tracing::warn!(
            "there is no valid token for {address} yet; create one with `baton token create`"
        );
    }
    Ok(())
}

/// Warns where tokens would travel unencrypted.
fn warn_of_listeners(config: &Config) {
    let ports = [config.listen, config.worker_listen];
    for address in ports.iter().filter(|it| !it.ip().is_loopback()) {
        if config.tls.is_none() {
            tracing::warn!(
                "traffic to {address} is not encrypted, tokens included; use --tls-cert and \
                 --tls-key, or a trusted network"
            );
        }
    }
}

/// Starts the driver: it takes over the store, unless that is shared.
fn start(
    config: &Config,
    store: &Arc<dyn Store>,
    mark: Arc<MarkFile>,
    metrics: Arc<Metrics>,
    pilot_tokens: Option<PilotTokens>,
    secrets: Arc<Secrets>,
) -> Result<(Handle, Option<Epoch>), ServeError> {
    let setup = Setup {
        secrets,
        fleets: config.fleets.clone(),
        pilot_tokens,
        store: Arc::clone(store) as _,
        config: CoreConfig {
            store: match config.backend {
                Backend::Sqlite | Backend::Postgres(_) => StoreMode::Durable,
                Backend::Memory => StoreMode::Memory,
            },
            timeouts: config.timeouts,
            allow_bump_unhealthy: config.allow_bump_unhealthy,
            stuck_after: config.stuck_after,
            tracing: config.traces.as_ref().map(|it| it.sampling),
            predecessor_grace: match store.sharing() {
                Some(_) => config.election.lapse,
                None => Millis(0),
            },
            ..CoreConfig::default()
        },
        limits: config.limits.clone(),
        mark,
        metrics,
        election: config.election,
    };
    if setup.store.sharing().is_some() {
        let handle = driver::start_following(setup).map_err(ServeError::Thread)?;
        return Ok((handle, None));
    }
    let taken = leadership::take(&*setup.store, &setup.mark, Epoch(0), None)?;
    let epoch = taken.epoch;
    let handle = driver::start(setup, taken).map_err(ServeError::Thread)?;
    Ok((handle, Some(epoch)))
}

fn address(listener: &TcpListener, asked: SocketAddr) -> Result<SocketAddr, ServeError> {
    let address = listener.local_addr();
    address.map_err(|error| ServeError::Listen {
        address: asked,
        error,
    })
}
