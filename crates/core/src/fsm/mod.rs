//! The five state machines, each as one table that is used live, in replay, in
//! the docs and in the tests.
//!
//! A machine is a [`Machine`]: rows that say which event leads from which state
//! to which, and *late* rows that name the races an event can lose. So every
//! pair of state and event has exactly one of three answers:
//!
//! | the pair is in | [`transition`] answers | meaning |
//! |---|---|---|
//! | `TABLE` | [`Transition::Moved`] | the machine is in a new state |
//! | `LATE` | [`Transition::Late`] | the event lost a race that is known to happen: nothing moves, the caller counts it in [`LateCounts`] |
//! | neither | [`IllegalTransition`] | a bug, a corrupt log, or a command that makes no sense here |
//!
//! A late event is neither an error, which would make an ordinary race look like
//! damage, nor silence, which would hide damage among ordinary races.
//!
//! What the tables do not know: *whose* event it is. Before an event about an
//! attempt or an association reaches [`transition`], its caller has compared the
//! lease or the association, because a state alone cannot tell the confirmation
//! of this attempt from one of the attempt before.
//!
//! The states are in `baton-model`, since they stand on the wire; the events are
//! here, since only this crate uses them.
//!
//! ```
//! use baton_core::fsm::{Transition, Universal, UniversalEvent, transition};
//! use baton_model::state::UniversalState;
//!
//! let moved = transition::<Universal>(UniversalState::Queued, UniversalEvent::Claimed);
//! assert_eq!(moved, Ok(Transition::Moved(UniversalState::Instantiating)));
//!
//! let late = transition::<Universal>(UniversalState::Done, UniversalEvent::Stopped);
//! assert!(matches!(late, Ok(Transition::Late(name)) if name.0 == "stop-after-end"));
//!
//! assert!(transition::<Universal>(UniversalState::Done, UniversalEvent::Claimed).is_err());
//! ```

use std::collections::BTreeMap;
use std::fmt;

/// Declares the events of one machine with their one spelling. The doc comment
/// of each is also its explanation in the generated pages.
macro_rules! events {
    ($(#[$doc:meta])* $name:ident {
        $($(#[doc = $about:literal])+ $variant:ident = $word:literal,)+
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[doc = $about])+ $variant,)+
        }

        impl $name {
            /// Every event, in the order of a normal lifecycle.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word for this event, in kebab-case.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl $crate::fsm::Word for $name {
            const ALL: &'static [Self] = Self::ALL;

            fn word(self) -> &'static str {
                $name::word(self)
            }
        }

        impl $crate::fsm::Event for $name {
            fn about(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($($about),+).trim_ascii(),)+
                }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.word())
            }
        }
    };
}

/// Lends the [`Word`] trait to a state enum of `baton-model`.
macro_rules! state_words {
    ($state:ty) => {
        impl $crate::fsm::Word for $state {
            const ALL: &'static [Self] = <$state>::ALL;

            fn word(self) -> &'static str {
                <$state>::word(self)
            }
        }
    };
}

mod attempt;
pub mod diagram;
mod leader;
mod process;
#[cfg(test)]
mod tests;
mod universal;
mod worker;

pub use attempt::{Attempt, AttemptEvent};
pub use leader::{Leader, LeaderEvent};
pub use process::{Process, ProcessEvent};
pub use universal::{Universal, UniversalEvent};
pub use worker::{Worker, WorkerEvent};

/// A closed set of values, each with one spelling.
pub trait Word: Copy + Ord + fmt::Debug + 'static {
    /// Every value, in the order of a normal lifecycle.
    const ALL: &'static [Self];

    /// The spelling.
    fn word(self) -> &'static str;
}

/// What can happen to a machine: a fact in the past tense or a command.
pub trait Event: Word {
    /// One sentence for people.
    fn about(self) -> &'static str;
}

/// One of the five machines, wholly described by its constants.
///
/// Invariants, proved for every machine by this module's tests: no pair of state
/// and event stands twice in `TABLE` and `LATE` together; every state can be
/// reached from `INITIAL`; and only events of `BY_HAND` lead out of `TERMINAL`.
pub trait Machine: Copy + Eq + fmt::Debug + 'static {
    /// The states, as they stand on the wire.
    type State: Word;
    type Event: Event;

    /// The machine's name: in errors, in counts, and of its generated page.
    const NAME: &'static str;
    /// What the machine describes, for the generated page.
    const ABOUT: &'static str;
    /// Every move.
    const TABLE: &'static [Row<Self::State, Self::Event>];
    /// Every race that an event may lose.
    const LATE: &'static [LateRow<Self::State, Self::Event>];
    /// The initial states.
    const INITIAL: &'static [Self::State];
    /// The states that no automatic event leaves.
    const TERMINAL: &'static [Self::State];
    /// The events by which a person leads the machine out of a terminal state.
    const BY_HAND: &'static [Self::Event] = &[];
}

/// One move of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<S, E> {
    /// The state before.
    pub from: S,
    pub event: E,
    /// The state after.
    pub to: S,
}

/// One race that an event may lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateRow<S, E> {
    /// The state that the event finds.
    pub state: S,
    /// The event that comes too late.
    pub event: E,
    /// The race that it lost.
    pub name: LateName,
}

/// The name of a race that an event can lose, in kebab-case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LateName(pub &'static str);

impl fmt::Display for LateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

/// What an event did to a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a late event is counted, a move is stored"]
pub enum Transition<S> {
    /// It led to this state.
    Moved(S),
    /// It lost this race, and the state stays.
    Late(LateName),
}

impl<S> Transition<S> {
    /// The new state, if there is one.
    #[must_use]
    pub fn moved(self) -> Option<S> {
        match self {
            Self::Moved(state) => Some(state),
            Self::Late(_) => None,
        }
    }
}

/// An event in a state where it can neither move the machine nor be late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IllegalTransition<M: Machine> {
    /// The state that the event found.
    pub state: M::State,
    /// The event.
    pub event: M::Event,
}

impl<M: Machine> IllegalTransition<M> {
    /// The machine's name.
    #[must_use]
    pub const fn machine(&self) -> &'static str {
        M::NAME
    }
}

impl<M: Machine> fmt::Display for IllegalTransition<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let here = words(
            M::TABLE
                .iter()
                .filter(|row| row.from == self.state)
                .map(|row| row.event.word()),
        );
        let elsewhere = words(
            M::TABLE
                .iter()
                .filter(|row| row.event == self.event)
                .map(|row| row.from.word()),
        );
        write!(
            f,
            "illegal transition: the {} machine in {} does not take {}; it takes {here} there, and takes {} in {elsewhere}",
            M::NAME,
            self.state.word(),
            self.event.word(),
            self.event.word(),
        )
    }
}

impl<M: Machine> std::error::Error for IllegalTransition<M> {}

/// Answers what `event` does to a machine in `state`.
///
/// The scan is linear: the largest machine has about forty rows of a few bytes,
/// which is less than a hash of the pair would cost.
///
/// # Errors
/// [`IllegalTransition`] if the pair is neither a move nor a known race.
pub fn transition<M: Machine>(
    state: M::State,
    event: M::Event,
) -> Result<Transition<M::State>, IllegalTransition<M>> {
    if let Some(row) = M::TABLE
        .iter()
        .find(|row| row.from == state && row.event == event)
    {
        return Ok(Transition::Moved(row.to));
    }
    match M::LATE
        .iter()
        .find(|row| row.state == state && row.event == event)
    {
        Some(row) => Ok(Transition::Late(row.name)),
        None => Err(IllegalTransition { state, event }),
    }
}

/// Counters of lost races, by machine and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LateCounts(BTreeMap<(&'static str, LateName), u64>);

impl LateCounts {
    /// Counts one lost race of machine `M`.
    pub fn record<M: Machine>(&mut self, late: LateName) {
        *self.0.entry((M::NAME, late)).or_default() += 1;
    }

    /// How often machine `M` has seen this race lost.
    #[must_use]
    pub fn count<M: Machine>(&self, late: LateName) -> u64 {
        self.0.get(&(M::NAME, late)).copied().unwrap_or_default()
    }

    /// Every race seen so far as (machine, race, count), in a stable order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, LateName, u64)> + '_ {
        self.0
            .iter()
            .map(|(&(machine, late), &count)| (machine, late, count))
    }
}

/// A move; short, so that a table reads as a table.
const fn row<S: Copy, E: Copy>(from: S, event: E, to: S) -> Row<S, E> {
    Row { from, event, to }
}

/// A race; short, so that a table reads as a table.
const fn late<S: Copy, E: Copy>(state: S, event: E, name: &'static str) -> LateRow<S, E> {
    LateRow {
        state,
        event,
        name: LateName(name),
    }
}

/// The words of a list in a sentence.
fn words(list: impl Iterator<Item = &'static str>) -> String {
    let list: Vec<&str> = list.collect();
    if list.is_empty() {
        "nothing".to_owned()
    } else {
        list.join(", ")
    }
}
