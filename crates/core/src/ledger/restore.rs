//! Restoring a ledger from the rows of a store.
//!
//! Between two facts an instance is in one of a few states, which determine whether it has a
//! lease. A row that contradicts this is damaged or was written by another program; it is refused,
//! since a leader would act on it.

use std::collections::BTreeSet;

use baton_model::alarm::Alarm;
use baton_model::conditions::ArrayLimit;
use baton_model::fleet::{Fleet, FleetJob};
use baton_model::ids::{BackfillId, Incarnation, InstanceId, JobId, RunId, TaskNo, WorkerName};
use baton_model::library::{Created, IdempotencyKey};
use baton_model::principal::NameOwner;
use baton_model::rate::LimitValue;
use baton_model::state::UniversalState;
use baton_model::time::Millis;

use super::{
    Fleets, Instance, Lease, Ledger, LedgerError, OpenBackfill, Range, RunHead, StoredRun, Task,
};

/// The contents of a ledger as a store has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerParts {
    /// Instances with a fact after their submission; those in a terminal state may be missing.
    pub instances: Vec<Instance>,
    /// All other instances, as ranges.
    pub waiting: Vec<Range>,
    /// Every id ever submitted, as ranges.
    pub known: Vec<(InstanceId, InstanceId)>,
    /// The last condemned incarnation of each lineage.
    pub condemned: Vec<Incarnation>,
    /// Workers that get no more work.
    pub drained: Vec<WorkerName>,
    /// The credentials to which names of workers belong.
    pub name_owners: Vec<(WorkerName, NameOwner)>,
    /// Cluster-wide limits that were set at run time.
    pub limits: Vec<(String, LimitValue)>,
    /// Weights of owners among fair turns, other than 1.
    pub shares: Vec<(String, u32)>,
    /// Concurrency limits of arrays that were changed, by the first instance of the array.
    pub array_limits: Vec<(InstanceId, ArrayLimit)>,
    /// The longest time by which a lease was extended at once.
    pub lease_time: Millis,
    /// The tasks of the library, including removed ones.
    pub tasks: Vec<Task>,
    /// Used idempotency keys of triggers and, without a task, of submissions, oldest first.
    pub keys: Vec<(Option<TaskNo>, IdempotencyKey, Created)>,
    /// Backfills that are not DONE.
    pub backfills: Vec<OpenBackfill>,
    /// The highest id of a backfill ever used.
    pub last_backfill: BackfillId,
    /// Runs that are not over, with their plans and item results.
    pub runs: Vec<StoredRun>,
    /// Runs that are over, without.
    pub ended_runs: Vec<RunHead>,
    /// The highest run id ever used.
    pub last_run: RunId,
    /// Fleets, including removed ones with jobs that have not ended.
    pub fleets: Vec<Fleet>,
    /// Jobs of fleets that have not ended.
    pub jobs: Vec<FleetJob>,
    /// The highest id of a job ever used.
    pub last_job: JobId,
    /// Open alarms.
    pub alarms: Vec<Alarm>,
}

impl Ledger {
    /// Restores a ledger.
    ///
    /// # Errors
    /// [`LedgerError`] naming the first instance whose state no sequence of facts leads to.
    pub fn restore(parts: LedgerParts) -> Result<Self, LedgerError> {
        let mut ledger = Self {
            lease_time: parts.lease_time,
            drained: parts.drained.into_iter().collect(),
            name_owners: parts.name_owners.into_iter().collect(),
            limits: parts.limits.into_iter().collect(),
            shares: parts.shares.into_iter().collect(),
            array_limits: parts.array_limits.into_iter().collect(),
            fleets: Fleets::restore(parts.fleets, parts.jobs, parts.last_job)?,
            alarms: parts.alarms.into_iter().map(|it| (it.key(), it)).collect(),
            ..Self::default()
        };
        for (first, last) in parts.known {
            ledger.known.insert(first, last);
        }
        // Before all that may belong to one.
        let backfills = ledger.library.backfills_mut();
        backfills.restore_last(parts.last_backfill);
        for backfill in parts.backfills {
            backfills.admit(backfill);
        }
        ledger
            .runs
            .restore(parts.runs, parts.ended_runs, parts.last_run)?;
        for run in ledger.runs.iter() {
            if let Some(origin) = run.head.origin {
                ledger
                    .library
                    .set_active_run(origin.task, run.head.id, run.head.state);
            }
        }
        for range in parts.waiting {
            ledger.admit_range(range)?;
        }
        for instance in parts.instances {
            ledger.admit(instance)?;
        }
        for incarnation in parts.condemned {
            ledger.admit_condemned(incarnation);
        }
        for task in parts.tasks {
            ledger.library.admit(task);
        }
        for (task, key, created) in parts.keys {
            ledger.keys.record(task, &key, created);
        }
        Ok(ledger)
    }

    /// Computes the progress of runs. To be called when everything is restored, including what
    /// did not come with [`LedgerParts`].
    pub fn settle(&mut self) {
        self.runs.settle();
    }

    /// Restores a range of waiting instances.
    ///
    /// # Errors
    /// [`LedgerError`] if one of them exists already; the ledger is then unchanged.
    pub fn admit_range(&mut self, range: Range) -> Result<(), LedgerError> {
        let Range { first, last, .. } = range;
        if first > last {
            return Err(LedgerError::Impossible(first, "starts an empty range"));
        }
        if let Some((id, _)) = self.instances.range(first..=last).next() {
            return Err(LedgerError::AlreadySubmitted(*id));
        }
        if let Some(id) = self.waiting.overlap(first, last) {
            return Err(LedgerError::AlreadySubmitted(id));
        }
        self.known.insert(first, last);
        self.enqueue(range);
        Ok(())
    }

    /// Restores one instance.
    ///
    /// # Errors
    /// [`LedgerError`] if it exists already, or no sequence of facts leads to its state; the ledger
    /// is then unchanged.
    pub fn admit(&mut self, instance: Instance) -> Result<(), LedgerError> {
        let waits = self.waiting.contains(instance.id);
        if waits || self.instances.contains_key(&instance.id) {
            return Err(LedgerError::AlreadySubmitted(instance.id));
        }
        match flaw(&instance) {
            Some(reason) => Err(LedgerError::Impossible(instance.id, reason)),
            None => {
                self.known.insert(instance.id, instance.id);
                if !instance.state.is_terminal() {
                    let id = instance.id;
                    self.library.set_active(&instance.spec, (id, id), true);
                    self.runs.start_item(&instance.spec, instance.id);
                }
                if instance.lease.is_some() {
                    self.runs.count_lease(&instance.spec, true);
                }
                self.index(instance);
                Ok(())
            }
        }
    }

    /// Restores one task of the library.
    pub fn admit_task(&mut self, task: Task) {
        self.library.admit(task);
    }

    /// Restores all fleets and jobs.
    ///
    /// # Errors
    /// If a job contradicts them.
    pub fn admit_fleets(
        &mut self,
        fleets: Vec<Fleet>,
        jobs: Vec<FleetJob>,
        last: JobId,
    ) -> Result<(), LedgerError> {
        self.fleets = Fleets::restore(fleets, jobs, last)?;
        Ok(())
    }

    /// Restores one condemned incarnation.
    pub fn admit_condemned(&mut self, incarnation: Incarnation) {
        self.condemn(incarnation);
    }

    /// The last condemned incarnation of each lineage.
    pub fn condemned(&self) -> impl Iterator<Item = Incarnation> + '_ {
        self.condemned.iter().map(|(lineage, number)| Incarnation {
            lineage: *lineage,
            number: *number,
        })
    }
}

/// Why no sequence of facts leads to this state of an instance, if so.
fn flaw(instance: &Instance) -> Option<&'static str> {
    use UniversalState as S;
    match (instance.state, &instance.lease) {
        (S::Registering | S::Instantiating | S::Triaging, _) => {
            Some("is stored in a transitional state")
        }
        (S::Launched | S::Running, None) => Some("is leased, but its lease is missing"),
        (S::Queued | S::Done | S::Failed | S::Halted | S::Aborted, Some(_)) => {
            Some("has a lease, but is in a state without one")
        }
        (S::Launched | S::Running, Some(lease)) => {
            if lease.id.attempt.instance != instance.id {
                Some("has the lease of another instance")
            } else if lease.id.attempt.number > instance.attempts {
                Some("has a lease of an attempt that was never counted")
            } else if lease.confirmed != (instance.state == S::Running) {
                Some("has a lease whose confirmation contradicts its state")
            } else if !has_own_members(lease) {
                Some("has a lease whose gang names a worker twice")
            } else {
                None
            }
        }
        (S::Queued | S::Done | S::Failed | S::Halted | S::Aborted, None) => None,
    }
}

/// True if no worker is twice a member of the lease's gang.
fn has_own_members(lease: &Lease) -> bool {
    let mut seen = BTreeSet::new();
    lease.workers().all(|worker| seen.insert(worker))
}
