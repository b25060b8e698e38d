//! The schema in the database, and its migrations.
//!
//! Its versions are those of the SQLite store: a version means the same in both. Each migration runs
//! in a transaction of its own under a lock, so schedulers that start together migrate once.

use tokio_postgres::error::SqlState;

use super::error::store_error;
use super::history;
use super::session::{ConnectError, Connection};
use super::target::Target;
use crate::StoreError;
use crate::schema_version::SCHEMA_VERSION;

/// The first version that this backend has.
const FIRST: u32 = 11;

/// Step `n` migrates from version `FIRST + n` to the next.
const MIGRATIONS: &[&str] = &[
    include_str!("v12.sql"),
    include_str!("v13.sql"),
    include_str!("v14.sql"),
    include_str!("v15.sql"),
    include_str!("v16.sql"),
    include_str!("v17.sql"),
    include_str!("v18.sql"),
];

const _: () = assert!(
    FIRST as usize + MIGRATIONS.len() == SCHEMA_VERSION as usize,
    "a new version of the schema needs a migration for PostgreSQL, too"
);

/// The settings of all connections. Tables are small when a connection first plans a statement, and
/// large later, so the planner must prefer indexes from the beginning. The schema may hold tables of
/// other programs, hence one of our own.
pub(super) const SETTINGS: &str = "\
    SET client_min_messages = warning; SET search_path = baton; SET enable_seqscan = off; \
    SET jit = off; SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; \
    SET tcp_keepalives_count = 3; SET lock_timeout = '30s'; ";

/// The settings of the writer: a transaction of a frozen scheduler must not hold its locks for long.
/// Its statements are the same all the time, so a plan is made once for each; joins start from the few
/// rows of a group, whatever the planner believes of a table that was empty when it looked.
pub(super) const WRITER_SETTINGS: &str = "\
    SET idle_in_transaction_session_timeout = '10s'; SET plan_cache_mode = force_generic_plan; \
    SET enable_hashjoin = off; SET enable_mergejoin = off; ";

/// Creates the schema if it is missing, and migrates it.
pub(super) fn prepare(target: &Target) -> Result<(), StoreError> {
    let failed = |error: tokio_postgres::Error| store_error(&target.place, &error);
    let connection = Connection::open(target, SETTINGS).map_err(|it| unreachable(target, it))?;
    // Of the database, until the connection ends.
    connection
        .run("SELECT pg_advisory_lock(1113683054, 0); CREATE SCHEMA IF NOT EXISTS baton")
        .map_err(failed)?;
    let exists =
        "SELECT 1 FROM pg_tables WHERE schemaname = 'baton' AND tablename = 'schema_version'";
    if connection.rows(exists, &[]).map_err(failed)?.is_empty() {
        create(&connection, target)?;
    }
    let mut found = version(&connection).map_err(failed)?;
    if !(FIRST..=SCHEMA_VERSION).contains(&found) {
        return Err(newer(&target.place, found));
    }
    while let Some(step) = MIGRATIONS.get((found - FIRST) as usize) {
        found += 1;
        let sql = format!("BEGIN; {step}; UPDATE schema_version SET version = {found}; COMMIT");
        connection.run(&sql).map_err(failed)?;
    }
    connection.run(history::CREATE).map_err(failed)?;
    history::begin(&connection).map_err(failed)
}

fn create(connection: &Connection, target: &Target) -> Result<(), StoreError> {
    let random = getrandom::u64()
        .map_err(|error| StoreError::Failed(format!("there are no random numbers: {error}")))?;
    let sql = format!(
        "BEGIN; {} INSERT INTO identity (store, generation, settled) VALUES ({}, 0, TRUE); \
         CREATE TABLE schema_version (version BIGINT NOT NULL); \
         INSERT INTO schema_version VALUES ({FIRST}); COMMIT",
        include_str!("schema.sql"),
        random.cast_signed(),
    );
    let created = connection.run(&sql);
    created.map_err(|error| store_error(&target.place, &error))
}

fn version(connection: &Connection) -> Result<u32, tokio_postgres::Error> {
    let rows = connection.rows("SELECT version FROM schema_version", &[])?;
    let found = rows
        .first()
        .map(|row| row.try_get::<_, i64>(0))
        .transpose()?;
    Ok(u32::try_from(found.unwrap_or_default()).unwrap_or(u32::MAX))
}

/// The error of a schema that is not the one that this Baton writes. Checked in every transaction: a newer
/// Baton may have migrated it while this one was running.
pub(crate) fn newer(place: &str, found: u32) -> StoreError {
    StoreError::NewerSchema {
        place: place.to_owned(),
        found,
        known: SCHEMA_VERSION,
    }
}

/// The error of a server that cannot be reached.
pub(super) fn unreachable(target: &Target, error: ConnectError) -> StoreError {
    match error {
        ConnectError::Postgres(error) => store_error(&target.place, &error),
        ConnectError::EachFailed(failures) => {
            let what = format!("{}: {failures}", target.place);
            let is_full = |error: &ConnectError| match error {
                ConnectError::Postgres(error) => {
                    error.code() == Some(&SqlState::TOO_MANY_CONNECTIONS)
                }
                _ => false,
            };
            if failures.0.iter().any(|(_, error)| is_full(error)) {
                StoreError::NoConnection(what)
            } else {
                StoreError::Failed(what)
            }
        }
        error => StoreError::Failed(format!("{}: {error}", target.place)),
    }
}
