//! From a workflow file to its plan, which passes `baton_core::workflow::check`.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_core::workflow::{items, output_files};
use baton_model::limits::WORKFLOW_SOURCE_BYTES_MAX;
use baton_model::paths::Collision;
use baton_model::time::Wall;
use baton_model::workflow::{Items, Plan, PlanTask};

use crate::binding::{self, Arguments, NominalTime};
use crate::error::{Errors, Kind, Location, Problem, quote};
use crate::instance::{DEFAULT_OWNER, instance};
use crate::limits::PROBLEMS_MAX;
use crate::read::BoundTasks;
use crate::template::Values;
use crate::tree::Tree;
use crate::workflow::{UnresolvedAfter, WorkflowFile, WorkflowTask, bound_edge_problems};

impl WorkflowFile {
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
        let references = self.tasks.iter().flat_map(|task| &task.references);
        let references = references.filter_map(|located| located.reference.param());
        let items = self.tasks.iter();
        let items = items.filter_map(|task| task.items.param.as_deref());
        let referred = references.chain(items).collect();
        let nominal = NominalTime::of(at, &self.trigger);
        let given = Arguments {
            values: params,
            nominal: &nominal,
        };
        let late = given.late(&self.params);
        let params =
            binding::parameters("workflow", &self.params, &given, &referred, &mut problems);
        let fixed = params.iter().filter(|(name, _)| !late.contains(*name));
        let fixed = fixed.filter_map(|(name, value)| Some((name.clone(), value.clone()?)));
        let fixed = fixed.collect();
        let owner = self.owner().unwrap_or(DEFAULT_OWNER);
        let values = Values {
            params,
            workflow: Some(self.name.clone()),
            late,
            ..Values::default()
        };
        let bodies = BoundTasks::new(&self.tree, values, problems);
        Ok(Plan {
            name: self.name.clone(),
            owner: owner.to_owned(),
            params: fixed,
            max_concurrent: self.max_concurrent,
            fail_fast: self.fail_fast,
            timeout: self.timeout,
            pools: self.pools.clone(),
            tasks: plan_tasks(&self.tasks, &[], owner, bodies)?,
            notify: self.notify.clone(),
            expected: self.expected.clone(),
            trace: None,
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
        let source = self.to_json().to_string();
        plan.source = (source.len() <= WORKFLOW_SOURCE_BYTES_MAX).then(|| source.into());
        Ok(plan)
    }
}

/// Extends a plan by the tasks of a part, whose tree is `root`. The result has only the new tasks.
pub(crate) fn extend(
    before: &Plan,
    root: &Tree,
    part: &[WorkflowTask],
) -> Result<Plan, Vec<Problem>> {
    let params = before.params.iter();
    let params = params.map(|(name, value)| (name.clone(), Some(value.clone())));
    let values = Values {
        params: params.collect(),
        workflow: Some(before.name.clone()),
        ..Values::default()
    };
    let bodies = BoundTasks::new(root, values, Vec::new());
    Ok(Plan {
        name: before.name.clone(),
        owner: before.owner.clone(),
        params: before.params.clone(),
        tasks: plan_tasks(part, &before.tasks, &before.owner, bodies)?,
        ..Plan::default()
    })
}

/// Plans tasks that follow those of `before`.
fn plan_tasks(
    tasks: &[WorkflowTask],
    before: &[PlanTask],
    owner: &str,
    mut bodies: BoundTasks<'_>,
) -> Result<Vec<PlanTask>, Vec<Problem>> {
    let mut planned = Vec::with_capacity(tasks.len());
    for task in tasks {
        let mut body = bodies.read(task);
        body.spec.owner = Some(owner.to_owned());
        let files = [&body.stdout, &body.stderr].into_iter().flatten();
        let files: Vec<Location> = files.map(|file| file.location.clone()).collect();
        let (items, mut problems) = bound_items(task, &bodies);
        let task = PlanTask {
            name: task.name().to_owned(),
            spec: Arc::new(instance(body, &task.policy)),
            items,
            after: task.after.iter().map(UnresolvedAfter::planned).collect(),
            when: task.when.as_ref().map(|when| when.text.clone()),
            max_concurrent: task.max_concurrent,
            pool: task.pool,
        };
        problems.extend(shared_files(&task, &files));
        bodies.reader.problems.extend(problems);
        planned.push(task);
        // Every task may miss the same parameter.
        if bodies.reader.is_full() || bodies.reader.problems.len() > 2 * PROBLEMS_MAX {
            break;
        }
    }
    let mut problems = bodies.reader.problems;
    if problems.is_empty() {
        let count = |at: u32| match (at as usize).checked_sub(before.len()) {
            Some(at) => items::count(&planned[at].items),
            None => items::count(&before[at as usize].items),
        };
        problems = bound_edge_problems(tasks, count);
    }
    if problems.is_empty() {
        Ok(planned)
    } else {
        Err(problems)
    }
}

/// Reports files that several items of a task would write their output to. `files` are the
/// locations of those that it has.
fn shared_files(task: &PlanTask, files: &[Location]) -> Vec<Problem> {
    let paths = [&task.spec.paths.stdout, &task.spec.paths.stderr];
    let files = paths.into_iter().flatten().zip(files);
    let shared = files.filter_map(|(path, location)| {
        let message = output_files::collision(task, path)?.message("items");
        Some(location.problem(Kind::SharedFile, message, Collision::HINT))
    });
    shared.collect()
}

/// The items of a task; those that are a parameter are the values of its list.
fn bound_items(task: &WorkflowTask, bodies: &BoundTasks<'_>) -> (Items, Vec<Problem>) {
    let Some(name) = &task.items.param else {
        return (task.items.items.clone(), Vec::new());
    };
    // A missing value is already reported.
    let Some(text) = bodies.param(name) else {
        return (Items::Values(Vec::new()), Vec::new());
    };
    let location = &task.items.location;
    let Ok(values) = serde_json::from_str::<Vec<serde_json::Value>>(text) else {
        let problem = location.problem(
            Kind::BadValue,
            format!(
                "{} is not a list: {}",
                quote(&format!("params.{name}")),
                quote(text)
            ),
            format!("declare it as a list: params: {{ {name}: [a, b] }} or {{ type: list }}"),
        );
        return (Items::Values(Vec::new()), vec![problem]);
    };
    let keys = task.item_keys().into_iter();
    let problems = keys.filter_map(|key| {
        let value = values.iter().find(|value| value.get(key).is_none())?;
        Some(location.problem(
            Kind::UnknownReference,
            format!(
                "{} is used, but a value of {} has no such key: {}",
                quote(&format!("item.{key}")),
                quote(&format!("params.{name}")),
                quote(&value.to_string())
            ),
            "pass maps that have the key, or write `{{ item }}`",
        ))
    });
    let problems = problems.collect();
    let values = values.iter().map(ToString::to_string).collect();
    (Items::Values(values), problems)
}
