//! The rows that a change set fetches, within the writer's transaction.

use std::collections::HashMap;
use std::sync::Arc;

use baton_core::ledger::RunHead;
use baton_model::backfill::Backfill;
use baton_model::fact::Fact;
use baton_model::ids::{BackfillId, Incarnation, InstanceId, RunId, TaskNo};
use baton_model::library::TaskName;
use baton_model::spec::InstanceSpec;

use super::backfills;
use super::db::{Db, Error, OptionalRow as _, Row as SqlRow, params};
use super::library;
use super::rows::{self, to_store_error, unsigned};
use super::runs;
use super::specs::{SpecId, SpecWriter};
use crate::StoreError;
use crate::change_set::{self, Ids, KnownRanges, StoredRows, StoredTask, split_by_sign};
use crate::facts::FactSubject;
use crate::usage::Claim;
use crate::view::{Seq, sql_id};

macro_rules! instance {
    ($rest:literal) => {
        concat!(
            "SELECT id, state, spec, submitted_at_ms, submitted_seq, changed_at_ms, changed_seq, \
             attempts, failures, losses, stop_requested, lease_attempt, lease_epoch, \
             lease_confirmed, worker, lineage, life, host, boot, again, last_end, leased_at_ms, \
             lease_kill FROM instance ",
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

type Row = change_set::Row<SpecId>;
type Span = change_set::Span<SpecId>;

/// The tables within a transaction.
pub(super) struct TransactionRows<'a> {
    db: &'a Db<'a>,
    place: &'a str,
    pub(super) specs: &'a mut SpecWriter,
    /// Stands for every spec: no fact depends on its content.
    no_spec: Arc<InstanceSpec>,
    /// The rows of instances that were fetched in advance, or that none of them has one.
    fetched: HashMap<InstanceId, Option<Row>>,
}

impl<'a> TransactionRows<'a> {
    pub(super) fn new(db: &'a Db<'a>, place: &'a str, specs: &'a mut SpecWriter) -> Self {
        Self {
            db,
            place,
            specs,
            no_spec: Arc::default(),
            fetched: HashMap::new(),
        }
    }

    /// Fetches the rows of the instances that these facts are about at once, where each statement is
    /// a round trip.
    pub(super) fn fetch<'f>(
        &mut self,
        facts: impl Iterator<Item = &'f Fact>,
    ) -> Result<(), StoreError> {
        let Db::Postgres(session) = self.db else {
            return Ok(());
        };
        let subjects = facts.filter_map(|fact| match FactSubject::of(fact) {
            FactSubject::Instance(id) => Some((id, None)),
            _ => None,
        });
        self.fetched = subjects.collect();
        if self.fetched.len() < 2 {
            self.fetched.clear();
            return Ok(());
        }
        let ids: Vec<i64> = self.fetched.keys().map(|id| sql_id(*id)).collect();
        let failed = |error| to_store_error(self.place, error);
        let mut rows = session
            .query_array(instance!("WHERE id = ANY(?1)"), &ids)
            .map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let row = rows::instance_row(&SqlRow::Postgres(row), Arc::clone(&self.no_spec));
            let row = row.map_err(failed)?;
            self.fetched.insert(row.instance.id, Some(row));
        }
        Ok(())
    }

    fn query<T>(&self, work: impl FnOnce(&Db<'_>) -> Result<T, Error>) -> Result<T, StoreError> {
        work(self.db).map_err(|error| to_store_error(self.place, error))
    }
}

impl StoredRows for TransactionRows<'_> {
    type Spec = SpecId;

    fn add_spec(
        &mut self,
        seq: Seq,
        spec: &Arc<InstanceSpec>,
        uses: u64,
    ) -> Result<(SpecId, u64), StoreError> {
        self.specs.add(seq, spec, uses)
    }

    fn claim(&mut self, spec: &SpecId) -> Result<Arc<Claim>, StoreError> {
        let (db, place) = (self.db, self.place);
        self.specs
            .claim(db, *spec)
            .map_err(|error| to_store_error(place, error))
    }

    fn row(&mut self, id: InstanceId) -> Result<Option<Row>, StoreError> {
        if let Some(row) = self.fetched.remove(&id) {
            return Ok(row);
        }
        self.query(|db| {
            db.prepare_cached(instance!("WHERE id = ?1"))?
                .query_row([sql_id(id)], |row| {
                    rows::instance_row(row, Arc::clone(&self.no_spec))
                })
                .optional()
        })
    }

    fn span(&mut self, id: InstanceId) -> Result<Option<Span>, StoreError> {
        let found = self.query(|db| {
            db.prepare_cached(span!("WHERE last >= ?1 ORDER BY last LIMIT 1"))?
                .query_row([sql_id(id)], rows::span)
                .optional()
        })?;
        Ok(found.filter(|span| sql_id(span.first) <= sql_id(id)))
    }

    fn queued_spans(
        &mut self,
        first: InstanceId,
        last: InstanceId,
    ) -> Result<Vec<Span>, StoreError> {
        self.query(|db| {
            let mut statement = db.prepare_cached(span!(
                "WHERE state = 'QUEUED' AND rank = 0 AND last >= ?1 ORDER BY last"
            ))?;
            let mut found = Vec::new();
            for (first, last) in split_by_sign(first, last) {
                let mut rows = statement.scan([sql_id(first)])?;
                while let Some(row) = rows.next()? {
                    let span = rows::span(&row)?;
                    if sql_id(span.first) > sql_id(last) {
                        break;
                    }
                    found.push(span);
                }
            }
            Ok(found)
        })
    }

    fn queued_rows(&mut self, first: InstanceId, last: InstanceId) -> Result<Vec<Row>, StoreError> {
        self.query(|db| {
            let mut statement = db.prepare_cached(instance!(
                "WHERE state = 'QUEUED' AND rank = 0 AND id BETWEEN ?1 AND ?2"
            ))?;
            let mut found = Vec::new();
            for (first, last) in split_by_sign(first, last) {
                let rows = statement.query_map([sql_id(first), sql_id(last)], |row| {
                    rows::instance_row(row, Arc::clone(&self.no_spec))
                })?;
                for row in rows {
                    found.push(row?);
                }
            }
            Ok(found)
        })
    }

    fn known_ranges(
        &mut self,
        first: InstanceId,
        last: InstanceId,
    ) -> Result<KnownRanges, StoreError> {
        self.query(|db| {
            let mut ranges = Vec::new();
            let mut clear_to = last;
            for (from, to) in split_by_sign(first, last) {
                overlapping(db, from, to, &mut ranges)?;
                clear_to = clear(db, to)?;
            }
            Ok(KnownRanges { ranges, clear_to })
        })
    }

    fn task(&mut self, number: TaskNo) -> Result<Option<StoredTask>, StoreError> {
        self.query(|db| library::stored(db, number))
    }

    fn task_named(&mut self, name: &TaskName) -> Result<Option<TaskNo>, StoreError> {
        self.query(|db| library::number_of(db, name))
    }

    fn condemned(&mut self) -> Result<Vec<Incarnation>, StoreError> {
        self.query(rows::condemned)
    }

    fn backfill(&mut self, id: BackfillId) -> Result<Option<Backfill>, StoreError> {
        self.query(|db| backfills::head(db, id))
    }

    fn last_backfill(&mut self) -> Result<BackfillId, StoreError> {
        self.query(backfills::last)
    }

    fn run(&mut self, run: RunId) -> Result<Option<RunHead>, StoreError> {
        self.query(|db| runs::head(db, run))
    }

    fn last_run(&mut self) -> Result<RunId, StoreError> {
        self.query(runs::last)
    }
}

fn overlapping(
    db: &Db<'_>,
    from: InstanceId,
    to: InstanceId,
    found: &mut Vec<Ids>,
) -> Result<(), Error> {
    let mut statement =
        db.prepare_cached("SELECT first, last FROM known WHERE first <= ?1 ORDER BY first DESC")?;
    let mut rows = statement.scan([sql_id(to)])?;
    while let Some(row) = rows.next()? {
        let range = (
            InstanceId(unsigned(&row, 0)?),
            InstanceId(unsigned(&row, 1)?),
        );
        if sql_id(range.1) < sql_id(from) {
            break;
        }
        found.push(range);
    }
    Ok(())
}

/// The last id after `last`, in the same half, up to which no known range starts.
fn clear(db: &Db<'_>, last: InstanceId) -> Result<InstanceId, Error> {
    let next = db
        .prepare_cached("SELECT first FROM known WHERE first > ?1 ORDER BY first LIMIT 1")?
        .query_row(params![sql_id(last)], |row| row.get::<i64>(0))
        .optional()?;
    let end = if sql_id(last) < 0 { -1 } else { i64::MAX };
    let clear_to = next.map_or(end, |next| (next - 1).min(end));
    Ok(InstanceId(clear_to.cast_unsigned()))
}
