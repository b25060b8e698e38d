//! A ledger put together from its parts, as a store kept them.
//!
//! Between two facts an instance rests in few states only, and its lease follows
//! from them. A part that says otherwise was damaged or written by something else,
//! and a leader that took it in would act on it; so it is refused.

use baton_model::ids::{Incarnation, InstanceId, RunId, TaskNo, WorkerName};
use baton_model::library::IdempotencyKey;
use baton_model::state::UniversalState;
use baton_model::time::Millis;

use super::{Instance, Ledger, LedgerError, Range, RunHead, StoredRun, Task};

/// A ledger taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Instances that something has happened to; those in a terminal state may be missing.
    pub instances: Vec<Instance>,
    /// The others, as ranges.
    pub waiting: Vec<Range>,
    /// Every id that was ever submitted, as ranges.
    pub known: Vec<(InstanceId, InstanceId)>,
    /// The last condemned life of each lineage.
    pub condemned: Vec<Incarnation>,
    /// Workers that get no more work.
    pub drained: Vec<WorkerName>,
    /// The longest that a lease was extended by at a time.
    pub lease_time: Millis,
    /// The tasks of the library, removed ones included.
    pub tasks: Vec<Task>,
    /// What requests have brought about, the oldest first.
    pub keys: Vec<(TaskNo, IdempotencyKey, InstanceId)>,
    /// Runs that are not over, with their plans and what has ended of them.
    pub runs: Vec<StoredRun>,
    /// Those that are over, without.
    pub ended_runs: Vec<RunHead>,
    /// The last run that there ever was.
    pub last_run: RunId,
}

impl Ledger {
    /// A ledger of these parts.
    ///
    /// # Errors
    /// [`LedgerError`] naming the first instance that no facts could have left so.
    pub fn restore(parts: Parts) -> Result<Self, LedgerError> {
        let mut ledger = Self {
            lease_time: parts.lease_time,
            drained: parts.drained.into_iter().collect(),
            ..Self::default()
        };
        for (first, last) in parts.known {
            ledger.known.insert(first, last);
        }
        ledger
            .runs
            .restore(parts.runs, parts.ended_runs, parts.last_run)?;
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
        for (task, key, instance) in parts.keys {
            ledger.library.remember(task, &key, instance);
        }
        Ok(ledger)
    }

    /// Works out how far runs are. To be called when everything was taken in, that is, also
    /// what did not come with [`Parts`].
    pub fn settle(&mut self) {
        self.runs.settle();
    }

    /// Takes in a range of instances as it was kept.
    ///
    /// # Errors
    /// [`LedgerError`] if one of them is there already; the ledger is then unchanged.
    pub fn admit_range(&mut self, range: Range) -> Result<(), LedgerError> {
        let Range { first, last, .. } = range;
        if first > last {
            return Err(LedgerError::Impossible(
                first,
                "is the first of no instances",
            ));
        }
        if let Some((id, _)) = self.instances.range(first..=last).next() {
            return Err(LedgerError::AlreadySubmitted(*id));
        }
        if let Some(id) = self.waiting.overlap(first, last) {
            return Err(LedgerError::AlreadySubmitted(id));
        }
        self.known.insert(first, last);
        self.waits(range);
        Ok(())
    }

    /// Takes in one instance as it was kept.
    ///
    /// # Errors
    /// [`LedgerError`] if it is there already, or no facts could have left it so;
    /// the ledger is then unchanged.
    pub fn admit(&mut self, instance: Instance) -> Result<(), LedgerError> {
        let waits = self.waiting.contains(instance.id);
        if waits || self.instances.contains_key(&instance.id) {
            return Err(LedgerError::AlreadySubmitted(instance.id));
        }
        match flaw(&instance) {
            Some(why) => Err(LedgerError::Impossible(instance.id, why)),
            None => {
                self.known.insert(instance.id, instance.id);
                if !instance.state.is_terminal() {
                    self.library.count(&instance.spec, 1);
                    self.runs.began(&instance.spec, instance.id);
                }
                if instance.lease.is_some() {
                    self.runs.leased(&instance.spec, true);
                }
                self.put(instance);
                Ok(())
            }
        }
    }

    /// Takes in one task of the library as it was kept.
    pub fn admit_task(&mut self, task: Task) {
        self.library.admit(task);
    }

    /// Takes in one condemned life as it was kept.
    pub fn admit_condemned(&mut self, incarnation: Incarnation) {
        self.condemn(incarnation);
    }

    /// The last condemned life of each lineage that is remembered.
    pub fn condemned(&self) -> impl Iterator<Item = Incarnation> + '_ {
        self.condemned.iter().map(|(lineage, life)| Incarnation {
            lineage: *lineage,
            number: *life,
        })
    }
}

/// Why no facts could have left an instance like this, if so.
fn flaw(instance: &Instance) -> Option<&'static str> {
    use UniversalState as S;
    match (instance.state, &instance.lease) {
        (S::Registering | S::Instantiating | S::Triaging, _) => {
            Some("is kept in a state in which nothing rests")
        }
        (S::Launched | S::Running, None) => Some("is leased, but its lease is missing"),
        (S::Queued | S::Done | S::Failed | S::Halted | S::Aborted, Some(_)) => {
            Some("has a lease, but its state says that it has none")
        }
        (S::Launched | S::Running, Some(lease)) => {
            if lease.id.attempt.instance != instance.id {
                Some("has the lease of another instance")
            } else if lease.id.attempt.number > instance.attempts {
                Some("has a lease of an attempt that was never counted")
            } else if lease.confirmed != (instance.state == S::Running) {
                Some("has a lease whose confirmation contradicts its state")
            } else {
                None
            }
        }
        (S::Queued | S::Done | S::Failed | S::Halted | S::Aborted, None) => None,
    }
}
