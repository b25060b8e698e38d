//! Between the ledger's words and the columns of the tables.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use baton_core::leader::Row as Leadership;
use baton_core::ledger::{Instance, Lease};
use baton_model::fact::{Again, Holder};
use baton_model::ids::{
    AttemptId, AttemptNo, BootId, Epoch, HostId, Incarnation, InstanceId, LeaseId, Life, Lineage,
    WorkerName,
};
use baton_model::outcome::{AttemptEnd, Ran};
use baton_model::spec::InstanceSpec;
use baton_model::state::UniversalState;
use baton_model::time::Wall;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, ffi};

use super::specs::{self, Shared, SpecId};
use crate::draft::{self, Story, untried};
use crate::view::{Cursor, LastEnd, Record, RecordedFact, Seq, key};
use crate::{StoreError, body};

/// The columns of an instance, in the order in which [`kept`] reads them, and of its
/// spec, as [`record`] does.
macro_rules! instance {
    ($rest:literal) => {
        concat!(
            "SELECT i.id, i.state, i.spec, i.submitted_at_ms, i.submitted_seq, i.changed_at_ms, \
             i.changed_seq, attempts, failures, losses, stop_requested, lease_attempt, \
             lease_epoch, lease_confirmed, worker, lineage, life, host, boot, again, last_end, \
             leased_at_ms, s.body, s.uses, s.owner, s.name FROM instance AS i LEFT JOIN spec AS s \
             ON s.id = i.spec ",
            $rest
        )
    };
}

/// The columns of a range, in the order in which [`span`] reads them, and of its spec, as
/// [`span_record`] does.
macro_rules! span {
    ($rest:literal) => {
        concat!(
            "SELECT i.last, i.state, i.spec, i.submitted_at_ms, i.submitted_seq, \
             i.changed_at_ms, i.changed_seq, i.first, s.body, s.uses, s.owner, s.name \
             FROM span AS i LEFT JOIN spec AS s ON s.id = i.spec ",
            $rest
        )
    };
}

/// Where a table of instances is read, and how a row of it becomes a record.
pub(super) struct Source {
    /// Those of one state and rank, behind an id.
    pub(super) rest: &'static str,
    /// Those of one state behind a rank.
    pub(super) beyond: &'static str,
    /// The next state behind a word.
    pub(super) states: &'static str,
    /// True if its rows are ranges.
    pub(super) ranges: bool,
    /// Where the columns of the spec are.
    pub(super) spec: usize,
    pub(super) record: fn(&Row<'_>, &mut Shared) -> Result<Record, rusqlite::Error>,
}

pub(super) const INSTANCES: Source = Source {
    rest: instance!("WHERE i.state = ?1 AND i.rank = ?2 AND i.id > ?3 ORDER BY i.id"),
    beyond: instance!("WHERE i.state = ?1 AND i.rank > ?2 ORDER BY i.rank, i.id"),
    states: "SELECT min(state) FROM instance WHERE state > ?1",
    ranges: false,
    spec: 22,
    record,
};

pub(super) const SPANS: Source = Source {
    rest: span!("WHERE i.state = ?1 AND i.rank = ?2 AND i.last > ?3 ORDER BY i.last"),
    beyond: span!("WHERE i.state = ?1 AND i.rank > ?2 ORDER BY i.rank, i.last"),
    states: "SELECT min(state) FROM span WHERE state > ?1",
    ranges: true,
    spec: 8,
    record: span_record,
};

const ONE: &str = instance!("WHERE i.id = ?1");
const COVERING: &str = span!("WHERE i.last >= ?1 ORDER BY i.last LIMIT 1");

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

/// One instance, also one of a range.
pub(super) fn find(db: &Connection, id: InstanceId) -> Result<Option<Record>, rusqlite::Error> {
    let mut shared = Shared::default();
    let found = db
        .prepare_cached(ONE)?
        .query_row([key(id)], |row| record(row, &mut shared))
        .optional()?;
    if found.is_some() {
        return Ok(found);
    }
    let span = db
        .prepare_cached(COVERING)?
        .query_row([key(id)], |row| span_record(row, &mut shared))
        .optional()?;
    // Ids are in order as signed numbers here.
    Ok(span
        .filter(|span| key(span.instance.id) <= key(id))
        .map(|mut span| {
            span.instance.id = id;
            span.span = None;
            span
        }))
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

/// Reads an instance, with its spec.
fn record(row: &Row<'_>, shared: &mut Shared) -> Result<Record, rusqlite::Error> {
    let spec = shared.read(row, row.get(2)?, INSTANCES.spec)?;
    let kept = kept(row, spec)?;
    Ok(Record {
        instance: kept.instance,
        span: None,
        submitted_at: kept.story.submitted_at,
        submitted: kept.story.submitted,
        changed_at: kept.story.changed_at,
        changed: kept.story.changed,
        last: kept.last,
    })
}

/// Reads a range, with its spec.
fn span_record(row: &Row<'_>, shared: &mut Shared) -> Result<Record, rusqlite::Error> {
    let spec = shared.read(row, row.get(2)?, SPANS.spec)?;
    let span = span(row)?;
    Ok(Record {
        instance: untried(span.first, spec, span.state),
        span: (span.first != span.last).then_some(span.last),
        submitted_at: span.story.submitted_at,
        submitted: span.story.submitted,
        changed_at: span.story.changed_at,
        changed: span.story.changed,
        last: None,
    })
}

/// Reads an instance as it is kept; its spec is given.
pub(super) fn kept(
    row: &Row<'_>,
    spec: Arc<InstanceSpec>,
) -> Result<draft::Row<SpecId>, rusqlite::Error> {
    let id = InstanceId(bits(row, 0)?);
    Ok(draft::Row {
        instance: Instance {
            id,
            spec,
            state: state(row, 1)?,
            lease: lease(row, id)?.map(Box::new),
            attempts: AttemptNo(row.get(7)?),
            failures: row.get(8)?,
            losses: row.get(9)?,
            stop_requested: row.get(10)?,
            next_attempt: json::<Again>(row, 19)?.map(Box::new),
        },
        story: story(row)?,
        last: last_end(row, id)?,
        leased_at: row
            .get::<_, Option<i64>>(21)?
            .map(|at| Wall(at.cast_unsigned())),
    })
}

/// Reads a range as it is kept.
pub(super) fn span(row: &Row<'_>) -> Result<draft::Span<SpecId>, rusqlite::Error> {
    let state = state(row, 1)?;
    if !matches!(state, UniversalState::Queued | UniversalState::Halted) {
        return Err(damaged(1, format!("a range is {state}")));
    }
    Ok(draft::Span {
        first: InstanceId(bits(row, 7)?),
        last: InstanceId(bits(row, 0)?),
        state,
        story: story(row)?,
    })
}

/// The place of an instance or a range in its view.
pub(super) fn place(row: &Row<'_>) -> Result<Cursor, rusqlite::Error> {
    let (last, changed) = (InstanceId(bits(row, 0)?), Seq(bits(row, 6)?));
    Ok(Cursor::of(state(row, 1)?, changed, last))
}

fn story(row: &Row<'_>) -> Result<Story<SpecId>, rusqlite::Error> {
    Ok(Story {
        spec: row.get(2)?,
        submitted_at: Wall(bits(row, 3)?),
        submitted: Seq(bits(row, 4)?),
        changed_at: Wall(bits(row, 5)?),
        changed: Seq(bits(row, 6)?),
    })
}

/// How the last attempt ended, as it stands in its column.
type End = (AttemptNo, Epoch, WorkerName, AttemptEnd, Option<Ran>);

/// What is kept of how the last attempt ended. `runs` counts by the fourth of them.
pub(super) fn end_body(last: &LastEnd) -> Result<String, rusqlite::Error> {
    let LeaseId { attempt, epoch } = last.lease;
    to_json(&(attempt.number, epoch, &last.worker, last.end, last.ran))
}

fn last_end(row: &Row<'_>, instance: InstanceId) -> Result<Option<LastEnd>, rusqlite::Error> {
    let end = json::<End>(row, 20)?;
    Ok(end.map(|(number, epoch, worker, end, ran)| LastEnd {
        lease: LeaseId {
            attempt: AttemptId { instance, number },
            epoch,
        },
        worker,
        end,
        ran,
    }))
}

/// JSON for a column.
pub(super) fn to_json(value: &impl serde::Serialize) -> Result<String, rusqlite::Error> {
    serde_json::to_string(value)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

fn json<T: serde::de::DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
) -> Result<Option<T>, rusqlite::Error> {
    let text = row.get_ref(column)?.as_str_or_null()?;
    text.map(|text| serde_json::from_str(text).map_err(|error| damaged(column, error)))
        .transpose()
}

fn lease(row: &Row<'_>, instance: InstanceId) -> Result<Option<Lease>, rusqlite::Error> {
    let Some(number) = row.get::<_, Option<u32>>(11)? else {
        return Ok(None);
    };
    Ok(Some(Lease {
        id: LeaseId {
            attempt: AttemptId {
                instance,
                number: AttemptNo(number),
            },
            epoch: Epoch(bits(row, 12)?),
        },
        confirmed: row.get(13)?,
        holder: Holder {
            worker: WorkerName::new(row.get_ref(14)?.as_str()?),
            incarnation: Incarnation {
                lineage: Lineage(bits(row, 15)?),
                life: Life(bits(row, 16)?),
            },
            host: HostId(bits(row, 17)?),
            boot: BootId(bits(row, 18)?),
        },
    }))
}

/// Reads `seq, at_ms, epoch, body` of a fact, and the body of its spec.
pub(super) fn entry(row: &Row<'_>) -> Result<RecordedFact, rusqlite::Error> {
    let spec = row.get_ref(4)?.as_str_or_null()?;
    let spec = spec.map(|spec| specs::parse(spec, 4)).transpose()?;
    let fact = body::read(row.get_ref(3)?.as_str()?, spec).map_err(|error| damaged(3, error))?;
    Ok(RecordedFact {
        seq: Seq(bits(row, 0)?),
        at: Wall(bits(row, 1)?),
        epoch: Epoch(bits(row, 2)?),
        fact,
    })
}

/// Reads a state's word.
pub(super) fn state(row: &Row<'_>, column: usize) -> Result<UniversalState, rusqlite::Error> {
    state_of(row.get_ref(column)?.as_str()?, column)
}

/// The state that a word of this column means.
pub(super) fn state_of(word: &str, column: usize) -> Result<UniversalState, rusqlite::Error> {
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

/// A column that cannot be right.
pub(super) fn damaged(column: usize, error: impl Display) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(
        column,
        rusqlite::types::Type::Text,
        error.to_string().into(),
    )
}
