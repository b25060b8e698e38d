//! Inputs and effects of the worker machine.

use std::sync::Arc;

use baton_model::coordinator::Guard;
use baton_model::device::DeviceShare;
use baton_model::ids::{CheckId, Epoch, LeaseId, RequestId};
use baton_model::message::{
    Launch, LeaveCause, LogAnswer, LogQuery, ProcessAnswer, ProcessQuery, ToScheduler, ToWorker,
};
use baton_model::outcome::{KillCause, Report};
use baton_model::spec::InstanceSpec;
use baton_model::time::{Millis, Mono, Stamp};
use baton_model::timeouts::{LeaseTerm, worker_share};

/// An attempt that the coordinator has on record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    pub lease: LeaseId,
    pub spec: Arc<InstanceSpec>,
    /// None while it runs.
    pub ended: Option<Report>,
    /// The devices that it holds.
    pub devices: Vec<DeviceShare>,
}

/// An input of the worker machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Time has passed.
    Tick,
    /// A message from the scheduler.
    Message(ToWorker),
    /// The coordinator has recorded a launch.
    Launched(LeaseId),
    /// The devices that the coordinator has assigned to an attempt, before [`Input::Launched`].
    DevicesAssigned(LeaseId, Vec<DeviceShare>),
    /// The coordinator will not launch: its dead-man timer has run out.
    LaunchRefused(LeaseId),
    /// The coordinator has given an attempt back that had waited there for room and was
    /// not started.
    Withdrawn(LeaseId),
    /// The coordinator could not start an attempt because of this fault of the host.
    HostFault(LeaseId, Arc<str>),
    /// An attempt is over, and the coordinator has recorded how.
    Ended(LeaseId, Report),
    /// This incarnation was given up before, and can only end.
    GiveUp,
    /// A check was made: what a launch does, with a trivial process. If it failed, with the reason.
    CheckDone(CheckId, Result<(), Arc<str>>),
    /// A piece of a log was read.
    LogsRead(RequestId, LogAnswer),
    /// The processes of an attempt were read.
    ProcessesRead(RequestId, ProcessAnswer),
    /// It takes no more work, and is gone by this time.
    Leave(LeaveCause, Mono),
    /// No process of this incarnation is left, and none will start.
    AllDead,
}

/// An effect of the worker machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send this to the scheduler.
    Send(ToScheduler),
    /// Coordinator: record and launch this attempt.
    Launch(Launch),
    /// Coordinator: end this attempt, as `killTask` says.
    Kill(LeaseId, Millis),
    /// Coordinator: the same for everything, and launch nothing more.
    KillAll(KillCause, Millis),
    /// Coordinator: the scheduler is alive; kill attempts at their deadlines unless
    /// told otherwise before.
    Guard(GuardOrder),
    /// Coordinator: the scheduler knows the end; drop the record.
    Forget(LeaseId),
    /// Do what a launch does, with a trivial process, and report with [`Input::CheckDone`].
    RunCheck(CheckId),
    /// Read a piece of a log and report with [`Input::LogsRead`].
    ReadLogs(RequestId, LogQuery),
    /// Read the processes of an attempt and report with [`Input::ProcessesRead`].
    ReadProcesses(RequestId, ProcessQuery),
    /// This incarnation has ended, and so have all its processes.
    EndLife,
    /// The goodbye was acknowledged, or there is no more time for it.
    Left,
}

/// An order to the dead-man timer, sufficient to act without the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GuardOrder {
    /// That of attempts without a time of their own.
    pub deadline: Mono,
    /// From SIGTERM to SIGKILL.
    pub grace: Millis,
    /// From SIGTERM until everything is certainly dead.
    pub kill_max: Millis,
    /// The leader that is obeyed, for an agent that starts again.
    pub epoch: Epoch,
    /// The heartbeat that was answered, likewise.
    pub stamp: Stamp,
}

impl GuardOrder {
    /// The deadline of attempts with this term; `None` for no deadline.
    #[must_use]
    pub fn deadline_of(self, term: LeaseTerm) -> Option<Mono> {
        match term {
            LeaseTerm::Lease => Some(self.deadline),
            LeaseTerm::For(span) => Some(self.stamp.0 + worker_share(span, self.kill_max)),
            LeaseTerm::Unlimited => None,
        }
    }
}

impl From<Guard> for GuardOrder {
    fn from(guard: Guard) -> Self {
        Self {
            deadline: guard.deadline,
            grace: guard.grace,
            kill_max: guard.kill_max,
            epoch: guard.epoch,
            stamp: guard.stamp,
        }
    }
}

impl From<GuardOrder> for Guard {
    fn from(order: GuardOrder) -> Self {
        Self {
            deadline: order.deadline,
            grace: order.grace,
            kill_max: order.kill_max,
            epoch: order.epoch,
            stamp: order.stamp,
        }
    }
}
