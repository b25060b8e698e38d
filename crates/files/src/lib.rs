//! Parser and validator of files of tasks, workflows and fleets (YAML, TOML, JSON).
//!
//! ```
//! use baton_files::{Binding, Format, parse};
//!
//! let file = parse(
//!     "task: hello\nparams: { who: world }\nrun: echo hello {{ params.who }}\n",
//!     Format::Yaml,
//!     "hello.yaml",
//! )?;
//! let task = file.bind(&Binding::default())?;
//! assert_eq!(task.processes[0].name.0, "hello");
//! # Ok::<(), baton_files::Errors>(())
//! ```
//!
//! A file passes through these steps; each reports every problem it finds:
//!
//! | step | module | knows |
//! |---|---|---|
//! | text to tree | `tree` | the three formats, with line and column |
//! | tree to [`TaskFile`] | `read`, `schema`, `graph` | the fields, names, the order of processes |
//! | its tree and values to `TaskSpec` | `binding`, `template`, `read` | parameters, ports, the task id |
//! | `TaskSpec` to `InstanceSpec` | `instance` | the scheduler's input, with its defaults |
//! | a file to [`Definition`] | `definition` | a library revision, with unbound templates |
//! | tree to [`WorkflowFile`] to plan | `read`, `workflow`, `plan` | tasks, their order and items |
//! | tree to [`FleetsFile`], and back | `read`, `fleets` | the flat form of fleets |
//!
//! One reader serves both steps with a tree: a file is checked without values of its templates, and
//! each binding reads the fields that may have templates again, with values.
//!
//! Further modules: [`units`] (durations and sizes, also for command lines), [`times`], [`indices`] of arrays, [`Param`],
//! [`Policy`], [`Errors`], [`limits`], and [`wfcommons`] (imports recorded workflows).
//! `baton_core::clock` parses schedules; `baton_core::workflow` parses references and conditions.
//! `schema` has the tables of all fields, from which `docs/tasks.md` and the JSON Schemas come;
//! `baton_model::task` specifies a bound task. This crate starts no process and reads no clock.

mod binding;
mod definition;
mod error;
mod file;
mod fleets;
mod format;
mod graph;
pub mod indices;
mod instance;
pub mod limits;
mod name;
mod param;
mod plan;
mod policy;
mod read;
mod schema;
mod sizing;
mod source;
mod suggest;
mod template;
pub mod times;
mod tree;
pub mod units;
pub mod wfcommons;
mod workflow;

use std::fs::File;
use std::io::Read;
use std::path::Path;

pub use error::{Errors, Kind, Position, Problem};
pub use file::{Binding, TaskFile};
pub use fleets::{FleetsFile, fleet_from_json, fleet_to_json, load_fleets, parse_fleets};
pub use format::Format;
pub use instance::{DEFAULT_OWNER, ITEM_VARIABLE};
pub use param::{Param, ParamKind};
pub use policy::{Growth, Policy, Retry, Scaling};
pub use read::is_resource_name;
pub use schema::{fleets_schema, task_schema, workflow_schema};
pub use sizing::SizingText;
pub use suggest::nearest;
pub use workflow::WorkflowFile;

use baton_model::notify::NotifySettings;
use baton_model::secret::SecretSource;
use baton_model::workflow::Plan;

pub use baton_model::library::{Definition, TaskName, Trigger};

use error::{Location, quote};
use limits::{FILE_BYTES_MAX, SizeLimits, TASK_LIMITS, WORKFLOW_BYTES_MAX, WORKFLOW_LIMITS};
use tree::Tree;

/// A task file or a workflow file.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "one exists at a time, and it is destructured at once"
)]
pub enum AnyFile {
    Task(TaskFile),
    Workflow(WorkflowFile),
}

/// A file of any kind.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "one exists at a time, and it is destructured at once"
)]
pub enum ReadFile {
    /// It defines work.
    Work(AnyFile),
    /// It defines fleets.
    Fleets(FleetsFile),
}

/// Reads and checks a file of any kind: one with `fleets` at its top level defines fleets.
///
/// # Errors
/// Every problem of the file, including that it is unreadable.
pub fn load_file(path: impl AsRef<Path>) -> Result<ReadFile, Errors> {
    let (name, format, bytes) = open(path.as_ref(), WORKFLOW_BYTES_MAX)?;
    match parse_work(&bytes, format, &name)? {
        Some(work) => Ok(ReadFile::Work(work)),
        None => parse_fleets(&bytes, format, &name).map(ReadFile::Fleets),
    }
}

/// Reads and checks a task file.
///
/// # Errors
/// Every problem of the file, including that it is unreadable.
pub fn load(path: impl AsRef<Path>) -> Result<TaskFile, Errors> {
    let (name, format, bytes) = open(path.as_ref(), FILE_BYTES_MAX)?;
    parse_bytes(&bytes, format, &name)
}

/// Reads and checks a workflow file.
///
/// # Errors
/// Every problem of the file, including that it is unreadable.
pub fn load_workflow(path: impl AsRef<Path>) -> Result<WorkflowFile, Errors> {
    let (name, format, bytes) = open(path.as_ref(), WORKFLOW_BYTES_MAX)?;
    parse_workflow(text(&bytes, &WORKFLOW_LIMITS, &name)?, format, &name)
}

/// Reads and checks the file of channels and routes of notifications.
///
/// # Errors
/// Every problem of the file, including that it is unreadable.
pub fn load_notifications(path: impl AsRef<Path>) -> Result<NotifySettings, Errors> {
    let (name, format, bytes) = open(path.as_ref(), FILE_BYTES_MAX)?;
    parse_notifications(text(&bytes, &TASK_LIMITS, &name)?, format, &name)
}

/// Parses and checks the text of such a file. `name` is the file name shown in errors.
///
/// # Errors
/// Every problem of the file.
pub fn parse_notifications(
    text: &str,
    format: Format,
    name: &str,
) -> Result<NotifySettings, Errors> {
    tree::parse(text, format, &TASK_LIMITS)
        .and_then(|root| read::settings(&root))
        .map_err(|problems| Errors::new(name, problems))
}

/// Reads and checks the file of secrets that are kept elsewhere.
///
/// # Errors
/// Every problem of the file, including that it is unreadable.
pub fn load_secret_sources(path: impl AsRef<Path>) -> Result<Vec<SecretSource>, Errors> {
    let (name, format, bytes) = open(path.as_ref(), FILE_BYTES_MAX)?;
    parse_secret_sources(text(&bytes, &TASK_LIMITS, &name)?, format, &name)
}

/// Parses and checks the text of such a file. `name` is the file name shown in errors.
///
/// # Errors
/// Every problem of the file.
pub fn parse_secret_sources(
    text: &str,
    format: Format,
    name: &str,
) -> Result<Vec<SecretSource>, Errors> {
    tree::parse(text, format, &TASK_LIMITS)
        .and_then(|root| read::sources(&root))
        .map_err(|problems| Errors::new(name, problems))
}

/// Reads and checks a task or workflow file: one with `workflow` or `tasks` at its top level
/// is a workflow.
///
/// # Errors
/// Every problem of the file, including that it is unreadable.
pub fn load_any(path: impl AsRef<Path>) -> Result<AnyFile, Errors> {
    let (name, format, bytes) = open(path.as_ref(), WORKFLOW_BYTES_MAX)?;
    parse_any(&bytes, format, &name)
}

/// Parses and checks a task or workflow file, as [`load_any`]. `name` is the file name shown in errors.
///
/// # Errors
/// Every problem of the file.
pub fn parse_any(bytes: &[u8], format: Format, name: &str) -> Result<AnyFile, Errors> {
    parse_work(bytes, format, name)?.ok_or_else(|| {
        let location = Location {
            path: "fleets".to_owned(),
            ..Location::default()
        };
        let message = "the file defines fleets, and no work".to_owned();
        let hint = "give it to `baton fleet add -f`, or to a scheduler with --fleets";
        Errors::new(
            name,
            vec![location.problem(Kind::UnknownField, message, hint)],
        )
    })
}

/// Parses and checks a task or workflow file; none if it defines fleets.
fn parse_work(bytes: &[u8], format: Format, name: &str) -> Result<Option<AnyFile>, Errors> {
    let text = text(bytes, &WORKFLOW_LIMITS, name)?;
    let fail = |problems| Errors::new(name, problems);
    let workflow = |root: Tree| read::workflow(root, name).map(AnyFile::from);
    let read_workflow = |root: Tree| workflow(root).map(Some).map_err(fail);
    // The kind decides the size limit, and is known only after parsing.
    match tree::parse(text, format, &TASK_LIMITS) {
        Ok(root) if read::is_fleets(&root) => Ok(None),
        Ok(root) if read::is_workflow(&root) => read_workflow(root),
        Ok(root) => {
            let task = read::task(root, name).map_err(fail)?;
            Ok(Some(AnyFile::from(task)))
        }
        Err(problems) if problems.iter().any(|it| it.kind == Kind::TooLarge) => {
            match tree::parse(text, format, &WORKFLOW_LIMITS) {
                Ok(root) if read::is_workflow(&root) => read_workflow(root),
                Ok(_) => Err(fail(problems)),
                Err(problems) => Err(fail(problems)),
            }
        }
        Err(problems) => Err(fail(problems)),
    }
}

impl From<TaskFile> for AnyFile {
    fn from(file: TaskFile) -> Self {
        Self::Task(file)
    }
}

impl From<WorkflowFile> for AnyFile {
    fn from(file: WorkflowFile) -> Self {
        Self::Workflow(file)
    }
}

/// Parses and checks the text of a task file. `name` is the file name shown in errors.
///
/// # Errors
/// Every problem of the file.
pub fn parse(text: &str, format: Format, name: &str) -> Result<TaskFile, Errors> {
    tree::parse(text, format, &TASK_LIMITS)
        .and_then(|root| read::task(root, name))
        .map_err(|problems| Errors::new(name, problems))
}

/// Parses and checks the text of a workflow file. `name` is the file name shown in errors.
///
/// # Errors
/// Every problem of the file.
pub fn parse_workflow(text: &str, format: Format, name: &str) -> Result<WorkflowFile, Errors> {
    tree::parse(text, format, &WORKFLOW_LIMITS)
        .and_then(|root| read::workflow(root, name))
        .map_err(|problems| Errors::new(name, problems))
}

/// Checks a task in JSON: from HTTP, or from [`TaskFile::to_json`]. `name` is the file name
/// shown in errors, which have fields but no lines.
///
/// # Errors
/// Every problem of the file.
pub fn from_json(value: &serde_json::Value, name: &str) -> Result<TaskFile, Errors> {
    source::from_json(value, &TASK_LIMITS)
        .and_then(|root| read::task(root, name))
        .map_err(|problems| Errors::new(name, problems))
}

/// Checks a workflow in JSON: from HTTP, or from [`WorkflowFile::to_json`]. `name` is the file
/// name shown in errors, which have fields but no lines.
///
/// # Errors
/// Every problem of the file.
pub fn workflow_from_json(value: &serde_json::Value, name: &str) -> Result<WorkflowFile, Errors> {
    source::from_json(value, &WORKFLOW_LIMITS)
        .and_then(|root| read::workflow(root, name))
        .map_err(|problems| Errors::new(name, problems))
}

/// Checks a task or a workflow in JSON: one with `workflow` or `tasks` at its top level is a
/// workflow. `name` is the file name shown in errors, which have fields but no lines.
///
/// # Errors
/// Every problem of the file.
pub fn any_from_json(value: &serde_json::Value, name: &str) -> Result<AnyFile, Errors> {
    if is_workflow(value) {
        workflow_from_json(value, name).map(AnyFile::from)
    } else {
        from_json(value, name).map(AnyFile::from)
    }
}

/// Fields of which a task or workflow file has one at least.
const DEFINING_FIELDS: [&str; 5] = ["task", "run", "processes", "workflow", "tasks"];

/// True if the text has a field that makes it a task or workflow file, valid or not. Of other files,
/// which the author may not be allowed to read, no error should quote anything.
#[must_use]
pub fn resembles_definition(text: &[u8]) -> bool {
    let is_field = |line: &[u8], field: &str| {
        let line = line.trim_ascii_start();
        let quoted = line.strip_prefix(b"\"").or(line.strip_prefix(b"'"));
        let rest = quoted.unwrap_or(line).strip_prefix(field.as_bytes());
        let rest = rest.map(|rest| {
            let unquoted = rest.strip_prefix(b"\"").or(rest.strip_prefix(b"'"));
            unquoted.unwrap_or(rest).trim_ascii_start()
        });
        rest.is_some_and(|rest| rest.starts_with(b":") || rest.starts_with(b"="))
            || [
                format!("[{field}]"),
                format!("[{field}."),
                format!("[[{field}]]"),
            ]
            .iter()
            .any(|table| line.starts_with(table.as_bytes()))
    };
    // A map in braces has several fields in one line.
    let lines = text.split(|byte| matches!(byte, b'\n' | b'\r' | b'{' | b','));
    lines
        .into_iter()
        .any(|line| DEFINING_FIELDS.iter().any(|field| is_field(line, field)))
}

/// True if a file in JSON is a workflow, valid or not.
#[must_use]
pub fn is_workflow(value: &serde_json::Value) -> bool {
    value.get("workflow").is_some() || value.get("tasks").is_some()
}

/// Parses tasks that extend a plan: the text of `{"tasks": {…}}`, as in a workflow file. They may
/// depend on tasks of `before`, use its parameters, and must have new names. `name` is the file
/// name shown in errors.
///
/// The result has only the new tasks; their indexes continue those of `before`, after whose tasks
/// the caller appends them. It has the name, the owner and the parameters of `before`, and none
/// of its limits.
///
/// # Errors
/// Every problem of the tasks.
pub fn workflow_part(tasks: &str, before: &Plan, name: &str) -> Result<Plan, Errors> {
    tree::parse(tasks, Format::Json, &WORKFLOW_LIMITS)
        .and_then(|root| {
            let part = read::part(&root, before)?;
            plan::extend(before, &root, &part)
        })
        .map_err(|problems| Errors::new(name, problems))
}

/// Like [`parse`], for bytes that may not be UTF-8.
///
/// # Errors
/// Every problem of the file.
pub fn parse_bytes(bytes: &[u8], format: Format, name: &str) -> Result<TaskFile, Errors> {
    parse(text(bytes, &TASK_LIMITS, name)?, format, name)
}

/// Decodes the bytes of a file.
fn text<'a>(bytes: &'a [u8], size: &SizeLimits, name: &str) -> Result<&'a str, Errors> {
    // Check the limit first: an oversized file is not scanned.
    if bytes.len() > size.file_bytes_max {
        let bound = format!("{} bytes", size.file_bytes_max);
        return Err(Errors::new(name, vec![tree::too_large(size, &bound, None)]));
    }
    std::str::from_utf8(bytes).map_err(|error| not_utf8(bytes, error.valid_up_to(), name))
}

/// Returns the display name, the format and the content of a file.
fn open(path: &Path, bytes_max: usize) -> Result<(String, Format, Vec<u8>), Errors> {
    let name = path.display().to_string();
    let fail = |kind, message: String, hint: &str| {
        Errors::new(
            &name,
            vec![Location::default().problem(kind, message, hint)],
        )
    };
    let format = Format::of(path).ok_or_else(|| {
        fail(
            Kind::UnknownFormat,
            "the file name has no known extension".to_owned(),
            "use the extension .yaml, .yml, .toml or .json",
        )
    })?;
    let bytes = read(path, bytes_max).map_err(|error| {
        fail(
            Kind::Unreadable,
            format!("the file cannot be read: {error}"),
            "check the path and its permissions",
        )
    })?;
    Ok((name, format, bytes))
}

fn not_utf8(bytes: &[u8], at: usize, name: &str) -> Errors {
    let before = String::from_utf8_lossy(&bytes[..at]);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    let location = Location {
        path: String::new(),
        position: u32::try_from(line)
            .ok()
            .zip(u32::try_from(column).ok())
            .map(|(line, column)| Position { line, column }),
    };
    let byte = bytes.get(at).copied().unwrap_or_default();
    let problem = location.problem(
        Kind::NotUtf8,
        format!(
            "the file is not UTF-8: invalid byte {}",
            quote(&format!("0x{byte:02x}"))
        ),
        "save the file as UTF-8",
    );
    Errors::new(name, vec![problem])
}

/// Reads at most one byte more than the limit, so that reading an endless device terminates.
fn read(path: &Path, bytes_max: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX) + 1;
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}
