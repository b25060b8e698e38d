//! The whole history in order.

use std::collections::HashMap;

use baton_model::ids::{InstanceId, RunId};
use baton_model::time::Wall;

use super::db::{Db, Error, OptionalRow as _, params};
use super::rows::{self, unsigned};
use super::runs;
use crate::change_set::{Ids, split_by_sign};
use crate::facts::{FactPage, FactQuery, FactScan, FactSubject};
use crate::limits::PAGE_SCAN_MAX;
use crate::view::{Seq, sql_id};

/// Facts about one instance.
const OWN: &str = "SELECT h.seq, h.at_ms, h.epoch, h.body, s.body, h.requested_by FROM history AS h \
    INDEXED BY history_by_seq LEFT JOIN spec AS s ON s.id = h.spec WHERE h.seq > ?1 \
    ORDER BY h.seq LIMIT ?2";

/// Facts about several instances, or none.
const WIDE: &str = "SELECT w.seq, w.at_ms, w.epoch, w.body, s.body, w.requested_by FROM wide AS w \
    LEFT JOIN spec AS s ON s.id = w.spec WHERE w.seq > ?1 ORDER BY w.seq LIMIT ?2";

/// Reads one page.
pub(super) fn page(db: &Db<'_>, query: &FactQuery) -> Result<FactPage, Error> {
    let (last, pruned) = db
        .prepare_cached("SELECT last_seq, pruned_seq FROM totals")?
        .query_row((), |row| {
            Ok((Seq(unsigned(row, 0)?), Seq(unsigned(row, 1)?)))
        })?;
    let mut scans = Vec::new();
    // Sequence numbers are stored signed, and none is that high.
    let after = i64::try_from(query.after.0).unwrap_or(i64::MAX);
    // A run has no facts before its plan.
    let after = match query.run {
        Some(run) => after.max(seq_before_run(db, run)?),
        None => after,
    };
    for sql in [OWN, WIDE] {
        let mut scan = FactScan::default();
        let mut statement = db.prepare_cached(sql)?;
        let mut found = statement.query([after, FactScan::ROWS_MAX as i64])?;
        while let Some(row) = found.next()? {
            let spec = row.text_or_null(4)?;
            let bytes = row.text(3)?.len() + spec.map_or(0, str::len);
            if !scan.push(rows::recorded_fact(&row)?, bytes) {
                break;
            }
        }
        scans.push(scan);
    }
    let mut facts = FactPage::merge(scans, query.after, last, pruned);
    if query.is_filtered() {
        let mut filter = Filter {
            db,
            query,
            known: HashMap::new(),
        };
        let mut matching = Vec::new();
        for entry in facts.items {
            if filter.matches(&FactSubject::of(&entry.fact))? {
                matching.push(entry);
            }
        }
        facts.items = matching;
    }
    Ok(facts)
}

/// The last fact before this time, 0 if there is none. Facts are in the order of their times, unless
/// the clock was set back.
pub(super) fn last_before(db: &Db<'_>, time: Wall) -> Result<Seq, Error> {
    let last = "SELECT last_seq FROM totals";
    let (mut low, mut high) = (0, db.query_row(last, (), |row| row.get::<i64>(0))?);
    while low < high {
        let middle = low + (high - low) / 2;
        match next(db, middle)? {
            Some((seq, at)) if at < time => low = seq,
            _ => high = middle,
        }
    }
    Ok(Seq(low.cast_unsigned()))
}

/// The first fact after a number, and its time.
fn next(db: &Db<'_>, after: i64) -> Result<Option<(i64, Wall)>, Error> {
    const NEXT: [&str; 2] = [
        "SELECT seq, at_ms FROM history INDEXED BY history_by_seq WHERE seq > ?1 ORDER BY seq LIMIT 1",
        "SELECT seq, at_ms FROM wide WHERE seq > ?1 ORDER BY seq LIMIT 1",
    ];
    let mut first = None;
    for sql in NEXT {
        let found = db
            .prepare_cached(sql)?
            .query_row([after], |row| Ok((row.get(0)?, Wall(unsigned(row, 1)?))))
            .optional()?;
        first = first.into_iter().chain(found).min();
    }
    Ok(first)
}

/// The number before the first fact of a run; 0 if the run is not stored.
fn seq_before_run(db: &Db<'_>, run: RunId) -> Result<i64, Error> {
    db.prepare_cached("SELECT coalesce(min(part), 1) - 1 FROM plan WHERE run = ?1")?
        .query_row([run.0.cast_signed()], |row| row.get(0))
}

/// True if a spec `s` has the owner ?2 and the run ?3, where these are given.
macro_rules! spec_matches {
    ($columns:literal, $rest:literal) => {
        concat!(
            "SELECT coalesce(s.owner = ?2, TRUE) AND CASE WHEN ?3 IS NULL THEN TRUE \
             ELSE CAST(json_extract(s.body, '$.part.run') AS BIGINT) IS NOT DISTINCT FROM ?3 END",
            $columns,
            " FROM ",
            $rest
        )
    };
}

/// Evaluates the filters of a query.
struct Filter<'a> {
    db: &'a Db<'a>,
    query: &'a FactQuery,
    known: HashMap<InstanceId, bool>,
}

impl Filter<'_> {
    fn matches(&mut self, subject: &FactSubject<'_>) -> Result<bool, Error> {
        match subject {
            FactSubject::Other => Ok(false),
            FactSubject::Submission(spec) => Ok(self.query.matches(spec)),
            FactSubject::Run(run, _) if self.query.run.is_some_and(|wanted| wanted != *run) => {
                Ok(false)
            }
            FactSubject::Run(run, owner_in_fact) => self.run_matches(*run, *owner_in_fact),
            FactSubject::Range(first, last) => self.range_matches((*first, *last)),
            FactSubject::Instance(id) => {
                if let Some(known) = self.known.get(id) {
                    return Ok(*known);
                }
                let has = self.instance_matches(*id)?;
                self.known.insert(*id, has);
                Ok(has)
            }
        }
    }

    fn run_matches(&self, run: RunId, owner_in_fact: Option<&str>) -> Result<bool, Error> {
        match (&self.query.owner, owner_in_fact) {
            (None, _) => Ok(true),
            (Some(owner), Some(owner_in_fact)) => Ok(owner == owner_in_fact),
            (Some(owner), None) => {
                let head = runs::head(self.db, run)?;
                Ok(head.is_some_and(|head| head.owner == *owner))
            }
        }
    }

    /// The values of ?2 and ?3 in `spec_matches!`.
    fn filter_values(&self) -> (Option<&str>, Option<i64>) {
        let run = self.query.run.map(|run| run.0.cast_signed());
        (self.query.owner.as_deref(), run)
    }

    fn instance_matches(&self, id: InstanceId) -> Result<bool, Error> {
        const ALONE: &str = spec_matches!(
            "",
            "instance AS i JOIN spec AS s ON s.id = i.spec WHERE i.id = ?1"
        );
        const IN_SPAN: &str = spec_matches!(
            "",
            "(SELECT first, spec FROM span WHERE last >= ?1 ORDER BY last LIMIT 1) AS i \
             JOIN spec AS s ON s.id = i.spec WHERE i.first <= ?1"
        );
        let (owner, run) = self.filter_values();
        for sql in [ALONE, IN_SPAN] {
            let found = self
                .db
                .prepare_cached(sql)?
                .query_row(params![sql_id(id), owner, run], |row| row.get(0))
                .optional()?;
            if let Some(has) = found {
                return Ok(has);
            }
        }
        Ok(false)
    }

    /// True if any instance of a range passes. A range with too many instances to check passes: an
    /// extra fact is better than a missing one.
    fn range_matches(&self, (first, last): Ids) -> Result<bool, Error> {
        const ALONE: &str = spec_matches!(
            ", i.id",
            "instance AS i JOIN spec AS s ON s.id = i.spec WHERE i.id >= ?1 ORDER BY i.id LIMIT ?4"
        );
        // Spans do not overlap, so their first ids have the order of their last ids.
        const SPANS: &str = spec_matches!(
            ", i.first",
            "span AS i JOIN spec AS s ON s.id = i.spec WHERE i.last >= ?1 ORDER BY i.last LIMIT ?4"
        );
        let (owner, run) = self.filter_values();
        for (first, last) in split_by_sign(first, last) {
            for sql in [SPANS, ALONE] {
                let mut statement = self.db.prepare_cached(sql)?;
                let mut found =
                    statement.query(params![sql_id(first), owner, run, PAGE_SCAN_MAX as i64])?;
                let mut visited = 0;
                while let Some(row) = found.next()? {
                    if row.get::<i64>(1)? > sql_id(last) {
                        break;
                    }
                    visited += 1;
                    if visited == PAGE_SCAN_MAX || row.get(0)? {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }
}
