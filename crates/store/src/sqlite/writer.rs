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
use std::time::Duration;

use baton_model::ids::Epoch;
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::queue::{Alone, Queue, Work, Write};
use super::rows::{InTransaction, leadership, lift};
use super::{prune, schema};
use crate::StoreError;
use crate::draft::{Change, Draft};
use crate::limits::{
    BUSY_TIMEOUT_MS, CHECKPOINT_FACTS, CHECKPOINT_GROUPS, LOG_PAGES_HARD, LOG_PAGES_SOFT,
    LOG_WAIT_MS,
};
use crate::view::{Seq, key};

/// The writer's own state; lives on its thread.
pub(super) struct Writer {
    path: PathBuf,
    db: Option<Connection>,
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
            self.transaction(|tx, path| land(tx, path, &group, before))
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
            } => done(self.transaction(|tx, path| {
                check(tx, epoch).map_err(|error| lift(path, error))??;
                prune::step(tx, now, &retention, limit).map_err(|error| lift(path, error))
            })),
            Alone::Vacuum { epoch, done } => done(self.transaction(|tx, path| {
                check(tx, epoch).map_err(|error| lift(path, error))??;
                prune::vacuum(tx).map_err(|error| lift(path, error))
            })),
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
) -> Result<Epoch, StoreError> {
    let failed = |error| lift(path, error);
    let epoch = leadership(tx).map_err(failed)?.epoch;
    if epoch <= broken {
        return Ok(epoch);
    }
    let mut draft: Option<Draft> = None;
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
                    draft.apply(&mut InTransaction { db: tx, path }, epoch, *wall, fact)?;
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
        write(tx, &draft).map_err(failed)?;
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

fn write(tx: &Transaction<'_>, draft: &Draft) -> Result<(), rusqlite::Error> {
    let mut append = tx.prepare_cached(
        "INSERT INTO history (seq, instance, epoch, at_ms, body) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    for line in draft.lines() {
        append.execute(params![
            line.seq.0.cast_signed(),
            line.instance.map(key),
            line.epoch.0.cast_signed(),
            line.at.0.cast_signed(),
            line.body,
        ])?;
    }
    for change in draft.changes() {
        write_instance(tx, &change)?;
    }
    let mut count = tx.prepare_cached(
        "INSERT INTO tally (state, instances) VALUES (?1, ?2) \
         ON CONFLICT (state) DO UPDATE SET instances = instances + excluded.instances",
    )?;
    for (state, by) in draft.tally() {
        count.execute(params![state.word(), by])?;
    }
    write_condemned(tx, draft)?;
    tx.prepare_cached(
        "UPDATE totals SET last_seq = ?1, history_bytes = history_bytes + ?2, \
         lease_time_ms = coalesce(?3, lease_time_ms)",
    )?
    .execute(params![
        draft.next().0.cast_signed() - 1,
        draft.bytes().cast_signed(),
        draft.lease_time().map(|lease| lease.0.cast_signed()),
    ])?;
    Ok(())
}

fn write_condemned(tx: &Transaction<'_>, draft: &Draft) -> Result<(), rusqlite::Error> {
    let (new, gone) = draft.condemned();
    let mut remember =
        tx.prepare_cached("INSERT OR REPLACE INTO condemned (lineage, life) VALUES (?1, ?2)")?;
    for it in new {
        remember.execute([it.lineage.0.cast_signed(), it.life.0.cast_signed()])?;
    }
    let mut forget = tx.prepare_cached("DELETE FROM condemned WHERE lineage = ?1")?;
    for lineage in gone {
        forget.execute([lineage.0.cast_signed()])?;
    }
    Ok(())
}

/// A new row, or the changed columns of an old one: what was asked for never changes.
fn write_instance(tx: &Transaction<'_>, change: &Change) -> Result<(), rusqlite::Error> {
    let record = &change.record;
    let instance = &record.instance;
    let lease = instance.lease.as_ref();
    let holder = lease.map(|lease| &lease.holder);
    let spec = match change.before {
        Some(_) => None,
        None => Some(
            serde_json::to_string(&*instance.spec)
                .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?,
        ),
    };
    let values = params![
        key(instance.id),
        instance.state.word(),
        record.position(),
        instance.attempts.0,
        instance.failures,
        instance.losses,
        instance.stop_requested,
        lease.map(|it| it.id.attempt.number.0),
        lease.map(|it| it.id.epoch.0.cast_signed()),
        lease.map(|it| it.confirmed),
        holder.map(|it| &*it.worker.0),
        holder.map(|it| it.incarnation.lineage.0.cast_signed()),
        holder.map(|it| it.incarnation.life.0.cast_signed()),
        holder.map(|it| it.host.0.cast_signed()),
        holder.map(|it| it.boot.0.cast_signed()),
        record.submitted_at.0.cast_signed(),
        record.changed_at.0.cast_signed(),
        record.changed.0.cast_signed(),
        spec,
    ];
    let sql = if spec.is_some() {
        "INSERT INTO instance (id, state, position, attempts, failures, losses, stop_requested, \
         lease_attempt, lease_epoch, lease_confirmed, worker, lineage, life, host, boot, \
         submitted_at_ms, changed_at_ms, changed_seq, spec) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, \
         ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)"
    } else {
        "UPDATE instance SET state = ?2, position = ?3, attempts = ?4, failures = ?5, losses = ?6, \
         stop_requested = ?7, lease_attempt = ?8, lease_epoch = ?9, lease_confirmed = ?10, \
         worker = ?11, lineage = ?12, life = ?13, host = ?14, boot = ?15, submitted_at_ms = ?16, \
         changed_at_ms = ?17, changed_seq = ?18, spec = coalesce(?19, spec) WHERE id = ?1"
    };
    tx.prepare_cached(sql)?.execute(values)?;
    Ok(())
}
