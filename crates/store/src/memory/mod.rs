//! The memory store: for `--store memory`, and for tests.
//!
//! It keeps every guarantee of [`Store`] except durability: its contents are lost with the process.
//! Clones are handles to the same contents, like two connections to one database. `contents` holds
//! the data and its changes, `reading` the whole history in order and usage, `prune` retention,
//! `tokens` the tokens.

mod contents;
mod library;
mod prune;
mod reading;
mod runs;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_core::leader::Row as Leadership;
use baton_core::ledger::StoredRun;
use baton_core::step::Batch;
use baton_model::fact::Fact;
use baton_model::ids::{Epoch, InstanceId, Revision, RunId, TaskNo, TokenId};
use baton_model::library::TaskName;
use baton_model::state::UniversalState;
use baton_model::time::Wall;
use baton_model::token::{NewToken, Token};
use baton_model::workflow::Plan;

use crate::facts::{FactPage, FactQuery};
use crate::limits::PRUNE_STEP_INSTANCES;
use crate::usage::{Usage, UsageCursor, UsageQuery};
use crate::view::{
    Counts, ErrorCount, ItemQuery, ItemRecord, Page, Query, Record, RecordedFact, RevisionRecord,
    RunQuery, RunRecord, Seq, TaskQuery, TaskRecord, TickQuery,
};
use crate::{CommitCallback, PruneReport, Retention, Store, StoreError, TakeOutcome};
use contents::Contents;
use tokens::Tokens;

/// A store in the memory of this process.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    /// Held while a batch is committed and its callback runs, so that callbacks run in commit
    /// order.
    commit_order: Arc<Mutex<()>>,
    contents: Arc<Mutex<Contents>>,
    tokens: Arc<Mutex<Tokens>>,
}

impl MemoryStore {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        // A thread that panicked while holding the lock had not changed anything yet: changes are
        // collected in a change set first, and writing it cannot fail.
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn credentials(&self) -> MutexGuard<'_, Tokens> {
        // Nothing under the lock can panic half-way through a change.
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn read_row(&self) -> Result<Leadership, StoreError> {
        Ok(self.contents().row)
    }

    fn take(&self, expected: Epoch) -> Result<TakeOutcome, StoreError> {
        let mut contents = self.contents();
        if contents.row.epoch != expected {
            return Ok(TakeOutcome::Overtaken);
        }
        let ledger = contents.ledger()?;
        contents.row = Leadership {
            epoch: expected.next(),
            renewals: 0,
        };
        Ok(TakeOutcome::Won(expected.next(), Box::new(ledger)))
    }

    fn renew(&self, epoch: Epoch) -> Result<(), StoreError> {
        let mut contents = self.contents();
        contents.check(epoch)?;
        contents.row.renewals += 1;
        Ok(())
    }

    fn submit(&self, batch: Batch<Fact>, wall: Wall, done: CommitCallback) {
        let _turn = self
            .commit_order
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let outcome = self.contents().commit(batch, wall);
        done(outcome);
    }

    fn instance(&self, id: InstanceId) -> Result<Option<Record>, StoreError> {
        Ok(self.contents().record(id))
    }

    fn page(&self, query: &Query) -> Result<Page<Record>, StoreError> {
        self.contents().page(query)
    }

    fn timeline(
        &self,
        id: InstanceId,
        after: Option<Seq>,
        limit: usize,
    ) -> Result<Page<RecordedFact, Seq>, StoreError> {
        self.contents().timeline(id, after, limit)
    }

    fn facts(&self, query: &FactQuery) -> Result<FactPage, StoreError> {
        self.contents().facts(query)
    }

    fn usage(&self, query: &UsageQuery) -> Result<Page<Usage, UsageCursor>, StoreError> {
        Ok(self.contents().usage_page(query))
    }

    fn tally(
        &self,
        first: InstanceId,
        last: InstanceId,
    ) -> Result<BTreeMap<UniversalState, u64>, StoreError> {
        Ok(self.contents().tally(first, last))
    }

    fn counts(&self) -> Result<Counts, StoreError> {
        Ok(self.contents().counts.clone())
    }

    fn task(
        &self,
        name: &TaskName,
        revision: Option<Revision>,
    ) -> Result<Option<TaskRecord>, StoreError> {
        Ok(self.contents().library.record(name, revision))
    }

    fn tasks(&self, query: &TaskQuery) -> Result<Page<TaskRecord, TaskName>, StoreError> {
        Ok(self.contents().library.page(query))
    }

    fn task_names(
        &self,
        numbers: &BTreeSet<TaskNo>,
    ) -> Result<BTreeMap<TaskNo, TaskName>, StoreError> {
        Ok(self.contents().library.task_names(numbers))
    }

    fn revisions(
        &self,
        task: TaskNo,
        before: Option<Revision>,
        limit: usize,
    ) -> Result<Page<RevisionRecord, Revision>, StoreError> {
        Ok(self.contents().library.revisions(task, before, limit))
    }

    fn ticks(&self, query: &TickQuery) -> Result<Page<RecordedFact, Seq>, StoreError> {
        self.contents().ticks(query)
    }

    fn run(&self, run: RunId) -> Result<Option<RunRecord>, StoreError> {
        Ok(self.contents().runs.record(run))
    }

    fn runs(&self, query: &RunQuery) -> Result<Page<RunRecord, RunId>, StoreError> {
        Ok(self.contents().runs.page(query))
    }

    fn stored_run(&self, run: RunId) -> Result<Option<StoredRun>, StoreError> {
        Ok(self.contents().runs.stored(run))
    }

    fn plan(&self, run: RunId) -> Result<Option<Arc<Plan>>, StoreError> {
        Ok(self.contents().runs.stored(run).map(|stored| stored.plan))
    }

    fn run_items(&self, query: &ItemQuery) -> Result<Page<ItemRecord, (u32, u32)>, StoreError> {
        Ok(self.contents().run_items(query))
    }

    fn run_errors(&self, run: RunId) -> Result<Vec<ErrorCount>, StoreError> {
        Ok(self.contents().run_errors(run))
    }

    fn prune(
        &self,
        epoch: Epoch,
        now: Wall,
        retention: &Retention,
        budget: usize,
    ) -> Result<PruneReport, StoreError> {
        let mut pruned = PruneReport::default();
        while !retention.keeps_all() {
            let mut contents = self.contents();
            contents.check(epoch)?;
            let room = budget.saturating_sub(pruned.records as usize);
            let step = contents.prune_step(now, retention, room.min(PRUNE_STEP_INSTANCES));
            if step.is_empty() {
                break;
            }
            pruned.add(&step);
            if pruned.records as usize >= budget {
                pruned.more = true;
                break;
            }
        }
        Ok(pruned)
    }

    fn create_token(&self, new: &NewToken) -> Result<TokenId, StoreError> {
        self.credentials().create(new)
    }

    fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        Ok(self.credentials().all())
    }

    fn revoke_token(&self, id: TokenId) -> Result<Option<Token>, StoreError> {
        Ok(self.credentials().revoke(id))
    }
}
