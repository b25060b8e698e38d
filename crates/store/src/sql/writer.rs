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

use std::sync::Arc;

use baton_model::ids::Epoch;
use baton_model::limits::TERMS_MAX;

use super::db::{Db, Error};
use super::queue::{ExclusiveOp, Queue, Write, WriterTask};
use super::rows::{locked_leadership, to_store_error};
use super::specs::SpecWriter;
use super::stored_rows::{GroupHead, TransactionRows};
use super::write::write;
use super::{Engine, followers, notices, prune, secrets, tokens};
use crate::StoreError;
use crate::change_set::ChangeSet;
use crate::view::Seq;

/// A statement of many groups, which PostgreSQL's writer plans in advance.
pub(super) const RENEW: &str = "UPDATE leader SET renewals = renewals + ?1";

/// State of the writer thread.
pub(super) struct Writer<E: Engine> {
    engine: Arc<E>,
    connection: Option<E::Connection>,
    specs: SpecWriter,
    broken_term: Epoch,
}

/// Fails all queued operations when the writer thread ends, also by a panic.
struct FailPendingOnDrop<'a>(&'a Queue);

impl Drop for FailPendingOnDrop<'_> {
    fn drop(&mut self) {
        self.0.fail_all();
    }
}

impl<E: Engine> Writer<E> {
    pub(super) fn new(engine: Arc<E>) -> Result<Self, StoreError> {
        Ok(Self {
            connection: Some(engine.writer()?),
            engine,
            specs: SpecWriter::default(),
            broken_term: Epoch(0),
        })
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
        let facts = group.iter().map(|write| write.facts().len()).sum();
        let before = self.broken_term;
        let valid = group.iter().map(Write::epoch).filter(|it| *it > before);
        let result = valid.max().map(|last| {
            // Put back only if every spec in its cache was committed.
            let mut specs = std::mem::take(&mut self.specs);
            self.transaction(|tx, place| write_group(tx, place, &group, before, &mut specs))
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
        if let Some(connection) = &mut self.connection {
            self.engine.committed(connection, facts);
        }
    }

    fn run_exclusive(&mut self, op: ExclusiveOp) {
        match op {
            ExclusiveOp::Take {
                expected,
                next,
                done,
            } => {
                done(self.transaction(|tx, place| {
                    take(tx, expected, next).map_err(|error| to_store_error(place, error))
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
                done(self.transaction(|tx, place| {
                    check(tx, epoch).map_err(|error| to_store_error(place, error))??;
                    prune::step(tx, now, &retention, limit)
                        .map_err(|error| to_store_error(place, error))
                }));
            }
            ExclusiveOp::Vacuum { epoch, done } => {
                let engine = Arc::clone(&self.engine);
                done(self.transaction(|tx, place| {
                    check(tx, epoch).map_err(|error| to_store_error(place, error))??;
                    engine
                        .vacuum(tx)
                        .map_err(|error| to_store_error(place, error))
                }));
            }
            ExclusiveOp::RecordNotices { epoch, batch, done } => {
                done(self.transaction(|tx, place| {
                    check(tx, epoch).map_err(|error| to_store_error(place, error))??;
                    notices::write(tx, &batch).map_err(|error| to_store_error(place, error))
                }));
            }
            ExclusiveOp::RecordPosition {
                epoch,
                follower,
                seq,
                done,
            } => {
                done(self.transaction(|tx, place| {
                    check(tx, epoch).map_err(|error| to_store_error(place, error))??;
                    followers::record(tx, follower, seq)
                        .map_err(|error| to_store_error(place, error))
                }));
            }
            ExclusiveOp::CreateToken { new, done } => {
                done(self.transaction(|tx, place| tokens::create(tx, place, &new)));
            }
            ExclusiveOp::RevokeToken { id, done } => done(self.transaction(|tx, place| {
                tokens::revoke(tx, id).map_err(|error| to_store_error(place, error))
            })),
            ExclusiveOp::ChangeSecret { change, done } => {
                done(self.transaction(|tx, place| secrets::change(tx, place, &change)));
            }
            ExclusiveOp::Vacuumed { done } => {
                let result = self.connected();
                done(result.and_then(|(engine, connection)| engine.vacuumed(connection)));
            }
        }
    }

    /// Runs `work` in a transaction of its own. After an error of the database the connection is
    /// not used again.
    fn transaction<T>(
        &mut self,
        work: impl FnOnce(&Db<'_>, &str) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let result = self.connected().and_then(|(engine, connection)| {
            engine.write(connection, |db| work(db, engine.place()))
        });
        if !matches!(&result, Ok(_) | Err(StoreError::Overtaken)) {
            self.connection = None;
        }
        result
    }

    fn connected(&mut self) -> Result<(&E, &mut E::Connection), StoreError> {
        if self.connection.is_none() {
            self.connection = Some(self.engine.writer()?);
        }
        let connection = self.connection.as_mut().ok_or(StoreError::Closed)?;
        Ok((&self.engine, connection))
    }
}

/// Writes a group, and returns the epoch in force: writes under another epoch were overtaken.
fn write_group(
    tx: &Db<'_>,
    place: &str,
    group: &[Write],
    broken: Epoch,
    specs: &mut SpecWriter,
) -> Result<Epoch, StoreError> {
    let failed = |error| to_store_error(place, error);
    let mut stored = TransactionRows::new(tx, place, specs);
    let GroupHead { epoch, last_seq } = stored.begin(group.iter().flat_map(Write::facts))?;
    if epoch <= broken {
        return Ok(epoch);
    }
    let mut change_set: Option<ChangeSet> = None;
    let mut renewals = 0_i64;
    for write in group.iter().filter(|write| write.epoch() == epoch) {
        match write {
            Write::Renew { .. } => renewals += 1,
            Write::Commit { batch, wall, .. } => {
                for (fact, by) in batch.requests() {
                    let change_set = match &mut change_set {
                        Some(change_set) => change_set,
                        none => none.insert(ChangeSet::new(Seq(last_seq.0 + 1))),
                    };
                    change_set.apply(&mut stored, epoch, *wall, fact, by)?;
                }
            }
        }
    }
    if renewals > 0 {
        tx.prepare_cached(RENEW)
            .and_then(|mut statement| statement.write([renewals]))
            .map_err(failed)?;
    }
    if let Some(change_set) = change_set {
        write(tx, &change_set, stored.specs).map_err(failed)?;
    }
    Ok(epoch)
}

fn take(tx: &Db<'_>, expected: Epoch, next: Epoch) -> Result<bool, Error> {
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
        "DELETE FROM term WHERE epoch <= (SELECT epoch FROM term ORDER BY epoch DESC \
         LIMIT 1 OFFSET ?1)",
        [i64::try_from(TERMS_MAX).unwrap_or(i64::MAX)],
    )?;
    Ok(true)
}

fn check(tx: &Db<'_>, epoch: Epoch) -> Result<Result<(), StoreError>, Error> {
    let in_force = locked_leadership(tx)?.epoch;
    Ok(if in_force == epoch {
        Ok(())
    } else {
        Err(StoreError::Overtaken)
    })
}
