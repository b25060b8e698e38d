//! The history that a database continues.
//!
//! A standby that is promoted, a backup that is restored and a dump that is loaded may lack what was
//! acknowledged before, with leases that workers hold. The terms that workers have obeyed prove it only
//! if a whole term is missing. So the database records where its last term was led, and the next leader
//! compares: a promotion and a restore to a point in time begin another timeline of the server, a
//! dump makes other tables, and another cluster has another identifier.
//!
//! With synchronous replication a promotion loses nothing, so only its timeline differs and that is
//! expected.

use baton_model::ids::Epoch;
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use super::session::Connection;

/// The table is no part of the shared schema: its content says something about this database, and must
/// not be copied with it.
pub(super) const CREATE: &str = "\
    CREATE TABLE IF NOT EXISTS lineage (
        one            BIGINT PRIMARY KEY CHECK (one = 1),
        place          TEXT NOT NULL,
        timeline       TEXT NOT NULL,
        is_synchronous BOOLEAN NOT NULL
    )";

/// The values of the table now.
const NOW: &str = "\
    SELECT 1 AS one, \
    (SELECT system_identifier FROM pg_control_system())::text || '/' || \
        CAST('baton.leader'::regclass AS oid)::text AS place, \
    substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) AS timeline, \
    current_setting('synchronous_standby_names') <> '' \
        AND current_setting('synchronous_commit') IN ('on', 'remote_apply') AS is_synchronous";

/// Records the history of a database that has none yet.
pub(super) fn begin(connection: &Connection) -> Result<(), tokio_postgres::Error> {
    let sql = format!("INSERT INTO lineage {NOW} ON CONFLICT DO NOTHING");
    if_told(connection.run(&sql)).map(drop)
}

/// Whether the database may lack what was acknowledged in its last term; `None` if the server does not
/// tell, because it is only similar to PostgreSQL or keeps it from this user.
pub(super) fn is_broken(connection: &Connection) -> Result<Option<bool>, tokio_postgres::Error> {
    let sql = format!(
        "SELECT recorded.place <> now.place \
         OR (recorded.timeline <> now.timeline AND NOT recorded.is_synchronous) \
         FROM lineage AS recorded JOIN ({NOW}) AS now ON recorded.one = now.one"
    );
    let Some(rows) = if_told(connection.rows(&sql, &[]))? else {
        return Ok(None);
    };
    let first = rows.first().map(|row: &Row| row.try_get(0));
    Ok(Some(first.transpose()?.unwrap_or(false)))
}

/// `None` instead of the error of a server that does not tell. Any other error must not pass for "nothing
/// is lost".
fn if_told<T>(told: Result<T, tokio_postgres::Error>) -> Result<Option<T>, tokio_postgres::Error> {
    let is_silence = |error: &tokio_postgres::Error| {
        let code = error.code();
        code == Some(&SqlState::UNDEFINED_FUNCTION)
            || code == Some(&SqlState::UNDEFINED_OBJECT)
            || code == Some(&SqlState::FEATURE_NOT_SUPPORTED)
            || code == Some(&SqlState::INSUFFICIENT_PRIVILEGE)
    };
    match told {
        Ok(told) => Ok(Some(told)),
        Err(error) if is_silence(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Records the history of now. One that was broken is recorded when the store has begun a new generation
/// with this epoch: a leader that dies before leaves the evidence to the next. True if it was recorded.
pub(super) fn record(connection: &Connection, epoch: Epoch) -> Result<bool, tokio_postgres::Error> {
    let Some(is_broken) = is_broken(connection)? else {
        return Ok(true);
    };
    if is_broken {
        let began = "SELECT 1 FROM identity WHERE generation = $1";
        if connection
            .rows(began, &[&epoch.0.cast_signed()])?
            .is_empty()
        {
            return Ok(false);
        }
    }
    let sql = format!(
        "INSERT INTO lineage {NOW} ON CONFLICT (one) DO UPDATE SET place = excluded.place, \
         timeline = excluded.timeline, is_synchronous = excluded.is_synchronous"
    );
    connection.run(&sql)?;
    Ok(true)
}

/// Breaks the history: what the database holds was restored from a backup.
pub(super) fn mark_restored(connection: &Connection) -> Result<(), tokio_postgres::Error> {
    connection.run("UPDATE lineage SET place = 'restored'")
}
