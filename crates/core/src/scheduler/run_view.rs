//! Views of runs for display.

use std::ops::Bound;
use std::sync::Arc;

use baton_model::ids::{InstanceId, RunId};
use baton_model::time::{Millis, Now};

use super::Scheduler;
use crate::ledger::RunHead;
use crate::wait::Wait;
use crate::workflow::{Dag, Tally};

#[derive(Clone, Debug, PartialEq)]
pub struct RunView {
    pub head: RunHead,
    pub dag: Arc<Dag>,
    /// Number of all items by state.
    pub total: Tally,
    /// Number of leased instances.
    pub leased: u32,
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
    /// What its items wait for, if some do.
    pub wait: Option<Wait>,
    /// Mean duration of its instances.
    pub mean: Option<Millis>,
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
            wait: self.explain_task(run, task, now),
            mean: self.ledger.runs().mean_duration(id, task),
        });
        let problems = progress.problems();
        Some(RunView {
            head: run.head.clone(),
            dag: Arc::clone(&run.dag),
            total: *progress.total(),
            leased: run.all_leased(),
            problems: problems
                .map(|(task, item, reason)| (task, item, reason.to_owned()))
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
