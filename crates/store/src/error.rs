//! Errors of the store.

use baton_core::ledger::LedgerError;
use baton_model::fleet::FleetName;

use crate::limits::{SECRETS_MAX, TOKENS_MAX};

/// Reason why a store operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Another leader has taken the row: the caller must step down.
    #[error("another scheduler leads")]
    Overtaken,
    #[error("an earlier write of this term failed, so this one was not committed")]
    TermBroken,
    /// A bug, or a store that was edited by hand.
    #[error("the facts contradict what the store holds: {0}")]
    Contradiction(#[from] LedgerError),
    #[error("no space left for the store: {0}")]
    DiskFull(String),
    /// For too long.
    #[error("another process holds the lock on the store: {0}")]
    Busy(String),
    /// Other sessions have taken all of them.
    #[error(
        "the server of the store has no connection left: {0}; end other sessions, or raise its \
         max_connections"
    )]
    NoConnection(String),
    #[error("the store is damaged: {0}; keep the file, and restore a backup")]
    Corrupt(String),
    #[error("the store cannot be written: {0}")]
    ReadOnly(String),
    #[error(
        "{place} has schema version {found}, and this baton supports versions up to {known}; start \
         a newer baton, or restore the backup made before the upgrade"
    )]
    NewerSchema {
        place: String,
        found: u32,
        known: u32,
    },
    #[error("{0} is a database of another program; choose another data directory")]
    Foreign(String),
    /// The destination of a copy.
    #[error("{0} is not empty; choose a new data directory, or an empty database")]
    NotEmpty(String),
    #[error("the limit of {TOKENS_MAX} valid tokens is reached; revoke unused ones")]
    TooManyTokens,
    #[error("the limit of {SECRETS_MAX} secrets is reached; remove unused ones")]
    TooManySecrets,
    /// A token was to be issued for its pilots.
    #[error("there is no fleet {0}")]
    NoFleet(FleetName),
    /// Any other failure, usually of the disk.
    #[error("the store failed: {0}")]
    Failed(String),
    /// Its writer thread may have died.
    #[error("the store is closed")]
    Closed,
}
