//! Row changes derived from a group of facts.
//!
//! A change set is the part of the ledger that a group of facts touches: each instance is fetched
//! with the first fact about it and changed by `Ledger::apply` itself, so that rows and ledger
//! cannot disagree. However many facts a group has about an instance, its row is written once.
//! Nothing outside the change set changes until the backend writes it.
//!
//! Some state that the ledger drops must stay in the store; it is tracked here: halted ranges
//! (`spans`), and the ids of ended instances (`known`).
//!
//! Specs pass through by id. No fact depends on the content of a spec (its verdict is part of the
//! fact), so fetched instances enter the ledger with an empty one.

mod changes;
mod fleets;
mod known;
mod library;
mod runs;
mod spans;
mod usage;

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_core::ledger::{Instance, Ledger, LedgerError, Range, RunHead};
use baton_core::limits::ArrayLimits;
use baton_model::alarm::{Alarm, AlarmKey};
use baton_model::backfill::Backfill;
use baton_model::conditions::ArrayLimit;
use baton_model::fact::{Fact, Verdict};
use baton_model::ids::{
    AttemptNo, BackfillId, Epoch, Incarnation, InstanceId, RunId, TaskNo, WorkerName,
};
use baton_model::library::TaskName;
use baton_model::principal::{NameOwner, Principal};
use baton_model::rate::LimitValue;
use baton_model::spec::InstanceSpec;
use baton_model::state::UniversalState;
use baton_model::time::Wall;
use baton_model::workflow::ItemEnd;

use crate::measurements::MeasurementDeltas;
use crate::usage::Claim;
use crate::view::{LastEnd, Seq};
use crate::{StoreError, body};

use fleets::FleetChanges;
use known::KnownIds;
use library::TaskChanges;
use runs::RunChanges;
use spans::SpanSet;

pub(crate) use changes::InstanceChange;
pub(crate) use fleets::StoredFleets;
pub(crate) use known::{Ids, KnownRanges};
pub(crate) use library::{NewKey, NewLaunch, NewRevision, StoredTask};
pub(crate) use runs::RunChange;
pub(crate) use spans::{Lifecycle, Span, SpanChange, length, split_by_sign};
pub(crate) use usage::UsageDeltas;

/// Id of a spec: the number of the fact that carried it, so that it is unique.
pub(crate) type SpecId = i64;

/// The rows of a backend, as a change set fetches them.
pub(crate) trait StoredRows {
    /// Adds the spec of `uses` instances that the fact `seq` carries; returns its id and its
    /// bytes.
    fn add_spec(
        &mut self,
        seq: Seq,
        spec: &Arc<InstanceSpec>,
        uses: u64,
    ) -> Result<(SpecId, u64), StoreError>;
    /// The owner, resource claim and run item of a spec.
    fn claim(&mut self, spec: SpecId) -> Result<Arc<Claim>, StoreError>;
    /// An instance with a row of its own; its spec may be any.
    fn row(&mut self, id: InstanceId) -> Result<Option<Row>, StoreError>;
    /// The range that contains the id.
    fn span(&mut self, id: InstanceId) -> Result<Option<Span>, StoreError>;
    /// QUEUED ranges that overlap this one.
    fn queued_spans(
        &mut self,
        first: InstanceId,
        last: InstanceId,
    ) -> Result<Vec<Span>, StoreError>;
    /// QUEUED instances with rows of their own.
    fn queued_rows(&mut self, first: InstanceId, last: InstanceId) -> Result<Vec<Row>, StoreError>;
    /// Known ids that overlap this range.
    fn known_ranges(
        &mut self,
        first: InstanceId,
        last: InstanceId,
    ) -> Result<KnownRanges, StoreError>;
    fn condemned(&mut self) -> Result<Vec<Incarnation>, StoreError>;
    /// A task of the library.
    fn task(&mut self, number: TaskNo) -> Result<Option<StoredTask>, StoreError>;
    /// The number of the task with this name.
    fn task_named(&mut self, name: &TaskName) -> Result<Option<TaskNo>, StoreError>;
    /// A backfill.
    fn backfill(&mut self, id: BackfillId) -> Result<Option<Backfill>, StoreError>;
    /// The highest id of a backfill ever used.
    fn last_backfill(&mut self) -> Result<BackfillId, StoreError>;
    /// Fleets, and their jobs that have not ended.
    fn fleets(&mut self) -> Result<StoredFleets, StoreError>;
    fn run(&mut self, run: RunId) -> Result<Option<RunHead>, StoreError>;
    /// The highest run id ever used.
    fn last_run(&mut self) -> Result<RunId, StoreError>;
}

/// An instance with a row of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) instance: Instance,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) last: Option<LastEnd>,
    /// When the open lease was granted.
    pub(crate) leased_at: Option<Wall>,
}

/// A fact to append to the history.
#[derive(Debug)]
pub(crate) struct HistoryEntry {
    pub(crate) seq: Seq,
    pub(crate) at: Wall,
    pub(crate) epoch: Epoch,
    /// The instances that it is about.
    pub(crate) instances: Option<Ids>,
    /// The task of the library that it is about.
    pub(crate) task: Option<TaskNo>,
    pub(crate) spec: Option<SpecId>,
    pub(crate) body: String,
    /// The client that has asked for it, as JSON.
    pub(crate) requested_by: Option<String>,
    /// Bytes of the body, the client and the spec.
    pub(crate) bytes: u64,
}

impl HistoryEntry {
    /// The instance, if it is about exactly one.
    pub(crate) fn single_instance(&self) -> Option<InstanceId> {
        self.instances
            .and_then(|(first, last)| (first == last).then_some(first))
    }
}

/// The columns of a touched instance that the ledger does not hold, and its state before, if it had
/// a row.
#[derive(Debug)]
struct TouchedRow {
    before: Option<UniversalState>,
    lifecycle: Lifecycle,
    last: Option<LastEnd>,
    leased_at: Option<Wall>,
}

/// Facts that are applied but not yet written.
#[derive(Debug)]
pub(crate) struct ChangeSet {
    ledger: Ledger,
    touched: BTreeMap<InstanceId, TouchedRow>,
    spans: SpanSet,
    known: KnownIds,
    condemned_before: Option<Vec<Incarnation>>,
    drained: BTreeMap<WorkerName, bool>,
    name_owners: BTreeMap<WorkerName, Option<NameOwner>>,
    limits: BTreeMap<String, Option<LimitValue>>,
    array_limits: ArrayLimits,
    shares: BTreeMap<String, u32>,
    alarms: BTreeMap<AlarmKey, Option<Alarm>>,
    lease_time_set: bool,
    /// The first term of the store's generation, and whether it is settled, if a fact has set them.
    generation: Option<(Epoch, bool)>,
    tasks: TaskChanges,
    fleets: FleetChanges,
    runs: RunChanges,
    usage: UsageDeltas,
    measured: MeasurementDeltas,
    entries: Vec<HistoryEntry>,
    next: Seq,
    no_spec: Arc<InstanceSpec>,
}

impl ChangeSet {
    /// An empty change set whose first fact gets the number `next`.
    pub(crate) fn new(next: Seq) -> Self {
        Self {
            ledger: Ledger::default(),
            touched: BTreeMap::new(),
            spans: SpanSet::default(),
            known: KnownIds::default(),
            condemned_before: None,
            drained: BTreeMap::new(),
            name_owners: BTreeMap::new(),
            limits: BTreeMap::new(),
            array_limits: ArrayLimits::new(),
            shares: BTreeMap::new(),
            alarms: BTreeMap::new(),
            lease_time_set: false,
            generation: None,
            tasks: TaskChanges::default(),
            fleets: FleetChanges::default(),
            runs: RunChanges::default(),
            usage: UsageDeltas::new(),
            measured: MeasurementDeltas::new(),
            entries: Vec::new(),
            next,
            no_spec: Arc::default(),
        }
    }

    /// Applies one fact that a client has asked for, if it is known. After an error the change set must be discarded.
    pub(crate) fn apply(
        &mut self,
        stored: &mut impl StoredRows,
        epoch: Epoch,
        at: Wall,
        fact: &Fact,
        by: Option<&Arc<Principal>>,
    ) -> Result<(), StoreError> {
        let spec = self.change(stored, at, fact)?;
        if let (Fact::RunRegistered { run, .. }, Some(by)) = (fact, by) {
            self.runs.submitted(*run, by);
        }
        let body = body::write(fact, spec.is_some())?;
        let requested_by = by.map(|by| body::write_requester(by)).transpose()?;
        let by_bytes = requested_by.as_ref().map_or(0, String::len);
        let (spec, spec_bytes) = spec.unzip();
        self.entries.push(HistoryEntry {
            seq: self.next,
            at,
            epoch,
            instances: fact.instances(),
            task: fact.task(),
            spec,
            bytes: (body.len() + by_bytes) as u64 + spec_bytes.unwrap_or(0),
            body,
            requested_by,
        });
        self.next = Seq(self.next.0 + 1);
        Ok(())
    }

    /// Applies a fact to the ledger and records the rest. Returns the spec that the fact carries,
    /// and its bytes.
    fn change(
        &mut self,
        stored: &mut impl StoredRows,
        at: Wall,
        fact: &Fact,
    ) -> Result<Option<(SpecId, u64)>, StoreError> {
        match fact {
            Fact::InstancesSubmitted {
                first, last, spec, ..
            } => {
                self.ledger.apply(fact)?;
                self.known.claim(stored, *first, *last)?;
                let spec = stored.add_spec(self.next, spec, length(*first, *last))?;
                let lifecycle = Lifecycle::submitted(spec.0, at, self.next);
                self.spans.insert_submitted(*first, *last, &lifecycle);
                return Ok(Some(spec));
            }
            Fact::AttemptAdopted { lease, spec, .. } => {
                return self.adopt(stored, at, fact, lease.attempt.instance, spec);
            }
            Fact::InstancesHalted { first, last, .. } if first != last => {
                self.halt(stored, at, fact, *first, *last)?;
            }
            Fact::AttemptEnded {
                lease,
                end,
                stats,
                verdict,
                outputs,
                stderr_tail,
                progress,
                ..
            } => {
                let id = lease.attempt.instance;
                self.fetch(stored, id)?;
                self.count(stored, at, fact, id)?;
                if let Some(end) = item_end(*verdict) {
                    self.end_item(stored, id, end, outputs.as_ref())?;
                }
                let open = self.ledger.open_lease(*lease);
                let last = open.map(|open| LastEnd {
                    lease: *lease,
                    worker: open.holder.worker.clone(),
                    end: *end,
                    stats: *stats,
                    stderr_tail: stderr_tail.clone(),
                    progress: progress.clone(),
                });
                self.apply_to_one(at, fact, id)?;
                if let Some(touched) = self.touched.get_mut(&id) {
                    touched.last = last;
                }
            }
            Fact::LeaseGranted { .. }
            | Fact::AttemptConfirmed { .. }
            | Fact::StopRequested { .. }
            | Fact::AttemptKillRequested { .. }
            | Fact::MemberLost { .. }
            | Fact::InstancesHalted { .. }
            | Fact::InstanceRetried { .. } => {
                if let Some((id, _)) = fact.instances() {
                    self.fetch(stored, id)?;
                    self.count(stored, at, fact, id)?;
                    if matches!(fact, Fact::InstancesHalted { .. }) {
                        self.end_item(stored, id, ItemEnd::Halted, None)?;
                    }
                    self.apply_to_one(at, fact, id)?;
                }
            }
            Fact::WorkerDrained {
                worker, drained, ..
            } => {
                self.ledger.apply(fact)?;
                self.drained.insert(worker.clone(), *drained);
            }
            Fact::WorkerNameAssigned { worker, owner } => {
                self.name_owners.insert(worker.clone(), owner.clone());
            }
            Fact::LimitSet { name, total, rate } => {
                let rate = *rate;
                let value = total.map(|total| LimitValue { total, rate });
                self.limits.insert(name.clone(), value);
            }
            Fact::ArrayLimitSet { first, last, total } => {
                let (last, total) = (*last, *total);
                self.array_limits.insert(*first, ArrayLimit { last, total });
            }
            Fact::ShareSet { owner, weight } => {
                self.shares.insert(owner.clone(), *weight);
            }
            Fact::AlarmRaised(alarm) => {
                self.alarms.insert(alarm.key(), Some((**alarm).clone()));
            }
            Fact::AlarmCleared { alarm, .. } => {
                self.alarms.insert(*alarm, None);
            }
            Fact::LeaseTimeSet { .. } => {
                self.ledger.apply(fact)?;
                self.lease_time_set = true;
            }
            Fact::CopyOpened { epoch, .. } => self.generation = Some((*epoch, false)),
            Fact::CopySettled { epoch } => self.generation = Some((*epoch, true)),
            // Only history.
            Fact::AttemptsDisowned { .. }
            | Fact::WorkerFaulted { .. }
            | Fact::WorkerSuspected { .. }
            | Fact::ChannelFaulted { .. } => {}
            Fact::FleetDefined { .. }
            | Fact::FleetPaused { .. }
            | Fact::FleetRemoved { .. }
            | Fact::JobRequested { .. }
            | Fact::JobSubmitted { .. }
            | Fact::JobObserved { .. }
            | Fact::JobArrived { .. }
            | Fact::JobCancelRequested { .. }
            | Fact::JobEnded { .. } => {
                self.fleets.apply_fact(stored, &mut self.ledger, fact)?;
            }
            Fact::WorkerCondemned { .. } => {
                self.fetch_condemned(stored)?;
                self.ledger.apply(fact)?;
            }
            // A launch does not change the row of its instance: it stays in its range.
            Fact::Launched { .. }
            | Fact::TaskDefined { .. }
            | Fact::TaskRemoved { .. }
            | Fact::TaskPaused { .. }
            | Fact::TaskUnpaused { .. }
            | Fact::BackfillRegistered { .. }
            | Fact::BackfillHalted { .. }
            | Fact::BackfillResumed { .. }
            | Fact::BackfillEnded { .. }
            | Fact::BackfillCancelled { .. }
            | Fact::KeyRecorded { .. } => {
                // A request has launched a run that exists.
                self.runs.apply_fact(stored, self.next, at, fact)?;
                self.tasks.apply_fact(stored, &mut self.ledger, at, fact)?;
            }
            Fact::RunRegistered { .. }
            | Fact::RunExtended { .. }
            | Fact::RunDefined { .. }
            | Fact::RunAdvanced { .. }
            | Fact::RunHalting { .. }
            | Fact::RunEnded { .. }
            | Fact::RunResumed { .. } => {
                self.runs.apply_fact(stored, self.next, at, fact)?;
                if let Fact::RunEnded { run, state, .. } = fact
                    && *state == UniversalState::Done
                {
                    self.measure_run(stored, at, *run)?;
                }
            }
        }
        Ok(None)
    }

    /// Applies a fact about one instance that was fetched.
    fn apply_to_one(&mut self, at: Wall, fact: &Fact, id: InstanceId) -> Result<(), StoreError> {
        self.ledger.apply(fact)?;
        if let Some(touched) = self.touched.get_mut(&id) {
            touched.lifecycle.record_change(at, self.next);
        }
        Ok(())
    }

    fn adopt(
        &mut self,
        stored: &mut impl StoredRows,
        at: Wall,
        fact: &Fact,
        id: InstanceId,
        spec: &Arc<InstanceSpec>,
    ) -> Result<Option<(SpecId, u64)>, StoreError> {
        self.fetch(stored, id)?;
        let there = self.touched.contains_key(&id);
        if !there && self.known.contains(stored, id)? {
            return Err(LedgerError::UnknownInstance(id).into());
        }
        self.apply_to_one(at, fact, id)?;
        if let Some(touched) = self.touched.get_mut(&id) {
            touched.leased_at = Some(at);
            // The spec that the worker reports is not the instance's spec: it stays in the fact.
            return Ok(None);
        }
        self.known.claim(stored, id, id)?;
        let spec = stored.add_spec(self.next, spec, 1)?;
        let touched = TouchedRow {
            before: None,
            lifecycle: Lifecycle::submitted(spec.0, at, self.next),
            last: None,
            leased_at: Some(at),
        };
        self.touched.insert(id, touched);
        Ok(Some(spec))
    }

    fn halt(
        &mut self,
        stored: &mut impl StoredRows,
        at: Wall,
        fact: &Fact,
        first: InstanceId,
        last: InstanceId,
    ) -> Result<(), StoreError> {
        for span in stored.queued_spans(first, last)? {
            self.spans.insert_stored(span);
        }
        for row in stored.queued_rows(first, last)? {
            self.admit_row(row)?;
        }
        let requeued = self.ledger.requeued(first, last);
        let requeued: Vec<_> = requeued.map(|instance| instance.id).collect();
        self.ledger.apply(fact)?;
        for id in requeued {
            if let Some(touched) = self.touched.get_mut(&id) {
                touched.lifecycle.record_change(at, self.next);
                let spec = touched.lifecycle.spec;
                self.count_halted(stored, at, spec, 1)?;
                self.end_item(stored, id, ItemEnd::Halted, None)?;
            }
        }
        for (first, spec, count) in self.spans.halt(first, last, at, self.next) {
            self.count_halted(stored, at, spec, count)?;
            // An item of a run is always a range of one instance.
            if let Some(part) = stored.claim(spec)?.part {
                self.runs
                    .ended(stored, part, first, ItemEnd::Halted, None)?;
            }
        }
        Ok(())
    }

    /// Records the end of a run's item, if the fetched instance is one.
    fn end_item(
        &mut self,
        stored: &mut impl StoredRows,
        id: InstanceId,
        end: ItemEnd,
        outputs: Option<&Arc<str>>,
    ) -> Result<(), StoreError> {
        let Some(touched) = self.touched.get(&id) else {
            return Ok(());
        };
        match stored.claim(touched.lifecycle.spec)?.part {
            Some(part) => self.runs.ended(stored, part, id, end, outputs),
            None => Ok(()),
        }
    }

    /// Fetches an instance: from its row, or out of its range.
    fn fetch(&mut self, stored: &mut impl StoredRows, id: InstanceId) -> Result<(), StoreError> {
        if self.touched.contains_key(&id) {
            return Ok(());
        }
        if let Some(span) = self.spans.take(id) {
            return self.detach_from_range(id, span);
        }
        if let Some(row) = stored.row(id)? {
            return self.admit_row(row);
        }
        if let Some(span) = stored.span(id)? {
            self.spans.insert_stored(span);
            if let Some(span) = self.spans.take(id) {
                return self.detach_from_range(id, span);
            }
        }
        Ok(())
    }

    /// Adds an instance that has a row, unless it was fetched before.
    fn admit_row(&mut self, row: Row) -> Result<(), StoreError> {
        let id = row.instance.id;
        if self.touched.contains_key(&id) {
            return Ok(());
        }
        let touched = TouchedRow {
            before: Some(row.instance.state),
            lifecycle: row.lifecycle,
            last: row.last,
            leased_at: row.leased_at,
        };
        self.ledger.admit(row.instance)?;
        self.touched.insert(id, touched);
        Ok(())
    }

    /// Adds an instance that was in a range.
    fn detach_from_range(&mut self, id: InstanceId, span: Span) -> Result<(), StoreError> {
        let spec = Arc::clone(&self.no_spec);
        if span.state == UniversalState::Halted {
            self.ledger.admit(unleased_instance(id, spec, span.state))?;
        } else if self.ledger.find(id).is_none() {
            self.ledger.admit_range(Range {
                first: id,
                last: id,
                spec,
            })?;
        }
        let touched = TouchedRow {
            before: None,
            lifecycle: span.lifecycle,
            last: None,
            leased_at: None,
        };
        self.touched.insert(id, touched);
        Ok(())
    }

    fn fetch_condemned(&mut self, stored: &mut impl StoredRows) -> Result<(), StoreError> {
        if self.condemned_before.is_none() {
            let condemned = stored.condemned()?;
            for incarnation in &condemned {
                self.ledger.admit_condemned(*incarnation);
            }
            self.condemned_before = Some(condemned);
        }
        Ok(())
    }
}

/// The end of the item that a verdict implies; `None` if the instance is retried.
const fn item_end(verdict: Verdict) -> Option<ItemEnd> {
    match verdict {
        Verdict::Done => Some(ItemEnd::Done),
        Verdict::GaveUp => Some(ItemEnd::Failed),
        Verdict::Stopped => Some(ItemEnd::Halted),
        Verdict::Requeued => None,
    }
}

/// An instance of a range: it was never leased.
pub(crate) const fn unleased_instance(
    id: InstanceId,
    spec: Arc<InstanceSpec>,
    state: UniversalState,
) -> Instance {
    Instance {
        id,
        spec,
        state,
        lease: None,
        attempts: AttemptNo(0),
        failures: 0,
        losses: 0,
        stop_requested: false,
        next_attempt: None,
    }
}
