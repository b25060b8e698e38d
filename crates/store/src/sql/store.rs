//! The implementation of [`FactLog`] and [`Views`] on either engine.

use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use baton_core::leader::Row;
use baton_core::step::Batch;
use baton_model::fact::Fact;
use baton_model::ids::{Epoch, TokenId};
use baton_model::secret::StoredSecret;
use baton_model::time::Wall;
use baton_model::token::{NewToken, Token};

use super::db::{Db, Error};
use super::queue::{Callback, ExclusiveOp, Queue, Write};
use super::read::Readers;
use super::views::{SnapshotRead, Views};
use super::writer::Writer;
use super::{Engine, read, rows};
use crate::followers::FollowerName;
use crate::limits::PRUNE_STEP_INSTANCES;
use crate::notices::NoticeBatch;
use crate::secret::SecretChange;
use crate::sharing::Sharing;
use crate::view::Seq;
use crate::{
    CommitCallback, FactLog, Fingerprint, PruneReport, Retention, StoreError, TakeOutcome,
};

/// A store in an SQL database.
pub struct SqlStore<E: Engine> {
    engine: Arc<E>,
    readers: Readers<E>,
    queue: Arc<Queue>,
    writer: Option<JoinHandle<()>>,
}

impl<E: Engine> SqlStore<E> {
    /// Starts the writer of a database whose schema is up to date.
    pub(crate) fn start(engine: E) -> Result<Self, StoreError> {
        let engine = Arc::new(engine);
        let queue = Arc::new(Queue::default());
        let writer = Writer::new(Arc::clone(&engine))?;
        let writer_queue = Arc::clone(&queue);
        let writer = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer.run(&writer_queue))
            .map_err(|error| StoreError::Failed(format!("cannot start the writer: {error}")))?;
        Ok(Self {
            readers: Readers::new(Arc::clone(&engine)),
            engine,
            queue,
            writer: Some(writer),
        })
    }

    pub(crate) fn engine(&self) -> &E {
        &self.engine
    }

    /// Reads on a snapshot.
    pub(crate) fn read<T>(
        &self,
        work: impl FnOnce(&Db<'_>) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        self.readers.read(work)
    }

    /// Runs an operation on the writer thread, in a transaction of its own, and waits for it.
    fn run_exclusive<T: Send + 'static>(
        &self,
        op: impl FnOnce(Callback<T>) -> ExclusiveOp,
    ) -> Result<T, StoreError> {
        let (done, outcome) = callback();
        self.queue.push_exclusive(op(done));
        outcome.recv().unwrap_or(Err(StoreError::Closed))
    }

    fn size(&self) -> u64 {
        // For the report only; the next commit fails if the database is gone.
        let bytes = self.readers.read(|db| self.engine.size(db));
        bytes.unwrap_or_default()
    }

    /// Returns free space, step by step.
    fn vacuum(&self, epoch: Epoch) -> Result<(), StoreError> {
        while self.run_exclusive(|done| ExclusiveOp::Vacuum { epoch, done })? {}
        self.run_exclusive(|done| ExclusiveOp::Vacuumed { done })
    }
}

/// A callback, and the channel on which its result arrives.
fn callback<T: Send + 'static>() -> (Callback<T>, mpsc::Receiver<Result<T, StoreError>>) {
    let (sender, receiver) = mpsc::sync_channel(1);
    let done = move |outcome| {
        // Fails only if the waiting side is gone, and then the outcome is not needed.
        let _ = sender.send(outcome);
    };
    (Box::new(done), receiver)
}

impl<E: Engine> FactLog for SqlStore<E> {
    fn sharing(&self) -> Option<&dyn Sharing> {
        self.engine.sharing()
    }

    fn read_row(&self) -> Result<Row, StoreError> {
        self.readers.read(rows::leadership)
    }

    fn fingerprint(&self) -> Result<Fingerprint, StoreError> {
        self.readers.read(read::fingerprint)
    }

    fn take(&self, expected: Epoch, next: Epoch) -> Result<TakeOutcome, StoreError> {
        let take = |done| ExclusiveOp::Take {
            expected,
            next,
            done,
        };
        if next <= expected || !self.run_exclusive(take)? {
            return Ok(TakeOutcome::Overtaken);
        }
        // Only this store may write under the new epoch, so this reads exactly what earlier leaders
        // left.
        match self.readers.read(|db| read::ledger(db, next))? {
            Some(ledger) => Ok(TakeOutcome::Won(next, Box::new(ledger?))),
            None => Ok(TakeOutcome::Overtaken),
        }
    }

    fn renew(&self, epoch: Epoch) -> Result<(), StoreError> {
        let (done, outcome) = callback();
        self.queue.push_write(Write::Renew { epoch, done });
        outcome.recv().unwrap_or(Err(StoreError::Closed))
    }

    fn submit(&self, batch: Batch<Fact>, wall: Wall, done: CommitCallback) {
        self.queue.push_write(Write::Commit { batch, wall, done });
    }

    fn prune(
        &self,
        epoch: Epoch,
        now: Wall,
        retention: &Retention,
        budget: usize,
    ) -> Result<PruneReport, StoreError> {
        let mut pruned = PruneReport::default();
        let size = self.size();
        while !retention.keeps_all() {
            let room = budget.saturating_sub(pruned.records as usize);
            let step = self.run_exclusive(|done| ExclusiveOp::Prune {
                epoch,
                now,
                retention: *retention,
                limit: room.min(PRUNE_STEP_INSTANCES),
                done,
            })?;
            if step.is_empty() {
                break;
            }
            pruned.add(&step);
            if pruned.records as usize >= budget {
                pruned.more = true;
                break;
            }
        }
        if !pruned.is_empty() {
            self.vacuum(epoch)?;
        }
        pruned.returned = size.saturating_sub(self.size());
        Ok(pruned)
    }

    fn record_notices(&self, epoch: Epoch, batch: NoticeBatch) -> Result<(), StoreError> {
        let batch = Box::new(batch);
        self.run_exclusive(|done| ExclusiveOp::RecordNotices { epoch, batch, done })
    }

    fn record_position(
        &self,
        epoch: Epoch,
        follower: FollowerName,
        seq: Option<Seq>,
    ) -> Result<(), StoreError> {
        self.run_exclusive(|done| ExclusiveOp::RecordPosition {
            epoch,
            follower,
            seq,
            done,
        })
    }

    fn create_token(&self, new: &NewToken) -> Result<TokenId, StoreError> {
        let new = Box::new(new.clone());
        self.run_exclusive(|done| ExclusiveOp::CreateToken { new, done })
    }

    fn revoke_token(&self, id: TokenId) -> Result<Option<Token>, StoreError> {
        self.run_exclusive(|done| ExclusiveOp::RevokeToken { id, done })
    }

    fn change_secret(&self, change: SecretChange) -> Result<Option<StoredSecret>, StoreError> {
        let change = Box::new(change);
        self.run_exclusive(|done| ExclusiveOp::ChangeSecret { change, done })
    }
}

impl<E: Engine> Views for SqlStore<E> {
    fn read_snapshot(&self, read: SnapshotRead<'_>) -> Result<(), StoreError> {
        self.readers.read(|db| read.run(db))
    }
}

impl<E: Engine> Drop for SqlStore<E> {
    /// Writes everything that was submitted.
    fn drop(&mut self) {
        // The last connection to close checkpoints the WAL, and must be able to.
        self.readers.close();
        self.queue.close();
        if let Some(writer) = self.writer.take()
            // A callback may own the last handle, and a thread cannot join itself.
            && writer.thread().id() != thread::current().id()
        {
            // If it has panicked, it has failed all queued operations; the panic was printed.
            let _ = writer.join();
        }
    }
}
