//! A store that several schedulers of one process share: SQLite in memory, with sessions, news of
//! commits and announcements beside it. Each scheduler has a [`Session`], which can be cut off or
//! frozen.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use baton_core::leader::Row;
use baton_core::step::Batch;
use baton_model::fact::Fact;
use baton_model::ids::{Epoch, TokenId};
use baton_model::secret::StoredSecret;
use baton_model::time::{Millis, Wall};
use baton_model::token::{NewToken, Token};
use baton_store::followers::FollowerName;
use baton_store::notices::NoticeBatch;
use baton_store::secret::SecretChange;
use baton_store::sharing::{Announced, Announcement, Sharing};
use baton_store::view::Seq;
use baton_store::{
    CommitCallback, FactLog, Fingerprint, PruneReport, Retention, SnapshotRead, SqliteStore,
    StoreError, TakeOutcome, Views,
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

impl FactLog for Session {
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

    fn prune(
        &self,
        epoch: Epoch,
        now: Wall,
        retention: &Retention,
        budget: usize,
    ) -> Result<PruneReport, StoreError> {
        self.reach()?.prune(epoch, now, retention, budget)
    }

    fn record_position(
        &self,
        epoch: Epoch,
        follower: FollowerName,
        seq: Option<Seq>,
    ) -> Result<(), StoreError> {
        self.reach()?.record_position(epoch, follower, seq)
    }

    fn record_notices(&self, epoch: Epoch, batch: NoticeBatch) -> Result<(), StoreError> {
        self.reach()?.record_notices(epoch, batch)
    }

    fn create_token(&self, new: &NewToken) -> Result<TokenId, StoreError> {
        self.reach()?.create_token(new)
    }

    fn revoke_token(&self, id: TokenId) -> Result<Option<Token>, StoreError> {
        self.reach()?.revoke_token(id)
    }

    fn change_secret(&self, change: SecretChange) -> Result<Option<StoredSecret>, StoreError> {
        self.reach()?.change_secret(change)
    }
}

impl Views for Session {
    fn read_snapshot(&self, read: SnapshotRead<'_>) -> Result<(), StoreError> {
        self.reach()?.read_snapshot(read)
    }
}
