//! What travels over HTTP, as plain data: the server writes it, clients read it.
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

/// Links by relation. A relation that changes something says its method before the path,
/// as in `DELETE /instances/i12`; one that only shows has the path alone.
pub type Links = BTreeMap<String, String>;

/// `GET /`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Root {
    /// The product.
    pub name: String,
    /// Its version.
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
    /// One instance for each index, if it is an array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<Indices>,
}

/// The indices of an array, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Indices {
    /// The first.
    pub from: u64,
    /// The last.
    pub to: u64,
}

/// The answer to a submission: it is durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SubmitReply {
    /// The first instance.
    pub first: String,
    /// The last; the first again where it is one.
    pub last: String,
    pub count: u64,
    /// `control`: the instance, or the whole range.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// An instance, or a range of instances that nothing has happened to but the same.
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
    /// The run that it is a part of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Attempts so far, the running one included.
    pub attempts: u32,
    /// Those that failed.
    pub failures: u32,
    /// Those that were lost.
    pub losses: u32,
    /// Whether somebody wants it stopped.
    pub stopping: bool,
    /// Who holds it, or held it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// How its last attempt ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<AttemptEnd>,
    /// The same in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_text: Option<String>,
    /// The time that it was due, if a schedule has launched it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nominal_at: Option<u64>,
    /// Until when it was allowed to be launched.
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
    /// Time on processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<f64>,
    /// The most memory that one of its processes had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_peak_bytes: Option<u64>,
    /// `self`, `task`, `run`, `timeline`, `explain`, `stdout`, `stderr`, `cancel`, `retry`: those
    /// that make sense where it stands.
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
    /// The last.
    pub last: String,
    /// How many of the range are in which state; a state without any is missing.
    pub counts: BTreeMap<UniversalState, u64>,
    /// `self`, and `cancel` while one of them is not over.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// A page of a view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct List<T> {
    pub items: Vec<T>,
    /// How many there are in all pages, where that is known cheaply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// `self`, and `next` if there is more.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// One thing that happened to an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Its number in the whole history.
    pub seq: u64,
    pub at: u64,
    /// Under which leader.
    pub epoch: u64,
    pub text: String,
    pub fact: Fact,
    /// Where the event stands by itself: `instance`, if it is about one or a range of them, and
    /// `run`, if it is about one or brings an instance of one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// Says to whoever follows events that it does not get all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct EventGap {
    /// The last event that it has.
    pub after: u64,
    /// Behind this one nothing is missing. What is left of those up to it follows all the same.
    pub through: u64,
    /// The same in words.
    pub text: String,
}

/// What one owner used in one hour. Everything counts in the hour in which it was recorded: an
/// attempt when it ended, a wait when a lease ended it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    pub hour_at: u64,
    pub owner: String,
    /// Instances that ended DONE. One that is tried again by hand ends again.
    pub done: u64,
    /// Instances that ended FAILED.
    pub failed: u64,
    /// Instances that ended HALTED.
    pub halted: u64,
    /// Attempts that ended.
    pub attempts: u64,
    /// Processors that were set aside for them, times how long.
    pub cpu_claimed_seconds: f64,
    /// Time on processors, as their workers measured it.
    pub cpu_used_seconds: f64,
    /// Memory that was set aside for them in MiB, times how long.
    pub memory_claimed_mib_seconds: f64,
    /// From being ready to a lease.
    pub waited_seconds: f64,
}

/// Why an instance is where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    pub id: String,
    pub state: UniversalState,
    /// A word for the reason that scripts can compare: `resting`, `initial-wait`,
    /// `no-worker`, `no-match`, `never-fits`, `room`, `limit`, `reserved`, `behind`, `next`,
    /// `confirmation`, `unsure`, `running`, `ended`.
    pub reason: String,
    /// The one thing it waits for, in a sentence, and what to do about it.
    pub text: String,
    /// The worker it is about, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The resource or limit it is about, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// How much of that is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short: Option<u64>,
    /// When waiting ends, if time alone ends it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// `self`, `instance`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// What came of a wish to stop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CancelReply {
    /// So many had waited, and are HALTED.
    pub halted: u64,
    /// So many run: they are being killed.
    pub stopping: u64,
}

/// What was asked for is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AcceptReply {
    /// Where to look what came of it.
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
    /// Its health.
    pub state: WorkerState,
    /// It gets no more work.
    pub drained: bool,
    /// Its state directory: what `forget` vouches for.
    pub lineage: String,
    pub life: u64,
    /// Attempts that it may be running.
    pub attempts: u32,
    /// How many it may hold.
    pub slots: u32,
    /// What it has in all.
    pub capacity: Capacity,
    pub labels: BTreeMap<String, String>,
    /// How long ago it was heard.
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
    /// Whether it shall get no more work.
    pub drained: bool,
}

/// The body of `POST /tokens/`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewToken {
    /// What its holder may do.
    pub role: Role,
    /// Whose things it is for only; everybody's if nobody says. For viewers and operators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// What people call it; by its role if they do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// For how long it is valid; for ever if nobody says.
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
    /// What its holder may do.
    pub role: Role,
    /// Whose things only, if not everybody's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    pub created_at: u64,
    /// From when on it is worth nothing, if ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// Somebody has said that it is worth nothing any more.
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

/// The answer to `POST /tokens/`: the only time that the secret is told.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreatedToken {
    /// The token.
    #[serde(flatten)]
    pub token: Token,
    /// What its holder has to show.
    pub secret: String,
}

/// `GET /readyz`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Readiness {
    /// Whether it leads and its store takes writes.
    pub ready: bool,
    /// Its epoch, if it leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// An error, as RFC 9457 wants it (`application/problem+json`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem {
    /// A word that scripts can compare.
    #[serde(rename = "type")]
    pub kind: String,
    /// What is wrong, in a few words.
    pub title: String,
    /// The status code.
    pub status: u16,
    /// What is wrong in this case, and what to do about it.
    pub detail: String,
    /// Each thing that is wrong with the input.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldProblem>,
}

/// One thing that is wrong with the input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FieldProblem {
    pub field: String,
    pub message: String,
    pub hint: String,
}
