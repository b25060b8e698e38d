//! A task: processes in an order, with the policies under which they run.
//!
//! This is the definition *after* it was read and checked: every default is
//! filled in, every name is resolved, every template is bound. `baton-files` parses
//! task files and reports their errors; `baton-core`'s `plan` executes the task. The
//! records of the runner's checkpoint log, and their sum, are here too, as plain data.
//!
//! Invariants, which the builder of a task guarantees and the plan relies on: process
//! names are unique and not empty; every dependency names another process of the
//! task; dependencies form no cycle; nothing waits for the success or the exit of
//! a daemon; a regular process does not depend on an ephemeral one; final and
//! regular processes do not depend on each other.

mod check;
mod process;
mod progress;
mod record;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::cpu::Pin;
use crate::device::{DeviceAmount, WHOLE};
use crate::time::Millis;

pub use check::{Check, Probe};
pub use process::{
    Backoff, CommandLine, Condition, Dependency, ExecSettings, LogDestination, LogMode, Logger,
    OnKill, ProcessSpec, Rlimit, Stop,
};
pub use progress::{Disposition, Ending, LastRun, LiveRun, PlanSnapshot, ProcessProgress};
pub use record::{
    Identity, Moment, NextStep, PlanChange, PlanEvent, ProcessNo, RunEnd, RunKey, RunNo, StopCause,
};

/// The name of a process within its task, and of its log directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct ProcessName(pub String);

impl fmt::Display for ProcessName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The resources of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Resources {
    /// Thousandths of a core.
    pub cpu_milli: u64,
    /// Bytes of memory it needs to be placed.
    pub memory_min: u64,
    /// Bytes of memory at which it is stopped; 0 for no limit.
    pub memory_max: u64,
    /// Bytes of disk; 0 for no limit.
    pub disk: u64,
    /// Whole devices, or a part of one.
    pub gpu: DeviceAmount,
    /// Anything else that can be counted, such as `db/orders`.
    pub named: BTreeMap<String, u64>,
    /// What its processes are bound to; by default nothing. Then `cpu_milli` is in whole cores.
    pub pin: Option<Pin>,
}

impl Resources {
    /// The cores that it holds for itself.
    #[must_use]
    pub const fn cores(&self) -> u64 {
        match self.pin {
            Some(_) => self.cpu_milli.div_ceil(WHOLE),
            None => 0,
        }
    }
}

/// A task, ready to run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TaskSpec {
    pub name: String,
    /// Its namespace.
    pub owner: Option<String>,
    pub processes: Vec<ProcessSpec>,
    /// Permanently failed *processes* (not runs) that fail the task; 0 for no limit.
    pub max_failures: u32,
    /// How many processes may run at once; 0 for no limit.
    pub max_concurrency: u32,
    /// One budget for stopping what runs and for the final processes together.
    pub finalization_wait: Millis,
    /// The user it runs as, unless a process sets another.
    pub user: Option<String>,
    pub resources: Resources,
    /// Its allocated ports, by name.
    pub ports: BTreeMap<String, u16>,
}
