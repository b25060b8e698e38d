//! The one thread that writes.
//!
//! It takes what has queued up and writes it in one transaction: that is one fsync,
//! however many batches there are. The epoch is read inside the transaction, so a
//! leader deposed by another process is refused as surely as one deposed in this
//! one. Fates are told after the commit, in order.
//!
//! When a transaction fails, every part of it fails, and so does everything of the
//! same terms that comes later: `broken` remembers the last such term. The
//! connection is thrown away; the next operation reads anew what is really there.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use baton_model::ids::Epoch;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::kept::InTransaction;
use super::queue::{Alone, Queue, Work, Write};
use super::rows::{leadership, lift};
use super::specs::{SpecId, Written};
use super::write::write;
use super::{prune, schema, tokens};
use crate::StoreError;
use crate::draft::Draft;
use crate::limits::{
    BUSY_TIMEOUT_MS, CHECKPOINT_FACTS, CHECKPOINT_GROUPS, LOG_PAGES_HARD, LOG_PAGES_SOFT,
    LOG_WAIT_MS,
};
use crate::view::Seq;

/// The writer's own state; lives on its thread.
pub(super) struct Writer {
    path: PathBuf,
    db: Option<Connection>,
    specs: Written,
    broken: Epoch,
    groups: usize,
    facts: usize,
}

/// Fails what waits if the writer's thread ends in a panic.
struct LastWords<'a>(&'a Queue);

impl Drop for LastWords<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

impl Writer {
    pub(super) fn new(path: PathBuf, db: Connection) -> Self {
        Self {
            path,
            db: Some(db),
            specs: Written::default(),
            broken: Epoch(0),
            groups: 0,
            facts: 0,
        }
    }

    /// Works until the queue is closed and empty.
    pub(super) fn run(mut self, queue: &Queue) {
        let _last_words = LastWords(queue);
        while let Some(work) = queue.next() {
            match work {
                Work::Group(group) => self.group(group),
                Work::Alone(alone) => self.alone(alone),
            }
        }
    }

    fn group(&mut self, group: Vec<Write>) {
        self.groups += 1;
        self.facts += group.iter().map(|write| write.facts().len()).sum::<usize>();
        let before = self.broken;
        let sound = group.iter().map(Write::epoch).filter(|it| *it > before);
        let result = sound.max().map(|last| {
            // Back in its place only if everything that it remembers has landed.
            let mut specs = std::mem::take(&mut self.specs);
            self.transaction(|tx, path| land(tx, path, &group, before, &mut specs))
                .inspect(|_| self.specs = specs)
                .inspect_err(|_| self.broken = last)
        });
        for write in group {
            let fate = match &result {
                Some(Ok(epoch)) if write.epoch() == *epoch && *epoch > before => Ok(()),
                Some(Ok(_)) if write.epoch() > before => Err(StoreError::Overtaken),
                Some(Err(error)) if write.epoch() > before => Err(error.clone()),
                _ => Err(StoreError::TermBroken),
            };
            write.end(fate);
        }
        self.tend_log();
    }

    fn alone(&mut self, alone: Alone) {
        match alone {
            Alone::Take { expected, done } => {
                done(
                    self.transaction(|tx, path| {
                        take(tx, expected).map_err(|error| lift(path, error))
                    }),
                );
            }
            Alone::Prune {
                epoch,
                now,
                retention,
                limit,
                done,
            } => {
                // Specs may go as well.
                self.specs = Written::default();
                done(self.transaction(|tx, path| {
                    check(tx, epoch).map_err(|error| lift(path, error))??;
                    prune::step(tx, now, &retention, limit).map_err(|error| lift(path, error))
                }));
            }
            Alone::Vacuum { epoch, done } => done(self.transaction(|tx, path| {
                check(tx, epoch).map_err(|error| lift(path, error))??;
                prune::vacuum(tx).map_err(|error| lift(path, error))
            })),
            Alone::CreateToken { new, done } => {
                done(self.transaction(|tx, path| tokens::create(tx, path, &new)));
            }
            Alone::RevokeToken { id, done } => {
                done(self.transaction(|tx, path| {
                    tokens::revoke(tx, id).map_err(|error| lift(path, error))
                }))
            }
            Alone::Checkpoint { done } => done(self.checkpoint("TRUNCATE").map(|_| ())),
        }
    }

    /// Runs `work` in a transaction of its own. After an error of the database the
    /// connection is not used again.
    fn transaction<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>, &Path) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let path = self.path.clone();
        let result = self.connection().and_then(|db| {
            let failed = |error| lift(&path, error);
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

    /// Keeps the log short. Readers hold on to the part of it that they began with,
    /// so it can begin again only when none of them is in it: usually that happens
    /// by itself between two reads; where reads overlap without a gap, the writer
    /// waits for those that are under way, and new ones read from the file.
    fn tend_log(&mut self) {
        if self.groups < CHECKPOINT_GROUPS && self.facts < CHECKPOINT_FACTS {
            return;
        }
        (self.groups, self.facts) = (0, 0);
        let tended = self.checkpoint("NOOP").and_then(|pages| {
            if pages < LOG_PAGES_SOFT {
                Ok(pages)
            } else if pages < LOG_PAGES_HARD {
                self.checkpoint("PASSIVE")
            } else {
                self.checkpoint("RESTART")
            }
        });
        // What could not be moved stays in the log, where it is as safe, and the next
        // turn tries again; a disk that fails will fail the next commit, too.
        drop(tended);
    }

    /// Moves the log into the file; returns the pages that the log has.
    fn checkpoint(&mut self, how: &str) -> Result<u64, StoreError> {
        let path = self.path.clone();
        let db = self.connection()?;
        let run = || {
            db.busy_timeout(Duration::from_millis(LOG_WAIT_MS))?;
            let pages = db.query_row(&format!("PRAGMA wal_checkpoint({how})"), [], |row| {
                row.get::<_, i64>(1)
            });
            db.busy_timeout(Duration::from_millis(BUSY_TIMEOUT_MS))?;
            pages
        };
        let pages = run().map_err(|error| lift(&path, error))?;
        Ok(pages.max(0).cast_unsigned())
    }
}

/// Writes a group, and returns the epoch in force: who has another was overtaken.
fn land(
    tx: &Transaction<'_>,
    path: &Path,
    group: &[Write],
    broken: Epoch,
    specs: &mut Written,
) -> Result<Epoch, StoreError> {
    let failed = |error| lift(path, error);
    let epoch = leadership(tx).map_err(failed)?.epoch;
    if epoch <= broken {
        return Ok(epoch);
    }
    specs.begin(tx).map_err(failed)?;
    let mut kept = InTransaction {
        db: tx,
        path,
        specs,
        no_spec: Arc::default(),
    };
    let mut draft: Option<Draft<SpecId>> = None;
    let mut renewals = 0_i64;
    for write in group.iter().filter(|write| write.epoch() == epoch) {
        match write {
            Write::Renew { .. } => renewals += 1,
            Write::Commit { batch, wall, .. } => {
                for fact in batch.facts() {
                    let draft = match &mut draft {
                        Some(draft) => draft,
                        none => none.insert(Draft::new(next_seq(tx).map_err(failed)?)),
                    };
                    draft.apply(&mut kept, epoch, *wall, fact)?;
                }
            }
        }
    }
    if renewals > 0 {
        tx.prepare_cached("UPDATE leader SET renewals = renewals + ?1")
            .and_then(|mut statement| statement.execute([renewals]))
            .map_err(failed)?;
    }
    if let Some(draft) = draft {
        write(tx, &draft, kept.specs).map_err(failed)?;
    }
    Ok(epoch)
}

fn take(tx: &Transaction<'_>, expected: Epoch) -> Result<bool, rusqlite::Error> {
    let changed = tx.execute(
        "UPDATE leader SET epoch = ?1, renewals = 0 WHERE epoch = ?2",
        [expected.next().0.cast_signed(), expected.0.cast_signed()],
    )?;
    Ok(changed == 1)
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
