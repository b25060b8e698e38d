//! Errors of the store.

use std::fmt;

use baton_core::ledger::LedgerError;

use crate::limits::TOKENS_MAX;

/// Reason why a store operation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// Another leader has taken the row: the caller must step down.
    Overtaken,
    /// An earlier write of the same term failed, so no later one may commit.
    TermBroken,
    /// The facts contradict earlier ones: a bug, or a store that was edited by hand.
    Contradiction(LedgerError),
    /// The disk is full.
    DiskFull(String),
    /// Another process held the lock on the store for too long.
    Busy(String),
    /// The stored data is invalid.
    Corrupt(String),
    /// The store is read-only.
    ReadOnly(String),
    /// The store was written by a newer Baton.
    NewerSchema {
        place: String,
        /// The version of the store.
        found: u32,
        /// The newest version that this Baton supports.
        known: u32,
    },
    /// The file is a database of another program.
    Foreign(String),
    /// The limit on tokens is reached, and all of them are valid.
    TooManyTokens,
    /// Any other failure, usually of the disk.
    Failed(String),
    /// The store is closed, or its writer thread has died.
    Closed,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overtaken => f.write_str("another scheduler leads"),
            Self::TermBroken => {
                f.write_str("an earlier write of this term failed, so this one was not committed")
            }
            Self::Contradiction(error) => {
                write!(f, "the facts contradict what the store holds: {error}")
            }
            Self::DiskFull(what) => write!(f, "no space left for the store: {what}"),
            Self::Busy(what) => write!(f, "another process holds the lock on the store: {what}"),
            Self::Corrupt(what) => write!(
                f,
                "the store is damaged: {what}; keep the file, and restore a backup"
            ),
            Self::ReadOnly(what) => write!(f, "the store cannot be written: {what}"),
            Self::NewerSchema {
                place,
                found,
                known,
            } => write!(
                f,
                "{place} has schema version {found}, and this baton supports versions up to {known}; \
                 start a newer baton, or restore the backup made before the upgrade"
            ),
            Self::Foreign(place) => write!(
                f,
                "{place} is a database of another program; choose another data directory"
            ),
            Self::TooManyTokens => write!(
                f,
                "the limit of {TOKENS_MAX} valid tokens is reached; revoke unused ones"
            ),
            Self::Failed(what) => write!(f, "the store failed: {what}"),
            Self::Closed => f.write_str("the store is closed"),
        }
    }
}

impl std::error::Error for StoreError {}

impl From<LedgerError> for StoreError {
    fn from(error: LedgerError) -> Self {
        Self::Contradiction(error)
    }
}
