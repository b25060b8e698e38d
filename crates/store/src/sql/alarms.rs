//! Rows of open alarms.

use baton_model::alarm::{Alarm, AlarmKind};

use super::db::{Db, Error, corrupt_column, params};
use super::rows::{self, to_json};
use crate::change_set::ChangeSet;
use crate::view::AlarmPage;

/// Writes the part of a change set that concerns alarms.
pub(super) fn write(db: &Db<'_>, change_set: &ChangeSet) -> Result<(), Error> {
    for (key, alarm) in change_set.alarms() {
        match alarm {
            Some(alarm) => db
                .prepare_cached(
                    "INSERT INTO alarm (name, kind, owner, at_ms, body) VALUES (?1, ?2, ?3, ?4, ?5) \
                     ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, \
                     at_ms = excluded.at_ms, body = excluded.body",
                )?
                .write(params![
                    key.to_string(),
                    alarm.kind.word(),
                    &*alarm.owner,
                    alarm.at.0.cast_signed(),
                    to_json(alarm)?,
                ])?,
            None => db
                .prepare_cached("DELETE FROM alarm WHERE name = ?1")?
                .write([key.to_string()])?,
        };
    }
    Ok(())
}

/// All open alarms.
pub(super) fn all(db: &Db<'_>) -> Result<Vec<Alarm>, Error> {
    db.prepare_cached("SELECT body FROM alarm ORDER BY at_ms, name")?
        .query_map((), parsed)?
        .collect()
}

/// The oldest of the open alarms of an owner, or of all, and their numbers by kind.
pub(super) fn page(db: &Db<'_>, owner: Option<&str>, limit: usize) -> Result<AlarmPage, Error> {
    let mut oldest = db.prepare_cached(
        "SELECT body FROM alarm WHERE (?1 = '' OR owner = ?1) ORDER BY at_ms, name LIMIT ?2",
    )?;
    let owner = owner.unwrap_or_default();
    let alarms = oldest.query_map(params![owner, limit as i64], parsed)?;
    let mut counted = db.prepare_cached(
        "SELECT kind, count(*) FROM alarm WHERE (?1 = '' OR owner = ?1) GROUP BY kind",
    )?;
    let counts = counted.query_map([owner], |row| {
        let kind = row.text(0)?.parse::<AlarmKind>();
        let kind = kind.map_err(|_| corrupt_column(0, "it is no kind of alarm"))?;
        Ok((kind, rows::unsigned(row, 1)?))
    })?;
    Ok(AlarmPage {
        alarms: alarms.collect::<Result<_, _>>()?,
        counts: counts.collect::<Result<_, _>>()?,
    })
}

fn parsed(row: &super::db::Row<'_>) -> Result<Alarm, Error> {
    rows::json(row, 0)?.ok_or_else(|| corrupt_column(0, "it is empty"))
}
