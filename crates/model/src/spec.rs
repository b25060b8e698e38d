//! What an instance asks for: the part of a task that the scheduler and the worker
//! protocol decide on, and the work itself, which only the worker looks into.

use std::collections::BTreeMap;

use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};

use crate::ids::{InstanceId, Revision, TaskNo};
use crate::placement::{Constraint, ResourceRequest};
use crate::task::TaskSpec;
use crate::time::{Millis, Wall};
use crate::workflow::Part;

/// How sure Baton must be that an attempt is over before it starts another.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Exclusive {
    /// When its lease has run out on its own host, where a dead-man timer kills it.
    #[default]
    Timed,
    /// Only by proof: the worker says so, its host has rebooted, or an operator
    /// has forgotten the worker. Never by time alone.
    Strict,
}

/// How often an instance may be tried again, by kind of bad end.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct RetryBudget {
    /// Failures of the work itself that are forgiven.
    pub failures_max: u32,
    /// Losses (of the worker, not of the work's making) that are forgiven.
    pub losses_max: u32,
    /// How long a failed instance rests before it may start again. Losses do not rest:
    /// nothing says that the next worker is bad, too.
    pub backoff: RetryBackoff,
    /// What grows when it was too little.
    pub scale: Scale,
    /// Where it may run after its first failure, its second, and so on, in place of where the
    /// task may; the last one stays. Losses do not count: they say nothing about the place.
    pub fallback: Vec<Vec<Constraint>>,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self {
            failures_max: 0,
            losses_max: 100,
            backoff: RetryBackoff::default(),
            scale: Scale::default(),
            fallback: Vec::new(),
        }
    }
}

/// A rest that doubles with each failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct RetryBackoff {
    /// After the first.
    pub first: Millis,
    /// Never longer than this.
    pub max: Millis,
}

/// How an allowance grows after an attempt that it was too small for: by a factor, in percent
/// of what it was (100 leaves it as it is), or in steps that are written down.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Scale {
    /// Memory, after an attempt that ran out of it.
    pub memory_percent: u32,
    /// The timeout, after an attempt that ran into it.
    pub timeout_percent: u32,
    /// Bytes beyond which the factor takes no memory.
    pub memory_cap: Option<u64>,
    /// How long the factor makes no timeout.
    pub timeout_cap: Option<Millis>,
    /// Bytes after running out of memory once, twice, and so on; the last one stays. Where there
    /// are any, there is no factor.
    pub memory_steps: Vec<u64>,
    /// The same for the timeout.
    pub timeout_steps: Vec<Millis>,
}

impl Default for Scale {
    fn default() -> Self {
        Self {
            memory_percent: 100,
            timeout_percent: 100,
            memory_cap: None,
            timeout_cap: None,
            memory_steps: Vec::new(),
            timeout_steps: Vec::new(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// One command, without a shell.
    Command(Vec<String>),
    /// A task of processes.
    Task(Box<TaskSpec>),
}

impl Default for Work {
    fn default() -> Self {
        Self::Command(Vec::new())
    }
}

/// A file that is fetched into the sandbox before the work starts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Uri {
    /// From where: `file:///…`, `http://…`.
    pub from: String,
    /// Its name in the sandbox.
    pub name: String,
    /// Its SHA-256, in hexadecimal, if it must be this and no other.
    pub sha256: Option<String>,
    /// Whether it shall be executable.
    pub executable: bool,
}

/// Which part of an array an instance is: its index is `from` plus its distance from
/// `first`, so that a million instances share one spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Array {
    /// The instance of the first index.
    pub first: InstanceId,
    /// The first index.
    pub from: u64,
}

impl Array {
    /// The index of an instance of the array.
    #[must_use]
    pub const fn index(self, instance: InstanceId) -> u64 {
        self.from
            .saturating_add(instance.0.saturating_sub(self.first.0))
    }
}

/// What to run for one instance, and under which policies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct InstanceSpec {
    pub name: String,
    pub owner: String,
    pub work: Work,
    /// Added to the environment of its processes.
    pub env: BTreeMap<String, String>,
    /// The user it runs as, if not the worker's own.
    pub user: Option<String>,
    /// Fetched before it starts.
    pub uris: Vec<Uri>,
    /// What it needs, and where it may run.
    #[serde(rename = "ask")]
    pub request: ResourceRequest,
    /// Higher goes first.
    pub priority: i32,
    /// When another attempt may start.
    pub exclusive: Exclusive,
    pub retry: RetryBudget,
    /// How long one attempt may run.
    pub timeout: Option<Millis>,
    /// Which array it is part of.
    pub array: Option<Array>,
    /// Which task of the library it is an instance of.
    pub origin: Option<Origin>,
    /// Which part of a run it is.
    pub part: Option<Part>,
}

/// What an instance comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Origin {
    /// The task of the library.
    pub task: TaskNo,
    /// Under which revision.
    pub revision: Revision,
    /// When it was due, if a schedule has launched it.
    pub due: Option<Due>,
}

/// A due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Due {
    /// The time that the schedule names.
    pub nominal: Wall,
    /// Until when it was allowed to be launched.
    pub latest: Wall,
}

/// An instance spec, serialized without the fields that have their default value: most of them,
/// for most specs. It is read like any other spec.
///
/// So the defaults are part of every format that this is written to, and change only with it.
#[derive(Clone, Copy, Debug)]
pub struct SparseSpec<'a>(pub &'a InstanceSpec);

impl Serialize for SparseSpec<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let InstanceSpec {
            name,
            owner,
            work,
            env,
            user,
            uris,
            request,
            priority,
            exclusive,
            retry,
            timeout,
            array,
            origin,
            part,
        } = self.0;
        let default = InstanceSpec::default();
        let mut map = serializer.serialize_map(None)?;
        macro_rules! write {
            ($($key:literal: $field:ident,)*) => {
                $(if *$field != default.$field {
                    map.serialize_entry($key, $field)?;
                })*
            };
        }
        write! {
            "name": name,
            "owner": owner,
            "work": work,
            "env": env,
            "user": user,
            "uris": uris,
            "ask": request,
            "priority": priority,
            "exclusive": exclusive,
            "retry": retry,
            "timeout": timeout,
            "array": array,
            "origin": origin,
            "part": part,
        }
        map.end()
    }
}

/// What one attempt may use and where, if that is not what its instance asked for at first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Allowance {
    /// Bytes of memory: the least to place it with.
    pub memory_min: u64,
    /// Bytes of memory at which it is stopped; 0 for no limit.
    pub memory_max: u64,
    /// How long it may run.
    pub timeout: Option<Millis>,
    /// How many of [`Scale::memory_steps`] were taken.
    pub memory_step: u32,
    /// How many of [`Scale::timeout_steps`] were taken.
    pub timeout_step: u32,
    /// Where it may run, if not where its instance asked for.
    pub constraints: Option<Vec<Constraint>>,
}

impl InstanceSpec {
    /// What the first attempt may use.
    #[must_use]
    pub const fn allowance(&self) -> Allowance {
        Allowance {
            memory_min: self.request.resources.memory_min,
            memory_max: self.request.resources.memory_max,
            timeout: self.timeout,
            memory_step: 0,
            timeout_step: 0,
            constraints: None,
        }
    }
}
