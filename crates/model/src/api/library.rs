//! Library types of the HTTP API.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Links, once};
use crate::library::{EntryKind, Trigger};

/// One revision of a task or a workflow of the library.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Task<F> {
    /// Owner of the entry.
    pub owner: String,
    /// Name of the entry.
    pub name: String,
    /// Whether a launch starts an instance (`task`) or a run (`workflow`).
    #[serde(default)]
    pub kind: EntryKind,
    /// Revision number.
    pub revision: u32,
    /// Whether the entry is in the library and this is its current revision.
    pub current: bool,
    /// When this revision was defined.
    pub defined_at: u64,
    /// The file of the library directory that defines the entry, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Schedule and other triggers.
    pub trigger: Trigger,
    /// The schedule as the server interprets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_text: Option<String>,
    /// Next due time; only in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<u64>,
    /// Since when the entry is paused; missing if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_at: Option<u64>,
    /// The reason of the pause, as the operator has given it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_reason: Option<String>,
    /// The definition, in the schema of task or workflow files; not in lists.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub definition: Option<F>,
    /// `self`, `revisions`, `due`, `ticks`, `history` of a task or `runs` of a workflow, and the
    /// available operations: `run`, `backfill`,
    /// `trigger`, `pause` or `unpause`, `replace`, `remove`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// `GET /library/`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LibraryPage<F> {
    /// Tasks and workflows, by owner and name.
    pub items: Vec<Task<F>>,
    /// Unusable files of the library directory; their previous definitions stay in force.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<FileProblem>,
    /// `self`, and `next` if more entries follow.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// An unusable file of the library directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FileProblem {
    /// Path within the directory.
    pub file: String,
    /// What is wrong, with a hint.
    pub text: String,
}

/// Outcome of a definition, or of its dry run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DefineReply {
    /// Owner of the entry.
    pub owner: String,
    /// Name of the entry.
    pub name: String,
    /// The resulting revision.
    pub revision: u32,
    /// `created`, `replaced` or `unchanged`.
    pub change: String,
    /// Whether this was a dry run that changed nothing.
    pub dry_run: bool,
    /// `task`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// Body of `PUT /{owner}/tasks/{name}/paused`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PauseRequest {
    /// `true`: skip due times and ends of upstream entries; `false`: end the pause.
    pub paused: bool,
    /// The reason of the pause, for other operators; at most 1 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Body of a trigger; optional.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TriggerTask {
    /// Parameter values that override the defaults.
    #[serde(
        default,
        deserialize_with = "once::texts",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub params: BTreeMap<String, String>,
}

/// Response to a trigger, sent once it is durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TriggerReply {
    /// Id of the instance of a task (`i7`), or of the run of a workflow (`r7`).
    pub id: String,
    /// Whether an earlier request with the same key started it.
    pub repeated: bool,
    /// `control`: the instance or run. `task`: the entry.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// Outcome of a due time, or of several that were skipped for the same reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Tick {
    /// Sequence number in the whole history.
    pub seq: u64,
    /// Owner of the entry.
    pub owner: String,
    /// Name of the entry.
    pub name: String,
    /// Revision in force at that time.
    pub revision: u32,
    /// The due time, or the first of several.
    pub nominal_at: u64,
    /// The last of several due times.
    pub last_at: u64,
    /// Number of due times.
    pub count: u64,
    /// When the outcome was recorded.
    pub recorded_at: u64,
    /// `launched`, `late`, `skipped`, or `backfilled` by a backfill.
    pub verdict: String,
    /// Delay of a late launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_seconds: Option<f64>,
    /// The reason, if it was skipped: `missed`, `catch-up`, `max-instances`, `queue-full`, `launch-rate`,
    /// `replaced`, `paused`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The outcome as one line of text.
    pub text: String,
    /// Id of the launched instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Id of the launched run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// The upstream instance or run whose end was the trigger, if no schedule was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Id of the backfill that has launched it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backfill: Option<String>,
    /// `task`, `instance` or `run`, `backfill`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// Next due times of a task or a workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DueTimes {
    /// Due times, without jitter.
    pub at: Vec<u64>,
    /// Time zone of the schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// `self`, `task`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}
