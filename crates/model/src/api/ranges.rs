//! Ranges of instances.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Links;
use crate::state::UniversalState;

/// `GET /instances/{first}..{last}`, also of several ids and ranges, separated by commas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RangeSummary {
    /// Id of the first instance.
    pub first: String,
    /// Id of the last instance.
    pub last: String,
    /// Number of instances by state; states without instances are omitted.
    pub counts: BTreeMap<UniversalState, u64>,
    /// The range in equal parts, by id, if the request asks for them; parts without instances are omitted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<RangePart>,
    /// `self`; `cancel` while any of them has not ended; `errors` and `retry` if any has failed.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// A part of a range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct RangePart {
    /// Id of the first instance.
    pub first: String,
    /// Id of the last instance.
    pub last: String,
    /// Number of instances by state.
    pub counts: BTreeMap<UniversalState, u64>,
}
