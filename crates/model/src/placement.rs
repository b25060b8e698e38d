//! What an instance asks of a worker, and what a worker offers.
//!
//! Nothing here decides: which instance goes where is `baton_core::placement`.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::task::Resources;

/// What a worker has in all, whether in use or not.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Capacity {
    /// Thousandths of a core.
    pub cpu_milli: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes of disk.
    pub disk: u64,
    /// Whole devices.
    pub gpu: u32,
    /// Anything else that can be counted, such as licences.
    pub named: BTreeMap<String, u64>,
}

/// What a worker says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Offer {
    pub capacity: Capacity,
    /// What it is, for constraints.
    pub labels: BTreeMap<String, String>,
    /// False while it is drained or unhealthy: it keeps what runs, and gets nothing.
    pub open: bool,
}

/// A condition on one label of a worker.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Constraint {
    pub label: String,
    /// What must be true of it.
    pub rule: Rule,
}

/// What must be true of a label.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// It has one of these values.
    OneOf(BTreeSet<String>),
    /// It has none of these values; a worker without the label will do.
    NoneOf(BTreeSet<String>),
    /// It is there, with any value.
    Present,
    /// It is not there.
    Absent,
}

/// All that placement knows of an instance's wishes. Instances whose asks come to
/// the same are one class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct ResourceRequest {
    /// What it uses. Memory is placed by its minimum; the maximum is for the
    /// worker to enforce.
    #[serde(rename = "request")]
    pub resources: Resources,
    /// Where it may run: all of them hold.
    pub constraints: Vec<Constraint>,
}
