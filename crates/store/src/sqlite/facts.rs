//! The whole history in order.

use std::collections::HashMap;

use baton_model::ids::{InstanceId, RunId};
use rusqlite::{Connection, OptionalExtension};

use super::rows::{self, bits};
use super::runs;
use crate::draft::{Ids, halves};
use crate::facts::{About, FactPage, FactQuery, Walk};
use crate::limits::PAGE_SCAN_MAX;
use crate::view::{Seq, key};

/// About one instance.
const OWN: &str = "SELECT h.seq, h.at_ms, h.epoch, h.body, s.body FROM history AS h \
    INDEXED BY history_by_seq LEFT JOIN spec AS s ON s.id = h.spec WHERE h.seq > ?1 \
    ORDER BY h.seq LIMIT ?2";

/// About several, or none.
const WIDE: &str = "SELECT w.seq, w.at_ms, w.epoch, w.body, s.body FROM wide AS w \
    LEFT JOIN spec AS s ON s.id = w.spec WHERE w.seq > ?1 ORDER BY w.seq LIMIT ?2";

/// One page.
pub(super) fn page(db: &Connection, query: &FactQuery) -> Result<FactPage, rusqlite::Error> {
    let (last, pruned) = db
        .prepare_cached("SELECT last_seq, pruned_seq FROM totals")?
        .query_row([], |row| Ok((Seq(bits(row, 0)?), Seq(bits(row, 1)?))))?;
    let mut walks = Vec::new();
    // Numbers are kept signed, and none is that high.
    let after = i64::try_from(query.after.0).unwrap_or(i64::MAX);
    // Before its plan nothing has happened to a run.
    let after = match query.run {
        Some(run) => after.max(begun(db, run)?),
        None => after,
    };
    for sql in [OWN, WIDE] {
        let mut walk = Walk::default();
        let mut statement = db.prepare_cached(sql)?;
        let mut found = statement.query([after, Walk::ROWS_MAX as i64])?;
        while let Some(row) = found.next()? {
            let spec = row.get_ref(4)?.as_str_or_null()?;
            let bytes = row.get_ref(3)?.as_str()?.len() + spec.map_or(0, str::len);
            if !walk.take(rows::entry(row)?, bytes) {
                break;
            }
        }
        walks.push(walk);
    }
    let mut facts = FactPage::merge(walks, query.after, last, pruned);
    if query.filters() {
        let mut filter = Filter {
            db,
            query,
            known: HashMap::new(),
        };
        let mut kept = Vec::new();
        for entry in facts.items {
            if filter.wants(&About::of(&entry.fact))? {
                kept.push(entry);
            }
        }
        facts.items = kept;
    }
    Ok(facts)
}

/// The fact before the first one of a run; 0 if it is not kept.
fn begun(db: &Connection, run: RunId) -> Result<i64, rusqlite::Error> {
    db.prepare_cached("SELECT coalesce(min(part), 1) - 1 FROM plan WHERE run = ?1")?
        .query_row([run.0.cast_signed()], |row| row.get(0))
}

/// Whether a spec `s` is of the owner ?2 and of the run ?3, where these are asked for.
macro_rules! wanted {
    ($columns:literal, $rest:literal) => {
        concat!(
            "SELECT coalesce(s.owner = ?2, 1) AND CASE WHEN ?3 IS NULL THEN 1 \
             ELSE json_extract(s.body, '$.part.run') IS ?3 END",
            $columns,
            " FROM ",
            $rest
        )
    };
}

/// Knows what is asked for.
struct Filter<'a> {
    db: &'a Connection,
    query: &'a FactQuery,
    known: HashMap<InstanceId, bool>,
}

impl Filter<'_> {
    fn wants(&mut self, about: &About<'_>) -> Result<bool, rusqlite::Error> {
        match about {
            About::Nobodys => Ok(false),
            About::New(spec) => Ok(self.query.wants(spec)),
            About::Run(run, _) if self.query.run.is_some_and(|wanted| wanted != *run) => Ok(false),
            About::Run(run, said) => self.owns(*run, *said),
            About::Any(first, last) => self.has_any((*first, *last)),
            About::One(id) => {
                if let Some(known) = self.known.get(id) {
                    return Ok(*known);
                }
                let has = self.has_one(*id)?;
                self.known.insert(*id, has);
                Ok(has)
            }
        }
    }

    fn owns(&self, run: RunId, said: Option<&str>) -> Result<bool, rusqlite::Error> {
        match (&self.query.owner, said) {
            (None, _) => Ok(true),
            (Some(owner), Some(said)) => Ok(owner == said),
            (Some(owner), None) => {
                let head = runs::head(self.db, run)?;
                Ok(head.is_some_and(|head| head.owner == *owner))
            }
        }
    }

    /// What [`wanted`] is asked about, behind an instance.
    fn asked(&self) -> (Option<&str>, Option<i64>) {
        let run = self.query.run.map(|run| run.0.cast_signed());
        (self.query.owner.as_deref(), run)
    }

    fn has_one(&self, id: InstanceId) -> Result<bool, rusqlite::Error> {
        const ALONE: &str = wanted!(
            "",
            "instance AS i JOIN spec AS s ON s.id = i.spec WHERE i.id = ?1"
        );
        const IN_SPAN: &str = wanted!(
            "",
            "(SELECT first, spec FROM span WHERE last >= ?1 ORDER BY last LIMIT 1) AS i \
             JOIN spec AS s ON s.id = i.spec WHERE i.first <= ?1"
        );
        let (owner, run) = self.asked();
        for sql in [ALONE, IN_SPAN] {
            let found = self
                .db
                .prepare_cached(sql)?
                .query_row((key(id), owner, run), |row| row.get(0))
                .optional()?;
            if let Some(has) = found {
                return Ok(has);
            }
        }
        Ok(false)
    }

    /// Whether any of a range is asked for. Who has to look at too many shows one fact too
    /// many instead of one too few.
    fn has_any(&self, (first, last): Ids) -> Result<bool, rusqlite::Error> {
        const ALONE: &str = wanted!(
            ", i.id",
            "instance AS i JOIN spec AS s ON s.id = i.spec WHERE i.id >= ?1 ORDER BY i.id"
        );
        // They do not overlap, so the first ones are in order as the last ones are.
        const SPANS: &str = wanted!(
            ", i.first",
            "span AS i JOIN spec AS s ON s.id = i.spec WHERE i.last >= ?1 ORDER BY i.last"
        );
        let (owner, run) = self.asked();
        for (first, last) in halves(first, last) {
            for sql in [SPANS, ALONE] {
                let mut statement = self.db.prepare_cached(sql)?;
                let mut found = statement.query((key(first), owner, run))?;
                let mut looked = 0;
                while let Some(row) = found.next()? {
                    if row.get::<_, i64>(1)? > key(last) {
                        break;
                    }
                    looked += 1;
                    if looked == PAGE_SCAN_MAX || row.get(0)? {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }
}
