//! Deadlines of runs, and of plans that wait for their next part.

use baton_model::fact::Fact;
use baton_model::ids::RunId;
use baton_model::limits::REGISTERING_MS_MAX;
use baton_model::state::UniversalState;
use baton_model::time::{Millis, Mono, Now};
use baton_model::workflow::{HaltCause, HaltMode};

use crate::ledger::{Ledger, RunHead};
use crate::scheduler::context::Cx;
use crate::timers::Timers;

/// Deadlines by run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Deadlines(Timers<RunId>);

impl Deadlines {
    pub(in crate::scheduler) fn restore(ledger: &Ledger, now: Now) -> Self {
        let mut deadlines = Self::default();
        // A QUEUED run of a library workflow may wait for its turn: its deadline is set when it is
        // processed.
        let queued = |head: &RunHead| head.origin.is_some() && head.state == UniversalState::Queued;
        for run in ledger.runs().iter().filter(|run| !queued(&run.head)) {
            deadlines.set(&run.head, run.dag.plan.timeout, now);
        }
        deadlines
    }

    /// Removes the deadline of a run.
    pub(super) fn clear(&mut self, id: RunId) {
        self.0.disarm(&id);
    }

    /// Sets or moves the deadline of a run.
    pub(super) fn set(&mut self, head: &RunHead, timeout: Option<Millis>, now: Now) {
        let after = match head.state {
            UniversalState::Registering => Some(Millis(REGISTERING_MS_MAX)),
            _ => timeout,
        };
        match after {
            Some(after) => {
                let passed = now.wall.since(head.begun);
                let left = Millis(after.0.saturating_sub(passed.0));
                self.0.arm(head.id, now.mono + left);
            }
            None => self.0.disarm(&head.id),
        }
    }

    pub(in crate::scheduler) fn next(&self) -> Option<Mono> {
        self.0.next()
    }

    /// Halts the runs whose deadline has passed.
    pub(in crate::scheduler) fn due(&mut self, cx: &mut Cx<'_>) {
        while let Some(id) = self.0.pop_due(cx.now.mono) {
            let Some(run) = cx.ledger.runs().run(id) else {
                continue;
            };
            if run.head.state == UniversalState::Registering {
                let generation = run.head.generation;
                cx.commit(Fact::RunEnded {
                    run: id,
                    generation,
                    state: UniversalState::Aborted,
                });
            } else {
                // A halt by request keeps its cause.
                let cause = run.head.halting.map_or(HaltCause::TimedOut, |it| it.1);
                cx.commit(Fact::RunHalting {
                    run: id,
                    mode: HaltMode::Kill,
                    cause,
                });
            }
        }
    }
}
