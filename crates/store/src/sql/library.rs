//! Rows of the library.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_core::ledger::Task;
use baton_model::fact::Fact;
use baton_model::ids::{InstanceId, Revision, RunId, TaskNo};
use baton_model::library::{Created, Definition, IdempotencyKey, Pause, TaskName};
use baton_model::limits::IDEMPOTENCY_KEYS_MAX;
use baton_model::time::Wall;

use super::db::{Db, Error, OptionalRow as _, Row, corrupt_column, params};
use super::rows::{self, to_json, unsigned};
use crate::change_set::{ChangeSet, StoredTask};
use crate::limits::PAGE_SCAN_MAX;
use crate::view::{
    Page, RecordedFact, RevisionRecord, Seq, TaskQuery, TaskRecord, TickQuery, page_limit, sql_id,
};

/// A statement whose columns [`record`] reads.
macro_rules! record {
    ($rest:literal) => {
        concat!(
            "SELECT t.number, t.owner, t.name, t.defined AND t.revision = r.revision, \
             r.revision, r.at_ms, r.body, t.paused_ms, t.pause_reason FROM task AS t JOIN revision AS r ON r.task = t.number ",
            $rest
        )
    };
}

/// Statements of groups with idempotency keys, which PostgreSQL's writer plans in advance.
pub(super) const STATEMENTS: &[&str] = &[PUT_REQUEST, DELETE_OLD_REQUESTS];

const PUT_REQUEST: &str = "INSERT INTO request \
    (number, task, high, low, request, instance, last, run) \
    VALUES ((SELECT coalesce(max(number), 0) + 1 FROM request), ?1, ?2, ?3, ?4, ?5, ?6, ?7) \
    ON CONFLICT (task, high, low) DO UPDATE SET number = excluded.number, \
    request = excluded.request, instance = excluded.instance, last = excluded.last, \
    run = excluded.run";

const DELETE_OLD_REQUESTS: &str =
    "DELETE FROM request WHERE number <= (SELECT max(number) FROM request) - ?1";

/// Writes the library's part of a change set.
pub(super) fn write(db: &Db<'_>, change_set: &ChangeSet) -> Result<(), Error> {
    let mut put = db.prepare_cached(
        "INSERT INTO task (number, owner, name, revision, defined, accounted_ms, paused_ms, \
         pause_reason, launches) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (number) \
         DO UPDATE SET revision = ?4, defined = ?5, accounted_ms = ?6, paused_ms = ?7, \
         pause_reason = ?8, launches = ?9",
    )?;
    for task in change_set.tasks() {
        put.write_in_order(params![
            task.number.0.cast_signed(),
            task.name.owner,
            task.name.name,
            task.revision.0,
            task.defined,
            task.accounted.0.cast_signed(),
            task.pause.as_ref().map(|pause| pause.since.0.cast_signed()),
            task.pause.as_ref().and_then(|pause| pause.reason.as_ref()),
            task.launches.cast_signed(),
        ])?;
    }
    let mut keep = db.prepare_cached(
        "INSERT INTO revision (task, revision, at_ms, body) VALUES (?1, ?2, ?3, ?4)",
    )?;
    for new in change_set.revisions() {
        keep.write_in_order(params![
            new.task.0.cast_signed(),
            new.revision.0,
            new.at.0.cast_signed(),
            to_json(&new.definition)?,
        ])?;
    }
    if change_set.keys().is_empty() {
        return Ok(());
    }
    let mut remember = db.prepare_cached(PUT_REQUEST)?;
    for new in change_set.keys() {
        let (first, last, run) = match new.created {
            Created::Instances { first, last } => (sql_id(first), Some(sql_id(last)), None),
            Created::Run(run) => (0, None, Some(run.0.cast_signed())),
        };
        remember.write_in_order(params![
            new.task.map_or(0, |task| task.0.cast_signed()),
            new.key.key.0.cast_signed(),
            new.key.key.1.cast_signed(),
            new.key.request.cast_signed(),
            first,
            last,
            run,
        ])?;
    }
    db.prepare_cached(DELETE_OLD_REQUESTS)?
        .write_in_order([IDEMPOTENCY_KEYS_MAX as i64])?;
    Ok(())
}

/// A task's row, without its definition.
pub(super) fn stored(db: &Db<'_>, number: TaskNo) -> Result<Option<StoredTask>, Error> {
    db.prepare_cached(
        "SELECT number, owner, name, revision, defined, accounted_ms, paused_ms, pause_reason, \
         launches FROM task WHERE number = ?1",
    )?
    .query_row([number.0.cast_signed()], |row| {
        Ok(StoredTask {
            number: TaskNo(unsigned(row, 0)?),
            name: name(row, 1)?,
            revision: Revision(row.get(3)?),
            defined: row.get(4)?,
            accounted: Wall(unsigned(row, 5)?),
            pause: pause(row, 6)?,
            launches: unsigned(row, 8)?,
        })
    })
    .optional()
}

/// The number of the task with this name.
pub(super) fn number_of(db: &Db<'_>, name: &TaskName) -> Result<Option<TaskNo>, Error> {
    db.prepare_cached("SELECT number FROM task WHERE owner = ?1 AND name = ?2")?
        .query_row([&name.owner, &name.name], |row| {
            Ok(TaskNo(unsigned(row, 0)?))
        })
        .optional()
}

pub(super) fn names(
    db: &Db<'_>,
    numbers: &BTreeSet<TaskNo>,
) -> Result<BTreeMap<TaskNo, TaskName>, Error> {
    let mut names = BTreeMap::new();
    for number in numbers {
        if let Some(task) = stored(db, *number)? {
            names.insert(*number, task.name);
        }
    }
    Ok(names)
}

/// Every task, for a new leader's ledger.
pub(super) fn all(db: &Db<'_>) -> Result<Vec<Task>, Error> {
    db.prepare_cached(
        "SELECT t.number, t.owner, t.name, t.revision, t.accounted_ms, r.body, t.paused_ms, \
         t.pause_reason, t.launches FROM task AS t \
         LEFT JOIN revision AS r ON t.defined AND r.task = t.number AND r.revision = t.revision \
         ORDER BY t.number",
    )?
    .query_map((), |row| {
        let definition = match row.text_or_null(5)? {
            Some(body) => Some(definition(body, 5)?),
            None => None,
        };
        let task = Task::new(
            TaskNo(unsigned(row, 0)?),
            name(row, 1)?,
            Revision(row.get(3)?),
            Wall(unsigned(row, 4)?),
            definition.as_ref(),
        );
        Ok(task.with_history(pause(row, 6)?, unsigned(row, 8)?))
    })?
    .collect()
}

/// Idempotency keys with what they have created, the oldest first.
pub(super) fn keys(db: &Db<'_>) -> Result<Vec<(Option<TaskNo>, IdempotencyKey, Created)>, Error> {
    let sql = "SELECT task, high, low, request, instance, coalesce(last, instance), run \
               FROM request ORDER BY number";
    db.prepare_cached(sql)?
        .query_map((), |row| {
            let key = IdempotencyKey {
                key: (unsigned(row, 1)?, unsigned(row, 2)?),
                request: unsigned(row, 3)?,
            };
            let created = match row.get::<Option<i64>>(6)? {
                Some(run) => Created::Run(RunId(run.cast_unsigned())),
                None => Created::Instances {
                    first: InstanceId(unsigned(row, 4)?),
                    last: InstanceId(unsigned(row, 5)?),
                },
            };
            let task = Some(TaskNo(unsigned(row, 0)?)).filter(|task| task.0 != 0);
            Ok((task, key, created))
        })?
        .collect()
}

/// One task, in its current revision or the given one.
pub(super) fn task(
    db: &Db<'_>,
    name: &TaskName,
    revision: Option<Revision>,
) -> Result<Option<TaskRecord>, Error> {
    let sql = record!(
        "WHERE t.owner = ?1 AND t.name = ?2 AND r.revision = coalesce(?3, t.revision) \
         AND (t.defined OR ?3 IS NOT NULL)"
    );
    db.prepare_cached(sql)?
        .query_row(
            params![name.owner, name.name, revision.map(|it| it.0)],
            record,
        )
        .optional()
}

/// Tasks in the library, by name.
pub(super) fn tasks(db: &Db<'_>, query: &TaskQuery) -> Result<Page<TaskRecord, TaskName>, Error> {
    let limit = page_limit(query.limit);
    let after = query.after.clone().unwrap_or_default();
    let sql = record!(
        "WHERE t.defined AND r.revision = t.revision AND (t.owner, t.name) > (?1, ?2) \
         AND t.owner = coalesce(?3, t.owner) ORDER BY t.owner, t.name LIMIT ?4"
    );
    let mut statement = db.prepare_cached(sql)?;
    let values = params![after.owner, after.name, query.owner, limit as i64 + 1];
    let found = statement.query_map(values, record)?;
    let found = found.collect::<Result<Vec<_>, _>>()?;
    Ok(Page::from_lookahead(found, limit, |it: &TaskRecord| {
        it.name.clone()
    }))
}

/// The revisions of a task, the latest first.
pub(super) fn revisions(
    db: &Db<'_>,
    task: TaskNo,
    before: Option<Revision>,
    limit: usize,
) -> Result<Page<RevisionRecord, Revision>, Error> {
    let limit = page_limit(limit);
    let before = before.map_or(i64::MAX, |it| i64::from(it.0));
    let mut statement = db.prepare_cached(
        "SELECT revision, at_ms, body FROM revision WHERE task = ?1 AND revision < ?2 \
         ORDER BY revision DESC LIMIT ?3",
    )?;
    let values = params![task.0.cast_signed(), before, limit as i64 + 1];
    let found = statement.query_map(values, |row| {
        Ok(RevisionRecord {
            revision: Revision(row.get(0)?),
            at: Wall(unsigned(row, 1)?),
            definition: Arc::new(definition(row.text(2)?, 2)?),
        })
    })?;
    let found = found.collect::<Result<Vec<_>, _>>()?;
    Ok(Page::from_lookahead(found, limit, |it: &RevisionRecord| {
        it.revision
    }))
}

/// Recorded ticks, the latest first.
pub(super) fn ticks(db: &Db<'_>, query: &TickQuery) -> Result<Page<RecordedFact, Seq>, Error> {
    const ALL: &str = "SELECT seq, at_ms, epoch, body, NULL, requested_by FROM wide \
        WHERE first IS NULL AND seq < ?2 AND ?1 IS NULL ORDER BY seq DESC LIMIT ?3";
    const OF_ONE: &str = "SELECT seq, at_ms, epoch, body, NULL, requested_by FROM wide \
        WHERE task IS NOT NULL AND task = ?1 AND seq < ?2 ORDER BY seq DESC LIMIT ?3";
    let limit = page_limit(query.limit);
    let task = query.task.map(|it| it.0.cast_signed());
    let before = query.before.map_or(i64::MAX, |seq| seq.0.cast_signed());
    let mut statement = db.prepare_cached(if task.is_some() { OF_ONE } else { ALL })?;
    let mut rows = statement.query(params![task, before, PAGE_SCAN_MAX as i64])?;
    let (mut items, mut looked, mut last) = (Vec::new(), 0, None);
    while items.len() < limit
        && let Some(row) = rows.next()?
    {
        let entry = rows::recorded_fact(&row)?;
        (looked, last) = (looked + 1, Some(entry.seq));
        if matches!(entry.fact, Fact::Launched { .. }) {
            items.push(entry);
        }
    }
    let more = items.len() >= limit || looked >= PAGE_SCAN_MAX;
    Ok(Page {
        items,
        next: last.filter(|_| more),
    })
}

fn record(row: &Row<'_>) -> Result<TaskRecord, Error> {
    Ok(TaskRecord {
        number: TaskNo(unsigned(row, 0)?),
        name: name(row, 1)?,
        current: row.get(3)?,
        revision: Revision(row.get(4)?),
        at: Wall(unsigned(row, 5)?),
        definition: Arc::new(definition(row.text(6)?, 6)?),
        pause: pause(row, 7)?,
    })
}

/// A pause, of two columns.
fn pause(row: &Row<'_>, at: usize) -> Result<Option<Pause>, Error> {
    let Some(since) = row.get::<Option<i64>>(at)? else {
        return Ok(None);
    };
    Ok(Some(Pause {
        since: Wall(since.cast_unsigned()),
        reason: row.get(at + 1)?,
    }))
}

fn name(row: &Row<'_>, at: usize) -> Result<TaskName, Error> {
    Ok(TaskName {
        owner: row.get(at)?,
        name: row.get(at + 1)?,
    })
}

fn definition(body: &str, column: usize) -> Result<Definition, Error> {
    serde_json::from_str(body).map_err(|error| corrupt_column(column, error))
}
