//! Runs of workflows over HTTP.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Links, once};
use crate::state::UniversalState;
use crate::workflow::{Condition, HaltMode};

/// The body of `POST /runs/`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubmitRun<F> {
    /// The workflow, in the schema of workflow files.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub file: F,
    /// Values of its parameters.
    #[serde(
        default,
        deserialize_with = "once::texts",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub params: BTreeMap<String, String>,
    /// More tasks are to come: the run is REGISTERING until it is told to start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
}

/// The answer to `POST /runs/`, `…/start`, `…/resume` and `…/retry`: it is durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunReply {
    /// The run.
    pub id: String,
    /// Which generation of it is the live one now.
    pub generation: u32,
    /// `control`: the run.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// How many items are where. The sum is the number of items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ItemCounts {
    /// Wait for what they come after.
    pub waiting: u64,
    /// Could begin, and are held back by a limit of the run.
    pub ready: u64,
    /// Have an instance that is QUEUED.
    pub queued: u64,
    /// Have an instance that a worker holds.
    pub running: u64,
    /// Are DONE.
    pub done: u64,
    /// Have FAILED.
    pub failed: u64,
    /// Were stopped.
    pub halted: u64,
    /// Were not wanted: their `when` does not hold, or what they come after was skipped.
    pub skipped: u64,
    /// Cannot begin, because what they come after has failed.
    pub blocked: u64,
}

/// One run of a workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// Its id.
    pub id: String,
    /// The workflow.
    pub name: String,
    pub owner: String,
    pub state: UniversalState,
    /// How often it was begun.
    pub generation: u32,
    /// It lets nothing more begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halting: Option<HaltMode>,
    /// It took longer than it may.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timed_out: bool,
    pub submitted_at: u64,
    /// When its present generation began.
    pub begun_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<u64>,
    /// Its parameters; not in lists.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
    /// How many tasks it has; not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<u64>,
    /// How many items are where; not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<ItemCounts>,
    /// What could not begin for a reason of its own: a template that cannot be filled in, a
    /// `when` that cannot be answered. At most a hundred.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<RunProblem>,
    /// `self`, `tasks`, `items`, `errors`, and what can be done with it: `halt`, `resume`,
    /// `retry`, `extend`, `start`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// An item that could not begin, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunProblem {
    /// The task.
    pub task: String,
    pub item: u32,
    pub text: String,
}

/// One task of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunTask {
    /// Its name.
    pub name: String,
    /// Its place in the plan, from 0.
    pub index: u32,
    /// How many items are where.
    pub items: ItemCounts,
    /// Its items are not known yet: they are what another task puts out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unmapped: bool,
    pub after: Vec<RunEdge>,
    /// It is skipped unless this holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// What most of those that wait are waiting for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How long an instance that is DONE took, on average.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_seconds: Option<f64>,
}

/// That a task comes after another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunEdge {
    /// The other.
    pub task: String,
    /// What must have become of it.
    pub condition: Condition,
    /// Item by item, and not all before any.
    pub by_item: bool,
}

/// An item whose instance has ended, or is on its way.
// Generic, since JSON is not known here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", bound(deserialize = "V: Deserialize<'de>"))]
pub struct RunItem<V> {
    /// The task.
    pub task: String,
    pub item: u32,
    /// Its value, any JSON; missing where the task has neither `for_each` nor `matrix`.
    #[serde(
        default = "Option::default",
        deserialize_with = "once::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Value>))]
    pub value: Option<V>,
    /// Its instance.
    pub instance: String,
    pub state: UniversalState,
    /// In which generation it ran.
    pub generation: u32,
    /// When its last attempt was started, by its worker's clock; while that runs, when its
    /// worker has said so, by the scheduler's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// How its last attempt ended, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_text: Option<String>,
    /// What it has put out, as the text of a JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<String>,
    /// `instance`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// Failures of a run that are alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ErrorGroup {
    /// The task.
    pub task: String,
    pub end_text: String,
    pub count: u64,
    /// One of them.
    pub example: String,
    /// `example`, `stderr`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// The body of `POST /runs/{id}/halt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HaltRun {
    /// What becomes of what has begun.
    #[serde(rename = "how")]
    pub mode: HaltMode,
    /// Only if this generation is the live one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
}

/// The body of `POST /runs/{id}/resume`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResumeRun<F> {
    /// The workflow, if it has changed.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub file: Option<F>,
    /// Values of its parameters, with a file. Those that the run has stay where the file still
    /// has them, and none is given here.
    #[serde(
        default,
        deserialize_with = "once::texts",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub params: BTreeMap<String, String>,
    /// Only if this generation is the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
}

/// The body of `POST /runs/{id}/retry`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryRun {
    /// Do this task again, also what is DONE of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// And everything that comes after it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub downstream: bool,
    /// Only if this generation is the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
}

/// What a resume or a retry would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ResumePreview {
    /// Every task of the plan that would go on.
    pub tasks: Vec<ResumeTask>,
    /// Tasks of the plan before that are no more.
    pub removed: Vec<String>,
}

/// What a resume or a retry would do with one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ResumeTask {
    /// Its name.
    pub name: String,
    /// Items that are DONE and stay it.
    pub kept: u64,
    /// Items that run, or run again; nothing where that is known only later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<u64>,
    /// Why: `unfinished`, `changed`, `downstream of a change`, `new`, `asked for`; nothing
    /// where all is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}
