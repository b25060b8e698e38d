//! The store in PostgreSQL, for several schedulers.
//!
//! | module | holds |
//! |---|---|
//! | `target` | the database that a URL names |
//! | `hosts` | the servers that a URL names |
//! | `tls` | encrypted connections |
//! | `history` | detection of promotions and restored backups |
//! | `pooling` | detection of a pooler that shares sessions |
//! | `session` | connections and transactions |
//! | `pipeline` | requests that are sent together |
//! | `plans` | prepared statements, and plans that are made in advance |
//! | `deferred` | writes that wait for the end of their transaction |
//! | `dialect` | PostgreSQL's spelling of the shared statements |
//! | `examine` | settings of the server, for `baton doctor` |
//! | `error` | conversion of errors |
//! | `value` | values of parameters and columns |
//! | `schema` | the schema and its migrations |
//! | `sharing` | sessions, notifications and announcements of schedulers |
//! | `listener` | a connection that hears of commits |
//! | `scratch` | a schema for a benchmark |
//!
//! A transaction that writes locks the leader row, so it and a takeover exclude each other. Rows are
//! written with one statement for each table, whatever their number.

mod deferred;
mod dialect;
pub(crate) mod error;
pub(crate) mod examine;
mod history;
mod hosts;
pub(crate) mod listener;
mod pipeline;
mod plans;
mod pooling;
pub(crate) mod schema;
mod scratch;
pub(crate) mod session;
mod sharing;
mod target;
mod tls;
pub(crate) mod value;

use crate::StoreError;
use crate::sharing::Sharing;
use crate::sql::db::{Db, Error};
use crate::sql::rows::{to_store_error, unsigned};
use crate::sql::{Engine, SqlStore, group_statements};
pub use scratch::ScratchSchema;
use session::{Access, Connection};
use sharing::SharedSessions;
pub use target::StoreUrl;

use target::Target;

/// A store in PostgreSQL.
pub type PostgresStore = SqlStore<Postgres>;

/// The space of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSize {
    pub name: String,
    pub table: u64,
    pub indexes: u64,
}

/// A database on a server.
pub struct Postgres {
    target: Target,
    sessions: SharedSessions,
}

impl PostgresStore {
    /// Connects to the database that the URL names, creates the schema `baton` in it if it is missing,
    /// and migrates it.
    ///
    /// # Errors
    /// [`StoreError::NewerSchema`] if a newer Baton has written it; others if the server cannot be
    /// reached, refuses the user, is behind a pooler that shares sessions, or the URL is not valid.
    pub fn connect(url: &StoreUrl) -> Result<Self, StoreError> {
        let random = getrandom::u64()
            .map_err(|error| StoreError::Failed(format!("there are no random numbers: {error}")))?;
        // Unique, so that another scheduler can end all connections of this one.
        let target = Target::parse(url, &format!("baton-{random:016x}"))?;
        pooling::refuse(&target)?;
        schema::prepare(&target)?;
        Self::start(Postgres {
            sessions: SharedSessions::new(target.clone()),
            target,
        })
    }

    /// The database, without the password.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.engine().target.place
    }

    /// The bytes of each table and of its indexes, by name.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn table_sizes(&self) -> Result<Vec<TableSize>, StoreError> {
        let sql = "SELECT c.relname::text, pg_table_size(c.oid), pg_indexes_size(c.oid) \
                   FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace \
                   WHERE n.nspname = 'baton' AND c.relkind = 'r' ORDER BY c.relname";
        self.read(|db| {
            db.prepare_cached(sql)?
                .query_map((), |row| {
                    Ok(TableSize {
                        name: row.get(0)?,
                        table: unsigned(row, 1)?,
                        indexes: unsigned(row, 2)?,
                    })
                })?
                .collect()
        })
    }

    /// What of the server's settings may lose acknowledged work or fill its disk, as sentences for its
    /// operator.
    ///
    /// # Errors
    /// If the settings cannot be read.
    pub fn warnings(&self) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT current_setting('synchronous_commit'), current_setting('fsync'), \
                   current_setting('full_page_writes'), current_setting('autovacuum')";
        let (commit, sync, pages, vacuum) = self.read(|db| {
            db.query_row(sql, (), |row| {
                Ok((
                    row.get::<String>(0)?,
                    row.get::<String>(1)?,
                    row.get::<String>(2)?,
                    row.get::<String>(3)?,
                ))
            })
        })?;
        let mut warnings = Vec::new();
        if self.engine().target.is_exposed {
            warnings.push(
                "traffic to the server is not encrypted, the password included; add \
                 sslmode=verify-full to its URL, or use a trusted network"
                    .to_owned(),
            );
        }
        if !self.engine().sessions.tells_history()? {
            warnings.push(
                "the server does not tell which history it continues, so a promoted standby that has \
                 lost commits is noticed only by what workers know"
                    .to_owned(),
            );
        }
        if commit == "off" {
            warnings.push(
                "the server has synchronous_commit off: the last commits are lost if it crashes"
                    .to_owned(),
            );
        }
        for (name, value) in [("fsync", sync), ("full_page_writes", pages)] {
            if value == "off" {
                warnings.push(format!(
                    "the server has {name} off: a crash can destroy the store"
                ));
            }
        }
        if vacuum == "off" {
            warnings.push(
                "the server has autovacuum off: the space of removed history is never used again, \
                 and the store grows without end"
                    .to_owned(),
            );
        }
        Ok(warnings)
    }
}

impl Engine for Postgres {
    type Connection = Connection;

    fn place(&self) -> &str {
        &self.target.place
    }

    fn writer(&self) -> Result<Connection, StoreError> {
        let settings = [schema::SETTINGS, schema::WRITER_SETTINGS].concat();
        Connection::open_with(&self.target, &settings, &group_statements())
            .map_err(|error| schema::unreachable(&self.target, error))
    }

    fn reader(&self) -> Result<Connection, StoreError> {
        Connection::open(&self.target, schema::SETTINGS)
            .map_err(|error| schema::unreachable(&self.target, error))
    }

    fn revive(&self, connection: Connection) -> Option<Connection> {
        connection.answers().then_some(connection)
    }

    fn write<T>(
        &self,
        connection: &mut Connection,
        work: impl FnOnce(&Db<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let session = connection.transaction(Access::Write);
        let value = work(&Db::Postgres(&session))?;
        let committed = session.commit();
        committed.map_err(|error| to_store_error(&self.target.place, error))?;
        Ok(value)
    }

    fn read<T>(
        &self,
        connection: &mut Connection,
        work: impl FnOnce(&Db<'_>) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        let failed = |error| to_store_error(&self.target.place, error);
        let session = connection.transaction(Access::Snapshot);
        let value = work(&Db::Postgres(&session)).map_err(failed)?;
        session.commit().map_err(failed)?;
        Ok(value)
    }

    fn committed(&self, _: &mut Connection, _: usize) {}

    /// Autovacuum reuses the space of removed rows.
    fn vacuum(&self, _: &Db<'_>) -> Result<bool, Error> {
        Ok(false)
    }

    fn vacuumed(&self, _: &mut Connection) -> Result<(), StoreError> {
        Ok(())
    }

    fn size(&self, db: &Db<'_>) -> Result<u64, Error> {
        let sql = "SELECT coalesce(CAST(sum(pg_total_relation_size(c.oid)) AS BIGINT), 0) \
                   FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace \
                   WHERE n.nspname = 'baton' AND c.relkind = 'r'";
        db.query_row(sql, (), |row| unsigned(row, 0))
    }

    fn sharing(&self) -> Option<&dyn Sharing> {
        Some(&self.sessions)
    }
}
