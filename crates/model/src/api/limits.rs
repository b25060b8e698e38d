//! Cluster-wide limits of resources, concurrency limits of arrays, and shares of owners.

use serde::{Deserialize, Serialize};

use super::Links;

/// A cluster-wide limit of a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Limit {
    /// Name of the resource that tasks request.
    pub name: String,
    /// How much of it may be in use at once. Of a rate, its burst: how much may start at once.
    pub capacity: u64,
    /// Starts per time, such as `10/s` or `5/30s`, if the limit is a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    /// How much is in use: more than the capacity after that was lowered. Of a rate, how much of its burst
    /// recent starts have taken.
    pub used: u64,
    /// Of a rate that is used up: seconds until the next start is possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_start_seconds: Option<f64>,
    /// Number of waiting instances that request it.
    pub waiting: u64,
    /// Where the capacity comes from: `flag` (`--limit` of the scheduler) or `run-time`.
    pub origin: LimitOrigin,
    /// The capacity that `--limit` of the scheduler sets, which a removal restores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<u64>,
    /// The rate that `--limit` of the scheduler sets, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_rate: Option<String>,
    /// `self`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

impl Limit {
    /// The value as a person sets it: `4`, or `10/s, burst 20`.
    #[must_use]
    pub fn value(&self) -> String {
        value(self.capacity, self.rate.as_deref())
    }

    /// The value that `--limit` of the scheduler sets, likewise.
    #[must_use]
    pub fn default_value(&self) -> Option<String> {
        let capacity = self.default?;
        Some(value(capacity, self.default_rate.as_deref()))
    }
}

fn value(capacity: u64, rate: Option<&str>) -> String {
    match rate {
        None => capacity.to_string(),
        Some(rate) => format!("{rate}, burst {capacity}"),
    }
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

/// Body of `PUT /limits/{name}`: a capacity, or a rate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetLimit {
    /// How much may be in use at once. 0 lets nothing start that requests it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(maximum = 9007199254740991_u64))]
    pub capacity: Option<u64>,
    /// Starts per time: `10/s`, `600/m`, `100/h`, `5/30s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    /// How much of a rate may start at once after a pause; by default what a tenth of a second brings, at
    /// least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(minimum = 1, maximum = 9007199254740991_u64)
    )]
    pub burst: Option<u64>,
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
    /// The rate now in force, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<String>,
    /// `limits`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

impl LimitRemoval {
    /// The value now in force, as a person sets it.
    #[must_use]
    pub fn value(&self) -> Option<String> {
        Some(value(self.capacity?, self.rate.as_deref()))
    }
}

/// Body of `PUT /instances/{id}/limit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetArrayLimit {
    /// How many elements may run at once, from now on; `null` for no limit.
    #[serde(deserialize_with = "Option::deserialize")]
    #[cfg_attr(feature = "openapi", schema(required = true, minimum = 1))]
    pub max_concurrent: Option<u32>,
}

/// The concurrency limit of an array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ArrayLimit {
    /// Id of the first instance of the array.
    pub first: String,
    /// Id of its last instance.
    pub last: String,
    /// How many elements may run at once; `null` if there is no limit.
    pub max_concurrent: Option<u32>,
    /// Number of elements that a worker has.
    pub in_flight: u64,
    /// `array`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// The share of an owner in fair turns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Share {
    pub owner: String,
    /// Turns that it gets for each one of an owner with weight 1, while both have work waiting of the same
    /// priority.
    pub weight: u32,
    /// `self`.
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, String>))]
    pub links: Links,
}

/// Body of `PUT /shares/{owner}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetShare {
    /// From 1 to 1,000; 1 is that of every owner without one.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1000))]
    pub weight: u32,
}
