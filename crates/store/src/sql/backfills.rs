//! Rows of backfills, and launched due times.

use std::collections::BTreeMap;

use baton_core::ledger::OpenBackfill;
use baton_core::scheduler::KnownLaunches;
use baton_model::backfill::Backfill;
use baton_model::ids::{BackfillId, InstanceId, RunId, TaskNo};
use baton_model::library::{Execution, TaskName};
use baton_model::limits::{BACKFILLS_DONE_MAX, LAUNCHES_REMEMBERED_MAX};
use baton_model::state::UniversalState;
use baton_model::time::Wall;

use serde::de::DeserializeOwned;

use super::db::{Db, Error, OptionalRow as _, Row, corrupt_column, params};
use super::rows::{self, to_json, unsigned};
use crate::change_set::ChangeSet;
use crate::view::{BackfillQuery, BackfillRecord, LaunchRecord, Page, page_limit, sql_id};

/// An entry's launches are looked through once in so many.
const FORGET_EVERY: u64 = 1_000;

/// A statement whose columns [`record`] reads.
macro_rules! record {
    ($rest:literal) => {
        concat!(
            "SELECT b.body, t.owner, t.name FROM backfill AS b JOIN task AS t ON t.number = b.task ",
            $rest
        )
    };
}

/// A statement about the launches of a backfill, with the states of what they have launched.
macro_rules! launches {
    ($columns:literal, $rest:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM (SELECT l.nominal_ms, l.instance, l.run, coalesce(r.state, i.state, (SELECT CASE \
             WHEN s.first <= l.instance THEN s.state END FROM span AS s WHERE s.last >= l.instance \
             ORDER BY s.last LIMIT 1)) AS state FROM launch AS l LEFT JOIN run AS r ON r.id = l.run \
             LEFT JOIN instance AS i ON i.id = l.instance WHERE l.backfill = ?1) AS launched ",
            $rest
        )
    };
}

/// Writes the part of a change set that concerns backfills and launches.
pub(super) fn write(db: &Db<'_>, change_set: &ChangeSet) -> Result<(), Error> {
    let mut put = db.prepare_cached(
        "INSERT INTO backfill (id, task, open, body) VALUES (?1, ?2, ?3, ?4) \
         ON CONFLICT (id) DO UPDATE SET open = ?3, body = ?4",
    )?;
    for head in change_set.backfills() {
        put.write_in_order(params![
            head.id.0.cast_signed(),
            head.task.0.cast_signed(),
            head.state.is_open(),
            to_json(head)?,
        ])?;
    }
    for (id, taken) in change_set.taken() {
        let id = id.0.cast_signed();
        match taken {
            Some(taken) => db
                .prepare_cached(
                    "INSERT INTO backfill_taken (backfill, body) VALUES (?1, ?2) \
                     ON CONFLICT (backfill) DO UPDATE SET body = excluded.body",
                )?
                .write_in_order(params![id, to_json(taken)?])?,
            None => db
                .prepare_cached("DELETE FROM backfill_taken WHERE backfill = ?1")?
                .write_in_order([id])?,
        };
    }
    if change_set.taken().next().is_some() {
        db.prepare_cached(
            "DELETE FROM backfill WHERE NOT open AND id <= (SELECT max(id) FROM backfill) - ?1",
        )?
        .write_in_order([BACKFILLS_DONE_MAX.cast_signed()])?;
    }
    write_launches(db, change_set)
}

fn write_launches(db: &Db<'_>, change_set: &ChangeSet) -> Result<(), Error> {
    let mut put = db.prepare_cached(
        "INSERT INTO launch (task, nominal_ms, instance, run, backfill) \
         VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (task, nominal_ms) DO UPDATE SET \
         instance = excluded.instance, run = excluded.run, backfill = excluded.backfill",
    )?;
    let mut new: BTreeMap<TaskNo, u64> = BTreeMap::new();
    for launch in change_set.launches() {
        put.write_in_order(params![
            launch.task.0.cast_signed(),
            launch.nominal.0.cast_signed(),
            launch.execution.instance().map(sql_id),
            launch.execution.run().map(|run| run.0.cast_signed()),
            launch.backfill.map(|it| it.0.cast_signed()),
        ])?;
        *new.entry(launch.task).or_default() += 1;
    }
    for task in change_set.tasks() {
        let added = new.get(&task.number).copied().unwrap_or_default();
        let before = task.launches.saturating_sub(added);
        if before / FORGET_EVERY != task.launches / FORGET_EVERY {
            forget(db, task.number)?;
        }
    }
    Ok(())
}

/// Forgets the oldest launches of an entry, unless a backfill of it needs them.
fn forget(db: &Db<'_>, task: TaskNo) -> Result<(), Error> {
    let task = task.0.cast_signed();
    let sql = "SELECT nominal_ms FROM launch WHERE task = ?1 \
               AND NOT EXISTS (SELECT 1 FROM backfill WHERE task = ?1 AND open) \
               ORDER BY nominal_ms DESC LIMIT 1 OFFSET ?2";
    let last: Option<i64> = db
        .prepare_cached(sql)?
        .query_row([task, LAUNCHES_REMEMBERED_MAX.cast_signed()], |row| {
            row.get(0)
        })
        .optional()?;
    let Some(last) = last else {
        return Ok(());
    };
    db.prepare_cached("DELETE FROM launch WHERE task = ?1 AND nominal_ms <= ?2")?
        .write_in_order([task, last])?;
    db.prepare_cached(
        "UPDATE task SET launches_since_ms = max(launches_since_ms, ?2) WHERE number = ?1",
    )?
    .write_in_order([task, last + 1])?;
    Ok(())
}

/// A backfill, without its entry's name.
pub(super) fn head(db: &Db<'_>, id: BackfillId) -> Result<Option<Backfill>, Error> {
    db.prepare_cached("SELECT body FROM backfill WHERE id = ?1")?
        .query_row([id.0.cast_signed()], |row| parsed(row, 0))
        .optional()
}

/// The highest id ever used: the row of the last backfill is never removed.
pub(super) fn last(db: &Db<'_>) -> Result<BackfillId, Error> {
    db.prepare_cached("SELECT coalesce(max(id), 0) FROM backfill")?
        .query_row((), |row| Ok(BackfillId(unsigned(row, 0)?)))
}

/// Every backfill that is not DONE, for a new leader's ledger.
pub(super) fn open(db: &Db<'_>) -> Result<Vec<OpenBackfill>, Error> {
    let mut heads = db.prepare_cached("SELECT body FROM backfill WHERE open")?;
    let heads = heads.query_map((), |row| parsed::<Backfill>(row, 0))?;
    let heads = heads.collect::<Result<Vec<_>, _>>()?;
    let mut taken = db.prepare_cached("SELECT body FROM backfill_taken WHERE backfill = ?1")?;
    let mut launches = db.prepare_cached("SELECT instance, run FROM launch WHERE backfill = ?1")?;
    let restore = |head: Backfill| {
        let id = head.id.0.cast_signed();
        let taken = taken.query_row([id], |row| parsed::<Vec<Wall>>(row, 0));
        let launches = launches.query_map([id], |row| execution(row, 0))?;
        let launches = launches.collect::<Result<Vec<_>, _>>()?;
        let launches = launches.into_iter().flatten();
        let taken = taken.optional()?.unwrap_or_default();
        Ok(OpenBackfill::new(head, taken, launches))
    };
    heads.into_iter().map(restore).collect()
}

/// The launched due times of an entry in an interval, its end not included.
pub(super) fn known_launches(
    db: &Db<'_>,
    task: TaskNo,
    from: Wall,
    to: Wall,
) -> Result<KnownLaunches, Error> {
    let number = task.0.cast_signed();
    let counted = db
        .prepare_cached("SELECT launches, launches_since_ms FROM task WHERE number = ?1")?
        .query_row([number], |row| {
            Ok((unsigned(row, 0)?, Wall(unsigned(row, 1)?)))
        })
        .optional()?;
    let (launches, since) = counted.unwrap_or_default();
    let sql = "SELECT nominal_ms FROM launch WHERE task = ?1 AND nominal_ms >= ?2 \
               AND nominal_ms < ?3 ORDER BY nominal_ms LIMIT ?4";
    let mut statement = db.prepare_cached(sql)?;
    // Times are compared as signed integers, and none is that high.
    let signed = |at: Wall| i64::try_from(at.0).unwrap_or(i64::MAX);
    let limit = 2 * LAUNCHES_REMEMBERED_MAX.cast_signed();
    let times = statement.query_map([number, signed(from), signed(to), limit], |row| {
        Ok(Wall(unsigned(row, 0)?))
    })?;
    Ok(KnownLaunches {
        launches,
        since,
        times: times.collect::<Result<_, _>>()?,
    })
}

/// One backfill.
pub(super) fn one(db: &Db<'_>, id: BackfillId) -> Result<Option<BackfillRecord>, Error> {
    db.prepare_cached(record!("WHERE b.id = ?1"))?
        .query_row([id.0.cast_signed()], record)
        .optional()
}

/// One page of backfills, the latest first.
pub(super) fn page(
    db: &Db<'_>,
    query: &BackfillQuery,
) -> Result<Page<BackfillRecord, BackfillId>, Error> {
    let limit = page_limit(query.limit);
    let before = query.before.map(|it| i64::try_from(it.0));
    let before = before.map_or(i64::MAX, |it| it.unwrap_or(i64::MAX));
    let mut statement = db.prepare_cached(record!(
        "WHERE b.id < ?1 AND t.owner = coalesce(?2, t.owner) AND t.name = coalesce(?3, t.name) \
         ORDER BY b.id DESC LIMIT ?4"
    ))?;
    let values = params![before, query.owner, query.name, limit as i64 + 1];
    let found = statement.query_map(values, record)?;
    let found = found.collect::<Result<Vec<_>, _>>()?;
    Ok(Page::from_lookahead(found, limit, |it: &BackfillRecord| {
        it.head.id
    }))
}

/// Launches of a backfill by due time, after the given one.
pub(super) fn launches(
    db: &Db<'_>,
    id: BackfillId,
    after: Option<Wall>,
    limit: usize,
) -> Result<Page<LaunchRecord, Wall>, Error> {
    let limit = page_limit(limit);
    let after = after.map_or(-1, |at| i64::try_from(at.0).unwrap_or(i64::MAX));
    let mut statement = db.prepare_cached(launches!(
        "nominal_ms, instance, run, state",
        "WHERE nominal_ms > ?2 ORDER BY nominal_ms LIMIT ?3"
    ))?;
    let values = [id.0.cast_signed(), after, limit as i64 + 1];
    let found = statement.query_map(values, |row| {
        Ok(LaunchRecord {
            nominal: Wall(unsigned(row, 0)?),
            execution: execution(row, 1)?,
            state: state(row, 3)?,
        })
    })?;
    let found = found.collect::<Result<Vec<_>, _>>()?;
    Ok(Page::from_lookahead(found, limit, |it: &LaunchRecord| {
        it.nominal
    }))
}

/// Counts the launches of a backfill by the state of what they have launched; those whose history
/// was removed are missing.
pub(super) fn tally(db: &Db<'_>, id: BackfillId) -> Result<BTreeMap<UniversalState, u64>, Error> {
    let mut statement = db.prepare_cached(launches!(
        "state, count(*)",
        "WHERE state IS NOT NULL GROUP BY state"
    ))?;
    let counted = statement.query_map([id.0.cast_signed()], |row| {
        Ok((rows::state(row, 0)?, unsigned(row, 1)?))
    })?;
    counted.collect()
}

fn record(row: &Row<'_>) -> Result<BackfillRecord, Error> {
    Ok(BackfillRecord {
        head: parsed(row, 0)?,
        name: TaskName {
            owner: row.get(1)?,
            name: row.get(2)?,
        },
    })
}

fn execution(row: &Row<'_>, at: usize) -> Result<Option<Execution>, Error> {
    let instance = row.get::<Option<i64>>(at)?;
    let run = row.get::<Option<i64>>(at + 1)?;
    let instance = instance.map(|id| InstanceId(id.cast_unsigned()));
    let run = run.map(|id| RunId(id.cast_unsigned()));
    Ok(Execution::either(instance, run))
}

fn state(row: &Row<'_>, at: usize) -> Result<Option<UniversalState>, Error> {
    match row.get::<Option<String>>(at)? {
        Some(word) => rows::state_of(&word, at).map(Some),
        None => Ok(None),
    }
}

/// A column of JSON.
fn parsed<T: DeserializeOwned>(row: &Row<'_>, at: usize) -> Result<T, Error> {
    let value = rows::json(row, at)?;
    value.ok_or_else(|| corrupt_column(at, "it is empty"))
}
