//! Removing what is not to be kept, a little at a time.
//!
//! One step is one transaction of the writer, some milliseconds long; commits that
//! have queued up meanwhile go before the next step.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::ids::InstanceId;
use baton_model::time::Wall;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::read::counts;
use super::rows::bits;
use super::specs::SpecId;
use super::usage;
use crate::draft::{Ids, halves};
use crate::limits::{
    FREE_PAGES_KEPT_ONE_IN, PRUNE_STEP_FACTS, PRUNE_STEP_ITEMS, VACUUM_STEP_PAGES,
};
use crate::retention::{Candidate, Held};
use crate::view::{Seq, View, key};
use crate::{PruneReport, Retention};

/// Removes at most `limit` records with their timelines, facts about ranges of which
/// nothing is left, and facts of no instance.
pub(super) fn step(
    db: &Connection,
    now: Wall,
    retention: &Retention,
    limit: usize,
) -> Result<PruneReport, rusqlite::Error> {
    let counts = counts(db)?;
    let held = Held {
        terminal: counts.terminal(),
        bytes: counts.history_bytes,
    };
    let found = candidates(db, limit)?;
    let specs: BTreeMap<InstanceId, SpecId> =
        found.iter().map(|(spec, it)| (it.first, *spec)).collect();
    let found: Vec<Candidate> = found.into_iter().map(|(_, it)| it).collect();
    let doomed = retention.doomed(now, held, &found);
    let mut pruned = PruneReport::default();
    let mut uses: BTreeMap<SpecId, u64> = BTreeMap::new();
    for candidate in &doomed {
        remove(db, candidate, &mut pruned)?;
        *uses.entry(specs[&candidate.first]).or_default() += candidate.len();
    }
    release_ranges(db, &doomed, &mut pruned)?;
    release_specs(db, &uses)?;
    let horizon = doomed.iter().map(|it| it.ended).max();
    let large = doomed.is_empty() && retention.is_large(held.bytes);
    others(db, &mut pruned, |seq, at, bytes_gone| {
        horizon.is_some_and(|horizon| seq < horizon)
            || retention.is_old(now, at)
            || (large && retention.is_large(held.bytes.saturating_sub(bytes_gone)))
    })?;
    usage::prune(db, now)?;
    if pruned.records < limit as u64 {
        run(db, now, retention, &mut pruned)?;
    }
    db.prepare_cached(
        "UPDATE totals SET history_bytes = history_bytes - ?1, \
         pruned_seq = max(pruned_seq, ?2)",
    )?
    .execute([pruned.bytes.cast_signed(), pruned.last.0.cast_signed()])?;
    Ok(pruned)
}

/// The oldest ends, what their timelines weigh, and their specs.
fn candidates(db: &Connection, limit: usize) -> Result<Vec<(SpecId, Candidate)>, rusqlite::Error> {
    // Of a range nobody has a timeline of their own, unless it is a range of one.
    let mut instances = db.prepare_cached(
        "SELECT id, id, submitted_seq, changed_seq, changed_at_ms, spec, \
         (SELECT sum(octet_length(h.body) + coalesce((SELECT octet_length(s.body) FROM spec AS s \
         WHERE s.id = h.spec), 0)) FROM history AS h WHERE h.instance = i.id) \
         FROM instance AS i WHERE state = ?1 ORDER BY rank DESC, id DESC LIMIT ?2",
    )?;
    let mut spans = db.prepare_cached(
        "SELECT first, last, submitted_seq, changed_seq, changed_at_ms, spec, \
         (SELECT sum(octet_length(h.body) + coalesce((SELECT octet_length(s.body) FROM spec AS s \
         WHERE s.id = h.spec), 0)) FROM history AS h WHERE h.instance = i.last \
         AND i.first = i.last) \
         FROM span AS i WHERE state = ?1 ORDER BY rank DESC, last DESC LIMIT ?2",
    )?;
    let mut found = Vec::new();
    for state in View::History.states() {
        for statement in [&mut instances, &mut spans] {
            let rows = statement.query_map(params![state.word(), limit as i64], |row| {
                let candidate = Candidate {
                    first: InstanceId(bits(row, 0)?),
                    last: InstanceId(bits(row, 1)?),
                    state: *state,
                    submitted: Seq(bits(row, 2)?),
                    ended: Seq(bits(row, 3)?),
                    at: Wall(bits(row, 4)?),
                    bytes: row.get::<_, Option<i64>>(6)?.unwrap_or(0).cast_unsigned(),
                };
                Ok((row.get(5)?, candidate))
            })?;
            for row in rows {
                found.push(row?);
            }
        }
    }
    found.sort_unstable_by_key(|(_, candidate)| (candidate.ended, candidate.first));
    found.truncate(limit);
    Ok(found)
}

/// Removes an instance, or the first ones of a range.
fn remove(
    db: &Connection,
    doomed: &Candidate,
    pruned: &mut PruneReport,
) -> Result<(), rusqlite::Error> {
    let (first, last) = (key(doomed.first), key(doomed.last));
    if first == last {
        let gone = db
            .prepare_cached("DELETE FROM history WHERE instance = ?1")?
            .execute([last])?;
        if gone > 0 {
            pruned.facts += gone as u64;
            pruned.bytes += doomed.bytes;
            // The last thing that happened to it, so none of them came later.
            pruned.last = pruned.last.max(doomed.ended);
        }
        db.prepare_cached("DELETE FROM instance WHERE id = ?1")?
            .execute([last])?;
    }
    db.prepare_cached("DELETE FROM span WHERE last = ?1")?
        .execute([last])?;
    db.prepare_cached(
        "UPDATE span SET first = ?2 + 1 WHERE first = ?1 \
         AND last = (SELECT last FROM span WHERE last > ?2 ORDER BY last LIMIT 1)",
    )?
    .execute([first, last])?;
    db.prepare_cached("UPDATE tally SET instances = instances - ?2 WHERE state = ?1")?
        .execute(params![doomed.state.word(), doomed.len().cast_signed()])?;
    pruned.instances += doomed.len();
    pruned.records += 1;
    Ok(())
}

/// Removes the facts about ranges that have just lost the last of their instances.
fn release_ranges(
    db: &Connection,
    doomed: &[Candidate],
    pruned: &mut PruneReport,
) -> Result<(), rusqlite::Error> {
    let submitted: BTreeSet<Seq> = doomed.iter().map(|it| it.submitted).collect();
    let Some(oldest) = submitted.first() else {
        return Ok(());
    };
    let mut ranges = Vec::new();
    let mut one = db
        .prepare_cached("SELECT seq, first, last FROM wide WHERE seq = ?1 AND first IS NOT NULL")?;
    for seq in &submitted {
        ranges.extend(one.query_row([seq.0.cast_signed()], range).optional()?);
    }
    let mut later = db.prepare_cached(
        "SELECT seq, first, last FROM wide WHERE first IS NOT NULL AND spec IS NULL AND seq > ?1",
    )?;
    for range in later.query_map([oldest.0.cast_signed()], range)? {
        let (seq, (first, last)) = range?;
        if doomed.iter().any(|it| first <= it.last && it.first <= last) {
            ranges.push((seq, (first, last)));
        }
    }
    let mut weigh = db.prepare_cached(
        "SELECT octet_length(w.body) + coalesce(octet_length(s.body), 0) FROM wide AS w \
         LEFT JOIN spec AS s ON s.id = w.spec WHERE seq = ?1",
    )?;
    let mut forget = db.prepare_cached("DELETE FROM wide WHERE seq = ?1")?;
    for (seq, range) in ranges {
        if !is_empty(db, range)? {
            continue;
        }
        let bytes = weigh.query_row([seq], |row| bits(row, 0))?;
        forget.execute([seq])?;
        pruned.fact(Seq(seq.cast_unsigned()), bytes);
    }
    Ok(())
}

fn range(row: &Row<'_>) -> Result<(i64, Ids), rusqlite::Error> {
    let ids = (InstanceId(bits(row, 1)?), InstanceId(bits(row, 2)?));
    Ok((row.get(0)?, ids))
}

/// True if no instance of a range is kept any more.
fn is_empty(db: &Connection, (first, last): Ids) -> Result<bool, rusqlite::Error> {
    let mut any = db.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM instance WHERE id BETWEEN ?1 AND ?2) OR coalesce( \
         (SELECT first FROM span WHERE last >= ?1 ORDER BY last LIMIT 1) <= ?2, 0)",
    )?;
    for (first, last) in halves(first, last) {
        if any.query_row([key(first), key(last)], |row| row.get(0))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes specs that nobody has any more.
fn release_specs(db: &Connection, uses: &BTreeMap<SpecId, u64>) -> Result<(), rusqlite::Error> {
    let mut release = db.prepare_cached("UPDATE spec SET uses = uses - ?2 WHERE id = ?1")?;
    let mut remove = db.prepare_cached("DELETE FROM spec WHERE id = ?1 AND uses <= ?2")?;
    for (spec, uses) in uses {
        let uses = i64::try_from(*uses).unwrap_or(i64::MAX);
        if remove.execute([*spec, uses])? == 0 {
            release.execute([*spec, uses])?;
        }
    }
    Ok(())
}

/// Removes the oldest facts of no instance, as long as `goes` says so.
fn others(
    db: &Connection,
    pruned: &mut PruneReport,
    goes: impl Fn(Seq, Wall, u64) -> bool,
) -> Result<(), rusqlite::Error> {
    let mut oldest = db.prepare_cached(
        "SELECT seq, at_ms, octet_length(body) FROM wide WHERE first IS NULL \
         ORDER BY seq LIMIT ?1",
    )?;
    let rows = oldest.query_map([PRUNE_STEP_FACTS as i64], |row| {
        Ok((Seq(bits(row, 0)?), Wall(bits(row, 1)?), bits(row, 2)?))
    })?;
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    let mut remove = db.prepare_cached("DELETE FROM wide WHERE seq = ?1")?;
    for (seq, at, bytes) in rows {
        if !goes(seq, at, pruned.bytes) {
            break;
        }
        remove.execute([seq.0.cast_signed()])?;
        pruned.fact(seq, bytes);
    }
    Ok(())
}

/// Removes the run that ended first, if that is too long ago, or more of one that is gone.
fn run(
    db: &Connection,
    now: Wall,
    retention: &Retention,
    pruned: &mut PruneReport,
) -> Result<(), rusqlite::Error> {
    let leftover = db
        .prepare_cached("SELECT run FROM leftover LIMIT 1")?
        .query_row([], |row| row.get::<_, i64>(0))
        .optional()?;
    let run = match leftover {
        Some(run) => run,
        None => match oldest_run(db)?.filter(|(_, at)| retention.is_old(now, *at)) {
            Some((run, _)) => run,
            None => return Ok(()),
        },
    };
    if leftover.is_none() {
        for sql in [
            "DELETE FROM run WHERE id = ?1",
            "DELETE FROM plan WHERE run = ?1",
            "INSERT INTO leftover (run) VALUES (?1)",
        ] {
            db.prepare_cached(sql)?.execute([run])?;
        }
    }
    let items = db
        .prepare_cached(
            "DELETE FROM item WHERE (run, plan, task, item) IN \
             (SELECT run, plan, task, item FROM item WHERE run = ?1 LIMIT ?2)",
        )?
        .execute(params![run, PRUNE_STEP_ITEMS as i64])?;
    if items < PRUNE_STEP_ITEMS {
        db.prepare_cached("DELETE FROM leftover WHERE run = ?1")?
            .execute([run])?;
    }
    pruned.records += 1;
    Ok(())
}

/// The run that ended first, and when.
fn oldest_run(db: &Connection) -> Result<Option<(i64, Wall)>, rusqlite::Error> {
    db.prepare_cached(
        "SELECT id, changed_ms FROM run INDEXED BY run_by_end \
         WHERE state IN ('DONE', 'FAILED', 'HALTED', 'ABORTED') ORDER BY changed_ms LIMIT 1",
    )?
    .query_row([], |row| Ok((row.get(0)?, Wall(bits(row, 1)?))))
    .optional()
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
