//! Rows of measurements by task.

use baton_core::ledger::RunTimes;
use baton_model::limits::{RUN_TIMES_REMEMBERED, TASKS_MEASURED_MAX};
use baton_model::measurement::TaskPath;
use baton_model::time::Wall;

use super::db::{Db, Error, Row, corrupt_column, params};
use super::rows::{self, to_json, unsigned};
use crate::limits::USAGE_HOURS_KEPT;
use crate::measurements::{
    MEASUREMENT_LEN, MeasurementDeltas, TaskUsage, TaskUsageQuery, decode, encode,
};
use crate::view::{Page, page_limit};

/// A statement of most groups, which PostgreSQL's writer plans in advance. It keeps the last 8,600 characters:
/// 200 measurements.
pub(super) const APPEND: &str = "INSERT INTO task_usage (owner, workflow, task, attempts, changed_ms, requested, \
    samples) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) \
    ON CONFLICT (owner, workflow, task) DO UPDATE SET \
    attempts = task_usage.attempts + excluded.attempts, changed_ms = excluded.changed_ms, \
    requested = excluded.requested, samples = substr(task_usage.samples || excluded.samples, \
    max(1, length(task_usage.samples) + length(excluded.samples) - 8599))";

const KEPT: usize = 8_600;

const _: () = assert!(
    KEPT == baton_model::limits::TASK_ATTEMPTS_MEASURED * MEASUREMENT_LEN,
    "the statement keeps as many measurements as the limit says"
);

const _: () = assert!(
    1_376 == RUN_TIMES_REMEMBERED * MEASUREMENT_LEN,
    "a leader reads as many run times as it remembers"
);

/// Appends the measurements of a change set: one row for each task.
pub(super) fn write(db: &Db<'_>, measured: &MeasurementDeltas) -> Result<(), Error> {
    let mut append = db.prepare_cached(APPEND)?;
    for (path, new) in measured {
        let most = KEPT / MEASUREMENT_LEN;
        let last = &new.measurements[new.measurements.len().saturating_sub(most)..];
        append.write(params![
            &*path.owner,
            &*path.workflow,
            &*path.task,
            new.measurements.len() as i64,
            new.changed.0.cast_signed(),
            to_json(&new.requested)?,
            encode(last),
        ])?;
    }
    Ok(())
}

/// Removes rows of tasks that ran too long ago, or that are too many.
pub(super) fn prune(db: &Db<'_>, now: Wall) -> Result<(), Error> {
    let first = now.0.saturating_sub(USAGE_HOURS_KEPT * 3_600_000);
    db.prepare_cached(
        "DELETE FROM task_usage WHERE changed_ms < ?1 OR changed_ms < (SELECT changed_ms \
         FROM task_usage ORDER BY changed_ms DESC LIMIT 1 OFFSET ?2)",
    )?
    .write(params![first.cast_signed(), TASKS_MEASURED_MAX as i64 - 1])?;
    Ok(())
}

/// Reads one page.
pub(super) fn page(
    db: &Db<'_>,
    query: &TaskUsageQuery,
) -> Result<Page<TaskUsage, TaskPath>, Error> {
    let limit = page_limit(query.limit);
    let after = query.after.as_ref();
    let mut statement = db.prepare_cached(
        "SELECT owner, workflow, task, attempts, changed_ms, requested, samples FROM task_usage \
         WHERE (owner, workflow, task) > (?1, ?2, ?3) AND (?4 IS NULL OR owner = ?4) \
         AND (?5 IS NULL OR workflow = ?5) AND (?6 IS NULL OR task = ?6) \
         ORDER BY owner, workflow, task LIMIT ?7",
    )?;
    let found = statement.query_map(
        params![
            after.map_or("", |it| &*it.owner),
            after.map_or("", |it| &*it.workflow),
            after.map_or("", |it| &*it.task),
            query.owner,
            query.workflow,
            query.task,
            limit as i64 + 1
        ],
        task_usage,
    )?;
    let items = found.collect::<Result<Vec<TaskUsage>, _>>()?;
    Ok(Page::from_lookahead(items, limit, |it| it.path.clone()))
}

/// The run times of the tasks that ran last, for a new leader: of each the last ones.
pub(super) fn run_times(db: &Db<'_>) -> Result<RunTimes, Error> {
    let mut statement = db.prepare_cached(
        "SELECT owner, workflow, task, attempts, changed_ms, requested, \
         substr(samples, max(1, length(samples) - 1375)) FROM task_usage \
         ORDER BY changed_ms DESC, owner, workflow, task LIMIT ?1",
    )?;
    let found = statement.query_map([TASKS_MEASURED_MAX as i64], task_usage)?;
    let found = found.collect::<Result<Vec<TaskUsage>, _>>()?;
    let mut times = RunTimes::default();
    for task in found.iter().rev() {
        for it in &task.measurements {
            times.record(&task.path, it.elapsed, it.end);
        }
    }
    Ok(times)
}

fn task_usage(row: &Row<'_>) -> Result<TaskUsage, Error> {
    let measurements = decode(row.text(6)?);
    Ok(TaskUsage {
        path: TaskPath {
            owner: row.text(0)?.into(),
            workflow: row.text(1)?.into(),
            task: row.text(2)?.into(),
        },
        attempts: unsigned(row, 3)?,
        changed: Wall(unsigned(row, 4)?),
        requested: rows::json(row, 5)?.unwrap_or_default(),
        measurements: measurements
            .ok_or_else(|| corrupt_column(6, "it is no list of measurements"))?,
    })
}
