//! The whole history in order.

use std::collections::HashMap;

use baton_model::ids::InstanceId;
use rusqlite::{Connection, OptionalExtension};

use super::rows::{self, bits};
use crate::draft::{Ids, halves};
use crate::facts::{FactQuery, Facts, Walk, Whose};
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
pub(super) fn page(db: &Connection, query: &FactQuery) -> Result<Facts, rusqlite::Error> {
    let (last, pruned) = db
        .prepare_cached("SELECT last_seq, pruned_seq FROM totals")?
        .query_row([], |row| Ok((Seq(bits(row, 0)?), Seq(bits(row, 1)?))))?;
    let mut walks = Vec::new();
    // Numbers are kept signed, and none is that high.
    let after = i64::try_from(query.after.0).unwrap_or(i64::MAX);
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
    let mut facts = Facts::merge(walks, query.after, last, pruned);
    if let Some(owner) = &query.owner {
        let mut owners = Owners {
            db,
            owner,
            known: HashMap::new(),
        };
        let mut kept = Vec::new();
        for entry in facts.items {
            if owners.has(&Whose::of(&entry.fact))? {
                kept.push(entry);
            }
        }
        facts.items = kept;
    }
    Ok(facts)
}

/// Knows what belongs to one owner.
struct Owners<'a> {
    db: &'a Connection,
    owner: &'a str,
    known: HashMap<InstanceId, bool>,
}

impl Owners<'_> {
    fn has(&mut self, whose: &Whose<'_>) -> Result<bool, rusqlite::Error> {
        match whose {
            Whose::Nobodys => Ok(false),
            Whose::Said(owner) => Ok(*owner == self.owner),
            Whose::OfAny(first, last) => self.has_any((*first, *last)),
            Whose::Of(id) => {
                if let Some(known) = self.known.get(id) {
                    return Ok(*known);
                }
                let has = self.has_one(*id)?;
                self.known.insert(*id, has);
                Ok(has)
            }
        }
    }

    fn has_one(&self, id: InstanceId) -> Result<bool, rusqlite::Error> {
        const ALONE: &str = "SELECT s.owner = ?2 FROM instance AS i JOIN spec AS s ON s.id = i.spec \
             WHERE i.id = ?1";
        const IN_SPAN: &str = "SELECT s.owner = ?2 FROM (SELECT first, spec FROM span \
            WHERE last >= ?1 ORDER BY last LIMIT 1) AS i JOIN spec AS s ON s.id = i.spec \
            WHERE i.first <= ?1";
        for sql in [ALONE, IN_SPAN] {
            let found = self
                .db
                .prepare_cached(sql)?
                .query_row((key(id), self.owner), |row| row.get(0))
                .optional()?;
            if let Some(has) = found {
                return Ok(has);
            }
        }
        Ok(false)
    }

    /// Whether any of a range is this owner's. Who has to look at too many shows one fact too
    /// many instead of one too few.
    fn has_any(&self, (first, last): Ids) -> Result<bool, rusqlite::Error> {
        const ALONE: &str = "SELECT s.owner = ?2, i.id FROM instance AS i JOIN spec AS s \
            ON s.id = i.spec WHERE i.id >= ?1 ORDER BY i.id";
        // They do not overlap, so the first ones are in order as the last ones are.
        const SPANS: &str = "SELECT s.owner = ?2, i.first FROM span AS i JOIN spec AS s \
            ON s.id = i.spec WHERE i.last >= ?1 ORDER BY i.last";
        for (first, last) in halves(first, last) {
            for sql in [SPANS, ALONE] {
                let mut statement = self.db.prepare_cached(sql)?;
                let mut found = statement.query((key(first), self.owner))?;
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
