//! Removing what is not to be kept, a little at a time.
//!
//! One step is one transaction of the writer, some milliseconds long; commits that
//! have queued up meanwhile go before the next step.

use std::collections::BTreeMap;

use baton_model::ids::InstanceId;
use baton_model::state::UniversalState;
use baton_model::time::Wall;
use rusqlite::{Connection, params};

use super::read::counts;
use super::rows::bits;
use crate::limits::{FREE_PAGES_KEPT_ONE_IN, PRUNE_STEP_FACTS, VACUUM_STEP_PAGES};
use crate::retention::{Candidate, Held};
use crate::view::{Seq, View, key};
use crate::{Pruned, Retention};

/// Removes at most `limit` instances with their timelines, and facts of no instance.
pub(super) fn step(
    db: &Connection,
    now: Wall,
    retention: &Retention,
    limit: usize,
) -> Result<Pruned, rusqlite::Error> {
    let counts = counts(db)?;
    let held = Held {
        terminal: counts.terminal(),
        bytes: counts.history_bytes,
    };
    let found = candidates(db, limit)?;
    let states: BTreeMap<InstanceId, UniversalState> =
        found.iter().map(|(state, it)| (it.id, *state)).collect();
    let found: Vec<Candidate> = found.into_iter().map(|(_, it)| it).collect();
    let doomed = retention.doomed(now, held, &found);
    let mut pruned = Pruned::default();
    let mut forget = db.prepare_cached("DELETE FROM history WHERE instance = ?1")?;
    let mut remove = db.prepare_cached("DELETE FROM instance WHERE id = ?1")?;
    let mut count =
        db.prepare_cached("UPDATE tally SET instances = instances - 1 WHERE state = ?1")?;
    for candidate in &doomed {
        pruned.facts += forget.execute([key(candidate.id)])? as u64;
        pruned.bytes += candidate.bytes;
        remove.execute([key(candidate.id)])?;
        count.execute([states[&candidate.id].word()])?;
        pruned.instances.push(candidate.id);
    }
    let horizon = doomed.iter().map(|it| it.ended).max();
    let large = doomed.is_empty() && retention.is_large(held.bytes);
    others(db, &mut pruned, |seq, at, bytes_gone| {
        horizon.is_some_and(|horizon| seq < horizon)
            || retention.is_old(now, at)
            || (large && retention.is_large(held.bytes.saturating_sub(bytes_gone)))
    })?;
    db.prepare_cached("UPDATE totals SET history_bytes = history_bytes - ?1")?
        .execute([pruned.bytes.cast_signed()])?;
    Ok(pruned)
}

/// The oldest ends, and what their timelines weigh.
fn candidates(
    db: &Connection,
    limit: usize,
) -> Result<Vec<(UniversalState, Candidate)>, rusqlite::Error> {
    let mut ends = db.prepare_cached(
        "SELECT id, changed_seq, changed_at_ms, \
         (SELECT coalesce(sum(octet_length(body)), 0) FROM history WHERE instance = id) \
         FROM instance WHERE state = ?1 ORDER BY position DESC LIMIT ?2",
    )?;
    let mut found = Vec::new();
    for state in View::History.states() {
        let rows = ends.query_map(params![state.word(), limit as i64], |row| {
            let candidate = Candidate {
                id: InstanceId(bits(row, 0)?),
                ended: Seq(bits(row, 1)?),
                at: Wall(bits(row, 2)?),
                bytes: bits(row, 3)?,
            };
            Ok((*state, candidate))
        })?;
        for row in rows {
            found.push(row?);
        }
    }
    found.sort_unstable_by_key(|(_, candidate)| candidate.ended);
    found.truncate(limit);
    Ok(found)
}

/// Removes the oldest facts of no instance, as long as `goes` says so.
fn others(
    db: &Connection,
    pruned: &mut Pruned,
    goes: impl Fn(Seq, Wall, u64) -> bool,
) -> Result<(), rusqlite::Error> {
    let mut oldest = db.prepare_cached(
        "SELECT seq, at_ms, octet_length(body) FROM history WHERE instance IS NULL \
         ORDER BY seq LIMIT ?1",
    )?;
    let rows = oldest.query_map([PRUNE_STEP_FACTS as i64], |row| {
        Ok((Seq(bits(row, 0)?), Wall(bits(row, 1)?), bits(row, 2)?))
    })?;
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    let mut remove = db.prepare_cached("DELETE FROM history WHERE seq = ?1")?;
    for (seq, at, bytes) in rows {
        if !goes(seq, at, pruned.bytes) {
            break;
        }
        remove.execute([seq.0.cast_signed()])?;
        pruned.facts += 1;
        pruned.bytes += bytes;
    }
    Ok(())
}

/// Returns some free pages to the file system; true if there are more to return.
pub(super) fn vacuum(db: &Connection) -> Result<bool, rusqlite::Error> {
    let number = |pragma: &str| db.pragma_query_value(None, pragma, |row| bits(row, 0));
    let kept = number("page_count")? / FREE_PAGES_KEPT_ONE_IN;
    let surplus = number("freelist_count")?.saturating_sub(kept);
    let pages = surplus.min(VACUUM_STEP_PAGES);
    if pages > 0 {
        let mut vacuum = db.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
        let mut rows = vacuum.query([])?;
        // Each step frees one page.
        while rows.next()?.is_some() {}
    }
    Ok(surplus > pages)
}
