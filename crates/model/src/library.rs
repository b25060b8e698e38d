//! The library: tasks by owner and name, each with immutable revisions.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::InstanceId;
use crate::schedule::{CatchUp, Dst};
use crate::spec::InstanceSpec;
use crate::time::Millis;

/// What a task of the library is called: `analytics/nightly-report`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TaskName {
    pub owner: String,
    /// Unique among those of its owner.
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

/// One revision of a task. It is never changed, only followed by another.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Definition {
    /// The task file, as JSON, with its templates open.
    pub source: Arc<str>,
    /// What an instance asks for where every parameter has its default; nothing if one has
    /// none.
    pub spec: Option<Arc<InstanceSpec>>,
    pub trigger: Trigger,
    /// The file of the library's directory that it comes from, and is changed in.
    pub file: Option<String>,
}

/// What starts a task, beside somebody's hand, and how often.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Trigger {
    pub schedule: Option<Schedule>,
    /// Instances that may be on their way at once, QUEUED ones included.
    pub max_instances: Option<u32>,
    /// How many may be launched in how long.
    pub launch_rate: Option<Rate>,
    /// It may be triggered over HTTP.
    pub remote: bool,
    /// What the secret is known by that whoever triggers it over HTTP must show: its SHA-256,
    /// in hexadecimal.
    pub secret_sha256: Option<String>,
    /// It is launched whenever an instance of one of these is DONE.
    pub after: Vec<TaskName>,
}

/// When a task is due, and what is done about time that has passed without it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Schedule {
    /// In English or as a cron pattern.
    pub text: String,
    /// The zone whose clocks it goes by.
    pub zone: String,
    /// What to do when clocks are changed.
    pub dst: Dst,
    /// How late a due time may still be launched.
    pub slack: Millis,
    /// Which of several that are late are launched.
    pub catch_up: CatchUp,
    /// Each launch waits a part of this.
    pub jitter: Millis,
}

/// So many launches in so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Rate {
    /// At least 1.
    pub count: u32,
    /// Longer than zero.
    pub per: Millis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TriggerSource {
    /// A person, by hand.
    #[serde(rename = "hand")]
    Manual,
    /// Somebody over the task's trigger URL.
    Remote,
}

/// What a client has called its request, so that it is carried out once however often it is
/// sent; and what the request was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IdempotencyKey {
    /// The first half of the SHA-256 of the client's text.
    pub key: (u64, u64),
    /// A part of the SHA-256 of the request.
    pub request: u64,
}

/// An instance that a key has brought about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TriggerRecord {
    pub instance: InstanceId,
    pub request: u64,
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
