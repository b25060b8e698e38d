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
    /// True if more tasks follow: the run is REGISTERING until `start`.
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
    /// Its current generation.
    pub generation: u32,
    /// `control`: the run.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// Number of items per state. The sum is the number of items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ItemCounts {
    /// Wait for upstream items.
    pub waiting: u64,
    /// Are ready, and held back by a concurrency limit of the run.
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
    /// Were skipped: their `when` is false, or an upstream item was skipped.
    pub skipped: u64,
    /// Cannot start, because an upstream item has failed.
    pub blocked: u64,
}

/// One run of a workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Run {
    pub id: String,
    /// The workflow.
    pub name: String,
    pub owner: String,
    pub state: UniversalState,
    /// Its current generation, from 1.
    pub generation: u32,
    /// It is being halted: no further items start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halting: Option<HaltMode>,
    /// It has exceeded its timeout.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timed_out: bool,
    pub submitted_at: u64,
    /// The start of its current generation.
    pub begun_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<u64>,
    /// Its parameters; not in lists.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
    /// The number of its tasks; not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<u64>,
    /// Number of items per state; not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<ItemCounts>,
    /// Items that could not start because of an error of their own: a template that cannot be
    /// resolved, a `when` that cannot be evaluated. At most 100.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<RunProblem>,
    /// `self`, `tasks`, `items`, `errors`, and its actions: `halt`, `resume`,
    /// `retry`, `extend`, `start`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// An item that could not start, and the error.
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
    pub name: String,
    /// Its position in the plan, from 0.
    pub index: u32,
    pub items: ItemCounts,
    /// True if its items are not known yet: they are outputs of an upstream task.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unmapped: bool,
    pub after: Vec<RunEdge>,
    /// The condition without which it is skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The most frequent reason for which its items wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The mean run time of its DONE instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_seconds: Option<f64>,
}

/// A dependency of a task on an upstream task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunEdge {
    /// The upstream task.
    pub task: String,
    pub condition: Condition,
    /// True if items depend on single items, not on all items of the upstream task.
    pub by_item: bool,
}

/// An item whose instance has ended or is in flight.
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
    pub generation: u32,
    /// The start of its last attempt by the worker's clock; while it runs, the time of the worker's
    /// confirmation by the scheduler's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// The end of its last attempt, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_text: Option<String>,
    /// Its outputs: the text of a JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<String>,
    /// `instance`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// Failures of a run with the same cause.
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
    #[serde(rename = "how")]
    pub mode: HaltMode,
    /// If set, the request is refused unless this is the current generation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
}

/// The body of `POST /runs/{id}/resume`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResumeRun<F> {
    /// The changed workflow, if any.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub file: Option<F>,
    /// With a file: values of its parameters. A parameter without a value here keeps the value that
    /// it has in the run.
    #[serde(
        default,
        deserialize_with = "once::texts",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub params: BTreeMap<String, String>,
    /// If set, the request is refused unless this is the last generation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
}

/// The body of `POST /runs/{id}/retry`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryRun {
    /// Rerun this task, including its DONE items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Rerun all downstream tasks, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub downstream: bool,
    /// If set, the request is refused unless this is the last generation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
}

/// The effect that a resume or a retry would have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ResumePreview {
    /// Every task of the resumed plan.
    pub tasks: Vec<ResumeTask>,
    /// Tasks of the previous plan that were removed.
    pub removed: Vec<String>,
}

/// The effect of a resume or a retry on one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ResumeTask {
    pub name: String,
    /// DONE items that stay DONE.
    pub kept: u64,
    /// Items that run, or run again; omitted where that is known only later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<u64>,
    /// The reason: `unfinished`, `changed`, `downstream of a change`, `new`, `asked for`; omitted
    /// if all items are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}
