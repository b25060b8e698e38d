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
    /// Whether the task is in the library, and this is what it is now.
    pub current: bool,
    /// When it was defined so.
    pub defined_at: u64,
    /// The file of the library's directory that it comes from, and is changed in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    pub trigger: Trigger,
    /// Its schedule, as it was understood.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_text: Option<String>,
    /// When it is due next; in lists only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<u64>,
    /// The task itself, in the schema of task files; not in lists.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub definition: Option<F>,
    /// `self`, `revisions`, `due`, `ticks`, `history`, and what can be done with it: `run`,
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
    /// Files of the library's directory that cannot be used; what they said before still holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<FileProblem>,
    /// `self`, and `next` if there is more.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// A file of the library's directory that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FileProblem {
    /// Its path within the directory.
    pub file: String,
    /// What is wrong, and what to do about it.
    pub text: String,
}

/// What a definition did to a task, or would.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DefineReply {
    pub owner: String,
    pub name: String,
    /// The revision that it has now, or would have.
    pub revision: u32,
    /// `created`, `replaced` or `unchanged`.
    pub change: String,
    /// Nothing was kept: this is what would happen.
    pub dry_run: bool,
    /// `task`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// The body of a trigger; it may be left out.
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
    /// A request with the same key had launched it before.
    pub again: bool,
    /// `control`: the instance. `task`: the task.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// What became of a due time, or of several that were skipped for the same reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Tick {
    /// Its number in the whole history.
    pub seq: u64,
    pub owner: String,
    pub name: String,
    /// Under which revision.
    pub revision: u32,
    /// The time that it was due, or the first of them.
    pub nominal_at: u64,
    /// The last of them.
    pub last_at: u64,
    /// How many due times it stands for.
    pub count: u64,
    pub recorded_at: u64,
    /// `launched`, `late` or `skipped`.
    pub verdict: String,
    /// By how much it was late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_seconds: Option<f64>,
    /// Why it was skipped: `missed`, `catch-up`, `max-instances`, `launch-rate`, `replaced`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What became of it, as one line.
    pub text: String,
    /// The instance that was launched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The instance whose end it was, if no schedule's time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// `task`, `instance`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// When a task is due next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DueTimes {
    /// The next times, without jitter.
    pub at: Vec<u64>,
    /// The zone whose clocks the schedule goes by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// `self`, `task`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}
