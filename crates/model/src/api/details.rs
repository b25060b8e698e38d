//! What an instance runs, where, with what and why: the part of its representation that lists do
//! not have.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Submitter;
use crate::device::DeviceShare;
use crate::placement::Constraint;
use crate::secret::SecretUse;
use crate::spec::{Exclusive, Nodes};
use crate::task::Resources;

/// The work of an instance and its policies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct InstanceDetails {
    /// Its processes; one for a task of a single command.
    pub processes: Vec<ProcessCommand>,
    /// Its directory on the worker; absent for its sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The file of its standard output, relative to its directory, for the last attempt; absent if
    /// it goes to the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    /// The same for standard error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// The directory of the last attempt, below `work` of its worker's state directory; its logs
    /// are below `logs`, with this name and `.out` or `.err`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// Its parameters; a viewer sees names only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
    /// Its other environment variables; a viewer sees names only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Secrets of its owner that it is given, without their values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretUse>,
    /// The user it runs as, if not the worker's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Resources that it requests.
    pub resources: Resources,
    /// The devices that its current attempt holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceShare>,
    /// Workers that one attempt takes at the same time.
    #[serde(default)]
    pub nodes: Nodes,
    /// Of several nodes: the workers that its current attempt takes, in the order of its host list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
    /// Labels that its worker must have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constraints: Vec<Constraint>,
    /// Higher goes first.
    pub priority: i32,
    /// The longest time of one attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<f64>,
    /// Attempts that it may have, with failures.
    pub attempts_max: u32,
    /// Losses of a worker after which it is retried.
    pub losses_max: u32,
    /// The proof that is needed before an attempt is replaced.
    pub exclusive: Exclusive,
    /// How long an attempt outlives the contact between its worker and a scheduler; none for the
    /// scheduler's default, and for `strict`, which no time ends.
    pub lost_after_seconds: Option<f64>,
    /// The submission, trigger, due time or run that it comes from.
    pub origin: InstanceOrigin,
}

/// A process of an instance and its command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProcessCommand {
    /// Name of the process.
    pub name: String,
    /// The command: arguments, or one shell command.
    pub command: Vec<String>,
    /// Whether a shell runs it.
    pub shell: bool,
}

/// What has created an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct InstanceOrigin {
    pub kind: OriginKind,
    /// The same as text.
    pub text: String,
    /// The client that has submitted or triggered it, or its run, if it is known and no schedule did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submitted_by: Option<Submitter>,
    /// Revision of its library task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u32>,
    /// The due time, if a schedule has one for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<u64>,
    /// The backfill that has launched it for its due time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backfill: Option<String>,
    /// Item of its task, for an item of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<u32>,
}

/// The kind of event that has created an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum OriginKind {
    /// A submission.
    Submission,
    /// A due time of a schedule, now or by a backfill.
    Schedule,
    /// A trigger of a library task, by hand or over HTTP.
    Trigger,
    /// The end of another task of the library.
    Upstream,
    /// A run of a workflow.
    Run,
}
