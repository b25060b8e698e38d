//! The durable state: the result of applying all facts.
//!
//! [`Ledger::apply`] is the only way to change it, live and in replay, so a restarted leader
//! arrives at exactly the state of the one before it. It holds instances, their single lease, the
//! entries of the library, runs, and condemned incarnations of workers. Sessions, health, sequence
//! numbers and timers are *not* here: they belong to one leader, and the next one rebuilds them
//! from messages of the workers.
//!
//! Invariants, checked on every fact:
//! * an instance has at most one open lease, and a lease once closed stays closed;
//! * every change of state is a row of the universal machine's table.
//!
//! A store that keeps rows instead of facts rebuilds a ledger, or a part of one, with
//! [`Ledger::restore`], which checks the same invariants.

mod backfills;
mod identity;
mod ids;
mod instance;
mod keys;
mod library;
mod restore;
mod runs;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_model::fact::{Fact, Holder, Verdict};
use baton_model::ids::{
    AttemptId, AttemptNo, BackfillId, Epoch, Incarnation, IncarnationNo, InstanceId, LeaseId,
    Lineage, RunId, TaskNo, WorkerName,
};
use baton_model::library::{Created, Pause};
use baton_model::limits::CONDEMNED_MAX;
use baton_model::schedule::TickVerdict;
use baton_model::spec::InstanceSpec;
use baton_model::state::UniversalState;
use baton_model::time::Millis;

use crate::fsm::{IllegalTransition, Universal, UniversalEvent};

pub use backfills::{Backfills, OpenBackfill};
pub use identity::Identity;
pub use ids::IdSet;
pub use instance::{Instance, Lease};
pub use keys::Keys;
pub use library::{Active, Library, Payload, Task, nominal_values};
pub use restore::LedgerParts;
pub use runs::{Run, RunHead, Runs, Stops, StoredRun};
pub use waiting::Range;

use waiting::Waiting;

/// A fact that contradicts the facts before it: a corrupt store, or a bug.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// The universal machine has no such row.
    #[error("instance {0}: {1}")]
    Illegal(InstanceId, IllegalTransition<Universal>),
    #[error("instance {0} was never submitted")]
    UnknownInstance(InstanceId),
    #[error("instance {0} was submitted before")]
    AlreadySubmitted(InstanceId),
    /// The fact is about a lease that is not the open one.
    #[error("lease {lease} is not open{}", open_lease(*.1), lease = .0)]
    NotTheOpenLease(LeaseId, Option<LeaseId>),
    /// No sequence of facts leads to this state of an instance.
    #[error("instance {0} {1}")]
    Impossible(InstanceId, &'static str),
    /// The same for a task of the library.
    #[error("task {0} {1}")]
    Library(TaskNo, &'static str),
    /// The same for a backfill.
    #[error("backfill {0} {1}")]
    Backfill(BackfillId, &'static str),
    /// The same for a run.
    #[error("run {0} {1}")]
    Run(RunId, String),
}

fn open_lease(open: Option<LeaseId>) -> String {
    match open {
        Some(open) => format!("; the open one is {open}"),
        None => ", and no other is".to_owned(),
    }
}

/// All state that survives a leader.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ledger {
    /// Instances with at least one fact after their submission.
    instances: BTreeMap<InstanceId, Instance>,
    /// All other instances.
    waiting: Waiting,
    /// Every id ever submitted, including those of dropped instances.
    known: IdSet,
    queued: BTreeSet<InstanceId>,
    leased: BTreeSet<InstanceId>,
    condemned: BTreeMap<Lineage, IncarnationNo>,
    drained: BTreeSet<WorkerName>,
    /// Cluster-wide limits that were set at run time.
    limits: BTreeMap<String, u64>,
    lease_time: Millis,
    identity: Identity,
    library: Library,
    keys: Keys,
    runs: Runs,
    /// The number of FAILED instances of arrays that limit it, by their first instance.
    failures: BTreeMap<InstanceId, u32>,
}

impl Ledger {
    /// Applies one fact.
    ///
    /// # Errors
    /// [`LedgerError`] if the fact contradicts the ones before it; the ledger is then unchanged.
    pub fn apply(&mut self, fact: &Fact) -> Result<(), LedgerError> {
        match fact {
            Fact::InstancesSubmitted { first, last, spec } => self.submit(*first, *last, spec),
            Fact::LeaseGranted { lease, holder, .. } => self.grant(*lease, holder),
            Fact::AttemptAdopted {
                lease,
                holder,
                spec,
            } => self.adopt(*lease, holder, spec),
            Fact::AttemptConfirmed { lease } => self.confirm(*lease),
            Fact::AttemptEnded {
                lease,
                end,
                verdict,
                next,
                stats,
                outputs,
                ..
            } => {
                let id = lease.attempt.instance;
                if let (Verdict::Done, Some(stats)) = (verdict, stats)
                    && let Some(instance) = self.instances.get(&id)
                {
                    self.runs.record_duration(&instance.spec, stats.elapsed);
                }
                self.change_with(id, outputs.as_ref(), |instance| {
                    instance.close(*lease, *end, *verdict, next.as_deref())
                })?;
                if *verdict == Verdict::GaveUp {
                    self.count_failure(id, 1);
                }
                Ok(())
            }
            Fact::StopRequested { instance, mode } => self.change(*instance, |instance| {
                instance.stop(*mode);
                Ok(())
            }),
            Fact::AttemptKillRequested { lease, mode } => self
                .change(lease.attempt.instance, |instance| {
                    instance.kill(*lease, *mode)
                }),
            Fact::InstancesHalted { first, last, .. } => self.halt(*first, *last),
            Fact::InstanceRetried { instance } => {
                let failed = self.instances.get(instance);
                let failed = failed.is_some_and(|it| it.state == UniversalState::Failed);
                self.change(*instance, Instance::retry)?;
                if failed {
                    self.count_failure(*instance, -1);
                }
                Ok(())
            }
            Fact::LeaseTimeSet { lease } => {
                self.lease_time = *lease;
                Ok(())
            }
            Fact::WorkerCondemned { incarnation, .. } => {
                self.condemn(*incarnation);
                Ok(())
            }
            Fact::CopyOpened { epoch, .. } => {
                self.identity.open_copy(*epoch);
                Ok(())
            }
            Fact::CopySettled { epoch } => {
                self.identity.settle(*epoch);
                Ok(())
            }
            // For the operator.
            Fact::AttemptsDisowned { .. } => Ok(()),
            Fact::WorkerDrained { worker, drained } => {
                if *drained {
                    self.drained.insert(worker.clone());
                } else {
                    self.drained.remove(worker);
                }
                Ok(())
            }
            Fact::LimitSet { name, total } => {
                match total {
                    Some(total) => self.limits.insert(name.clone(), *total),
                    None => self.limits.remove(name),
                };
                Ok(())
            }
            Fact::TaskDefined { .. }
            | Fact::TaskRemoved { .. }
            | Fact::TaskPaused { .. }
            | Fact::TaskUnpaused { .. }
            | Fact::TickRecorded { .. }
            | Fact::BackfillRegistered { .. }
            | Fact::BackfillLaunched { .. }
            | Fact::BackfillHalted { .. }
            | Fact::BackfillResumed { .. }
            | Fact::BackfillEnded { .. }
            | Fact::BackfillCancelled { .. }
            | Fact::InstanceTriggered { .. } => self.apply_library(fact),
            Fact::KeyRecorded { key, created } => {
                self.keys.record(None, key, *created);
                Ok(())
            }
            Fact::RunRegistered { .. }
            | Fact::RunExtended { .. }
            | Fact::RunDefined { .. }
            | Fact::RunAdvanced { .. }
            | Fact::RunHalting { .. }
            | Fact::RunEnded { .. }
            | Fact::RunResumed { .. } => self.apply_run(fact),
            Fact::RunTriggered { run, task, key, .. } => {
                self.runs.apply(fact)?;
                if let Some(key) = key {
                    self.keys.record(Some(*task), key, Created::Run(*run));
                }
                Ok(())
            }
        }
    }

    /// Applies one fact about a run, which may begin or end to be in flight.
    fn apply_run(&mut self, fact: &Fact) -> Result<(), LedgerError> {
        let Some(run) = fact.run() else {
            return Ok(());
        };
        let before = self.runs.active_entry(run);
        self.runs.apply(fact)?;
        let after = self.runs.active_entry(run);
        if before != after
            && let Some(task) = after.or(before)
        {
            self.library.set_active_run(task, run, after.is_some());
        }
        Ok(())
    }

    /// Applies one fact about the library.
    fn apply_library(&mut self, fact: &Fact) -> Result<(), LedgerError> {
        match fact {
            Fact::TaskDefined {
                task,
                name,
                revision,
                from,
                definition,
            } => self
                .library
                .define(*task, name, *revision, *from, definition),
            Fact::TaskRemoved { task, .. } => self.library.remove(*task),
            Fact::TaskPaused { task, at, reason } => {
                let pause = Pause {
                    since: *at,
                    reason: reason.clone(),
                };
                self.library.set_pause(*task, Some(pause))
            }
            Fact::TaskUnpaused { task } => self.library.set_pause(*task, None),
            Fact::TickRecorded {
                task,
                first,
                last,
                verdict,
                after: None,
                after_run: None,
                ..
            } => {
                self.library.record_tick(*task, *first, *last)?;
                if !matches!(verdict, TickVerdict::Skip(_)) {
                    self.library.count_launch(*task)?;
                }
                Ok(())
            }
            Fact::BackfillLaunched { task, .. } => {
                self.library.backfills_mut().apply(fact)?;
                self.library.count_launch(*task)
            }
            Fact::BackfillRegistered { .. }
            | Fact::BackfillHalted { .. }
            | Fact::BackfillResumed { .. }
            | Fact::BackfillEnded { .. }
            | Fact::BackfillCancelled { .. } => self.library.backfills_mut().apply(fact),
            Fact::InstanceTriggered {
                instance,
                task,
                key: Some(key),
                ..
            } => {
                let (first, last) = (*instance, *instance);
                let created = Created::Instances { first, last };
                self.keys.record(Some(*task), key, created);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The idempotency keys of requests.
    #[must_use]
    pub const fn keys(&self) -> &Keys {
        &self.keys
    }

    /// The instance of that id, if it has a fact after its submission.
    #[must_use]
    pub fn instance(&self, id: InstanceId) -> Option<&Instance> {
        self.instances.get(&id)
    }

    /// The instance of that id, including one that only waits.
    #[must_use]
    pub fn find(&self, id: InstanceId) -> Option<Instance> {
        let fresh = || {
            let spec = self.waiting.spec(id)?;
            Some(Instance::queued(id, spec))
        };
        self.instances.get(&id).cloned().or_else(fresh)
    }

    /// Every instance with a fact after its submission, by id.
    pub fn instances(&self) -> impl Iterator<Item = (InstanceId, &Instance)> + '_ {
        self.instances.iter().map(|(id, instance)| (*id, instance))
    }

    /// Instances without a fact after their submission, as ranges.
    pub fn waiting(&self) -> impl Iterator<Item = Range> + '_ {
        self.waiting.iter()
    }

    /// The same, within `first` to `last`.
    pub fn waiting_within(
        &self,
        first: InstanceId,
        last: InstanceId,
    ) -> impl Iterator<Item = Range> + '_ {
        self.waiting.within(first, last)
    }

    /// The ids ever submitted.
    #[must_use]
    pub const fn known(&self) -> &IdSet {
        &self.known
    }

    /// Instances within `first` to `last` that are QUEUED again after an attempt.
    pub fn requeued(
        &self,
        first: InstanceId,
        last: InstanceId,
    ) -> impl Iterator<Item = &Instance> + '_ {
        let ids = self.queued.range(first..=last);
        ids.filter_map(|id| self.instances.get(id))
    }

    /// Instances within `first` to `last` that have a lease.
    pub fn leased(
        &self,
        first: InstanceId,
        last: InstanceId,
    ) -> impl Iterator<Item = &Instance> + '_ {
        let ids = self.leased.range(first..=last);
        ids.filter_map(|id| self.instances.get(id))
    }

    /// True if an instance within `first` to `last` has not ended.
    #[must_use]
    pub fn is_live(&self, first: InstanceId, last: InstanceId) -> bool {
        let has_any = |set: &BTreeSet<InstanceId>| set.range(first..=last).next().is_some();
        has_any(&self.leased)
            || has_any(&self.queued)
            || self.waiting.overlap(first, last).is_some()
    }

    /// The number of failed instances of an array that limits it.
    #[must_use]
    pub fn failures(&self, array: InstanceId) -> u32 {
        self.failures.get(&array).copied().unwrap_or(0)
    }

    /// Sets the number of failed instances of an array, as a store has counted it.
    pub fn restore_failures(&mut self, array: InstanceId, count: u32) {
        self.failures.insert(array, count);
    }

    fn count_failure(&mut self, id: InstanceId, change: i32) {
        let Some(spec) = self.instances.get(&id).map(|it| &it.spec) else {
            return;
        };
        let conditions = &spec.conditions;
        if let (Some((first, _)), Some(_)) = (conditions.instances, conditions.failed_max) {
            let count = self.failures.entry(first).or_default();
            *count = count.saturating_add_signed(change);
        }
    }

    /// The lease of that id, if it is open.
    #[must_use]
    pub fn open_lease(&self, lease: LeaseId) -> Option<&Lease> {
        let open = self
            .instances
            .get(&lease.attempt.instance)?
            .lease
            .as_deref()?;
        (open.id == lease).then_some(open)
    }

    /// True if no leader of this history has granted the lease: an unknown term, or an attempt
    /// beyond those that are counted. Of ended instances only the ids are left, so not every such
    /// lease is recognised by its attempt.
    #[must_use]
    pub fn is_unheard_of(&self, lease: LeaseId) -> bool {
        let AttemptId { instance, number } = lease.attempt;
        let counted = self.instances.get(&instance).map(|it| it.attempts);
        let waits = self.waiting.contains(instance).then_some(AttemptNo(0));
        !self.identity.knows(lease.epoch)
            || !self.known.contains(instance)
            || counted.or(waits).is_some_and(|last| number > last)
    }

    /// Every open lease, by instance.
    pub fn open_leases(&self) -> impl Iterator<Item = &Lease> + '_ {
        self.leased
            .iter()
            .filter_map(|id| self.instances[id].lease.as_deref())
    }

    /// The id of the next lease that the leader of `epoch` grants for an instance.
    #[must_use]
    pub fn next_lease(&self, instance: InstanceId, epoch: Epoch) -> LeaseId {
        let last = self
            .instances
            .get(&instance)
            .map_or(AttemptNo(0), |it| it.attempts);
        LeaseId {
            attempt: AttemptId {
                instance,
                number: last.next(),
            },
            epoch,
        }
    }

    /// The longest time by which any open lease may have been extended at once.
    #[must_use]
    pub const fn lease_time(&self) -> Millis {
        self.lease_time
    }

    /// The identity of the store.
    #[must_use]
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Sets the identity of the store that it was restored from.
    pub fn identify(&mut self, identity: Identity) {
        self.identity = identity;
    }

    /// A leader has taken the store under this epoch.
    pub fn begin_term(&mut self, epoch: Epoch) {
        self.identity.begin_term(epoch);
    }

    /// True if the incarnation is condemned.
    #[must_use]
    pub fn is_condemned(&self, incarnation: Incarnation) -> bool {
        self.condemned
            .get(&incarnation.lineage)
            .is_some_and(|life| *life >= incarnation.number)
    }

    #[must_use]
    pub const fn library(&self) -> &Library {
        &self.library
    }

    /// Drops the state of one leader, which no store has: for a comparison with what a store has.
    pub fn forget_transient(&mut self) {
        self.library.forget_transient();
        self.runs.forget_transient();
    }

    /// Mutable access for the leader, which takes transient state only.
    pub const fn library_mut(&mut self) -> &mut Library {
        &mut self.library
    }

    #[must_use]
    pub const fn runs(&self) -> &Runs {
        &self.runs
    }

    /// Mutable access for the controller of runs, which changes transient state only.
    pub const fn runs_mut(&mut self) -> &mut Runs {
        &mut self.runs
    }

    /// Cluster-wide limits that were set at run time.
    #[must_use]
    pub const fn limits(&self) -> &BTreeMap<String, u64> {
        &self.limits
    }

    /// Workers that get no more work.
    #[must_use]
    pub const fn drained(&self) -> &BTreeSet<WorkerName> {
        &self.drained
    }

    /// True if every instance is in a terminal state.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.waiting.is_empty() && self.queued.is_empty() && self.leased.is_empty()
    }

    /// Drops an instance in a terminal state: the store has its record. Its id stays known, so
    /// that it is not accepted a second time.
    pub fn drop_ended(&mut self, id: InstanceId) {
        let ended = self.instances.get(&id);
        if ended.is_some_and(|instance| instance.state.is_terminal()) {
            self.instances.remove(&id);
        }
    }

    /// Drops all instances in a terminal state.
    pub fn drop_all_ended(&mut self) {
        self.instances
            .retain(|_, instance| !instance.state.is_terminal());
    }

    fn submit(
        &mut self,
        first: InstanceId,
        last: InstanceId,
        spec: &Arc<InstanceSpec>,
    ) -> Result<(), LedgerError> {
        if first > last {
            return Err(LedgerError::Impossible(first, "starts an empty range"));
        }
        if let Some((known, _)) = self.known.overlap(first, last) {
            return Err(LedgerError::AlreadySubmitted(known.max(first)));
        }
        self.known.insert(first, last);
        self.enqueue(Range {
            first,
            last,
            spec: Arc::clone(spec),
        });
        Ok(())
    }

    fn grant(&mut self, lease: LeaseId, holder: &Holder) -> Result<(), LedgerError> {
        self.change(lease.attempt.instance, |instance| {
            instance.open(lease, holder.clone())
        })
    }

    fn adopt(
        &mut self,
        lease: LeaseId,
        holder: &Holder,
        spec: &Arc<InstanceSpec>,
    ) -> Result<(), LedgerError> {
        let id = lease.attempt.instance;
        if !self.known.contains(id) {
            self.submit(id, id, spec)?;
        }
        self.grant(lease, holder)?;
        self.confirm(lease)
    }

    fn confirm(&mut self, lease: LeaseId) -> Result<(), LedgerError> {
        self.change(lease.attempt.instance, |instance| instance.confirm(lease))
    }

    /// Halts the waiting instances of a range. Of those without other facts only the ids are kept:
    /// the store has their history.
    fn halt(&mut self, first: InstanceId, last: InstanceId) -> Result<(), LedgerError> {
        if first == last {
            return self.change(first, Instance::halt);
        }
        let requeued: Vec<_> = self.queued.range(first..=last).copied().collect();
        for id in requeued {
            self.change(id, Instance::halt)?;
        }
        while let Some(range) = self.waiting.take(first, last) {
            let ids = (range.first, range.last);
            self.library.set_active(&range.spec, ids, false);
            self.runs
                .end_item(&range.spec, UniversalState::Halted, None);
        }
        Ok(())
    }

    /// Adds waiting instances.
    fn enqueue(&mut self, range: Range) {
        let ids = (range.first, range.last);
        self.library.set_active(&range.spec, ids, true);
        self.runs.start_item(&range.spec, range.first);
        self.waiting.insert(range);
    }

    /// Runs `edit` on a copy and stores the result, so that an error changes nothing.
    fn change(
        &mut self,
        id: InstanceId,
        edit: impl FnOnce(&mut Instance) -> Result<(), LedgerError>,
    ) -> Result<(), LedgerError> {
        self.change_with(id, None, edit)
    }

    /// The same, with the outputs of the instance.
    fn change_with(
        &mut self,
        id: InstanceId,
        outputs: Option<&Arc<str>>,
        edit: impl FnOnce(&mut Instance) -> Result<(), LedgerError>,
    ) -> Result<(), LedgerError> {
        let mut instance = self.find(id).ok_or(LedgerError::UnknownInstance(id))?;
        let lived = !instance.state.is_terminal();
        let leased = instance.lease.is_some();
        edit(&mut instance)?;
        if instance.lease.is_some() != leased {
            self.runs.count_lease(&instance.spec, !leased);
        }
        let lives = !instance.state.is_terminal();
        if lives != lived {
            self.library.set_active(&instance.spec, (id, id), lives);
        }
        match (lived, lives) {
            (true, false) => self.runs.end_item(&instance.spec, instance.state, outputs),
            (false, true) => self.runs.start_item(&instance.spec, id),
            _ => self.runs.update_item(&instance.spec, id, instance.state),
        }
        self.waiting.take(id, id);
        self.index(instance);
        Ok(())
    }

    /// Stores an instance, and indexes it by state.
    fn index(&mut self, instance: Instance) {
        let id = instance.id;
        set_member(
            &mut self.queued,
            id,
            instance.state == UniversalState::Queued,
        );
        set_member(&mut self.leased, id, instance.lease.is_some());
        self.instances.insert(id, instance);
    }

    fn condemn(&mut self, incarnation: Incarnation) {
        let life = self
            .condemned
            .entry(incarnation.lineage)
            .or_insert(incarnation.number);
        *life = (*life).max(incarnation.number);
        if self.condemned.len() > CONDEMNED_MAX {
            self.condemned.pop_first();
        }
    }
}

/// The event of the universal machine for an instance's verdict.
const fn verdict_event(verdict: Verdict) -> UniversalEvent {
    match verdict {
        Verdict::Done => UniversalEvent::Succeeded,
        Verdict::Requeued => UniversalEvent::Requeued,
        Verdict::GaveUp => UniversalEvent::GaveUp,
        Verdict::Stopped => UniversalEvent::Stopped,
    }
}

fn set_member(index: &mut BTreeSet<InstanceId>, id: InstanceId, is_member: bool) {
    if is_member {
        index.insert(id);
    } else {
        index.remove(&id);
    }
}

#[cfg(test)]
mod tests;
