//! Settings of a server and of its user, read by one connection that writes nothing.

use super::schema::unreachable;
use super::session::Connection;
use super::target::{StoreUrl, Target};
use crate::StoreError;
use crate::postgres::error::store_error;

/// What matters for a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// Server and database, without the password.
    pub place: String,
    /// The version for people, such as `15.8`, and as a number, such as 150008.
    pub version: String,
    pub version_number: u32,
    /// It follows another server, and accepts no writes.
    pub is_standby: bool,
    /// Transactions of this user are read-only by default.
    pub is_read_only: bool,
    pub synchronous_commit: String,
    pub fsync: bool,
    pub full_page_writes: bool,
    pub autovacuum: bool,
    /// Connections that users without privileges may have.
    pub connections_max: u32,
    /// Connections of clients at this moment.
    pub connections: u32,
    /// The password and all work travel unencrypted to another host.
    pub is_exposed: bool,
}

pub(crate) fn settings(url: &StoreUrl) -> Result<ServerSettings, StoreError> {
    let target = Target::parse(url, "baton-doctor")?;
    let connection = Connection::open(&target, "SET client_min_messages = warning")
        .map_err(|error| unreachable(&target, error))?;
    let sql = "SELECT current_setting('server_version'), current_setting('server_version_num')::int, \
               pg_is_in_recovery(), current_setting('default_transaction_read_only') = 'on', \
               current_setting('synchronous_commit'), current_setting('fsync') = 'on', \
               current_setting('full_page_writes') = 'on', current_setting('autovacuum') = 'on', \
               current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int, \
               (SELECT count(*)::int FROM pg_stat_activity WHERE backend_type = 'client backend')";
    let rows = connection.rows(sql, &[]);
    let rows = rows.map_err(|error| store_error(&target.place, &error))?;
    let row = rows.first().ok_or_else(|| {
        StoreError::Failed(format!("{} does not report its settings", target.place))
    })?;
    let number = |column: usize| u32::try_from(row.get::<_, i32>(column)).unwrap_or(0);
    let version: String = row.get(0);
    Ok(ServerSettings {
        // Packages add words of their own.
        version: version.split(' ').next().unwrap_or_default().to_owned(),
        version_number: number(1),
        is_standby: row.get(2),
        is_read_only: row.get(3),
        synchronous_commit: row.get(4),
        fsync: row.get(5),
        full_page_writes: row.get(6),
        autovacuum: row.get(7),
        connections_max: number(8),
        connections: number(9),
        is_exposed: target.is_exposed,
        place: target.place,
    })
}
