//! Launches: everything that the process of a run needs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cpu::{CpuList, Pin};
use crate::device::DeviceShare;
use crate::task::ExecSettings;
use crate::time::Millis;
use crate::timeouts::LeaseTerm;

/// The destination of one output stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sink {
    #[default]
    Null,
    /// To the end of the run's log file.
    File,
    /// To the run's log file through a process that rotates it.
    Rotate {
        /// Bytes in one file.
        size: u64,
        /// Old files kept.
        backups: u32,
    },
}

/// The user that a process runs as.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Credentials {
    pub uid: u32,
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

/// A limit of the kernel, with the kernel's number of the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Limit {
    /// The kernel's `RLIMIT_…` number.
    pub resource: u32,
    /// The soft limit; `u64::MAX` for none.
    pub soft: u64,
    /// The hard limit; `u64::MAX` for none.
    pub hard: u64,
}

/// Directory and logs of a worker's attempt in the coordinator's sandbox. Each is a single path
/// component: a launch with any other name fails.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AttemptPaths {
    /// Its working directory, below `work`; it belongs to the attempt's user.
    pub dir: String,
    /// The file below `logs` that standard output goes to, where that is [`Sink::File`].
    pub stdout: String,
    /// The same for standard error.
    pub stderr: String,
}

/// Everything that a launch needs. Names are resolved: users, signals and limits are numbers, the
/// program is a path or is searched along `PATH` of its environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Launch {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The complete environment.
    pub env: Vec<(String, String)>,
    /// The working directory. Empty for the directory of `paths`.
    pub cwd: String,
    /// Set for another user than the coordinator's own.
    pub credentials: Option<Credentials>,
    #[serde(flatten)]
    pub exec: ExecSettings,
    /// Limits of the kernel.
    pub limits: Vec<Limit>,
    /// The name of the process' log directory, below the sandbox's `.logs`.
    pub log: String,
    pub stdout: Sink,
    pub stderr: Sink,
    /// The file that standard output goes to instead, relative to the working directory. The
    /// process creates or empties it as its own user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_path: Option<String>,
    /// The same for standard error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_path: Option<String>,
    /// The directory with the secrets of its attempt. Its output passes a process that masks them, and
    /// unless it is a runner, its environment has those that are variables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<String>,
    /// Stored with the run and returned with it; opaque to the coordinator.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tag: String,
    /// The capacity that it occupies while it runs, for each resource of [`Request::Capacity`](super::Request::Capacity). An
    /// empty claim never waits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claim: Vec<u64>,
    /// The devices that it needs; it waits for them as for its claim.
    #[serde(default, skip_serializing_if = "DeviceClaim::is_empty")]
    pub devices: DeviceClaim,
    /// The CPUs that its process may run on; all of the coordinator's if it is empty. They follow from
    /// its cores.
    #[serde(default, skip_serializing_if = "CpuList::is_empty")]
    pub cpus: CpuList,
    /// The maximum run time; then it is stopped with SIGTERM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Millis>,
    /// From that SIGTERM to SIGKILL.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub timeout_grace: Millis,
    /// Set for a worker's attempt. The end of such a run means that none of its processes is left.
    #[serde(rename = "home", default, skip_serializing_if = "Option::is_none")]
    pub paths: Option<AttemptPaths>,
    /// The memory limit, in bytes; 0 for none. Not enforced where the coordinator has no control
    /// group with a memory controller.
    #[serde(default, skip_serializing_if = "is_unlimited")]
    pub memory_max: u64,
    /// How long a worker's attempt outlives the last answer of a scheduler.
    #[serde(default, skip_serializing_if = "is_lease")]
    pub term: LeaseTerm,
    /// If it dies of a signal that did not come from here, another run of the same process
    /// continues with what it leaves behind, so its leftovers are not touched.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resumes: bool,
    /// It is the runner of a task, which stops the processes of the task itself: a stop signals
    /// the runner alone, and everything only when its grace is over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_runner: bool,
    /// It is the health check of a worker: it runs in a directory, with logs, that are created for
    /// it as for an attempt, and removed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_check: bool,
}

/// The devices that a launch needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceClaim {
    /// Thousandths of devices of each resource: a part of one, or whole ones.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub amounts: BTreeMap<String, u64>,
    /// The variables that list the ids of the devices of a resource, with commas between them; empty
    /// if it holds none. They replace variables of the same name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, String>,
    /// The devices that its attempt holds already, for a later run of it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<DeviceShare>,
    /// What it is bound to, if it needs cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pin: Option<Pin>,
}

impl DeviceClaim {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.amounts.is_empty() && self.variables.is_empty() && self.held.is_empty()
    }
}

fn is_zero(span: &Millis) -> bool {
    *span == Millis(0)
}

pub(super) fn is_lease(term: &LeaseTerm) -> bool {
    *term == LeaseTerm::Lease
}

fn is_unlimited(amount: &u64) -> bool {
    *amount == 0
}

/// The part of a worker's attempt that another coordinator takes over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Attempt {
    /// As in [`Launch::tag`].
    pub tag: String,
    /// As in [`Launch::claim`].
    pub claim: Vec<u64>,
    /// The devices that it holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceShare>,
    /// As in [`Launch::timeout`], from the time of the launch.
    pub timeout: Option<Millis>,
    /// As in [`Launch::timeout_grace`].
    pub timeout_grace: Millis,
    /// As in [`Launch::term`].
    #[serde(default, skip_serializing_if = "is_lease")]
    pub term: LeaseTerm,
    /// As in [`Launch::resumes`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resumes: bool,
    /// As in [`Launch::is_runner`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_runner: bool,
}
