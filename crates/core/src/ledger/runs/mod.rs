//! Runs of workflows: their state and progress.
//!
//! A run follows its instances: the ledger passes facts about instances on to their run. So a run
//! has few facts of its own, and its progress never disagrees with its instances.
//!
//! Invariant: a run that is over has no instance in flight. Therefore only one generation of it
//! is ever active: the next one starts after the one before has ended.
//!
//! | file | holds |
//! |---|---|
//! | `head` | the state of a run, and which facts may follow |
//! | `transient` | state of one leader: pending work and statistics |

mod head;
mod transient;

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_model::fact::Fact;
use baton_model::ids::{InstanceId, RunId};
use baton_model::spec::InstanceSpec;
use baton_model::state::UniversalState;
use baton_model::time::Millis;
use baton_model::workflow::{CarriedItems, HaltMode, ItemEnd, ItemSpan, Part, Plan};

use super::LedgerError;
use crate::workflow::{Dag, ItemResult, Progress, compare, invalidate};

pub use head::RunHead;
pub use transient::Stops;

use transient::Transient;

/// A run as a store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRun {
    pub head: RunHead,
    /// Its plan, or the part received so far.
    pub plan: Arc<Plan>,
    pub ended: Vec<ItemResult>,
}

/// A run that is not over, or is being resumed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    pub head: RunHead,
    pub dag: Arc<Dag>,
    pub progress: Progress,
    /// An instance is running, and the run is not recorded as RUNNING yet.
    pub has_begun: bool,
    /// Results of DONE items, if the run is being resumed: with all outputs, including those that
    /// only another plan refers to.
    done: Option<Vec<ItemResult>>,
    /// Number of leased instances by task.
    leased: BTreeMap<u32, u32>,
}

/// All runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Runs {
    heads: BTreeMap<RunId, RunHead>,
    runs: BTreeMap<RunId, Run>,
    last: RunId,
    /// Restored results and instances, until the progress can be computed from them.
    pending: PendingRestore,
    transient: Transient,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct PendingRestore {
    ended: BTreeMap<RunId, Vec<ItemResult>>,
    live: Vec<(Part, InstanceId)>,
}

impl Runs {
    /// A run that is not over.
    #[must_use]
    pub fn run(&self, id: RunId) -> Option<&Run> {
        self.runs.get(&id)
    }

    /// Every run that is not over.
    pub fn iter(&self) -> impl Iterator<Item = &Run> {
        self.runs.values()
    }

    /// The head of a run, whether it is over or not.
    #[must_use]
    pub fn head(&self, id: RunId) -> Option<&RunHead> {
        self.heads.get(&id)
    }

    /// The highest run id ever used.
    #[must_use]
    pub const fn last(&self) -> RunId {
        self.last
    }

    /// Removes and returns a run that changed since it was last processed.
    pub fn next_dirty(&mut self) -> Option<RunId> {
        self.transient.dirty.pop_first()
    }

    /// Removes and returns the pending stops of a run.
    pub fn take_stops(&mut self, id: RunId) -> Stops {
        self.transient.stops.remove(&id).unwrap_or_default()
    }

    /// Marks a run for processing: something that it waits for has changed.
    pub fn mark_dirty(&mut self, id: RunId) {
        self.transient.dirty.insert(id);
    }

    /// Records that a run was processed.
    pub fn mark_clean(&mut self, id: RunId) {
        self.transient.dirty.remove(&id);
    }

    /// Marks all runs for processing, under a new leader.
    pub fn mark_all_dirty(&mut self) {
        self.transient.dirty.extend(self.runs.keys());
    }

    /// Drops a run that is over: the store has its record.
    pub fn drop_ended(&mut self, id: RunId) {
        if self
            .runs
            .get(&id)
            .is_some_and(|run| run.head.state.is_terminal())
        {
            self.runs.remove(&id);
            self.transient.forget(id);
        }
    }

    /// Drops all runs that are over.
    pub fn drop_all_ended(&mut self) {
        let ended = |run: &&Run| run.head.state.is_terminal();
        let ended: Vec<_> = self.iter().filter(ended).map(|run| run.head.id).collect();
        ended.into_iter().for_each(|id| self.drop_ended(id));
    }

    /// True if the progress of every restored run was computed.
    pub(crate) fn is_settled(&self) -> bool {
        self.pending == PendingRestore::default()
    }

    /// Drops the state of one leader, as its end does.
    pub(super) fn forget_transient(&mut self) {
        self.transient = Transient::default();
    }

    /// Mean duration of a task's DONE instances that ended under this leader.
    #[must_use]
    pub fn mean_duration(&self, id: RunId, task: u32) -> Option<Millis> {
        let (count, sum) = self.transient.durations.get(&id)?.get(&task)?;
        sum.0.checked_div(*count).map(Millis)
    }

    /// Restores a run that is over, so that it can be resumed.
    ///
    /// # Errors
    /// If it is in the ledger already, is not over, or was resumed since it was read.
    pub fn admit(&mut self, stored: StoredRun) -> Result<(), LedgerError> {
        let id = stored.head.id;
        let known = self.heads.get(&id);
        if known != Some(&stored.head) || self.runs.contains_key(&id) {
            return Err(LedgerError::Run(
                id,
                "was resumed since it was read".to_owned(),
            ));
        }
        let dag = Arc::new(Dag::new(stored.plan));
        let done = stored.ended.iter().filter(|it| it.end == ItemEnd::Done);
        let done = Some(done.cloned().collect());
        let progress = Progress::new(&dag, [], stored.ended);
        let run = Run {
            head: stored.head,
            dag,
            progress,
            has_begun: false,
            done,
            leased: BTreeMap::new(),
        };
        self.runs.insert(id, run);
        Ok(())
    }

    /// Restores runs; [`Runs::settle`] follows when their instances are restored.
    pub(super) fn restore(
        &mut self,
        runs: Vec<StoredRun>,
        ended: Vec<RunHead>,
        last: RunId,
    ) -> Result<(), LedgerError> {
        self.last = last;
        for head in ended {
            self.last = self.last.max(head.id);
            self.heads.insert(head.id, head);
        }
        for stored in runs {
            let id = stored.head.id;
            if stored.head.state.is_terminal() {
                return Err(LedgerError::Run(
                    id,
                    "is over, but stored as if it were not".to_owned(),
                ));
            }
            self.last = self.last.max(id);
            self.heads.insert(id, stored.head.clone());
            self.pending.ended.insert(id, stored.ended);
            let run = Run {
                head: stored.head,
                dag: Arc::new(Dag::new(stored.plan)),
                progress: Progress::default(),
                has_begun: false,
                done: None,
                leased: BTreeMap::new(),
            };
            self.runs.insert(id, run);
        }
        Ok(())
    }

    /// Computes the progress of the restored runs.
    pub(super) fn settle(&mut self) {
        let PendingRestore { mut ended, live } = std::mem::take(&mut self.pending);
        let mut by_run: BTreeMap<RunId, Vec<(u32, u32, InstanceId)>> = BTreeMap::new();
        for (part, instance) in live {
            // An instance of an earlier generation, retried on request, is not the run's.
            let generation = self.runs.get(&part.run).map(|run| run.head.generation);
            if generation != Some(part.generation) {
                continue;
            }
            let live = by_run.entry(part.run).or_default();
            live.push((part.task, part.item, instance));
        }
        for (id, run) in &mut self.runs {
            if run.head.state == UniversalState::Registering {
                continue;
            }
            let live = by_run.remove(id).unwrap_or_default();
            let ended = ended.remove(id).unwrap_or_default();
            run.progress = Progress::new(&run.dag, live, ended);
        }
    }

    /// Counts an instance that gained or lost its lease.
    pub(super) fn count_lease(&mut self, spec: &InstanceSpec, more: bool) {
        let Some(part) = spec.part else {
            return;
        };
        if let Some(run) = self.runs.get_mut(&part.run) {
            let count = run.leased.entry(part.task).or_default();
            *count = if more {
                *count + 1
            } else {
                count.saturating_sub(1)
            };
            if *count == 0 {
                run.leased.remove(&part.task);
            }
        }
    }

    /// Records the duration of a DONE instance.
    pub(super) fn record_duration(&mut self, spec: &InstanceSpec, elapsed: Millis) {
        if let Some(part) = spec.part
            && self.runs.contains_key(&part.run)
        {
            let durations = self.transient.durations.entry(part.run).or_default();
            let (count, sum) = durations.entry(part.task).or_default();
            *count += 1;
            sum.0 = sum.0.saturating_add(elapsed.0);
        }
    }

    /// Records an instance that is in flight now.
    pub(super) fn start_item(&mut self, spec: &InstanceSpec, id: InstanceId) {
        let Some(part) = spec.part else {
            return;
        };
        if self.pending.ended.contains_key(&part.run) {
            self.pending.live.push((part, id));
            return;
        }
        if let Some(run) = self.runs.get_mut(&part.run).filter(|run| run.owns(part)) {
            run.progress.start_item(&run.dag, part.task, part.item, id);
            self.transient.dirty.insert(part.run);
        }
    }

    /// Records a state change of an instance that stays in flight.
    pub(super) fn update_item(
        &mut self,
        spec: &InstanceSpec,
        id: InstanceId,
        state: UniversalState,
    ) {
        let Some(part) = spec.part else {
            return;
        };
        let Some(run) = self.runs.get_mut(&part.run).filter(|run| run.owns(part)) else {
            return;
        };
        // A failure handler is not stopped by the failure, nor is its retry.
        let failed = run.progress.is_failing_fast() && !run.dag.is_handler(part.task);
        let closed = run.head.halting.is_some() || failed;
        if state == UniversalState::Running && run.head.state == UniversalState::Launched {
            run.has_begun = true;
        } else if state == UniversalState::Queued && closed {
            let stops = self.transient.stops.entry(part.run).or_default();
            stops.retried.insert(id);
        } else {
            return;
        }
        self.transient.dirty.insert(part.run);
    }

    /// Records an instance that is no longer in flight.
    pub(super) fn end_item(
        &mut self,
        spec: &InstanceSpec,
        state: UniversalState,
        outputs: Option<&Arc<str>>,
    ) {
        let Some(part) = spec.part else {
            return;
        };
        let Some(run) = self.runs.get_mut(&part.run).filter(|run| run.owns(part)) else {
            return;
        };
        let ended = ItemResult {
            task: part.task,
            item: part.item,
            end: match state {
                UniversalState::Done => ItemEnd::Done,
                UniversalState::Failed => ItemEnd::Failed,
                _ => ItemEnd::Halted,
            },
            outputs: outputs.cloned(),
        };
        run.has_begun |= run.head.state == UniversalState::Launched;
        let failing = run.progress.is_failing_fast();
        run.progress.end_item(&run.dag, &ended);
        if run.progress.is_failing_fast() && !failing {
            let stops = self.transient.stops.entry(part.run).or_default();
            stops.sweep = Some(HaltMode::Drain);
        }
        self.transient.dirty.insert(part.run);
    }

    /// Applies one fact about a run.
    pub(super) fn apply(&mut self, fact: &Fact) -> Result<(), LedgerError> {
        if let Some(head) = RunHead::registered(fact) {
            return self.register(head?, fact);
        }
        let Some(id) = fact.run() else {
            return Ok(());
        };
        let unknown = || LedgerError::Run(id, "does not exist".to_owned());
        let run = self.runs.get_mut(&id).ok_or_else(unknown)?;
        let mut head = run.head.clone();
        head.apply(fact)?;
        match fact {
            Fact::RunExtended { plan, .. } => {
                let mut whole = (*run.dag.plan).clone();
                whole.tasks.extend_from_slice(&plan.tasks);
                whole.pools.extend_from_slice(&plan.pools);
                run.dag = Arc::new(Dag::new(Arc::new(whole)));
            }
            Fact::RunDefined { .. } => {
                run.progress = Progress::new(&run.dag, [], []);
            }
            Fact::RunAdvanced { .. } => run.has_begun = false,
            Fact::RunHalting { mode, .. } => {
                self.transient.stops.entry(id).or_default().sweep = Some(*mode);
            }
            Fact::RunEnded { .. } if !run.progress.is_idle() => {
                return Err(LedgerError::Run(
                    id,
                    "ends while an instance is in flight".to_owned(),
                ));
            }
            Fact::RunEnded { .. } => run.has_begun = false,
            Fact::RunResumed {
                plan,
                carried,
                rerun,
                ..
            } => {
                run.resume(plan.as_ref(), carried, rerun);
                self.transient.durations.remove(&id);
            }
            _ => {}
        }
        run.head = head.clone();
        self.heads.insert(id, head);
        self.transient.dirty.insert(id);
        Ok(())
    }

    fn register(&mut self, head: RunHead, fact: &Fact) -> Result<(), LedgerError> {
        let (id, Fact::RunRegistered { plan, .. }) = (head.id, fact) else {
            return Ok(());
        };
        if self.heads.contains_key(&id) || id <= self.last {
            return Err(LedgerError::Run(id, "exists already".to_owned()));
        }
        let dag = Arc::new(Dag::new(Arc::clone(plan)));
        let progress = match head.state {
            UniversalState::Registering => Progress::default(),
            _ => Progress::new(&dag, [], []),
        };
        self.last = id;
        self.heads.insert(id, head.clone());
        let run = Run {
            head,
            dag,
            progress,
            has_begun: false,
            done: None,
            leased: BTreeMap::new(),
        };
        self.runs.insert(id, run);
        self.transient.dirty.insert(id);
        Ok(())
    }
}

impl Run {
    /// Number of leased instances of a task.
    #[must_use]
    pub fn leased(&self, task: u32) -> u32 {
        self.leased.get(&task).copied().unwrap_or_default()
    }

    /// Number of leased instances of all tasks.
    #[must_use]
    pub fn all_leased(&self) -> u32 {
        self.leased.values().sum()
    }

    /// Whether the part belongs to the current generation.
    fn owns(&self, part: Part) -> bool {
        part.generation == self.head.generation
            && self.progress.state(part.task, part.item).is_some()
    }

    /// Results of DONE items.
    #[must_use]
    pub fn done(&self) -> Vec<ItemResult> {
        let done = self.done.clone();
        done.unwrap_or_else(|| self.progress.done().collect())
    }

    /// Starts the next generation with the items that stay DONE.
    fn resume(&mut self, plan: Option<&Arc<Plan>>, carried: &[CarriedItems], rerun: &[ItemSpan]) {
        // Taken, not cloned: there may be a million results, and they are not needed any more.
        let done = self.done.take();
        let done = done.unwrap_or_else(|| self.progress.done().collect());
        let done = invalidate::without(done, rerun);
        let done = match plan {
            None => done,
            Some(plan) => {
                self.dag = Arc::new(Dag::new(Arc::clone(plan)));
                compare::carry_over(done, carried)
            }
        };
        self.progress = Progress::new(&self.dag, [], done);
        self.has_begun = false;
    }
}
