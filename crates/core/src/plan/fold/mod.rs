//! Application of records: the only way in which a plan changes, live and in replay.
//!
//! [`Fold::apply`] has no effects besides the change itself. It relies on nothing
//! outside the records, above all not on the time at which a log is replayed. A
//! record that does not follow from the ones before it is refused and changes
//! nothing.
//!
//! Every change of state is a row of the tables in [`crate::fsm`]. A live plan
//! looks for late events before it makes a record, so a late one *in* the log is
//! as wrong as an illegal one.

mod ending;
mod run;

use std::sync::Arc;

use baton_model::task::{
    Disposition, PlanChange, PlanEvent, PlanSnapshot, ProcessNo, ProcessProgress, ProcessSpec,
    StopCause, TaskSpec,
};
use baton_model::time::Mono;

use super::agenda::{Agenda, Milestones, Stage, Timer};
use super::error::ApplyError;
use super::graph::Graph;

/// The records so far, added up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::plan) struct Fold {
    pub(in crate::plan) spec: Arc<TaskSpec>,
    pub(in crate::plan) graph: Arc<Graph>,
    pub(in crate::plan) snapshot: PlanSnapshot,
    pub(in crate::plan) agenda: Agenda,
}

impl Fold {
    /// The plain data, with what follows from it.
    pub(in crate::plan) fn new(
        spec: Arc<TaskSpec>,
        graph: Arc<Graph>,
        snapshot: PlanSnapshot,
    ) -> Self {
        let agenda = Agenda::rebuild(&spec, &graph, &snapshot);
        Self {
            spec,
            graph,
            snapshot,
            agenda,
        }
    }

    /// Takes one record in.
    pub(in crate::plan) fn apply(&mut self, event: &PlanEvent) -> Result<(), ApplyError> {
        let before = self.snapshot.at;
        let new_boot = matches!(event.change, PlanChange::Resumed { boot_changed: true });
        if event.at.mono < before.mono && !new_boot {
            return Err(ApplyError::ClockWentBack {
                from: before.mono,
                to: event.at.mono,
            });
        }
        self.snapshot.at = event.at;
        let taken = self.take(&event.change, before.mono);
        if taken.is_ok() {
            self.agenda.promote(event.at.mono);
        } else {
            self.snapshot.at = before;
        }
        taken
    }

    /// A process' policies.
    pub(in crate::plan) fn spec_of(&self, no: ProcessNo) -> &ProcessSpec {
        &self.spec.processes[no.index()]
    }

    /// A process' progress.
    pub(in crate::plan) fn progress(&self, no: ProcessNo) -> &ProcessProgress {
        &self.snapshot.processes[no.index()]
    }

    /// The stage whose processes may be started now.
    pub(in crate::plan) fn stage(&self) -> Option<Stage> {
        let closed = self
            .snapshot
            .ending
            .is_some_and(|ending| ending.stopping || ending.killing);
        Stage::at(self.snapshot.state).filter(|_| !closed)
    }

    /// True if another run of this process may follow.
    pub(in crate::plan) fn goes_on(&self, no: ProcessNo) -> bool {
        self.stage() == Some(Stage::of(self.spec_of(no)))
    }

    /// True if one more process of this stage may run.
    pub(in crate::plan) fn has_room(&self, stage: Stage) -> bool {
        let limit = self.spec.max_concurrency as usize;
        limit == 0 || self.agenda.queue(stage).live.len() < limit
    }

    /// All live runs, of either stage.
    pub(in crate::plan) fn live(&self) -> Vec<ProcessNo> {
        [Stage::Regular, Stage::Final]
            .into_iter()
            .flat_map(|stage| self.agenda.queue(stage).live.iter().copied())
            .collect()
    }

    fn take(&mut self, change: &PlanChange, clock: Mono) -> Result<(), ApplyError> {
        match *change {
            PlanChange::RunOrdered { process, run } => self.run_ordered(process, run),
            PlanChange::RunStarted {
                process,
                run,
                started,
                identity,
            } => self.run_started(process, run, started, identity),
            PlanChange::RunReady { process, run } => self.run_ready(process, run),
            PlanChange::RunStopping {
                process,
                run,
                cause,
            } => self.run_stopping(process, run, cause),
            PlanChange::RunEnded {
                process,
                run,
                ended,
                end,
                failure,
                next,
            } => {
                self.live_run(process, run)?;
                self.run_ended(process, ended, end, failure, next)
            }
            PlanChange::CleaningBegun { verdict, budget } => self.cleaning_begun(verdict, budget),
            PlanChange::DeadlineMoved { deadline } => self.deadline_moved(deadline),
            PlanChange::BudgetMarked => self.budget_marked(),
            PlanChange::KillBegun => self.kill_begun(),
            PlanChange::FinalizingBegun => self.finalizing_begun(),
            PlanChange::FinalizersStopping => self.finalizers_stopping(),
            PlanChange::AttemptEnded => self.attempt_ended(),
            PlanChange::AttemptLost => self.attempt_lost(),
            PlanChange::Resumed { boot_changed } => {
                if boot_changed {
                    self.boot_changed(clock);
                }
                Ok(())
            }
        }
    }

    /// Updates the downstream processes after a change since `before`: conditions that are met,
    /// and conditions that can never be met. Each edge of the graph is used once, so
    /// a whole attempt costs no more than the graph has edges.
    fn spread(&mut self, no: ProcessNo, before: Milestones) {
        let graph = Arc::clone(&self.graph);
        let mut changed = vec![(no, before)];
        while let Some((no, before)) = changed.pop() {
            let after = self.milestones(no);
            for &(other, condition) in graph.after(no) {
                if !before.meet(condition) && after.meet(condition) {
                    self.agenda.unmet[other.index()] -= 1;
                    self.agenda.place(&self.spec, &self.snapshot, other);
                } else if !before.closed()
                    && after.closed()
                    && !after.meet(condition)
                    && self.progress(other).disposition == Disposition::Open
                {
                    changed.push((other, self.milestones(other)));
                    self.close(other, Disposition::Blocked);
                }
            }
        }
    }

    fn close(&mut self, no: ProcessNo, fate: Disposition) {
        let from = std::mem::replace(&mut self.snapshot.processes[no.index()].disposition, fate);
        let spec = Arc::clone(&self.spec);
        self.agenda.recount(&spec.processes[no.index()], from, fate);
    }

    fn mark_stopping(&mut self, no: ProcessNo, cause: StopCause) {
        self.agenda.timers.disarm(&Timer::Timeout(no));
        if let Some(live) = &mut self.snapshot.processes[no.index()].live {
            live.stopping.get_or_insert(cause);
        }
    }

    fn milestones(&self, no: ProcessNo) -> Milestones {
        Milestones::of(&self.spec, &self.snapshot, no)
    }

    fn known(&self, no: ProcessNo) -> Result<&ProcessProgress, ApplyError> {
        self.snapshot
            .processes
            .get(no.index())
            .ok_or(ApplyError::UnknownProcess(no))
    }
}
