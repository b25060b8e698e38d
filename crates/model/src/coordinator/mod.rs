//! The calls between a coordinator and its runner or agent, and the records of its log.
//!
//! Every request about a run is idempotent: (process, run) identifies it. Replies may be lost with
//! a connection; the next Hello repeats their contents until [`Request::Forget`].
//!
//! | file | holds |
//! |---|---|
//! | `launch` | launches |
//! | `record` | records of the log, and the state that they add up to |

mod launch;
mod record;

use serde::{Deserialize, Serialize};

use crate::cpu::NodeSizes;
use crate::device::{DeviceLists, DeviceShare};
use crate::ids::Epoch;
use crate::outcome::{KillCause, Outcome};
use crate::task::{Identity, Moment, RunKey};
use crate::time::{Millis, Mono, Stamp};

pub use launch::{Attempt, AttemptPaths, Credentials, DeviceClaim, Launch, Limit, Sink};
pub use record::{CoordinatorRecord, Evidence};

/// The protocol version. A coordinator outlives the runner that started it, and so may meet a later
/// version of it.
pub const VERSION: u32 = 1;

/// The dead-man timer's order on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Guard {
    /// That of attempts without a term of their own.
    pub deadline: Mono,
    /// From SIGTERM to SIGKILL.
    pub grace: Millis,
    /// From SIGTERM until everything is certainly dead.
    #[serde(default)]
    pub kill_max: Millis,
    /// The epoch of the leader that gave it.
    pub epoch: Epoch,
    /// The heartbeat that it answers.
    pub stamp: Stamp,
}

/// A request of the runner, or of a worker's agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// Sent first: the children that the runner had before it began the task. After a coordinator
    /// has died, its processes may have become children of the runner too, and these must be told
    /// apart.
    Attach {
        /// These, with all their descendants, do not belong to the task.
        spared: Vec<Identity>,
        /// The reaper of a worker: what is below it belongs to the worker.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reaper: Option<Identity>,
    },
    /// Sets the capacity of each resource that launches claim; replaces an earlier one. From the
    /// first of these on, a launch whose claim does not fit beside what runs waits, first come
    /// first served: behind a waiting launch every launch with a claim waits. One that claims more
    /// than the total capacity runs when nothing else with a claim does. A launch that needs devices
    /// waits in the same queue, and starts with all of them or is refused.
    Capacity {
        amounts: Vec<u64>,
        /// The devices that can be assigned.
        #[serde(default, skip_serializing_if = "DeviceLists::is_empty")]
        devices: DeviceLists,
        /// The NUMA nodes of the cores among them.
        #[serde(default, skip_serializing_if = "NodeSizes::is_empty")]
        core_nodes: NodeSizes,
    },
    /// Hold these devices for an attempt whose next run is started later: the processes that its
    /// last run has left use them.
    HoldDevices {
        run: RunKey,
        devices: Vec<DeviceShare>,
    },
    /// Start a run. Answered by `Started` or `Ended`; by `Accepted` first if it has to wait, by
    /// `Refused` if it may not start, and by `HostFault` if this host cannot start it.
    Launch { run: RunKey, launch: Box<Launch> },
    /// Withdraw a waiting run. Answered by `Refused` if it waits; otherwise not at all, since other
    /// replies report its state.
    Withdraw { run: RunKey },
    /// Stop a run, and kill all of it after the grace. Answered by `Ended`, or by `Unknown`. A
    /// waiting run ends at once, without being started.
    Stop {
        run: RunKey,
        /// The first signal.
        signal: i32,
        /// From it to SIGKILL.
        grace: Millis,
        /// The cause; it becomes the outcome if the run dies of it.
        #[serde(default = "requested", skip_serializing_if = "is_requested")]
        cause: KillCause,
    },
    /// Signal the processes of a run that has started. Not answered, and nothing else follows from
    /// it: the run goes on. A runner passes it on to the processes of its task.
    Signal { run: RunKey, signal: i32 },
    /// Kill what is left of a run that counts as over. Not answered, but completed before any later
    /// request. A waiting run ends at once, as by `Stop`.
    KillRun { run: RunKey },
    /// Kill every process that carries the mark of a run that is neither known here nor was
    /// adopted: those that an earlier coordinator launched and did not record. Completed before any
    /// later request, and answered by `StraysKilled`.
    KillStrays,
    /// Kill every process of the task: with a grace SIGTERM first, and SIGKILL after it. Answered
    /// by `Ended` for each run, then by `EverythingKilled`.
    KillEverything {
        /// Not 0; returned with the answer.
        id: u64,
        grace: Millis,
    },
    /// Run a command as a check. Answered by `Probed`.
    Probe {
        /// Chosen by the runner.
        id: u64,
        run: RunKey,
        /// Its output is discarded.
        launch: Box<Launch>,
        /// After this time it counts as failed, and is killed.
        timeout: Millis,
    },
    /// Take over a run that was launched by a dead coordinator. Answered by `Ended` in the end, or
    /// by `Unknown` if it is gone and its status cannot be known.
    Adopt {
        run: RunKey,
        at: Moment,
        identity: Identity,
        /// The attributes of its launch, for a worker's attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<Box<Attempt>>,
    },
    /// The end of this run is durable in the runner's log.
    Forget { run: RunKey },
    /// Move the deadlines of the dead-man timer.
    Guard(Guard),
    /// Terminate the coordinator.
    Exit,
}

fn requested() -> KillCause {
    KillCause::Requested
}

fn is_requested(cause: &KillCause) -> bool {
    *cause == KillCause::Requested
}

/// Resources used by a run, as counted by the kernel: its first process, with all descendants that
/// were waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Usage {
    /// User and system processor time.
    pub cpu: Millis,
    /// The peak memory of one of its processes, in bytes.
    pub memory_peak: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RunEnd {
    pub run: RunKey,
    pub at: Moment,
    pub outcome: Outcome,
    /// `None` if it was never started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Moment>,
    /// `None` if it was not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

impl RunEnd {
    /// The end of a run that was never started.
    #[must_use]
    pub fn unstarted(run: RunKey, at: Moment, outcome: Outcome) -> Self {
        Self {
            run,
            at,
            outcome,
            started: None,
            usage: None,
        }
    }
}

/// The state of a run, as the coordinator knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KnownRun {
    pub run: RunKey,
    /// Its process, unless it could not be launched.
    pub started: Option<(Moment, Identity)>,
    /// Its end, if it is over.
    pub ended: Option<RunEnd>,
    /// It was accepted and is not started yet. In the log of a dead coordinator: its start was not
    /// recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waiting: bool,
    /// [`Launch::tag`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tag: String,
    /// The devices that its attempt holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceShare>,
}

impl KnownRun {
    /// A run that was accepted and is not started yet.
    #[must_use]
    pub const fn waiting(run: RunKey, tag: String) -> Self {
        Self {
            run,
            started: None,
            ended: None,
            waiting: true,
            tag,
            devices: Vec::new(),
        }
    }
}

/// A reply of the coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// Sent first: the full state, without runs that were forgotten.
    Hello {
        /// [`VERSION`] of the coordinator.
        version: u32,
        mark: String,
        pid: u32,
        runs: Vec<KnownRun>,
        /// The order of the dead-man timer that is in force.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        guard: Option<Guard>,
    },
    /// A run waits for capacity.
    Accepted { run: RunKey },
    /// A run's process was started.
    Started {
        run: RunKey,
        at: Moment,
        identity: Identity,
        /// The devices that its attempt holds.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        devices: Vec<DeviceShare>,
    },
    /// A run is over, or could not be launched.
    Ended(RunEnd),
    /// There is no such run here, or its exit status cannot be known.
    Unknown { run: RunKey },
    /// It was not launched and will not be: the dead-man timer is not set or has run out, or it
    /// waited and was withdrawn, or everything was killed meanwhile.
    Refused { run: RunKey },
    /// It was not launched because of a fault of this host, and is not on record: an attempt of a
    /// worker, or its health check.
    HostFault { run: RunKey, reason: String },
    /// Every process of the task is gone, except this many that could not be killed.
    EverythingKilled {
        id: u64,
        /// Stuck in the kernel, or owned by another user.
        left: u32,
    },
    /// Every process of an unknown run is gone, except this many that could not be killed.
    StraysKilled { left: u32 },
    /// The result of a check.
    Probed {
        id: u64,
        /// It exited with 0 in time.
        well: bool,
    },
}
