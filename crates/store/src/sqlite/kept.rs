//! What a draft looks up, within the writer's transaction.

use std::path::Path;
use std::sync::Arc;

use baton_core::ledger::RunHead;
use baton_model::ids::{Incarnation, InstanceId, RunId, TaskNo};
use baton_model::library::TaskName;
use baton_model::spec::InstanceSpec;
use rusqlite::{Connection, OptionalExtension, params};

use super::library;
use super::rows::{self, bits, lift};
use super::runs;
use super::specs::{SpecId, Written};
use crate::StoreError;
use crate::draft::{self, Around, Ids, Kept, KeptTask, halves};
use crate::usage::Claim;
use crate::view::{Seq, key};

macro_rules! instance {
    ($rest:literal) => {
        concat!(
            "SELECT id, state, spec, submitted_at_ms, submitted_seq, changed_at_ms, changed_seq, \
             attempts, failures, losses, stop_requested, lease_attempt, lease_epoch, \
             lease_confirmed, worker, lineage, life, host, boot, again, last_end, leased_at_ms \
             FROM instance ",
            $rest
        )
    };
}

macro_rules! span {
    ($rest:literal) => {
        concat!(
            "SELECT last, state, spec, submitted_at_ms, submitted_seq, changed_at_ms, \
             changed_seq, first FROM span ",
            $rest
        )
    };
}

type Row = draft::Row<SpecId>;
type Span = draft::Span<SpecId>;

/// The tables, as a draft sees them.
pub(super) struct InTransaction<'a> {
    pub(super) db: &'a Connection,
    pub(super) path: &'a Path,
    pub(super) specs: &'a mut Written,
    /// Stands for every spec: no fact depends on one.
    pub(super) no_spec: Arc<InstanceSpec>,
}

impl InTransaction<'_> {
    fn look<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, rusqlite::Error>,
    ) -> Result<T, StoreError> {
        work(self.db).map_err(|error| lift(self.path, error))
    }
}

impl Kept for InTransaction<'_> {
    type Spec = SpecId;

    fn spec(
        &mut self,
        seq: Seq,
        spec: &Arc<InstanceSpec>,
        uses: u64,
    ) -> Result<(SpecId, u64), StoreError> {
        self.specs.add(seq, spec, uses)
    }

    fn claim(&mut self, spec: &SpecId) -> Result<Arc<Claim>, StoreError> {
        let (db, path) = (self.db, self.path);
        self.specs
            .claim(db, *spec)
            .map_err(|error| lift(path, error))
    }

    fn row(&mut self, id: InstanceId) -> Result<Option<Row>, StoreError> {
        self.look(|db| {
            db.prepare_cached(instance!("WHERE id = ?1"))?
                .query_row([key(id)], |row| rows::kept(row, Arc::clone(&self.no_spec)))
                .optional()
        })
    }

    fn span(&mut self, id: InstanceId) -> Result<Option<Span>, StoreError> {
        let found = self.look(|db| {
            db.prepare_cached(span!("WHERE last >= ?1 ORDER BY last LIMIT 1"))?
                .query_row([key(id)], rows::span)
                .optional()
        })?;
        Ok(found.filter(|span| key(span.first) <= key(id)))
    }

    fn waiting(&mut self, first: InstanceId, last: InstanceId) -> Result<Vec<Span>, StoreError> {
        self.look(|db| {
            let mut statement = db.prepare_cached(span!(
                "WHERE state = 'QUEUED' AND rank = 0 AND last >= ?1 ORDER BY last"
            ))?;
            let mut found = Vec::new();
            for (first, last) in halves(first, last) {
                let mut rows = statement.query([key(first)])?;
                while let Some(row) = rows.next()? {
                    let span = rows::span(row)?;
                    if key(span.first) > key(last) {
                        break;
                    }
                    found.push(span);
                }
            }
            Ok(found)
        })
    }

    fn requeued(&mut self, first: InstanceId, last: InstanceId) -> Result<Vec<Row>, StoreError> {
        self.look(|db| {
            let mut statement = db.prepare_cached(instance!(
                "WHERE state = 'QUEUED' AND rank = 0 AND id BETWEEN ?1 AND ?2"
            ))?;
            let mut found = Vec::new();
            for (first, last) in halves(first, last) {
                let rows = statement.query_map([key(first), key(last)], |row| {
                    rows::kept(row, Arc::clone(&self.no_spec))
                })?;
                for row in rows {
                    found.push(row?);
                }
            }
            Ok(found)
        })
    }

    fn known(&mut self, first: InstanceId, last: InstanceId) -> Result<Around, StoreError> {
        self.look(|db| {
            let mut ranges = Vec::new();
            let mut clear_to = last;
            for (from, to) in halves(first, last) {
                overlapping(db, from, to, &mut ranges)?;
                clear_to = clear(db, to)?;
            }
            Ok(Around { ranges, clear_to })
        })
    }

    fn task(&mut self, number: TaskNo) -> Result<Option<KeptTask>, StoreError> {
        self.look(|db| library::kept(db, number))
    }

    fn task_named(&mut self, name: &TaskName) -> Result<Option<TaskNo>, StoreError> {
        self.look(|db| library::named(db, name))
    }

    fn condemned(&mut self) -> Result<Vec<Incarnation>, StoreError> {
        self.look(rows::condemned)
    }

    fn run(&mut self, run: RunId) -> Result<Option<RunHead>, StoreError> {
        self.look(|db| runs::head(db, run))
    }

    fn last_run(&mut self) -> Result<RunId, StoreError> {
        self.look(runs::last)
    }
}

fn overlapping(
    db: &Connection,
    from: InstanceId,
    to: InstanceId,
    found: &mut Vec<Ids>,
) -> Result<(), rusqlite::Error> {
    let mut statement =
        db.prepare_cached("SELECT first, last FROM known WHERE first <= ?1 ORDER BY first DESC")?;
    let mut rows = statement.query([key(to)])?;
    while let Some(row) = rows.next()? {
        let range = (InstanceId(bits(row, 0)?), InstanceId(bits(row, 1)?));
        if key(range.1) < key(from) {
            break;
        }
        found.push(range);
    }
    Ok(())
}

/// Up to where no known range begins behind `last`, in the same half.
fn clear(db: &Connection, last: InstanceId) -> Result<InstanceId, rusqlite::Error> {
    let next = db
        .prepare_cached("SELECT first FROM known WHERE first > ?1 ORDER BY first LIMIT 1")?
        .query_row(params![key(last)], |row| row.get::<_, i64>(0))
        .optional()?;
    let end = if key(last) < 0 { -1 } else { i64::MAX };
    let clear_to = next.map_or(end, |next| (next - 1).min(end));
    Ok(InstanceId(clear_to.cast_unsigned()))
}
