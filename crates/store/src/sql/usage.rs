//! Rows of usage.

use baton_model::time::{Millis, Wall};

use super::db::{Db, Error, Row, params};
use super::rows::unsigned;
use crate::change_set::UsageDeltas;
use crate::usage::{COUNT_MAX, Hour, Usage, UsageCursor, UsageQuery, UsageTotals};
use crate::view::{Page, page_limit};

/// A statement of most groups, which PostgreSQL's writer plans in advance.
pub(super) const ADD: &str = "INSERT INTO usage (hour, owner, done, failed, halted, attempts, \
    cpu_claimed, memory_claimed, cpu_used_ms, waited_ms) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) \
    ON CONFLICT (hour, owner) DO UPDATE SET done = min(usage.done + ?3, ?11), \
    failed = min(usage.failed + ?4, ?11), halted = min(usage.halted + ?5, ?11), \
    attempts = min(usage.attempts + ?6, ?11), cpu_claimed = min(usage.cpu_claimed + ?7, ?11), \
    memory_claimed = min(usage.memory_claimed + ?8, ?11), \
    cpu_used_ms = min(usage.cpu_used_ms + ?9, ?11), waited_ms = min(usage.waited_ms + ?10, ?11)";

/// Adds the usage of a change set: one row for each owner and hour.
pub(super) fn write(db: &Db<'_>, usage: &UsageDeltas) -> Result<(), Error> {
    let mut add = db.prepare_cached(ADD)?;
    // Half of the bound, so that the sum of a row and this fits its column.
    let bounded = |number: u64| number.min(COUNT_MAX / 2).cast_signed();
    for ((hour, owner), used) in usage {
        add.write(params![
            hour.0.cast_signed(),
            &**owner,
            bounded(used.done),
            bounded(used.failed),
            bounded(used.halted),
            bounded(used.attempts),
            bounded(used.cpu_claimed.0),
            bounded(used.memory_claimed),
            bounded(used.cpu_used.0),
            bounded(used.waited.0),
            COUNT_MAX.cast_signed(),
        ])?;
    }
    Ok(())
}

/// Removes rows that are too old.
pub(super) fn prune(db: &Db<'_>, now: Wall) -> Result<(), Error> {
    db.prepare_cached("DELETE FROM usage WHERE hour < ?1")?
        .write([signed(Hour::first_kept(now).0)])?;
    Ok(())
}

/// Reads one page.
pub(super) fn page(db: &Db<'_>, query: &UsageQuery) -> Result<Page<Usage, UsageCursor>, Error> {
    let limit = page_limit(query.limit);
    let (hour, owner) = match &query.after {
        Some((hour, owner)) => (hour.0, Some(owner.as_str())),
        None => (0, None),
    };
    let mut statement = db.prepare_cached(
        "SELECT hour, owner, done, failed, halted, attempts, cpu_claimed, memory_claimed, \
         cpu_used_ms, waited_ms FROM usage WHERE hour BETWEEN max(?1, ?3) AND ?2 \
         AND (?4 IS NULL OR hour > ?3 OR owner > ?4) AND (?5 IS NULL OR owner = ?5) \
         ORDER BY hour, owner LIMIT ?6",
    )?;
    let found = statement.query_map(
        params![
            signed(query.from.0),
            signed(query.to.0),
            signed(hour),
            owner,
            query.owner,
            limit as i64 + 1
        ],
        usage,
    )?;
    let items = found.collect::<Result<Vec<Usage>, _>>()?;
    Ok(Page::from_lookahead(items, limit, |it| {
        (it.hour, it.owner.clone())
    }))
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn usage(row: &Row<'_>) -> Result<Usage, Error> {
    Ok(Usage {
        hour: Hour(unsigned(row, 0)?),
        owner: row.get(1)?,
        used: UsageTotals {
            done: unsigned(row, 2)?,
            failed: unsigned(row, 3)?,
            halted: unsigned(row, 4)?,
            attempts: unsigned(row, 5)?,
            cpu_claimed: Millis(unsigned(row, 6)?),
            memory_claimed: unsigned(row, 7)?,
            cpu_used: Millis(unsigned(row, 8)?),
            waited: Millis(unsigned(row, 9)?),
        },
    })
}
