//! A store for tests with injected faults.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use baton_core::leader::Row;
use baton_core::ledger::StoredRun;
use baton_core::step::Batch;
use baton_model::fact::Fact;
use baton_model::ids::{Epoch, InstanceId, RunId, TokenId};
use baton_model::secret::StoredSecret;
use baton_model::time::Wall;
use baton_model::token::{NewToken, Token};
use baton_store::facts::{FactPage, FactQuery};
use baton_store::followers::FollowerName;
use baton_store::notices::NoticeBatch;
use baton_store::secret::SecretChange;
use baton_store::view::{ItemQuery, ItemRecord, Page, Query, Record, RunQuery, RunRecord, Seq};
use baton_store::{
    CommitCallback, FactLog, Fingerprint, PruneReport, Retention, SnapshotRead, SqliteStore,
    StoreError, TakeOutcome, Views,
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

impl FactLog for Faulty {
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

    fn prune(&self, _: Epoch, _: Wall, _: &Retention, _: usize) -> Result<PruneReport, StoreError> {
        let gone = self.prunes.fetch_add(1, Ordering::SeqCst) + 1;
        Ok(PruneReport {
            more: gone <= self.more.load(Ordering::SeqCst),
            ..PruneReport::default()
        })
    }

    fn record_position(
        &self,
        epoch: Epoch,
        follower: FollowerName,
        seq: Option<Seq>,
    ) -> Result<(), StoreError> {
        self.inner.record_position(epoch, follower, seq)
    }

    fn record_notices(&self, epoch: Epoch, batch: NoticeBatch) -> Result<(), StoreError> {
        self.inner.record_notices(epoch, batch)
    }

    fn create_token(&self, new: &NewToken) -> Result<TokenId, StoreError> {
        self.inner.create_token(new)
    }

    fn revoke_token(&self, id: TokenId) -> Result<Option<Token>, StoreError> {
        self.inner.revoke_token(id)
    }

    fn change_secret(&self, change: SecretChange) -> Result<Option<StoredSecret>, StoreError> {
        self.inner.change_secret(change)
    }
}

impl Views for Faulty {
    fn read_snapshot(&self, read: SnapshotRead<'_>) -> Result<(), StoreError> {
        self.inner.read_snapshot(read)
    }

    fn instance(&self, id: InstanceId) -> Result<Option<Record>, StoreError> {
        self.records_read.fetch_add(1, Ordering::SeqCst);
        self.inner.instance(id)
    }

    fn page(&self, query: &Query) -> Result<Page<Record>, StoreError> {
        Ok(self.counted(self.inner.page(query)?))
    }

    fn facts(&self, query: &FactQuery) -> Result<FactPage, StoreError> {
        self.fact_reads.fetch_add(1, Ordering::SeqCst);
        self.inner.facts(query)
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

    fn run_items(&self, query: &ItemQuery) -> Result<Page<ItemRecord, (u32, u32)>, StoreError> {
        Ok(self.counted(self.inner.run_items(query)?))
    }

    fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        match Self::next(&self.token_reads) {
            Some(_) => Err(StoreError::Failed("injected fault".to_owned())),
            None => self.inner.tokens(),
        }
    }
}
