//! The rows that a change set fetches, within the writer's transaction.

use std::sync::Arc;

use baton_core::ledger::RunHead;
use baton_model::backfill::Backfill;
use baton_model::fact::Fact;
use baton_model::ids::{BackfillId, Epoch, Incarnation, InstanceId, RunId, TaskNo};
use baton_model::library::TaskName;
use baton_model::spec::InstanceSpec;

use super::backfills;
use super::db::{Db, Error, OptionalRow as _, Row as SqlRow};
use super::fleets;
use super::library;
use super::prefetch::{Prefetched, Subjects};
use super::rows::{self, to_store_error, unsigned};
use super::runs;
use super::specs::SpecWriter;
use crate::StoreError;
use crate::change_set::{
    Ids, KnownRanges, Row, Span, SpecId, StoredFleets, StoredRows, StoredTask, split_by_sign,
};
use crate::limits::{KNOWN_FETCH_ROWS, SPANS_FETCH_ROWS};
use crate::usage::Claim;
use crate::view::{Seq, sql_id};

macro_rules! instance {
    ($rest:literal) => {
        concat!(
            "SELECT id, state, spec, submitted_at_ms, submitted_seq, changed_at_ms, changed_seq, \
             attempts, failures, losses, stop_requested, lease_attempt, lease_epoch, \
             lease_confirmed, worker, lineage, life, host, boot, again, last_end, leased_at_ms, \
             lease_kill, lease_gang FROM instance ",
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

/// The numbers of the last fact and of the last run.
pub(super) const TOTALS: &str = "SELECT last_seq, last_run FROM totals";

/// Rows of several instances; PostgreSQL only.
pub(super) const INSTANCES: &str = instance!("WHERE id = ANY(?1)");

/// The ranges of several instances; PostgreSQL only.
pub(super) const COVERING_SPANS: &str = "SELECT span.last, span.state, span.spec, \
    span.submitted_at_ms, span.submitted_seq, span.changed_at_ms, span.changed_seq, span.first \
    FROM unnest(CAST(?1 AS BIGINT[])) AS wanted (id) \
    CROSS JOIN LATERAL (SELECT * FROM span WHERE last >= wanted.id ORDER BY last LIMIT 1) AS span \
    WHERE span.first <= wanted.id";

/// Known ranges that start at an id or before, up to a number, the last first; and the next one.
pub(super) const KNOWN: &str = "SELECT first, last FROM (SELECT first, last FROM known \
    WHERE first <= ?1 ORDER BY first DESC LIMIT ?2) AS before UNION ALL SELECT first, last FROM \
    (SELECT first, last FROM known WHERE first > ?1 ORDER BY first LIMIT 1) AS next";

/// The tables within a transaction.
pub(super) struct TransactionRows<'a> {
    db: &'a Db<'a>,
    place: &'a str,
    pub(super) specs: &'a mut SpecWriter,
    /// Stands for every spec: no fact depends on its content.
    no_spec: Arc<InstanceSpec>,
    prefetched: Prefetched,
}

/// The first rows that the transaction of a group reads.
pub(super) struct GroupHead {
    /// The epoch in force until the transaction ends.
    pub(super) epoch: Epoch,
    /// The number of the last fact.
    pub(super) last_seq: Seq,
}

impl<'a> TransactionRows<'a> {
    pub(super) fn new(db: &'a Db<'a>, place: &'a str, specs: &'a mut SpecWriter) -> Self {
        Self {
            db,
            place,
            specs,
            no_spec: Arc::default(),
            prefetched: Prefetched::default(),
        }
    }

    /// Begins a group of these facts. Where each statement is a round trip, it also fetches the rows that
    /// they are about, all at once.
    pub(super) fn begin<'f>(
        &mut self,
        facts: impl Iterator<Item = &'f Fact>,
    ) -> Result<GroupHead, StoreError> {
        let failed = |error| to_store_error(self.place, error);
        let head = match self.db {
            Db::Sqlite(_) => self.begin_here(),
            Db::Postgres(session) => {
                let subjects = Subjects::of(facts, self.specs);
                Prefetched::fetch(session, subjects, self.db, self.specs).map(|(head, rows)| {
                    self.prefetched = rows;
                    head
                })
            }
        };
        head.map_err(failed)
    }

    fn begin_here(&mut self) -> Result<GroupHead, Error> {
        let head = GroupHead {
            epoch: rows::locked_leadership(self.db)?.epoch,
            last_seq: self
                .db
                .query_row(TOTALS, (), |row| Ok(Seq(unsigned(row, 0)?)))?,
        };
        self.specs.begin(self.db, head.epoch)?;
        Ok(head)
    }

    fn query<T>(&self, work: impl FnOnce(&Db<'_>) -> Result<T, Error>) -> Result<T, StoreError> {
        work(self.db).map_err(|error| to_store_error(self.place, error))
    }
}

impl StoredRows for TransactionRows<'_> {
    fn add_spec(
        &mut self,
        seq: Seq,
        spec: &Arc<InstanceSpec>,
        uses: u64,
    ) -> Result<(SpecId, u64), StoreError> {
        self.specs.add(seq, spec, uses)
    }

    fn claim(&mut self, spec: SpecId) -> Result<Arc<Claim>, StoreError> {
        let (db, place) = (self.db, self.place);
        self.specs
            .claim(db, spec)
            .map_err(|error| to_store_error(place, error))
    }

    fn row(&mut self, id: InstanceId) -> Result<Option<Row>, StoreError> {
        if let Some(row) = self.prefetched.rows.remove(&id) {
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
        if let Some(span) = self.prefetched.span(id) {
            return Ok(span.cloned());
        }
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
                "WHERE state = 'QUEUED' AND rank = 0 AND last >= ?1 ORDER BY last LIMIT ?2"
            ))?;
            let mut found = Vec::new();
            for (first, last) in split_by_sign(first, last) {
                let mut from = sql_id(first);
                'parts: loop {
                    let mut rows = statement.query([from, SPANS_FETCH_ROWS])?;
                    let mut fetched = 0;
                    while let Some(row) = rows.next()? {
                        let span = rows::span(&row)?;
                        if sql_id(span.first) > sql_id(last) {
                            break 'parts;
                        }
                        fetched += 1;
                        from = sql_id(span.last).saturating_add(1);
                        found.push(span);
                    }
                    if fetched < SPANS_FETCH_ROWS {
                        break;
                    }
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
        let mut prefetched = self.prefetched.known.take();
        self.query(|db| {
            let mut fetch = |before| match prefetched.take() {
                Some(known) if known.before == before => Ok(known.ranges),
                _ => known_before(db, before),
            };
            let mut ranges = Vec::new();
            let mut clear_to = last;
            for (from, to) in split_by_sign(first, last) {
                clear_to = known_around(&mut fetch, from, to, &mut ranges)?;
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

    fn fleets(&mut self) -> Result<StoredFleets, StoreError> {
        self.query(fleets::all)
    }

    fn run(&mut self, run: RunId) -> Result<Option<RunHead>, StoreError> {
        if let Some(head) = self.prefetched.runs.get(&run) {
            return Ok(head.clone());
        }
        self.query(|db| runs::head(db, run))
    }

    fn last_run(&mut self) -> Result<RunId, StoreError> {
        if let Some(last) = self.prefetched.last_run {
            return Ok(last);
        }
        self.query(runs::last)
    }
}

fn known_before(db: &Db<'_>, before: i64) -> Result<Vec<(i64, i64)>, Error> {
    db.prepare_cached(KNOWN)?
        .query_map([before, KNOWN_FETCH_ROWS], known_range)?
        .collect()
}

/// A row of [`KNOWN`].
pub(super) fn known_range(row: &SqlRow<'_>) -> Result<(i64, i64), Error> {
    Ok((row.get(0)?, row.get(1)?))
}

/// Adds the known ranges that overlap `from` to `to`, which `fetch` finds by [`KNOWN`]; returns the last id
/// after them, in the same half, up to which no other known range starts.
fn known_around(
    fetch: &mut impl FnMut(i64) -> Result<Vec<(i64, i64)>, Error>,
    from: InstanceId,
    to: InstanceId,
    found: &mut Vec<Ids>,
) -> Result<InstanceId, Error> {
    let (from, to) = (sql_id(from), sql_id(to));
    let end = if to < 0 { -1 } else { i64::MAX };
    let mut clear_to = end;
    let mut before = to;
    loop {
        let mut fetched = 0;
        let mut lowest = before;
        for (first, last) in fetch(before)? {
            if first > to {
                clear_to = (first - 1).min(end);
            } else if first <= before && last >= from {
                found.push((
                    InstanceId(first.cast_unsigned()),
                    InstanceId(last.cast_unsigned()),
                ));
                lowest = lowest.min(first);
                fetched += 1;
            }
        }
        // Ranges do not overlap: one that ends before `from` is the last to look at.
        if fetched < KNOWN_FETCH_ROWS || lowest == i64::MIN {
            return Ok(InstanceId(clear_to.cast_unsigned()));
        }
        before = lowest - 1;
    }
}
