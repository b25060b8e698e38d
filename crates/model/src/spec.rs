//! The specification of an instance: the policies that the scheduler and the protocol decide on,
//! and the work itself, which only the worker interprets.

use std::collections::BTreeMap;

use serde::ser::SerializeMap as _;
use serde::{Deserialize, Serialize, Serializer};

use crate::alarm::Expectations;
use crate::conditions::Conditions;
use crate::device::DeviceAmount;
use crate::ids::{InstanceId, Revision, TaskNo};
use crate::notify::NotifyRule;
use crate::paths::Paths;
use crate::placement::{Constraint, ResourceRequest};
use crate::secret::SecretUse;
use crate::task::{Resources, TaskSpec};
use crate::time::{Millis, Wall};
use crate::trace::TraceContext;
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
    /// Growth of further requests.
    pub requests: Vec<RequestScale>,
}

/// A request that grows between attempts, beside memory and timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ScaledRequest {
    /// In thousandths of a core.
    Cpu,
    /// In bytes.
    Disk,
    /// In thousandths of a device.
    Gpu,
    /// The time that its worker must have left, in milliseconds.
    Time,
}

/// Growth of a request after an attempt has run out of memory or time; that of the time, after an attempt
/// has timed out, or was ended with its worker.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RequestScale {
    pub request: ScaledRequest,
    /// The amount of the first attempt.
    pub first: u64,
    /// The factor, in percent of the previous amount.
    pub percent: u32,
    /// The largest amount that the factor leads to.
    pub cap: Option<u64>,
    /// The amounts after running out once, twice, and so on; the last entry stays. If there are any,
    /// the factor is not used.
    pub steps: Vec<u64>,
}

/// A request that has grown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GrownRequest {
    pub request: ScaledRequest,
    pub amount: u64,
    /// The number of [`RequestScale::steps`] taken.
    pub step: u32,
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
            requests: Vec::new(),
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
    /// How long one attempt runs, as far as placement is concerned; if none, as long as its timeout.
    pub time_request: Option<Millis>,
    /// The signal before its end is forced.
    pub warn: Option<Warning>,
    /// Workers that one attempt takes, each with the whole request.
    pub nodes: Nodes,
    /// Who is told of its end.
    pub notify: Option<NotifyRule>,
    /// When it is late, and how long it runs.
    pub expected: Expectations,
    /// Secrets of its owner that it is given.
    pub secrets: Vec<SecretUse>,
    /// The span of its submitter that its own are children of.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub trace: Option<TraceContext>,
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

    /// The time that a worker must have left to be given an attempt with this timeout: what it
    /// requests, or else its timeout; and never less than it wants to be warned before its end. None
    /// if it may be placed on any.
    #[must_use]
    pub fn time_needed(&self, timeout: Option<Millis>, grown: &[GrownRequest]) -> Option<Millis> {
        let before = self.warn.map(|warn| warn.before);
        let grown = grown.iter().find(|it| it.request == ScaledRequest::Time);
        let requested = grown.map(|it| Millis(it.amount)).or(self.time_request);
        requested.or(timeout).max(before)
    }
}

/// The number of workers that an attempt takes at the same time. An attempt of several is a gang: its
/// command runs on the first of its members, and the others are held for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = u32))]
#[serde(transparent)]
pub struct Nodes(u32);

impl Nodes {
    /// The most that a task may ask for: their names and hosts are part of one fact and one message.
    pub const MAX: u32 = 1_000;

    #[must_use]
    pub const fn new(count: u32) -> Self {
        Self(count)
    }

    /// The number, at least 1.
    #[must_use]
    pub const fn get(self) -> u32 {
        if self.0 == 0 { 1 } else { self.0 }
    }

    /// True if there are several.
    #[must_use]
    pub const fn is_gang(self) -> bool {
        self.0 > 1
    }
}

impl Default for Nodes {
    fn default() -> Self {
        Self(1)
    }
}

/// The variable with the number of members of a gang.
pub const NODES_VARIABLE: &str = "BATON_NODES";

/// The variable with the hosts of the members of a gang, separated by commas, the first member's first. The
/// scheduler sets it in the spec that it sends with a launch; agents write the host files from it.
pub const NODE_LIST_VARIABLE: &str = "BATON_NODE_LIST";

/// A signal to the processes of an attempt, so that they can save what they have: some time before
/// the end of the worker or the timeout, and when the worker begins to drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Warning {
    /// The number of the signal.
    pub signal: i32,
    pub before: Millis,
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
            time_request,
            warn,
            nodes,
            notify,
            expected,
            secrets,
            trace,
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
            "time_request": time_request,
            "warn": warn,
            "nodes": nodes,
            "notify": notify,
            "expected": expected,
            "secrets": secrets,
            "trace": trace,
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
    /// The requests that have grown, each once.
    pub requests: Vec<GrownRequest>,
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
            requests: Vec::new(),
        }
    }

    /// The resources of an attempt whose requests have grown like this.
    #[must_use]
    pub fn resources(&self, grown: &[GrownRequest]) -> Resources {
        let mut resources = self.request.resources.clone();
        for grown in grown {
            match grown.request {
                ScaledRequest::Cpu => resources.cpu_milli = grown.amount,
                ScaledRequest::Disk => resources.disk = grown.amount,
                ScaledRequest::Gpu => resources.gpu = DeviceAmount::from_milli(grown.amount),
                ScaledRequest::Time => {}
            }
        }
        resources
    }
}
