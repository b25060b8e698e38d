//! Reads, on read-only connections.
//!
//! Each read is one short snapshot. In WAL mode readers and the writer do not block each other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use baton_core::ledger::{Identity, Ledger, LedgerError, LedgerParts, Range};
use baton_model::ids::{Epoch, InstanceId, StoreId, WorkerName};
use baton_model::principal::NameOwner;
use baton_model::state::UniversalState;
use baton_model::time::{Millis, Wall};
use serde_json::Value;

use super::db::{Db, Error, Row, Rows, corrupt_column, params};
use super::rows::{self, INSTANCES, SPANS, Source, unsigned};
use super::specs::SpecCache;
use super::{Engine, alarms, backfills, facts, fleets, library, limits, measurements, runs};
use crate::change_set::{Ids, split_by_sign};
use crate::limits::{PAGE_SCAN_MAX, READERS_IDLE_MAX, WITHIN_BY_ID_MAX};
use crate::view::{
    self, Counts, Cursor, Page, Query, Record, RecordedFact, Scan, Seq, Stretch, View, sql_id,
};
use crate::{Fingerprint, StoreError};

/// Pool of read connections.
pub(super) struct Readers<E: Engine> {
    engine: Arc<E>,
    idle: Mutex<Vec<E::Connection>>,
}

impl<E: Engine> Readers<E> {
    pub(super) fn new(engine: Arc<E>) -> Self {
        Self {
            engine,
            idle: Mutex::default(),
        }
    }

    /// Closes every idle connection.
    pub(super) fn close(&self) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.clear();
    }

    /// Runs `work` on a snapshot. A connection that has failed is not reused.
    pub(super) fn read<T>(
        &self,
        work: impl FnOnce(&Db<'_>) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let lent = idle().pop();
        let mut connection = match lent.and_then(|it| self.engine.revive(it)) {
            Some(connection) => connection,
            None => self.engine.reader()?,
        };
        let value = self.engine.read(&mut connection, work)?;
        let mut idle = idle();
        if idle.len() < READERS_IDLE_MAX {
            idle.push(connection);
        }
        Ok(value)
    }
}

/// Restores the ledger of a new leader, if `epoch` is still in force.
pub(crate) fn ledger(
    db: &Db<'_>,
    epoch: Epoch,
) -> Result<Option<Result<Ledger, StoreError>>, Error> {
    if rows::leadership(db)?.epoch != epoch {
        return Ok(None);
    }
    let lease_time = db.query_row("SELECT lease_time_ms FROM totals", (), |row| {
        Ok(Millis(unsigned(row, 0)?))
    })?;
    let (runs, ended_runs, last_run) = runs::all(db)?;
    let fleets = fleets::all(db)?;
    let restored = Ledger::restore(LedgerParts {
        known: known(db)?,
        condemned: rows::condemned(db)?,
        drained: drained(db)?,
        name_owners: name_owners(db)?,
        limits: limits::all(db)?,
        array_limits: limits::arrays(db)?,
        shares: limits::shares(db)?,
        lease_time,
        tasks: library::all(db)?,
        keys: library::keys(db)?,
        backfills: backfills::open(db)?,
        last_backfill: backfills::last(db)?,
        runs,
        ended_runs,
        last_run,
        fleets: fleets.fleets,
        jobs: fleets.jobs,
        last_job: fleets.last_job,
        alarms: alarms::all(db)?,
        ..LedgerParts::default()
    });
    let identity = identity(db)?;
    let run_times = measurements::run_times(db)?;
    let admitted = restored
        .map_err(RestoreError::Ledger)
        .and_then(|mut ledger| {
            let mut cache = SpecCache::default();
            let mut arrays = BTreeMap::new();
            for source in [SPANS, INSTANCES] {
                admit_table(db, &source, &mut cache, &mut ledger, &mut arrays)?;
            }
            for (first, last) in arrays {
                ledger.restore_failures(first, failures(db, first, last)?);
            }
            ledger.settle();
            ledger.identify(identity);
            ledger.restore_run_times(run_times);
            Ok(ledger)
        });
    match admitted {
        Ok(ledger) => Ok(Some(Ok(ledger))),
        Err(RestoreError::Ledger(error)) => Ok(Some(Err(StoreError::Corrupt(error.to_string())))),
        Err(RestoreError::Database(error)) => Err(error),
    }
}

/// The identity of the store, with its terms.
fn identity(db: &Db<'_>) -> Result<Identity, Error> {
    let mut statement = db.prepare_cached("SELECT epoch FROM term ORDER BY epoch")?;
    let terms = statement.query_map((), |row| Ok(Epoch(unsigned(row, 0)?)))?;
    let terms = terms.collect::<Result<Vec<_>, _>>()?;
    let sql = "SELECT store, generation, settled FROM identity";
    db.query_row(sql, (), |row| {
        let store = StoreId(unsigned(row, 0)?);
        let mut identity = Identity::new(store, terms);
        identity.generation = Epoch(unsigned(row, 1)?);
        identity.unsettled = !row.get::<bool>(2)?;
        Ok(identity)
    })
}

pub(super) fn fingerprint(db: &Db<'_>) -> Result<Fingerprint, Error> {
    let sql = "SELECT store, epoch, generation, last_seq FROM identity, leader, totals";
    db.query_row(sql, (), |row| {
        Ok(Fingerprint {
            store: StoreId(unsigned(row, 0)?),
            epoch: Epoch(unsigned(row, 1)?),
            generation: Epoch(unsigned(row, 2)?),
            last_fact: Seq(unsigned(row, 3)?),
        })
    })
}

/// Counts a range of instances by state. All instances are counted already: of a range that is most
/// of them the others are counted and subtracted, so that a range of all costs nothing.
pub(super) fn tally(
    db: &Db<'_>,
    first: InstanceId,
    last: InstanceId,
) -> Result<BTreeMap<UniversalState, u64>, Error> {
    let below = first.0.checked_sub(1).map(|last| (0, last));
    let above = last.0.checked_add(1).map(|first| (first, u64::MAX));
    let others = [below, above].into_iter().flatten();
    let others = others.map(|(first, last)| (InstanceId(first), InstanceId(last)));
    let known = known(db)?;
    let number = |range| known.iter().map(|it| overlap(*it, range)).sum::<u128>();
    if number((first, last)) <= others.clone().map(number).sum() {
        return count(db, first, last);
    }
    let mut tally = counts(db)?.states;
    for (first, last) in others.filter(|it| number(*it) > 0) {
        for (state, number) in count(db, first, last)? {
            let left = tally.entry(state).or_default();
            *left = left.saturating_sub(number);
        }
    }
    tally.retain(|_, number| *number > 0);
    Ok(tally)
}

/// Number of ids that two ranges share.
fn overlap(one: Ids, other: Ids) -> u128 {
    let (first, last) = (one.0.max(other.0), one.1.min(other.1));
    (u128::from(last.0) + 1).saturating_sub(u128::from(first.0))
}

/// Counts a range of instances by state. Spans do not overlap, so besides those that end within the
/// range at most one more overlaps it.
fn count(
    db: &Db<'_>,
    first: InstanceId,
    last: InstanceId,
) -> Result<BTreeMap<UniversalState, u64>, Error> {
    const WITHIN: [&str; 3] = [
        "SELECT state, count(*) FROM instance WHERE id BETWEEN ?1 AND ?2 GROUP BY state",
        "SELECT state, CAST(sum(last - max(first, ?1) + 1) AS BIGINT) FROM span WHERE last BETWEEN ?1 AND ?2 \
         GROUP BY state",
        "SELECT state, ?2 - max(first, ?1) + 1 FROM \
         (SELECT state, first FROM span WHERE last > ?2 ORDER BY last LIMIT 1) AS over WHERE first <= ?2",
    ];
    let mut tally = BTreeMap::new();
    for (first, last) in split_by_sign(first, last) {
        for sql in WITHIN {
            let mut counted = db.prepare_cached(sql)?;
            let mut found = counted.query([sql_id(first), sql_id(last)])?;
            while let Some(row) = found.next()? {
                *tally.entry(rows::state(&row, 0)?).or_default() += unsigned(&row, 1)?;
            }
        }
    }
    Ok(tally)
}

/// The instances of a range that are in one of these states, by id. The ids come first: a range of
/// waiting instances is one row, of which each element is a record here.
pub(super) fn within(
    db: &Db<'_>,
    first: InstanceId,
    last: InstanceId,
    states: &[UniversalState],
    limit: usize,
) -> Result<Vec<Record>, Error> {
    let mut found = Vec::new();
    if last.0 - first.0 < WITHIN_BY_ID_MAX {
        found = stretches(db, first, last)?;
        found.retain(|it| states.contains(&it.state));
    } else {
        for state in states {
            found.extend(in_state(db, first, last, *state, limit)?);
        }
        found.sort_unstable_by_key(|it| it.first);
    }
    let mut records = Vec::new();
    for stretch in found {
        for id in stretch.first.0..=stretch.last.0 {
            if records.len() == limit {
                return Ok(records);
            }
            records.extend(rows::find(db, InstanceId(id))?);
        }
    }
    Ok(records)
}

/// The states of a range, by id. Neighbours in the same state are together.
pub(super) fn stretches(
    db: &Db<'_>,
    first: InstanceId,
    last: InstanceId,
) -> Result<Vec<Stretch>, Error> {
    const WITHIN: &str = "SELECT id, id, state FROM instance WHERE id BETWEEN ?1 AND ?2 \
        UNION ALL SELECT max(first, ?1), last, state FROM span WHERE last BETWEEN ?1 AND ?2 \
        UNION ALL SELECT max(first, ?1), ?2, state FROM \
        (SELECT state, first FROM span WHERE last > ?2 ORDER BY last LIMIT 1) AS over WHERE first <= ?2";
    let mut stretches: Vec<Stretch> = Vec::new();
    for (first, last) in split_by_sign(first, last) {
        let mut statement = db.prepare_cached(WITHIN)?;
        let mut found = statement.query([sql_id(first), sql_id(last)])?;
        while let Some(row) = found.next()? {
            stretches.push(stretch(&row)?);
        }
    }
    stretches.sort_unstable_by_key(|it| it.first);
    stretches.dedup_by(|next, before| {
        let continues = next.state == before.state && next.first.0 - before.last.0 == 1;
        if continues {
            before.last = next.last;
        }
        continues
    });
    Ok(stretches)
}

/// The first instances of a range in a state, from the index of that state: the range may have
/// millions of others.
fn in_state(
    db: &Db<'_>,
    first: InstanceId,
    last: InstanceId,
    state: UniversalState,
    limit: usize,
) -> Result<Vec<Stretch>, Error> {
    const IN_STATE: &str = "SELECT * FROM (SELECT id, id AS last, state FROM instance \
        WHERE state = ?3 AND id BETWEEN ?1 AND ?2 ORDER BY id LIMIT ?4) AS single \
        UNION ALL SELECT max(first, ?1), last, state FROM span WHERE state = ?3 AND last BETWEEN ?1 AND ?2 \
        UNION ALL SELECT max(first, ?1), ?2, state FROM \
        (SELECT state, first FROM span WHERE last > ?2 ORDER BY last LIMIT 1) AS over \
        WHERE first <= ?2 AND state = ?3";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut stretches = Vec::new();
    for (first, last) in split_by_sign(first, last) {
        let mut statement = db.prepare_cached(IN_STATE)?;
        let of = params![sql_id(first), sql_id(last), state.word(), limit];
        let mut found = statement.query(of)?;
        while let Some(row) = found.next()? {
            stretches.push(stretch(&row)?);
        }
    }
    Ok(stretches)
}

fn stretch(row: &Row<'_>) -> Result<Stretch, Error> {
    Ok(Stretch {
        first: InstanceId(unsigned(row, 0)?),
        last: InstanceId(unsigned(row, 1)?),
        state: rows::state(row, 2)?,
    })
}

/// Reason why a ledger cannot be restored.
enum RestoreError {
    Database(Error),
    Ledger(LedgerError),
}

impl From<Error> for RestoreError {
    fn from(error: Error) -> Self {
        Self::Database(error)
    }
}

impl From<LedgerError> for RestoreError {
    fn from(error: LedgerError) -> Self {
        Self::Ledger(error)
    }
}

/// Adds every row of one table that has not ended.
fn admit_table(
    db: &Db<'_>,
    source: &Source,
    cache: &mut SpecCache,
    ledger: &mut Ledger,
    arrays: &mut BTreeMap<InstanceId, InstanceId>,
) -> Result<(), RestoreError> {
    for state in states(db, source)? {
        if state.is_terminal() {
            continue;
        }
        let mut living = db.prepare_cached(source.forward.between)?;
        let mut found = living.scan(params![state.word(), i64::MIN, i64::MAX, i64::MAX])?;
        while let Some(row) = found.next()? {
            let record = (source.record)(&row, cache)?;
            let instance = record.instance;
            let expected = &instance.spec.expected;
            let is_timed = expected.max.is_some() || expected.learned;
            if let Some(at) = record.leased_at.filter(|_| is_timed) {
                ledger.restore_leased_at(instance.id, at);
            }
            let conditions = &instance.spec.conditions;
            if conditions.failed_max.is_some() {
                arrays.extend(conditions.instances);
            }
            if source.ranges {
                ledger.admit_range(Range {
                    first: instance.id,
                    last: record.span.unwrap_or(instance.id),
                    spec: instance.spec,
                })?;
            } else {
                ledger.admit(instance)?;
            }
        }
    }
    Ok(())
}

/// The number of FAILED elements of an array.
fn failures(db: &Db<'_>, first: InstanceId, last: InstanceId) -> Result<u32, Error> {
    let sql = "SELECT count(*) FROM instance WHERE id BETWEEN ?1 AND ?2 AND state = ?3";
    let failed = UniversalState::Failed.word();
    db.query_row(sql, params![sql_id(first), sql_id(last), failed], |row| {
        row.get(0)
    })
}

/// The states that occur in a table; found one by one through the index, because ended rows are
/// many.
fn states(db: &Db<'_>, source: &Source) -> Result<Vec<UniversalState>, Error> {
    let mut next = db.prepare_cached(source.states)?;
    let mut states = Vec::new();
    let mut last = String::new();
    while let Some(word) = next.query_row([&last], |row| row.get::<Option<String>>(0))? {
        states.push(rows::state_of(&word, 0)?);
        last = word;
    }
    Ok(states)
}

fn known(db: &Db<'_>) -> Result<Vec<Ids>, Error> {
    db.prepare_cached("SELECT first, last FROM known ORDER BY first")?
        .query_map((), |row| {
            Ok((InstanceId(unsigned(row, 0)?), InstanceId(unsigned(row, 1)?)))
        })?
        .collect()
}

fn drained(db: &Db<'_>) -> Result<Vec<WorkerName>, Error> {
    db.prepare_cached("SELECT worker FROM drained")?
        .query_map((), |row| Ok(WorkerName::new(row.text(0)?)))?
        .collect()
}

fn name_owners(db: &Db<'_>) -> Result<Vec<(WorkerName, NameOwner)>, Error> {
    db.prepare_cached("SELECT worker, owner FROM name_owner")?
        .query_map((), |row| {
            let owner = serde_json::from_str(row.text(1)?);
            let owner = owner.map_err(|error| corrupt_column(1, error))?;
            Ok((WorkerName::new(row.text(0)?), owner))
        })?
        .collect()
}

/// One page of a view: the first records of each of its states, merged.
pub(super) fn page(db: &Db<'_>, query: &Query) -> Result<Page<Record>, Error> {
    let mut cache = SpecCache::default();
    let mut scans = Vec::new();
    let ranks = ranks(db, query)?;
    for state in query.states() {
        for source in [SPANS, INSTANCES] {
            scans.push(scan(db, query, state, ranks, &source, &mut cache)?);
        }
    }
    Ok(view::merge(scans, query))
}

/// Ranks above the first one and not above the second one.
type Ranks = (i64, i64);

/// The ranks of the instances that have ended in the time of the query; those of the others do not
/// tell their times.
fn ranks(db: &Db<'_>, query: &Query) -> Result<Ranks, Error> {
    let (mut above, mut most) = (i64::MIN, i64::MAX);
    if query.view == View::History {
        if let Some(until) = query.filter.until {
            above = -facts::last_before(db, until)?.0.cast_signed() - 1;
        }
        if let Some(since) = query.filter.since {
            most = -facts::last_before(db, since)?.0.cast_signed() - 1;
        }
    }
    Ok((above, most))
}

/// Scans one state in one table: first the rest of the rank in which the previous page ended, then
/// the ranks beyond it.
fn scan<'a>(
    db: &Db<'_>,
    query: &'a Query,
    state: UniversalState,
    (mut above, mut most): Ranks,
    source: &Source,
    cache: &mut SpecCache,
) -> Result<Scan<'a>, Error> {
    let mut scan = Scan::new(query);
    let word = state.word();
    let (statements, id) = if query.reversed {
        (&source.backward, source.first)
    } else {
        (&source.forward, 0)
    };
    let mut visit_rows = |rows: &mut Rows<'_>| {
        while let Some(row) = rows.next()? {
            let matches = matches(query, source, &row, cache)?;
            let record = || (source.record)(&row, cache);
            if !scan.visit(rows::cursor(&row, id)?, matches, record)? {
                return Ok(false);
            }
        }
        Ok::<_, Error>(true)
    };
    let mut more = true;
    if let Some(Cursor(rank, id)) = query.after {
        if above < rank && rank <= most {
            let mut rest = db.prepare_cached(statements.rest)?;
            more = visit_rows(&mut rest.query(params![word, rank, id, PAGE_SCAN_MAX as i64])?)?;
        }
        if query.reversed {
            most = most.min(rank.saturating_sub(1));
        } else {
            above = above.max(rank);
        }
    }
    if more {
        let mut between = db.prepare_cached(statements.between)?;
        visit_rows(&mut between.query(params![word, above, most, PAGE_SCAN_MAX as i64])?)?;
    }
    Ok(scan)
}

/// True if a row passes the filters.
fn matches(
    query: &Query,
    source: &Source,
    row: &Row<'_>,
    cache: &mut SpecCache,
) -> Result<bool, Error> {
    let (owner, name) = (row.text(source.spec + 2)?, row.text(source.spec + 3)?);
    if !query.matches(owner, name) || !query.is_within(Wall(unsigned(row, 5)?)) {
        return Ok(false);
    }
    if let Some(tag) = &query.filter.tag
        && !has_tag(tag, source, row, cache)?
    {
        return Ok(false);
    }
    match &query.filter.worker {
        // A range has had no attempt.
        Some(worker) => Ok(!source.ranges && rows::is_on_worker(row, worker)?),
        None => Ok(true),
    }
}

/// True if the spec of a row has this tag. Most that do not are recognised by their text, which is
/// much faster than to parse it.
fn has_tag(
    tag: &str,
    source: &Source,
    row: &Row<'_>,
    cache: &mut SpecCache,
) -> Result<bool, Error> {
    let quoted = Value::from(tag).to_string();
    if !row.text(source.spec)?.contains(&quoted) {
        return Ok(false);
    }
    let spec = cache.read(row, row.get(2)?, source.spec)?;
    Ok(spec.tags.iter().any(|it| it == tag))
}

/// The facts about one instance.
pub(super) fn timeline(
    db: &Db<'_>,
    id: InstanceId,
    after: Option<Seq>,
    limit: usize,
) -> Result<Page<RecordedFact, Seq>, Error> {
    let limit = view::page_limit(limit);
    let after = after.map_or(0, |seq| seq.0.cast_signed());
    let mut entries: Vec<RecordedFact> = Vec::new();
    if let Some(record) = rows::find(db, id)? {
        let submitted = record.submitted.0.cast_signed();
        for sql in [OWN, BEGINNING, LATER] {
            let mut statement = db.prepare_cached(sql)?;
            let values = params![sql_id(id), after, limit as i64 + 1, submitted];
            let found = statement.query_map(values, rows::recorded_fact)?;
            for entry in found {
                entries.push(entry?);
            }
        }
    }
    entries.sort_unstable_by_key(|entry| entry.seq);
    Ok(Page::from_lookahead(
        entries,
        limit,
        |entry: &RecordedFact| entry.seq,
    ))
}

/// Facts about one instance alone.
const OWN: &str = "SELECT h.seq, h.at_ms, h.epoch, h.body, s.body, h.requested_by FROM history AS h \
    LEFT JOIN spec AS s ON s.id = h.spec WHERE h.instance = ?1 AND h.seq > ?2 AND ?4 IS NOT NULL \
    ORDER BY h.seq LIMIT ?3";

/// The submission of the range that contains it.
const BEGINNING: &str = "SELECT w.seq, w.at_ms, w.epoch, w.body, s.body, w.requested_by FROM wide AS w \
    LEFT JOIN spec AS s ON s.id = w.spec WHERE w.seq = ?4 AND w.seq > ?2 AND w.first IS NOT NULL \
    AND ?1 IS NOT NULL LIMIT ?3";

/// Later facts about ranges that contain it. A range may continue where signed numbers wrap around.
const LATER: &str = "SELECT w.seq, w.at_ms, w.epoch, w.body, NULL, w.requested_by FROM wide AS w \
    WHERE w.first IS NOT NULL AND w.spec IS NULL AND w.seq > max(?2, ?4) \
    AND CASE WHEN w.first <= w.last THEN ?1 BETWEEN w.first AND w.last \
    ELSE ?1 >= w.first OR ?1 <= w.last END ORDER BY w.seq LIMIT ?3";

pub(super) fn counts(db: &Db<'_>) -> Result<Counts, Error> {
    let history_bytes = db
        .prepare_cached("SELECT history_bytes FROM totals")?
        .query_row((), |row| unsigned(row, 0))?;
    let states = db
        .prepare_cached("SELECT state, instances FROM tally WHERE instances > 0")?
        .query_map((), |row| Ok((rows::state(row, 0)?, unsigned(row, 1)?)))?
        .collect::<Result<_, _>>()?;
    Ok(Counts {
        states,
        history_bytes,
    })
}
