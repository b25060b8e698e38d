//! A schema for a benchmark, which is removed after it.
//!
//! The schema `baton` is marked by a comment in the transaction that creates it. Only a schema with this
//! mark is ever dropped, so a store that is in use cannot be lost by a wrong URL.

use super::error::store_error;
use super::schema::{self, SETTINGS};
use super::session::Connection;
use super::target::{StoreUrl, Target};
use crate::StoreError;

/// The comment of a schema that may be dropped.
const MARK: &str = "scratch of baton bench";

/// The advisory lock of a benchmark: "Batn", 2.
const LOCK: &str = "1113683054, 2";

/// An empty schema `baton` in a database that had none.
pub struct ScratchSchema {
    target: Target,
    /// Holds the lock.
    connection: Connection,
}

impl ScratchSchema {
    /// Creates the schema. One that a killed benchmark has left is replaced.
    ///
    /// # Errors
    /// If the database has a store already, another benchmark uses it, or it cannot be reached.
    pub fn create(url: &StoreUrl) -> Result<Self, StoreError> {
        let target = Target::parse(url, "baton-bench")?;
        let opened = Connection::open(&target, SETTINGS);
        let connection = opened.map_err(|error| schema::unreachable(&target, error))?;
        let lock = format!("SELECT pg_try_advisory_lock({LOCK})");
        if !is_true(&target, &connection, &lock)? {
            return Err(refusal(&target, "another benchmark uses this database"));
        }
        // Only with the lock: it removes the schema when it is dropped.
        let scratch = Self { target, connection };
        scratch.clear()?;
        Ok(scratch)
    }

    /// Replaces the schema by an empty one.
    ///
    /// # Errors
    /// If it is not marked, or the server fails.
    pub fn clear(&self) -> Result<(), StoreError> {
        self.remove()?;
        self.run(&format!(
            "CREATE SCHEMA baton; COMMENT ON SCHEMA baton IS '{MARK}'"
        ))
    }

    fn remove(&self) -> Result<(), StoreError> {
        let exists = self.is_true("SELECT to_regnamespace('baton') IS NOT NULL")?;
        if !exists {
            return Ok(());
        }
        let is_marked = self.is_true(&format!(
            "SELECT obj_description(to_regnamespace('baton'), 'pg_namespace') \
             IS NOT DISTINCT FROM '{MARK}'"
        ))?;
        if !is_marked {
            return Err(refusal(
                &self.target,
                "it has a store already; a benchmark needs a database without one, \
                 such as `createdb baton_bench` makes",
            ));
        }
        self.run("DROP SCHEMA baton CASCADE")
    }

    fn is_true(&self, sql: &str) -> Result<bool, StoreError> {
        is_true(&self.target, &self.connection, sql)
    }

    fn run(&self, sql: &str) -> Result<(), StoreError> {
        let run = self.connection.run(sql);
        run.map_err(|error| store_error(&self.target.place, &error))
    }
}

impl Drop for ScratchSchema {
    fn drop(&mut self) {
        // Best effort: the next benchmark removes what is left.
        let _ = self.remove();
    }
}

fn refusal(target: &Target, reason: &str) -> StoreError {
    StoreError::Failed(format!("{}: {reason}", target.place))
}

fn is_true(target: &Target, connection: &Connection, sql: &str) -> Result<bool, StoreError> {
    let rows = connection.rows(sql, &[]);
    let value = rows.and_then(|rows| match rows.first() {
        Some(row) => row.try_get(0),
        None => Ok(false),
    });
    value.map_err(|error| store_error(&target.place, &error))
}
