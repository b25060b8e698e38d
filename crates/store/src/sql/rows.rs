//! Conversion between columns and the types of the ledger, and of errors.

use std::sync::Arc;

use baton_core::leader::Row as Leadership;
use baton_core::ledger::{Gang, Instance, Lease};
use baton_model::fact::{Holder, NextAttempt};
use baton_model::ids::{
    AttemptId, AttemptNo, BootId, Epoch, HostId, Incarnation, IncarnationNo, InstanceId, LeaseId,
    Lineage, WorkerName,
};
use baton_model::outcome::{AttemptEnd, AttemptStats, KillMode};
use baton_model::progress::Progress;
use baton_model::spec::InstanceSpec;
use baton_model::state::UniversalState;
use baton_model::time::Wall;

use super::db::{Db, Error, OptionalRow as _, Row, corrupt_column};
use super::specs::{self, SpecCache};
use crate::change_set::{self, Lifecycle, unleased_instance};
use crate::postgres::{error as postgres, schema};
use crate::sqlite::error as sqlite;
use crate::view::{Cursor, LastEnd, Record, RecordedFact, Seq, sql_id};
use crate::{StoreError, body};

/// The columns of an instance, in the order in which [`instance_row`] reads them, then those of its
/// spec, for [`record`].
macro_rules! instance {
    ($rest:literal) => {
        concat!(
            "SELECT i.id, i.state, i.spec, i.submitted_at_ms, i.submitted_seq, i.changed_at_ms, \
             i.changed_seq, attempts, failures, losses, stop_requested, lease_attempt, \
             lease_epoch, lease_confirmed, worker, lineage, life, host, boot, again, last_end, \
             leased_at_ms, lease_kill, lease_gang, s.body, s.uses, s.owner, s.name \
             FROM instance AS i LEFT JOIN spec AS s ON s.id = i.spec ",
            $rest
        )
    };
}

/// The columns of a range, in the order in which [`span`] reads them, then those of its spec, for
/// [`span_record`].
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

/// Statements that read the rows of one state in one order, up to a number.
pub(super) struct Ordered {
    /// Those of one rank, after an id.
    pub(super) rest: &'static str,
    /// Those above one rank, and not above another.
    pub(super) between: &'static str,
}

/// Statements over a table of instances, and the conversion of its rows to records.
pub(super) struct Source {
    /// By rank and id.
    pub(super) forward: Ordered,
    /// The opposite order.
    pub(super) backward: Ordered,
    /// The next state word after a word.
    pub(super) states: &'static str,
    /// True if its rows are ranges.
    pub(super) ranges: bool,
    /// Index of the column of the first id.
    pub(super) first: usize,
    /// Index of the first column of the spec.
    pub(super) spec: usize,
    pub(super) record: fn(&Row<'_>, &mut SpecCache) -> Result<Record, Error>,
}

pub(super) const INSTANCES: Source = Source {
    forward: Ordered {
        rest: instance!("WHERE i.state = ?1 AND i.rank = ?2 AND i.id > ?3 ORDER BY i.id LIMIT ?4"),
        between: instance!(
            "WHERE i.state = ?1 AND i.rank > ?2 AND i.rank <= ?3 ORDER BY i.rank, i.id LIMIT ?4"
        ),
    },
    backward: Ordered {
        rest: instance!(
            "WHERE i.state = ?1 AND i.rank = ?2 AND i.id < ?3 ORDER BY i.id DESC LIMIT ?4"
        ),
        between: instance!(
            "WHERE i.state = ?1 AND i.rank > ?2 AND i.rank <= ?3 \
             ORDER BY i.rank DESC, i.id DESC LIMIT ?4"
        ),
    },
    states: "SELECT min(state) FROM instance WHERE state > ?1",
    ranges: false,
    first: 0,
    spec: 24,
    record,
};

pub(super) const SPANS: Source = Source {
    forward: Ordered {
        rest: span!("WHERE i.state = ?1 AND i.rank = ?2 AND i.last > ?3 ORDER BY i.last LIMIT ?4"),
        between: span!(
            "WHERE i.state = ?1 AND i.rank > ?2 AND i.rank <= ?3 ORDER BY i.rank, i.last LIMIT ?4"
        ),
    },
    backward: Ordered {
        rest: span!(
            "WHERE i.state = ?1 AND i.rank = ?2 AND i.last < ?3 ORDER BY i.last DESC LIMIT ?4"
        ),
        between: span!(
            "WHERE i.state = ?1 AND i.rank > ?2 AND i.rank <= ?3 \
             ORDER BY i.rank DESC, i.last DESC LIMIT ?4"
        ),
    },
    states: "SELECT min(state) FROM span WHERE state > ?1",
    ranges: true,
    first: 7,
    spec: 8,
    record: span_record,
};

const ONE: &str = instance!("WHERE i.id = ?1");
const COVERING: &str = span!("WHERE i.last >= ?1 ORDER BY i.last LIMIT 1");

/// Converts an error of the database at `place`.
pub(crate) fn to_store_error(place: &str, error: Error) -> StoreError {
    match error {
        Error::Sqlite(error) => sqlite::store_error(place, &error),
        Error::Postgres(error) => postgres::store_error(place, &error),
        Error::Schema(found) => schema::newer(place, found),
        Error::Column { .. } | Error::NoRow => StoreError::Corrupt(format!("{place}: {error}")),
        Error::Encode(_) => StoreError::Failed(format!("{place}: {error}")),
    }
}

/// Reads the leadership row.
pub(super) fn leadership(db: &Db<'_>) -> Result<Leadership, Error> {
    db.query_row("SELECT epoch, renewals FROM leader", (), leadership_row)
}

/// Reads the leadership row, which no other transaction can change before the transaction ends.
pub(super) fn locked_leadership(db: &Db<'_>) -> Result<Leadership, Error> {
    // A transaction that writes has locked the whole of a SQLite database already.
    let sql = db.choose("SELECT epoch, renewals FROM leader", LOCKED_LEADERSHIP);
    db.query_row(sql, (), leadership_row)
}

pub(super) const LOCKED_LEADERSHIP: &str = "SELECT epoch, renewals FROM leader FOR UPDATE";

fn leadership_row(row: &Row<'_>) -> Result<Leadership, Error> {
    Ok(Leadership {
        epoch: Epoch(unsigned(row, 0)?),
        renewals: unsigned(row, 1)?,
    })
}

/// One instance, also one of a range.
pub(super) fn find(db: &Db<'_>, id: InstanceId) -> Result<Option<Record>, Error> {
    let mut cache = SpecCache::default();
    let found = db
        .prepare_cached(ONE)?
        .query_row([sql_id(id)], |row| record(row, &mut cache))
        .optional()?;
    if found.is_some() {
        return Ok(found);
    }
    let span = db
        .prepare_cached(COVERING)?
        .query_row([sql_id(id)], |row| span_record(row, &mut cache))
        .optional()?;
    // Ids are ordered as signed numbers here.
    Ok(span
        .filter(|span| sql_id(span.instance.id) <= sql_id(id))
        .map(|mut span| {
            span.instance.id = id;
            span.span = None;
            span
        }))
}

/// Every condemned incarnation.
pub(super) fn condemned(db: &Db<'_>) -> Result<Vec<Incarnation>, Error> {
    db.prepare_cached("SELECT lineage, life FROM condemned")?
        .query_map((), |row| {
            Ok(Incarnation {
                lineage: Lineage(unsigned(row, 0)?),
                number: IncarnationNo(unsigned(row, 1)?),
            })
        })?
        .collect()
}

/// Reads an instance with its spec.
fn record(row: &Row<'_>, cache: &mut SpecCache) -> Result<Record, Error> {
    let spec = cache.read(row, row.get(2)?, INSTANCES.spec)?;
    let row = instance_row(row, spec)?;
    Ok(Record {
        instance: row.instance,
        span: None,
        submitted_at: row.lifecycle.submitted_at,
        submitted: row.lifecycle.submitted,
        changed_at: row.lifecycle.changed_at,
        changed: row.lifecycle.changed,
        leased_at: row.leased_at,
        last: row.last,
    })
}

/// Reads a range with its spec.
fn span_record(row: &Row<'_>, cache: &mut SpecCache) -> Result<Record, Error> {
    let spec = cache.read(row, row.get(2)?, SPANS.spec)?;
    let span = span(row)?;
    Ok(Record {
        instance: unleased_instance(span.first, spec, span.state),
        span: (span.first != span.last).then_some(span.last),
        submitted_at: span.lifecycle.submitted_at,
        submitted: span.lifecycle.submitted,
        changed_at: span.lifecycle.changed_at,
        changed: span.lifecycle.changed,
        leased_at: None,
        last: None,
    })
}

/// Reads an instance; `spec` becomes its spec.
pub(super) fn instance_row(
    row: &Row<'_>,
    spec: Arc<InstanceSpec>,
) -> Result<change_set::Row, Error> {
    let id = InstanceId(unsigned(row, 0)?);
    Ok(change_set::Row {
        instance: Instance {
            id,
            spec,
            state: state(row, 1)?,
            lease: lease(row, id)?.map(Box::new),
            attempts: AttemptNo(row.get(7)?),
            failures: row.get(8)?,
            losses: row.get(9)?,
            stop_requested: row.get(10)?,
            next_attempt: json::<NextAttempt>(row, 19)?.map(Box::new),
        },
        lifecycle: lifecycle(row)?,
        last: last_end(row, id)?,
        leased_at: row
            .get::<Option<i64>>(21)?
            .map(|at| Wall(at.cast_unsigned())),
    })
}

/// Reads a range.
pub(super) fn span(row: &Row<'_>) -> Result<change_set::Span, Error> {
    let state = state(row, 1)?;
    if !matches!(state, UniversalState::Queued | UniversalState::Halted) {
        return Err(corrupt_column(1, format!("a range cannot be {state}")));
    }
    Ok(change_set::Span {
        first: InstanceId(unsigned(row, 7)?),
        last: InstanceId(unsigned(row, 0)?),
        state,
        lifecycle: lifecycle(row)?,
    })
}

/// The position in its view of the id in this column, of an instance or a range.
pub(super) fn cursor(row: &Row<'_>, column: usize) -> Result<Cursor, Error> {
    let (id, changed) = (InstanceId(unsigned(row, column)?), Seq(unsigned(row, 6)?));
    Ok(Cursor::new(state(row, 1)?, changed, id))
}

/// True if the current attempt of an instance takes this worker, or else the last one was there.
pub(super) fn is_on_worker(row: &Row<'_>, worker: &str) -> Result<bool, Error> {
    if let Some(holder) = row.text_or_null(14)? {
        let gang = json::<Gang>(row, 23)?;
        let mut others = gang.iter().flat_map(|gang| &gang.others);
        return Ok(holder == worker || others.any(|it| *it.worker.0 == *worker));
    }
    let end = json::<End>(row, 20)?;
    Ok(end.is_some_and(|End(_, _, last, ..)| *last.0 == *worker))
}

fn lifecycle(row: &Row<'_>) -> Result<Lifecycle, Error> {
    Ok(Lifecycle {
        spec: row.get(2)?,
        submitted_at: Wall(unsigned(row, 3)?),
        submitted: Seq(unsigned(row, 4)?),
        changed_at: Wall(unsigned(row, 5)?),
        changed: Seq(unsigned(row, 6)?),
    })
}

/// The JSON in the column `last_end`, a list.
#[derive(serde::Deserialize)]
struct End(
    AttemptNo,
    Epoch,
    WorkerName,
    AttemptEnd,
    Option<AttemptStats>,
    /// Written where there is one.
    #[serde(default)]
    Option<Arc<str>>,
    #[serde(default)] Option<Box<Progress>>,
);

/// Encodes the end of the last attempt. `runs` groups by its fourth element.
pub(super) fn end_body(last: &LastEnd) -> Result<String, Error> {
    let LeaseId { attempt, epoch } = last.lease;
    let (number, worker, end, stats) = (attempt.number, &last.worker, last.end, last.stats);
    match (&last.stderr_tail, &last.progress) {
        (None, None) => to_json(&(number, epoch, worker, end, stats)),
        (Some(tail), None) => to_json(&(number, epoch, worker, end, stats, tail)),
        (tail, Some(progress)) => to_json(&(number, epoch, worker, end, stats, tail, progress)),
    }
}

fn last_end(row: &Row<'_>, instance: InstanceId) -> Result<Option<LastEnd>, Error> {
    let end = json::<End>(row, 20)?;
    Ok(end.map(
        |End(number, epoch, worker, end, stats, tail, progress)| LastEnd {
            lease: LeaseId {
                attempt: AttemptId { instance, number },
                epoch,
            },
            worker,
            end,
            stats,
            stderr_tail: tail,
            progress,
        },
    ))
}

/// Encodes a value as JSON.
pub(super) fn to_json(value: &impl serde::Serialize) -> Result<String, Error> {
    Ok(serde_json::to_string(value)?)
}

pub(super) fn json<T: serde::de::DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
) -> Result<Option<T>, Error> {
    let text = row.text_or_null(column)?;
    text.map(|text| serde_json::from_str(text).map_err(|error| corrupt_column(column, error)))
        .transpose()
}

fn lease(row: &Row<'_>, instance: InstanceId) -> Result<Option<Lease>, Error> {
    let Some(number) = row.get::<Option<u32>>(11)? else {
        return Ok(None);
    };
    Ok(Some(Lease {
        id: LeaseId {
            attempt: AttemptId {
                instance,
                number: AttemptNo(number),
            },
            epoch: Epoch(unsigned(row, 12)?),
        },
        confirmed: row.get(13)?,
        kill: row.get::<Option<i64>>(22)?.map(kill_mode).transpose()?,
        gang: json(row, 23)?,
        holder: Holder {
            worker: WorkerName::new(row.text(14)?),
            incarnation: Incarnation {
                lineage: Lineage(unsigned(row, 15)?),
                number: IncarnationNo(unsigned(row, 16)?),
            },
            host: HostId(unsigned(row, 17)?),
            boot: BootId(unsigned(row, 18)?),
        },
    }))
}

/// The column of a kill that was requested.
pub(super) const fn kill_number(mode: KillMode) -> i64 {
    match mode {
        KillMode::Graceful => 0,
        KillMode::Now => 1,
    }
}

fn kill_mode(number: i64) -> Result<KillMode, Error> {
    match number {
        0 => Ok(KillMode::Graceful),
        1 => Ok(KillMode::Now),
        other => Err(corrupt_column(22, format!("{other} is no kind of kill"))),
    }
}

/// Reads `seq, at_ms, epoch, body` of a fact, the body of its spec, and the client that has asked for it.
pub(super) fn recorded_fact(row: &Row<'_>) -> Result<RecordedFact, Error> {
    let spec = row.text_or_null(4)?;
    let spec = spec.map(|spec| specs::parse(spec, 4)).transpose()?;
    let fact = body::read(row.text(3)?, spec).map_err(|error| corrupt_column(3, error))?;
    Ok(RecordedFact {
        seq: Seq(unsigned(row, 0)?),
        at: Wall(unsigned(row, 1)?),
        epoch: Epoch(unsigned(row, 2)?),
        requested_by: json(row, 5)?,
        fact,
    })
}

/// Reads a state word.
pub(super) fn state(row: &Row<'_>, column: usize) -> Result<UniversalState, Error> {
    state_of(row.text(column)?, column)
}

/// Parses a state word of this column.
pub(super) fn state_of(word: &str, column: usize) -> Result<UniversalState, Error> {
    UniversalState::ALL
        .iter()
        .copied()
        .find(|state| state.word() == word)
        .ok_or_else(|| corrupt_column(column, format!("`{word}` is not a state")))
}

/// Reads an unsigned 64-bit number, which is stored as the signed one with the same bits.
pub(crate) fn unsigned(row: &Row<'_>, column: usize) -> Result<u64, Error> {
    row.get::<i64>(column).map(i64::cast_unsigned)
}
