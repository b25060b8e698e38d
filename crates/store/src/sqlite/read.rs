//! Reading, on connections that cannot write.
//!
//! Each read is one short snapshot. In this mode of SQLite readers and the writer
//! do not wait for each other.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use baton_core::ledger::Ledger;
use baton_model::ids::{Epoch, InstanceId};
use baton_model::time::Millis;
use rusqlite::{Connection, params};

use super::rows::{self, ALL, SOME, Specs, bits, lift};
use super::schema;
use crate::StoreError;
use crate::limits::READERS_IDLE_MAX;
use crate::view::{self, Counts, Cursor, Entry, Page, Query, Record, Seq, key};

/// Read connections, lent one at a time.
pub(super) struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            idle: Mutex::default(),
        }
    }

    /// Closes every connection that nobody uses.
    pub(super) fn close(&self) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.clear();
    }

    /// Runs `work` on a snapshot. A connection that has failed is not lent again.
    pub(super) fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, rusqlite::Error>,
    ) -> Result<T, StoreError> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let lent = idle().pop();
        let mut db = match lent {
            Some(db) => db,
            None => schema::reader(&self.path)?,
        };
        let failed = |error| lift(&self.path, error);
        let snapshot = db.transaction().map_err(failed)?;
        schema::check(&snapshot, &self.path)?;
        let value = work(&snapshot).map_err(failed)?;
        snapshot.commit().map_err(failed)?;
        let mut idle = idle();
        if idle.len() < READERS_IDLE_MAX {
            idle.push(db);
        }
        Ok(value)
    }
}

/// The whole ledger, if `epoch` is still in force.
pub(super) fn ledger(
    db: &Connection,
    epoch: Epoch,
) -> Result<Option<Result<Ledger, StoreError>>, rusqlite::Error> {
    if rows::leadership(db)?.epoch != epoch {
        return Ok(None);
    }
    let lease_time = db.query_row("SELECT lease_time_ms FROM totals", [], |row| {
        Ok(Millis(bits(row, 0)?))
    })?;
    let condemned = rows::condemned(db)?;
    let mut ledger = match Ledger::restore([], condemned, lease_time) {
        Ok(ledger) => ledger,
        Err(error) => return Ok(Some(Err(damaged(&error)))),
    };
    let mut specs = Specs::default();
    let mut all = db.prepare(ALL)?;
    let mut found = all.query([])?;
    while let Some(row) = found.next()? {
        let record = rows::record(row, &mut specs)?;
        if let Err(error) = ledger.admit(record.instance) {
            return Ok(Some(Err(damaged(&error))));
        }
    }
    Ok(Some(Ok(ledger)))
}

fn damaged(error: &impl ToString) -> StoreError {
    StoreError::Corrupt(error.to_string())
}

/// One page of a view: the first ones of each of its states, merged.
pub(super) fn page(db: &Connection, query: &Query) -> Result<Page<Record>, rusqlite::Error> {
    let mut statement = db.prepare_cached(SOME)?;
    let from = match query.after {
        None => i64::MIN,
        // Behind the last place there is nothing.
        Some(Cursor(i64::MAX)) => return Ok(view::merge(Vec::new(), query)),
        Some(Cursor(last)) => last + 1,
    };
    let mut specs = Specs::default();
    let mut found = Vec::new();
    for state in query.states() {
        let limit = query.items_max() as i64 + 1;
        let mut rows = statement.query(params![state.word(), from, limit])?;
        while let Some(row) = rows.next()? {
            found.push(rows::record(row, &mut specs)?);
        }
    }
    Ok(view::merge(found, query))
}

/// What happened to one instance.
pub(super) fn timeline(
    db: &Connection,
    id: InstanceId,
    after: Option<Seq>,
    limit: usize,
) -> Result<Page<Entry>, rusqlite::Error> {
    let limit = view::page_limit(limit);
    let after = after.map_or(0, |seq| seq.0.cast_signed());
    let entries = db
        .prepare_cached(
            "SELECT seq, at_ms, epoch, body FROM history WHERE instance = ?1 AND seq > ?2 \
             ORDER BY seq LIMIT ?3",
        )?
        .query_map(params![key(id), after, limit as i64 + 1], rows::entry)?
        .collect::<Result<_, _>>()?;
    Ok(Page::cut(entries, limit, |entry: &Entry| {
        entry.seq.0.cast_signed()
    }))
}

/// How much there is.
pub(super) fn counts(db: &Connection) -> Result<Counts, rusqlite::Error> {
    let history_bytes = db
        .prepare_cached("SELECT history_bytes FROM totals")?
        .query_row([], |row| bits(row, 0))?;
    let states = db
        .prepare_cached("SELECT state, instances FROM tally WHERE instances > 0")?
        .query_map([], |row| Ok((rows::state(row, 0)?, bits(row, 1)?)))?
        .collect::<Result<_, _>>()?;
    Ok(Counts {
        states,
        history_bytes,
    })
}
