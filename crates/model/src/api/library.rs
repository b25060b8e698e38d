//! The library over HTTP.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Links, once};
use crate::library::Trigger;

/// A task of the library, in one revision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Task<F> {
    pub owner: String,
    pub name: String,
    pub revision: u32,
    /// True if the task is in the library and this is its latest revision.
    pub current: bool,
    /// When the revision was defined.
    pub defined_at: u64,
    /// The file of the library directory that defines it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    pub trigger: Trigger,
    /// A description of its schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_text: Option<String>,
    /// Its next due time; in lists only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<u64>,
    /// The task itself, in the schema of task files; not in lists.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub definition: Option<F>,
    /// `self`, `revisions`, `due`, `ticks`, `history`, and its actions: `run`,
    /// `trigger`, `replace`, `remove`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// `GET /library/`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LibraryPage<F> {
    /// Tasks, by owner and name.
    pub items: Vec<Task<F>>,
    /// Files of the library directory that cannot be used; their previous definitions stay in force.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<FileProblem>,
    /// `self`, and `next` if there is more.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// A file of the library directory that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FileProblem {
    /// Its path within the directory.
    pub file: String,
    /// The error, with a hint.
    pub text: String,
}

/// The effect of a definition on a task; of a dry run, the effect that it would have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DefineReply {
    pub owner: String,
    pub name: String,
    /// The resulting revision.
    pub revision: u32,
    /// `created`, `replaced` or `unchanged`.
    pub change: String,
    /// True if nothing was stored.
    pub dry_run: bool,
    /// `task`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// The body of a trigger; optional.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TriggerTask {
    /// Values of its parameters, instead of their defaults.
    #[serde(
        default,
        deserialize_with = "once::texts",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub params: BTreeMap<String, String>,
}

/// The answer to a trigger: it is durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TriggerReply {
    /// The instance.
    pub id: String,
    /// True if an earlier request with the same idempotency key had launched it.
    pub again: bool,
    /// `control`: the instance. `task`: the task.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// The verdict on a due time, or on several that were skipped for the same reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Tick {
    /// Its sequence number in the whole history.
    pub seq: u64,
    pub owner: String,
    pub name: String,
    pub revision: u32,
    /// The due time, or the first of them.
    pub nominal_at: u64,
    /// The last due time.
    pub last_at: u64,
    /// The number of due times that it covers.
    pub count: u64,
    pub recorded_at: u64,
    /// `launched`, `late` or `skipped`.
    pub verdict: String,
    /// The delay, if it was late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_seconds: Option<f64>,
    /// The reason, if it was skipped: `missed`, `catch-up`, `max-instances`, `launch-rate`, `replaced`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The verdict as one line of text.
    pub text: String,
    /// The instance that was launched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The upstream instance whose end it is about, if it is not about a due time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// `task`, `instance`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// The next due times of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DueTimes {
    /// The next times, without jitter.
    pub at: Vec<u64>,
    /// The IANA time zone of the schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// `self`, `task`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}
