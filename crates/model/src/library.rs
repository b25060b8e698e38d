//! The library: tasks and workflows by owner and name, each with immutable revisions.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{BackfillId, InstanceId, Revision, RunId, TaskNo};
use crate::schedule::{CatchUp, Dst};
use crate::spec::{Due, InstanceSpec};
use crate::time::{Millis, Wall};
use crate::workflow::Plan;

pub use crate::rate::Rate;

/// Names that no owner may have: an owner is the first segment of the paths of its entries, and these
/// segments are those of other paths of the HTTP API, and `-` of pages. A test of the server compares
/// them with its routes.
pub const RESERVED_OWNERS: &[&str] = &[
    "-",
    "alarms",
    "arena",
    "backfills",
    "bullpen",
    "docs",
    "events",
    "fleets",
    "healthz",
    "history",
    "instances",
    "library",
    "limits",
    "metrics",
    "notifications",
    "openapi.json",
    "readyz",
    "runs",
    "schedulers",
    "schemas",
    "secrets",
    "shares",
    "tokens",
    "usage",
    "workers",
];

/// The name of an entry of the library: `analytics/nightly-report`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TaskName {
    pub owner: String,
    /// Unique among the tasks and workflows of its owner.
    pub name: String,
}

impl fmt::Display for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}

impl FromStr for TaskName {
    type Err = String;

    /// Reads `owner/name`.
    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/');
        let parts = parts
            .filter(|(owner, name)| !owner.is_empty() && !name.is_empty() && !name.contains('/'));
        let (owner, name) = parts.ok_or("a task is named OWNER/NAME, such as analytics/report")?;
        Ok(Self {
            owner: owner.to_owned(),
            name: name.to_owned(),
        })
    }
}

/// One revision of an entry; immutable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Definition {
    /// The file, as JSON, with its templates unresolved.
    pub source: Arc<str>,
    #[serde(default)]
    pub kind: EntryKind,
    /// Of a task: the specification of an instance with the default of every parameter; none if a
    /// parameter has no default.
    pub spec: Option<Arc<InstanceSpec>>,
    /// Of a workflow: the plan of a run with the default of every parameter; none if a parameter
    /// has no default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub plan: Option<Arc<Plan>>,
    /// Defaults that refer to the nominal time, by parameter: templates that a launch renders. If
    /// there are any, the texts of the spec are templates, too, which refer to these parameters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nominal_params: BTreeMap<String, String>,
    pub trigger: Trigger,
    /// The file of the library directory that defines it.
    pub file: Option<String>,
}

impl Definition {
    /// True if every parameter has a default, so that it can be launched without arguments.
    #[must_use]
    pub const fn is_bound(&self) -> bool {
        match self.kind {
            EntryKind::Task => self.spec.is_some(),
            EntryKind::Workflow => self.plan.is_some(),
        }
    }
}

/// The kind of an entry, which decides what a launch starts.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum EntryKind {
    /// A launch starts an instance.
    #[default]
    Task,
    /// A launch starts a run.
    Workflow,
}

impl EntryKind {
    /// The spelling in texts and in the API.
    #[must_use]
    pub const fn word(self) -> &'static str {
        self.into_str()
    }
}

impl fmt::Display for EntryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// What a launch has started: an instance of a task, or a run of a workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Execution {
    Instance(InstanceId),
    Run(RunId),
}

impl Execution {
    /// The instance, if it is one.
    #[must_use]
    pub const fn instance(self) -> Option<InstanceId> {
        match self {
            Self::Instance(instance) => Some(instance),
            Self::Run(_) => None,
        }
    }

    /// The run, if it is one.
    #[must_use]
    pub const fn run(self) -> Option<RunId> {
        match self {
            Self::Instance(_) => None,
            Self::Run(run) => Some(run),
        }
    }

    /// The one of the two that is given.
    #[must_use]
    pub fn either(instance: Option<InstanceId>, run: Option<RunId>) -> Option<Self> {
        let instance = instance.map(Self::Instance);
        instance.or_else(|| run.map(Self::Run))
    }
}

impl fmt::Display for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instance(instance) => instance.fmt(f),
            Self::Run(run) => run.fmt(f),
        }
    }
}

/// The cause of a launch of a library entry. Another kind of trigger is another variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// A due time of its schedule, or many that were skipped for the same reason.
    Due {
        /// The nominal time, or the first of many.
        first: Wall,
        /// The nominal time, or the last of many. All due times up to it are accounted for.
        last: Wall,
        /// The number of due times.
        count: u64,
    },
    /// The success of an upstream entry.
    Upstream {
        /// The instance or the run that is DONE.
        execution: Execution,
        at: Wall,
    },
    /// The request of a client.
    Request {
        source: TriggerSource,
        /// The idempotency key of the request.
        key: Option<IdempotencyKey>,
    },
    /// A backfill, which has passed all due times before this one in its direction.
    Backfill {
        backfill: BackfillId,
        /// The due time.
        nominal: Wall,
    },
}

impl From<Execution> for Created {
    fn from(execution: Execution) -> Self {
        match execution {
            Execution::Instance(instance) => Self::Instances {
                first: instance,
                last: instance,
            },
            Execution::Run(run) => Self::Run(run),
        }
    }
}

/// The library workflow of a run, its revision, and the cause of the launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RunOrigin {
    pub task: TaskNo,
    pub revision: Revision,
    /// The due time, if a schedule launched it.
    pub due: Option<Due>,
    /// The upstream instance or run, if `after` launched it.
    pub after: Option<Execution>,
}

/// A pause of an entry: neither its schedule nor an upstream entry launches it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pause {
    pub since: Wall,
    /// The operator's reason.
    pub reason: Option<String>,
}

/// The automatic and remote triggers of an entry, and their limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Trigger {
    pub schedule: Option<Schedule>,
    /// Instances or runs that may be in flight at once, QUEUED ones included.
    pub max_instances: Option<u32>,
    /// What a launch beyond `max_instances` does.
    pub overlap: Overlap,
    /// The rate limit of launches.
    pub launch_rate: Option<Rate>,
    /// It may be triggered over HTTP.
    pub remote: bool,
    /// SHA-256 of the secret that a remote trigger must present, in hexadecimal.
    pub secret_sha256: Option<String>,
    /// Upstream entries: it is launched whenever an instance or a run of one of them is DONE.
    pub after: Vec<TaskName>,
}

/// What a launch does when `max_instances` are in flight.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Overlap {
    /// It is skipped, with a record; a request is refused.
    #[default]
    Skip,
    /// It waits until one of them has ended, in order.
    Queue,
    /// It stops the oldest of them, and waits until that has ended.
    Replace,
}

/// The schedule of an entry, and its policies for missed due times.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Schedule {
    /// In English or as a cron pattern.
    pub text: String,
    /// The IANA time zone.
    pub zone: String,
    pub dst: Dst,
    /// How late a due time may still be launched.
    pub slack: Millis,
    pub catch_up: CatchUp,
    /// Each launch is delayed by a part of this.
    pub jitter: Millis,
}

/// The origin of a trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TriggerSource {
    /// An authenticated client (`baton run`).
    #[serde(rename = "hand")]
    Manual,
    /// The entry's trigger URL.
    Remote,
}

/// The idempotency key of a request and a digest of the request, so that it is carried out once
/// however often it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IdempotencyKey {
    /// The first half of the SHA-256 of the client's text.
    #[serde(with = "crate::large::pair")]
    #[cfg_attr(feature = "openapi", schema(value_type = (String, String)))]
    pub key: (u64, u64),
    /// A part of the SHA-256 of the request.
    #[serde(with = "crate::large")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub request: u64,
}

/// What a request with an idempotency key has created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Created {
    Instances { first: InstanceId, last: InstanceId },
    Run(RunId),
}

impl fmt::Display for Created {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instances { first, last } if first == last => first.fmt(f),
            Self::Instances { first, last } => write!(f, "{first} to {last}"),
            Self::Run(run) => run.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_named_by_two_words() {
        let name: TaskName = "a/b".parse().expect("a name");
        assert_eq!(name.to_string(), "a/b");
        for bad in ["", "a", "/", "a/", "/b", "a/b/c"] {
            assert!(bad.parse::<TaskName>().is_err(), "{bad}");
        }
    }
}
