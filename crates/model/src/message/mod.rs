//! The calls between a scheduler and a worker, and their replies.
//!
//! Every message names its association, or, where there is none yet, the incarnation
//! and the heartbeat it belongs to. What a receiver must do with each message
//! under failure, delay and replay is written in `docs/PROTOCOL.md`.
//!
//! Calls that a busy cluster makes thousands of times a second (`runTask`,
//! `updateStatus`) carry lists, so that a message costs per batch, not per item.

mod display;
mod log;
mod process;
mod tenure;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::device::DeviceShare;
use crate::fact::Holder;
use crate::ids::{
    Association, BootId, CheckId, Epoch, ExecutorId, Incarnation, LeaseId, NotifySeq, RequestId,
    WorkerName,
};
use crate::limits::{STATUS_OUTPUTS_BYTES_MAX, STATUSES_PER_MESSAGE_MAX};
use crate::outcome::{Outcome, Report};
use crate::placement::{MeasuredUse, Offer};
use crate::progress::Progress;
use crate::spec::{Allowance, InstanceSpec};
use crate::state::WorkerState;
use crate::time::{Millis, Stamp};
use crate::timeouts::WorkerTimeouts;
use crate::trace::TraceContext;
use crate::worker_set::KnownSet;

pub use log::{
    InvalidLogCursor, LogAnswer, LogChunk, LogCursor, LogFileId, LogQuery, LogStart, LogStream,
};
pub use tenure::{BUILD_SIGN, Greeting, HostSize, LeaveCause, Tenure};

pub use process::{AttemptProcesses, ProcessAnswer, ProcessQuery, ProcessStatus, UsageSample};

/// `processHeartbeat`: the only call that may be made without an association.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Heartbeat {
    /// Must equal [`crate::limits::PROTOCOL_VERSION`].
    pub version: u16,
    /// The caller: seat, incarnation, host and boot.
    pub worker: Holder,
    /// Its agent, as operators read it.
    pub executor: Option<ExecutorId>,
    /// How many attempts it can hold at once.
    pub slots: u32,
    /// Its total resources and its labels.
    pub offer: Arc<Offer>,
    /// The association it believes in, if any.
    pub association: Option<Association>,
    /// The highest epoch it has ever obeyed.
    pub epoch_seen: Epoch,
    /// Its own clock at sending; grows strictly within one incarnation.
    pub stamp: Stamp,
    /// Its own view of its health.
    pub state: WorkerState,
    /// The last worker set that it received.
    pub worker_set: Option<KnownSet>,
    /// The time for work that it has left, and whether it is leaving.
    pub tenure: Tenure,
    /// Its version and its clock, in a heartbeat without an association.
    pub greeting: Option<Greeting>,
    /// What its attempts use; none if it has not been measured. A frame carries it beside the
    /// heartbeat, so that a heartbeat without it is encoded as by workers that do not measure.
    #[serde(skip)]
    pub measured: Option<MeasuredUse>,
}

/// The answer to a heartbeat that was accepted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HeartbeatReply {
    pub association: Association,
    /// The stamp of the heartbeat that is answered.
    pub stamp: Stamp,
    /// The worker's health as the scheduler sees it. MUST_DIE is an order.
    pub state: WorkerState,
    /// The worker's share of the time budget.
    pub timeouts: WorkerTimeouts,
    /// The current worker set, where consensus is in use.
    pub worker_set: Option<KnownSet>,
    /// Attempts on other workers for which this one is held, as a member of their gangs: it is not idle.
    pub held: u32,
}

/// Why a heartbeat was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// A later incarnation of the same state directory exists. An order to die.
    Superseded,
    /// Another worker holds the seat. An order to die.
    SeatTaken,
    /// This incarnation was condemned earlier. An order to die.
    Condemned,
    /// The protocol versions differ. Not an order: the worker continues as if the heartbeat had been
    /// lost.
    OtherVersion,
    /// Another machine is connected as the same state directory: this one is a copy. An order to die,
    /// and to begin a new lineage.
    Copied,
}

impl Refusal {
    /// True if the worker must kill its attempts and end this incarnation.
    #[must_use]
    pub const fn is_order_to_die(self) -> bool {
        !matches!(self, Self::OtherVersion)
    }
}

/// One attempt to start.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Launch {
    /// The lease under which it runs.
    pub lease: LeaseId,
    pub spec: Arc<InstanceSpec>,
    /// The allowance of this attempt, if it differs from the spec.
    pub allowance: Option<Box<Allowance>>,
    /// The span that its processes are children of.
    pub trace: Option<TraceContext>,
}

impl Launch {
    /// The time that the worker must have left.
    #[must_use]
    pub fn time_needed(&self) -> Option<Millis> {
        let allowed = self.allowance.as_ref();
        let timeout = allowed.map_or(self.spec.timeout, |allowance| allowance.timeout);
        let grown = allowed.map_or(&[][..], |allowance| &allowance.requests);
        self.spec.time_needed(timeout, grown)
    }
}

/// Why a worker will not start an attempt, now or ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LaunchRefusal {
    /// The worker does not consider itself HEALTHY.
    NotHealthy,
    /// The call was sent before a `notifyIfTasksNotRunning` that was answered.
    StaleSequence,
    /// The call answers a heartbeat older than the worker's lease.
    StaleStamp,
    /// Another attempt of the same instance still runs here.
    InstanceRuns,
    /// The lease was refused or finished here before.
    AlreadyOver,
    /// The worker holds as much as it can.
    Full,
    /// The coordinator would not start it: its dead-man timer had fired.
    GuardFired,
    /// The worker is ending.
    Leaving,
    /// It needs more time than the worker has left.
    TooLong,
}

/// A worker's answer to one launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LaunchVerdict {
    /// The coordinator has recorded it.
    Accepted,
    /// Certainly not started, and never will be.
    Refused(LaunchRefusal),
}

/// The two kinds of `updateStatus`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The attempt has ended.
    Ended(Report),
    /// The worker was asked about it, does not know it, and will never start it.
    WasNotRunning,
    /// The worker could not start it because of this fault of its host, and never will. At most
    /// [`crate::limits::FAULT_BYTES_MAX`].
    HostFault(Arc<str>),
}

impl Status {
    /// How the attempt has ended, if that was observed.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        match self {
            Self::Ended(report) => Some(report.outcome),
            Self::WasNotRunning | Self::HostFault(_) => None,
        }
    }

    /// Bytes of outputs and standard error in it.
    fn text_bytes(&self) -> usize {
        match self {
            Self::Ended(report) => report.text_bytes(),
            Self::WasNotRunning => 0,
            Self::HostFault(reason) => reason.len(),
        }
    }
}

/// Splits statuses into `updateStatus` messages that respect the limits on statuses and bytes.
pub fn update_status(
    association: Association,
    statuses: Vec<(LeaseId, Status)>,
) -> impl Iterator<Item = ToScheduler> {
    let mut left = statuses.into_iter().peekable();
    std::iter::from_fn(move || {
        left.peek()?;
        let mut bytes = 0;
        let mut statuses = Vec::with_capacity(left.len().min(STATUSES_PER_MESSAGE_MAX));
        while statuses.len() < STATUSES_PER_MESSAGE_MAX
            && bytes < STATUS_OUTPUTS_BYTES_MAX
            && let Some((lease, status)) = left.next()
        {
            bytes += status.text_bytes();
            statuses.push((lease, status));
        }
        Some(ToScheduler::UpdateStatus {
            association,
            statuses,
        })
    })
}

/// An attempt that a worker holds: running, or ended and not yet acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HeldAttempt {
    /// The lease under which it was started.
    pub lease: LeaseId,
    /// What it runs, so that a scheduler without a store can adopt it.
    pub spec: Arc<InstanceSpec>,
    /// How it ended, if it has and has put nothing out: a list of everything must fit into a
    /// frame. One that has is reported by a status.
    pub ended: Option<Report>,
}

/// A message from a worker to a scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ToScheduler {
    /// Associate, and stay alive.
    ProcessHeartbeat(Heartbeat),
    /// Attempts that ended, or were asked about and are not known.
    UpdateStatus {
        association: Association,
        /// Bounded by [`update_status`].
        statuses: Vec<(LeaseId, Status)>,
    },
    /// The reply to `getRunningTasks`.
    RunningTasks {
        association: Association,
        /// All attempts that the worker holds.
        held: Vec<HeldAttempt>,
    },
    /// The reply to `runTask`.
    RunTaskReply {
        association: Association,
        /// One for each launch that is decided.
        verdicts: Vec<(LeaseId, LaunchVerdict)>,
    },
    /// The reply to `notifyIfTasksNotRunning`.
    NotifyReply {
        association: Association,
        seq: NotifySeq,
        /// Those asked about that the worker does hold.
        held: Vec<LeaseId>,
    },
    /// The reply to `checkHealth`, unless the check failed for a known reason.
    HealthReport {
        association: Association,
        check: CheckId,
        /// Whether a launch works. Only workers before `HealthFault` report a failure so.
        ok: bool,
    },
    /// The reply to `getLogs`.
    Logs {
        association: Association,
        request: RequestId,
        answer: LogAnswer,
    },
    /// The reply to `getProcesses`.
    Processes {
        association: Association,
        request: RequestId,
        answer: ProcessAnswer,
    },
    /// The reply to a `checkHealth` that failed.
    HealthFault {
        association: Association,
        check: CheckId,
        /// At most [`crate::limits::FAULT_BYTES_MAX`].
        reason: Arc<str>,
    },
    /// The last message of a worker that ends in order: nothing of this incarnation runs, nothing
    /// of it will ever start, and every end was acknowledged.
    Goodbye {
        association: Association,
        cause: LeaveCause,
    },
    /// The devices of attempts: sent with the reply to their launch, and after `RunningTasks`. Only
    /// people read it; no decision depends on it.
    HeldDevices {
        association: Association,
        /// Attempts that hold none are left out.
        held: Vec<(LeaseId, Vec<DeviceShare>)>,
    },
    /// Asks for the secrets of an attempt that is about to start; repeated until they come, in a frame of
    /// their own, or the reason why there are none.
    GetSecrets {
        association: Association,
        lease: LeaseId,
    },
    /// How far running attempts have come, in their own words: what has changed, with a heartbeat. Only people
    /// read it; no decision depends on it.
    Progress {
        association: Association,
        /// At most [`crate::limits::PROGRESS_PER_HEARTBEAT_MAX`].
        attempts: Vec<(LeaseId, Progress)>,
    },
}

/// A message from a scheduler to a worker.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ToWorker {
    /// The heartbeat was accepted.
    HeartbeatReply(HeartbeatReply),
    /// The heartbeat was not accepted.
    HeartbeatRefused {
        /// The leader that refused.
        epoch: Epoch,
        incarnation: Incarnation,
        stamp: Stamp,
        refusal: Refusal,
    },
    /// Request for all attempts that the worker holds.
    GetRunningTasks { association: Association },
    /// Start these attempts.
    RunTask {
        association: Association,
        /// The scheduler's notify counter when this was sent.
        seq: NotifySeq,
        /// The worker's latest heartbeat stamp that the scheduler had seen.
        stamp: Stamp,
        /// At most [`crate::limits::LAUNCHES_PER_MESSAGE_MAX`].
        launches: Vec<Launch>,
    },
    /// Request to report which of these leases the worker does not hold, and never to start those.
    NotifyIfTasksNotRunning {
        association: Association,
        /// Greater than that of every `runTask` it asks about.
        seq: NotifySeq,
        /// The leases that the scheduler is unsure about.
        leases: Vec<LeaseId>,
    },
    /// Kill everything and end this incarnation.
    RequestSuicide { association: Association },
    /// Kill one attempt; its end arrives as a status.
    KillTask {
        association: Association,
        lease: LeaseId,
        /// From SIGTERM to SIGKILL, for a command. A task ends within its own `finalization_wait`
        /// instead. With 0, SIGKILL to all processes at once.
        grace: Millis,
    },
    /// Do what a launch does, with a trivial process, and report whether it worked.
    CheckHealth {
        association: Association,
        check: CheckId,
    },
    /// These statuses are durable: forget the attempts.
    StatusAck {
        association: Association,
        leases: Vec<LeaseId>,
    },
    /// Read a piece of a log.
    GetLogs {
        association: Association,
        /// Identifies the reply.
        request: RequestId,
        query: LogQuery,
    },
    /// Report the processes of an attempt.
    GetProcesses {
        association: Association,
        /// Identifies the reply.
        request: RequestId,
        query: ProcessQuery,
    },
    /// The goodbye is durable: the seat is empty.
    GoodbyeAck { association: Association },
}

/// The address of a message to a worker: several incarnations may claim a seat at once, and copies of
/// one state directory the same incarnation, so the name alone is not an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorkerAddress {
    pub worker: WorkerName,
    pub incarnation: Incarnation,
    pub boot: BootId,
}

impl From<&Holder> for WorkerAddress {
    fn from(holder: &Holder) -> Self {
        Self {
            worker: holder.worker.clone(),
            incarnation: holder.incarnation,
            boot: holder.boot,
        }
    }
}
