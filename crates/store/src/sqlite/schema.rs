//! Settings of the database file, and schema migrations.
//!
//! A released migration is never edited: a change is a new file after the last. Each migration runs
//! in a transaction of its own, which also records the version, so an upgrade that was killed
//! continues where it stopped. A file with a newer version is left unchanged. A new kind of fact
//! needs a new version, too, even if no table changes: an older Baton could not read the history.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use rustix::fs::Access;

use super::error::store_error;
use crate::StoreError;
use crate::limits::{BUSY_TIMEOUT_MS, WAL_BYTES_KEPT};
use crate::schema_version::SCHEMA_VERSION as VERSION;

/// Step `n` migrates from version `n` to version `n + 1`.
const MIGRATIONS: &[&str] = &[
    include_str!("v1.sql"),
    include_str!("v2.sql"),
    include_str!("v3.sql"),
    include_str!("v4.sql"),
    include_str!("v5.sql"),
    include_str!("v6.sql"),
    include_str!("v7.sql"),
    include_str!("v8.sql"),
    include_str!("v9.sql"),
    include_str!("v10.sql"),
    include_str!("v11.sql"),
    include_str!("v12.sql"),
    include_str!("v13.sql"),
    include_str!("v14.sql"),
    include_str!("v15.sql"),
    include_str!("v16.sql"),
    include_str!("v17.sql"),
    include_str!("v18.sql"),
];

const _: () = assert!(
    MIGRATIONS.len() == VERSION as usize,
    "a migration belongs to each version"
);

/// Marks the file as Baton's: "Batn".
const APPLICATION_ID: i64 = 0x4261_746e;

/// Ends the name of a database in memory.
const MEMORY: &str = "?vfs=memdb";

/// The name of a database in memory that all connections of this process share. It lives as long as
/// one of them.
pub(super) fn in_memory(number: u64) -> PathBuf {
    PathBuf::from(format!("file:/baton-{number}{MEMORY}"))
}

/// True for a name of [`in_memory`]. A file's name never ends like this: it is `baton.db`.
fn is_in_memory(path: &Path) -> bool {
    path.as_os_str()
        .as_encoded_bytes()
        .ends_with(MEMORY.as_bytes())
}

/// Creates the file if it is missing, and migrates it.
pub(crate) fn prepare(path: &Path) -> Result<Connection, StoreError> {
    if !is_in_memory(path) {
        create(path)?;
    }
    let mut db = plain(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let found = version(&db, path)?;
    if found == VERSION {
        return Ok(db);
    }
    let failed = |error| store_error(&path.display().to_string(), &error);
    if found == 0 {
        // Only an empty file accepts this setting, and only before WAL mode is on.
        db.pragma_update(None, "auto_vacuum", "INCREMENTAL")
            .map_err(failed)?;
    }
    configure(&db, path).map_err(failed)?;
    for (step, target) in MIGRATIONS.iter().zip(1..) {
        migrate(&mut db, path, step, target)?;
    }
    Ok(db)
}

/// A connection that may write; there is one for each store.
pub(crate) fn writer(path: &Path) -> Result<Connection, StoreError> {
    let db = plain(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    configure(&db, path).map_err(|error| store_error(&path.display().to_string(), &error))?;
    Ok(db)
}

/// A read-only connection.
pub(super) fn reader(path: &Path) -> Result<Connection, StoreError> {
    plain(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
}

/// Refuses a file whose schema is not the one that this Baton writes. Checked in every transaction:
/// a newer Baton may have migrated the file while this one was running.
pub(super) fn check(db: &Connection, path: &Path) -> Result<(), StoreError> {
    let found: u32 = db
        .prepare_cached("PRAGMA user_version")
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
        .map_err(|error| store_error(&path.display().to_string(), &error))?;
    if found == VERSION {
        return Ok(());
    }
    Err(StoreError::NewerSchema {
        place: path.display().to_string(),
        found,
        known: VERSION,
    })
}

/// Creates an empty file with mode 0600: commands and environments may be secret. SQLite gives the
/// WAL the same permissions.
///
/// An existing file is not opened here, only checked: closing any descriptor of it would drop the
/// locks that other connections of this process hold on it.
fn create(path: &Path) -> Result<(), StoreError> {
    let make = || {
        if fs::exists(path)? {
            return Ok(rustix::fs::access(
                path,
                Access::READ_OK | Access::WRITE_OK,
            )?);
        }
        let made = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path);
        match made {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
            made => made?.sync_all()?,
        }
        let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    };
    make().map_err(|error: io::Error| {
        let what = format!("{}: {error}", path.display());
        match error.kind() {
            ErrorKind::StorageFull => StoreError::DiskFull(what),
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                StoreError::ReadOnly(what)
            }
            _ => StoreError::Failed(what),
        }
    })
}

fn plain(path: &Path, mode: OpenFlags) -> Result<Connection, StoreError> {
    let mut flags = mode | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if is_in_memory(path) {
        flags |= OpenFlags::SQLITE_OPEN_URI;
    }
    let open = || {
        let db = Connection::open_with_flags(path, flags)?;
        db.busy_timeout(Duration::from_millis(BUSY_TIMEOUT_MS))?;
        db.set_prepared_statement_cache_capacity(64);
        db.pragma_update(None, "temp_store", "MEMORY")?;
        Ok(db)
    };
    open().map_err(|error| store_error(&path.display().to_string(), &error))
}

fn configure(db: &Connection, path: &Path) -> Result<(), rusqlite::Error> {
    let journal = if is_in_memory(path) { "MEMORY" } else { "WAL" };
    db.pragma_update_and_check(None, "journal_mode", journal, |_| Ok(()))?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "foreign_keys", "ON")?;
    db.pragma_update(None, "cache_size", -32_768)?;
    db.pragma_update(None, "journal_size_limit", WAL_BYTES_KEPT.cast_signed())?;
    // The writer checkpoints the WAL itself, after it has reported the outcomes.
    db.pragma_update(None, "wal_autocheckpoint", 0)
}

/// The version of the file; 0 if it is empty.
fn version(db: &Connection, path: &Path) -> Result<u32, StoreError> {
    let failed = |error| store_error(&path.display().to_string(), &error);
    let number = |pragma: &str| db.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let found = number("user_version").map_err(failed)?;
    let application = number("application_id").map_err(failed)?;
    let tables: i64 = db
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(failed)?;
    if tables == 0 && found == 0 {
        return Ok(0);
    }
    let place = path.display().to_string();
    if application != APPLICATION_ID {
        return Err(StoreError::Foreign(place));
    }
    let found = u32::try_from(found)
        .map_err(|_| StoreError::Corrupt(format!("{place} has schema version {found}")))?;
    if found > VERSION {
        return Err(StoreError::NewerSchema {
            place,
            found,
            known: VERSION,
        });
    }
    Ok(found)
}

/// Runs one step, unless the file already has that version, perhaps by another process just now.
fn migrate(db: &mut Connection, path: &Path, step: &str, target: u32) -> Result<(), StoreError> {
    let failed = |error| store_error(&path.display().to_string(), &error);
    let tx = db
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(failed)?;
    if version(&tx, path)? >= target {
        return Ok(());
    }
    tx.execute_batch(step).map_err(failed)?;
    tx.pragma_update(None, "user_version", target)
        .map_err(failed)?;
    tx.pragma_update(None, "application_id", APPLICATION_ID)
        .map_err(failed)?;
    tx.commit().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_committed_is_synced_and_free_pages_can_be_returned() {
        let dir = tempfile::tempdir().expect("a directory can be made");
        let path = dir.path().join("baton.db");
        prepare(&path).expect("a new file is made");
        let db = writer(&path).expect("opens");
        let text = |pragma: &str| {
            db.pragma_query_value(None, pragma, |row| row.get::<_, rusqlite::types::Value>(0))
                .map(|value| format!("{value:?}"))
        };
        let settings = [
            ("journal_mode", "Text(\"wal\")"),
            ("synchronous", "Integer(2)"),
            ("foreign_keys", "Integer(1)"),
            ("auto_vacuum", "Integer(2)"),
            ("temp_store", "Integer(2)"),
        ];
        for (pragma, value) in settings {
            assert_eq!(text(pragma).as_deref(), Ok(value), "{pragma}");
        }
    }

    #[test]
    fn an_upgrade_that_was_killed_at_its_beginning_goes_on() {
        let dir = tempfile::tempdir().expect("a directory can be made");
        let path = dir.path().join("baton.db");
        create(&path).expect("a file is made");
        let db = plain(&path, OpenFlags::SQLITE_OPEN_READ_WRITE).expect("opens");
        configure(&db, &path).expect("an empty file takes settings");
        drop(db);
        prepare(&path).expect("goes on");
        prepare(&path).expect("is done");
        let db = writer(&path).expect("opens");
        assert_eq!(version(&db, &path), Ok(VERSION));
        assert_eq!(check(&db, &path), Ok(()));
    }
}
