//! Runs of workflows: where each stands, and what of it is on its way.
//!
//! A run follows its instances: what their facts say is taken in where the ledger takes it in.
//! So a run has few facts of its own, and how it stands never disagrees with its instances.
//!
//! Invariant: a run that is over has nothing on its way. Therefore only one generation of it
//! ever lives: the next begins where the one before has ended.
//!
//! | file | holds |
//! |---|---|
//! | `head` | where a run stands, and what may follow |
//! | `transient` | what a leader has to do, and what it has seen |

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

use transient::{DirtyRuns, Times};

/// A run as a store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRun {
    pub head: RunHead,
    /// What it carries out, or what has come of it.
    pub plan: Arc<Plan>,
    /// What has ended of it.
    pub ended: Vec<ItemResult>,
}

/// A run that is not over, or is to go on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    pub head: RunHead,
    pub dag: Arc<Dag>,
    pub progress: Progress,
    /// One of its instances runs, which nobody has said of the run yet.
    pub has_begun: bool,
    /// What is DONE, where the run was kept and is to go on: with all that was put out, also
    /// what only another plan wants to know.
    done: Option<Vec<ItemResult>>,
    /// What has to be stopped, which nobody has done yet.
    stops: Stops,
    /// How many of each task's instances have a lease.
    leased: BTreeMap<u32, u32>,
    /// How long instances took that are DONE, as far as this leader has seen it.
    times: Times,
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Runs {
    heads: BTreeMap<RunId, RunHead>,
    runs: BTreeMap<RunId, Run>,
    last: RunId,
    /// What was kept, until everything is there that its progress follows from.
    kept: Kept,
    dirty: DirtyRuns,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Kept {
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

    /// Where a run stands, over or not.
    #[must_use]
    pub fn head(&self, id: RunId) -> Option<&RunHead> {
        self.heads.get(&id)
    }

    /// The last run that there ever was.
    #[must_use]
    pub const fn last(&self) -> RunId {
        self.last
    }

    /// Takes a run that has to be looked after.
    pub fn next_dirty(&mut self) -> Option<RunId> {
        self.dirty.0.pop_first()
    }

    /// Takes what of a run has to be stopped.
    pub fn take_stops(&mut self, id: RunId) -> Stops {
        let run = self.runs.get_mut(&id);
        run.map(|run| std::mem::take(&mut run.stops))
            .unwrap_or_default()
    }

    /// A run has been looked after.
    pub fn mark_clean(&mut self, id: RunId) {
        self.dirty.0.remove(&id);
    }

    /// Every run has to be looked after: a new leader has them.
    pub fn mark_all_dirty(&mut self) {
        self.dirty.0.extend(self.runs.keys());
    }

    /// Drops a run that is over: its record is the store's.
    pub fn drop_ended(&mut self, id: RunId) {
        if self
            .runs
            .get(&id)
            .is_some_and(|run| run.head.state.is_terminal())
        {
            self.runs.remove(&id);
            self.dirty.0.remove(&id);
        }
    }

    /// The same for all of them.
    pub fn drop_all_ended(&mut self) {
        self.runs.retain(|_, run| !run.head.state.is_terminal());
    }

    /// Takes in a run as it was kept, so that it can go on.
    ///
    /// # Errors
    /// If it is there, or is not over, or has gone on since.
    pub fn admit(&mut self, kept: StoredRun) -> Result<(), LedgerError> {
        let id = kept.head.id;
        let known = self.heads.get(&id);
        if known != Some(&kept.head) || self.runs.contains_key(&id) {
            return Err(LedgerError::Run(id, "has gone on since".to_owned()));
        }
        let dag = Arc::new(Dag::new(kept.plan));
        let done = kept.ended.iter().filter(|it| it.end == ItemEnd::Done);
        let done = Some(done.cloned().collect());
        let progress = Progress::new(&dag, [], kept.ended);
        let run = Run {
            head: kept.head,
            dag,
            progress,
            has_begun: false,
            done,
            stops: Stops::default(),
            leased: BTreeMap::new(),
            times: Times::default(),
        };
        self.runs.insert(id, run);
        Ok(())
    }

    /// Takes in runs as they were kept; [`Runs::settle`] follows when the instances are there.
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
        for kept in runs {
            let id = kept.head.id;
            if kept.head.state.is_terminal() {
                return Err(LedgerError::Run(
                    id,
                    "is over, and kept as if it were not".to_owned(),
                ));
            }
            self.last = self.last.max(id);
            self.heads.insert(id, kept.head.clone());
            self.kept.ended.insert(id, kept.ended);
            let run = Run {
                head: kept.head,
                dag: Arc::new(Dag::new(kept.plan)),
                progress: Progress::default(),
                has_begun: false,
                done: None,
                stops: Stops::default(),
                leased: BTreeMap::new(),
                times: Times::default(),
            };
            self.runs.insert(id, run);
        }
        Ok(())
    }

    /// Works out how far the runs are that were restored.
    pub(super) fn settle(&mut self) {
        let Kept { mut ended, live } = std::mem::take(&mut self.kept);
        let mut by_run: BTreeMap<RunId, Vec<(u32, u32, InstanceId)>> = BTreeMap::new();
        for (part, instance) in live {
            // One of an earlier generation that a person wants tried again is not the run's.
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

    /// An instance has a lease that had none, or the other way round.
    pub(super) fn leased(&mut self, spec: &InstanceSpec, more: bool) {
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

    /// An instance is DONE that took so long.
    pub(super) fn took(&mut self, spec: &InstanceSpec, elapsed: Millis) {
        if let Some(part) = spec.part
            && let Some(run) = self.runs.get_mut(&part.run)
        {
            let (count, sum) = run.times.0.entry(part.task).or_default();
            *count += 1;
            sum.0 = sum.0.saturating_add(elapsed.0);
        }
    }

    /// An instance is on its way that was not before.
    pub(super) fn began(&mut self, spec: &InstanceSpec, id: InstanceId) {
        let Some(part) = spec.part else {
            return;
        };
        if self.kept.ended.contains_key(&part.run) {
            self.kept.live.push((part, id));
            return;
        }
        if let Some(run) = self.runs.get_mut(&part.run).filter(|run| run.is(part)) {
            run.progress.start_item(&run.dag, part.task, part.item, id);
            self.dirty.0.insert(part.run);
        }
    }

    /// An instance has come further, or is to be tried again.
    pub(super) fn moved(&mut self, spec: &InstanceSpec, id: InstanceId, state: UniversalState) {
        let Some(part) = spec.part else {
            return;
        };
        let Some(run) = self.runs.get_mut(&part.run).filter(|run| run.is(part)) else {
            return;
        };
        // What is there for a failure is not stopped by it, also where it is tried again.
        let failed = run.progress.is_failing_fast() && !run.dag.is_handler(part.task);
        let closed = run.head.halting.is_some() || failed;
        if state == UniversalState::Running && run.head.state == UniversalState::Launched {
            run.has_begun = true;
        } else if state == UniversalState::Queued && closed {
            run.stops.retried.insert(id);
        } else {
            return;
        }
        self.dirty.0.insert(part.run);
    }

    /// An instance is on its way no more.
    pub(super) fn left(
        &mut self,
        spec: &InstanceSpec,
        state: UniversalState,
        outputs: Option<&Arc<str>>,
    ) {
        let Some(part) = spec.part else {
            return;
        };
        let Some(run) = self.runs.get_mut(&part.run).filter(|run| run.is(part)) else {
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
            run.stops.sweep = Some(HaltMode::Drain);
        }
        self.dirty.0.insert(part.run);
    }

    /// Takes one fact about a run in.
    pub(super) fn apply(&mut self, fact: &Fact) -> Result<(), LedgerError> {
        if let Some(head) = RunHead::registered(fact) {
            return self.registered(head?, fact);
        }
        let Some(id) = fact.run() else {
            return Ok(());
        };
        let unknown = || LedgerError::Run(id, "is not there".to_owned());
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
            Fact::RunHalting { mode, .. } => run.stops.sweep = Some(*mode),
            Fact::RunEnded { .. } if !run.progress.is_idle() => {
                return Err(LedgerError::Run(
                    id,
                    "ends while something is on its way".to_owned(),
                ));
            }
            Fact::RunEnded { .. } => run.has_begun = false,
            Fact::RunResumed {
                plan,
                carried,
                rerun,
                ..
            } => run.resume(plan.as_ref(), carried, rerun),
            _ => {}
        }
        run.head = head.clone();
        self.heads.insert(id, head);
        self.dirty.0.insert(id);
        Ok(())
    }

    fn registered(&mut self, head: RunHead, fact: &Fact) -> Result<(), LedgerError> {
        let (id, Fact::RunRegistered { plan, .. }) = (head.id, fact) else {
            return Ok(());
        };
        if self.heads.contains_key(&id) || id <= self.last {
            return Err(LedgerError::Run(id, "is there already".to_owned()));
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
            stops: Stops::default(),
            leased: BTreeMap::new(),
            times: Times::default(),
        };
        self.runs.insert(id, run);
        self.dirty.0.insert(id);
        Ok(())
    }
}

impl Run {
    /// How many instances of a task have a lease.
    #[must_use]
    pub fn leased(&self, task: u32) -> u32 {
        self.leased.get(&task).copied().unwrap_or_default()
    }

    /// How many have, of all tasks.
    #[must_use]
    pub fn all_leased(&self) -> u32 {
        self.leased.values().sum()
    }

    /// How long instances of a task took on average, as far as this leader has seen it.
    #[must_use]
    pub fn mean(&self, task: u32) -> Option<Millis> {
        let (count, sum) = self.times.0.get(&task)?;
        sum.0.checked_div(*count).map(Millis)
    }

    /// Whether the part is one of the generation that lives.
    fn is(&self, part: Part) -> bool {
        part.generation == self.head.generation
            && self.progress.state(part.task, part.item).is_some()
    }

    #[must_use]
    pub fn done(&self) -> Vec<ItemResult> {
        let kept = self.done.clone();
        kept.unwrap_or_else(|| self.progress.done().collect())
    }

    /// Begins again with what stays DONE.
    fn resume(&mut self, plan: Option<&Arc<Plan>>, carried: &[CarriedItems], again: &[ItemSpan]) {
        // There may be a million of them, and they are needed no more.
        let kept = self.done.take();
        let done = kept.unwrap_or_else(|| self.progress.done().collect());
        let done = invalidate::without(done, again);
        let done = match plan {
            None => done,
            Some(plan) => {
                self.dag = Arc::new(Dag::new(Arc::clone(plan)));
                compare::carry_over(done, carried)
            }
        };
        self.progress = Progress::new(&self.dag, [], done);
        self.times = Times::default();
        self.has_begun = false;
    }
}
