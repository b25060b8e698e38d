//! The implementation of [`Store`] on either engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use baton_core::leader::Row;
use baton_core::ledger::StoredRun;
use baton_core::scheduler::KnownLaunches;
use baton_core::step::Batch;
use baton_model::fact::Fact;
use baton_model::ids::{BackfillId, Epoch, InstanceId, Revision, RunId, TaskNo, TokenId};
use baton_model::library::TaskName;
use baton_model::state::UniversalState;
use baton_model::time::Wall;
use baton_model::token::{NewToken, Token};
use baton_model::workflow::Plan;

use super::db::{Db, Error};
use super::queue::{Callback, ExclusiveOp, Queue, Write};
use super::read::Readers;
use super::writer::Writer;
use super::{Engine, backfills, facts, library, read, rows, runs, tokens, usage};
use crate::facts::{FactPage, FactQuery};
use crate::limits::PRUNE_STEP_INSTANCES;
use crate::sharing::Sharing;
use crate::usage::{Usage, UsageCursor, UsageQuery};
use crate::view::{
    BackfillQuery, BackfillRecord, Counts, EndCount, ErrorCount, ItemQuery, ItemRecord,
    LaunchRecord, Page, Query, Record, RecordedFact, RevisionRecord, RunQuery, RunRecord, Seq,
    TaskQuery, TaskRecord, TickQuery,
};
use crate::{CommitCallback, Fingerprint, PruneReport, Retention, Store, StoreError, TakeOutcome};

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

impl<E: Engine> Store for SqlStore<E> {
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

    fn instance(&self, id: InstanceId) -> Result<Option<Record>, StoreError> {
        self.readers.read(|db| rows::find(db, id))
    }

    fn page(&self, query: &Query) -> Result<Page<Record>, StoreError> {
        self.readers.read(|db| read::page(db, query))
    }

    fn timeline(
        &self,
        id: InstanceId,
        after: Option<Seq>,
        limit: usize,
    ) -> Result<Page<RecordedFact, Seq>, StoreError> {
        self.readers.read(|db| read::timeline(db, id, after, limit))
    }

    fn facts(&self, query: &FactQuery) -> Result<FactPage, StoreError> {
        self.readers.read(|db| facts::page(db, query))
    }

    fn usage(&self, query: &UsageQuery) -> Result<Page<Usage, UsageCursor>, StoreError> {
        self.readers.read(|db| usage::page(db, query))
    }

    fn tally(
        &self,
        first: InstanceId,
        last: InstanceId,
    ) -> Result<BTreeMap<UniversalState, u64>, StoreError> {
        self.readers.read(|db| read::tally(db, first, last))
    }

    fn within(
        &self,
        first: InstanceId,
        last: InstanceId,
        states: &[UniversalState],
    ) -> Result<Vec<Record>, StoreError> {
        self.readers
            .read(|db| read::within(db, first, last, states))
    }

    fn counts(&self) -> Result<Counts, StoreError> {
        self.readers.read(read::counts)
    }

    fn task(
        &self,
        name: &TaskName,
        revision: Option<Revision>,
    ) -> Result<Option<TaskRecord>, StoreError> {
        self.readers.read(|db| library::task(db, name, revision))
    }

    fn tasks(&self, query: &TaskQuery) -> Result<Page<TaskRecord, TaskName>, StoreError> {
        self.readers.read(|db| library::tasks(db, query))
    }

    fn task_names(
        &self,
        numbers: &BTreeSet<TaskNo>,
    ) -> Result<BTreeMap<TaskNo, TaskName>, StoreError> {
        self.readers.read(|db| library::names(db, numbers))
    }

    fn revisions(
        &self,
        task: TaskNo,
        before: Option<Revision>,
        limit: usize,
    ) -> Result<Page<RevisionRecord, Revision>, StoreError> {
        self.readers
            .read(|db| library::revisions(db, task, before, limit))
    }

    fn ticks(&self, query: &TickQuery) -> Result<Page<RecordedFact, Seq>, StoreError> {
        self.readers.read(|db| library::ticks(db, query))
    }

    fn known_launches(
        &self,
        task: TaskNo,
        from: Wall,
        to: Wall,
    ) -> Result<KnownLaunches, StoreError> {
        self.readers
            .read(|db| backfills::known_launches(db, task, from, to))
    }

    fn backfill(&self, id: BackfillId) -> Result<Option<BackfillRecord>, StoreError> {
        self.readers.read(|db| backfills::one(db, id))
    }

    fn backfills(
        &self,
        query: &BackfillQuery,
    ) -> Result<Page<BackfillRecord, BackfillId>, StoreError> {
        self.readers.read(|db| backfills::page(db, query))
    }

    fn backfill_launches(
        &self,
        id: BackfillId,
        after: Option<Wall>,
        limit: usize,
    ) -> Result<Page<LaunchRecord, Wall>, StoreError> {
        self.readers
            .read(|db| backfills::launches(db, id, after, limit))
    }

    fn backfill_tally(&self, id: BackfillId) -> Result<BTreeMap<UniversalState, u64>, StoreError> {
        self.readers.read(|db| backfills::tally(db, id))
    }

    fn run(&self, run: RunId) -> Result<Option<RunRecord>, StoreError> {
        self.readers.read(|db| runs::find(db, run))
    }

    fn runs(&self, query: &RunQuery) -> Result<Page<RunRecord, RunId>, StoreError> {
        self.readers.read(|db| runs::page(db, query))
    }

    fn stored_run(&self, run: RunId) -> Result<Option<StoredRun>, StoreError> {
        self.readers.read(|db| runs::stored(db, run))
    }

    fn plan(&self, run: RunId) -> Result<Option<Arc<Plan>>, StoreError> {
        self.readers.read(|db| match runs::head(db, run)? {
            Some(head) => runs::plan(db, &head).map(Some),
            None => Ok(None),
        })
    }

    fn run_items(&self, query: &ItemQuery) -> Result<Page<ItemRecord, (u32, u32)>, StoreError> {
        self.readers.read(|db| runs::items(db, query))
    }

    fn run_ends(&self, run: RunId) -> Result<Vec<EndCount>, StoreError> {
        self.readers.read(|db| runs::ends(db, run))
    }

    fn run_errors(&self, run: RunId) -> Result<Vec<ErrorCount>, StoreError> {
        self.readers.read(|db| runs::errors(db, run))
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

    fn create_token(&self, new: &NewToken) -> Result<TokenId, StoreError> {
        let new = Box::new(new.clone());
        self.run_exclusive(|done| ExclusiveOp::CreateToken { new, done })
    }

    fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        self.readers.read(tokens::all)
    }

    fn revoke_token(&self, id: TokenId) -> Result<Option<Token>, StoreError> {
        self.run_exclusive(|done| ExclusiveOp::RevokeToken { id, done })
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
