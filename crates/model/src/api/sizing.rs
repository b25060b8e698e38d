//! Requests and use by task.

use serde::{Deserialize, Serialize};

/// What the last attempts of a task have used, compared with what they requested.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TaskUsage {
    pub owner: String,
    /// The name of its workflow, if it is a task of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    /// The name of the task; none of the runs of the workflow as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Attempts that were looked at: the last ones, at most 200. Elements of an array and items of a workflow are
    /// attempts of one task.
    pub attempts: u64,
    /// Attempts that were ever measured.
    pub measured: u64,
    /// Of those looked at, how many have succeeded; all percentiles are theirs.
    pub succeeded: u64,
    pub failed: u64,
    pub out_of_memory: u64,
    pub timed_out: u64,
    /// When the first and the last of them were recorded.
    pub since_at: u64,
    pub last_at: u64,
    pub requested: TaskRequests,
    /// CPU time over run time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<Percentiles>,
    /// The largest resident memory of one process, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Percentiles>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elapsed_seconds: Option<Percentiles>,
    /// CPU time in percent of the requested cores over the run time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_percent: Option<u64>,
    /// The mean of the peaks in percent of the requested memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_percent: Option<u64>,
    pub suggestion: Suggestion,
}

/// The requests of the last attempt, as its file has them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TaskRequests {
    pub cpus: f64,
    /// Bytes that a worker must have; 0 if none were requested.
    pub memory: u64,
    /// Bytes at which an attempt is stopped; 0 for no limit.
    pub memory_limit: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_request_seconds: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<f64>,
}

/// The distribution of an amount, by nearest rank.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Percentiles {
    pub p50: f64,
    pub p95: f64,
    pub max: f64,
}

/// Better requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Suggestion {
    /// Lines for the file of the task; none if its requests suit it, or nothing can be said.
    pub lines: Vec<String>,
    /// A sentence for each request, or the reason for which there is no suggestion.
    pub reasons: Vec<String>,
}
