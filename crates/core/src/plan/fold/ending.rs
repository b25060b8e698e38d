//! Records about the attempt as a whole: its end, and takeovers by another runner.

use baton_model::state::AttemptState;
use baton_model::task::{Ending, NextStep, RunEnd, StopCause};
use baton_model::time::{Millis, Mono};

use super::Fold;
use crate::fsm::{Attempt, AttemptEvent, IllegalTransition, Transition, transition};
use crate::plan::agenda::{Agenda, Stage};
use crate::plan::error::ApplyError;
use crate::timers::Timers;

impl Fold {
    pub(super) fn cleaning_begun(
        &mut self,
        verdict: AttemptState,
        budget: Millis,
    ) -> Result<(), ApplyError> {
        let event = match verdict {
            AttemptState::Success | AttemptState::Failed => AttemptEvent::PlanEnded,
            AttemptState::Killed => AttemptEvent::KillRequested,
            _ => return Err(ApplyError::Misplaced("a verdict that is not one")),
        };
        self.snapshot.state = attempt_row(self.snapshot.state, event)?;
        let at = self.snapshot.at.mono;
        self.snapshot.ending = Some(Ending {
            verdict,
            budget,
            deadline: at + budget,
            marked: at,
            stopping: false,
            killing: false,
        });
        self.agenda.arm_ending(self.snapshot.ending.as_ref());
        self.stop_all(Stage::Regular);
        Ok(())
    }

    pub(super) fn deadline_moved(&mut self, deadline: Mono) -> Result<(), ApplyError> {
        let ending = self.ending()?;
        if deadline > ending.deadline {
            return Err(ApplyError::Misplaced("a deadline moved back"));
        }
        ending.deadline = deadline;
        self.agenda.arm_ending(self.snapshot.ending.as_ref());
        Ok(())
    }

    pub(super) fn budget_marked(&mut self) -> Result<(), ApplyError> {
        let at = self.snapshot.at.mono;
        self.ending()?.marked = at;
        self.agenda.arm_ending(self.snapshot.ending.as_ref());
        Ok(())
    }

    pub(super) fn kill_begun(&mut self) -> Result<(), ApplyError> {
        let ending = self.ending()?;
        if ending.killing {
            return Err(ApplyError::Misplaced("a second killing of everything"));
        }
        ending.killing = true;
        self.agenda.arm_ending(self.snapshot.ending.as_ref());
        self.stop_all(Stage::Regular);
        self.stop_all(Stage::Final);
        Ok(())
    }

    pub(super) fn finalizing_begun(&mut self) -> Result<(), ApplyError> {
        if !self.agenda.queue(Stage::Regular).live.is_empty() {
            return Err(ApplyError::Misplaced("finalizing while something runs"));
        }
        self.snapshot.state = attempt_row(self.snapshot.state, AttemptEvent::Cleaned)?;
        Ok(())
    }

    pub(super) fn finalizers_stopping(&mut self) -> Result<(), ApplyError> {
        if self.snapshot.state != AttemptState::Finalizing || self.ending()?.stopping {
            return Err(ApplyError::Misplaced("a stop of what is not finalizing"));
        }
        self.ending()?.stopping = true;
        self.stop_all(Stage::Final);
        Ok(())
    }

    pub(super) fn attempt_ended(&mut self) -> Result<(), ApplyError> {
        let event = match self.ending()?.verdict {
            AttemptState::Success => AttemptEvent::Succeeded,
            AttemptState::Failed => AttemptEvent::Failed,
            _ => AttemptEvent::Killed,
        };
        if !self.live().is_empty() {
            return Err(ApplyError::Misplaced("an end while something runs"));
        }
        self.snapshot.state = attempt_row(self.snapshot.state, event)?;
        self.agenda.timers = Timers::default();
        Ok(())
    }

    pub(super) fn attempt_lost(&mut self) -> Result<(), ApplyError> {
        self.snapshot.state = attempt_row(self.snapshot.state, AttemptEvent::ProofLost)?;
        for no in self.live() {
            self.run_ended(no, self.snapshot.at, RunEnd::Lost, false, NextStep::Dropped)?;
        }
        self.agenda.timers = Timers::default();
        Ok(())
    }

    /// Nothing that ran is left, and the clock has begun anew. Of each wait, what
    /// was left of it when the last record was written is left now: how long the
    /// host was down is unknown without trusting a clock that may be stepped.
    pub(super) fn boot_changed(&mut self, clock: Mono) {
        let at = self.snapshot.at;
        let rebased = |due: Mono| at.mono + due.since(clock);
        for progress in &mut self.snapshot.processes {
            progress.not_before = rebased(progress.not_before);
        }
        if let Some(ending) = &mut self.snapshot.ending {
            ending.deadline = rebased(ending.deadline);
            ending.marked = at.mono;
        }
        self.agenda = Agenda::rebuild(&self.spec, &self.graph, &self.snapshot);
        for no in self.live() {
            let next = self.next_after_loss(no, at.mono);
            let ended = self.run_ended(no, at, RunEnd::Lost, false, next);
            assert!(ended.is_ok(), "a live run can be lost: {ended:?} of {no}");
        }
    }

    fn stop_all(&mut self, stage: Stage) {
        for no in self.agenda.queue(stage).live.clone() {
            self.mark_stopping(no, StopCause::Ending);
        }
    }

    fn ending(&mut self) -> Result<&mut Ending, ApplyError> {
        let over = self.snapshot.state.is_terminal();
        let ending = self.snapshot.ending.as_mut().filter(|_| !over);
        ending.ok_or(ApplyError::Misplaced("the attempt is not ending"))
    }
}

fn attempt_row(state: AttemptState, event: AttemptEvent) -> Result<AttemptState, ApplyError> {
    match transition::<Attempt>(state, event) {
        Ok(Transition::Moved(state)) => Ok(state),
        Ok(Transition::Late(_)) => Err(ApplyError::Attempt(IllegalTransition { state, event })),
        Err(illegal) => Err(ApplyError::Attempt(illegal)),
    }
}
