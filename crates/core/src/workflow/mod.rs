//! Workflows, pure: which tasks of a run are ready, when the run ends, and what remains to do
//! after it was halted or its workflow changed.
//!
//! | module | decides |
//! |---|---|
//! | [`template`] | which references a text has, and its rendered form |
//! | [`when`] | whether a condition holds |
//! | [`items`] | the number of items of a task, and their values |
//! | [`check`] | whether a plan is valid |
//! | [`output_files`] | whether items would write their output to one file |
//! | [`graph`] | the reverse edges of a plan, and its references |
//! | [`progress`] | which items are ready, in flight, and settled |
//! | `ready_queue` | which ready item is next, within the concurrency limits |
//! | [`bind`] | the spec of an item's instance |
//! | `texts` | the texts of a spec that are templates |
//! | [`invalidate`] | which items a resume reruns |
//! | [`compare`] | which items stay DONE under another plan |
//! | [`params`] | whether a task refers to a parameter that differs |
//! | [`preview`] | what a resume would do |
//!
//! A run's progress is a function of its plan and its item results, in any order; nothing else
//! about it is stored. So a million items need no rows before they start, and a leader that takes
//! over arrives at the same state as the one before.

pub mod bind;
pub mod check;
pub mod compare;
pub mod graph;
pub mod invalidate;
pub mod items;
pub mod output_files;
pub mod params;
pub mod preview;
pub mod progress;
mod ready_queue;
pub mod template;
mod texts;
pub mod when;

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_model::workflow::{Condition, Edges, Plan};

pub use graph::Graph;
pub use progress::{ItemResult, ItemState, Progress, Tally};

/// The DAG of a workflow: a plan with its reverse edges and an index of its task names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dag {
    pub plan: Arc<Plan>,
    pub graph: Graph,
    names: BTreeMap<String, u32>,
}

impl Dag {
    /// The DAG of a valid plan ([`check`]).
    #[must_use]
    pub fn new(plan: Arc<Plan>) -> Self {
        let names = plan.tasks.iter().zip(0..);
        let names = names.map(|(task, at)| (task.name.clone(), at)).collect();
        let graph = Graph::new(&plan, &names);
        Self { plan, graph, names }
    }

    /// Whether a task handles failures: `fail_fast` does not block it.
    #[must_use]
    pub fn is_handler(&self, task: u32) -> bool {
        let after = &self.plan.tasks[task as usize].after;
        after.iter().any(|it| it.condition != Condition::Success)
    }

    /// Number of edges of each item of a task to the item with the same index.
    #[must_use]
    fn item_edges(&self, task: u32) -> u32 {
        let after = &self.plan.tasks[task as usize].after;
        let same = after.iter().filter(|it| it.edges == Edges::Same);
        u32::try_from(same.count()).unwrap_or(u32::MAX)
    }

    /// Index of a task in the plan.
    #[must_use]
    pub fn index_of(&self, name: &str) -> Option<u32> {
        self.names.get(name).copied()
    }
}

#[cfg(test)]
mod tests;
