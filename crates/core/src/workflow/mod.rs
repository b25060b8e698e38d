//! Workflows, pure: what of a plan may begin, when a run is over, and what of it is left to do
//! after it was stopped or changed.
//!
//! | module | decides |
//! |---|---|
//! | [`template`] | what a text refers to, and what it is once that is known |
//! | [`when`] | whether a condition holds |
//! | [`items`] | how many items a task has, and which value each has |
//! | [`check`] | whether a plan is one |
//! | [`graph`] | who comes after whom, the other way round |
//! | [`progress`] | what is ready, on its way, and over |
//! | `lanes` | which of what is ready goes next, within the limits |
//! | [`bind`] | what the instance of an item asks for |
//! | [`invalidate`] | what is done again when a run goes on |
//! | [`compare`] | what stays DONE under another plan, and what runs again |
//! | [`preview`] | the same, for people to see before it is done |
//!
//! A run's progress follows from its plan and from how its instances ended, in whatever order
//! that is learned: nothing else about it is kept. So a million items need no rows before they
//! begin, and a leader that takes over stands where the one before it stood.

pub mod bind;
pub mod check;
pub mod compare;
pub mod graph;
pub mod invalidate;
pub mod items;
mod lanes;
pub mod preview;
pub mod progress;
pub mod template;
pub mod when;

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_model::workflow::{Condition, Plan};

pub use graph::Graph;
pub use progress::{ItemResult, ItemState, Progress, Tally};

/// A plan with everything that follows from it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dag {
    /// The plan.
    pub plan: Arc<Plan>,
    pub graph: Graph,
    names: BTreeMap<String, u32>,
}

impl Dag {
    /// Looks at a plan that was checked.
    #[must_use]
    pub fn new(plan: Arc<Plan>) -> Self {
        let names = plan.tasks.iter().zip(0..);
        let names = names.map(|(task, at)| (task.name.clone(), at)).collect();
        let graph = Graph::new(&plan, &names);
        Self { plan, graph, names }
    }

    /// Whether a task is there for what went wrong: `fail_fast` does not keep it.
    #[must_use]
    pub fn is_handler(&self, task: u32) -> bool {
        let after = &self.plan.tasks[task as usize].after;
        after.iter().any(|it| it.condition != Condition::Success)
    }

    /// The place of a task in the plan.
    #[must_use]
    pub fn place(&self, name: &str) -> Option<u32> {
        self.names.get(name).copied()
    }
}

#[cfg(test)]
mod tests;
