//! Errors of starting and running a server.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use baton_model::timeouts::TimeoutsError;
use baton_store::StoreError;
use baton_tls::TlsError;

/// Error of starting or running a server.
#[derive(Debug)]
pub enum ServeError {
    /// Another scheduler uses the data directory.
    Taken {
        data: PathBuf,
        /// Its pid, if the lock file contains it.
        pid: Option<u32>,
    },
    /// A file of the data directory cannot be used.
    Data { path: PathBuf, error: io::Error },
    /// The epoch file holds something else than an epoch.
    EpochFile(PathBuf),
    /// The store cannot be opened or taken.
    Store(StoreError),
    /// An address cannot be bound.
    Listen {
        address: SocketAddr,
        error: io::Error,
    },
    /// An address requires tokens, and there is no valid one.
    NoTokens {
        address: SocketAddr,
        /// The directory whose store has none; `None` for a store in memory.
        data: Option<PathBuf>,
    },
    /// TLS files that cannot be used.
    Tls(TlsError),
    /// A time budget that would break a guarantee of the protocol.
    Timeouts(TimeoutsError),
    /// The driver's thread cannot be started.
    Thread(io::Error),
    /// The thread of the store has died of a bug; the panic message is on standard error.
    StoreDied(String),
    /// The driver has died of a bug; the panic message is on standard error.
    DriverDied,
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken { data, pid } => {
                write!(f, "another scheduler is using {}", data.display())?;
                if let Some(pid) = pid {
                    write!(f, " (pid {pid})")?;
                }
                f.write_str("; stop it first, or choose another directory with --data")
            }
            Self::Data { path, error } => write!(
                f,
                "cannot use {}: {error}; check its owner and mode, or choose another directory with \
                 --data",
                path.display()
            ),
            Self::EpochFile(path) => write!(
                f,
                "{} contains no epoch number; write the highest epoch that was ever in force into it",
                path.display()
            ),
            Self::Store(error) => error.fmt(f),
            Self::Listen { address, error } => write!(
                f,
                "cannot listen on {address}: {error}; choose another address with --listen or \
                 --worker-listen"
            ),
            Self::NoTokens {
                address,
                data: Some(data),
            } => write!(
                f,
                "{address} is reachable from other machines, and there is no valid token; create one \
                 with `baton token create --role admin --data {}`, accept certificates with \
                 --client-ca (TLS alone does not authenticate clients), or listen on a loopback \
                 address",
                data.display()
            ),
            Self::NoTokens {
                address,
                data: None,
            } => write!(
                f,
                "{address} requires tokens, and an in-memory store has none when it starts; use \
                 --store sqlite, accept certificates with --client-ca, or listen on loopback \
                 addresses without --require-tokens"
            ),
            Self::Tls(error) => error.fmt(f),
            Self::Timeouts(error) => error.fmt(f),
            Self::Thread(error) => write!(f, "cannot start a thread: {error}"),
            Self::StoreDied(reason) => write!(
                f,
                "the store failed permanently: {reason}; restart the scheduler: nothing that it \
                 accepted is lost"
            ),
            Self::DriverDied => f.write_str("the scheduler ended because of a bug"),
        }
    }
}

impl std::error::Error for ServeError {}
