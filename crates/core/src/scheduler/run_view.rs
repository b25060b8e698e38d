//! Views of runs for display.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use baton_model::ids::{InstanceId, LeaseId, RunId};
use baton_model::progress::Progress;
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
    /// How far a running item has come: the one that was the last to say.
    pub progress: Option<(InstanceId, Progress)>,
}

impl Scheduler {
    /// View of a run that is not over, with `limit` tasks from `from` on.
    #[must_use]
    pub fn run_view(&self, id: RunId, from: u32, limit: usize, now: Now) -> Option<RunView> {
        let run = self.ledger.runs().run(id)?;
        let progress = &run.progress;
        let count = u32::try_from(run.dag.plan.tasks.len()).unwrap_or(u32::MAX);
        let mut spoken = if limit > 0 {
            self.newest_progress(id)
        } else {
            BTreeMap::new()
        };
        let tasks = (from..count).take(limit).map(|task| TaskView {
            task,
            tally: progress.tally(task),
            leased: run.leased(task),
            mapped: progress.is_mapped(task),
            wait: self.explain_task(run, task, now),
            mean: self.ledger.runs().mean_duration(id, task),
            progress: spoken.remove(&task),
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

    /// How far a running attempt has come, as it has last said.
    #[must_use]
    pub fn progress(&self, lease: LeaseId) -> Option<&Progress> {
        let open = self.ledger.open_lease(lease)?;
        let seat = self.seats().get(&open.holder.worker)?;
        seat.progress.get(&lease)
    }

    /// For each task of a run, the item that was the last to say how far it has come.
    fn newest_progress(&self, run: RunId) -> BTreeMap<u32, (InstanceId, Progress)> {
        let mut newest: BTreeMap<u32, (InstanceId, Progress)> = BTreeMap::new();
        let told = self.seats().values().flat_map(|seat| &seat.progress);
        for (lease, progress) in told {
            let id = lease.attempt.instance;
            let part = self.ledger.instance(id).and_then(|it| it.spec.part);
            let Some(part) = part.filter(|part| part.run == run) else {
                continue;
            };
            let last = newest.get(&part.task);
            if last.is_none_or(|(_, last)| last.at <= progress.at) {
                newest.insert(part.task, (id, progress.clone()));
            }
        }
        newest
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
