//! The top level of a task file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_model::device::WHOLE;
use baton_model::library::Trigger;
use baton_model::spec::{InstanceSpec, Nodes, Warning};
use baton_model::task::{Resources, TaskSpec};
use baton_model::time::Millis;
use baton_model::timeouts::LOST_AFTER_MIN;

use super::process::Inherited;
use super::scale::FirstAttempt;
use super::{Fields, Item, Reader};
use crate::error::{Kind, Problem};
use crate::file::{TaskBody, TaskFile};
use crate::graph::{self, LocatedProcess};
use crate::instance::DEFAULT_OWNER;
use crate::limits::PROCESSES_MAX;
use crate::policy::Policy;
use crate::schema::process::{PROCESS, WARNING};
use crate::schema::task::{TASK, TRIGGER};
use crate::tree::{Tree, Value};

/// Reads and checks a task without values of its templates. `file` is the name of the file.
pub(crate) fn task(root: Tree, file: &str) -> Result<TaskFile, Vec<Problem>> {
    let mut reader = Reader::default();
    let root = Arc::new(root);
    let task = reader.task(&root, file);
    match task {
        Some(task) if reader.problems.is_empty() => Ok(task),
        _ => Err(reader.problems),
    }
}

/// Reads the body of a checked task again, with the values of its templates.
pub(crate) fn bound_task(file: &TaskFile, mut reader: Reader) -> Result<TaskBody, Vec<Problem>> {
    let fields = Fields::checked(Item::root(&file.tree), &TASK);
    let mut body = reader.body(&fields, Some(file.name.clone()), Completeness::Complete);
    body.spec.name.clone_from(&file.name);
    body.spec.owner.clone_from(&file.owner);
    if reader.problems.is_empty() {
        Ok(body)
    } else {
        Err(reader.problems)
    }
}

/// Whether a task must have a command, or may lack one because it is a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Completeness {
    Complete,
    Partial,
}

/// Returns the hint for a field that does not belong to a task.
pub(super) fn misplaced_task_field(key: &str) -> Option<String> {
    if key == "name" {
        Some("did you mean `task`?".to_owned())
    } else if let Some(hint) = nested_field(key) {
        Some(hint)
    } else if key == "after" {
        let hint = "move it into a process, or into the trigger: trigger: { after: TASK }";
        Some(hint.to_owned())
    } else if PROCESS.has(key) {
        Some(format!(
            "`{key}` is a field of a process: move it next to `run` in `processes`"
        ))
    } else if TRIGGER.has(key) || key == "cron" {
        Some(format!(
            "`{key}` is a field of the trigger: trigger: {{ {key}: … }}"
        ))
    } else {
        None
    }
}

/// Returns the hint for a field that people expect beside the command, and that is in a map.
pub(super) fn nested_field(key: &str) -> Option<String> {
    let resource = match key {
        "cpu" | "cpus" | "cores" => "cpu",
        "memory" | "mem" | "ram" => "memory",
        "gpu" | "gpus" => "gpu",
        "disk" => "disk",
        "retries" | "max_retries" | "attempts" => {
            return Some("write `retry: { attempts: 3 }`, the first one included".to_owned());
        }
        _ => return None,
    };
    Some(format!("write `resources: {{ {resource}: … }}`"))
}

/// Returns the hint for a field that does not belong to a process.
fn misplaced_process_field(key: &str) -> Option<String> {
    TASK.has(key)
        .then(|| format!("`{key}` is a field of the task: move it to the top level of the file"))
}

impl Reader {
    fn task(&mut self, root: &Arc<Tree>, file: &str) -> Option<TaskFile> {
        let item = &Item::root(root);
        self.is_task(item)?;
        let fields = self.fields(item, &TASK, misplaced_task_field)?;
        let name = fields.get("task").map(|item| self.name(&item));
        if fields.has("run") && !fields.has("processes") && !fields.has("task") {
            self.missing(&fields, "task", "add `task: NAME`");
        }
        let owner = fields.get("owner").and_then(|item| self.name(&item));
        let body = self.body(&fields, name.clone().flatten(), Completeness::Complete);
        let params = fields.get("params").map(|item| self.params(&item));
        // As in Thermos, a task without a name is named after its first process.
        let name = name.unwrap_or_else(|| {
            let first = body.spec.processes.first();
            first.map(|process| process.name.0.clone())
        });
        let trigger = fields.get("trigger").and_then(|item| {
            let owner = owner.as_deref().unwrap_or(DEFAULT_OWNER);
            self.trigger(&item, owner, name.as_deref())
        });
        let mut policy = self.policy(&fields, &body.spec);
        policy.trigger = trigger.unwrap_or_default();
        policy.expected.deadline = self.deadline(&fields, &policy.trigger);
        policy.notify = fields.get("notify").and_then(|item| self.notify(&item));
        let params = params.unwrap_or_default();
        if let Some(item) = fields.get("params") {
            self.check_unattended_params(&item, &params, &policy.trigger);
        }
        Some(TaskFile {
            params,
            policy,
            file: file.to_owned(),
            tree: root.clone(),
            name: name?,
            owner,
            owner_location: fields
                .get("owner")
                .unwrap_or_else(|| item.clone())
                .location(),
            resources: body.spec.resources,
            references: std::mem::take(&mut self.references),
        })
    }

    /// Reads the body of a task. `name` is the name of the process of `run`.
    pub(super) fn body(
        &mut self,
        fields: &Fields<'_>,
        name: Option<String>,
        completeness: Completeness,
    ) -> TaskBody {
        let mut spec = TaskSpec {
            name: String::new(),
            owner: None,
            processes: Vec::new(),
            max_failures: self
                .integer_field(fields, "max_failures")
                .unwrap_or_default(),
            max_concurrency: self
                .integer_field(fields, "max_concurrency")
                .unwrap_or_default(),
            finalization_wait: self
                .duration_field(fields, "finalization_wait")
                .unwrap_or_default(),
            user: fields.get("user").and_then(|item| self.user(&item)),
            resources: match fields.get("resources") {
                Some(item) => self.resources(&item),
                None => Resources::default(),
            },
            ports: BTreeMap::new(),
        };
        let inherited = self.inherited(fields);
        let mut processes = self.processes(fields, name, &inherited, completeness);
        // Beyond the byte limit some processes are not read.
        if !self.is_full() {
            // The processes of a layer may be in another layer.
            if let Some(order) = fields.get("order")
                && (completeness == Completeness::Complete || !processes.is_empty())
            {
                self.order(&order, &mut processes);
            }
            graph::check(&processes, &mut self.problems);
        }
        spec.processes = processes.into_iter().map(|process| process.spec).collect();
        if let Some(rendering) = &self.rendering {
            spec.ports.clone_from(&rendering.values.ports);
        }
        let resources = fields.get("resources");
        let mut output = |name| self.output(&fields.get(name)?, &spec);
        TaskBody {
            requests_cpu: resources.is_some_and(|item| item.tree.has("cpu")),
            stdout: output("stdout"),
            stderr: output("stderr"),
            spec,
        }
    }

    /// Reads what the processes of a task inherit. A check without values needs no copy for each.
    fn inherited(&mut self, fields: &Fields<'_>) -> Inherited {
        let env = fields.get("env").map(|item| self.env(&item));
        let cwd = fields.get("cwd").and_then(|item| self.task_cwd(&item));
        let Some(rendering) = &self.rendering else {
            return Inherited::default();
        };
        let mut inherited = Inherited {
            env: rendering.env.clone(),
            cwd,
        };
        inherited.env.extend(env.unwrap_or_default());
        inherited
    }

    /// Reports early that the file is empty or a workflow.
    fn is_task(&mut self, item: &Item<'_>) -> Option<()> {
        let message = match &item.tree.value {
            Value::Null => "the file is empty",
            Value::Map(entries) if entries.iter().any(|entry| entry.key == "workflow") => {
                self.note(
                    item,
                    Kind::UnknownField,
                    "expected a task, found a workflow".to_owned(),
                    "use a file with `task` at its top level; the tasks of a workflow run with the workflow",
                );
                return None;
            }
            Value::Map(entries) if entries.is_empty() => "the file is empty",
            _ => return Some(()),
        };
        self.note(
            item,
            Kind::MissingField,
            message.to_owned(),
            "write at least `task: NAME` and `run: COMMAND`",
        );
        None
    }

    fn processes(
        &mut self,
        fields: &Fields<'_>,
        task: Option<String>,
        inherited: &Inherited,
        completeness: Completeness,
    ) -> Vec<LocatedProcess> {
        match (fields.get("run"), fields.get("processes")) {
            (Some(_), Some(_)) => {
                self.problems.push(fields.key_problem(
                    "run",
                    Kind::Conflict,
                    "a task cannot have both `run` and `processes`".to_owned(),
                    "move the command into `processes`, or remove `processes`",
                ));
                Vec::new()
            }
            (None, None) if completeness == Completeness::Partial => Vec::new(),
            (None, None) => {
                self.problems.push(fields.item.problem(
                    Kind::NoProcesses,
                    "the task has no command".to_owned(),
                    "write `run: COMMAND` or `processes: [{ name: NAME, run: COMMAND }]`",
                ));
                Vec::new()
            }
            (Some(run), None) => {
                let Some(run) = self.run(&run) else {
                    return Vec::new();
                };
                let name = task.unwrap_or_else(|| "run".to_owned());
                let process = LocatedProcess {
                    spec: inherited.process(&name, run),
                    name_location: fields.item.location(),
                    after_locations: Vec::new(),
                };
                self.count_variables(&process.spec.env, &process.name_location);
                vec![process]
            }
            (None, Some(processes)) => self.process_list(&processes, inherited),
        }
    }

    fn process_list(&mut self, item: &Item<'_>, inherited: &Inherited) -> Vec<LocatedProcess> {
        let hint = "write a list, such as [{ name: build, run: make }]";
        let items = self.list(item, hint);
        if items.is_empty() && matches!(item.tree.value, Value::List(_)) {
            let message = "the list of processes is empty".to_owned();
            self.note(item, Kind::NoProcesses, message, hint);
        }
        if items.len() > PROCESSES_MAX {
            let message = format!(
                "the task has {} processes, at most {PROCESSES_MAX} are allowed",
                items.len()
            );
            self.note(
                item,
                Kind::TooLarge,
                message,
                "split the task into a workflow of several tasks",
            );
            return Vec::new();
        }
        let mut processes = Vec::with_capacity(items.len());
        for item in &items {
            processes.extend(self.process(item, inherited, misplaced_process_field));
            if self.is_full() {
                break;
            }
        }
        processes
    }

    /// Reads chains of names: each process waits for the success of the one before.
    fn order(&mut self, item: &Item<'_>, processes: &mut [LocatedProcess]) {
        let hint = "write a list of chains, such as [[a, b, c], [a, d]]";
        let mut chains = Vec::new();
        for chain in self.list(item, hint) {
            let names = self.list(&chain, hint);
            if names.len() < 2 && matches!(chain.tree.value, Value::List(_)) {
                let message = "a chain needs at least two processes".to_owned();
                self.note(&chain, Kind::BadValue, message, hint);
            }
            let links: graph::Chain = names
                .iter()
                .filter_map(|name| {
                    let text = self.text(name, "write the name of a process")?;
                    Some((text.to_owned(), name.location()))
                })
                .collect();
            // An incomplete chain would connect the wrong processes.
            if links.len() == names.len() {
                chains.push(links);
            }
        }
        graph::order(&chains, processes, &mut self.problems);
    }

    /// Reads the policies except the trigger.
    pub(super) fn policy(&mut self, fields: &Fields<'_>, spec: &TaskSpec) -> Policy {
        let timeout = self.duration_field(fields, "timeout");
        let time_request = self.duration_field(fields, "time_request");
        let first = FirstAttempt::of(&spec.resources, timeout, time_request);
        let retry = fields.get("retry");
        let says_attempts = retry.as_ref().is_some_and(|it| it.tree.has("attempts"));
        let retry = retry.and_then(|item| self.retry(&item, &first));
        let mut retry = retry.unwrap_or_default();
        let fleets = self.fleets(fields);
        if !says_attempts && let Ok(each_once) = u32::try_from(fleets.len()) {
            retry.attempts = retry.attempts.max(each_once);
        }
        let nodes = self.nodes(fields, spec);
        Policy {
            trigger: Trigger::default(),
            retry,
            timeout,
            fleets,
            exclusive: self.word_field(fields, "exclusive").unwrap_or_default(),
            lost_after: self.lost_after(fields),
            time_request,
            warn: fields
                .get("warn")
                .and_then(|item| self.warning(&item, timeout)),
            nodes,
            priority: self.integer_field(fields, "priority").unwrap_or_default(),
            constraints: match fields.get("constraints") {
                Some(item) => self.constraints(&item),
                None => Vec::new(),
            },
            uris: match fields.get("uris") {
                Some(item) => self.uris(&item),
                None => Vec::new(),
            },
            secrets: match fields.get("secrets") {
                Some(item) => self.secrets(&item),
                None => Vec::new(),
            },
            expected: self.expected(fields),
            notify: None,
            tags: match fields.get("tags") {
                Some(item) => self.tags(&item),
                None => Vec::new(),
            },
        }
    }

    /// A part of a device is shared with other attempts, whose devices no rank on another host can know.
    fn nodes(&mut self, fields: &Fields<'_>, spec: &TaskSpec) -> Nodes {
        let nodes = self.integer_field(fields, "nodes").map(Nodes::new);
        let nodes = nodes.unwrap_or_default();
        let has_part = !spec.resources.gpu.milli().is_multiple_of(WHOLE);
        if nodes.is_gang()
            && has_part
            && let Some(item) = fields.get("nodes")
        {
            let message = "a task of several nodes takes whole GPUs only".to_owned();
            let hint = "write a whole number for `gpu`, or remove `nodes`";
            self.note(&item, Kind::BadValue, message, hint);
        }
        nodes
    }

    fn warning(&mut self, item: &Item<'_>, timeout: Option<Millis>) -> Option<Warning> {
        let fields = self.fields(item, &WARNING, |_| None)?;
        let signal = match fields.get("signal") {
            Some(item) => self.catchable_signal(&item)?,
            None => Self::WARNING_SIGNAL,
        };
        if fields.get("before").is_none() {
            self.missing(
                &fields,
                "before",
                "write how long before the end, such as 60s",
            );
            return None;
        }
        let before = self.duration_field(&fields, "before")?;
        if let Some(timeout) = timeout.filter(|timeout| before >= *timeout)
            && let Some(item) = fields.get("before")
        {
            let message = format!("{before} is not shorter than the timeout of {timeout}");
            let hint = "write a shorter time, or a longer timeout";
            self.note(&item, Kind::OutOfRange, message, hint);
            return None;
        }
        Some(Warning { signal, before })
    }

    fn tags(&mut self, item: &Item<'_>) -> Vec<String> {
        let items = self.list(item, "write a list of words, such as [nightly, gpu]");
        if items.len() > InstanceSpec::TAGS_MAX {
            let (count, most) = (items.len(), InstanceSpec::TAGS_MAX);
            let message = format!("{count} tags are listed, at most {most} are allowed");
            self.note(item, Kind::OutOfRange, message, "remove some");
            return Vec::new();
        }
        let tags = items.iter().filter_map(|item| self.name(item));
        let tags: BTreeSet<String> = tags.collect();
        tags.into_iter().collect()
    }

    fn lost_after(&mut self, fields: &Fields<'_>) -> Option<Millis> {
        let span = self.duration_field(fields, "lost_after")?;
        if span >= LOST_AFTER_MIN {
            return Some(span);
        }
        if let Some(item) = fields.get("lost_after") {
            let message =
                format!("{span} is too short: heartbeats may be late, and killing takes time");
            self.note(&item, Kind::OutOfRange, message, "write at least 1m");
        }
        None
    }
}
