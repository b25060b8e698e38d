//! Removing expired history, step by step.
//!
//! One step is one transaction of the writer, some milliseconds long; commits that were queued
//! meanwhile run before the next step.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::ids::InstanceId;
use baton_model::time::Wall;

use super::db::{Db, Error, OptionalRow as _, Row, params};
use super::measurements;
use super::read::counts;
use super::rows::unsigned;
use super::{limits, usage};
use crate::change_set::{Ids, SpecId, split_by_sign};
use crate::limits::{PRUNE_STEP_FACTS, PRUNE_STEP_ITEMS};
use crate::postgres::session::Query;
use crate::retention::{Candidate, HistorySize};
use crate::view::{Seq, View, sql_id};
use crate::{PruneReport, Retention};

/// Removes at most `limit` records with their timelines, facts about ranges of which no instance is
/// left, and facts about no instance.
pub(super) fn step(
    db: &Db<'_>,
    now: Wall,
    retention: &Retention,
    limit: usize,
) -> Result<PruneReport, Error> {
    let counts = counts(db)?;
    let size = HistorySize {
        terminal: counts.terminal(),
        bytes: counts.history_bytes,
    };
    let found = candidates(db, limit)?;
    let sources: BTreeMap<InstanceId, Source> =
        found.iter().map(|(it, of)| (it.first, *of)).collect();
    let found: Vec<Candidate> = found.into_iter().map(|(it, _)| it).collect();
    let expired = retention.expired(now, size, &found);
    let mut pruned = PruneReport::default();
    let mut uses: BTreeMap<SpecId, u64> = BTreeMap::new();
    for candidate in &expired {
        *uses.entry(sources[&candidate.first].spec).or_default() += candidate.len();
    }
    let of_ranges = expired.iter().filter(|it| sources[&it.first].is_range);
    remove(db, &expired, of_ranges, &mut pruned)?;
    release_ranges(db, &expired, &mut pruned)?;
    release_specs(db, &uses)?;
    let horizon = expired.iter().map(|it| it.ended).max();
    let large = expired.is_empty() && retention.is_large(size.bytes);
    others(db, &mut pruned, |seq, at, bytes_gone| {
        horizon.is_some_and(|horizon| seq < horizon)
            || retention.is_old(now, at)
            || (large && retention.is_large(size.bytes.saturating_sub(bytes_gone)))
    })?;
    usage::prune(db, now)?;
    measurements::prune(db, now)?;
    if pruned.records < limit as u64 {
        run(db, now, retention, &mut pruned)?;
    }
    db.prepare_cached(
        "UPDATE totals SET history_bytes = history_bytes - ?1, \
         pruned_seq = max(pruned_seq, ?2)",
    )?
    .write([pruned.bytes.cast_signed(), pruned.last.0.cast_signed()])?;
    Ok(pruned)
}

/// Where a candidate was found.
#[derive(Clone, Copy)]
struct Source {
    spec: SpecId,
    is_range: bool,
}

/// The oldest ended records, with their specs and the bytes of their timelines.
fn candidates(db: &Db<'_>, limit: usize) -> Result<Vec<(Candidate, Source)>, Error> {
    // Instances of a range have no timeline of their own, except in a range of one.
    let mut instances = db.prepare_cached(
        "SELECT id, id, submitted_seq, changed_seq, changed_at_ms, spec, \
         (SELECT CAST(sum(octet_length(h.body) + coalesce(octet_length(h.requested_by), 0) + coalesce((SELECT octet_length(s.body) FROM spec AS s \
         WHERE s.id = h.spec), 0)) AS BIGINT) FROM history AS h WHERE h.instance = i.id) \
         FROM instance AS i WHERE state = ?1 ORDER BY rank DESC, id DESC LIMIT ?2",
    )?;
    let mut spans = db.prepare_cached(
        "SELECT first, last, submitted_seq, changed_seq, changed_at_ms, spec, \
         (SELECT CAST(sum(octet_length(h.body) + coalesce(octet_length(h.requested_by), 0) + coalesce((SELECT octet_length(s.body) FROM spec AS s \
         WHERE s.id = h.spec), 0)) AS BIGINT) FROM history AS h WHERE h.instance = i.last \
         AND i.first = i.last) \
         FROM span AS i WHERE state = ?1 ORDER BY rank DESC, last DESC LIMIT ?2",
    )?;
    let mut found = Vec::new();
    for state in View::History.states() {
        for (statement, is_range) in [(&mut instances, false), (&mut spans, true)] {
            let rows = statement.query_map(params![state.word(), limit as i64], |row| {
                let candidate = Candidate {
                    first: InstanceId(unsigned(row, 0)?),
                    last: InstanceId(unsigned(row, 1)?),
                    state: *state,
                    submitted: Seq(unsigned(row, 2)?),
                    ended: Seq(unsigned(row, 3)?),
                    at: Wall(unsigned(row, 4)?),
                    bytes: row.get::<Option<i64>>(6)?.unwrap_or(0).cast_unsigned(),
                };
                let spec = row.get(5)?;
                Ok((candidate, Source { spec, is_range }))
            })?;
            for row in rows {
                found.push(row?);
            }
        }
    }
    found.sort_unstable_by_key(|(candidate, _)| (candidate.ended, candidate.first));
    found.truncate(limit);
    Ok(found)
}

/// Removes instances with their timelines, and those that are the first ones of a range.
fn remove<'e>(
    db: &Db<'_>,
    expired: &[Candidate],
    of_ranges: impl Iterator<Item = &'e Candidate>,
    pruned: &mut PruneReport,
) -> Result<(), Error> {
    let single = expired.iter().filter(|it| it.first == it.last);
    let single: Vec<[i64; 1]> = single.map(|it| [sql_id(it.last)]).collect();
    pruned.facts += db
        .prepare_cached("DELETE FROM history WHERE instance = ?1")?
        .execute_each(single.iter().copied())? as u64;
    let mut forget = db.prepare_cached("DELETE FROM instance WHERE id = ?1")?;
    for id in single {
        forget.write(id)?;
    }
    let mut remove = db.prepare_cached("DELETE FROM span WHERE last = ?1")?;
    let mut shrink = db.prepare_cached(
        "UPDATE span SET first = ?2 + 1 WHERE first = ?1 \
         AND last = (SELECT last FROM span WHERE last > ?2 ORDER BY last LIMIT 1)",
    )?;
    for it in of_ranges {
        let (first, last) = (sql_id(it.first), sql_id(it.last));
        remove.write_in_order([last])?;
        shrink.write_in_order([first, last])?;
    }
    let mut tally: BTreeMap<&str, u64> = BTreeMap::new();
    for it in expired {
        *tally.entry(it.state.word()).or_default() += it.len();
        pruned.instances += it.len();
        pruned.records += 1;
        // A fact has at least one byte.
        if it.first == it.last && it.bytes > 0 {
            pruned.bytes += it.bytes;
            // Its last fact: none of the removed ones is later.
            pruned.last = pruned.last.max(it.ended);
        }
    }
    let mut count =
        db.prepare_cached("UPDATE tally SET instances = instances - ?2 WHERE state = ?1")?;
    for (state, instances) in tally {
        count.write(params![state, instances.cast_signed()])?;
    }
    limits::prune(db)?;
    Ok(())
}

/// Removes the facts about ranges that have just lost their last instance.
fn release_ranges(
    db: &Db<'_>,
    expired: &[Candidate],
    pruned: &mut PruneReport,
) -> Result<(), Error> {
    let submitted: BTreeSet<Seq> = expired.iter().map(|it| it.submitted).collect();
    let Some(oldest) = submitted.first() else {
        return Ok(());
    };
    let mut ranges = submitted_ranges(db, &submitted)?;
    let mut later = db.prepare_cached(
        "SELECT seq, first, last FROM wide WHERE first IS NOT NULL AND spec IS NULL AND seq > ?1",
    )?;
    for range in later.query_map([oldest.0.cast_signed()], range)? {
        let (seq, (first, last)) = range?;
        if expired
            .iter()
            .any(|it| first <= it.last && it.first <= last)
        {
            ranges.push((seq, (first, last)));
        }
    }
    let mut weigh = db.prepare_cached(
        "SELECT octet_length(w.body) + coalesce(octet_length(w.requested_by), 0) + coalesce(octet_length(s.body), 0) FROM wide AS w \
         LEFT JOIN spec AS s ON s.id = w.spec WHERE seq = ?1",
    )?;
    let mut forget = db.prepare_cached("DELETE FROM wide WHERE seq = ?1")?;
    for (seq, range) in ranges {
        if !is_empty(db, range)? {
            continue;
        }
        let bytes = weigh.query_row([seq], |row| unsigned(row, 0))?;
        forget.execute([seq])?;
        pruned.count_fact(Seq(seq.cast_unsigned()), bytes);
    }
    Ok(())
}

/// The ranges that these facts have submitted; a fact about one instance is not among them.
fn submitted_ranges(db: &Db<'_>, facts: &BTreeSet<Seq>) -> Result<Vec<(i64, Ids)>, Error> {
    let facts: Vec<i64> = facts.iter().map(|seq| seq.0.cast_signed()).collect();
    let mut ranges = Vec::new();
    match db {
        Db::Sqlite(_) => {
            let sql = "SELECT seq, first, last FROM wide WHERE seq = ?1 AND first IS NOT NULL";
            let mut one = db.prepare_cached(sql)?;
            for seq in facts {
                ranges.extend(one.query_row([seq], range).optional()?);
            }
        }
        Db::Postgres(session) => {
            let sql = "SELECT seq, first, last FROM wide WHERE seq = ANY(?1) AND first IS NOT NULL";
            for mut rows in session.query_together(&[Query::OfIds(sql, &facts)])? {
                while let Some(row) = rows.next()? {
                    ranges.push(range(&Row::Postgres(row))?);
                }
            }
        }
    }
    Ok(ranges)
}

fn range(row: &Row<'_>) -> Result<(i64, Ids), Error> {
    let ids = (InstanceId(unsigned(row, 1)?), InstanceId(unsigned(row, 2)?));
    Ok((row.get(0)?, ids))
}

/// True if no instance of a range is left.
fn is_empty(db: &Db<'_>, (first, last): Ids) -> Result<bool, Error> {
    let mut any = db.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM instance WHERE id BETWEEN ?1 AND ?2) OR coalesce( \
         (SELECT first FROM span WHERE last >= ?1 ORDER BY last LIMIT 1) <= ?2, FALSE)",
    )?;
    for (first, last) in split_by_sign(first, last) {
        if any.query_row([sql_id(first), sql_id(last)], |row| row.get(0))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Removes specs that no instance uses any more.
fn release_specs(db: &Db<'_>, uses: &BTreeMap<SpecId, u64>) -> Result<(), Error> {
    let mut release = db.prepare_cached("UPDATE spec SET uses = uses - ?2 WHERE id = ?1")?;
    let mut remove = db.prepare_cached("DELETE FROM spec WHERE id = ?1 AND uses <= ?2")?;
    let uses = uses.iter();
    let uses = uses.map(|(spec, uses)| [*spec, i64::try_from(*uses).unwrap_or(i64::MAX)]);
    let uses: Vec<[i64; 2]> = uses.collect();
    if remove.execute_each(uses.iter().copied())? < uses.len() {
        for uses in uses {
            release.write(uses)?;
        }
    }
    Ok(())
}

/// Removes the oldest facts about no instance, as long as `is_expired` holds.
fn others(
    db: &Db<'_>,
    pruned: &mut PruneReport,
    is_expired: impl Fn(Seq, Wall, u64) -> bool,
) -> Result<(), Error> {
    let mut oldest = db.prepare_cached(
        "SELECT seq, at_ms, octet_length(body) + coalesce(octet_length(requested_by), 0) FROM wide WHERE first IS NULL \
         ORDER BY seq LIMIT ?1",
    )?;
    let rows = oldest.query_map([PRUNE_STEP_FACTS as i64], |row| {
        Ok((
            Seq(unsigned(row, 0)?),
            Wall(unsigned(row, 1)?),
            unsigned(row, 2)?,
        ))
    })?;
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    let mut remove = db.prepare_cached("DELETE FROM wide WHERE seq = ?1")?;
    for (seq, at, bytes) in rows {
        if !is_expired(seq, at, pruned.bytes) {
            break;
        }
        remove.write([seq.0.cast_signed()])?;
        pruned.count_fact(seq, bytes);
    }
    Ok(())
}

/// Removes the run with the oldest end if it has expired, or more items of a run that was removed.
fn run(
    db: &Db<'_>,
    now: Wall,
    retention: &Retention,
    pruned: &mut PruneReport,
) -> Result<(), Error> {
    let leftover = db
        .prepare_cached("SELECT run FROM leftover LIMIT 1")?
        .query_row((), |row| row.get::<i64>(0))
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

/// The run with the oldest end, and when it ended.
fn oldest_run(db: &Db<'_>) -> Result<Option<(i64, Wall)>, Error> {
    db.prepare_cached(
        "SELECT id, changed_ms FROM run INDEXED BY run_by_end \
         WHERE state IN ('DONE', 'FAILED', 'HALTED', 'ABORTED') ORDER BY changed_ms LIMIT 1",
    )?
    .query_row((), |row| Ok((row.get(0)?, Wall(unsigned(row, 1)?))))
    .optional()
}
