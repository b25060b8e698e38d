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
//! | `dialect` | PostgreSQL's spelling of the shared statements |
//! | `error` | conversion of errors |
//! | `value` | values of parameters and columns |
//! | `schema` | the schema and its migrations |
//! | `sharing` | sessions, notifications and announcements of schedulers |
//! | `listener` | a connection that hears of commits |
//!
//! A transaction that writes locks the leader row, so it and a takeover exclude each other. Rows are
//! written with one statement for each table, whatever their number.

mod dialect;
pub(crate) mod error;
mod history;
mod hosts;
pub(crate) mod listener;
mod pooling;
mod schema;
pub(crate) mod session;
mod sharing;
mod target;
mod tls;
pub(crate) mod value;

use crate::StoreError;
use crate::sharing::Sharing;
use crate::sql::db::{Db, Error};
use crate::sql::rows::{to_store_error, unsigned};
use crate::sql::{Engine, SqlStore};
use error::store_error;
use session::{Access, Connection};
use sharing::SharedSessions;
pub use target::StoreUrl;

use target::Target;

/// A store in PostgreSQL.
pub type PostgresStore = SqlStore<Postgres>;

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

    /// What of the server's settings may lose acknowledged work, as sentences for its operator.
    ///
    /// # Errors
    /// If the settings cannot be read.
    pub fn warnings(&self) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT current_setting('synchronous_commit'), current_setting('fsync'), \
                   current_setting('full_page_writes')";
        let (commit, sync, pages) = self.read(|db| {
            db.query_row(sql, (), |row| {
                Ok((
                    row.get::<String>(0)?,
                    row.get::<String>(1)?,
                    row.get::<String>(2)?,
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
        if let Err(error) = self.engine().sessions.has_broken_history() {
            warnings.push(format!(
                "the server does not tell which history it continues, so a promoted standby that has \
                 lost commits is noticed only by what workers know: {error}"
            ));
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
        Connection::open(&self.target, &settings)
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
        let begun = connection.begin(Access::Write);
        let session = begun.map_err(|error| store_error(&self.target.place, &error))?;
        let value = {
            let db = Db::Postgres(&session);
            schema::check(&db, &self.target)?;
            work(&db)?
        };
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
        let begun = connection.begin(Access::Snapshot);
        let session = begun.map_err(|error| failed(error.into()))?;
        let value = {
            let db = Db::Postgres(&session);
            schema::check(&db, &self.target)?;
            work(&db).map_err(failed)?
        };
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
