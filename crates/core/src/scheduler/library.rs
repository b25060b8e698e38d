//! What people want of the library: tasks defined and removed, and triggered.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use baton_model::fact::Fact;
use baton_model::ids::{InstanceId, RequestId, Revision, TaskNo};
use baton_model::library::{Definition, IdempotencyKey, TaskName, TriggerSource};
use baton_model::limits::{AFTER_MAX, TASKS_MAX};
use baton_model::schedule::{SkipReason, TickVerdict};
use baton_model::spec::{Exclusive, InstanceSpec};

use super::timetable::{self, Timetable};
use crate::bugs::Bug;
use crate::ledger::{Library, Task};
use crate::protocol::scheduler::context::{Cx, Effect, StoreMode, SubmitError};

/// What must be so for a definition to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precondition {
    Anything,
    /// The library has no such task.
    Absent,
    /// The task has this revision.
    Revision(Revision),
}

/// A task to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefineCommand {
    pub name: TaskName,
    pub definition: Arc<Definition>,
    pub expected: Precondition,
    /// Whoever keeps the directory of the library says it, and not somebody else.
    pub by_file: bool,
    /// Only say what would come of it.
    pub dry: bool,
}

/// What came of a definition, or would.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DefineReply {
    /// The revision that the task has now.
    pub revision: Revision,
    pub change: Change,
}

/// What a definition did to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// It is new.
    Created,
    /// It has another revision.
    Replaced,
    /// It was that already.
    Unchanged,
}

/// Why the library was not changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LibraryError {
    /// There is no such task.
    Unknown,
    /// There is one already.
    Exists(Revision),
    /// It has another revision than was expected.
    Revised(Revision),
    /// It comes from this file, and is changed there.
    FromFile(String),
    /// It would come after itself, by way of these.
    Cycle(Vec<TaskName>),
    /// It comes after too many.
    TooManyAfter,
    /// Its schedule cannot be read.
    Schedule(String),
    /// Something starts it by itself, but a parameter has no default.
    NeedsDefaults,
    /// Without a store nothing but time separates two executions.
    StrictNeedsStore,
    /// There are too many tasks.
    Full,
}

impl fmt::Display for LibraryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("there is no such task in the library"),
            Self::Exists(revision) => write!(f, "the task is there already, as revision {}", revision.0),
            Self::Revised(revision) => write!(f, "the task is at revision {} now", revision.0),
            Self::FromFile(file) => write!(f, "the task comes from {file} in the directory of the library; change it there"),
            Self::Cycle(path) => {
                f.write_str("the task would come after itself: ")?;
                for (at, name) in path.iter().enumerate() {
                    write!(f, "{}{name}", if at == 0 { "" } else { " after " })?;
                }
                Ok(())
            }
            Self::TooManyAfter => write!(f, "a task comes after at most {AFTER_MAX} others"),
            Self::Schedule(message) => f.write_str(message),
            Self::NeedsDefaults => f.write_str(
                "a task that starts by itself needs a default for every parameter; give them in `params`",
            ),
            Self::StrictNeedsStore => SubmitError::StrictNeedsStore.fmt(f),
            Self::Full => write!(f, "a library has at most {TASKS_MAX} tasks"),
        }
    }
}

impl std::error::Error for LibraryError {}

/// A wish to launch a task of the library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerCommand {
    pub name: TaskName,
    /// What an instance asks for, where parameters were given, and of which revision.
    pub bound: Option<(Revision, Box<InstanceSpec>)>,
    pub by: TriggerSource,
    /// How well that is known.
    pub trust: Trust,
    /// The SHA-256, in hexadecimal, of the secret that was shown.
    pub secret_sha256: Option<String>,
    /// What the request is called.
    pub key: Option<IdempotencyKey>,
}

/// How well somebody is known who wants a task launched over its trigger URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trust {
    /// By a credential: no secret is asked for.
    Known,
    /// Whoever reaches the server may use it: a secret is asked for where the task has one.
    Open,
    /// Not at all: only the secret of the task opens it, and one without opens to nobody.
    Stranger,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TriggerReply {
    /// The instance.
    pub instance: InstanceId,
    /// An earlier request of the same key has launched it.
    pub repeated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TriggerError {
    /// There is no such task.
    Unknown,
    /// It is not to be triggered over HTTP.
    NotRemote,
    /// Its secret was not shown.
    Secret,
    /// A parameter has no default, and was not given.
    NeedsParameters,
    /// The parameters were bound to a revision that it no longer has.
    Revised(Revision),
    /// So many are on their way.
    MaxInstances(u32),
    /// Its launch rate is used up.
    LaunchRate,
    /// The key belongs to another request.
    KeyUsed(InstanceId),
    /// Without a store nothing but time separates two executions.
    StrictNeedsStore,
}

impl fmt::Display for TriggerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("there is no such task in the library"),
            Self::NotRemote => f.write_str(
                "the task is not to be triggered over HTTP; say `remote: true` in its trigger",
            ),
            Self::Secret => f.write_str("the task wants its secret to be shown"),
            Self::NeedsParameters => f.write_str("a parameter without a default was not given"),
            Self::Revised(revision) => write!(f, "the task is at revision {} now", revision.0),
            Self::MaxInstances(limit) => write!(
                f,
                "{limit} instances of the task are on their way, which is its max_instances"
            ),
            Self::LaunchRate => f.write_str("the launch_rate of the task is used up for now"),
            Self::KeyUsed(instance) => write!(
                f,
                "the Idempotency-Key was used for another request, which launched {instance}"
            ),
            Self::StrictNeedsStore => SubmitError::StrictNeedsStore.fmt(f),
        }
    }
}

impl std::error::Error for TriggerError {}

pub(super) fn define(
    cx: &mut Cx<'_>,
    table: &mut Timetable,
    request: RequestId,
    command: DefineCommand,
) {
    let answer = try_define(cx, table, command);
    cx.step.emit(Effect::Defined(request, answer));
}

fn try_define(
    cx: &mut Cx<'_>,
    table: &mut Timetable,
    command: DefineCommand,
) -> Result<DefineReply, LibraryError> {
    let library = cx.ledger.library();
    let before = library.find(&command.name);
    let live = before.filter(|task| task.is_defined());
    match (command.expected, live) {
        (Precondition::Absent, Some(task)) => return Err(LibraryError::Exists(task.revision)),
        (Precondition::Revision(_), None) => return Err(LibraryError::Unknown),
        (Precondition::Revision(revision), Some(task)) if task.revision != revision => {
            return Err(LibraryError::Revised(task.revision));
        }
        _ => {}
    }
    if let Some(file) = live.and_then(Task::file)
        && !command.by_file
    {
        return Err(LibraryError::FromFile(file.to_owned()));
    }
    if let Some(task) = live
        && task.says(&command.definition)
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
        let from = timetable::begins(
            cx.ledger.library().task(number),
            &command.definition,
            cx.now,
        );
        if from == cx.now.wall && !cx.config.bugs.has(Bug::ReplacedForgotten) {
            table.close(cx, number);
        }
        cx.commit(Fact::TaskDefined {
            task: number,
            name: command.name,
            revision,
            from,
            definition: command.definition,
        });
        enter(cx, table, number)?;
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
    if by_itself && definition.spec.is_none() {
        return Err(LibraryError::NeedsDefaults);
    }
    let strict = |spec: &Arc<InstanceSpec>| spec.exclusive == Exclusive::Strict;
    if cx.config.store == StoreMode::Memory && definition.spec.as_ref().is_some_and(strict) {
        return Err(LibraryError::StrictNeedsStore);
    }
    if trigger.after.len() > AFTER_MAX {
        return Err(LibraryError::TooManyAfter);
    }
    match cycle(cx.ledger.library(), &command.name, &trigger.after) {
        Some(path) => Err(LibraryError::Cycle(path)),
        None => Ok(()),
    }
}

/// How a task would come after itself, if it would.
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

/// Lets the timetable know of a task as it is now.
fn enter(cx: &Cx<'_>, table: &mut Timetable, number: TaskNo) -> Result<(), LibraryError> {
    match cx.ledger.library().task(number) {
        Some(task) => table
            .enter(task)
            .map_err(|error| LibraryError::Schedule(error.message)),
        None => Ok(()),
    }
}

/// A task to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoveCommand {
    pub name: TaskName,
    /// The revision that it must have, if it matters.
    pub expected: Option<Revision>,
    /// See [`DefineCommand::by_file`].
    pub by_file: bool,
}

pub(super) fn remove(
    cx: &mut Cx<'_>,
    table: &mut Timetable,
    request: RequestId,
    command: &RemoveCommand,
) {
    let answer = try_remove(cx, table, command);
    cx.step.emit(Effect::Removed(request, answer));
}

fn try_remove(
    cx: &mut Cx<'_>,
    table: &mut Timetable,
    command: &RemoveCommand,
) -> Result<Revision, LibraryError> {
    let task = cx.ledger.library().find(&command.name);
    let task = task.filter(|task| task.is_defined());
    let task = task.ok_or(LibraryError::Unknown)?;
    let (number, revision) = (task.number, task.revision);
    if command
        .expected
        .is_some_and(|expected| expected != revision)
    {
        return Err(LibraryError::Revised(revision));
    }
    if let Some(file) = task.file()
        && !command.by_file
    {
        return Err(LibraryError::FromFile(file.to_owned()));
    }
    table.due(cx);
    table.close(cx, number);
    cx.commit(Fact::TaskRemoved {
        task: number,
        revision,
    });
    enter(cx, table, number)?;
    Ok(revision)
}

pub(super) fn trigger(
    cx: &mut Cx<'_>,
    table: &mut Timetable,
    request: RequestId,
    command: TriggerCommand,
) {
    let stranger = command.trust == Trust::Stranger;
    let answer = try_trigger(cx, table, command);
    // Nor are strangers told which tasks there are.
    let answer = answer.map_err(|error| match error {
        TriggerError::Unknown | TriggerError::NotRemote if stranger => TriggerError::Secret,
        error => error,
    });
    cx.step.emit(Effect::Triggered(request, answer));
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
        let shown = secret == command.secret_sha256.as_ref();
        let opens = match command.trust {
            Trust::Known => true,
            Trust::Open => secret.is_none() || shown,
            Trust::Stranger => secret.is_some() && shown,
        };
        if !opens {
            return Err(TriggerError::Secret);
        }
    }
    if let Some(key) = &command.key
        && let Some(before) = library.triggered(number, key)
    {
        return match before.request == key.request {
            true => Ok(TriggerReply {
                instance: before.instance,
                repeated: true,
            }),
            false => Err(TriggerError::KeyUsed(before.instance)),
        };
    }
    let mut spec = match command.bound {
        Some((bound, _)) if bound != revision => return Err(TriggerError::Revised(revision)),
        Some((_, spec)) => *spec,
        None => task.spec().ok_or(TriggerError::NeedsParameters)?,
    };
    // A definition whose parameters were open could not be asked.
    if cx.config.store == StoreMode::Memory && spec.exclusive == Exclusive::Strict {
        return Err(TriggerError::StrictNeedsStore);
    }
    match table.admit(cx, number, trigger, TickVerdict::Launch) {
        TickVerdict::Skip(SkipReason::MaxInstances { limit }) => {
            return Err(TriggerError::MaxInstances(limit));
        }
        TickVerdict::Skip(_) => return Err(TriggerError::LaunchRate),
        TickVerdict::Launch | TickVerdict::Late { .. } => {}
    }
    spec.origin = Some(timetable::origin_of(number, revision));
    let instance = timetable::unused_id(cx);
    timetable::submit(cx, instance, spec);
    cx.commit(Fact::InstanceTriggered {
        instance,
        task: number,
        source: command.by,
        key: command.key,
    });
    Ok(TriggerReply {
        instance,
        repeated: false,
    })
}
