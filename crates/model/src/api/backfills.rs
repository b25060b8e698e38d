//! Backfill types of the HTTP API.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Links;
use crate::backfill::BackfillHalt;

/// Body of `POST /{owner}/tasks/{name}/backfills/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BackfillRequest {
    /// Start of the interval, in milliseconds since 1970.
    pub from: u64,
    /// End of the interval, not included; not in the future.
    pub to: u64,
    /// Maximum number of its instances or runs in flight at once; default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_concurrent: Option<u32>,
    /// Whether the latest due time is launched first.
    #[serde(default)]
    pub reverse: bool,
}

/// Outcome of a request for a backfill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct BackfillReply {
    /// Id of the backfill; missing of a dry run, and if every due time has a launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Number of due times in the interval.
    pub due: u64,
    /// The due times without a launch, in the order in which they are launched.
    pub at: Vec<u64>,
    /// Whether this was a dry run that changed nothing.
    pub dry_run: bool,
    /// `task`, and `backfill` if there is one.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// A backfill.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Backfill {
    /// Id, such as `b3`.
    pub id: String,
    /// Owner of the entry.
    pub owner: String,
    /// Name of the entry.
    pub name: String,
    /// `RUNNING`, `HALTED` or `DONE`.
    pub state: String,
    /// The reason, if it is halted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halted: Option<BackfillHalt>,
    /// Start of the interval.
    pub from: u64,
    /// End of the interval, not included.
    pub to: u64,
    /// Whether the latest due time is launched first.
    pub reverse: bool,
    /// Maximum number of its instances or runs in flight at once.
    pub max_concurrent: u32,
    /// The schedule whose due times it launches.
    pub schedule: String,
    /// Time zone of the schedule.
    pub zone: String,
    /// Number of due times in the interval.
    pub due: u64,
    /// Number of due times that it has launched.
    pub launched: u64,
    /// Number of due times that it has still to launch. The others had a launch already.
    pub remaining: u64,
    /// Launches by the state of their instances or runs; only of a single backfill. Those whose
    /// history was removed are missing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub states: BTreeMap<String, u64>,
    /// When the scheduler accepted it.
    pub registered_at: u64,
    /// When its state changed last.
    pub changed_at: u64,
    /// `self`, `task`, `launches`, and the available operation: `halt` or `resume`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// A due time that a backfill has launched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct BackfillLaunch {
    /// The due time.
    pub nominal_at: u64,
    /// Id of the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Id of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// State of the instance or run; missing if its history was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// `instance` or `run`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}
