//! Errors of PostgreSQL.

use std::error::Error as _;

use tokio_postgres::error::{Error as PostgresError, SqlState};

use crate::StoreError;

/// Converts an error of PostgreSQL.
pub(crate) fn store_error(place: &str, error: &PostgresError) -> StoreError {
    let mut what = format!("{place}: {error}");
    // The server's own words, or those of the socket.
    if let Some(source) = error.source() {
        what = format!("{what}: {source}");
    }
    let Some(code) = error.code() else {
        return StoreError::Failed(what);
    };
    match *code {
        SqlState::DISK_FULL => StoreError::DiskFull(what),
        SqlState::READ_ONLY_SQL_TRANSACTION | SqlState::INSUFFICIENT_PRIVILEGE => {
            StoreError::ReadOnly(what)
        }
        SqlState::LOCK_NOT_AVAILABLE => StoreError::Busy(what),
        SqlState::TOO_MANY_CONNECTIONS => StoreError::NoConnection(what),
        SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => StoreError::Corrupt(what),
        _ => StoreError::Failed(what),
    }
}
