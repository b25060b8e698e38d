//! A store for tests with injected faults.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

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
use baton_store::facts::{FactPage, FactQuery};
use baton_store::usage::{Usage, UsageCursor, UsageQuery};
use baton_store::view::{
    BackfillQuery, BackfillRecord, Counts, EndCount, ErrorCount, ItemQuery, ItemRecord,
    LaunchRecord, Page, Query, Record, RecordedFact, RevisionRecord, RunQuery, RunRecord, Seq,
    TaskQuery, TaskRecord, TickQuery,
};
use baton_store::{
    CommitCallback, Fingerprint, PruneReport, Retention, SqliteStore, Store, StoreError,
    TakeOutcome,
};

/// What goes wrong with an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// It returns an error.
    Fails,
    /// It panics.
    Panics,
    /// The thread of the store has died.
    Closed,
}

/// A store in memory whose next operations fail as configured.
pub(crate) struct Faulty {
    inner: SqliteStore,
    pub(crate) commits: Mutex<VecDeque<Fault>>,
    pub(crate) takes: Mutex<VecDeque<Fault>>,
    pub(crate) token_reads: Mutex<VecDeque<Fault>>,
    /// Number of prunes that report more to remove.
    pub(crate) more: AtomicUsize,
    pub(crate) prunes: AtomicUsize,
    pub(crate) fact_reads: AtomicUsize,
    pub(crate) kept_run_reads: AtomicUsize,
    /// Instances, runs and items of runs that were read.
    pub(crate) records_read: AtomicUsize,
}

impl Default for Faulty {
    fn default() -> Self {
        Self {
            inner: SqliteStore::in_memory().expect("there is memory"),
            commits: Mutex::default(),
            takes: Mutex::default(),
            token_reads: Mutex::default(),
            more: AtomicUsize::default(),
            prunes: AtomicUsize::default(),
            fact_reads: AtomicUsize::default(),
            kept_run_reads: AtomicUsize::default(),
            records_read: AtomicUsize::default(),
        }
    }
}

impl Faulty {
    fn next(faults: &Mutex<VecDeque<Fault>>) -> Option<Fault> {
        faults.lock().expect("not poisoned").pop_front()
    }

    /// Counts what a page has, and the query itself.
    fn counted<T, C>(&self, page: Page<T, C>) -> Page<T, C> {
        let read = page.items.len() + 1;
        self.records_read.fetch_add(read, Ordering::SeqCst);
        page
    }
}

impl Store for Faulty {
    fn read_row(&self) -> Result<Row, StoreError> {
        self.inner.read_row()
    }

    fn fingerprint(&self) -> Result<Fingerprint, StoreError> {
        self.inner.fingerprint()
    }

    fn take(&self, expected: Epoch, next: Epoch) -> Result<TakeOutcome, StoreError> {
        match Self::next(&self.takes) {
            Some(Fault::Fails) => Err(StoreError::Failed("injected fault".to_owned())),
            Some(Fault::Panics) => panic!("injected fault"),
            Some(Fault::Closed) => Err(StoreError::Closed),
            None => self.inner.take(expected, next),
        }
    }

    fn renew(&self, epoch: Epoch) -> Result<(), StoreError> {
        self.inner.renew(epoch)
    }

    fn submit(&self, batch: Batch<Fact>, wall: Wall, done: CommitCallback) {
        match Self::next(&self.commits) {
            Some(Fault::Fails) => done(Err(StoreError::Failed("injected fault".to_owned()))),
            Some(Fault::Panics | Fault::Closed) => drop(done),
            None => self.inner.submit(batch, wall, done),
        }
    }

    fn instance(&self, id: InstanceId) -> Result<Option<Record>, StoreError> {
        self.records_read.fetch_add(1, Ordering::SeqCst);
        self.inner.instance(id)
    }

    fn page(&self, query: &Query) -> Result<Page<Record>, StoreError> {
        Ok(self.counted(self.inner.page(query)?))
    }

    fn timeline(
        &self,
        id: InstanceId,
        after: Option<Seq>,
        limit: usize,
    ) -> Result<Page<RecordedFact, Seq>, StoreError> {
        self.inner.timeline(id, after, limit)
    }

    fn facts(&self, query: &FactQuery) -> Result<FactPage, StoreError> {
        self.fact_reads.fetch_add(1, Ordering::SeqCst);
        self.inner.facts(query)
    }

    fn usage(&self, query: &UsageQuery) -> Result<Page<Usage, UsageCursor>, StoreError> {
        self.inner.usage(query)
    }

    fn tally(
        &self,
        first: InstanceId,
        last: InstanceId,
    ) -> Result<BTreeMap<UniversalState, u64>, StoreError> {
        self.inner.tally(first, last)
    }

    fn within(
        &self,
        first: InstanceId,
        last: InstanceId,
        states: &[UniversalState],
    ) -> Result<Vec<Record>, StoreError> {
        self.inner.within(first, last, states)
    }

    fn counts(&self) -> Result<Counts, StoreError> {
        self.inner.counts()
    }

    fn task(
        &self,
        name: &TaskName,
        revision: Option<Revision>,
    ) -> Result<Option<TaskRecord>, StoreError> {
        self.inner.task(name, revision)
    }

    fn tasks(&self, query: &TaskQuery) -> Result<Page<TaskRecord, TaskName>, StoreError> {
        self.inner.tasks(query)
    }

    fn task_names(
        &self,
        numbers: &BTreeSet<TaskNo>,
    ) -> Result<BTreeMap<TaskNo, TaskName>, StoreError> {
        self.inner.task_names(numbers)
    }

    fn revisions(
        &self,
        task: TaskNo,
        before: Option<Revision>,
        limit: usize,
    ) -> Result<Page<RevisionRecord, Revision>, StoreError> {
        self.inner.revisions(task, before, limit)
    }

    fn ticks(&self, query: &TickQuery) -> Result<Page<RecordedFact, Seq>, StoreError> {
        self.inner.ticks(query)
    }

    fn known_launches(
        &self,
        task: TaskNo,
        from: Wall,
        to: Wall,
    ) -> Result<KnownLaunches, StoreError> {
        self.inner.known_launches(task, from, to)
    }

    fn backfill(&self, id: BackfillId) -> Result<Option<BackfillRecord>, StoreError> {
        self.inner.backfill(id)
    }

    fn backfills(
        &self,
        query: &BackfillQuery,
    ) -> Result<Page<BackfillRecord, BackfillId>, StoreError> {
        self.inner.backfills(query)
    }

    fn backfill_launches(
        &self,
        id: BackfillId,
        after: Option<Wall>,
        limit: usize,
    ) -> Result<Page<LaunchRecord, Wall>, StoreError> {
        self.inner.backfill_launches(id, after, limit)
    }

    fn backfill_tally(&self, id: BackfillId) -> Result<BTreeMap<UniversalState, u64>, StoreError> {
        self.inner.backfill_tally(id)
    }

    fn run(&self, run: RunId) -> Result<Option<RunRecord>, StoreError> {
        self.records_read.fetch_add(1, Ordering::SeqCst);
        self.inner.run(run)
    }

    fn runs(&self, query: &RunQuery) -> Result<Page<RunRecord, RunId>, StoreError> {
        Ok(self.counted(self.inner.runs(query)?))
    }

    fn stored_run(&self, run: RunId) -> Result<Option<StoredRun>, StoreError> {
        self.kept_run_reads.fetch_add(1, Ordering::SeqCst);
        self.inner.stored_run(run)
    }

    fn plan(&self, run: RunId) -> Result<Option<Arc<Plan>>, StoreError> {
        self.inner.plan(run)
    }

    fn run_items(&self, query: &ItemQuery) -> Result<Page<ItemRecord, (u32, u32)>, StoreError> {
        Ok(self.counted(self.inner.run_items(query)?))
    }

    fn run_ends(&self, run: RunId) -> Result<Vec<EndCount>, StoreError> {
        self.inner.run_ends(run)
    }

    fn run_errors(&self, run: RunId) -> Result<Vec<ErrorCount>, StoreError> {
        self.inner.run_errors(run)
    }

    fn prune(&self, _: Epoch, _: Wall, _: &Retention, _: usize) -> Result<PruneReport, StoreError> {
        let gone = self.prunes.fetch_add(1, Ordering::SeqCst) + 1;
        Ok(PruneReport {
            more: gone <= self.more.load(Ordering::SeqCst),
            ..PruneReport::default()
        })
    }

    fn create_token(&self, new: &NewToken) -> Result<TokenId, StoreError> {
        self.inner.create_token(new)
    }

    fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        match Self::next(&self.token_reads) {
            Some(_) => Err(StoreError::Failed("injected fault".to_owned())),
            None => self.inner.tokens(),
        }
    }

    fn revoke_token(&self, id: TokenId) -> Result<Option<Token>, StoreError> {
        self.inner.revoke_token(id)
    }
}
