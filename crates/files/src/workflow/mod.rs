//! A parsed workflow file, and the plan that it becomes with its parameters.
//!
//! Everything that does not depend on parameters is checked when a file is read: names, cycles,
//! items, edges, references. [`WorkflowFile::plan`] only renders templates. The result passes
//! `baton_core::workflow::check`.
//!
//! | module | |
//! |---|---|
//! | [`order`] | names, cycles, edges, and the dependency order of the plan |
//! | [`references`] | references of templates and conditions |

mod order;
mod references;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_core::workflow::{items, output_files};
use baton_model::library::Trigger;
use baton_model::limits::WORKFLOW_SOURCE_BYTES_MAX;
use baton_model::paths::Collision;
use baton_model::time::{Millis, Wall};
use baton_model::workflow::{Condition, Edges, Items, Plan, PlanTask, Pool, Upstream};

use crate::bind::Binder;
use crate::binding::{self, Arguments, NominalTime};
use crate::error::{Errors, Kind, Location, Problem, quote};
use crate::file::TaskBody;
use crate::instance::{DEFAULT_OWNER, instance};
use crate::limits::{PLAN_BYTES_MAX, PROBLEMS_MAX};
use crate::param::Param;
use crate::policy::Policy;
use crate::template::{Reference, RuntimeReference, Text, Values};

pub(crate) use order::resolve;

/// A parsed and checked workflow file with unbound templates.
#[derive(Clone, Debug)]
pub struct WorkflowFile {
    /// The parameters by name.
    pub params: BTreeMap<String, Param>,
    /// What starts it, once it is in the library.
    pub trigger: Trigger,
    pub(crate) file: String,
    /// The parsed file as JSON.
    pub(crate) source: serde_json::Value,
    pub(crate) name: String,
    pub(crate) owner: Option<String>,
    pub(crate) owner_location: Location,
    pub(crate) max_concurrent: Option<u32>,
    pub(crate) fail_fast: bool,
    pub(crate) timeout: Option<Millis>,
    pub(crate) pools: Vec<Pool>,
    /// In dependency order.
    pub(crate) tasks: Vec<UnboundTask>,
}

/// A workflow task with unbound templates.
#[derive(Clone, Debug)]
pub(crate) struct UnboundTask {
    pub(crate) body: TaskBody,
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
            if let Some(fields) = self.source.as_object_mut() {
                fields.insert("owner".to_owned(), owner.into());
            }
        }
        self
    }

    /// The names of the tasks in dependency order, otherwise in file order.
    pub fn task_names(&self) -> impl Iterator<Item = &str> {
        self.tasks.iter().map(UnboundTask::name)
    }

    /// The parsed workflow with unbound templates. [`crate::workflow_from_json`] reads it back.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        self.source.clone()
    }

    /// Binds the parameters: `params` replace the defaults, which may refer to the nominal time
    /// `at`.
    ///
    /// # Errors
    /// Every parameter without a value, every argument without a parameter, and every value
    /// that is invalid after rendering.
    pub fn plan(&self, params: &BTreeMap<String, String>, at: Wall) -> Result<Plan, Errors> {
        self.bound(params, Some(at))
            .map_err(|problems| Errors::new(&self.file, problems))
    }

    /// [`WorkflowFile::plan`] with unsorted problems. Without a nominal time, the parameters that
    /// refer to it are not part of the plan, and references to them stay.
    pub(crate) fn bound(
        &self,
        params: &BTreeMap<String, String>,
        at: Option<Wall>,
    ) -> Result<Plan, Vec<Problem>> {
        let mut problems = Vec::new();
        let texts = self.tasks.iter().flat_map(|task| task.body.texts());
        let referred = texts.flat_map(Text::references);
        let items = self
            .tasks
            .iter()
            .filter_map(|task| task.items.param.as_deref());
        let referred = referred.filter_map(Reference::param).chain(items).collect();
        let nominal = NominalTime::of(at, &self.trigger);
        let given = Arguments {
            values: params,
            nominal: &nominal,
        };
        let late = given.late(&self.params);
        let arguments =
            binding::parameters("workflow", &self.params, &given, &referred, &mut problems);
        let owner = self.owner().unwrap_or(DEFAULT_OWNER);
        let values = Values {
            late: late.clone(),
            ..workflow_values(&self.name, &arguments)
        };
        let tasks = plan_tasks(&self.tasks, &[], owner, values, problems)?;
        let arguments = arguments.into_iter();
        let arguments = arguments.filter(|(name, _)| !late.contains(&**name));
        Ok(Plan {
            name: self.name.clone(),
            owner: owner.to_owned(),
            params: arguments
                .filter_map(|(name, value)| Some((name, value?)))
                .collect(),
            max_concurrent: self.max_concurrent,
            fail_fast: self.fail_fast,
            timeout: self.timeout,
            pools: self.pools.clone(),
            tasks,
            source: None,
        })
    }

    /// [`WorkflowFile::plan`] with the file itself, so that it can be planned again with other
    /// parameters; without it if the file is large.
    ///
    /// # Errors
    /// Those of [`WorkflowFile::plan`].
    pub fn plan_with_source(
        &self,
        params: &BTreeMap<String, String>,
        at: Wall,
    ) -> Result<Plan, Errors> {
        let mut plan = self.plan(params, at)?;
        let source = self.source.to_string();
        plan.source = (source.len() <= WORKFLOW_SOURCE_BYTES_MAX).then(|| source.into());
        Ok(plan)
    }
}

/// Extends a plan by the tasks of a part. The result has only the new tasks.
pub(crate) fn extend(before: &Plan, part: &[UnboundTask]) -> Result<Plan, Vec<Problem>> {
    let params = before.params.iter();
    let params = params
        .map(|(name, value)| (name.clone(), Some(value.clone())))
        .collect();
    let values = workflow_values(&before.name, &params);
    let (first, owner) = (&before.tasks, &before.owner);
    Ok(Plan {
        name: before.name.clone(),
        owner: before.owner.clone(),
        params: before.params.clone(),
        tasks: plan_tasks(part, first, owner, values, Vec::new())?,
        ..Plan::default()
    })
}

/// The values of a workflow of this name.
const fn workflow_values<'a>(
    workflow: &'a str,
    params: &'a BTreeMap<String, Option<String>>,
) -> Values<'a> {
    const NO_PORTS: &BTreeMap<String, u16> = &BTreeMap::new();
    Values {
        params,
        ports: NO_PORTS,
        task_id: None,
        task_name: "",
        workflow: Some(workflow),
        item: None,
        late: BTreeSet::new(),
    }
}

/// Plans tasks that follow those of `before`; `problems` are those found so far.
fn plan_tasks<'a>(
    unbound_tasks: &'a [UnboundTask],
    before: &[PlanTask],
    owner: &str,
    values: Values<'a>,
    problems: Vec<Problem>,
) -> Result<Vec<PlanTask>, Vec<Problem>> {
    let mut binder = Binder::new(values, problems, PLAN_BYTES_MAX);
    let env = binder.param_env();
    let mut tasks = Vec::with_capacity(unbound_tasks.len());
    for unbound in unbound_tasks {
        binder.values.task_name = unbound.name();
        let mut task = binder.body(&unbound.body, &env);
        task.spec.owner = Some(owner.to_owned());
        let task = PlanTask {
            name: unbound.name().to_owned(),
            spec: Arc::new(instance(task, &unbound.policy, unbound.body.requests_cpu)),
            items: binder.items(unbound),
            after: unbound.after.iter().map(UnresolvedAfter::planned).collect(),
            when: unbound.when.as_ref().map(|when| when.text.clone()),
            max_concurrent: unbound.max_concurrent,
            pool: unbound.pool,
        };
        let shared = shared_files(unbound, &task);
        binder.problems.extend(shared);
        tasks.push(task);
        // Every task may miss the same parameter.
        if binder.is_full() || binder.problems.len() > 2 * PROBLEMS_MAX {
            break;
        }
    }
    if binder.problems.is_empty() {
        let count = |at: u32| match (at as usize).checked_sub(before.len()) {
            Some(at) => items::count(&tasks[at].items),
            None => items::count(&before[at as usize].items),
        };
        binder.problems = order::bound_edge_problems(unbound_tasks, count);
    }
    if binder.problems.is_empty() {
        Ok(tasks)
    } else {
        Err(binder.problems)
    }
}

/// Reports files that several items of a task would write their output to.
fn shared_files(unbound: &UnboundTask, task: &PlanTask) -> Vec<Problem> {
    let (body, paths) = (&unbound.body, &task.spec.paths);
    let outputs = [(&body.stdout, &paths.stdout), (&body.stderr, &paths.stderr)];
    let shared = outputs.into_iter().filter_map(|(text, path)| {
        let collision = output_files::collision(task, path.as_deref()?)?;
        let message = collision.message("items");
        let location = &text.as_ref()?.location;
        Some(location.problem(Kind::SharedFile, message, Collision::HINT))
    });
    shared.collect()
}

impl Binder<'_> {
    /// The items of a task; those that are a parameter are the values of its list.
    fn items(&mut self, task: &UnboundTask) -> Items {
        let Some(name) = &task.items.param else {
            return task.items.items.clone();
        };
        // A missing value is already reported.
        let Some(Some(text)) = self.values.params.get(name) else {
            return Items::Values(Vec::new());
        };
        let location = &task.items.location;
        let Ok(values) = serde_json::from_str::<Vec<serde_json::Value>>(text) else {
            self.problems.push(location.problem(
                Kind::BadValue,
                format!(
                    "{} is not a list: {}",
                    quote(&format!("params.{name}")),
                    quote(text)
                ),
                format!("declare it as a list: params: {{ {name}: [a, b] }} or {{ type: list }}"),
            ));
            return Items::Values(Vec::new());
        };
        for key in task.item_keys() {
            if let Some(value) = values.iter().find(|value| value.get(key).is_none()) {
                self.problems.push(location.problem(
                    Kind::UnknownReference,
                    format!(
                        "{} is used, but a value of {} has no such key: {}",
                        quote(&format!("item.{key}")),
                        quote(&format!("params.{name}")),
                        quote(&value.to_string())
                    ),
                    "pass maps that have the key, or write `{{ item }}`",
                ));
            }
        }
        Items::Values(values.iter().map(ToString::to_string).collect())
    }
}

impl UnboundTask {
    /// The keys of its items that it refers to.
    fn item_keys(&self) -> BTreeSet<&str> {
        let texts = self.body.texts().flat_map(Text::references);
        let texts = texts.filter_map(|reference| match reference {
            Reference::Runtime(reference) => Some(reference),
            _ => None,
        });
        let when = self.when.iter().flat_map(|when| &when.references);
        let keys = texts.chain(when).filter_map(|reference| match reference {
            RuntimeReference::ItemKey(key) => Some(key.as_str()),
            _ => None,
        });
        keys.collect()
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
