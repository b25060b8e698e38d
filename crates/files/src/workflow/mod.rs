//! A checked workflow file, and the order of its tasks.
//!
//! Everything that does not depend on parameters is checked when a file is read: names, cycles,
//! items, edges, references. `plan` makes the plan.
//!
//! | module | |
//! |---|---|
//! | [`order`] | names, cycles, edges, and the dependency order of the plan |
//! | [`references`] | references of templates and conditions |

mod order;
mod references;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_model::alarm::Expectations;
use baton_model::library::Trigger;
use baton_model::notify::NotifyRule;
use baton_model::time::Millis;
use baton_model::workflow::{Condition, Edges, Items, Plan, Pool, Upstream};

use crate::error::Location;
use crate::param::Param;
use crate::policy::Policy;
use crate::source;
use crate::template::{LocatedReference, Reference, RuntimeReference};
use crate::tree::Tree;

pub(crate) use order::{bound_edge_problems, resolve};

/// A checked workflow file. The processes and variables of its tasks are read again with each
/// binding.
#[derive(Clone, Debug)]
pub struct WorkflowFile {
    /// The parameters by name.
    pub params: BTreeMap<String, Param>,
    /// What starts it, once it is in the library.
    pub trigger: Trigger,
    pub(crate) notify: Option<NotifyRule>,
    pub(crate) expected: Expectations,
    pub(crate) file: String,
    pub(crate) tree: Arc<Tree>,
    pub(crate) name: String,
    pub(crate) owner: Option<String>,
    pub(crate) owner_location: Location,
    pub(crate) max_concurrent: Option<u32>,
    pub(crate) fail_fast: bool,
    pub(crate) timeout: Option<Millis>,
    pub(crate) pools: Vec<Pool>,
    /// In dependency order.
    pub(crate) tasks: Vec<WorkflowTask>,
}

/// A task of a workflow, without the fields that have templates.
#[derive(Clone, Debug)]
pub(crate) struct WorkflowTask {
    pub(crate) name: String,
    /// The index in `tasks` of the tree.
    pub(crate) entry: usize,
    /// The references of all its templates.
    pub(crate) references: Vec<LocatedReference>,
    pub(crate) policy: Policy,
    pub(crate) location: Location,
    /// The index in the plan, set by [`resolve`].
    pub(crate) at: u32,
    pub(crate) items: UnresolvedItems,
    pub(crate) after: Vec<UnresolvedAfter>,
    pub(crate) when: Option<UnresolvedWhen>,
    pub(crate) max_concurrent: Option<u32>,
    pub(crate) pool: Option<u32>,
}

/// The items of a task; [`resolve`] sets the index of the task that reports them.
#[derive(Clone, Debug)]
pub(crate) struct UnresolvedItems {
    pub(crate) items: Items,
    /// The task that reports the items as an output.
    pub(crate) from: Option<String>,
    /// The parameter whose value is the list of items; they are empty until it is bound.
    pub(crate) param: Option<String>,
    pub(crate) keys: ItemKeys,
    pub(crate) location: Location,
}

/// The keys of `item.KEY`.
#[derive(Clone, Debug)]
pub(crate) enum ItemKeys {
    /// The task has no items.
    NoItem,
    /// Some item is not a map.
    Scalar,
    Known(BTreeSet<String>),
    /// Known only at run time, or the items are invalid.
    Unknown,
}

/// A dependency on another task, by name until [`resolve`] sets the index.
#[derive(Clone, Debug)]
pub(crate) struct UnresolvedAfter {
    pub(crate) task: String,
    /// The index in the plan, set by [`resolve`].
    pub(crate) at: u32,
    pub(crate) condition: Condition,
    pub(crate) edges: Edges,
    pub(crate) location: Location,
    pub(crate) edges_location: Location,
}

/// A parsed condition.
#[derive(Clone, Debug)]
pub(crate) struct UnresolvedWhen {
    pub(crate) text: String,
    pub(crate) references: Vec<RuntimeReference>,
    pub(crate) location: Location,
}

/// The existing tasks and parameters that new tasks may refer to.
pub(crate) struct Context<'a> {
    /// Existing tasks; their indexes come first.
    pub(crate) before: &'a Plan,
    pub(crate) params: &'a BTreeSet<&'a str>,
}

impl UnresolvedItems {
    /// True for invalid items, which are already reported.
    fn is_wrong(&self) -> bool {
        matches!((&self.items, &self.keys), (Items::One, ItemKeys::Unknown))
    }
}

impl WorkflowTask {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The keys of its items that it refers to.
    pub(crate) fn item_keys(&self) -> BTreeSet<&str> {
        let templates = self.references.iter();
        let templates = templates.filter_map(|located| match &located.reference {
            Reference::Runtime(reference) => Some(reference),
            _ => None,
        });
        let when = self.when.iter().flat_map(|when| &when.references);
        let keys = templates
            .chain(when)
            .filter_map(|reference| match reference {
                RuntimeReference::ItemKey(key) => Some(key.as_str()),
                _ => None,
            });
        keys.collect()
    }
}

impl WorkflowFile {
    /// The name of the workflow.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The namespace of the workflow.
    #[must_use]
    pub fn owner(&self) -> Option<&str> {
        self.owner.as_deref()
    }

    /// Sets the owner of a workflow without one.
    #[must_use]
    pub fn or_owner(mut self, owner: &str) -> Self {
        if self.owner.is_none() {
            self.owner = Some(owner.to_owned());
        }
        self
    }

    /// The names of the tasks in dependency order, otherwise in file order.
    pub fn task_names(&self) -> impl Iterator<Item = &str> {
        self.tasks.iter().map(WorkflowTask::name)
    }

    /// The parsed workflow with unbound templates. [`crate::workflow_from_json`] reads it back.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let mut source = source::workflow_to_json(&self.tree);
        if let (Some(fields), Some(owner)) = (source.as_object_mut(), self.owner()) {
            fields.insert("owner".to_owned(), owner.into());
        }
        source
    }
}

impl UnresolvedAfter {
    pub(crate) fn planned(&self) -> Upstream {
        Upstream {
            task: self.at,
            condition: self.condition,
            edges: self.edges.clone(),
        }
    }
}
