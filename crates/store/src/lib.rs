//! Keeps what the scheduler's facts add up to, and serves it to readers.
//!
//! ```text
//!   leader ── submit(batch) ──▶ queue ──▶ writer thread ──▶ one transaction, one fsync
//!     ▲                                        │            epoch checked inside
//!     └───────────── receipt, in order ◀───────┘
//!
//!   API, CLI ── page, timeline, counts ──▶ read-only connections, never in its way
//! ```
//!
//! | module | holds |
//! |---|---|
//! | [`Store`] | the contract; `tests/conformance` tries it on every backend |
//! | [`sqlite`] | the default: one file in the data directory |
//! | [`memory`] | the same without a file, for `--store memory` and tests |
//! | `body` | a fact as it stands in the history |
//! | `draft` | from facts to changed rows, by the ledger's own rules, for all backends |
//! | [`facts`] | the whole history in order |
//! | `retention` | what may go, and when |
//! | [`token`] | the secrets of tokens: drawn, and hashed |
//! | [`usage`] | what was used, by owner and hour |
//! | [`view`] | what readers ask for and get |
//! | [`limits`] | every bound, with its reason |
//!
//! It decides nothing: what a fact means is `baton_core::ledger`, who leads is
//! `baton_core::leader`. All calls block; an async driver calls from threads of its
//! own. There is no clock in here: wall time comes with the batch.

mod body;
mod draft;
mod error;
pub mod facts;
pub mod limits;
pub mod memory;
mod retention;
pub mod sqlite;
pub mod token;
pub mod usage;
pub mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, mpsc};

use baton_core::leader::Row;
use baton_core::ledger::{Ledger, StoredRun};
use baton_core::step::{Batch, Receipt};
use baton_model::fact::Fact;
use baton_model::ids::{Epoch, InstanceId, Revision, RunId, TaskNo, TokenId};
use baton_model::library::TaskName;
use baton_model::state::UniversalState;
use baton_model::time::Wall;
use baton_model::token::{NewToken, Token};
use baton_model::workflow::Plan;

pub use error::StoreError;
pub use memory::MemoryStore;
pub use retention::{PruneReport, Retention};
pub use sqlite::SqliteStore;

use facts::{FactPage, FactQuery};
use usage::{Usage, UsageCursor, UsageQuery};
use view::{
    Counts, ErrorCount, ItemQuery, ItemRecord, Page, Query, Record, RecordedFact, RevisionRecord,
    RunQuery, RunRecord, Seq, TaskQuery, TaskRecord, TickQuery,
};

/// Called once with what became of a batch; dropped uncalled only if the store's own
/// thread has panicked.
pub type CommitCallback = Box<dyn FnOnce(Result<Receipt, StoreError>) + Send>;

/// What became of an attempt to lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TakeOutcome {
    /// The row is ours, under this epoch; this is what the leaders before left.
    Won(Epoch, Box<Ledger>),
    /// The row had moved on.
    Overtaken,
}

/// Where facts are kept, and who may write them.
///
/// The promises, each a check in `tests/conformance`:
/// * **Fenced.** A write lands only if the store's epoch is the writer's, checked
///   inside the write itself. A deposed leader's write fails, also if it had been
///   queued before the row was taken.
/// * **Atomic.** A batch lands whole or not at all.
/// * **Ordered.** Batches of one term land in the order of [`Store::submit`]. After
///   one has failed nothing of that term lands any more, so that what is kept is
///   always a prefix of what was submitted. A later term starts afresh. A batch
///   that failed may, for some failures, still turn out to have landed.
/// * **Durable.** A receipt is given when the batch, and all before it, would
///   survive the loss of power (of the process' memory, for the memory store:
///   nothing).
/// * **Out of the way.** Readers never hold up the writer.
pub trait Store: Send + Sync {
    /// The leadership row.
    ///
    /// # Errors
    /// Where the row cannot be read.
    fn read_row(&self) -> Result<Row, StoreError>;

    /// Takes the row if its epoch still is `expected`, and reads what a leader has to
    /// know: of what has ended only that its ids were used.
    ///
    /// # Errors
    /// Where the row cannot be written or the rest not be read. The row may have
    /// been taken all the same; taking it again costs only an epoch.
    fn take(&self, expected: Epoch) -> Result<TakeOutcome, StoreError>;

    /// Counts one renewal of the row, behind what was submitted before.
    ///
    /// # Errors
    /// [`StoreError::Overtaken`] if the epoch is not this one; others if it cannot
    /// be written.
    fn renew(&self, epoch: Epoch) -> Result<(), StoreError>;

    /// Puts a batch behind those before it, and calls `done` with its fate, in the
    /// same order. Blocks only while the queue is full. `done` runs on the store's
    /// own thread: it must be quick, and must not call the store.
    fn submit(&self, batch: Batch<Fact>, wall: Wall, done: CommitCallback);

    /// Submits a batch and waits for it.
    ///
    /// # Errors
    /// [`StoreError`] if it did not land, or cannot be known to have.
    fn commit(&self, batch: Batch<Fact>, wall: Wall) -> Result<Receipt, StoreError> {
        let (tell, told) = mpsc::sync_channel(1);
        let done = move |fate| {
            // Only fails if the waiting side is gone, and then nobody wants to know.
            let _ = tell.send(fate);
        };
        self.submit(batch, wall, Box::new(done));
        told.recv().unwrap_or(Err(StoreError::Closed))
    }

    /// One instance, whether it has a story of its own or is one of a range.
    ///
    /// # Errors
    /// Where it cannot be read.
    fn instance(&self, id: InstanceId) -> Result<Option<Record>, StoreError>;

    /// One page of a view. What is in the view while all its pages are read is
    /// returned exactly once, whatever is written meanwhile. Instances of a range that
    /// nothing else has happened to come as one record.
    ///
    /// # Errors
    /// Where it cannot be read.
    fn page(&self, query: &Query) -> Result<Page<Record>, StoreError>;

    /// What happened to one instance, in order, from the fact behind `after` on: facts
    /// about it alone, and about ranges that it is in.
    ///
    /// # Errors
    /// Where it cannot be read.
    fn timeline(
        &self,
        id: InstanceId,
        after: Option<Seq>,
        limit: usize,
    ) -> Result<Page<RecordedFact, Seq>, StoreError>;

    /// Facts in the order in which they landed, whatever they are about. Whoever goes on from
    /// where a page has looked to gets every fact once, but for those that were pruned.
    ///
    /// # Errors
    /// Where they cannot be read.
    fn facts(&self, query: &FactQuery) -> Result<FactPage, StoreError>;

    /// What was used, by hour and owner. It outlives the history it comes from.
    ///
    /// # Errors
    /// Where it cannot be read.
    fn usage(&self, query: &UsageQuery) -> Result<Page<Usage, UsageCursor>, StoreError>;

    /// How many of `first` to `last` are in which state; a state without any is missing.
    ///
    /// # Errors
    /// Where it cannot be read.
    fn tally(
        &self,
        first: InstanceId,
        last: InstanceId,
    ) -> Result<BTreeMap<UniversalState, u64>, StoreError>;

    /// How many instances are in which state, and how large the history is.
    ///
    /// # Errors
    /// Where it cannot be read.
    fn counts(&self) -> Result<Counts, StoreError>;

    /// A task of the library as it is now; or in one of its revisions, also if it was removed.
    ///
    /// # Errors
    /// Where it cannot be read.
    fn task(
        &self,
        name: &TaskName,
        revision: Option<Revision>,
    ) -> Result<Option<TaskRecord>, StoreError>;

    /// One page of the tasks that are in the library, by owner and name.
    ///
    /// # Errors
    /// Where it cannot be read.
    fn tasks(&self, query: &TaskQuery) -> Result<Page<TaskRecord, TaskName>, StoreError>;

    /// What these tasks are called, removed ones included.
    ///
    /// # Errors
    /// Where it cannot be read.
    fn task_names(
        &self,
        numbers: &BTreeSet<TaskNo>,
    ) -> Result<BTreeMap<TaskNo, TaskName>, StoreError>;

    /// The revisions of a task before this one, the latest first.
    ///
    /// # Errors
    /// Where they cannot be read.
    fn revisions(
        &self,
        task: TaskNo,
        before: Option<Revision>,
        limit: usize,
    ) -> Result<Page<RevisionRecord, Revision>, StoreError>;

    /// What became of due times, the latest first. A page may hold fewer than asked for, or
    /// none, before the end.
    ///
    /// # Errors
    /// Where it cannot be read.
    fn ticks(&self, query: &TickQuery) -> Result<Page<RecordedFact, Seq>, StoreError>;

    /// Where a run stands.
    ///
    /// # Errors
    /// Where it cannot be read.
    fn run(&self, run: RunId) -> Result<Option<RunRecord>, StoreError>;

    /// One page of runs, the latest first.
    ///
    /// # Errors
    /// Where they cannot be read.
    fn runs(&self, query: &RunQuery) -> Result<Page<RunRecord, RunId>, StoreError>;

    /// A run with its plan and everything that has ended of it, so that it can go on.
    ///
    /// # Errors
    /// Where it cannot be read.
    fn stored_run(&self, run: RunId) -> Result<Option<StoredRun>, StoreError>;

    /// What a run carries out.
    ///
    /// # Errors
    /// Where it cannot be read.
    fn plan(&self, run: RunId) -> Result<Option<Arc<Plan>>, StoreError>;

    /// Items of a run whose instances have ended, by task and item.
    ///
    /// # Errors
    /// Where they cannot be read.
    fn run_items(&self, query: &ItemQuery) -> Result<Page<ItemRecord, (u32, u32)>, StoreError>;

    /// Failures of a run that are alike, the most frequent first. Where the run itself has
    /// failed and nobody had it stopped, what was stopped of it is told, too: without it such a
    /// run may seem to have failed for nothing.
    ///
    /// # Errors
    /// Where they cannot be read.
    fn run_errors(&self, run: RunId) -> Result<Vec<ErrorCount>, StoreError>;

    /// Removes what `retention` does not want to keep, at most `budget` records,
    /// in steps so small that commits pass between them, and gives the space back.
    /// Only instances at rest in a terminal state go, each with its whole timeline;
    /// their ids stay known. A leader must not have made facts about one of them that
    /// are still under way: they would be refused.
    ///
    /// # Errors
    /// [`StoreError::Overtaken`] if the epoch is not this one; others if it cannot
    /// be written. What earlier steps have removed stays removed.
    fn prune(
        &self,
        epoch: Epoch,
        now: Wall,
        retention: &Retention,
        budget: usize,
    ) -> Result<PruneReport, StoreError>;

    /// Keeps a token under a number that was never used before. Where there are too many,
    /// the oldest that is not valid any more goes.
    ///
    /// Tokens are not bound to a term: they are no part of what a leader decides, and may be
    /// made and revoked beside a leader, by another process.
    ///
    /// # Errors
    /// [`StoreError::TooManyTokens`] if all of them are valid; others if it cannot be
    /// written.
    fn create_token(&self, new: &NewToken) -> Result<TokenId, StoreError>;

    /// Every token, the oldest first, also those that are worth nothing any more.
    ///
    /// # Errors
    /// Where they cannot be read.
    fn tokens(&self) -> Result<Vec<Token>, StoreError>;

    /// Says that a token is worth nothing any more, and gives it; `None` if there is no such
    /// token.
    ///
    /// # Errors
    /// Where it cannot be written.
    fn revoke_token(&self, id: TokenId) -> Result<Option<Token>, StoreError>;
}
