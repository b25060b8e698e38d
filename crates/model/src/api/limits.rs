//! Cluster-wide limits of resources.

use serde::{Deserialize, Serialize};

use super::Links;

/// A cluster-wide limit of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Limit {
    /// Name of the resource that tasks request.
    pub name: String,
    /// How much of it may be in use at once.
    pub capacity: u64,
    /// How much is in use: more than the capacity after that was lowered.
    pub used: u64,
    /// Number of waiting instances that request it.
    pub waiting: u64,
    /// Where the capacity comes from: `flag` (`--limit` of the scheduler) or `run-time`.
    pub origin: LimitOrigin,
    /// The capacity that `--limit` of the scheduler sets, which a removal restores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<u64>,
    /// `self`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// Where the capacity of a limit comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LimitOrigin {
    /// `--limit` of the scheduler.
    Flag,
    /// It was set while the scheduler ran.
    RunTime,
}

/// Answer to `DELETE /limits/{name}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LimitRemoval {
    pub name: String,
    /// The capacity now in force, if `--limit` of the scheduler sets one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u64>,
    /// `limits`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}
