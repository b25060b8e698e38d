//! Rows of fleets and of their jobs.

use baton_model::fleet::{Fleet, FleetJob, FleetName};
use baton_model::ids::JobId;
use baton_model::limits::FLEET_JOBS_ENDED_MAX;
use baton_model::time::Wall;
use serde::de::DeserializeOwned;

use super::db::{Db, Error, Row, corrupt_column, params};
use super::rows::{self, to_json, unsigned};
use crate::change_set::{ChangeSet, StoredFleets};
use crate::view::{Page, page_limit};

/// Writes the part of a change set that concerns fleets.
pub(super) fn write(db: &Db<'_>, change_set: &ChangeSet) -> Result<(), Error> {
    for (name, fleet) in change_set.fleets() {
        match fleet {
            Some(fleet) => db
                .prepare_cached(
                    "INSERT INTO fleet (name, body) VALUES (?1, ?2) \
                     ON CONFLICT (name) DO UPDATE SET body = excluded.body",
                )?
                .write_in_order(params![name.as_str(), to_json(fleet)?])?,
            None => {
                db.prepare_cached("DELETE FROM fleet WHERE name = ?1")?
                    .write_in_order([name.as_str()])?;
                // In this order: a token that was issued in between is there when the row is gone.
                db.prepare_cached(
                    "UPDATE token SET revoked = TRUE WHERE fleet = ?1 AND NOT revoked",
                )?
                .write_in_order([name.as_str()])?
            }
        };
    }
    let mut has_ended = false;
    for job in change_set.fleet_jobs() {
        has_ended |= job.end.is_some();
        db.prepare_cached(
            "INSERT INTO fleet_job (id, fleet, open, body) VALUES (?1, ?2, ?3, ?4) \
             ON CONFLICT (id) DO UPDATE SET open = ?3, body = ?4",
        )?
        .write_in_order(params![
            job.id.0.cast_signed(),
            job.fleet.as_str(),
            job.end.is_none(),
            to_json(job)?,
        ])?;
    }
    if has_ended {
        db.prepare_cached(
            "DELETE FROM fleet_job WHERE NOT open AND id <= (SELECT max(id) FROM fleet_job) - ?1",
        )?
        .write_in_order([FLEET_JOBS_ENDED_MAX.cast_signed()])?;
    }
    Ok(())
}

/// All fleets, and their jobs that have not ended. The row of the last job is never removed.
pub(super) fn all(db: &Db<'_>) -> Result<StoredFleets, Error> {
    let mut fleets = db.prepare_cached("SELECT body FROM fleet")?;
    let fleets = fleets.query_map((), |row| parsed::<Fleet>(row, 0))?;
    let fleets = fleets.collect::<Result<Vec<_>, _>>()?;
    let mut jobs = db.prepare_cached("SELECT body FROM fleet_job WHERE open")?;
    let jobs = jobs.query_map((), |row| parsed::<FleetJob>(row, 0))?;
    let jobs = jobs.collect::<Result<Vec<_>, _>>()?;
    let last_job = db
        .prepare_cached("SELECT coalesce(max(id), 0) FROM fleet_job")?
        .query_row((), |row| Ok(JobId(unsigned(row, 0)?)))?;
    Ok(StoredFleets {
        fleets,
        jobs,
        last_job,
    })
}

/// One page of the jobs of a fleet, the latest first.
pub(super) fn jobs(
    db: &Db<'_>,
    fleet: &FleetName,
    before: Option<JobId>,
    limit: usize,
) -> Result<Page<FleetJob, JobId>, Error> {
    let limit = page_limit(limit);
    let before = before.map_or(i64::MAX, |id| i64::try_from(id.0).unwrap_or(i64::MAX));
    let mut statement = db.prepare_cached(
        "SELECT body FROM fleet_job WHERE fleet = ?1 AND id < ?2 ORDER BY id DESC LIMIT ?3",
    )?;
    let values = params![fleet.as_str(), before, limit as i64 + 1];
    let found = statement.query_map(values, |row| parsed::<FleetJob>(row, 0))?;
    let found = found.collect::<Result<Vec<_>, _>>()?;
    Ok(Page::from_lookahead(found, limit, |it: &FleetJob| it.id))
}

/// The jobs of all fleets that ran at some time since then, by id.
pub(super) fn jobs_since(db: &Db<'_>, since: Wall) -> Result<Vec<FleetJob>, Error> {
    // At most some thousand: of those that have ended few are kept.
    let mut statement = db.prepare_cached("SELECT body FROM fleet_job ORDER BY id")?;
    let found = statement.query_map((), |row| parsed::<FleetJob>(row, 0))?;
    let mut found = found.collect::<Result<Vec<_>, _>>()?;
    found.retain(|job| job.started_at.is_some() && job.ended_at.is_none_or(|at| at >= since));
    Ok(found)
}

fn parsed<T: DeserializeOwned>(row: &Row<'_>, at: usize) -> Result<T, Error> {
    let value = rows::json(row, at)?;
    value.ok_or_else(|| corrupt_column(at, "it is empty"))
}
