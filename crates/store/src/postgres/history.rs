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
    connection.run(&sql)
}

/// Whether the database may lack what was acknowledged in its last term.
pub(super) fn is_broken(connection: &Connection) -> Result<bool, tokio_postgres::Error> {
    let sql = format!(
        "SELECT recorded.place <> now.place \
         OR (recorded.timeline <> now.timeline AND NOT recorded.is_synchronous) \
         FROM lineage AS recorded JOIN ({NOW}) AS now ON recorded.one = now.one"
    );
    let rows = connection.rows(&sql, &[])?;
    rows.first().map_or(Ok(false), |row: &Row| row.try_get(0))
}

/// Records the history of now. One that was broken is recorded when the store has begun a new generation
/// with this epoch: a leader that dies before leaves the evidence to the next. True if it was recorded.
pub(super) fn record(connection: &Connection, epoch: Epoch) -> Result<bool, tokio_postgres::Error> {
    if is_broken(connection)? {
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
