//! A workflow as it was read, and the plan that it becomes when its parameters are given.
//!
//! Everything that parameters cannot change is checked when a file is read: names, circles,
//! items, edges, references. What is left for [`WorkflowFile::plan`] is to fill in texts. What
//! comes out passes `baton_core::workflow::check`.
//!
//! | module | |
//! |---|---|
//! | [`order`] | who comes after whom: names, circles, edges, the order of the plan |
//! | [`references`] | what texts and conditions refer to |

mod order;
mod references;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_model::time::Millis;
use baton_model::workflow::{Condition, Edges, Items, Plan, PlanTask, Pool, Upstream};

use crate::bind::Binder;
use crate::binding;
use crate::error::{Errors, Location, Problem};
use crate::file::TaskBody;
use crate::instance::{DEFAULT_OWNER, instance};
use crate::limits::{PLAN_BYTES_MAX, PROBLEMS_MAX, WORKFLOW_LIMITS};
use crate::param::Param;
use crate::policy::Policy;
use crate::read;
use crate::template::{Reference, RuntimeReference, Text, Values};
use crate::{Format, tree};

pub(crate) use order::resolve;

/// A workflow file that was read and checked, with its templates still open.
#[derive(Clone, Debug)]
pub struct WorkflowFile {
    /// The parameters by name.
    pub params: BTreeMap<String, Param>,
    pub(crate) file: String,
    /// What was read, as JSON.
    pub(crate) source: serde_json::Value,
    pub(crate) name: String,
    pub(crate) owner: Option<String>,
    pub(crate) max_concurrent: Option<u32>,
    pub(crate) fail_fast: bool,
    pub(crate) timeout: Option<Millis>,
    pub(crate) pools: Vec<Pool>,
    /// Each behind those that it comes after.
    pub(crate) tasks: Vec<UnboundTask>,
}

/// A task of a workflow with its templates still open.
#[derive(Clone, Debug)]
pub(crate) struct UnboundTask {
    pub(crate) body: TaskBody,
    pub(crate) policy: Policy,
    pub(crate) location: Location,
    /// Its place in the plan, found by [`resolve`].
    pub(crate) at: u32,
    pub(crate) items: UnresolvedItems,
    pub(crate) after: Vec<UnresolvedAfter>,
    pub(crate) when: Option<UnresolvedWhen>,
    pub(crate) max_concurrent: Option<u32>,
    pub(crate) pool: Option<u32>,
}

/// What a task has one instance for each of.
#[derive(Clone, Debug)]
pub(crate) struct UnresolvedItems {
    /// The place of a task whose output they are is found by [`resolve`].
    pub(crate) items: Items,
    /// The task whose output they are.
    pub(crate) from: Option<String>,
    pub(crate) keys: ItemKeys,
    pub(crate) location: Location,
}

/// What `item.KEY` may name.
#[derive(Clone, Debug)]
pub(crate) enum ItemKeys {
    /// There is no item.
    NoItem,
    /// An item has no keys.
    Scalar,
    Known(BTreeSet<String>),
    /// Nobody knows yet.
    Unknown,
}

/// That a task comes after another.
#[derive(Clone, Debug)]
pub(crate) struct UnresolvedAfter {
    pub(crate) task: String,
    /// Its place in the plan, found by [`resolve`].
    pub(crate) at: u32,
    pub(crate) condition: Condition,
    pub(crate) edges: Edges,
    pub(crate) location: Location,
    pub(crate) edges_location: Location,
}

/// A condition that can be read.
#[derive(Clone, Debug)]
pub(crate) struct UnresolvedWhen {
    pub(crate) text: String,
    pub(crate) references: Vec<RuntimeReference>,
    pub(crate) location: Location,
}

/// What tasks are read beside.
pub(crate) struct Context<'a> {
    /// Tasks that are there already; their places come first.
    pub(crate) before: &'a Plan,
    pub(crate) params: &'a BTreeSet<&'a str>,
}

impl UnresolvedItems {
    /// True if there was something wrong with them, which was told.
    fn is_wrong(&self) -> bool {
        matches!((&self.items, &self.keys), (Items::One, ItemKeys::Unknown))
    }
}

impl UnboundTask {
    pub(crate) fn name(&self) -> &str {
        &self.body.spec.name
    }
}

impl WorkflowFile {
    /// The name of the workflow.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its namespace.
    #[must_use]
    pub fn owner(&self) -> Option<&str> {
        self.owner.as_deref()
    }

    /// The same workflow; this owner's, if it does not say whose it is.
    #[must_use]
    pub fn or_owner(mut self, owner: &str) -> Self {
        if self.owner.is_none() {
            self.owner = Some(owner.to_owned());
            if let Some(fields) = self.source.as_object_mut() {
                fields.insert("owner".to_owned(), owner.into());
            }
        }
        self
    }

    /// The names of its tasks, in the order of its plan: each behind those that it comes
    /// after, and otherwise as the file has them.
    pub fn task_names(&self) -> impl Iterator<Item = &str> {
        self.tasks.iter().map(UnboundTask::name)
    }

    /// The workflow as it was read, with its templates open. [`crate::workflow_from_json`]
    /// makes the same workflow of it.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        self.source.clone()
    }

    /// Fills in the parameters: `params` instead of their defaults.
    ///
    /// # Errors
    /// Every parameter without a value, every value that was given for nothing, and whatever
    /// is wrong only once it is filled in.
    pub fn plan(&self, params: &BTreeMap<String, String>) -> Result<Plan, Errors> {
        let mut problems = Vec::new();
        let texts = self.tasks.iter().flat_map(|task| task.body.texts());
        let referred = texts.flat_map(Text::references);
        let referred = referred.filter_map(Reference::param).collect();
        let values_given =
            binding::parameters("workflow", &self.params, params, &referred, &mut problems);
        let owner = self.owner().unwrap_or(DEFAULT_OWNER);
        let tasks = plan_tasks(&self.tasks, (&self.name, owner), &values_given, problems)
            .map_err(|problems| Errors::new(&self.file, problems))?;
        let values_given = values_given.into_iter();
        Ok(Plan {
            name: self.name.clone(),
            owner: owner.to_owned(),
            params: values_given
                .filter_map(|(name, value)| Some((name, value?)))
                .collect(),
            max_concurrent: self.max_concurrent,
            fail_fast: self.fail_fast,
            timeout: self.timeout,
            pools: self.pools.clone(),
            tasks,
        })
    }
}

/// Tasks that come beside those of a plan: the text of `{"tasks": {…}}`, as in a workflow file.
/// They may
/// come after tasks of `before`, see its parameters, and are named unlike its tasks. `name`
/// stands for the file in errors.
///
/// What comes out has only the new tasks; their places count from the beginning of `before`,
/// behind whose tasks they are to be put. It has the name, the owner and the parameters of
/// `before`, and none of its limits.
///
/// # Errors
/// Everything that is wrong with them.
pub fn workflow_part(tasks: &str, before: &Plan, name: &str) -> Result<Plan, Errors> {
    let params = before.params.iter();
    let params = params
        .map(|(name, value)| (name.clone(), Some(value.clone())))
        .collect();
    let tasks = tree::parse(tasks, Format::Json, &WORKFLOW_LIMITS)
        .and_then(|root| read::part(&root, before))
        .and_then(|unbound_tasks| {
            plan_tasks(
                &unbound_tasks,
                (&before.name, &before.owner),
                &params,
                Vec::new(),
            )
        })
        .map_err(|problems| Errors::new(name, problems))?;
    Ok(Plan {
        name: before.name.clone(),
        owner: before.owner.clone(),
        params: before.params.clone(),
        tasks,
        ..Plan::default()
    })
}

/// `problems` are those that were found before.
fn plan_tasks(
    unbound_tasks: &[UnboundTask],
    (workflow, owner): (&str, &str),
    params: &BTreeMap<String, Option<String>>,
    problems: Vec<Problem>,
) -> Result<Vec<PlanTask>, Vec<Problem>> {
    let values = Values {
        params,
        ports: &BTreeMap::new(),
        task_id: None,
        task_name: "",
        workflow: Some(workflow),
    };
    let mut binder = Binder::new(values, problems, PLAN_BYTES_MAX);
    let env = binder.param_env();
    let mut tasks = Vec::with_capacity(unbound_tasks.len());
    for unbound in unbound_tasks {
        binder.values.task_name = unbound.name();
        let mut task = binder.body(&unbound.body, &env);
        task.owner = Some(owner.to_owned());
        tasks.push(PlanTask {
            name: unbound.name().to_owned(),
            spec: Arc::new(instance(task, &unbound.policy, unbound.body.requests_cpu)),
            items: unbound.items.items.clone(),
            after: unbound.after.iter().map(UnresolvedAfter::planned).collect(),
            when: unbound.when.as_ref().map(|when| when.text.clone()),
            max_concurrent: unbound.max_concurrent,
            pool: unbound.pool,
        });
        // One parameter too few may be missed by every task.
        if binder.is_full() || binder.problems.len() > 2 * PROBLEMS_MAX {
            break;
        }
    }
    if binder.problems.is_empty() {
        Ok(tasks)
    } else {
        Err(binder.problems)
    }
}

impl UnresolvedAfter {
    fn planned(&self) -> Upstream {
        Upstream {
            task: self.at,
            condition: self.condition,
            edges: self.edges.clone(),
        }
    }
}
