//! Importer of recorded workflows (WfCommons traces, WfFormat 1.4, 1.5 and 1.6).
//!
//! Each task of a trace becomes a task that takes as long, by sleeping or by burning CPU time;
//! its input and output files are ignored. Names are made from ids: characters that are invalid
//! in names become `-`, and duplicate names get a number.
//!
//! | version | structure | measurements |
//! |---|---|---|
//! | 1.4 | `workflow.tasks` | beside it |
//! | 1.5, 1.6 | `workflow.specification.tasks` | `workflow.execution.tasks`, by `id` |

use std::collections::{BTreeMap, BTreeSet};

use baton_model::limits::PLAN_TASKS_MAX;
use serde_json::{Map, Value, json};

use crate::error::{Location, quote};
use crate::graph;
use crate::limits::{CPU_MILLI_MAX, SIZE_BYTES_MAX};
use crate::name::bad_name;

/// Options of an import.
#[derive(Clone, Debug, PartialEq)]
pub struct Import {
    /// The speed-up factor of all runtimes.
    pub speed: f64,
    pub work: Work,
    /// The name of the workflow; `None` for the name in the trace.
    pub name: Option<String>,
    /// Whether tasks request the cores and the memory recorded in the trace. Otherwise a
    /// sleeping task requests a tenth of a core, so that many fit on one worker, and a burning
    /// task requests one.
    pub resources: bool,
}

impl Default for Import {
    fn default() -> Self {
        Self {
            speed: 1.0,
            work: Work::Sleep,
            name: None,
            resources: false,
        }
    }
}

/// How an imported task spends its runtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Work {
    #[default]
    Sleep,
    /// Burns about the same CPU time on one core.
    Cpu,
}

/// Cores that a sleeping task requests.
const SLEEP_CPU: f64 = 0.1;

/// Burns CPU time until the shell itself has used TICKS hundredths of a second: fields 14 and 15
/// of its `/proc/self/stat`. So it takes longer on a busy host, like real work.
const BURN: &str = "while read -ra stat < /proc/self/stat && (( stat[13] + stat[14] < TICKS )); do \
                    for (( i = 0; i < 5000; i++ )); do :; done; done";
const TICKS_PER_SECOND: f64 = 100.0;

/// The longest runtime in seconds: the longest duration of a file.
const SECONDS_MAX: f64 = 3_650.0 * 24.0 * 3_600.0;

/// Bytes of a name made from an id; a number may follow.
const NAME_BYTES_MAX: usize = 120;

/// A task of a trace.
struct TraceTask<'a> {
    path: String,
    name: String,
    json: &'a Map<String, Value>,
    /// The measurements, which 1.5 keeps in a separate list.
    measured: &'a Map<String, Value>,
    measured_path: String,
    /// Indexes of the tasks that it depends on.
    parents: BTreeSet<usize>,
}

/// Converts a trace to a workflow file; [`crate::workflow_from_json`] reads it.
///
/// # Errors
/// A problem of the trace, with the name of the field, or of the options.
pub fn wfcommons(trace: &Value, options: &Import) -> Result<Value, String> {
    if !(options.speed.is_finite() && options.speed > 0.0) {
        return Err(format!("speed: {} is not a positive number", options.speed));
    }
    let version = text(trace, "schemaVersion", "")?;
    let workflow = object(trace, "workflow", "")?;
    let mut tasks = match version {
        "1.4" => tasks_v1_4(workflow)?,
        "1.5" | "1.6" => tasks_v1_5(workflow)?,
        other => {
            return Err(format!(
                "schemaVersion: {} is not supported; use 1.4, 1.5 or 1.6",
                quote(other)
            ));
        }
    };
    if tasks.is_empty() {
        return Err("the trace has no tasks".to_owned());
    }
    if tasks.len() > PLAN_TASKS_MAX {
        let count = tasks.len();
        return Err(format!(
            "the trace has {count} tasks, at most {PLAN_TASKS_MAX} are allowed"
        ));
    }
    resolve_parents(&mut tasks)?;
    check_acyclic(&tasks)?;
    let name = match &options.name {
        Some(name) => name.clone(),
        None => sanitize_name(text(trace, "name", "")?),
    };
    if let Some(reason) = bad_name(&name) {
        return Err(format!(
            "name: {} is not a valid name: {reason}",
            quote(&name)
        ));
    }
    file(&name, &tasks, options)
}

fn file(name: &str, tasks: &[TraceTask<'_>], options: &Import) -> Result<Value, String> {
    let mut made = Map::new();
    for task in tasks {
        let seconds = seconds(task)? / options.speed;
        let mut json = Map::new();
        match options.work {
            Work::Sleep => json.insert("run".to_owned(), json!(["sleep", format!("{seconds:.3}")])),
            Work::Cpu => {
                json.insert("template".to_owned(), "burn".into());
                let ticks = format!("{:.0}", seconds * TICKS_PER_SECOND);
                json.insert("env".to_owned(), json!({ "TICKS": ticks }))
            }
        };
        if !task.parents.is_empty() {
            let parents = task.parents.iter().map(|at| tasks[*at].name.as_str());
            json.insert("after".to_owned(), parents.collect());
        }
        let resources = if options.resources {
            resources(task)?
        } else {
            Map::new()
        };
        if !resources.is_empty() {
            json.insert("resources".to_owned(), resources.into());
        }
        made.insert(task.name.clone(), json.into());
    }
    let cpu = match options.work {
        Work::Sleep => json!(SLEEP_CPU),
        Work::Cpu => json!(1),
    };
    let mut file = json!({
        "workflow": name,
        "defaults": { "resources": { "cpu": cpu } },
        "tasks": made,
    });
    if options.work == Work::Cpu {
        file["templates"] = json!({ "burn": { "run": BURN } });
    }
    Ok(file)
}

/// Reads the tasks of 1.4: specification and measurements in one object.
fn tasks_v1_4(workflow: &Value) -> Result<Vec<TraceTask<'_>>, String> {
    let path = "workflow.tasks";
    let mut names = Names::new();
    let mut tasks = Vec::new();
    for (index, task) in list(workflow, "tasks", "workflow")?.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let json = map(task, &path)?;
        tasks.push(TraceTask {
            name: unique_name(id(json, &path)?, &mut names),
            json,
            measured: json,
            measured_path: path.clone(),
            parents: BTreeSet::new(),
            path,
        });
    }
    Ok(tasks)
}

/// Reads the tasks of 1.5 and 1.6: specification and measurements in separate lists.
fn tasks_v1_5(workflow: &Value) -> Result<Vec<TraceTask<'_>>, String> {
    let specification = object(workflow, "specification", "workflow")?;
    let execution = object(workflow, "execution", "workflow")?;
    let mut measured = BTreeMap::new();
    let listed = list(execution, "tasks", "workflow.execution")?;
    for (index, task) in listed.iter().enumerate() {
        let path = format!("workflow.execution.tasks[{index}]");
        let json = map(task, &path)?;
        measured.insert(id(json, &path)?, (json, path));
    }
    let mut names = Names::new();
    let mut tasks = Vec::new();
    let listed = list(specification, "tasks", "workflow.specification")?;
    for (index, task) in listed.iter().enumerate() {
        let path = format!("workflow.specification.tasks[{index}]");
        let json = map(task, &path)?;
        let id = id(json, &path)?;
        let Some((measured, measured_path)) = measured.get(id) else {
            return Err(format!(
                "{path}: workflow.execution.tasks has no task {}",
                quote(id)
            ));
        };
        tasks.push(TraceTask {
            name: unique_name(id, &mut names),
            json,
            measured,
            measured_path: measured_path.clone(),
            parents: BTreeSet::new(),
            path,
        });
    }
    Ok(tasks)
}

/// Resolves `parents` and `children` to indexes. An edge in either list counts.
fn resolve_parents(tasks: &mut [TraceTask<'_>]) -> Result<(), String> {
    let mut indexes: BTreeMap<&str, usize> = BTreeMap::new();
    // Some traces of 1.4 refer to names; ids take precedence.
    for key in ["name", "id"] {
        for (at, task) in tasks.iter().enumerate() {
            if let Some(Value::String(text)) = task.json.get(key)
                && let Some(other) = indexes.insert(text, at)
                && key == "id"
                && other != at
                && tasks[other].json.get(key) == task.json.get(key)
            {
                return Err(format!(
                    "{}.id: {} is already used by {}",
                    task.path,
                    quote(text),
                    tasks[other].path
                ));
            }
        }
    }
    let mut arrows = Vec::new();
    for (at, task) in tasks.iter().enumerate() {
        for field in ["parents", "children"] {
            let listed = match task.json.get(field) {
                None | Some(Value::Null) => &[][..],
                Some(Value::Array(listed)) => listed,
                Some(_) => return Err(format!("{}.{field}: expected a list", task.path)),
            };
            for (index, other) in listed.iter().enumerate() {
                let path = format!("{}.{field}[{index}]", task.path);
                let other = other
                    .as_str()
                    .ok_or_else(|| format!("{path}: expected a string"))?;
                let index = indexes.get(other);
                let index =
                    index.ok_or_else(|| format!("{path}: unknown task {}", quote(other)))?;
                arrows.push(match field {
                    "parents" => (at, *index),
                    _ => (*index, at),
                });
            }
        }
    }
    for (at, parent) in arrows {
        tasks[at].parents.insert(parent);
    }
    Ok(())
}

fn check_acyclic(tasks: &[TraceTask<'_>]) -> Result<(), String> {
    let locations: Vec<Location> = tasks
        .iter()
        .map(|task| Location {
            path: format!("{}.parents", task.path),
            position: None,
        })
        .collect();
    let arrows: Vec<Vec<(usize, &Location)>> = tasks
        .iter()
        .zip(&locations)
        .map(|(task, location)| task.parents.iter().map(|at| (*at, location)).collect())
        .collect();
    let mut problems = Vec::new();
    graph::report_cycles(
        "tasks",
        &arrows,
        |at| tasks[at].name.as_str(),
        &mut problems,
    );
    match problems.first() {
        None => Ok(()),
        Some(problem) => Err(format!("{}: {}", problem.path, problem.message)),
    }
}

/// Returns the recorded runtime.
fn seconds(task: &TraceTask<'_>) -> Result<f64, String> {
    const FIELD: &str = "runtimeInSeconds";
    let path = &task.measured_path;
    match task.measured.get(FIELD).map(Value::as_f64) {
        None => Err(format!("{path}: the field `{FIELD}` is missing")),
        Some(Some(seconds)) if (0.0..=SECONDS_MAX).contains(&seconds) => Ok(seconds),
        Some(_) => Err(format!(
            "{path}.{FIELD}: expected a number of seconds, at most ten years"
        )),
    }
}

/// Returns the recorded resources, capped at the limits of a file.
fn resources(task: &TraceTask<'_>) -> Result<Map<String, Value>, String> {
    let mut resources = Map::new();
    let number = |field: &str| match task.measured.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_f64().filter(|number| *number >= 0.0) {
            Some(number) => Ok(Some(number)),
            None => Err(format!("{}.{field}: expected a number", task.measured_path)),
        },
    };
    // `coreCount` in 1.5, `cores` in 1.4.
    let cores = match number("coreCount")? {
        None => number("cores")?,
        cores => cores,
    };
    if let Some(cores) = cores {
        let milli = (cores * 1e3).round().min(CPU_MILLI_MAX as f64);
        resources.insert("cpu".to_owned(), json!(milli / 1e3));
    }
    if let Some(bytes) = number("memoryInBytes")? {
        let bytes = bytes.ceil().min(SIZE_BYTES_MAX as f64);
        resources.insert("memory".to_owned(), json!(format!("{bytes:.0}..")));
    }
    Ok(resources)
}

fn path_of(parent: &str, field: &str) -> String {
    match parent {
        "" => field.to_owned(),
        parent => format!("{parent}.{field}"),
    }
}

fn field<'a>(json: &'a Value, name: &str, parent: &str) -> Result<&'a Value, String> {
    json.get(name)
        .ok_or_else(|| format!("{}: the field is missing", path_of(parent, name)))
}

fn object<'a>(json: &'a Value, name: &str, parent: &str) -> Result<&'a Value, String> {
    let value = field(json, name, parent)?;
    if value.is_object() {
        Ok(value)
    } else {
        Err(format!("{}: expected an object", path_of(parent, name)))
    }
}

fn list<'a>(json: &'a Value, name: &str, parent: &str) -> Result<&'a [Value], String> {
    let value = field(json, name, parent)?;
    let list = value.as_array().map(Vec::as_slice);
    list.ok_or_else(|| format!("{}: expected a list", path_of(parent, name)))
}

fn text<'a>(json: &'a Value, name: &str, parent: &str) -> Result<&'a str, String> {
    let value = field(json, name, parent)?.as_str();
    value.ok_or_else(|| format!("{}: expected a string", path_of(parent, name)))
}

fn map<'a>(value: &'a Value, path: &str) -> Result<&'a Map<String, Value>, String> {
    value
        .as_object()
        .ok_or_else(|| format!("{path}: expected an object"))
}

/// Returns the id that other tasks refer to.
fn id<'a>(task: &'a Map<String, Value>, path: &str) -> Result<&'a str, String> {
    let id = task.get("id").or_else(|| task.get("name"));
    let id = id.ok_or_else(|| format!("{path}: the field `id` is missing"))?;
    let id = id.as_str().filter(|id| !id.is_empty());
    id.ok_or_else(|| format!("{path}.id: expected a string"))
}

/// Replaces characters that are invalid in a name.
fn sanitize_name(text: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    let chars = text.chars().take(NAME_BYTES_MAX);
    let name: String = chars.map(|c| if fits(c) { c } else { '-' }).collect();
    match name.strip_prefix('.') {
        Some(rest) => format!("-{rest}"),
        None => name,
    }
}

/// Assigned names, each with the number for its next duplicate.
type Names = BTreeMap<String, u32>;

fn unique_name(id: &str, names: &mut Names) -> String {
    let name = sanitize_name(id);
    let Some(number) = names.get(&name).copied() else {
        names.insert(name.clone(), 2);
        return name;
    };
    let mut free = number;
    while names.contains_key(&format!("{name}-{free}")) {
        free += 1;
    }
    let numbered = format!("{name}-{free}");
    names.insert(numbered.clone(), 2);
    names.insert(name, free + 1);
    numbered
}
