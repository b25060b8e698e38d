//! The store in one SQLite file, or in memory.
//!
//! | module | holds |
//! |---|---|
//! | `error` | conversion of errors |
//! | `schema` | settings and migrations |
//! | `wal` | checkpoints of the write-ahead log, and free pages |
//!
//! Several processes of one host may open the same file: leadership is a row, and its epoch is
//! checked inside every write. The file must be on a local file system, because the WAL's index is
//! shared memory.

pub(crate) mod error;
pub(crate) mod schema;
mod wal;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::{Connection, TransactionBehavior};

use crate::StoreError;
use crate::sql::db::{Db, Error};
use crate::sql::rows::{to_store_error, unsigned};
use crate::sql::{Engine, SqlStore};
use error::store_error;
use wal::Wal;

pub use crate::schema_version::SCHEMA_VERSION;

/// A store in one file, or in memory.
pub type SqliteStore = SqlStore<Sqlite>;

/// A database file, or a database in memory.
pub struct Sqlite {
    path: PathBuf,
    place: String,
    /// Keeps a database in memory alive while no other connection is open.
    _anchor: Option<Mutex<Connection>>,
    wal: Wal,
}

impl Sqlite {
    fn new(path: PathBuf, anchor: Option<Connection>) -> Self {
        Self {
            place: path.display().to_string(),
            path,
            _anchor: anchor.map(Mutex::new),
            wal: Wal::default(),
        }
    }
}

impl SqliteStore {
    /// Opens the file, creates it if it is missing, and migrates its schema.
    ///
    /// # Errors
    /// [`StoreError::NewerSchema`] or [`StoreError::Foreign`] if the file is not ours; it is then
    /// left unchanged. Others if it cannot be read or written.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        drop(schema::prepare(path)?);
        Self::start(Sqlite::new(path.to_owned(), None))
    }

    /// A new store in memory: nothing of it survives the process.
    ///
    /// # Errors
    /// [`StoreError`] if there is no memory or no thread for it.
    pub fn in_memory() -> Result<Self, StoreError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let path = schema::in_memory(COUNT.fetch_add(1, Ordering::Relaxed));
        let anchor = schema::prepare(&path)?;
        Self::start(Sqlite::new(path, Some(anchor)))
    }

    /// Checks the integrity of every page; the time is proportional to the file's size.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] with the first damage found.
    pub fn check(&self) -> Result<(), StoreError> {
        let sql = "PRAGMA integrity_check(1)";
        let found: String = self.read(|db| db.query_row(sql, (), |row| row.get(0)))?;
        if found == "ok" {
            Ok(())
        } else {
            let place = self.engine().place();
            Err(StoreError::Corrupt(format!("{place}: {found}")))
        }
    }
}

impl Engine for Sqlite {
    type Connection = Connection;

    fn place(&self) -> &str {
        &self.place
    }

    fn writer(&self) -> Result<Connection, StoreError> {
        schema::writer(&self.path)
    }

    fn reader(&self) -> Result<Connection, StoreError> {
        schema::reader(&self.path)
    }

    fn revive(&self, connection: Connection) -> Option<Connection> {
        Some(connection)
    }

    fn write<T>(
        &self,
        connection: &mut Connection,
        work: impl FnOnce(&Db<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let failed = |error| store_error(&self.place, &error);
        let tx = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failed)?;
        schema::check(&tx, &self.path)?;
        let value = work(&Db::Sqlite(&tx))?;
        tx.commit().map_err(failed)?;
        Ok(value)
    }

    /// In WAL mode readers and the writer do not block each other.
    fn read<T>(
        &self,
        connection: &mut Connection,
        work: impl FnOnce(&Db<'_>) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        let failed = |error| store_error(&self.place, &error);
        let snapshot = connection.transaction().map_err(failed)?;
        schema::check(&snapshot, &self.path)?;
        let value = work(&Db::Sqlite(&snapshot));
        let value = value.map_err(|error| to_store_error(&self.place, error))?;
        snapshot.commit().map_err(failed)?;
        Ok(value)
    }

    fn committed(&self, connection: &mut Connection, facts: usize) {
        self.wal.committed(connection, facts);
    }

    fn vacuum(&self, db: &Db<'_>) -> Result<bool, Error> {
        wal::vacuum(db)
    }

    fn vacuumed(&self, connection: &mut Connection) -> Result<(), StoreError> {
        let truncated = wal::checkpoint(connection, "TRUNCATE");
        truncated.map_err(|error| store_error(&self.place, &error))?;
        Ok(())
    }

    fn size(&self, db: &Db<'_>) -> Result<u64, Error> {
        let sql = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
        db.query_row(sql, (), |row| unsigned(row, 0))
    }
}
