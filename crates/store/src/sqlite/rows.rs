//! Between the ledger's words and the columns of the tables.

use std::fmt::Display;
use std::path::Path;

use baton_core::leader::Row as Leadership;
use baton_core::ledger::{Instance, Lease};
use baton_model::fact::{Fact, Holder};
use baton_model::ids::{
    AttemptId, AttemptNo, BootId, Epoch, HostId, Incarnation, InstanceId, LeaseId, Life, Lineage,
    WorkerName,
};
use baton_model::spec::InstanceSpec;
use baton_model::state::UniversalState;
use baton_model::time::Wall;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, ffi};

use crate::StoreError;
use crate::draft::{Kept, Shared};
use crate::view::{Entry, Record, Seq, key};

/// The columns of an instance, in the order in which [`record`] reads them.
macro_rules! columns {
    () => {
        "id, state, attempts, failures, losses, stop_requested, lease_attempt, lease_epoch, \
         lease_confirmed, worker, lineage, life, host, boot, submitted_at_ms, changed_at_ms, \
         changed_seq, spec"
    };
}

/// One instance.
const ONE: &str = concat!("SELECT ", columns!(), " FROM instance WHERE id = ?1");

/// Every instance.
pub(super) const ALL: &str = concat!("SELECT ", columns!(), " FROM instance ORDER BY id");

/// Those of one state, from a position on.
pub(super) const SOME: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM instance WHERE state = ?1 AND position >= ?2 ORDER BY position LIMIT ?3"
);

/// Instances in a row often ask for the same; it is then read once.
pub(super) type Specs = Shared<InstanceSpec>;

/// What the database says, in the store's words.
pub(super) fn lift(path: &Path, error: rusqlite::Error) -> StoreError {
    let what = format!("{}: {error}", path.display());
    match &error {
        rusqlite::Error::SqliteFailure(failure, _) => match failure.code {
            ErrorCode::DiskFull => StoreError::DiskFull(what),
            // The index of the log could not grow: on this way, too, the disk is full.
            _ if failure.extended_code == ffi::SQLITE_IOERR_SHMSIZE => StoreError::DiskFull(what),
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => StoreError::Busy(what),
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => StoreError::Corrupt(what),
            ErrorCode::ReadOnly | ErrorCode::PermissionDenied => StoreError::ReadOnly(what),
            _ => StoreError::Failed(what),
        },
        // The schema fixes the types, so another type is damage, not a mistake of ours.
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::Utf8Error(..)
        | rusqlite::Error::QueryReturnedNoRows => StoreError::Corrupt(what),
        _ => StoreError::Failed(what),
    }
}

/// The leadership row.
pub(super) fn leadership(db: &Connection) -> Result<Leadership, rusqlite::Error> {
    db.prepare_cached("SELECT epoch, renewals FROM leader")?
        .query_row([], |row| {
            Ok(Leadership {
                epoch: Epoch(bits(row, 0)?),
                renewals: bits(row, 1)?,
            })
        })
}

/// One instance, by id.
pub(super) fn find(db: &Connection, id: InstanceId) -> Result<Option<Record>, rusqlite::Error> {
    db.prepare_cached(ONE)?
        .query_row([key(id)], |row| record(row, &mut Specs::default()))
        .optional()
}

/// Every condemned life.
pub(super) fn condemned(db: &Connection) -> Result<Vec<Incarnation>, rusqlite::Error> {
    db.prepare_cached("SELECT lineage, life FROM condemned")?
        .query_map([], |row| {
            Ok(Incarnation {
                lineage: Lineage(bits(row, 0)?),
                life: Life(bits(row, 1)?),
            })
        })?
        .collect()
}

/// Reads what `columns` names.
pub(super) fn record(row: &Row<'_>, specs: &mut Specs) -> Result<Record, rusqlite::Error> {
    let id = InstanceId(bits(row, 0)?);
    let spec = specs
        .get(row.get_ref(17)?.as_str()?, |text| {
            serde_json::from_str(text)
        })
        .map_err(|error| damaged(17, error))?;
    Ok(Record {
        instance: Instance {
            id,
            spec,
            state: state(row, 1)?,
            lease: lease(row, id)?,
            attempts: AttemptNo(row.get(2)?),
            failures: row.get(3)?,
            losses: row.get(4)?,
            stop_requested: row.get(5)?,
        },
        submitted_at: Wall(bits(row, 14)?),
        changed_at: Wall(bits(row, 15)?),
        changed: Seq(bits(row, 16)?),
    })
}

fn lease(row: &Row<'_>, instance: InstanceId) -> Result<Option<Lease>, rusqlite::Error> {
    let Some(number) = row.get::<_, Option<u32>>(6)? else {
        return Ok(None);
    };
    Ok(Some(Lease {
        id: LeaseId {
            attempt: AttemptId {
                instance,
                number: AttemptNo(number),
            },
            epoch: Epoch(bits(row, 7)?),
        },
        confirmed: row.get(8)?,
        holder: Holder {
            worker: WorkerName::new(row.get_ref(9)?.as_str()?),
            incarnation: Incarnation {
                lineage: Lineage(bits(row, 10)?),
                life: Life(bits(row, 11)?),
            },
            host: HostId(bits(row, 12)?),
            boot: BootId(bits(row, 13)?),
        },
    }))
}

/// Reads `seq, at_ms, epoch, body` of the history.
pub(super) fn entry(row: &Row<'_>) -> Result<Entry, rusqlite::Error> {
    let fact: Fact =
        serde_json::from_str(row.get_ref(3)?.as_str()?).map_err(|error| damaged(3, error))?;
    Ok(Entry {
        seq: Seq(bits(row, 0)?),
        at: Wall(bits(row, 1)?),
        epoch: Epoch(bits(row, 2)?),
        fact,
    })
}

/// Reads a state's word.
pub(super) fn state(row: &Row<'_>, column: usize) -> Result<UniversalState, rusqlite::Error> {
    let word = row.get_ref(column)?.as_str()?;
    UniversalState::ALL
        .iter()
        .copied()
        .find(|state| state.word() == word)
        .ok_or_else(|| damaged(column, format!("no state is called {word}")))
}

/// A number of 64 bits without a sign.
pub(super) fn bits(row: &Row<'_>, column: usize) -> Result<u64, rusqlite::Error> {
    row.get::<_, i64>(column).map(i64::cast_unsigned)
}

fn damaged(column: usize, error: impl Display) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(
        column,
        rusqlite::types::Type::Text,
        error.to_string().into(),
    )
}

/// The rows as a draft fetches them, within the writer's transaction.
pub(super) struct InTransaction<'a> {
    pub(super) db: &'a Connection,
    pub(super) path: &'a Path,
}

impl Kept for InTransaction<'_> {
    fn record(&mut self, id: InstanceId) -> Result<Option<Record>, StoreError> {
        find(self.db, id).map_err(|error| lift(self.path, error))
    }

    fn condemned(&mut self) -> Result<Vec<Incarnation>, StoreError> {
        condemned(self.db).map_err(|error| lift(self.path, error))
    }
}
