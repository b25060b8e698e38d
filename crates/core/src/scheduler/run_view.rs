//! Views of runs for display.

use std::ops::Bound;
use std::sync::Arc;

use baton_model::ids::{InstanceId, RunId};
use baton_model::time::{Millis, Now};

use super::explain::Reason;
use super::{Scheduler, runs};
use crate::ledger::RunHead;
use crate::workflow::{Dag, Progress, Tally};

/// Instances of a task among which one that waits is searched.
const LOOKED_AT_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq)]
pub struct RunView {
    pub head: RunHead,
    pub dag: Arc<Dag>,
    /// Number of all items by state.
    pub total: Tally,
    /// Number of leased instances.
    pub leased: u32,
    /// `max_instances` of its library workflow is reached, and its runs wait for their turn.
    pub waits_for_turn: bool,
    /// Items that failed to start, with the reason.
    pub problems: Vec<(u32, u32, String)>,
    /// The requested page of its tasks.
    pub tasks: Vec<TaskView>,
}

/// View of a task of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskView {
    /// Index into the plan's tasks.
    pub task: u32,
    pub tally: Tally,
    /// Number of leased instances.
    pub leased: u32,
    /// Whether its items are known.
    pub mapped: bool,
    /// One of its instances without a lease, and what it waits for.
    pub reason: Option<(InstanceId, Reason)>,
    /// The first upstream task that is not settled.
    pub waits_for: Option<u32>,
    /// Mean duration of its instances.
    pub mean: Option<Millis>,
}

/// The first upstream task of a task that is not settled.
fn waits_for(dag: &Dag, progress: &Progress, task: u32) -> Option<u32> {
    let after = &dag.plan.tasks.get(task as usize)?.after;
    let is_unsettled = |task: &u32| {
        let tally = progress.tally(*task);
        tally.settled() < tally.all()
    };
    after.iter().map(|it| it.task).find(is_unsettled)
}

impl Scheduler {
    /// View of a run that is not over, with `limit` tasks from `from` on.
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
            mean: self.ledger.runs().mean_duration(id, task),
        });
        let problems = progress.problems();
        Some(RunView {
            head: run.head.clone(),
            dag: Arc::clone(&run.dag),
            total: *progress.total(),
            leased: run.all_leased(),
            waits_for_turn: runs::waits_for_turn(&self.ledger, &self.bullpen, &run.head),
            problems: problems
                .map(|(task, item, why)| (task, item, why.to_owned()))
                .collect(),
            tasks: tasks.collect(),
        })
    }

    /// Instances of a run in flight, by task and item, after the position `after`.
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
