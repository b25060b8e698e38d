//! Ended runs: what their items came to, and the cache of those that were read last.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use baton_core::workflow::{Dag, Progress, items};
use baton_model::api::ItemCounts;
use baton_model::ids::RunId;
use baton_model::workflow::{ItemEnd, Plan};
use baton_store::view::{EndCount, RunRecord};
use baton_store::{StoreError, Views};
use tokio::sync::OnceCell;

use super::counts;

/// Runs in the cache. A run of 200,000 items needs some megabytes.
const RUNS_MAX: usize = 4;

/// An ended run, with what its items came to.
pub(super) struct EndedRun {
    pub(super) dag: Arc<Dag>,
    pub(super) items: ItemCounts,
    /// The counts of each task, and whether its items are known.
    pub(super) tasks: Vec<(ItemCounts, bool)>,
    /// Why items could not be made, by task and item.
    pub(super) problems: Vec<(u32, u32, String)>,
    /// The state of each item, once it was asked for.
    pub(super) progress: OnceCell<Progress>,
}

impl EndedRun {
    /// Reads an ended run. If each of its items has ended, as in a run that is DONE without a
    /// condition, their ends only have to be counted. What became of the others follows from all
    /// the results.
    pub(super) fn read(store: &dyn Views, run: RunId) -> Result<Option<Self>, StoreError> {
        let Some(plan) = store.plan(run)? else {
            return Ok(None);
        };
        if let Some(tasks) = ended_tasks(&plan, &store.run_ends(run)?) {
            return Ok(Some(Self {
                dag: Arc::new(Dag::new(plan)),
                items: sum(&tasks),
                tasks: tasks.into_iter().map(|counts| (counts, true)).collect(),
                problems: Vec::new(),
                progress: OnceCell::new(),
            }));
        }
        let computed = compute(store, run)?;
        Ok(computed.map(|(dag, progress)| {
            let count = u32::try_from(dag.plan.tasks.len()).unwrap_or(u32::MAX);
            let tasks = (0..count).map(|at| {
                let counts = counts::counts(&progress.tally(at), 0);
                (counts, progress.is_mapped(at))
            });
            let problems = progress.problems();
            Self {
                items: counts::counts(progress.total(), 0),
                tasks: tasks.collect(),
                problems: problems
                    .map(|(task, item, reason)| (task, item, reason.to_owned()))
                    .collect(),
                dag: Arc::new(dag),
                progress: OnceCell::from(progress),
            }
        }))
    }
}

/// Computes the state of each item of an ended run.
pub(super) fn compute(
    store: &dyn Views,
    run: RunId,
) -> Result<Option<(Dag, Progress)>, StoreError> {
    Ok(store.stored_run(run)?.map(|stored| {
        let dag = Dag::new(stored.plan);
        let progress = Progress::new(&dag, [], stored.ended);
        (dag, progress)
    }))
}

/// The counts of each task, if all of its items have ended.
fn ended_tasks(plan: &Plan, ends: &[EndCount]) -> Option<Vec<ItemCounts>> {
    let mut tasks = vec![ItemCounts::default(); plan.tasks.len()];
    for it in ends {
        let counts = tasks.get_mut(it.task as usize)?;
        match it.end {
            ItemEnd::Done => counts.done += it.count,
            ItemEnd::Failed => counts.failed += it.count,
            ItemEnd::Halted => counts.halted += it.count,
        }
    }
    let has_ended = |(task, counts): (_, &ItemCounts)| {
        let ended = counts.done + counts.failed + counts.halted;
        items::count(task) == Some(ended)
    };
    let of_plan = plan.tasks.iter().map(|task| &task.items);
    of_plan.zip(&tasks).all(has_ended).then_some(tasks)
}

fn sum(tasks: &[ItemCounts]) -> ItemCounts {
    let of = |field: fn(&ItemCounts) -> u64| tasks.iter().map(field).sum();
    ItemCounts {
        done: of(|it| it.done),
        failed: of(|it| it.failed),
        halted: of(|it| it.halted),
        ..ItemCounts::default()
    }
}

/// Holds an ended run once it is computed. If the computing client is cut off, another waiting one
/// computes it.
pub(super) type RunCell = OnceCell<Arc<EndedRun>>;

/// Cache of the ended runs that were read last: clients page through one run, and pages compare two.
/// Of concurrent readers of the same run, one computes it.
#[derive(Default)]
pub(in super::super) struct EndedRuns(Mutex<CachedRuns>);

#[derive(Default)]
struct CachedRuns {
    /// The latest last, at most [`RUNS_MAX`].
    last: VecDeque<(RunRecord, Arc<RunCell>)>,
    /// Runs that clients wait for.
    computing: Vec<(RunRecord, Weak<RunCell>)>,
}

impl EndedRuns {
    /// The cell of this run.
    pub(super) fn of(&self, record: &RunRecord) -> Arc<RunCell> {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, cell)) = cached.last.iter().find(|(of, _)| of == record) {
            return Arc::clone(cell);
        }
        cached.computing.retain(|(_, cell)| cell.strong_count() > 0);
        let mut computing = cached.computing.iter();
        let found = computing.find_map(
            |(of, cell)| {
                if of == record { cell.upgrade() } else { None }
            },
        );
        found.unwrap_or_else(|| {
            let cell = Arc::default();
            let computing = (record.clone(), Arc::downgrade(&cell));
            cached.computing.push(computing);
            cell
        })
    }

    pub(super) fn put(&self, record: RunRecord, cell: Arc<RunCell>) {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cached.last.retain(|(of, _)| of.head.id != record.head.id);
        cached.last.push_back((record, cell));
        if cached.last.len() > RUNS_MAX {
            cached.last.pop_front();
        }
    }
}
