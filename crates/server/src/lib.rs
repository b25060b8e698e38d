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
//! | `driver` | the one thread that owns the leader, and life without a store |
//! | `workers` | the port of the workers |
//! | `http` | the port of the clients |
//! | `leadership` | the lock of the data directory, and the epoch |
//! | `prune` | removing old history |
//! | [`limits`] | every bound, with its reason |
//!
//! Writes go through the driver; reads go to the store, on threads of their own, and go on
//! while nothing can be written. It decides nothing about instances and workers: that is
//! `baton_core`. What travels over HTTP is `baton_model::api`.

mod clock;
mod driver;
mod error;
mod http;
mod leadership;
pub mod limits;
mod prune;
mod workers;

use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use baton_core::scheduler::{Config as CoreConfig, StoreMode};
use baton_model::ids::Epoch;
use baton_model::time::Millis;
use baton_model::timeouts::Timeouts;
use baton_store::{MemoryStore, Retention, SqliteStore, Store};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;

pub use error::ServeError;

use driver::mail::Mail;
use driver::{Handle, Setup};
use leadership::{DataLock, EpochFile};
use limits::FAREWELL_WAIT;

/// Where facts are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// In a file of the data directory.
    Sqlite,
    /// In memory: gone with the process.
    Memory,
}

/// How a server is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// The directory that it keeps everything in.
    pub data: PathBuf,
    /// For clients; a port of 0 lets the kernel choose.
    pub listen: SocketAddr,
    /// For workers, likewise.
    pub worker_listen: SocketAddr,
    /// Whether addresses that others can reach are allowed.
    pub insecure_listen: bool,
    /// Where facts are kept.
    pub backend: Backend,
    /// What the whole cluster may use of something.
    pub limits: Vec<(String, u64)>,
    /// The time budget of the protocol.
    pub timeouts: Timeouts,
    /// How much history is kept.
    pub retention: Retention,
}

impl Default for Config {
    fn default() -> Self {
        let loopback = |port| SocketAddr::from(([127, 0, 0, 1], port));
        Self {
            data: PathBuf::from(".baton"),
            listen: loopback(8080),
            worker_listen: loopback(8081),
            insecure_listen: false,
            backend: Backend::Sqlite,
            limits: Vec::new(),
            timeouts: Timeouts::default(),
            retention: Retention {
                history_age: Some(Millis::from_secs(30 * 24 * 60 * 60)),
                history_bytes: None,
                terminal_instances_max: Some(1_000_000),
            },
        }
    }
}

/// A server that listens and leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Where clients find it.
    pub clients: SocketAddr,
    /// Where workers find it.
    pub workers: SocketAddr,
    /// The term that it began with.
    pub epoch: Epoch,
}

/// Serves until `shutdown` resolves. `ready` is called once both ports are open and the
/// store is taken.
///
/// # Errors
/// [`ServeError`] if it cannot start, or has died of a bug.
pub async fn serve(
    config: Config,
    ready: impl FnOnce(Ready),
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    config.timeouts.validate().map_err(ServeError::Timeouts)?;
    let lock = DataLock::take(&config.data)?;
    let clients = listen(config.listen, config.insecure_listen).await?;
    let workers = listen(config.worker_listen, config.insecure_listen).await?;
    let (
        store,
        Handle {
            inbox,
            status,
            mut ended,
        },
        epoch,
    ) = lead(&config)?;
    let begun = Ready {
        clients: address(&clients, config.listen)?,
        workers: address(&workers, config.worker_listen)?,
        epoch,
    };
    let (end, ending) = watch::channel(false);
    let history = prune::HistoryLock::default();
    let app = http::App::new(
        Arc::clone(&store),
        inbox.clone(),
        status.clone(),
        Arc::clone(&history),
        begun.clients,
        ending.clone(),
    );
    let workers = tokio::spawn(workers::listen(workers, inbox.clone(), ending.clone()));
    let http = tokio::spawn(http::listen(clients, app, ending));
    let pruning = tokio::spawn(prune::run(store, config.retention, status, history));
    ready(begun);
    let died = tokio::select! {
        () = shutdown => false,
        _ = &mut ended => true,
    };
    tracing::info!("ends");
    pruning.abort();
    end.send_replace(true);
    // Requests that are under way are still answered, then the last commits land.
    if timeout(FAREWELL_WAIT, http).await.is_err() {
        tracing::warn!("some clients did not end their requests in time");
    }
    workers.abort();
    inbox.put(Mail::Stop);
    if !died && timeout(2 * FAREWELL_WAIT, ended).await.is_err() {
        tracing::warn!("the store did not end its commits in time");
    }
    drop(lock);
    if died {
        Err(ServeError::DriverDied)
    } else {
        Ok(())
    }
}

/// Opens the store, takes it, and starts the driver.
fn lead(config: &Config) -> Result<(Arc<dyn Store>, Handle, Epoch), ServeError> {
    let (store, epochs): (Arc<dyn Store>, _) = match config.backend {
        Backend::Sqlite => {
            let store = SqliteStore::open(&config.data.join("baton.db"));
            (Arc::new(store.map_err(ServeError::Store)?), None)
        }
        Backend::Memory => {
            let epochs = EpochFile::of(&config.data);
            (Arc::new(MemoryStore::new()), Some(epochs))
        }
    };
    let above = epochs.as_ref().map_or(Ok(Epoch(0)), EpochFile::read)?;
    let (epoch, ledger) = leadership::take(&*store, above).map_err(ServeError::Store)?;
    if let Some(epochs) = &epochs {
        epochs.write(epoch)?;
    }
    let setup = Setup {
        store: Arc::clone(&store),
        config: CoreConfig {
            store: match config.backend {
                Backend::Sqlite => StoreMode::Durable,
                Backend::Memory => StoreMode::Memory,
            },
            timeouts: config.timeouts,
            ..CoreConfig::default()
        },
        limits: config.limits.clone(),
        epochs,
    };
    let handle = driver::start(setup, epoch, ledger).map_err(ServeError::Thread)?;
    Ok((store, handle, epoch))
}

/// Resolves when the server ends.
pub(crate) async fn ends(ending: &mut watch::Receiver<bool>) {
    // Fails only if the server is gone altogether.
    let _ = ending.wait_for(|ending| *ending).await;
}

async fn listen(address: SocketAddr, insecure: bool) -> Result<TcpListener, ServeError> {
    if !insecure && !address.ip().is_loopback() {
        return Err(ServeError::NotLoopback(address));
    }
    let listener = TcpListener::bind(address).await;
    listener.map_err(|error| ServeError::Listen { address, error })
}

fn address(listener: &TcpListener, asked: SocketAddr) -> Result<SocketAddr, ServeError> {
    let address = listener.local_addr();
    address.map_err(|error| ServeError::Listen {
        address: asked,
        error,
    })
}
