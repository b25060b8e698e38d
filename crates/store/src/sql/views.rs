//! The queries of readers, over the snapshots of either engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_core::ledger::StoredRun;
use baton_core::scheduler::KnownLaunches;
use baton_model::fleet::{FleetJob, FleetName};
use baton_model::ids::{BackfillId, InstanceId, JobId, Revision, RunId, TaskNo};
use baton_model::library::TaskName;
use baton_model::measurement::TaskPath;
use baton_model::secret::{SealedSecret, SecretName, StoredSecret};
use baton_model::state::UniversalState;
use baton_model::time::Wall;
use baton_model::token::Token;
use baton_model::workflow::Plan;

use super::db::{Db, Error};
use super::{
    alarms, backfills, facts, fleets, followers, library, measurements, notices, read, rows, runs,
    secrets, tokens, usage,
};
use crate::StoreError;
use crate::facts::{FactPage, FactQuery};
use crate::followers::FollowerName;
use crate::measurements::{TaskUsage, TaskUsageQuery};
use crate::notices::{DeliveryTally, DueDeliveries, NoticePosition, NoticeQuery, NoticeRecord};
use crate::usage::{Usage, UsageCursor, UsageQuery};
use crate::view::{
    AlarmPage, BackfillQuery, BackfillRecord, Counts, EndCount, ErrorCount, ItemQuery, ItemRecord,
    LaunchRecord, Page, Query, Record, RecordedFact, RevisionRecord, RunQuery, RunRecord, Seq,
    Stretch, TaskQuery, TaskRecord, TickQuery,
};

type Work<'a> = Box<dyn FnOnce(&Db<'_>) -> Result<(), Error> + 'a>;

/// A query that waits for a snapshot. Only a store of this crate can run it; another one passes it
/// on.
pub struct SnapshotRead<'a>(Work<'a>);

impl SnapshotRead<'_> {
    pub(super) fn run(self, db: &Db<'_>) -> Result<(), Error> {
        (self.0)(db)
    }
}

/// The reading side of a store: pages, records and counts for the API and the CLI.
///
/// Readers never block the writer. A query reads one snapshot; two queries may read two.
///
/// A store supplies the snapshots, and every query is written once, on top of them. A store that
/// wraps another passes [`Views::read_snapshot`] on and overrides only the queries that it changes.
///
/// # Errors
/// Every query fails if the store cannot be read, or holds what this version cannot decode.
pub trait Views: Send + Sync {
    /// Runs a query on a snapshot of the committed facts and their tables.
    fn read_snapshot(&self, read: SnapshotRead<'_>) -> Result<(), StoreError>;

    /// One instance, whether it has a row of its own or belongs to a range.
    fn instance(&self, id: InstanceId) -> Result<Option<Record>, StoreError> {
        on_snapshot(self, |db| rows::find(db, id))
    }

    /// One page of a view. A record that is in the view while all its pages are read is returned
    /// exactly once, whatever is written meanwhile. Instances of a range without events of their
    /// own come as one record.
    fn page(&self, query: &Query) -> Result<Page<Record>, StoreError> {
        on_snapshot(self, |db| read::page(db, query))
    }

    /// The facts about one instance, in order, after the fact `after`: facts about it alone and
    /// about ranges that contain it.
    fn timeline(
        &self,
        id: InstanceId,
        after: Option<Seq>,
        limit: usize,
    ) -> Result<Page<RecordedFact, Seq>, StoreError> {
        on_snapshot(self, |db| read::timeline(db, id, after, limit))
    }

    /// Facts of all kinds in commit order. A reader that continues at [`FactPage::scanned_to`] gets
    /// every fact exactly once, except those that were pruned.
    fn facts(&self, query: &FactQuery) -> Result<FactPage, StoreError> {
        on_snapshot(self, |db| facts::page(db, query))
    }

    /// Resource usage by hour and owner. It outlives the history that it is computed from.
    fn usage(&self, query: &UsageQuery) -> Result<Page<Usage, UsageCursor>, StoreError> {
        on_snapshot(self, |db| usage::page(db, query))
    }

    /// What the last attempts of each task have used, by owner, workflow and task.
    fn task_usage(&self, query: &TaskUsageQuery) -> Result<Page<TaskUsage, TaskPath>, StoreError> {
        on_snapshot(self, |db| measurements::page(db, query))
    }

    /// Counts the instances `first` to `last` by state; states with no instance are missing.
    fn tally(
        &self,
        first: InstanceId,
        last: InstanceId,
    ) -> Result<BTreeMap<UniversalState, u64>, StoreError> {
        on_snapshot(self, |db| read::tally(db, first, last))
    }

    /// The instances `first` to `last` that are in one of these states, by id: at most `limit`.
    fn within(
        &self,
        first: InstanceId,
        last: InstanceId,
        states: &[UniversalState],
        limit: usize,
    ) -> Result<Vec<Record>, StoreError> {
        on_snapshot(self, |db| read::within(db, first, last, states, limit))
    }

    /// The states of the instances `first` to `last`, by id.
    fn stretches(&self, first: InstanceId, last: InstanceId) -> Result<Vec<Stretch>, StoreError> {
        on_snapshot(self, |db| read::stretches(db, first, last))
    }

    /// Counts all instances by state, and the bytes of the history.
    fn counts(&self) -> Result<Counts, StoreError> {
        on_snapshot(self, read::counts)
    }

    /// A task of the library: its current revision, or the given one, even if the task was removed.
    fn task(
        &self,
        name: &TaskName,
        revision: Option<Revision>,
    ) -> Result<Option<TaskRecord>, StoreError> {
        on_snapshot(self, |db| library::task(db, name, revision))
    }

    /// One page of the tasks in the library, by owner and name.
    fn tasks(&self, query: &TaskQuery) -> Result<Page<TaskRecord, TaskName>, StoreError> {
        on_snapshot(self, |db| library::tasks(db, query))
    }

    /// The names of these tasks, including removed ones.
    fn task_names(
        &self,
        numbers: &BTreeSet<TaskNo>,
    ) -> Result<BTreeMap<TaskNo, TaskName>, StoreError> {
        on_snapshot(self, |db| library::names(db, numbers))
    }

    /// The revisions of a task before `before`, the latest first.
    fn revisions(
        &self,
        task: TaskNo,
        before: Option<Revision>,
        limit: usize,
    ) -> Result<Page<RevisionRecord, Revision>, StoreError> {
        on_snapshot(self, |db| library::revisions(db, task, before, limit))
    }

    /// Recorded ticks (outcomes of due times), the latest first. A page may hold fewer items than
    /// requested, or none, before the end.
    fn ticks(&self, query: &TickQuery) -> Result<Page<RecordedFact, Seq>, StoreError> {
        on_snapshot(self, |db| library::ticks(db, query))
    }

    /// The due times of an entry in `[from, to)` that have a launch, and what tells whether another
    /// was added since.
    fn known_launches(
        &self,
        task: TaskNo,
        from: Wall,
        to: Wall,
    ) -> Result<KnownLaunches, StoreError> {
        on_snapshot(self, |db| backfills::known_launches(db, task, from, to))
    }

    /// One page of the jobs of a fleet, the latest first, before this one.
    fn fleet_jobs(
        &self,
        fleet: &FleetName,
        before: Option<JobId>,
        limit: usize,
    ) -> Result<Page<FleetJob, JobId>, StoreError> {
        on_snapshot(self, |db| fleets::jobs(db, fleet, before, limit))
    }

    /// The jobs of all fleets that ran at some time since then, by id: those that have not ended, and the latest of the
    /// others.
    fn fleet_jobs_since(&self, since: Wall) -> Result<Vec<FleetJob>, StoreError> {
        on_snapshot(self, |db| fleets::jobs_since(db, since))
    }

    /// Where the follower of notifications continues.
    fn notice_position(&self) -> Result<NoticePosition, StoreError> {
        on_snapshot(self, notices::position)
    }

    /// Where a follower continues; none before its first start.
    fn follower_position(&self, follower: FollowerName) -> Result<Option<Seq>, StoreError> {
        on_snapshot(self, |db| followers::position(db, follower))
    }

    /// One page of notices, the latest first.
    fn notices(&self, query: &NoticeQuery) -> Result<Page<NoticeRecord, u64>, StoreError> {
        on_snapshot(self, |db| notices::page(db, query))
    }

    /// Deliveries of a channel that are due: of each series the first one only.
    fn due_deliveries(
        &self,
        channel: &str,
        now: Wall,
        limit: usize,
    ) -> Result<DueDeliveries, StoreError> {
        on_snapshot(self, |db| notices::due(db, channel, now, limit))
    }

    /// Counts deliveries by channel and state.
    fn delivery_tallies(&self) -> Result<Vec<DeliveryTally>, StoreError> {
        on_snapshot(self, notices::tallies)
    }

    /// The oldest open alarms of an owner, or of all, and their numbers by kind.
    fn alarms(&self, owner: Option<&str>, limit: usize) -> Result<AlarmPage, StoreError> {
        on_snapshot(self, |db| alarms::page(db, owner, limit))
    }

    /// Number of the instances `first` to `last` that have not ended, and the last fact that it includes.
    fn live(&self, first: InstanceId, last: InstanceId) -> Result<(Seq, u64), StoreError> {
        on_snapshot(self, |db| notices::live(db, first, last))
    }

    /// A backfill.
    fn backfill(&self, id: BackfillId) -> Result<Option<BackfillRecord>, StoreError> {
        on_snapshot(self, |db| backfills::one(db, id))
    }

    /// One page of backfills, the latest first.
    fn backfills(
        &self,
        query: &BackfillQuery,
    ) -> Result<Page<BackfillRecord, BackfillId>, StoreError> {
        on_snapshot(self, |db| backfills::page(db, query))
    }

    /// The launches of a backfill after the due time `after`, the earliest first.
    fn backfill_launches(
        &self,
        id: BackfillId,
        after: Option<Wall>,
        limit: usize,
    ) -> Result<Page<LaunchRecord, Wall>, StoreError> {
        on_snapshot(self, |db| backfills::launches(db, id, after, limit))
    }

    /// Counts the launches of a backfill by the state of their instances or runs, except those whose
    /// history was removed.
    fn backfill_tally(&self, id: BackfillId) -> Result<BTreeMap<UniversalState, u64>, StoreError> {
        on_snapshot(self, |db| backfills::tally(db, id))
    }

    /// The state of a run.
    fn run(&self, run: RunId) -> Result<Option<RunRecord>, StoreError> {
        on_snapshot(self, |db| runs::find(db, run))
    }

    /// One page of runs, the latest first.
    fn runs(&self, query: &RunQuery) -> Result<Page<RunRecord, RunId>, StoreError> {
        on_snapshot(self, |db| runs::page(db, query))
    }

    /// A run with its plan and all its ended items: everything needed to resume it.
    fn stored_run(&self, run: RunId) -> Result<Option<StoredRun>, StoreError> {
        on_snapshot(self, |db| runs::stored(db, run))
    }

    /// The plan of a run.
    fn plan(&self, run: RunId) -> Result<Option<Arc<Plan>>, StoreError> {
        on_snapshot(self, |db| match runs::head(db, run)? {
            Some(head) => runs::plan(db, &head).map(Some),
            None => Ok(None),
        })
    }

    /// Items of a run whose instances have ended, by task and item.
    fn run_items(&self, query: &ItemQuery) -> Result<Page<ItemRecord, (u32, u32)>, StoreError> {
        on_snapshot(self, |db| runs::items(db, query))
    }

    /// Number of ended items of a run, by task and end.
    fn run_ends(&self, run: RunId) -> Result<Vec<EndCount>, StoreError> {
        on_snapshot(self, |db| runs::ends(db, run))
    }

    /// Failures of a run, grouped by task and kind of end, the most frequent first. If a run failed
    /// without being halted by request, halted items are included: otherwise it would show no
    /// cause.
    fn run_errors(&self, run: RunId) -> Result<Vec<ErrorCount>, StoreError> {
        on_snapshot(self, |db| runs::errors(db, run))
    }

    /// All tokens, the oldest first, including expired and revoked ones.
    fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        on_snapshot(self, tokens::all)
    }

    /// All secrets, by owner and name, without their values.
    fn secrets(&self) -> Result<Vec<StoredSecret>, StoreError> {
        on_snapshot(self, secrets::all)
    }

    /// All secrets with their encrypted values.
    fn sealed_secrets(&self) -> Result<Vec<SealedSecret>, StoreError> {
        on_snapshot(self, secrets::all_sealed)
    }

    /// One secret with its encrypted value.
    fn sealed_secret(
        &self,
        owner: &str,
        name: &SecretName,
    ) -> Result<Option<SealedSecret>, StoreError> {
        on_snapshot(self, |db| secrets::sealed_of(db, owner, name))
    }
}

/// Runs `work` on a snapshot and returns its result.
pub(crate) fn on_snapshot<T>(
    views: &(impl Views + ?Sized),
    work: impl FnOnce(&Db<'_>) -> Result<T, Error>,
) -> Result<T, StoreError> {
    let mut found = None;
    views.read_snapshot(SnapshotRead(Box::new(|db| {
        found = Some(work(db)?);
        Ok(())
    })))?;
    // A store that reports success without a snapshot has no result to give.
    found.ok_or(StoreError::Closed)
}
