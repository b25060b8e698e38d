//! The durable state: the result of applying all facts.
//!
//! [`Ledger::apply`] (in `apply`) is the only way to change it, live and in replay, so a restarted leader
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

mod apply;
mod backfills;
mod fleets;
mod identity;
mod ids;
mod instance;
mod keys;
mod library;
mod restore;
mod run_times;
mod runs;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};

use baton_model::alarm::{Alarm, AlarmKey};
use baton_model::fact::Verdict;
use baton_model::fleet::FleetName;
use baton_model::ids::{
    AttemptId, AttemptNo, BackfillId, Epoch, Incarnation, IncarnationNo, InstanceId, JobId,
    LeaseId, Lineage, RunId, TaskNo, WorkerName,
};
use baton_model::measurement::TaskPath;
use baton_model::principal::NameOwner;
use baton_model::rate::LimitValue;
use baton_model::spec::InstanceSpec;
use baton_model::time::{Millis, Wall};

use crate::fsm::{IllegalTransition, Universal, UniversalEvent};
use crate::limits::ArrayLimits;
use crate::workflow::items::task_name;

pub use backfills::{Backfills, OpenBackfill};
pub use fleets::Fleets;
pub use identity::Identity;
pub use ids::IdSet;
pub use instance::{Gang, Instance, Lease};
pub use keys::Keys;
pub use library::{Active, Library, Payload, Task, nominal_values};
pub use restore::LedgerParts;
pub(crate) use run_times::moved;
pub use run_times::{LEARNED_MIN, RunTimes, UsualTime};
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
    /// The same for a fleet.
    #[error("fleet {0} {1}")]
    Fleet(FleetName, &'static str),
    /// The same for a job of a fleet.
    #[error("job {0} {1}")]
    Job(JobId, &'static str),
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
    /// The credentials to which names of workers belong.
    name_owners: BTreeMap<WorkerName, NameOwner>,
    /// Cluster-wide limits that were set at run time.
    limits: BTreeMap<String, LimitValue>,
    /// Weights of owners among fair turns, other than 1.
    shares: BTreeMap<String, u32>,
    /// Concurrency limits of arrays that were changed.
    array_limits: ArrayLimits,
    lease_time: Millis,
    identity: Identity,
    library: Library,
    keys: Keys,
    runs: Runs,
    /// The number of FAILED instances of arrays that limit it, by their first instance.
    failures: BTreeMap<InstanceId, u32>,
    fleets: Fleets,
    /// Open alarms.
    alarms: BTreeMap<AlarmKey, Alarm>,
    transient: Transient,
}

/// State of one leader, which no store has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Transient {
    /// When the open leases of instances with an expected run time were granted, as far as the store
    /// that it was restored from knows.
    leased_at: BTreeMap<InstanceId, Wall>,
    /// A store has more of it.
    run_times: RunTimes,
}

impl Ledger {
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

    /// True if an instance within `first` to `last` has no fact after its submission.
    #[must_use]
    pub fn has_unstarted(&self, first: InstanceId, last: InstanceId) -> bool {
        self.waiting.overlap(first, last).is_some()
    }

    /// The number of failed instances of an array that limits it.
    #[must_use]
    pub fn failures(&self, array: InstanceId) -> u32 {
        self.failures.get(&array).copied().unwrap_or(0)
    }

    /// Sets the number of failed instances of an array, as a store has counted it.
    pub fn restore_failures(&mut self, array: InstanceId, count: u32) {
        if count == 0 {
            self.failures.remove(&array);
        } else {
            self.failures.insert(array, count);
        }
    }

    /// Forgets the failures of all arrays, for a seeded bug.
    #[cfg(feature = "seeded-bugs")]
    pub(crate) fn forget_failures(&mut self) {
        self.failures.clear();
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
        self.identity.skip_ids(self.last_used());
    }

    /// The last ids that an instance and a run of this history have.
    fn last_used(&self) -> (InstanceId, RunId) {
        let instance = self.known.last().unwrap_or(InstanceId(0));
        (instance, self.runs.last())
    }

    /// A leader has taken the store under this epoch.
    pub fn begin_term(&mut self, epoch: Epoch) {
        self.identity.begin_term(epoch);
        self.identity.skip_ids(self.last_used());
    }

    /// True if the incarnation is condemned.
    #[must_use]
    pub fn is_condemned(&self, incarnation: Incarnation) -> bool {
        self.condemned
            .get(&incarnation.lineage)
            .is_some_and(|number| *number >= incarnation.number)
    }

    #[must_use]
    pub const fn library(&self) -> &Library {
        &self.library
    }

    /// Drops the state of one leader, which no store has: for a comparison with what a store has.
    pub fn forget_transient(&mut self) {
        self.transient = Transient::default();
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

    /// Alarms that are open.
    #[must_use]
    pub const fn alarms(&self) -> &BTreeMap<AlarmKey, Alarm> {
        &self.alarms
    }

    /// Notes when the lease of an instance with an expected run time was granted, as a store has it.
    pub fn restore_leased_at(&mut self, instance: InstanceId, at: Wall) {
        self.transient.leased_at.insert(instance, at);
    }

    /// When the lease of an instance was granted, if it has an expected run time and was leased before
    /// this leader.
    pub(crate) fn leased_at(&self, instance: InstanceId) -> Option<Wall> {
        self.transient.leased_at.get(&instance).copied()
    }

    /// How long the attempts of each task take.
    #[must_use]
    pub const fn run_times(&self) -> &RunTimes {
        &self.transient.run_times
    }

    /// Mutable access for the leader, which records the ends of attempts and runs.
    pub(crate) const fn run_times_mut(&mut self) -> &mut RunTimes {
        &mut self.transient.run_times
    }

    /// Sets the run times, as a store has them.
    pub fn restore_run_times(&mut self, times: RunTimes) {
        self.transient.run_times = times;
    }

    /// The task to which the measurements of an instance belong; none if it has no name, or its run is unknown.
    #[must_use]
    pub fn task_path(&self, spec: &InstanceSpec) -> Option<TaskPath> {
        if spec.name.is_empty() {
            return None;
        }
        let run = spec.part.map(|part| self.runs.head(part.run));
        match run {
            Some(None) => None,
            Some(Some(head)) => Some(TaskPath {
                task: task_name(&spec.name).into(),
                ..TaskPath::of(spec, Some(&head.name))
            }),
            None => Some(TaskPath::of(spec, None)),
        }
    }

    /// Fleets, and their jobs that have not ended.
    #[must_use]
    pub const fn fleets(&self) -> &Fleets {
        &self.fleets
    }

    /// Cluster-wide limits that were set at run time.
    #[must_use]
    pub const fn limits(&self) -> &BTreeMap<String, LimitValue> {
        &self.limits
    }

    /// Weights of owners among fair turns, other than 1.
    #[must_use]
    pub const fn shares(&self) -> &BTreeMap<String, u32> {
        &self.shares
    }

    /// Concurrency limits of arrays that were changed.
    #[must_use]
    pub const fn array_limits(&self) -> &ArrayLimits {
        &self.array_limits
    }

    /// Workers that get no more work.
    #[must_use]
    pub const fn drained(&self) -> &BTreeSet<WorkerName> {
        &self.drained
    }

    /// The credentials to which names of workers belong.
    #[must_use]
    pub const fn name_owners(&self) -> &BTreeMap<WorkerName, NameOwner> {
        &self.name_owners
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

#[cfg(test)]
mod tests;
