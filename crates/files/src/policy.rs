//! Scheduling policies of a task: trigger, retries, timeout, placement. Only the scheduler
//! uses them; a runner on one host ignores them.

use baton_model::alarm::Expectations;
use baton_model::library::Trigger;
use baton_model::notify::NotifyRule;
use baton_model::placement::Constraint;
use baton_model::secret::SecretUse;
use baton_model::spec::{Exclusive, Nodes, Uri, Warning};
use baton_model::task::Backoff;
use baton_model::time::Millis;
use serde::{Deserialize, Serialize};

/// Everything about a task except its processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Automatic and remote starts.
    pub trigger: Trigger,
    pub retry: Retry,
    /// Of one attempt.
    pub timeout: Option<Millis>,
    /// The certainty that an attempt has ended before the next one starts.
    pub exclusive: Exclusive,
    /// How long an attempt outlives the contact to its scheduler; `None` for the scheduler's
    /// default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_after: Option<Millis>,
    /// How long one attempt runs, for placement; `None` for as long as its timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_request: Option<Millis>,
    /// The signal before its end is forced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warn: Option<Warning>,
    /// Workers that one attempt takes at the same time.
    #[serde(default, skip_serializing_if = "is_one")]
    pub nodes: Nodes,
    /// Higher is placed first.
    pub priority: i32,
    /// The fleet of the first attempt, of the one after a failure, and so on; the last one stays. Empty for
    /// any worker.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fleets: Vec<String>,
    /// All must hold. Sorted by label.
    pub constraints: Vec<Constraint>,
    /// Files to fetch before the start.
    pub uris: Vec<Uri>,
    /// Secrets of its owner that it is given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretUse>,
    /// When it is late, and how long it runs.
    #[serde(default, skip_serializing_if = "Expectations::is_empty")]
    pub expected: Expectations,
    /// Who is told of its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub notify: Option<NotifyRule>,
    /// Words by which lists are filtered; sorted, none twice.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
fn is_one(nodes: &Nodes) -> bool {
    !nodes.is_gang()
}

/// Retries after a failure or loss.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// Attempts in all, the first one included; at least 1.
    pub attempts: u32,
    /// Tolerated losses of a worker; `None` for the scheduler's default.
    pub losses: Option<u32>,
    /// `None` for the scheduler's default.
    pub backoff: Option<Backoff>,
    /// What grows after an attempt ran out of it.
    pub scale: Scaling,
    /// Constraints after the first failure, the second, and so on, replacing
    /// [`Policy::constraints`]; the last entry applies to all further attempts.
    pub fallback: Vec<Vec<Constraint>>,
}

/// Growth of resources after an attempt ran out of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scaling {
    /// Bytes of memory.
    pub memory: Option<Growth<u64>>,
    /// Of one attempt.
    pub timeout: Option<Growth<Millis>>,
    /// The time that a worker must have left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_request: Option<Growth<Millis>>,
    /// Thousandths of a core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Growth<u64>>,
    /// Bytes of disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Growth<u64>>,
    /// Thousandths of a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<Growth<u64>>,
}

/// Growth of one resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Growth<T> {
    /// By a factor each time.
    Factor {
        /// In thousandths; at least 1000.
        milli: u64,
        /// The upper bound.
        cap: Option<T>,
    },
    /// The value after running out once, twice, and so on; the last one applies from then on.
    /// Not empty, never decreasing.
    Steps(Vec<T>),
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 1,
            losses: None,
            backoff: None,
            scale: Scaling::default(),
            fallback: Vec::new(),
        }
    }
}
