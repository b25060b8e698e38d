//! Commands about the library: define, remove, pause and trigger tasks and workflows.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use baton_model::fact::Fact;
use baton_model::ids::{Revision, TaskNo};
use baton_model::library::{
    Cause, Created, Definition, Execution, IdempotencyKey, Pause, TaskName, TriggerSource,
};
use baton_model::limits::{AFTER_MAX, TASKS_MAX};
use baton_model::schedule::{SkipReason, TickVerdict};
use baton_model::spec::InstanceSpec;
use baton_model::time::Millis;
use baton_model::trace::TraceContext;

use super::gate;
use super::instances::SubmitError;
use super::launch::{self, Launch, PlanError};
use super::timetable::{self, Timetable};
use crate::ledger::{Library, Payload, Task};
use crate::scheduler::context::Cx;

/// Precondition of a definition or a removal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Precondition {
    Anything,
    /// The library has no such task.
    Absent,
    /// The library has such a task.
    Present,
    /// The task has one of these revisions.
    Revisions(Vec<Revision>),
}

impl Precondition {
    /// Checks the task that the library has.
    fn check(&self, task: Option<&Task>) -> Result<(), LibraryError> {
        match (self, task) {
            (Self::Absent, Some(task)) => Err(LibraryError::Exists(task.revision)),
            (Self::Present | Self::Revisions(_), None) => Err(LibraryError::Missing),
            (Self::Revisions(expected), Some(task)) if !expected.contains(&task.revision) => {
                Err(LibraryError::Revised(task.revision))
            }
            _ => Ok(()),
        }
    }
}

/// A command to define a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefineCommand {
    pub name: TaskName,
    pub definition: Arc<Definition>,
    pub expected: Precondition,
    /// It comes from a file in the directory of the library, not from a client.
    pub by_file: bool,
    /// Only report the result, change nothing.
    pub dry: bool,
}

/// Result of a definition, also of a dry one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DefineReply {
    pub revision: Revision,
    pub change: Change,
}

/// The effect of a definition on a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    Created,
    /// The task has a new revision.
    Replaced,
    Unchanged,
}

/// Why a command about the library is refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LibraryError {
    Unknown,
    /// It was expected to exist, and does not.
    Missing,
    Exists(Revision),
    /// It has another revision than expected.
    Revised(Revision),
    /// It is defined by this file and can only be changed there.
    FromFile(String),
    /// Its `after` would form this cycle.
    Cycle(Vec<TaskName>),
    TooManyAfter,
    /// Its schedule is invalid.
    Schedule(String),
    /// It has a schedule or `after`, but a parameter without a default.
    NeedsDefaults,
    /// The plan of a workflow is invalid.
    Plan(String),
    /// `exclusive: strict` needs a durable store.
    NeedsStore,
    Full,
}

impl fmt::Display for LibraryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("there is no such entry in the library"),
            Self::Missing => f.write_str("it does not exist, so it has no revision to match"),
            Self::Exists(revision) => write!(f, "it already exists, at revision {}", revision.0),
            Self::Revised(revision) => write!(f, "it is at revision {} now", revision.0),
            Self::FromFile(file) => write!(
                f,
                "it is defined by {file} in the directory of the library; change it there"
            ),
            Self::Cycle(path) => {
                f.write_str("`after` would form a cycle: ")?;
                for (at, name) in path.iter().enumerate() {
                    write!(f, "{}{name}", if at == 0 { "" } else { " after " })?;
                }
                Ok(())
            }
            Self::TooManyAfter => write!(f, "an entry may come after at most {AFTER_MAX} others"),
            Self::Schedule(message) | Self::Plan(message) => f.write_str(message),
            Self::NeedsDefaults => f.write_str(
                "with a schedule or `after`, every parameter needs a default; set them in `params`",
            ),
            Self::NeedsStore => SubmitError::NeedsStore.fmt(f),
            Self::Full => write!(f, "the library is full: it has at most {TASKS_MAX} entries"),
        }
    }
}

impl std::error::Error for LibraryError {}

/// A command to launch an entry of the library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerCommand {
    pub name: TaskName,
    /// What to launch with bound parameters, and the revision they were bound to; none for the
    /// defaults.
    pub bound: Option<(Revision, Payload)>,
    pub by: TriggerSource,
    /// How far the caller is authenticated.
    pub trust: Trust,
    /// SHA-256, in hexadecimal, of the secret that the caller presented.
    pub secret_sha256: Option<String>,
    pub key: Option<IdempotencyKey>,
    /// The span of the caller.
    pub trace: Option<TraceContext>,
}

/// How far a caller of a trigger URL is authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trust {
    /// By a credential: no secret is required.
    Authenticated,
    /// The server does not authenticate: the secret is required if the task has one.
    Open,
    /// Not at all: only the secret of the task authorizes it, and a task without one is refused.
    Unauthenticated,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TriggerReply {
    pub execution: Execution,
    /// An earlier request with the same idempotency key launched it.
    pub repeated: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TriggerError {
    Unknown,
    /// Its trigger does not allow HTTP.
    NotRemote,
    /// The secret is missing or wrong.
    Secret,
    /// A parameter without a default has no value.
    NeedsParameters,
    /// The parameters were bound to an older revision.
    Revised(Revision),
    /// This many instances or runs are in flight.
    MaxInstances(u32),
    /// This many instances or runs wait for their turn.
    QueueFull(u32),
    /// Its launch rate allows the next launch after this time.
    LaunchRate(Millis),
    /// The idempotency key belongs to another request.
    KeyUsed(Created),
    /// `exclusive: strict` needs a durable store.
    NeedsStore,
    /// The plan of a workflow is invalid.
    Plan(String),
}

impl fmt::Display for TriggerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("there is no such entry in the library"),
            Self::NotRemote => {
                f.write_str("it cannot be triggered over HTTP; set `remote: true` in its trigger")
            }
            Self::Secret => f.write_str("its secret is missing or wrong"),
            Self::NeedsParameters => f.write_str("a parameter without a default has no value"),
            Self::Revised(revision) => write!(f, "it is at revision {} now", revision.0),
            Self::MaxInstances(limit) => {
                write!(f, "max_instances is reached ({limit} are in flight)")
            }
            Self::QueueFull(limit) => {
                write!(f, "{limit} wait for their turn already; try again later")
            }
            Self::LaunchRate(wait) => write!(
                f,
                "its launch_rate is used up; the next launch is allowed in {} s",
                wait.0.div_ceil(1_000)
            ),
            Self::Plan(reason) => f.write_str(reason),
            Self::KeyUsed(created) => SubmitError::KeyUsed(*created).fmt(f),
            Self::NeedsStore => SubmitError::NeedsStore.fmt(f),
        }
    }
}

impl std::error::Error for TriggerError {}

pub(super) fn define(
    cx: &mut Cx<'_>,
    table: &mut Timetable,
    command: DefineCommand,
) -> Result<DefineReply, LibraryError> {
    let library = cx.ledger.library();
    let before = library.find(&command.name);
    let live = before.filter(|task| task.is_defined());
    command.expected.check(live)?;
    if let Some(file) = live.and_then(Task::file)
        && !command.by_file
    {
        return Err(LibraryError::FromFile(file.to_owned()));
    }
    if let Some(task) = live
        && task.matches(&command.definition)
    {
        return Ok(DefineReply {
            revision: task.revision,
            change: Change::Unchanged,
        });
    }
    check(cx, &command)?;
    let revision = before.map_or(Revision(1), |task| task.revision.next());
    let change = match live {
        Some(_) => Change::Replaced,
        None => Change::Created,
    };
    let number = before.map(|task| task.number);
    let Some(number) = number.or_else(|| library.next_number()) else {
        return Err(LibraryError::Full);
    };
    if !command.dry {
        table.due(cx);
        let from = timetable::accounted_from(
            cx.ledger.library().task(number),
            &command.definition,
            cx.now,
        );
        if from == cx.now.wall && !seeded!(cx.config.bugs, ReplacedForgotten) {
            table.close(cx, number, SkipReason::Replaced);
        }
        cx.commit(Fact::TaskDefined {
            task: number,
            name: command.name,
            revision,
            from,
            definition: command.definition,
        });
        update_timetable(cx, table, number)?;
        gate::reset(cx, number);
    }
    Ok(DefineReply { revision, change })
}

fn check(cx: &Cx<'_>, command: &DefineCommand) -> Result<(), LibraryError> {
    let definition = &command.definition;
    let trigger = &definition.trigger;
    timetable::check(definition).map_err(|error| {
        LibraryError::Schedule(format!(
            "trigger.schedule: {}; {}",
            error.message, error.hint
        ))
    })?;
    let by_itself = trigger.schedule.is_some() || !trigger.after.is_empty();
    if by_itself && !definition.is_bound() {
        return Err(LibraryError::NeedsDefaults);
    }
    if let Some(plan) = &definition.plan {
        launch::check_plan(cx, plan).map_err(|error| match error {
            PlanError::NeedsStore => LibraryError::NeedsStore,
            PlanError::Invalid(reason) => LibraryError::Plan(reason),
        })?;
    }
    let strict = |spec: &Arc<InstanceSpec>| launch::lacks_store(cx, spec);
    if definition.spec.as_ref().is_some_and(strict) {
        return Err(LibraryError::NeedsStore);
    }
    if trigger.after.len() > AFTER_MAX {
        return Err(LibraryError::TooManyAfter);
    }
    match cycle(cx.ledger.library(), &command.name, &trigger.after) {
        Some(path) => Err(LibraryError::Cycle(path)),
        None => Ok(()),
    }
}

/// The cycle that `after` would form, if any.
fn cycle(library: &Library, name: &TaskName, after: &[TaskName]) -> Option<Vec<TaskName>> {
    let mut seen = BTreeSet::new();
    let mut paths: Vec<Vec<TaskName>> = after
        .iter()
        .map(|before| vec![name.clone(), before.clone()])
        .collect();
    while let Some(path) = paths.pop() {
        let last = path.last()?;
        if last == name {
            return Some(path);
        }
        if !seen.insert(last.clone()) {
            continue;
        }
        let trigger = library.find(last).and_then(Task::trigger);
        for before in trigger.map(|it| &*it.after).unwrap_or_default() {
            let mut path = path.clone();
            path.push(before.clone());
            paths.push(path);
        }
    }
    None
}

/// Updates a task in the timetable.
fn update_timetable(
    cx: &Cx<'_>,
    table: &mut Timetable,
    number: TaskNo,
) -> Result<(), LibraryError> {
    match cx.ledger.library().task(number) {
        Some(task) => table
            .insert(task)
            .map_err(|error| LibraryError::Schedule(error.message)),
        None => Ok(()),
    }
}

/// A command to remove a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoveCommand {
    pub name: TaskName,
    pub expected: Precondition,
    /// See [`DefineCommand::by_file`].
    pub by_file: bool,
}

pub(super) fn remove(
    cx: &mut Cx<'_>,
    table: &mut Timetable,
    command: &RemoveCommand,
) -> Result<Revision, LibraryError> {
    let task = cx.ledger.library().find(&command.name);
    let task = task.filter(|task| task.is_defined());
    command.expected.check(task)?;
    let task = task.ok_or(LibraryError::Unknown)?;
    let (number, revision) = (task.number, task.revision);
    if let Some(file) = task.file()
        && !command.by_file
    {
        return Err(LibraryError::FromFile(file.to_owned()));
    }
    table.due(cx);
    table.close(cx, number, SkipReason::Replaced);
    cx.commit(Fact::TaskRemoved {
        task: number,
        revision,
    });
    update_timetable(cx, table, number)?;
    gate::reset(cx, number);
    Ok(revision)
}

/// A command to pause an entry, or to end its pause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PauseCommand {
    pub name: TaskName,
    pub paused: bool,
    /// The operator's reason to pause it.
    pub reason: Option<String>,
}

/// Pauses an entry, or ends its pause; returns its pause. Due times up to now are recorded first,
/// so that each is decided by the state that the entry had at that time.
pub(super) fn pause(
    cx: &mut Cx<'_>,
    table: &mut Timetable,
    command: PauseCommand,
) -> Result<Option<Pause>, LibraryError> {
    let task = cx.ledger.library().find(&command.name);
    let task = task.filter(|task| task.is_defined());
    let task = task.ok_or(LibraryError::Unknown)?;
    let (number, before) = (task.number, task.pause.clone());
    let reason = command.reason;
    match before {
        Some(pause) if command.paused && (reason.is_none() || pause.reason == reason) => {
            return Ok(Some(pause));
        }
        None if !command.paused => return Ok(None),
        _ => {}
    }
    if command.paused {
        table.due(cx);
        cx.commit(Fact::TaskPaused {
            task: number,
            at: cx.now.wall,
            reason,
        });
    } else {
        if !seeded!(cx.config.bugs, UnpauseCatchesUp) {
            table.close(cx, number, SkipReason::Paused);
        }
        cx.commit(Fact::TaskUnpaused { task: number });
    }
    let task = cx.ledger.library().task(number);
    Ok(task.and_then(|task| task.pause.clone()))
}

pub(super) fn trigger(
    cx: &mut Cx<'_>,
    table: &mut Timetable,
    command: TriggerCommand,
) -> Result<TriggerReply, TriggerError> {
    let unauthenticated = command.trust == Trust::Unauthenticated;
    let answer = try_trigger(cx, table, command);
    // Unauthenticated callers must not learn which tasks exist.
    answer.map_err(|error| match error {
        TriggerError::Unknown | TriggerError::NotRemote if unauthenticated => TriggerError::Secret,
        error => error,
    })
}

fn try_trigger(
    cx: &mut Cx<'_>,
    table: &mut Timetable,
    command: TriggerCommand,
) -> Result<TriggerReply, TriggerError> {
    let library = cx.ledger.library();
    let task = library.find(&command.name).cloned();
    let task = task.filter(Task::is_defined).ok_or(TriggerError::Unknown)?;
    let (number, revision) = (task.number, task.revision);
    let trigger = task.trigger().ok_or(TriggerError::Unknown)?;
    if command.by == TriggerSource::Remote {
        if !trigger.remote {
            return Err(TriggerError::NotRemote);
        }
        let secret = trigger.secret_sha256.as_ref();
        let matches = secret == command.secret_sha256.as_ref();
        let authorized = match command.trust {
            Trust::Authenticated => true,
            Trust::Open => secret.is_none() || matches,
            Trust::Unauthenticated => secret.is_some() && matches,
        };
        if !authorized {
            return Err(TriggerError::Secret);
        }
    }
    let keys = cx.ledger.keys();
    let earlier = keys.earlier(Some(number), command.key.as_ref());
    if let Some(created) = earlier.map_err(TriggerError::KeyUsed)? {
        let execution = match created {
            Created::Instances { first, .. } => Execution::Instance(first),
            Created::Run(run) => Execution::Run(run),
        };
        return Ok(TriggerReply {
            execution,
            repeated: true,
        });
    }
    let payload = match command.bound {
        Some((bound, _)) if bound != revision => return Err(TriggerError::Revised(revision)),
        Some((_, payload)) => payload,
        None => {
            let payload = task.payload(cx.now.wall);
            payload.ok_or(TriggerError::NeedsParameters)?
        }
    };
    // A definition with unbound parameters could not be checked.
    check_payload(cx, &payload)?;
    let launch = Launch {
        cause: Cause::Request {
            source: command.by,
            key: command.key,
        },
        due: None,
        payload: Some(payload),
        trace: command.trace,
    };
    let launched = launch::try_launch(cx, table, &task, launch, TickVerdict::Launch);
    let execution = launched.map_err(|reason| match reason {
        SkipReason::MaxInstances { limit } => TriggerError::MaxInstances(limit),
        SkipReason::QueueFull { limit } => TriggerError::QueueFull(limit),
        _ => TriggerError::LaunchRate(table.wait_for_launch(number, cx.now.mono)),
    })?;
    Ok(TriggerReply {
        execution,
        repeated: false,
    })
}

fn check_payload(cx: &Cx<'_>, payload: &Payload) -> Result<(), TriggerError> {
    match payload {
        Payload::Spec(spec) if launch::lacks_store(cx, spec) => Err(TriggerError::NeedsStore),
        Payload::Spec(_) => Ok(()),
        Payload::Plan(plan) => launch::check_plan(cx, plan).map_err(|error| match error {
            PlanError::NeedsStore => TriggerError::NeedsStore,
            PlanError::Invalid(reason) => TriggerError::Plan(reason),
        }),
    }
}
