//! The state machine of one task attempt: when each process runs, what counts as
//! a failure, and how the attempt ends.
//!
//! ```text
//!            coordinator, clock, person                    checkpoint log
//!                      │ Input                                   ▲
//!                      ▼                                         │ PlanEvent
//!   now ──▶  Plan::handle ──▶ Step ──▶ Outbox ──▶ Batch ─────────┘
//!                                        │           │ durable
//!                      orders ◀──────────┴─ Receipt ◀┘
//! ```
//!
//! **The calling contract.** One runner drives one plan:
//! 1. `Plan::new`, then an [`Input::Tick`]. From then on every report goes into
//!    [`Plan::handle`], and a tick at [`Plan::next_due`].
//! 2. The events of each step are durable before its orders are carried out, in
//!    their order; the types of [`crate::step`] see to that.
//! 3. After a crash: `Plan::new` with the same definition and the same beginning,
//!    or [`Plan::from_snapshot`]; then [`Plan::apply`] for each event in the log;
//!    then a report of everything that the coordinator has seen since; then
//!    [`Input::Resumed`]. Until that last input the plan takes reports in but
//!    starts, stops and decides nothing. Then it repeats every order that may not
//!    have been carried out.
//! 4. Any prefix of the log is a state to go on from, also in the middle of a step.
//!
//! **Invariants.** Only the fold of events changes a plan, live and in replay, and
//! it uses no time but the recorded one. At most `max_concurrency` processes of a
//! plan run. Nothing starts before its conditions are met, and a process has one
//! run at a time. In a terminal state nothing runs. One event costs what it
//! changes, not what exists; a plan is as large as its task, however long it runs.
//!
//! **The two stages.** The regular processes run in ACTIVE. It ends when every one
//! that is waited for has finished, failed for good, or can never start; when
//! `max_failures` of them have failed; or with a kill. The verdict is made then and
//! stands: a process that can never start, or too many failures, make it FAILED.
//! CLEANING stops what still runs; FINALIZING runs the final processes, whose
//! results change nothing; one budget covers both. What is left at its end is
//! killed.
//!
//! | file | holds |
//! |---|---|
//! | `io` | inputs and orders |
//! | `graph` | dependencies, and the rules of a definition |
//! | `judge` | classification of the end of a run |
//! | `fold` | application of events |
//! | `agenda` | derived state: queues, counts, timers |
//! | `turn` | the step from an input to events and orders |
//! | `view` | read access |
//!
//! The events and what they add up to are plain data in `baton_model::task`.
//! Elsewhere: writing the log, launching, signals and checks (the runner and its
//! coordinator), and what follows for the instance ([`crate::triage`]).

mod agenda;
mod error;
mod fold;
mod graph;
mod io;
mod judge;
#[cfg(test)]
mod tests;
mod turn;
mod view;

use std::sync::Arc;

use baton_model::state::AttemptState;
use baton_model::task::{PlanEvent, PlanSnapshot, ProcessProgress, TaskSpec};
use baton_model::time::Now;

use crate::counts::Counts;
use crate::step::Step;
use fold::Fold;
use graph::Graph;
use turn::Turn;

pub use error::{ApplyError, SnapshotMismatch};
pub use graph::SpecError;
pub use io::{Input, Order};
pub use view::{ProcessView, Wait};

/// One attempt at one task. See the module for the calling contract.
#[derive(Clone, Debug)]
pub struct Plan {
    fold: Fold,
    /// Being rebuilt from its log: takes reports in, decides nothing.
    recovering: bool,
    counts: Counts,
}

/// A plan that cannot be created.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The definition breaks a rule.
    #[error(transparent)]
    Spec(SpecError),
    /// The snapshot was made from another definition.
    #[error(transparent)]
    Snapshot(SnapshotMismatch),
}

impl Plan {
    /// A plan of which nothing has happened yet. `now` is its beginning, which
    /// belongs into the header of the log.
    ///
    /// # Errors
    /// [`SpecError`] if the definition breaks a rule that the plan relies on.
    pub fn new(spec: Arc<TaskSpec>, now: Now) -> Result<Self, SpecError> {
        let graph = Arc::new(Graph::new(&spec)?);
        let snapshot = PlanSnapshot {
            began: now.into(),
            at: now.into(),
            state: AttemptState::Active,
            ending: None,
            processes: vec![ProcessProgress::default(); spec.processes.len()],
        };
        Ok(Self {
            fold: Fold::new(spec, graph, snapshot),
            recovering: false,
            counts: Counts::default(),
        })
    }

    /// The plan that a compacted log begins with. It is recovering.
    ///
    /// # Errors
    /// [`PlanError`] if the definition breaks a rule, or is not the one that the
    /// snapshot was made from.
    pub fn from_snapshot(spec: Arc<TaskSpec>, snapshot: PlanSnapshot) -> Result<Self, PlanError> {
        let graph = Arc::new(Graph::new(&spec).map_err(PlanError::Spec)?);
        let (expected, found) = (spec.processes.len(), snapshot.processes.len());
        if expected != found {
            return Err(PlanError::Snapshot(SnapshotMismatch { expected, found }));
        }
        Ok(Self {
            fold: Fold::new(spec, graph, snapshot),
            recovering: true,
            counts: Counts::default(),
        })
    }

    /// Takes one event of the log in. From here on the plan is recovering.
    ///
    /// # Errors
    /// [`ApplyError`] if the event does not follow from the ones before it; the
    /// plan is then unchanged.
    pub fn apply(&mut self, event: &PlanEvent) -> Result<(), ApplyError> {
        self.fold.apply(event)?;
        self.recovering = true;
        Ok(())
    }

    /// Decides what `input` means.
    ///
    /// A clock that seems to run backwards is taken for standing still, except
    /// where `input` says that the host has booted.
    pub fn handle(&mut self, now: Now, input: Input) -> Step<PlanEvent, Order> {
        let mut turn = Turn::new(self, now, &input);
        turn.take(input);
        turn.done()
    }
}
