//! Workflow run types of the HTTP API.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Links, Progress, Submitter, once};
use crate::state::UniversalState;
use crate::workflow::{Condition, HaltMode};

/// Body of `POST /runs/`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubmitRun<F> {
    /// The workflow, in the schema of workflow files.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub file: F,
    /// Parameter values.
    #[serde(
        default,
        deserialize_with = "once::texts",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub params: BTreeMap<String, String>,
    /// More tasks follow: the run is REGISTERING until `start`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open: bool,
}

/// Response to `POST /runs/`, `…/start`, `…/resume` and `…/retry`, sent once it is durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunReply {
    /// Id of the run.
    pub id: String,
    /// The live generation.
    pub generation: u32,
    /// `control`: the run.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// Number of items by status. The sum is the total number of items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ItemCounts {
    /// Waiting for upstream items.
    pub waiting: u64,
    /// Ready, and held back by a concurrency limit of the run.
    pub ready: u64,
    /// With an instance that is QUEUED.
    pub queued: u64,
    /// With an instance that a worker holds.
    pub running: u64,
    /// With an instance that ended DONE.
    pub done: u64,
    /// With an instance that ended FAILED.
    pub failed: u64,
    /// With an instance that ended HALTED.
    pub halted: u64,
    /// Skipped: `when` is false, or an upstream task was skipped.
    pub skipped: u64,
    /// Blocked: an upstream item has failed.
    pub blocked: u64,
}

/// A run of a workflow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// Id of the run.
    pub id: String,
    /// Name of the workflow.
    pub name: String,
    /// Owner of the run.
    pub owner: String,
    /// Current state.
    pub state: UniversalState,
    /// Number of times it was started or resumed.
    pub generation: u32,
    /// How it is being halted, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halting: Option<HaltMode>,
    /// Whether its timeout has expired.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timed_out: bool,
    /// Whether a later run of its library workflow takes its place.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replaced: bool,
    /// Time of submission.
    pub submitted_at: u64,
    /// The client that has submitted or triggered it, if it is known and no schedule did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submitted_by: Option<Submitter>,
    /// When its current generation began.
    pub begun_at: u64,
    /// When its current generation ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<u64>,
    /// Revision of the library workflow that it was launched from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u32>,
    /// The due time, if a schedule launched it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nominal_at: Option<u64>,
    /// The backfill that has launched it for its due time; not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backfill: Option<String>,
    /// The upstream instance or run whose end launched it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Parameter values; not in lists.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
    /// Number of tasks; not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks: Option<u64>,
    /// Number of items by status; not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<ItemCounts>,
    /// Items that could not start for a reason of their own: a template that cannot be rendered, a
    /// `when` that cannot be evaluated. At most a hundred.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<RunProblem>,
    /// `self`, `tasks`, `items`, `errors`, `task` if it was launched from the library, and the
    /// available operations: `halt`, `resume`, `retry`, `extend`, `start`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// An item that could not start, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunProblem {
    /// Name of the task.
    pub task: String,
    /// Index of the item.
    pub item: u32,
    /// The reason.
    pub text: String,
}

/// A task of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunTask {
    /// Name of the task.
    pub name: String,
    /// Position in the plan, from 0.
    pub index: u32,
    /// Number of items by status.
    pub items: ItemCounts,
    /// Whether its items are not known yet, because they are outputs of an upstream task.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unmapped: bool,
    /// Upstream tasks.
    pub after: Vec<RunEdge>,
    /// Condition; the task is skipped unless it is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// What most of its waiting items wait for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Mean duration of its DONE instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_seconds: Option<f64>,
    /// How far one of its running instances has come: the one that was the last to report progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
}

/// Dependency of a task on an upstream task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RunEdge {
    /// Name of the upstream task.
    pub task: String,
    /// Required outcome of the upstream task.
    pub condition: Condition,
    /// Whether items depend pairwise, and not each on all.
    pub by_item: bool,
}

/// An item whose instance is in flight or has ended.
// Generic, because this crate does not depend on a JSON library.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", bound(deserialize = "V: Deserialize<'de>"))]
pub struct RunItem<V> {
    /// Name of the task.
    pub task: String,
    /// Index of the item.
    pub item: u32,
    /// Its value, any JSON; absent if the task has neither `for_each` nor `matrix`.
    #[serde(
        default = "Option::default",
        deserialize_with = "once::present",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Value>))]
    pub value: Option<V>,
    /// Id of its instance.
    pub instance: String,
    /// State of its instance.
    pub state: UniversalState,
    /// Generation in which it ran.
    pub generation: u32,
    /// Attempts so far, including a running one.
    #[serde(default)]
    pub attempts: u32,
    /// Start of its last attempt, by the clock of the worker; while it runs, when the worker
    /// confirmed it, by the clock of the scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<u64>,
    /// End of its last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<u64>,
    /// Worker that holds it, or held it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// How its last attempt ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_text: Option<String>,
    /// CPU time of its last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<f64>,
    /// Peak memory of any one process of its last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_peak_bytes: Option<u64>,
    /// Its outputs, as the text of a JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<String>,
    /// `instance`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// Failures of a run or a range of the same kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ErrorGroup {
    /// Name of the task.
    pub task: String,
    /// The common end of the attempts.
    pub end_text: String,
    /// Number of failures.
    pub count: u64,
    /// Id of one of the instances.
    pub example: String,
    /// The last lines of its standard error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_tail: Option<String>,
    /// `example`, `stderr`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// Body of `POST /runs/{id}/halt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HaltRun {
    /// Whether running instances finish or are killed.
    pub mode: HaltMode,
    /// Only if this generation is live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
}

/// Body of `POST /runs/{id}/resume`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResumeRun<F> {
    /// The workflow, if it has changed.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub file: Option<F>,
    /// Parameter values, with a file. Values of the run stay in force for parameters that the file
    /// still has and that are not set here.
    #[serde(
        default,
        deserialize_with = "once::texts",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub params: BTreeMap<String, String>,
    /// Only if this generation is the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
}

/// Body of `POST /runs/{id}/retry`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RetryRun {
    /// Run this task again, including its DONE items.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Also run everything downstream of it again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub downstream: bool,
    /// Other values of parameters. Tasks that refer to them run again.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
    /// Only if this generation is the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
}

/// Preview of a resume or a retry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ResumePreview {
    /// All tasks of the plan that would be resumed.
    pub tasks: Vec<ResumeTask>,
    /// Tasks of the previous plan that no longer exist.
    pub removed: Vec<String>,
}

/// Preview of a resume or a retry for one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ResumeTask {
    /// Name of the task.
    pub name: String,
    /// DONE items that are not run again.
    pub kept: u64,
    /// Items that run, or run again; absent if not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<u64>,
    /// Why it runs: `unfinished`, `changed`, `downstream of a change`, `new`, `asked for`; absent if
    /// every item is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
