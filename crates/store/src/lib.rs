//! Durable state of the scheduler: a fenced log of facts and the tables derived from it.
//!
//! ```text
//!   leader ── submit(batch) ──▶ queue ──▶ writer thread ──▶ one transaction, one fsync
//!     ▲                                        │            epoch checked inside
//!     └───────────── receipt, in order ◀───────┘
//!
//!   API, CLI ── page, timeline, counts ──▶ read-only connections, which never block the writer
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`Store`] | the contract; `tests/conformance` runs it against every backend |
//! | `sql` | what the backends share: statements, writer, reads |
//! | [`sqlite`] | the default backend: one file in the data directory |
//! | [`postgres`] | PostgreSQL, for several schedulers |
//! | `body` | JSON encoding of a fact in the history |
//! | `change_set` | row changes derived from facts by the ledger's own rules, for all backends |
//! | [`data_dir`] | the rights of other users in a data directory |
//! | [`facts`] | pages of the whole history, in commit order |
//! | `retention` | which history expires, and when |
//! | [`sharing`] | what schedulers that share a store learn from each other |
//! | [`transfer`], [`check`] | copies of a whole store, and checks of it |
//! | `tables` | the tables, as they are copied |
//! | [`token`] | secrets of tokens: generation and hashing |
//! | [`usage`] | resource usage by owner and hour |
//! | [`view`] | queries, records and cursors of readers |
//! | [`limits`] | every bound, with its reason |
//!
//! The store decides nothing: `baton_core::ledger` defines what a fact means, `baton_core::leader`
//! who leads. All calls block; an async driver calls from threads of its own. The store reads no
//! clock: wall time comes with the batch.

mod body;
mod change_set;
pub mod check;
pub mod data_dir;
mod error;
pub mod facts;
pub mod limits;
pub mod postgres;
mod retention;
mod schema_version;
pub mod sharing;
mod sql;
pub mod sqlite;
mod tables;
pub mod token;
pub mod transfer;
pub mod usage;
pub mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, mpsc};

use baton_core::leader::Row;
use baton_core::ledger::{Ledger, StoredRun};
use baton_core::scheduler::KnownLaunches;
use baton_core::step::{Batch, Receipt};
use baton_model::fact::Fact;
use baton_model::ids::{BackfillId, Epoch, InstanceId, Revision, RunId, StoreId, TaskNo, TokenId};
use baton_model::library::TaskName;
use baton_model::state::UniversalState;
use baton_model::time::Wall;
use baton_model::token::{NewToken, Token};
use baton_model::workflow::Plan;

pub use error::StoreError;
pub use retention::{PruneReport, Retention};
pub use sqlite::SqliteStore;

use facts::{FactPage, FactQuery};
use sharing::Sharing;
use usage::{Usage, UsageCursor, UsageQuery};
use view::{
    BackfillQuery, BackfillRecord, Counts, EndCount, ErrorCount, ItemQuery, ItemRecord,
    LaunchRecord, Page, Query, Record, RecordedFact, RevisionRecord, RunQuery, RunRecord, Seq,
    TaskQuery, TaskRecord, TickQuery,
};

/// Callback with the outcome of a batch, called once; it is dropped uncalled only if the store's
/// own thread has panicked.
pub type CommitCallback = Box<dyn FnOnce(Result<Receipt, StoreError>) + Send>;

/// Outcome of an attempt to take the leadership row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TakeOutcome {
    /// The caller leads under this epoch; the ledger is the state that earlier leaders have left.
    Won(Epoch, Box<Ledger>),
    /// The row's epoch was not the expected one: another scheduler has taken it.
    Overtaken,
}

/// What tells a store from its copies, and one state of it from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// Copies share it.
    pub store: StoreId,
    /// The last term; 0 before the first.
    pub epoch: Epoch,
    /// The first term since it was last found to be a copy; 0 if it never was.
    pub generation: Epoch,
    /// The number of its last fact.
    pub last_fact: Seq,
}

/// Durable storage of facts, fenced by epoch.
///
/// Guarantees, each checked in `tests/conformance`:
/// * **Fenced.** A write commits only if the store's epoch is the writer's, checked inside the
///   write itself. A deposed leader's write fails, even if it was queued before the row was taken.
/// * **Atomic.** A batch commits completely or not at all.
/// * **Ordered.** Batches of one term commit in the order of [`Store::submit`]. After one has
///   failed, no later batch of that term commits, so the stored facts are always a prefix of the
///   submitted ones. A later term starts afresh. After some failures a batch that was reported as
///   failed may still turn out to be committed.
/// * **Durable.** A receipt is issued when the batch and all batches before it would survive a
///   power loss (with the memory store nothing survives the process).
/// * **Non-blocking reads.** Readers never block the writer.
pub trait Store: Send + Sync {
    /// What the schedulers of a shared store need; `None` if only one process can use the store.
    fn sharing(&self) -> Option<&dyn Sharing> {
        None
    }

    /// Reads the leadership row.
    ///
    /// # Errors
    /// If the row cannot be read.
    fn read_row(&self) -> Result<Row, StoreError>;

    /// Reads the identity and the state of the store.
    ///
    /// # Errors
    /// If it cannot be read.
    fn fingerprint(&self) -> Result<Fingerprint, StoreError>;

    /// Takes the row under the epoch `next` if its epoch still is `expected`, and restores the
    /// ledger: of ended instances only that their ids were used. Every store that is taken, a copy
    /// included, must get an epoch of its own: the caller draws its random bits.
    ///
    /// A `next` that is not above `expected` takes nothing.
    ///
    /// # Errors
    /// If the row cannot be written or the ledger cannot be read. The row may have been taken
    /// nevertheless; taking it again only costs an epoch.
    fn take(&self, expected: Epoch, next: Epoch) -> Result<TakeOutcome, StoreError>;

    /// Counts one renewal of the row, after everything that was submitted before.
    ///
    /// # Errors
    /// [`StoreError::Overtaken`] if the epoch is not in force; others if the row cannot be written.
    fn renew(&self, epoch: Epoch) -> Result<(), StoreError>;

    /// Queues a batch and calls `done` with its outcome; both in submission order. Blocks only
    /// while the queue is full. `done` runs on the store's own thread: it must be quick and must
    /// not call the store.
    fn submit(&self, batch: Batch<Fact>, wall: Wall, done: CommitCallback);

    /// Submits a batch and waits for its outcome.
    ///
    /// # Errors
    /// [`StoreError`] if the batch was not committed, or its outcome is unknown.
    fn commit(&self, batch: Batch<Fact>, wall: Wall) -> Result<Receipt, StoreError> {
        let (sender, outcome) = mpsc::sync_channel(1);
        let done = move |result| {
            // Fails only if the waiting side is gone, and then the outcome is not needed.
            let _ = sender.send(result);
        };
        self.submit(batch, wall, Box::new(done));
        outcome.recv().unwrap_or(Err(StoreError::Closed))
    }

    /// One instance, whether it has a row of its own or belongs to a range.
    fn instance(&self, id: InstanceId) -> Result<Option<Record>, StoreError>;

    /// One page of a view. A record that is in the view while all its pages are read is returned
    /// exactly once, whatever is written meanwhile. Instances of a range without events of their
    /// own come as one record.
    fn page(&self, query: &Query) -> Result<Page<Record>, StoreError>;

    /// The facts about one instance, in order, after the fact `after`: facts about it alone and
    /// about ranges that contain it.
    fn timeline(
        &self,
        id: InstanceId,
        after: Option<Seq>,
        limit: usize,
    ) -> Result<Page<RecordedFact, Seq>, StoreError>;

    /// Facts of all kinds in commit order. A reader that continues at [`FactPage::scanned_to`] gets
    /// every fact exactly once, except those that were pruned.
    fn facts(&self, query: &FactQuery) -> Result<FactPage, StoreError>;

    /// Resource usage by hour and owner. It outlives the history that it is computed from.
    fn usage(&self, query: &UsageQuery) -> Result<Page<Usage, UsageCursor>, StoreError>;

    /// Counts the instances `first` to `last` by state; states with no instance are missing.
    fn tally(
        &self,
        first: InstanceId,
        last: InstanceId,
    ) -> Result<BTreeMap<UniversalState, u64>, StoreError>;

    /// The instances `first` to `last` that are in one of these states, by id.
    fn within(
        &self,
        first: InstanceId,
        last: InstanceId,
        states: &[UniversalState],
    ) -> Result<Vec<Record>, StoreError>;

    /// Counts all instances by state, and the bytes of the history.
    fn counts(&self) -> Result<Counts, StoreError>;

    /// A task of the library: its current revision, or the given one, even if the task was removed.
    fn task(
        &self,
        name: &TaskName,
        revision: Option<Revision>,
    ) -> Result<Option<TaskRecord>, StoreError>;

    /// One page of the tasks in the library, by owner and name.
    fn tasks(&self, query: &TaskQuery) -> Result<Page<TaskRecord, TaskName>, StoreError>;

    /// The names of these tasks, including removed ones.
    fn task_names(
        &self,
        numbers: &BTreeSet<TaskNo>,
    ) -> Result<BTreeMap<TaskNo, TaskName>, StoreError>;

    /// The revisions of a task before `before`, the latest first.
    fn revisions(
        &self,
        task: TaskNo,
        before: Option<Revision>,
        limit: usize,
    ) -> Result<Page<RevisionRecord, Revision>, StoreError>;

    /// Recorded ticks (outcomes of due times), the latest first. A page may hold fewer items than
    /// requested, or none, before the end.
    fn ticks(&self, query: &TickQuery) -> Result<Page<RecordedFact, Seq>, StoreError>;

    /// The due times of an entry in `[from, to)` that have a launch, and what tells whether another
    /// was added since.
    fn known_launches(
        &self,
        task: TaskNo,
        from: Wall,
        to: Wall,
    ) -> Result<KnownLaunches, StoreError>;

    /// A backfill.
    fn backfill(&self, id: BackfillId) -> Result<Option<BackfillRecord>, StoreError>;

    /// One page of backfills, the latest first.
    fn backfills(
        &self,
        query: &BackfillQuery,
    ) -> Result<Page<BackfillRecord, BackfillId>, StoreError>;

    /// The launches of a backfill after the due time `after`, the earliest first.
    fn backfill_launches(
        &self,
        id: BackfillId,
        after: Option<Wall>,
        limit: usize,
    ) -> Result<Page<LaunchRecord, Wall>, StoreError>;

    /// Counts the launches of a backfill by the state of their instances or runs, except those whose
    /// history was removed.
    fn backfill_tally(&self, id: BackfillId) -> Result<BTreeMap<UniversalState, u64>, StoreError>;

    /// The state of a run.
    fn run(&self, run: RunId) -> Result<Option<RunRecord>, StoreError>;

    /// One page of runs, the latest first.
    fn runs(&self, query: &RunQuery) -> Result<Page<RunRecord, RunId>, StoreError>;

    /// A run with its plan and all its ended items: everything needed to resume it.
    fn stored_run(&self, run: RunId) -> Result<Option<StoredRun>, StoreError>;

    /// The plan of a run.
    fn plan(&self, run: RunId) -> Result<Option<Arc<Plan>>, StoreError>;

    /// Items of a run whose instances have ended, by task and item.
    fn run_items(&self, query: &ItemQuery) -> Result<Page<ItemRecord, (u32, u32)>, StoreError>;

    /// Number of ended items of a run, by task and end.
    fn run_ends(&self, run: RunId) -> Result<Vec<EndCount>, StoreError>;

    /// Failures of a run, grouped by task and kind of end, the most frequent first. If a run failed
    /// without being halted by request, halted items are included: otherwise it would show no
    /// cause.
    fn run_errors(&self, run: RunId) -> Result<Vec<ErrorCount>, StoreError>;

    /// Removes what `retention` does not keep, at most `budget` records, in steps so small that
    /// commits pass between them, and returns the space. Only instances in a terminal state are
    /// removed, each with its whole timeline; their ids stay known. The leader must have no facts
    /// in flight about any of them: they would be refused.
    ///
    /// # Errors
    /// [`StoreError::Overtaken`] if the epoch is not in force; others if the store cannot be
    /// written. What earlier steps have removed stays removed.
    fn prune(
        &self,
        epoch: Epoch,
        now: Wall,
        retention: &Retention,
        budget: usize,
    ) -> Result<PruneReport, StoreError>;

    /// Stores a token under a number that was never used before. If there are too many, the oldest
    /// invalid one is removed.
    ///
    /// Tokens do not belong to a term: the leader decides nothing about them, and another process
    /// may create and revoke tokens while a scheduler leads.
    ///
    /// # Errors
    /// [`StoreError::TooManyTokens`] if all of them are valid; others if it cannot be written.
    fn create_token(&self, new: &NewToken) -> Result<TokenId, StoreError>;

    /// All tokens, the oldest first, including expired and revoked ones.
    fn tokens(&self) -> Result<Vec<Token>, StoreError>;

    /// Revokes a token and returns it; `None` if there is no such token.
    fn revoke_token(&self, id: TokenId) -> Result<Option<Token>, StoreError>;
}
