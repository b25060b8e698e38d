//! Rows of limits that were set at run time: cluster-wide ones, those of arrays, and the shares of owners.

use baton_model::conditions::ArrayLimit;
use baton_model::ids::InstanceId;
use baton_model::rate::LimitValue;

use super::db::{Db, Error, corrupt_column, params};
use super::rows::{to_json, unsigned};
use crate::change_set::ChangeSet;
use crate::view::sql_id;

/// Writes the part of a change set that concerns limits.
pub(super) fn write(db: &Db<'_>, change_set: &ChangeSet) -> Result<(), Error> {
    let mut set = db.prepare_cached(
        "INSERT INTO cluster_limit (name, total, rate) VALUES (?1, ?2, ?3) \
         ON CONFLICT (name) DO UPDATE SET total = excluded.total, rate = excluded.rate",
    )?;
    let mut unset = db.prepare_cached("DELETE FROM cluster_limit WHERE name = ?1")?;
    for (name, value) in change_set.limits() {
        match value {
            Some(LimitValue { total, rate }) => {
                let rate = rate.map(|it| to_json(&it)).transpose()?;
                set.write(params![name, total.cast_signed(), rate])?
            }
            None => unset.write([name])?,
        };
    }
    let mut set = db.prepare_cached(
        "INSERT INTO array_limit (first, last, total) VALUES (?1, ?2, ?3) \
         ON CONFLICT (first) DO UPDATE SET last = excluded.last, total = excluded.total",
    )?;
    for (first, ArrayLimit { last, total }) in change_set.array_limits() {
        let total = total.map(i64::from);
        set.write(params![sql_id(*first), sql_id(*last), total])?;
    }
    let mut set = db.prepare_cached(
        "INSERT INTO share (owner, weight) VALUES (?1, ?2) \
         ON CONFLICT (owner) DO UPDATE SET weight = excluded.weight",
    )?;
    let mut unset = db.prepare_cached("DELETE FROM share WHERE owner = ?1")?;
    for (owner, weight) in change_set.shares() {
        match weight {
            1 => unset.write([owner])?,
            weight => set.write(params![owner, i64::from(*weight)])?,
        };
    }
    Ok(())
}

/// All cluster-wide limits.
pub(super) fn all(db: &Db<'_>) -> Result<Vec<(String, LimitValue)>, Error> {
    db.prepare_cached("SELECT name, total, rate FROM cluster_limit")?
        .query_map((), |row| {
            let rate: Option<String> = row.get(2)?;
            let rate = rate.map(|text| serde_json::from_str(&text)).transpose();
            let value = LimitValue {
                total: unsigned(row, 1)?,
                rate: rate.map_err(|error| corrupt_column(2, error))?,
            };
            Ok((row.get(0)?, value))
        })?
        .collect()
}

/// Concurrency limits of arrays that were changed.
pub(super) fn arrays(db: &Db<'_>) -> Result<Vec<(InstanceId, ArrayLimit)>, Error> {
    db.prepare_cached("SELECT first, last, total FROM array_limit")?
        .query_map((), |row| {
            let total: Option<i64> = row.get(2)?;
            let total = total.map(u32::try_from).transpose();
            let limit = ArrayLimit {
                last: InstanceId(unsigned(row, 1)?),
                total: total.map_err(|error| corrupt_column(2, error))?,
            };
            Ok((InstanceId(unsigned(row, 0)?), limit))
        })?
        .collect()
}

/// The weights of owners, other than 1.
pub(super) fn shares(db: &Db<'_>) -> Result<Vec<(String, u32)>, Error> {
    db.prepare_cached("SELECT owner, weight FROM share")?
        .query_map((), |row| {
            let weight: i64 = row.get(1)?;
            let weight = u32::try_from(weight).map_err(|error| corrupt_column(1, error))?;
            Ok((row.get(0)?, weight))
        })?
        .collect()
}

/// Removes the changed limits of arrays of which no instance is left.
pub(super) fn prune(db: &Db<'_>) -> Result<(), Error> {
    db.prepare_cached(
        "DELETE FROM array_limit WHERE NOT EXISTS (SELECT 1 FROM instance \
         WHERE instance.id BETWEEN array_limit.first AND array_limit.last) \
         AND NOT EXISTS (SELECT 1 FROM span \
         WHERE span.last >= array_limit.first AND span.first <= array_limit.last)",
    )?
    .write(())?;
    Ok(())
}
