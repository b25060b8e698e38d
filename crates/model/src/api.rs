//! The representations of the HTTP API, as plain data: the server writes them, clients read them.
//!
//! Names are camelCase, times are milliseconds since 1970 (`…At`) or seconds with a
//! fraction (`…Seconds`), ids are written as people read them (`i12`). Every
//! representation carries its own links, by relation; clients follow them instead of
//! putting paths together.

mod library;
mod once;
mod runs;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::fact::Fact;
use crate::outcome::AttemptEnd;
use crate::placement::Capacity;
use crate::state::{UniversalState, WorkerState};
use crate::token::Role;

pub use library::{
    DefineReply, DueTimes, FileProblem, LibraryPage, Task, Tick, TriggerReply, TriggerTask,
};

pub use runs::{
    ErrorGroup, HaltRun, ItemCounts, ResumePreview, ResumeRun, ResumeTask, RetryRun, Run, RunEdge,
    RunItem, RunProblem, RunReply, RunTask, SubmitRun,
};

/// The media type of every representation.
pub const MEDIA_TYPE: &str = "application/vnd.baton.v1+json";

/// Links by relation. A relation that changes something has its method before the path, as in
/// `DELETE /instances/i12`; one that only reads has the path alone.
pub type Links = BTreeMap<String, String>;

/// `GET /`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Root {
    /// The product.
    pub name: String,
    pub version: String,
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// The body of `POST /instances/`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Submit<F> {
    /// The task, in the schema of task files.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub file: F,
    /// Values of its parameters.
    #[serde(
        default,
        deserialize_with = "once::texts",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub params: BTreeMap<String, String>,
    /// For an array: one instance per index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<Indices>,
}

/// The indices of an array, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Indices {
    pub from: u64,
    pub to: u64,
}

/// The answer to a submission: it is durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SubmitReply {
    /// The first instance.
    pub first: String,
    /// The last instance; equal to `first` for a single one.
    pub last: String,
    pub count: u64,
    /// `control`: the instance, or the whole range.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// An instance, or a range of instances with the same history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// The first, or the only one.
    pub id: String,
    /// The last, where it is a range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<String>,
    pub count: u64,
    pub name: String,
    pub owner: String,
    pub state: UniversalState,
    /// Its index, where it is an element of an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array_index: Option<u64>,
    /// The run to which it belongs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Attempts so far, including the current one.
    pub attempts: u32,
    /// Failed attempts.
    pub failures: u32,
    /// Lost attempts.
    pub losses: u32,
    /// True if a stop was requested.
    pub stopping: bool,
    /// The worker that holds it, or held it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The end of its last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<AttemptEnd>,
    /// `end` as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_text: Option<String>,
    /// Its due time, if a schedule launched it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nominal_at: Option<u64>,
    /// The latest time at which it could be launched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slack_until: Option<u64>,
    pub submitted_at: u64,
    /// When its last fact was recorded.
    pub changed_at: u64,
    /// When its last attempt was started, by its worker's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_seconds: Option<f64>,
    /// CPU time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<f64>,
    /// The largest resident memory of one of its processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_peak_bytes: Option<u64>,
    /// `self`, `task`, `run`, `timeline`, `explain`, `stdout`, `stderr`, `cancel`, `retry`: those
    /// that apply in its state.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// `GET /instances/{first}..{last}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RangeSummary {
    /// The first instance.
    pub first: String,
    /// The last instance.
    pub last: String,
    /// Number of instances per state; states without instances are omitted.
    pub counts: BTreeMap<UniversalState, u64>,
    /// `self`, and `cancel` while one of them has not ended.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// A page of a view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct List<T> {
    pub items: Vec<T>,
    /// The number of items in all pages, where it is known cheaply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// `self`, and `next` if there is more.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// One event of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Its sequence number in the whole history.
    pub seq: u64,
    pub at: u64,
    /// The epoch of the leader that recorded it.
    pub epoch: u64,
    pub text: String,
    pub fact: Fact,
    /// For an event outside of a timeline: `instance`, if it is about one or a range of them, and
    /// `run`, if it is about a run or creates an instance of one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// Reports to a follower of events that some of them are missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct EventGap {
    /// The last event that was sent.
    pub after: u64,
    /// No event after this one is missing. Events up to it that still exist follow.
    pub through: u64,
    /// The same as text.
    pub text: String,
}

/// The resource usage of one owner in one hour. Each item counts in the hour in which it was
/// recorded: an attempt when it ended, a wait when a lease ended it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    pub hour_at: u64,
    pub owner: String,
    /// Instances that ended DONE. An instance that is retried by hand counts again.
    pub done: u64,
    /// Instances that ended FAILED.
    pub failed: u64,
    /// Instances that ended HALTED.
    pub halted: u64,
    /// Attempts that ended.
    pub attempts: u64,
    /// Reserved CPU, multiplied by time.
    pub cpu_claimed_seconds: f64,
    /// CPU time, as the workers measured it.
    pub cpu_used_seconds: f64,
    /// Reserved memory in MiB, multiplied by time.
    pub memory_claimed_mib_seconds: f64,
    /// Queue time: from being ready to a lease.
    pub waited_seconds: f64,
}

/// The reason for which an instance is in its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    pub id: String,
    pub state: UniversalState,
    /// The reason, as a stable word for scripts: `resting`, `initial-wait`,
    /// `no-worker`, `no-match`, `never-fits`, `room`, `limit`, `reserved`, `behind`, `next`,
    /// `confirmation`, `unsure`, `running`, `ended`.
    pub reason: String,
    /// The reason as text, with a hint.
    pub text: String,
    /// The worker that the reason is about, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The resource or limit that the reason is about, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The missing amount of that resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short: Option<u64>,
    /// The end of the wait, if time alone ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// `self`, `instance`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// The result of a cancellation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CancelReply {
    /// Instances that were waiting, and are HALTED now.
    pub halted: u64,
    /// Instances that are running: they are being killed.
    pub stopping: u64,
}

/// The request was accepted and is being carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AcceptReply {
    /// Where to look for the result.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// A worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Worker {
    /// Its seat.
    pub name: String,
    pub state: WorkerState,
    /// True if no more work is placed on it.
    pub drained: bool,
    /// The identity of its state directory, which `forget` refers to.
    pub lineage: String,
    pub life: u64,
    /// Attempts that it may be running.
    pub attempts: u32,
    /// Attempts that it may hold at once.
    pub slots: u32,
    pub capacity: Capacity,
    pub labels: BTreeMap<String, String>,
    /// Seconds since its last heartbeat.
    pub heard_seconds: f64,
    /// `self`, `drain`, `undrain`, `forget`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// The body of `PUT /workers/{name}/drained`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct DrainRequest {
    /// True to place no more work on it.
    pub drained: bool,
}

/// The body of `POST /tokens/`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewToken {
    pub role: Role,
    /// Restricts it to the objects of this owner; unrestricted by default. For viewers and operators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Its role by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Unlimited by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime_seconds: Option<u64>,
}

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Token {
    /// Such as `t7`.
    pub id: String,
    pub name: String,
    pub role: Role,
    /// The owner to whose objects it is restricted, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    pub created_at: u64,
    /// The end of its validity, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    pub revoked: bool,
    /// `revoke`, if it is not revoked.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

impl From<crate::token::Token> for Token {
    fn from(token: crate::token::Token) -> Self {
        Self {
            id: token.id.to_string(),
            name: token.name,
            role: token.role,
            owner: token.owner,
            created_at: token.created_at.0,
            expires_at: token.expires_at.map(|end| end.0),
            revoked: token.revoked,
            links: Links::new(),
        }
    }
}

/// The answer to `POST /tokens/`: the only one that contains the secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreatedToken {
    #[serde(flatten)]
    pub token: Token,
    /// The secret to present as a bearer token.
    pub secret: String,
}

/// `GET /readyz`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Readiness {
    /// True if it leads and its store takes writes.
    pub ready: bool,
    /// Its epoch, if it leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// An error, in the format of RFC 9457 (`application/problem+json`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem {
    /// A stable word for scripts.
    #[serde(rename = "type")]
    pub kind: String,
    /// What is wrong, in a few words.
    pub title: String,
    /// The status code.
    pub status: u16,
    /// What is wrong in this case, with a hint.
    pub detail: String,
    /// The errors in the input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldProblem>,
}

/// One error in the input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FieldProblem {
    pub field: String,
    pub message: String,
    pub hint: String,
}
