//! Errors of starting and running a server.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use baton_fs::private::DirError;
use baton_model::timeouts::TimeoutsError;
use baton_store::StoreError;
use baton_tls::TlsError;
use thiserror::Error;

use crate::log_archive::BucketError;
use crate::secrets::KeyError;

/// Error of starting or running a server.
#[derive(Debug, Error)]
pub enum ServeError {
    /// Another scheduler uses the data directory.
    #[error(
        "another scheduler is using {}{}; stop it first, or choose another directory with --data",
        .data.display(),
        .pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default()
    )]
    Taken {
        data: PathBuf,
        /// Its pid, if the lock file contains it.
        pid: Option<u32>,
    },
    /// A file of the data directory cannot be used.
    #[error(
        "cannot use {}: {error}; check its owner and mode, or choose another directory with --data",
        .path.display()
    )]
    Data { path: PathBuf, error: io::Error },
    /// The data directory is not safe to use.
    #[error("{0}, or choose another directory with --data")]
    Directory(DirError),
    /// The kernel provides no random bits for an epoch.
    #[error("the kernel provides no random numbers: {0}")]
    Random(getrandom::Error),
    /// The number of the last term is the largest there is.
    #[error(
        "there is no epoch left for this store; if {} is damaged, remove it",
        .0.display()
    )]
    NoEpochLeft(PathBuf),
    /// The store cannot be opened or taken.
    #[error("{0}")]
    Store(StoreError),
    /// An address cannot be bound.
    #[error(
        "cannot listen on {address}: {error}; choose another address with --listen or \
         --worker-listen"
    )]
    Listen {
        address: SocketAddr,
        error: io::Error,
    },
    /// An address requires tokens, and there is no valid one.
    #[error("{}", no_tokens(*.address, .store.as_deref()))]
    NoTokens {
        address: SocketAddr,
        /// The option that names the store; `None` for a store in memory.
        store: Option<String>,
    },
    /// TLS files that cannot be used.
    #[error("{0}")]
    Tls(TlsError),
    /// The keys of secrets cannot be read.
    #[error("{0}")]
    SecretKey(KeyError),
    /// A shared store, and an address that other schedulers cannot use.
    #[error(
        "other schedulers and clients cannot reach {address}; tell them how with {flag} (the store \
         is shared)"
    )]
    NotAdvertised {
        flag: &'static str,
        address: SocketAddr,
    },
    /// `--advertise` is not the URL of a client port.
    #[error("--advertise {url}: {reason}; expected a URL such as https://scheduler-a:8080")]
    BadAdvertise { url: String, reason: String },
    /// The bucket for collected logs cannot be used.
    #[error("cannot collect logs into {location}: {error}")]
    LogBucket {
        location: String,
        error: BucketError,
    },
    /// The HTTP client for other schedulers cannot be made.
    #[error("cannot prepare requests to other schedulers: {0}")]
    PeerClient(String),
    /// A time budget that would break a guarantee of the protocol.
    #[error("{0}")]
    Timeouts(TimeoutsError),
    /// The driver's thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
    /// The thread of the store has died of a bug; the panic message is on standard error.
    #[error(
        "the store failed permanently: {0}; restart the scheduler: nothing that it accepted is lost"
    )]
    StoreDied(String),
    /// The driver has died of a bug; the panic message is on standard error.
    #[error("the scheduler ended because of a bug")]
    DriverDied,
}

fn no_tokens(address: SocketAddr, store: Option<&str>) -> String {
    match store {
        Some(store) => format!(
            "{address} is reachable from other machines, and there is no valid token; create one \
             with `baton token create --role admin {store}`, accept certificates with \
             --client-ca (TLS alone does not authenticate clients), or listen on a loopback address"
        ),
        None => format!(
            "{address} requires tokens, and an in-memory store has none when it starts; use \
             --store sqlite, accept certificates with --client-ca, or listen on loopback \
             addresses without --require-tokens"
        ),
    }
}
