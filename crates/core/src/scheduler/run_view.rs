//! How a run stands, for people to see.

use std::ops::Bound;
use std::sync::Arc;

use baton_model::ids::{InstanceId, RunId};
use baton_model::time::{Millis, Now};

use super::Scheduler;
use super::explain::Reason;
use crate::ledger::RunHead;
use crate::workflow::{Dag, Progress, Tally};

/// Instances of a task that are looked at for one that waits.
const LOOKED_AT_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq)]
pub struct RunView {
    pub head: RunHead,
    pub dag: Arc<Dag>,
    /// Where all its items stand.
    pub total: Tally,
    /// How many instances have a lease.
    pub leased: u32,
    /// Items that could not begin, and why.
    pub problems: Vec<(u32, u32, String)>,
    /// Those of its tasks that were asked for.
    pub tasks: Vec<TaskView>,
}

/// How a task of a run stands.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskView {
    /// Its place in the plan.
    pub task: u32,
    pub tally: Tally,
    /// How many instances have a lease.
    pub leased: u32,
    /// Whether its items are known.
    pub mapped: bool,
    /// One of those that have an instance and no lease, and what it waits for.
    pub reason: Option<(InstanceId, Reason)>,
    /// The first task that it comes after and that is not over.
    pub waits_for: Option<u32>,
    /// How long instances took on average.
    pub mean: Option<Millis>,
}

/// The first task that a task comes after and that is not over.
fn waits_for(dag: &Dag, progress: &Progress, task: u32) -> Option<u32> {
    let after = &dag.plan.tasks.get(task as usize)?.after;
    let open = |task: &u32| {
        let tally = progress.tally(*task);
        tally.settled() < tally.all()
    };
    after.iter().map(|it| it.task).find(open)
}

impl Scheduler {
    /// How a run stands that is not over, with `limit` tasks from `from` on.
    #[must_use]
    pub fn run_view(&self, id: RunId, from: u32, limit: usize, now: Now) -> Option<RunView> {
        let run = self.ledger.runs().run(id)?;
        let progress = &run.progress;
        let count = u32::try_from(run.dag.plan.tasks.len()).unwrap_or(u32::MAX);
        let tasks = (from..count).take(limit).map(|task| TaskView {
            task,
            tally: progress.tally(task),
            leased: run.leased(task),
            mapped: progress.is_mapped(task),
            reason: progress
                .live_of(task)
                .take(LOOKED_AT_MAX)
                .find(|id| {
                    let instance = self.ledger.instance(*id);
                    instance.is_none_or(|instance| instance.lease.is_none())
                })
                .and_then(|id| Some((id, self.explain(id, now)?))),
            waits_for: waits_for(&run.dag, progress, task),
            mean: run.mean(task),
        });
        let problems = progress.problems();
        Some(RunView {
            head: run.head.clone(),
            dag: Arc::clone(&run.dag),
            total: *progress.total(),
            leased: run.all_leased(),
            problems: problems
                .map(|(task, item, why)| (task, item, why.to_owned()))
                .collect(),
            tasks: tasks.collect(),
        })
    }

    /// What of a run is on its way, by task and item, from behind `after` on.
    pub fn run_live(
        &self,
        id: RunId,
        after: Option<(u32, u32)>,
    ) -> impl Iterator<Item = (u32, u32, InstanceId)> + '_ {
        let run = self.ledger.runs().run(id);
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        run.into_iter()
            .flat_map(move |run| run.progress.live_from(from))
    }
}
