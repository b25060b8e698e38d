//! Resource requests of instances, and offers of workers.
//!
//! `baton_core::placement` decides which instance runs on which worker.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::cpu::NodeSizes;
use crate::device::{DeviceAmount, DeviceLists};
use crate::task::Resources;

/// The total resources of a worker, in use or not.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Capacity {
    /// Thousandths of a core.
    pub cpu_milli: u64,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes of disk.
    pub disk: u64,
    /// GPUs, of which parts may be claimed.
    pub gpu: DeviceAmount,
    /// Anything else that can be counted, such as licences.
    pub named: BTreeMap<String, u64>,
}

/// What the processes of a worker's attempts use, in sum, as the worker has measured it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MeasuredUse {
    /// Thousandths of a core, over the last seconds.
    pub cpu_milli: u64,
    /// Bytes of resident memory. Shared memory is counted once per process.
    pub memory: u64,
}

/// Failures of unrelated work on one worker, beside those on all others. Of each kind of work, by
/// owner and name, its last end on a worker counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Suspicion {
    /// Kinds of work that failed on the worker.
    pub failed: u32,
    /// Kinds of work that ended there.
    pub ended: u32,
    /// Kinds of work that failed on the others, summed over them.
    pub failed_elsewhere: u32,
    /// Kinds of work that ended on the others.
    pub ended_elsewhere: u32,
}

impl std::fmt::Display for Suspicion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} of the last {} different tasks failed there, and {} of {} elsewhere",
            self.failed, self.ended, self.failed_elsewhere, self.ended_elsewhere
        )
    }
}

/// The resources and labels that a worker reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Offer {
    pub capacity: Capacity,
    /// For constraints.
    pub labels: BTreeMap<String, String>,
    /// The devices of resources whose units the worker tells apart, in the order in which it assigns
    /// them.
    pub devices: DeviceLists,
    /// The NUMA nodes of its cores, which are devices, too.
    pub core_nodes: NodeSizes,
    /// False while it is drained or unhealthy: its attempts go on, and no more are placed on it.
    pub open: bool,
}

/// The label that every worker has: its name.
pub const WORKER_LABEL: &str = "worker";

/// The label of the workers that a fleet has requested: its name.
pub const FLEET_LABEL: &str = "fleet";

/// The label by which workers belong together: the members of a gang have the same value of it. Pilots of one
/// job of a fleet do.
pub const GROUP_LABEL: &str = "group";

/// The label with the name under which other hosts of its group reach a worker's host, if that is not the
/// host's own name.
pub const HOST_LABEL: &str = "host";

/// A condition on one label of a worker.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Constraint {
    pub label: String,
    pub rule: Rule,
}

/// The condition that a label must meet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// It has one of these values.
    OneOf(BTreeSet<String>),
    /// It has none of these values; a worker without the label matches.
    NoneOf(BTreeSet<String>),
    /// It is there, with any value.
    Present,
    /// It is not there.
    Absent,
}

/// Everything that placement knows about the requirements of an instance. Instances with
/// equivalent requests form one class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct ResourceRequest {
    /// Memory is placed by its minimum; the worker enforces the maximum.
    #[serde(alias = "request")]
    pub resources: Resources,
    /// All of them must hold.
    pub constraints: Vec<Constraint>,
}
