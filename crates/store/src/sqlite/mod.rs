//! The store in one SQLite file.
//!
//! | module | holds |
//! |---|---|
//! | `schema` | settings and migrations |
//! | `queue` | operations queued for the writer |
//! | `writer` | the one writer thread, with group commit |
//! | `stored_rows` | the rows that a group's change set fetches |
//! | `write` | writing a change set |
//! | `specs` | deduplicated specs |
//! | `facts` | the whole history in order |
//! | `usage` | usage by owner and hour |
//! | `tokens` | tokens |
//! | `prune` | removing expired history |
//! | `read` | all other reads, on read-only connections |
//! | `library`, `runs` | tasks of the library, and runs of workflows |
//! | `backfills` | backfills, and launched due times |
//! | `rows` | conversion of columns and errors |
//!
//! Several processes of one host may open the same file: leadership is a row, and its epoch is
//! checked inside every write. The file must be on a local file system, because the WAL's index is
//! shared memory.

mod backfills;
mod facts;
mod library;
mod prune;
mod queue;
mod read;
mod rows;
mod runs;
mod schema;
mod specs;
mod stored_rows;
mod tokens;
mod usage;
mod write;
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
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

use crate::facts::{FactPage, FactQuery};
use crate::limits::PRUNE_STEP_INSTANCES;
use crate::usage::{Usage, UsageCursor, UsageQuery};
use crate::view::{
    BackfillQuery, BackfillRecord, Counts, ErrorCount, ItemQuery, ItemRecord, LaunchRecord, Page,
    Query, Record, RecordedFact, RevisionRecord, RunQuery, RunRecord, Seq, TaskQuery, TaskRecord,
    TickQuery,
};
use crate::{CommitCallback, Fingerprint, PruneReport, Retention, Store, StoreError, TakeOutcome};
use rusqlite::Connection;

use queue::{Callback, ExclusiveOp, Queue, Write};
use read::Readers;
use writer::Writer;

/// The schema version that this Baton writes.
pub const SCHEMA_VERSION: u32 = schema::VERSION;

/// A store in one file, or in memory.
pub struct SqliteStore {
    path: PathBuf,
    /// Keeps a database in memory alive while no other connection is open.
    _anchor: Option<Mutex<Connection>>,
    readers: Readers,
    queue: Arc<Queue>,
    writer: Option<JoinHandle<()>>,
}

impl SqliteStore {
    /// Opens the file, creates it if it is missing, and migrates its schema.
    ///
    /// # Errors
    /// [`StoreError::NewerSchema`] or [`StoreError::Foreign`] if the file is not ours; it is then
    /// left unchanged. Others if it cannot be read or written.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        drop(schema::prepare(path)?);
        Self::start(path, None)
    }

    /// A new store in memory: nothing of it survives the process.
    ///
    /// # Errors
    /// [`StoreError`] if there is no memory or no thread for it.
    pub fn in_memory() -> Result<Self, StoreError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let path = schema::in_memory(COUNT.fetch_add(1, Ordering::Relaxed));
        let anchor = schema::prepare(&path)?;
        Self::start(&path, Some(Mutex::new(anchor)))
    }

    fn start(path: &Path, anchor: Option<Mutex<Connection>>) -> Result<Self, StoreError> {
        let db = schema::writer(path)?;
        let queue = Arc::new(Queue::default());
        let writer = Writer::new(path.to_owned(), db);
        let writer_queue = Arc::clone(&queue);
        let writer = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer.run(&writer_queue))
            .map_err(|error| StoreError::Failed(format!("cannot start the writer: {error}")))?;
        Ok(Self {
            path: path.to_owned(),
            _anchor: anchor,
            readers: Readers::new(path),
            queue,
            writer: Some(writer),
        })
    }

    /// Checks the integrity of every page; the time is proportional to the file's size.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] with the first damage found.
    pub fn check(&self) -> Result<(), StoreError> {
        let found: String = self
            .readers
            .read(|db| db.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)))?;
        if found == "ok" {
            Ok(())
        } else {
            Err(StoreError::Corrupt(format!(
                "{}: {found}",
                self.path.display()
            )))
        }
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
        // For the report only; the next commit fails if the file is gone.
        let sql = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
        let bytes = self
            .readers
            .read(|db| db.query_row(sql, [], |row| row.get(0)));
        bytes.map_or(0, i64::unsigned_abs)
    }

    /// Returns free pages to the file system, step by step.
    fn vacuum(&self, epoch: Epoch) -> Result<(), StoreError> {
        while self.run_exclusive(|done| ExclusiveOp::Vacuum { epoch, done })? {}
        self.run_exclusive(|done| ExclusiveOp::Checkpoint { done })
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

impl Store for SqliteStore {
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

impl Drop for SqliteStore {
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
