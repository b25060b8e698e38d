//! Events and actions of the supervisor.

use std::sync::Arc;

use baton_model::device::DeviceShare;
use baton_model::ids::{LeaseId, RequestId};
use baton_model::message::{
    LeaveCause, LogAnswer, LogQuery, ProcessAnswer, ProcessQuery, ToScheduler, ToWorker,
};
use baton_model::outcome::{KillCause, Report};
use baton_model::task::{Identity, Moment, RunKey};
use baton_model::time::{Millis, Mono};

use crate::protocol::worker::io::GuardOrder;
use crate::takeover;

/// The end of a run, as it was observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    pub at: Mono,
    /// With the outputs, if it was a success and they can be read; otherwise with the last lines of
    /// standard error.
    pub report: Report,
    /// It was a success, and its outputs cannot be read.
    pub has_bad_outputs: bool,
}

/// What is known of a run that no coordinator watches.
pub type Sighting = takeover::Sighting<Ending>;

/// An event of the supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Time has passed.
    Tick,
    /// A message from the scheduler.
    Message(ToWorker),
    /// This incarnation was given up before, and can only end.
    GiveUp,
    /// A part of a log was read.
    LogsRead(RequestId, LogAnswer),
    /// The processes of an attempt were read.
    ProcessesRead(RequestId, ProcessAnswer),
    /// A run waits at the coordinator for room.
    Accepted(RunKey),
    /// The process of a run was started.
    Started {
        run: RunKey,
        at: Moment,
        identity: Identity,
        /// The devices that its attempt holds.
        devices: Vec<DeviceShare>,
    },
    /// A run is over.
    Ended(RunKey, Ending),
    /// An adopted run is gone, and the coordinator cannot know how it ended.
    Unknown(RunKey, Sighting),
    /// The coordinator will not start a run.
    Refused(RunKey),
    /// A run cannot be launched because of this fault of the host. The coordinator has no record of
    /// it.
    HostFault(RunKey, Arc<str>),
    /// An order to kill everything was carried out; so many processes are left.
    EverythingKilled { id: u64, left: u32 },
    /// The processes of unknown runs were killed; so many are left.
    StraysKilled { left: u32 },
    /// A run can be launched on no host: the fault is of its work.
    LaunchImpossible(RunKey, Option<Arc<str>>),
    /// Scheduler: the secrets of an attempt have come, and its processes will find them.
    SecretsHere(LeaseId),
    /// Scheduler or host: an attempt cannot have its secrets, for this reason.
    SecretsMissing(LeaseId, Arc<str>),
    /// All processes of a run use so many bytes of memory.
    MemoryUsed(RunKey, u64),
    /// The worker is told to end, for this cause.
    Leave(LeaveCause),
}

/// An action for the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this to the scheduler.
    Send(ToScheduler),
    /// Read a part of a log and report [`Event::LogsRead`].
    ReadLogs(RequestId, LogQuery),
    /// Read the processes of an attempt and report [`Event::ProcessesRead`].
    ReadProcesses(RequestId, ProcessQuery),
    /// Coordinator: start this run of an attempt. If that is impossible: [`Event::LaunchImpossible`].
    Launch(RunKey),
    /// Coordinator: do what a launch does, with a trivial process, as this run.
    Check(RunKey),
    /// Coordinator: watch this run, which another coordinator has started.
    Adopt(RunKey),
    /// Coordinator: hold these devices for an attempt whose next run is started later.
    HoldDevices {
        run: RunKey,
        devices: Vec<DeviceShare>,
    },
    /// Coordinator: give this run back if it still waits.
    Withdraw(RunKey),
    /// Coordinator: stop this run, at once if there is no grace. A runner stops the processes of
    /// its task itself.
    Stop {
        run: RunKey,
        grace: Millis,
        cause: KillCause,
    },
    /// Coordinator: signal the processes of this run, which go on.
    Warn { run: RunKey, signal: i32 },
    /// Coordinator: kill what is left of a run that belongs to no attempt.
    KillRun(RunKey),
    /// Coordinator: kill processes of runs that it does not know, and report
    /// [`Event::StraysKilled`].
    KillStrays,
    /// Coordinator: kill everything and launch nothing more.
    KillEverything { id: u64, grace: Millis },
    /// Coordinator: drop the record of this run.
    Forget(RunKey),
    /// Coordinator: kill attempts at their deadlines unless told otherwise before.
    Guard(GuardOrder),
    /// Make durable that this incarnation can only end: the next agent must end it, too.
    GiveUp,
    /// This incarnation has ended, and so have all its processes. If the worker
    /// [leaves](crate::protocol::worker::Worker::is_leaving), no other follows.
    EndLife,
}
