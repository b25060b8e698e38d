//! A store in an SQL database: what both engines share.
//!
//! | module | holds |
//! |---|---|
//! | `db` | statements, parameters and rows of either engine |
//! | `value` | values, and errors of statements |
//! | `queue` | operations queued for the writer |
//! | `writer` | the one writer thread, with group commit |
//! | `stored_rows` | the rows that a group's change set fetches |
//! | `prefetch` | those of them that are fetched in one round trip |
//! | `write` | writing a change set |
//! | `specs` | deduplicated specs |
//! | `facts` | the whole history in order |
//! | `measurements` | what the last attempts of each task have used |
//! | `usage` | usage by owner and hour |
//! | `secrets` | encrypted secrets |
//! | `tokens` | tokens |
//! | `alarms` | open alarms |
//! | `followers` | positions of followers |
//! | `limits` | limits and shares that were set at run time |
//! | `notices` | notifications and their deliveries |
//! | `prune` | removing expired history |
//! | `read` | all other reads, on connections of their own |
//! | `library`, `runs` | tasks of the library, and runs of workflows |
//! | `backfills` | backfills, and launched due times |
//! | `rows` | conversion of columns and errors |
//! | `views` | the queries of readers, over snapshots: [`crate::Views`] |
//! | `store` | the implementation of [`crate::FactLog`], and the snapshots |

mod alarms;
mod backfills;
pub(crate) mod db;
mod facts;
mod fleets;
mod followers;
mod library;
mod limits;
mod measurements;
mod notices;
mod prefetch;
mod prune;
mod queue;
mod read;
pub(crate) mod rows;
mod runs;
mod secrets;
mod specs;
mod store;
mod stored_rows;
mod tokens;
mod usage;
pub(crate) mod value;
mod views;
mod write;
mod writer;

use crate::StoreError;
use crate::sharing::Sharing;
use db::{Db, Error};

pub(crate) use read::ledger as restore;
pub(crate) use store::SqlStore;
pub(crate) use views::on_snapshot;
pub use views::{SnapshotRead, Views};

/// The statements of most groups, which are planned before the first one needs them.
pub(crate) fn group_statements() -> Vec<&'static str> {
    let statements = [
        prefetch::STATEMENTS,
        specs::STATEMENTS,
        write::STATEMENTS,
        library::STATEMENTS,
        runs::STATEMENTS,
        &[usage::ADD, measurements::APPEND, writer::RENEW],
    ];
    statements.concat()
}

/// A database engine: its connections and transactions.
pub trait Engine: Send + Sync + 'static {
    type Connection: Send;

    /// The database, for messages.
    #[doc(hidden)]
    fn place(&self) -> &str;

    /// A connection that may write; a store has one at a time.
    #[doc(hidden)]
    fn writer(&self) -> Result<Self::Connection, StoreError>;

    /// A connection that only reads.
    #[doc(hidden)]
    fn reader(&self) -> Result<Self::Connection, StoreError>;

    /// The connection, if it still works after it was idle.
    #[doc(hidden)]
    fn revive(&self, connection: Self::Connection) -> Option<Self::Connection>;

    /// Runs `work` in a transaction that may write, and commits it if it succeeds.
    #[doc(hidden)]
    fn write<T>(
        &self,
        connection: &mut Self::Connection,
        work: impl FnOnce(&Db<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError>;

    /// Runs `work` on a snapshot.
    #[doc(hidden)]
    fn read<T>(
        &self,
        connection: &mut Self::Connection,
        work: impl FnOnce(&Db<'_>) -> Result<T, Error>,
    ) -> Result<T, StoreError>;

    /// Maintenance after a group of so many facts was committed and reported.
    #[doc(hidden)]
    fn committed(&self, connection: &mut Self::Connection, facts: usize);

    /// Returns some of the space of removed rows; true if there is more.
    #[doc(hidden)]
    fn vacuum(&self, db: &Db<'_>) -> Result<bool, Error>;

    /// Maintenance after rows were removed and their space was returned.
    #[doc(hidden)]
    fn vacuumed(&self, connection: &mut Self::Connection) -> Result<(), StoreError>;

    /// The bytes that the database occupies.
    #[doc(hidden)]
    fn size(&self, db: &Db<'_>) -> Result<u64, Error>;

    /// See [`crate::FactLog::sharing`].
    #[doc(hidden)]
    fn sharing(&self) -> Option<&dyn Sharing> {
        None
    }
}
