//! The specification of an instance: the policies that the scheduler and the protocol decide on,
//! and the work itself, which only the worker interprets.

use std::collections::BTreeMap;

use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};

use crate::conditions::Conditions;
use crate::ids::{InstanceId, Revision, TaskNo};
use crate::paths::Paths;
use crate::placement::{Constraint, ResourceRequest};
use crate::task::TaskSpec;
use crate::time::{Millis, Wall};
use crate::workflow::Part;

/// The evidence that Baton requires for the end of an attempt before it starts another.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Exclusive {
    /// When its lease has run out on its own host, where a dead-man timer kills it.
    #[default]
    Timed,
    /// Only by proof: the worker reports it, its host has rebooted, or an operator has forgotten the
    /// worker. Never by time alone, so no dead-man timer kills it either.
    Strict,
}

/// The retry policy of an instance: budgets by kind of end, backoff, growth and fallback.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct RetryBudget {
    /// Failures of the work after which it is retried.
    pub failures_max: u32,
    /// Losses of the worker after which it is retried.
    pub losses_max: u32,
    /// The backoff after a failure. A loss has none: the next worker is probably fine.
    pub backoff: RetryBackoff,
    /// Growth of memory and timeout after they were exceeded.
    pub scale: Scale,
    /// The constraints after the first failure, the second, and so on, in place of those of the
    /// task; the last entry stays. Losses do not count: they do not indicate a wrong worker.
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

/// Exponential backoff: doubles with each failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct RetryBackoff {
    /// After the first failure.
    pub first: Millis,
    /// Never longer than this.
    pub max: Millis,
}

/// Growth of an allowance after an attempt has exceeded it: by a factor, in percent of the previous
/// value (100 leaves it unchanged), or in explicit steps.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Scale {
    /// Memory, after an attempt that ran out of memory.
    pub memory_percent: u32,
    /// The timeout, after an attempt that timed out.
    pub timeout_percent: u32,
    /// The largest memory in bytes that the factor leads to.
    pub memory_cap: Option<u64>,
    /// The longest timeout that the factor leads to.
    pub timeout_cap: Option<Millis>,
    /// Bytes after running out of memory once, twice, and so on; the last entry stays. If there are
    /// any, the factor is not used.
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

/// The work of an instance.
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
    /// The source: `file:///…`, `http://…`, `https://…`.
    pub from: String,
    /// Its name in the sandbox; the name of a directory, if it is an archive that is unpacked.
    pub name: String,
    /// The expected SHA-256, in hexadecimal.
    pub sha256: Option<String>,
    pub executable: bool,
    /// Whether it is unpacked or decompressed.
    #[serde(default)]
    pub unpack: bool,
    /// Bytes that it may have, and that may be unpacked from it.
    #[serde(default, rename = "max_size")]
    pub size_max: Option<u64>,
}

impl Uri {
    /// Bytes that it may have, unless its task says otherwise.
    pub const SIZE_MAX_DEFAULT: u64 = 1 << 30;

    /// Bytes that it may have, and that may be unpacked from it.
    #[must_use]
    pub fn size_max(&self) -> u64 {
        self.size_max.unwrap_or(Self::SIZE_MAX_DEFAULT)
    }
}

/// The array of an instance. Its index is `from` plus its distance from `first`, so that a million
/// instances share one spec.
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

/// The work of one instance and its policies.
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
    #[serde(alias = "ask")]
    pub request: ResourceRequest,
    /// Higher goes first.
    pub priority: i32,
    pub exclusive: Exclusive,
    /// How long an attempt outlives the contact between its worker and a scheduler, if not as long
    /// as the scheduler's lease.
    pub lost_after: Option<Millis>,
    pub retry: RetryBudget,
    /// The longest run time of one attempt.
    pub timeout: Option<Millis>,
    /// The array to which it belongs.
    pub array: Option<Array>,
    /// The library task of which it is an instance.
    pub origin: Option<Origin>,
    /// The item of a run that it executes.
    pub part: Option<Part>,
    /// Its directory and the files of its output.
    pub paths: Paths,
    /// When the instances of its submission start, and when they are given up.
    pub conditions: Conditions,
    /// Words by which lists are filtered; sorted, none twice.
    pub tags: Vec<String>,
}

impl InstanceSpec {
    /// Maximum number of tags: a filter compares all of them.
    pub const TAGS_MAX: usize = 32;

    /// The index of one of its instances: in its array, or among the items of its task; otherwise 0.
    #[must_use]
    pub fn index(&self, instance: InstanceId) -> u64 {
        let in_array = self.array.map(|array| array.index(instance));
        let item = || self.part.map(|part| u64::from(part.item));
        in_array.or_else(item).unwrap_or(0)
    }
}

/// The library task, revision and due time of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Origin {
    pub task: TaskNo,
    pub revision: Revision,
    /// The due time, if a schedule launched it.
    pub due: Option<Due>,
}

/// A due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Due {
    /// The time that the schedule specifies.
    pub nominal: Wall,
    /// The latest time at which it could be launched.
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
            lost_after,
            retry,
            timeout,
            array,
            origin,
            part,
            paths,
            conditions,
            tags,
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
            "request": request,
            "priority": priority,
            "exclusive": exclusive,
            "lost_after": lost_after,
            "retry": retry,
            "timeout": timeout,
            "array": array,
            "origin": origin,
            "part": part,
            "paths": paths,
            "conditions": conditions,
            "tags": tags,
        }
        map.end()
    }
}

/// Limits and constraints of one attempt, where they differ from those of its instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Allowance {
    /// Bytes of memory that it needs to be placed.
    pub memory_min: u64,
    /// Bytes of memory at which it is stopped; 0 for no limit.
    pub memory_max: u64,
    pub timeout: Option<Millis>,
    /// The number of [`Scale::memory_steps`] taken.
    pub memory_step: u32,
    /// The number of [`Scale::timeout_steps`] taken.
    pub timeout_step: u32,
    /// Replaces the constraints of the instance.
    pub constraints: Option<Vec<Constraint>>,
}

impl InstanceSpec {
    /// The allowance of the first attempt.
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
