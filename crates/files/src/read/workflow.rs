//! The top level of a workflow file, and parts that extend a workflow.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_model::alarm::Expectations;
use baton_model::library::Trigger;
use baton_model::limits::PLAN_TASKS_MAX;
use baton_model::workflow::Plan;

use super::layers::{self, Layers};
use super::task::{Completeness, nested_field};
use super::{Fields, Item, Reader};
use crate::error::{Kind, Position, Problem, quote};
use crate::file::TaskBody;
use crate::instance::DEFAULT_OWNER;
use crate::limits::{PLAN_BYTES_MAX, WORKFLOW_INHERITED_BYTES_MAX};
use crate::name::bad_name;
use crate::param::Param;
use crate::schema::process::PROCESS;
use crate::schema::task::TRIGGER;
use crate::schema::workflow::{DEFAULTS, PART, PART_TASK, WORKFLOW, WORKFLOW_TASK};
use crate::template::{Scope, Values};
use crate::tree::{Tree, Value};
use crate::workflow::{Context, ItemKeys, WorkflowFile, WorkflowTask, resolve};

const TASKS_HINT: &str = "write a map of tasks, such as { build: { run: make } }";
const NAME_HINT: &str = "use a short name without spaces or slashes that does not start with a dot";

/// True if a file is a workflow, valid or not.
pub(crate) fn is_workflow(root: &Tree) -> bool {
    root.has("workflow") || root.has("tasks")
}

/// Reads and checks a workflow without values of its templates. `file` is the name of the file.
pub(crate) fn workflow(root: Tree, file: &str) -> Result<WorkflowFile, Vec<Problem>> {
    let mut reader = Reader {
        scope: Scope::Workflow,
        ..Reader::default()
    };
    let root = Arc::new(root);
    match reader.workflow(&root, file) {
        Some(workflow) if reader.problems.is_empty() => Ok(workflow),
        _ => Err(reader.problems),
    }
}

/// Reads tasks that extend an existing workflow.
pub(crate) fn part(root: &Tree, before: &Plan) -> Result<Vec<WorkflowTask>, Vec<Problem>> {
    let mut reader = Reader {
        scope: Scope::Workflow,
        ..Reader::default()
    };
    let counts = before.tasks.iter().map(|task| &task.items);
    let counts = counts.map(|items| baton_core::workflow::items::count(items).unwrap_or(1));
    reader.totals.items = counts.fold(0, u64::saturating_add);
    match reader.part(&Item::root(root), before) {
        Some(tasks) if reader.problems.is_empty() => Ok(tasks),
        _ => Err(reader.problems),
    }
}

/// The bodies of checked tasks, read again with the values of their templates.
pub(crate) struct BoundTasks<'a> {
    pub(crate) reader: Reader,
    tasks: Option<Item<'a>>,
    layers: Layers<'a>,
}

impl<'a> BoundTasks<'a> {
    /// `root` is the tree of a workflow or of a part.
    pub(crate) fn new(root: &'a Tree, values: Values, problems: Vec<Problem>) -> Self {
        Self {
            reader: Reader::with_values(values, problems, PLAN_BYTES_MAX),
            tasks: Fields::checked(Item::root(root), &WORKFLOW).get("tasks"),
            layers: Layers::checked(root),
        }
    }

    /// The value of a parameter.
    pub(crate) fn param(&self, name: &str) -> Option<&str> {
        let values = &self.reader.rendering.as_ref()?.values;
        values.params.get(name)?.as_deref()
    }

    pub(crate) fn read(&mut self, task: &WorkflowTask) -> TaskBody {
        let tasks = self.tasks.as_ref().expect("a checked workflow has tasks");
        let entry = &tasks.tree.entries()[task.entry];
        let tree = layers::merged(&entry.value, &self.layers.below(&entry.value));
        let item = Item {
            tree: &tree,
            path: tasks.path_of(&entry.key),
        };
        if let Some(rendering) = &mut self.reader.rendering {
            rendering.values.task_name.clone_from(&task.name);
        }
        let fields = Fields::checked(item, &WORKFLOW_TASK);
        let name = Some(task.name.clone());
        let mut body = self.reader.body(&fields, name, Completeness::Complete);
        body.spec.name.clone_from(&task.name);
        body
    }
}

/// Returns the hint for a field that does not belong to a workflow.
fn misplaced_workflow_field(key: &str) -> Option<String> {
    if key == "name" {
        Some("did you mean `workflow`?".to_owned())
    } else if DEFAULTS.has(key) {
        Some(format!(
            "`{key}` is a field of a task: move it into `defaults` to set it for all tasks"
        ))
    } else if WORKFLOW_TASK.has(key) {
        Some(format!(
            "`{key}` is a field of a task: tasks: {{ NAME: {{ {key}: … }} }}"
        ))
    } else if TRIGGER.has(key) || key == "cron" {
        Some(format!(
            "`{key}` is a field of the trigger: trigger: {{ {key}: … }}"
        ))
    } else {
        None
    }
}

/// Returns the hint for a field that does not belong to a workflow task.
pub(super) fn misplaced_workflow_task_field(key: &str) -> Option<String> {
    match key {
        "task" | "name" => Some("the key is the name of the task: tasks: { NAME: … }".to_owned()),
        "owner" | "params" | "fail_fast" => Some(format!(
            "`{key}` is a field of the workflow: move it to the top level of the file"
        )),
        "deadline" => Some(
            "move it to the top level of the file; for one task there is `expected: { max: … }`"
                .to_owned(),
        ),
        "notify" => {
            Some("move it to the top level of the file: the run is told as a whole".to_owned())
        }
        "trigger" => Some(
            "remove it: a workflow task starts when the tasks in its `after` have ended".to_owned(),
        ),
        "template" => {
            Some("a template cannot use another template: copy the fields here".to_owned())
        }
        _ if nested_field(key).is_some() => nested_field(key),
        _ if WORKFLOW_TASK.has(key) => Some(format!(
            "`{key}` is specific to a task: move it into a task or a template"
        )),
        _ if PROCESS.has(key) => Some(format!(
            "`{key}` is a field of a process: move it next to `run` in `processes`"
        )),
        _ => None,
    }
}

impl Reader {
    fn workflow(&mut self, root: &Arc<Tree>, file: &str) -> Option<WorkflowFile> {
        let item = &Item::root(root);
        self.expect_workflow(item)?;
        let fields = self.fields(item, &WORKFLOW, misplaced_workflow_field)?;
        let name = match fields.get("workflow") {
            Some(item) => self.name(&item),
            None => {
                self.missing(&fields, "workflow", "add `workflow: NAME`");
                None
            }
        };
        let get = |name| fields.get(name);
        let owner = get("owner").and_then(|item| self.name(&item));
        let params = get("params")
            .map(|item| self.params(&item))
            .unwrap_or_default();
        let max_concurrent = self.integer_field(&fields, "max_concurrent");
        let fail_fast = self.bool_field(&fields, "fail_fast");
        let timeout = self.duration_field(&fields, "timeout");
        let mut layers = self.layers(&fields);
        let tasks = self.tasks(&fields, &mut layers, 0);
        let context = Context {
            before: &Plan::default(),
            params: &params.keys().map(String::as_str).collect(),
        };
        let tasks = resolve(tasks, &context, &mut self.problems);
        let trigger = self.workflow_trigger(&fields, owner.as_deref(), name.as_deref(), &params);
        let notify = get("notify").and_then(|item| self.notify(&item));
        let expected = Expectations {
            deadline: self.deadline(&fields, &trigger),
            ..self.expected(&fields)
        };
        Some(WorkflowFile {
            notify,
            expected,
            name: name?,
            owner,
            owner_location: get("owner").unwrap_or_else(|| item.clone()).location(),
            trigger,
            params,
            max_concurrent,
            fail_fast: fail_fast.unwrap_or_default(),
            timeout,
            pools: layers.pools,
            tasks,
            file: file.to_owned(),
            tree: root.clone(),
        })
    }

    fn part(&mut self, item: &Item<'_>, before: &Plan) -> Option<Vec<WorkflowTask>> {
        let fields = self.fields(item, &PART, |key| {
            Some(format!(
                "remove it: a part has only `tasks`; `{key}` is set when the workflow is submitted"
            ))
        })?;
        let tasks = self.tasks(&fields, &mut Layers::default(), before.tasks.len());
        let context = Context {
            before,
            params: &before.params.keys().map(String::as_str).collect(),
        };
        Some(resolve(tasks, &context, &mut self.problems))
    }

    fn workflow_trigger(
        &mut self,
        fields: &Fields<'_>,
        owner: Option<&str>,
        name: Option<&str>,
        params: &BTreeMap<String, Param>,
    ) -> Trigger {
        let owner = owner.unwrap_or(DEFAULT_OWNER);
        let trigger = fields.get("trigger");
        let trigger = trigger.and_then(|item| self.trigger(&item, owner, name));
        let trigger = trigger.unwrap_or_default();
        if let Some(item) = fields.get("params") {
            self.check_unattended_params(&item, params, &trigger);
        }
        trigger
    }

    /// Reports early that the file is empty or a task.
    fn expect_workflow(&mut self, item: &Item<'_>) -> Option<()> {
        let (message, hint) = match &item.tree.value {
            Value::Map(entries) if !entries.is_empty() => {
                let is_task = ["task", "run", "processes"]
                    .iter()
                    .any(|key| item.tree.has(key));
                if is_workflow(item.tree) || !is_task {
                    return Some(());
                }
                (
                    "expected a workflow, found a task",
                    "use a file with `workflow` at its top level, or move the task into `tasks` of a workflow",
                )
            }
            Value::Null | Value::Map(_) => (
                "the file is empty",
                "write at least `workflow: NAME` and `tasks: { NAME: { run: COMMAND } }`",
            ),
            _ => return Some(()),
        };
        self.note(item, Kind::MissingField, message.to_owned(), hint);
        None
    }

    /// `before` is the number of existing tasks.
    fn tasks(
        &mut self,
        fields: &Fields<'_>,
        layers: &mut Layers<'_>,
        before: usize,
    ) -> Vec<WorkflowTask> {
        let Some(item) = fields.get("tasks") else {
            self.missing(fields, "tasks", TASKS_HINT);
            return Vec::new();
        };
        let count = item.tree.entries().len();
        if count == 0 && matches!(item.tree.value, Value::Map(_)) {
            let message = "the workflow has no tasks".to_owned();
            self.note(&item, Kind::MissingField, message, TASKS_HINT);
        }
        if before + count > PLAN_TASKS_MAX {
            let all = before + count;
            let message =
                format!("the workflow has {all} tasks, at most {PLAN_TASKS_MAX} are allowed");
            let hint = "turn similar tasks into items of one task with for_each";
            self.note(&item, Kind::TooLarge, message, hint);
            return Vec::new();
        }
        let mut tasks = Vec::with_capacity(count);
        let entries = self.entries(&item, TASKS_HINT).into_iter().enumerate();
        for (entry, (name, value, position)) in entries {
            self.key_name(name, &value, position);
            if let Some(mut task) = self.workflow_task(name, &value, layers) {
                task.entry = entry;
                task.location.position = position.or(task.location.position);
                tasks.push(task);
            }
        }
        tasks
    }

    pub(super) fn key_name(&mut self, name: &str, item: &Item<'_>, position: Option<Position>) {
        if let Some(reason) = bad_name(name) {
            let message = format!("{} is not a valid name: {reason}", quote(name));
            let mut problem = item.problem(Kind::BadName, message, NAME_HINT);
            problem.position = position;
            self.problems.push(problem);
        }
    }

    fn workflow_task(
        &mut self,
        name: &str,
        item: &Item<'_>,
        layers: &mut Layers<'_>,
    ) -> Option<WorkflowTask> {
        let template = item.tree.get("template").map(|tree| Item {
            tree,
            path: item.path_of("template"),
        });
        let pool = template.and_then(|item| self.use_template(&item, layers));
        let below = layers.below(item.tree);
        self.totals.inherited_bytes += below.iter().map(|layer| layer.bytes).sum::<usize>();
        if self.totals.inherited_bytes > WORKFLOW_INHERITED_BYTES_MAX {
            self.note(
                item,
                Kind::TooLarge,
                format!("up to this task, the tasks inherit more than {WORKFLOW_INHERITED_BYTES_MAX} bytes from defaults and templates"),
                "make them smaller, or turn similar tasks into items of one task with for_each",
            );
            return None;
        }
        let tree = layers::merged(item.tree, &below);
        let item = Item {
            tree: &tree,
            path: item.path.clone(),
        };
        let table = if layers.has_templates {
            &WORKFLOW_TASK
        } else {
            &PART_TASK
        };
        let fields = self.fields(&item, table, |key| match key {
            "template" => Some("remove it: a part of a workflow has no templates".to_owned()),
            key => misplaced_workflow_task_field(key),
        })?;
        // A missing field may be in an invalid or unknown template, which is already reported.
        let lacks_template =
            item.tree.has("template") && below.len() == usize::from(layers.defaults.is_some());
        let completeness = if lacks_template {
            Completeness::Partial
        } else {
            Completeness::Complete
        };
        let mut task = self.checked_task(&fields, name.to_owned(), completeness);
        if lacks_template {
            task.items.keys = ItemKeys::Unknown;
        }
        task.pool = pool;
        Some(task)
    }

    /// Reads a task or a layer.
    pub(super) fn checked_task(
        &mut self,
        fields: &Fields<'_>,
        name: String,
        completeness: Completeness,
    ) -> WorkflowTask {
        let body = self.body(fields, Some(name.clone()), completeness);
        let policy = self.policy(fields, &body.spec);
        WorkflowTask {
            name,
            entry: 0,
            references: std::mem::take(&mut self.references),
            policy,
            location: fields.item.location(),
            at: 0,
            items: self.items(fields),
            after: match fields.get("after") {
                Some(item) => self.after_in_workflow(&item),
                None => Vec::new(),
            },
            when: fields.get("when").and_then(|item| self.when(&item)),
            max_concurrent: self.integer_field(fields, "max_concurrent"),
            pool: None,
        }
    }
}
