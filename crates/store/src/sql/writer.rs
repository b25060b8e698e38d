//! The writer thread, with group commit.
//!
//! It takes everything that is queued and writes it in one transaction: one fsync, however many
//! batches there are. The epoch is read inside the transaction, so a leader deposed by another
//! process is refused as reliably as one deposed in this process. Outcomes are reported after the
//! commit, in order.
//!
//! When a transaction fails, every batch in it fails, and so does every later write of the same
//! terms: `broken_term` holds the last such term. The connection is closed; the next operation reads the
//! actual state of the file again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use baton_model::ids::Epoch;
use baton_model::limits::TERMS_MAX;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::queue::{ExclusiveOp, Queue, Write, WriterTask};
use super::rows::{leadership, to_store_error};
use super::specs::{SpecId, SpecWriter};
use super::stored_rows::TransactionRows;
use super::write::write;
use super::{prune, schema, tokens};
use crate::StoreError;
use crate::change_set::ChangeSet;
use crate::limits::{
    BUSY_TIMEOUT_MS, CHECKPOINT_FACTS, CHECKPOINT_GROUPS, WAL_PAGES_HARD, WAL_PAGES_SOFT,
    WAL_WAIT_MS,
};
use crate::view::Seq;

/// State of the writer thread.
pub(super) struct Writer {
    path: PathBuf,
    db: Option<Connection>,
    specs: SpecWriter,
    broken_term: Epoch,
    groups: usize,
    facts: usize,
}

/// Fails all queued operations when the writer thread ends, also by a panic.
struct FailPendingOnDrop<'a>(&'a Queue);

impl Drop for FailPendingOnDrop<'_> {
    fn drop(&mut self) {
        self.0.fail_all();
    }
}

impl Writer {
    pub(super) fn new(path: PathBuf, db: Connection) -> Self {
        Self {
            path,
            db: Some(db),
            specs: SpecWriter::default(),
            broken_term: Epoch(0),
            groups: 0,
            facts: 0,
        }
    }

    /// Runs until the queue is closed and empty.
    pub(super) fn run(mut self, queue: &Queue) {
        let _fail_pending = FailPendingOnDrop(queue);
        while let Some(work) = queue.next() {
            match work {
                WriterTask::Group(group) => self.commit_group(group),
                WriterTask::Exclusive(op) => self.run_exclusive(op),
            }
        }
    }

    fn commit_group(&mut self, group: Vec<Write>) {
        self.groups += 1;
        self.facts += group.iter().map(|write| write.facts().len()).sum::<usize>();
        let before = self.broken_term;
        let valid = group.iter().map(Write::epoch).filter(|it| *it > before);
        let result = valid.max().map(|last| {
            // Put back only if every spec in its cache was committed.
            let mut specs = std::mem::take(&mut self.specs);
            self.transaction(|tx, path| write_group(tx, path, &group, before, &mut specs))
                .inspect(|_| self.specs = specs)
                .inspect_err(|_| self.broken_term = last)
        });
        for write in group {
            let outcome = match &result {
                Some(Ok(epoch)) if write.epoch() == *epoch && *epoch > before => Ok(()),
                Some(Ok(_)) if write.epoch() > before => Err(StoreError::Overtaken),
                Some(Err(error)) if write.epoch() > before => Err(error.clone()),
                _ => Err(StoreError::TermBroken),
            };
            write.complete(outcome);
        }
        self.checkpoint_if_due();
    }

    fn run_exclusive(&mut self, op: ExclusiveOp) {
        match op {
            ExclusiveOp::Take {
                expected,
                next,
                done,
            } => {
                done(self.transaction(|tx, path| {
                    take(tx, expected, next).map_err(|error| to_store_error(path, error))
                }));
            }
            ExclusiveOp::Prune {
                epoch,
                now,
                retention,
                limit,
                done,
            } => {
                // Pruning may remove specs.
                self.specs = SpecWriter::default();
                done(self.transaction(|tx, path| {
                    check(tx, epoch).map_err(|error| to_store_error(path, error))??;
                    prune::step(tx, now, &retention, limit)
                        .map_err(|error| to_store_error(path, error))
                }));
            }
            ExclusiveOp::Vacuum { epoch, done } => done(self.transaction(|tx, path| {
                check(tx, epoch).map_err(|error| to_store_error(path, error))??;
                prune::vacuum(tx).map_err(|error| to_store_error(path, error))
            })),
            ExclusiveOp::CreateToken { new, done } => {
                done(self.transaction(|tx, path| tokens::create(tx, path, &new)));
            }
            ExclusiveOp::RevokeToken { id, done } => done(self.transaction(|tx, path| {
                tokens::revoke(tx, id).map_err(|error| to_store_error(path, error))
            })),
            ExclusiveOp::Checkpoint { done } => done(self.checkpoint("TRUNCATE").map(|_| ())),
        }
    }

    /// Runs `work` in a transaction of its own. After an error of the database the connection is
    /// not used again.
    fn transaction<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>, &Path) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let path = self.path.clone();
        let result = self.connection().and_then(|db| {
            let failed = |error| to_store_error(&path, error);
            let tx = db
                .transaction_with_behavior(TransactionBehavior::Immediate)
                .map_err(failed)?;
            schema::check(&tx, &path)?;
            let value = work(&tx, &path)?;
            tx.commit().map_err(failed)?;
            Ok(value)
        });
        if !matches!(&result, Ok(_) | Err(StoreError::Overtaken)) {
            self.db = None;
        }
        result
    }

    fn connection(&mut self) -> Result<&mut Connection, StoreError> {
        if self.db.is_none() {
            self.db = Some(schema::writer(&self.path)?);
        }
        self.db.as_mut().ok_or(StoreError::Closed)
    }

    /// Keeps the WAL short. A reader pins the part of the WAL that it started with, so the WAL can
    /// restart only while no reader uses it: that usually happens by itself between two reads. If
    /// reads overlap without a gap, the writer waits for the current ones, and new ones read from
    /// the database file.
    fn checkpoint_if_due(&mut self) {
        if self.groups < CHECKPOINT_GROUPS && self.facts < CHECKPOINT_FACTS {
            return;
        }
        (self.groups, self.facts) = (0, 0);
        let result = self.checkpoint("NOOP").and_then(|pages| {
            if pages < WAL_PAGES_SOFT {
                Ok(pages)
            } else if pages < WAL_PAGES_HARD {
                self.checkpoint("PASSIVE")
            } else {
                self.checkpoint("RESTART")
            }
        });
        // What could not be moved stays in the WAL, where it is as durable, and the next call tries
        // again; a failing disk fails the next commit, too.
        drop(result);
    }

    /// Runs a checkpoint in this mode; returns the pages in the WAL.
    fn checkpoint(&mut self, mode: &str) -> Result<u64, StoreError> {
        let path = self.path.clone();
        let db = self.connection()?;
        let run = || {
            db.busy_timeout(Duration::from_millis(WAL_WAIT_MS))?;
            let pages = db.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| {
                row.get::<_, i64>(1)
            });
            db.busy_timeout(Duration::from_millis(BUSY_TIMEOUT_MS))?;
            pages
        };
        let pages = run().map_err(|error| to_store_error(&path, error))?;
        Ok(pages.max(0).cast_unsigned())
    }
}

/// Writes a group, and returns the epoch in force: writes under another epoch were overtaken.
fn write_group(
    tx: &Transaction<'_>,
    path: &Path,
    group: &[Write],
    broken: Epoch,
    specs: &mut SpecWriter,
) -> Result<Epoch, StoreError> {
    let failed = |error| to_store_error(path, error);
    let epoch = leadership(tx).map_err(failed)?.epoch;
    if epoch <= broken {
        return Ok(epoch);
    }
    specs.begin(tx).map_err(failed)?;
    let mut stored = TransactionRows {
        db: tx,
        path,
        specs,
        no_spec: Arc::default(),
    };
    let mut change_set: Option<ChangeSet<SpecId>> = None;
    let mut renewals = 0_i64;
    for write in group.iter().filter(|write| write.epoch() == epoch) {
        match write {
            Write::Renew { .. } => renewals += 1,
            Write::Commit { batch, wall, .. } => {
                for fact in batch.facts() {
                    let change_set = match &mut change_set {
                        Some(change_set) => change_set,
                        none => none.insert(ChangeSet::new(next_seq(tx).map_err(failed)?)),
                    };
                    change_set.apply(&mut stored, epoch, *wall, fact)?;
                }
            }
        }
    }
    if renewals > 0 {
        tx.prepare_cached("UPDATE leader SET renewals = renewals + ?1")
            .and_then(|mut statement| statement.execute([renewals]))
            .map_err(failed)?;
    }
    if let Some(change_set) = change_set {
        write(tx, &change_set, stored.specs).map_err(failed)?;
    }
    Ok(epoch)
}

fn take(tx: &Transaction<'_>, expected: Epoch, next: Epoch) -> Result<bool, rusqlite::Error> {
    let changed = tx.execute(
        "UPDATE leader SET epoch = ?1, renewals = 0 WHERE epoch = ?2",
        [next.0.cast_signed(), expected.0.cast_signed()],
    )?;
    if changed == 0 {
        return Ok(false);
    }
    tx.execute(
        "INSERT INTO term (epoch) VALUES (?1)",
        [next.0.cast_signed()],
    )?;
    tx.execute(
        "DELETE FROM term WHERE epoch IN (SELECT epoch FROM term ORDER BY epoch DESC \
         LIMIT -1 OFFSET ?1)",
        [i64::try_from(TERMS_MAX).unwrap_or(i64::MAX)],
    )?;
    Ok(true)
}

fn check(tx: &Transaction<'_>, epoch: Epoch) -> Result<Result<(), StoreError>, rusqlite::Error> {
    let in_force = leadership(tx)?.epoch;
    Ok(if in_force == epoch {
        Ok(())
    } else {
        Err(StoreError::Overtaken)
    })
}

fn next_seq(tx: &Transaction<'_>) -> Result<Seq, rusqlite::Error> {
    tx.prepare_cached("SELECT last_seq FROM totals")?
        .query_row([], |row| row.get::<_, i64>(0))
        .map(|last| Seq(last.cast_unsigned() + 1))
}
