//! Fleets and their jobs.

use serde::{Deserialize, Serialize};

use serde_json::Value;

use super::{FileProblem, Links};
use crate::fleet::{CancelCause, JobEnd, JobState, Removal};

/// All fleets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct FleetPage {
    /// By name.
    pub items: Vec<Fleet>,
    /// Errors of the file of fleets; the definitions before them stay in force.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<FileProblem>,
    /// `self`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// A fleet: where the scheduler obtains workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Fleet {
    pub name: String,
    /// What carries out its requests: `slurm`, `ssh`, `local` or `command`.
    pub backend: String,
    /// Its definition, in the schema of a file of fleets.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub definition: Value,
    /// The file that defines it; absent if a client has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Whether it requests nothing until it is resumed.
    pub paused: bool,
    /// How its last jobs end, if it was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<Removal>,
    /// Its workers that are connected.
    pub workers: u32,
    /// Workers that were requested and are not connected yet.
    pub expected: u32,
    /// Workers of all its jobs, which count against `max`.
    pub requested: u32,
    /// Workers that there may be.
    pub max: u32,
    /// Further workers that would help.
    pub wanted: u32,
    /// What it requests now or next, and why no more.
    pub plan: String,
    /// What an operator should know.
    pub alarms: Vec<String>,
    /// Seconds until the next trial of a fleet whose jobs have failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_trial_seconds: Option<u64>,
    /// Nodes that its next job avoids.
    pub avoided_nodes: Vec<String>,
    /// Its jobs that have not ended.
    pub jobs: Vec<FleetJob>,
    /// `self`, `jobs`, and what may be done with it.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// The state of a fleet at a glance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FleetState {
    /// It was removed, and its last jobs are ending.
    Ending,
    Paused,
    /// It has alarms.
    Trouble,
    Well,
}

impl FleetState {
    /// Its name in lists.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ending => "ending",
            Self::Paused => "paused",
            Self::Trouble => "in trouble",
            Self::Well => "well",
        }
    }
}

impl Fleet {
    /// Its state at a glance.
    #[must_use]
    pub const fn state(&self) -> FleetState {
        match self {
            Self {
                removed: Some(_), ..
            } => FleetState::Ending,
            Self { paused: true, .. } => FleetState::Paused,
            Self { alarms, .. } if !alarms.is_empty() => FleetState::Trouble,
            _ => FleetState::Well,
        }
    }
}

/// A job that was requested of a fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct FleetJob {
    /// Its id, such as `p12`.
    pub id: String,
    pub fleet: String,
    /// Its name in the lists of the cluster manager.
    pub name: String,
    /// Its id there, once that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<String>,
    /// Workers that it starts.
    pub workers: u32,
    /// The last state that the cluster manager reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<JobState>,
    /// Its state and the reason for it, in words.
    pub text: String,
    /// The nodes on which it runs or ran.
    pub nodes: Vec<String>,
    pub requested_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<u64>,
    /// When the first of its workers connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrived_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<u64>,
    /// Why it is or was cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<CancelCause>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<JobEnd>,
}

/// What the jobs of a fleet have used in a period.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct FleetUsage {
    pub fleet: String,
    /// Jobs that ran at some time of it.
    pub jobs: u64,
    /// Those of them that have failed.
    pub failed: u64,
    /// Their run times within the period, in sum.
    pub job_seconds: f64,
    /// The same, times the workers of each.
    pub worker_seconds: f64,
}

/// The end of a log of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct FleetJobLog {
    /// Its file in the directory of the fleet.
    pub file: String,
    /// The position of its first byte; 0 if it is the whole log.
    pub begin: u64,
    /// Bytes that are no text are replaced.
    pub text: String,
}

/// Body of `PUT /fleets/{name}/paused`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PauseFleet {
    pub paused: bool,
}

/// Query of `DELETE /fleets/{name}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema, utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
#[serde(default, deny_unknown_fields)]
pub struct RemoveFleet {
    /// Let running jobs end when their workers have no more work, instead of cancelling them.
    pub drain: bool,
}
