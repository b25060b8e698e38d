//! The library: tasks by owner and name, each with immutable revisions.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{InstanceId, RunId};
use crate::schedule::{CatchUp, Dst};
use crate::spec::InstanceSpec;
use crate::time::Millis;

/// The name of a task of the library: `analytics/nightly-report`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TaskName {
    pub owner: String,
    /// Unique among the tasks of its owner.
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

/// One revision of a task; immutable.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Definition {
    /// The task file, as JSON, with its templates unresolved.
    pub source: Arc<str>,
    /// The specification of an instance with the default of every parameter; none if a parameter
    /// has no default.
    pub spec: Option<Arc<InstanceSpec>>,
    pub trigger: Trigger,
    /// The file of the library directory that defines it.
    pub file: Option<String>,
}

/// The automatic and remote triggers of a task, and their limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Trigger {
    pub schedule: Option<Schedule>,
    /// Instances that may be in flight at once, QUEUED ones included.
    pub max_instances: Option<u32>,
    /// The rate limit of launches.
    pub launch_rate: Option<Rate>,
    /// It may be triggered over HTTP.
    pub remote: bool,
    /// SHA-256 of the secret that a remote trigger must present, in hexadecimal.
    pub secret_sha256: Option<String>,
    /// Upstream tasks: it is launched whenever an instance of one of them is DONE.
    pub after: Vec<TaskName>,
}

/// The schedule of a task, and its policies for missed due times.
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

/// A rate limit: `count` launches per period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Rate {
    /// At least 1.
    pub count: u32,
    /// Longer than zero.
    pub per: Millis,
}

/// The origin of a trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TriggerSource {
    /// An authenticated client (`baton run`).
    #[serde(rename = "hand")]
    Manual,
    /// The task's trigger URL.
    Remote,
}

/// The idempotency key of a request and a digest of the request, so that it is carried out once
/// however often it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IdempotencyKey {
    /// The first half of the SHA-256 of the client's text.
    pub key: (u64, u64),
    /// A part of the SHA-256 of the request.
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
