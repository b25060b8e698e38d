//! What can go wrong with a store, in words for the person who has to fix it.

use std::fmt;

use baton_core::ledger::LedgerError;

use crate::limits::TOKENS_MAX;

/// Why the store did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// Another leader has taken the row: step down.
    Overtaken,
    /// An earlier write of the same term failed, so nothing after it may land.
    TermBroken,
    /// The facts do not fit those before them: a bug, or a store that was changed
    /// by hand.
    Contradiction(LedgerError),
    /// There is no space left.
    DiskFull(String),
    /// Another process held the store for too long.
    Busy(String),
    /// What was read cannot be right.
    Corrupt(String),
    /// The store cannot be written.
    ReadOnly(String),
    /// The store was written by a newer Baton.
    NewerSchema {
        place: String,
        /// The version it has.
        found: u32,
        /// The newest version that this Baton knows.
        known: u32,
    },
    /// It is a database, but not one of Baton's.
    Foreign(String),
    /// There are as many tokens as there may be, and all of them are valid.
    TooManyTokens,
    /// Anything else, mostly a failing disk.
    Failed(String),
    /// The store was closed, or its writer has died.
    Closed,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overtaken => f.write_str("another scheduler leads"),
            Self::TermBroken => {
                f.write_str("an earlier write of this term failed, so this one must not land")
            }
            Self::Contradiction(error) => {
                write!(f, "the facts contradict what the store holds: {error}")
            }
            Self::DiskFull(what) => write!(f, "no space left for the store: {what}"),
            Self::Busy(what) => write!(f, "another process keeps the store locked: {what}"),
            Self::Corrupt(what) => write!(
                f,
                "the store is damaged: {what}; keep the file, and put a backup in its place"
            ),
            Self::ReadOnly(what) => write!(f, "the store cannot be written: {what}"),
            Self::NewerSchema {
                place,
                found,
                known,
            } => write!(
                f,
                "{place} has schema version {found}, and this baton knows versions up to {known}; \
                 start a newer baton, or put back the backup made before the upgrade"
            ),
            Self::Foreign(place) => write!(
                f,
                "{place} is a database of another program; choose another data directory"
            ),
            Self::TooManyTokens => write!(
                f,
                "there are {TOKENS_MAX} valid tokens already; revoke some that nobody needs"
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
