//! What is known of every run: where it stands, and which fact may follow which. A store that
//! keeps rows changes them by the same rules.

use baton_model::fact::Fact;
use baton_model::ids::{Generation, RunId};
use baton_model::state::UniversalState;
use baton_model::time::Wall;
use baton_model::workflow::{HaltCause, HaltMode};

use crate::fsm::{Transition, Universal, UniversalEvent, transition};
use crate::ledger::LedgerError;

/// What is known of every run, also of those that are over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RunHead {
    /// Its id.
    pub id: RunId,
    /// The workflow.
    pub name: String,
    pub owner: String,
    pub state: UniversalState,
    /// How often it was begun.
    pub generation: Generation,
    /// Which generation brought the plan that is in force.
    pub plan: Generation,
    /// How it is being stopped, and why.
    pub halting: Option<(HaltMode, HaltCause)>,
    pub submitted: Wall,
    /// When its present generation began, or the last part of its plan came.
    pub begun: Wall,
}

impl RunHead {
    /// The head of a run that was just accepted, if the fact says that one was.
    ///
    /// # Errors
    /// If it cannot have been.
    pub fn registered(fact: &Fact) -> Option<Result<Self, LedgerError>> {
        let Fact::RunRegistered {
            run,
            at,
            plan,
            open,
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
        };
        let defined = match open {
            true => Ok(()),
            false => head.step(UniversalEvent::Defined),
        };
        Some(defined.map(|()| head))
    }

    /// Takes in one of the later facts about the run.
    ///
    /// # Errors
    /// If it does not fit.
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
            Fact::RunAdvanced { to, .. } => match to {
                UniversalState::Launched => {
                    self.step(E::Claimed)?;
                    self.step(E::LeaseGranted)
                }
                UniversalState::Running => self.step(E::Confirmed),
                _ => Err(self.wrong("goes to a state that it does not pass by itself")),
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
            _ => Err(self.wrong("cannot have had that happen to it where it stands")),
        }
    }

    /// Goes to an end, through the states between.
    fn end(&mut self, state: UniversalState) -> Result<(), LedgerError> {
        use UniversalEvent as E;
        match state {
            UniversalState::Aborted => return self.step(E::DefinitionAbandoned),
            UniversalState::Halted => return self.step(E::Stopped),
            UniversalState::Done | UniversalState::Failed => {}
            _ => return Err(self.wrong("ends in a state that is no end")),
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
                "is {}, where {event:?} cannot be",
                self.state.word()
            ))),
        }
    }

    fn wrong(&self, why: &str) -> LedgerError {
        LedgerError::Run(self.id, why.to_owned())
    }
}
