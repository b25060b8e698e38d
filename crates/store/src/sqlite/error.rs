//! Errors of SQLite.

use rusqlite::{ErrorCode, ffi};

use crate::StoreError;

/// Converts an error of SQLite.
pub(crate) fn store_error(place: &str, error: &rusqlite::Error) -> StoreError {
    let what = format!("{place}: {error}");
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => match failure.code {
            ErrorCode::DiskFull => StoreError::DiskFull(what),
            // The WAL index could not grow: the disk is full.
            _ if failure.extended_code == ffi::SQLITE_IOERR_SHMSIZE => StoreError::DiskFull(what),
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => StoreError::Busy(what),
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => StoreError::Corrupt(what),
            ErrorCode::ReadOnly | ErrorCode::PermissionDenied => StoreError::ReadOnly(what),
            _ => StoreError::Failed(what),
        },
        _ => StoreError::Failed(what),
    }
}
