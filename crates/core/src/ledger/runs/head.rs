//! The head of a run: its state, and which facts may follow. A store that keeps rows changes them
//! by the same rules.

use baton_model::fact::Fact;
use baton_model::ids::{Generation, RunId};
use baton_model::library::RunOrigin;
use baton_model::state::UniversalState;
use baton_model::time::Wall;
use baton_model::workflow::{HaltCause, HaltMode};

use crate::fsm::{Transition, Universal, UniversalEvent, transition};
use crate::ledger::LedgerError;

/// State of a run that is kept even after it is over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RunHead {
    pub id: RunId,
    /// Name of the workflow.
    pub name: String,
    pub owner: String,
    pub state: UniversalState,
    /// Current generation: 1 plus the number of resumes.
    pub generation: Generation,
    /// The generation that introduced the current plan.
    pub plan: Generation,
    /// How it is being halted, and why.
    pub halting: Option<(HaltMode, HaltCause)>,
    pub submitted: Wall,
    /// Start of the current generation (after it has waited for its turn), or arrival of the last part of its plan.
    pub begun: Wall,
    /// The library workflow of which it is a run.
    pub origin: Option<RunOrigin>,
}

impl RunHead {
    /// The head of a new run, if the fact is [`Fact::RunRegistered`].
    ///
    /// # Errors
    /// If the state machine does not allow it.
    pub fn registered(fact: &Fact) -> Option<Result<Self, LedgerError>> {
        let Fact::RunRegistered {
            run,
            at,
            plan,
            open,
            origin,
        } = fact
        else {
            return None;
        };
        let mut head = Self {
            id: *run,
            name: plan.name.clone(),
            owner: plan.owner.clone(),
            state: UniversalState::Registering,
            generation: Generation(1),
            plan: Generation(1),
            halting: None,
            submitted: *at,
            begun: *at,
            origin: *origin,
        };
        let defined = if *open {
            Ok(())
        } else {
            head.step(UniversalEvent::Defined)
        };
        Some(defined.map(|()| head))
    }

    /// Applies a later fact about the run.
    ///
    /// # Errors
    /// If it contradicts the facts before it.
    pub fn apply(&mut self, fact: &Fact) -> Result<(), LedgerError> {
        use UniversalEvent as E;
        match fact {
            Fact::RunExtended { at, .. } if self.state == UniversalState::Registering => {
                self.begun = *at;
                Ok(())
            }
            Fact::RunDefined { at, .. } => {
                self.step(E::Defined)?;
                self.begun = *at;
                Ok(())
            }
            Fact::RunAdvanced { to, at, .. } => match to {
                UniversalState::Launched => {
                    self.step(E::Claimed)?;
                    self.step(E::LeaseGranted)?;
                    self.begun = at.unwrap_or(self.begun);
                    Ok(())
                }
                UniversalState::Running => self.step(E::Confirmed),
                _ => Err(self.wrong("cannot advance to that state")),
            },
            Fact::RunHalting { mode, cause, .. } if !self.state.is_terminal() => {
                self.halting = Some((*mode, *cause));
                Ok(())
            }
            Fact::RunEnded {
                generation, state, ..
            } if *generation == self.generation => self.end(*state),
            Fact::RunResumed {
                generation,
                at,
                plan,
                ..
            } if *generation == self.generation.next() => {
                self.step(match self.state {
                    UniversalState::Halted => E::Resumed,
                    UniversalState::Done => E::Reopened,
                    _ => E::RetriedByHand,
                })?;
                self.generation = *generation;
                self.begun = *at;
                self.halting = None;
                if plan.is_some() {
                    self.plan = *generation;
                }
                Ok(())
            }
            // Recorded with the run; it changes nothing.
            Fact::Launched { .. } => Ok(()),
            _ => Err(self.wrong("cannot take that fact in its state")),
        }
    }

    /// Moves to a terminal state, through the states between.
    fn end(&mut self, state: UniversalState) -> Result<(), LedgerError> {
        use UniversalEvent as E;
        match state {
            UniversalState::Aborted => return self.step(E::DefinitionAbandoned),
            UniversalState::Halted => return self.step(E::Stopped),
            UniversalState::Done | UniversalState::Failed => {}
            _ => return Err(self.wrong("ends in a state that is not terminal")),
        }
        if self.state == UniversalState::Queued {
            self.step(E::Claimed)?;
            self.step(E::LeaseGranted)?;
        }
        if self.state == UniversalState::Launched {
            self.step(E::Confirmed)?;
        }
        if state == UniversalState::Done {
            return self.step(E::Succeeded);
        }
        self.step(E::AttemptEnded)?;
        self.step(E::GaveUp)
    }

    fn step(&mut self, event: UniversalEvent) -> Result<(), LedgerError> {
        match transition::<Universal>(self.state, event) {
            Ok(Transition::Moved(state)) => {
                self.state = state;
                Ok(())
            }
            _ => Err(self.wrong(&format!(
                "is {}, where {event:?} is not allowed",
                self.state.word()
            ))),
        }
    }

    fn wrong(&self, reason: &str) -> LedgerError {
        LedgerError::Run(self.id, reason.to_owned())
    }
}
