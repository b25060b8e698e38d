//! The write-ahead log, and free pages.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rusqlite::Connection;

use crate::limits::{
    BUSY_TIMEOUT_MS, CHECKPOINT_FACTS, CHECKPOINT_GROUPS, FREE_PAGES_KEPT_ONE_IN,
    VACUUM_STEP_PAGES, WAL_PAGES_HARD, WAL_PAGES_SOFT, WAL_WAIT_MS,
};
use crate::sql::db::{Db, Error};
use crate::sql::rows::unsigned;

/// What was committed since the length of the WAL was last looked at. Only the writer uses it.
#[derive(Default)]
pub(super) struct Wal {
    groups: AtomicUsize,
    facts: AtomicUsize,
}

impl Wal {
    /// Keeps the WAL short. A reader pins the part of the WAL that it started with, so the WAL can
    /// restart only while no reader uses it: that usually happens by itself between two reads. If
    /// reads overlap without a gap, the writer waits for the current ones, and new ones read from
    /// the database file.
    pub(super) fn committed(&self, db: &Connection, facts: usize) {
        let groups = self.groups.fetch_add(1, Ordering::Relaxed) + 1;
        let facts = self.facts.fetch_add(facts, Ordering::Relaxed) + facts;
        if groups < CHECKPOINT_GROUPS && facts < CHECKPOINT_FACTS {
            return;
        }
        self.groups.store(0, Ordering::Relaxed);
        self.facts.store(0, Ordering::Relaxed);
        let result = checkpoint(db, "NOOP").and_then(|pages| {
            if pages < WAL_PAGES_SOFT {
                Ok(pages)
            } else if pages < WAL_PAGES_HARD {
                checkpoint(db, "PASSIVE")
            } else {
                checkpoint(db, "RESTART")
            }
        });
        // What could not be moved stays in the WAL, where it is as durable, and the next call tries
        // again; a failing disk fails the next commit, too.
        drop(result);
    }
}

/// Runs a checkpoint in this mode; returns the pages in the WAL.
pub(super) fn checkpoint(db: &Connection, mode: &str) -> Result<u64, rusqlite::Error> {
    db.busy_timeout(Duration::from_millis(WAL_WAIT_MS))?;
    let pages = db.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
        row.get::<_, i64>(1)
    });
    db.busy_timeout(Duration::from_millis(BUSY_TIMEOUT_MS))?;
    Ok(pages?.max(0).cast_unsigned())
}

/// Returns some free pages to the file system; true if there are more to return.
pub(super) fn vacuum(db: &Db<'_>) -> Result<bool, Error> {
    let number = |pragma: &str| {
        let sql = format!("PRAGMA {pragma}");
        db.query_row(&sql, (), |row| unsigned(row, 0))
    };
    let kept = number("page_count")? / FREE_PAGES_KEPT_ONE_IN;
    let surplus = number("freelist_count")?.saturating_sub(kept);
    let pages = surplus.min(VACUUM_STEP_PAGES);
    if pages > 0 {
        let sql = format!("PRAGMA incremental_vacuum({pages})");
        let mut vacuum = db.prepare_cached(&sql)?;
        let mut rows = vacuum.query(())?;
        // Each step frees one page.
        while rows.next()?.is_some() {}
    }
    Ok(surplus > pages)
}
