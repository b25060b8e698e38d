//! A store that several schedulers of one process share: SQLite in memory, with sessions, news of
//! commits and announcements beside it. Each scheduler has a [`Session`], which can be cut off or
//! frozen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use baton_core::leader::Row;
use baton_core::ledger::StoredRun;
use baton_core::scheduler::KnownLaunches;
use baton_core::step::Batch;
use baton_model::fact::Fact;
use baton_model::ids::{BackfillId, Epoch, InstanceId, Revision, RunId, TaskNo, TokenId};
use baton_model::library::TaskName;
use baton_model::state::UniversalState;
use baton_model::time::{Millis, Wall};
use baton_model::token::{NewToken, Token};
use baton_model::workflow::Plan;
use baton_store::facts::{FactPage, FactQuery};
use baton_store::sharing::{Announced, Announcement, Sharing};
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

/// The database.
pub(crate) struct Shared {
    store: SqliteStore,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The session that leads.
    leads: Option<u64>,
    sessions: u64,
    cut: BTreeSet<u64>,
    frozen: BTreeSet<u64>,
    hung: BTreeSet<u64>,
    history: History,
    commits: u64,
    announced: BTreeMap<String, (Announcement, Instant, Instant)>,
}

/// What the database tells of commits that it may have lost.
#[derive(Clone, Copy, Default)]
pub(crate) enum History {
    #[default]
    Whole,
    Broken,
    Unreadable,
}

impl Shared {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            store: SqliteStore::in_memory().expect("there is memory"),
            state: Mutex::default(),
            changed: Condvar::new(),
        })
    }

    /// The store, as another scheduler opens it.
    pub(crate) fn open(self: &Arc<Self>) -> Arc<Session> {
        let mut state = self.lock();
        state.sessions += 1;
        Arc::new(Session {
            shared: Arc::clone(self),
            id: state.sessions,
            seen: Mutex::new(state.commits),
        })
    }

    pub(crate) fn set_history(&self, history: History) {
        self.change(|state| state.history = history);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("sound")
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Waits until `check` says yes, at most `wait`.
    fn wait_for(&self, wait: Duration, mut check: impl FnMut(&mut State) -> bool) -> bool {
        let until = Instant::now() + wait;
        let mut state = self.lock();
        loop {
            if check(&mut state) {
                return true;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.changed.wait_timeout(state, left).expect("sound").0;
        }
    }
}

/// The connection of one scheduler.
pub(crate) struct Session {
    shared: Arc<Shared>,
    id: u64,
    /// Commits that it has been told of.
    seen: Mutex<u64>,
}

impl Session {
    /// Ends the session, and lets everything that it does fail: its scheduler is killed, or its
    /// network is.
    pub(crate) fn cut(&self) {
        self.shared.change(|state| {
            state.cut.insert(self.id);
            if state.leads == Some(self.id) {
                state.leads = None;
            }
        });
    }

    /// Lets its scheduler reach the store again.
    pub(crate) fn reconnect(&self) {
        self.shared.change(|state| {
            state.cut.remove(&self.id);
        });
    }

    /// Blocks its writes; the session still leads.
    pub(crate) fn freeze(&self) {
        self.shared.change(|state| {
            state.frozen.insert(self.id);
        });
    }

    pub(crate) fn thaw(&self) {
        self.shared.change(|state| {
            state.frozen.remove(&self.id);
            state.hung.remove(&self.id);
        });
    }

    /// Lets its renewals wait, and nothing else, until it thaws.
    pub(crate) fn hang_renewals(&self) {
        self.shared.change(|state| {
            state.hung.insert(self.id);
        });
    }

    fn reach(&self) -> Result<&SqliteStore, StoreError> {
        if self.shared.lock().cut.contains(&self.id) {
            return Err(StoreError::Failed("the connection is lost".to_owned()));
        }
        Ok(&self.shared.store)
    }

    /// Reaches the store for a write.
    fn reach_to_write(&self) -> Result<&SqliteStore, StoreError> {
        let thawed = |state: &mut State| !state.frozen.contains(&self.id);
        while !self.shared.wait_for(Duration::from_secs(60), thawed) {}
        self.reach()
    }
}

impl Sharing for Session {
    fn await_vacancy(&self, wait: Duration) -> Result<bool, StoreError> {
        self.reach()?;
        let vacant = self.shared.wait_for(wait, |state| {
            if state.cut.contains(&self.id) {
                return true;
            }
            let leads = *state.leads.get_or_insert(self.id);
            leads == self.id
        });
        self.reach()?;
        Ok(vacant)
    }

    fn depose(&self) -> Result<(), StoreError> {
        self.reach()?;
        self.shared.change(|state| state.leads = Some(self.id));
        Ok(())
    }

    fn release(&self) -> Result<(), StoreError> {
        self.reach()?;
        self.shared.change(|state| {
            if state.leads == Some(self.id) {
                state.leads = None;
            }
        });
        Ok(())
    }

    fn await_commit(&self, wait: Duration) -> Result<bool, StoreError> {
        self.reach()?;
        let mut seen = self.seen.lock().expect("sound");
        let news = |state: &mut State| {
            let before = std::mem::replace(&mut *seen, state.commits);
            state.commits > before
        };
        Ok(self.shared.wait_for(wait, news))
    }

    fn has_broken_history(&self) -> Result<bool, StoreError> {
        self.reach()?;
        match self.shared.lock().history {
            History::Whole => Ok(false),
            History::Broken => Ok(true),
            History::Unreadable => Err(StoreError::Failed("the connection is lost".to_owned())),
        }
    }

    fn announce(&self, scheduler: &Announcement) -> Result<(), StoreError> {
        self.reach()?;
        let now = Instant::now();
        self.shared.change(|state| {
            let entry = state.announced.entry(scheduler.name.clone());
            let entry = entry.or_insert((scheduler.clone(), now, now));
            (entry.0, entry.1) = (scheduler.clone(), now);
        });
        Ok(())
    }

    fn withdraw(&self, name: &str) -> Result<(), StoreError> {
        self.reach()?;
        self.shared.change(|state| {
            state.announced.remove(name);
        });
        Ok(())
    }

    fn announced(&self) -> Result<Vec<Announced>, StoreError> {
        self.reach()?;
        let age = |at: &Instant| Millis(at.elapsed().as_millis() as u64);
        let state = self.shared.lock();
        let all = state.announced.values();
        let all = all.map(|(scheduler, renewed, first)| Announced {
            scheduler: scheduler.clone(),
            age: age(renewed),
            started: age(first),
        });
        Ok(all.collect())
    }
}

impl Store for Session {
    fn sharing(&self) -> Option<&dyn Sharing> {
        Some(self)
    }

    fn read_row(&self) -> Result<Row, StoreError> {
        self.reach()?.read_row()
    }

    fn fingerprint(&self) -> Result<Fingerprint, StoreError> {
        self.reach()?.fingerprint()
    }

    fn take(&self, expected: Epoch, next: Epoch) -> Result<TakeOutcome, StoreError> {
        self.reach_to_write()?.take(expected, next)
    }

    fn renew(&self, epoch: Epoch) -> Result<(), StoreError> {
        let answered = |state: &mut State| !state.hung.contains(&self.id);
        while !self.shared.wait_for(Duration::from_secs(60), answered) {}
        self.reach_to_write()?.renew(epoch)
    }

    fn submit(&self, batch: Batch<Fact>, wall: Wall, done: CommitCallback) {
        match self.reach_to_write() {
            Ok(store) => {
                let shared = Arc::clone(&self.shared);
                let done = Box::new(move |result: Result<_, StoreError>| {
                    if result.is_ok() {
                        shared.change(|state| state.commits += 1);
                    }
                    done(result);
                });
                store.submit(batch, wall, done);
            }
            Err(error) => done(Err(error)),
        }
    }

    fn instance(&self, id: InstanceId) -> Result<Option<Record>, StoreError> {
        self.reach()?.instance(id)
    }

    fn page(&self, query: &Query) -> Result<Page<Record>, StoreError> {
        self.reach()?.page(query)
    }

    fn timeline(
        &self,
        id: InstanceId,
        after: Option<Seq>,
        limit: usize,
    ) -> Result<Page<RecordedFact, Seq>, StoreError> {
        self.reach()?.timeline(id, after, limit)
    }

    fn facts(&self, query: &FactQuery) -> Result<FactPage, StoreError> {
        self.reach()?.facts(query)
    }

    fn usage(&self, query: &UsageQuery) -> Result<Page<Usage, UsageCursor>, StoreError> {
        self.reach()?.usage(query)
    }

    fn tally(
        &self,
        first: InstanceId,
        last: InstanceId,
    ) -> Result<BTreeMap<UniversalState, u64>, StoreError> {
        self.reach()?.tally(first, last)
    }

    fn within(
        &self,
        first: InstanceId,
        last: InstanceId,
        states: &[UniversalState],
    ) -> Result<Vec<Record>, StoreError> {
        self.reach()?.within(first, last, states)
    }

    fn counts(&self) -> Result<Counts, StoreError> {
        self.reach()?.counts()
    }

    fn task(
        &self,
        name: &TaskName,
        revision: Option<Revision>,
    ) -> Result<Option<TaskRecord>, StoreError> {
        self.reach()?.task(name, revision)
    }

    fn tasks(&self, query: &TaskQuery) -> Result<Page<TaskRecord, TaskName>, StoreError> {
        self.reach()?.tasks(query)
    }

    fn task_names(
        &self,
        numbers: &BTreeSet<TaskNo>,
    ) -> Result<BTreeMap<TaskNo, TaskName>, StoreError> {
        self.reach()?.task_names(numbers)
    }

    fn revisions(
        &self,
        task: TaskNo,
        before: Option<Revision>,
        limit: usize,
    ) -> Result<Page<RevisionRecord, Revision>, StoreError> {
        self.reach()?.revisions(task, before, limit)
    }

    fn ticks(&self, query: &TickQuery) -> Result<Page<RecordedFact, Seq>, StoreError> {
        self.reach()?.ticks(query)
    }

    fn known_launches(
        &self,
        task: TaskNo,
        from: Wall,
        to: Wall,
    ) -> Result<KnownLaunches, StoreError> {
        self.reach()?.known_launches(task, from, to)
    }

    fn backfill(&self, id: BackfillId) -> Result<Option<BackfillRecord>, StoreError> {
        self.reach()?.backfill(id)
    }

    fn backfills(
        &self,
        query: &BackfillQuery,
    ) -> Result<Page<BackfillRecord, BackfillId>, StoreError> {
        self.reach()?.backfills(query)
    }

    fn backfill_launches(
        &self,
        id: BackfillId,
        after: Option<Wall>,
        limit: usize,
    ) -> Result<Page<LaunchRecord, Wall>, StoreError> {
        self.reach()?.backfill_launches(id, after, limit)
    }

    fn backfill_tally(&self, id: BackfillId) -> Result<BTreeMap<UniversalState, u64>, StoreError> {
        self.reach()?.backfill_tally(id)
    }

    fn run(&self, run: RunId) -> Result<Option<RunRecord>, StoreError> {
        self.reach()?.run(run)
    }

    fn runs(&self, query: &RunQuery) -> Result<Page<RunRecord, RunId>, StoreError> {
        self.reach()?.runs(query)
    }

    fn stored_run(&self, run: RunId) -> Result<Option<StoredRun>, StoreError> {
        self.reach()?.stored_run(run)
    }

    fn plan(&self, run: RunId) -> Result<Option<Arc<Plan>>, StoreError> {
        self.reach()?.plan(run)
    }

    fn run_items(&self, query: &ItemQuery) -> Result<Page<ItemRecord, (u32, u32)>, StoreError> {
        self.reach()?.run_items(query)
    }

    fn run_ends(&self, run: RunId) -> Result<Vec<EndCount>, StoreError> {
        self.reach()?.run_ends(run)
    }

    fn run_errors(&self, run: RunId) -> Result<Vec<ErrorCount>, StoreError> {
        self.reach()?.run_errors(run)
    }

    fn prune(
        &self,
        epoch: Epoch,
        now: Wall,
        retention: &Retention,
        budget: usize,
    ) -> Result<PruneReport, StoreError> {
        self.reach()?.prune(epoch, now, retention, budget)
    }

    fn create_token(&self, new: &NewToken) -> Result<TokenId, StoreError> {
        self.reach()?.create_token(new)
    }

    fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        self.reach()?.tokens()
    }

    fn revoke_token(&self, id: TokenId) -> Result<Option<Token>, StoreError> {
        self.reach()?.revoke_token(id)
    }
}
