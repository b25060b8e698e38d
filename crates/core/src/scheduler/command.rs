//! Commands of clients, and the replies to them.
//!
//! Every command is answered by one reply, released when everything decided so far is durable. A new command is a
//! variant of each, an arm of [`execute`], and the function that carries it out.

use std::sync::Arc;

use baton_model::fact::Fact;
use baton_model::ids::{
    AttemptNo, Generation, InstanceId, Lineage, RequestId, Revision, RunId, WorkerName,
};
use baton_model::library::Pause;
use baton_model::message::{LogAnswer, LogQuery, ProcessAnswer, ProcessQuery};
use baton_model::outcome::KillMode;
use baton_model::rate::LimitValue;

use super::backfill::{self, BackfillCommand, BackfillError, BackfillReply};
use super::dependencies::EndMark;
use super::fleets::{self, FleetCommand};
use super::instances::{self, CancelCounts, KillError, RetryError, Submission, SubmitError};
use super::library::{
    self, DefineCommand, DefineReply, LibraryError, PauseCommand, RemoveCommand, TriggerCommand,
    TriggerError, TriggerReply,
};
use super::limits::{self, LimitError};
use super::runs::{Deadlines, RunCommand, RunError, execute as execute_run};
use super::shares::{self, ShareError};
use super::timetable::Timetable;
use crate::fleet::{Controller, FleetError};
use crate::ledger::Instance;
use crate::protocol::scheduler::Protocol;
use crate::scheduler::context::Cx;

/// A command of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Creates instances. With dependencies it needs a mark, after which the states of their
    /// upstream work were read.
    Submit {
        submission: Submission,
        mark: Option<EndMark>,
    },
    /// Stops all instances of a range that are not over.
    Cancel {
        first: InstanceId,
        last: InstanceId,
        mode: KillMode,
    },
    /// Kills one attempt as if it had ended by itself; without a number, the one that runs.
    KillAttempt {
        instance: InstanceId,
        attempt: Option<AttemptNo>,
        mode: KillMode,
    },
    /// Retries an instance that has ended. It is passed as the store has it, since ended ones are
    /// not in memory.
    Retry(Box<Instance>),
    /// Drains a worker, which then gets no more work, or ends that.
    Drain { worker: WorkerName, drained: bool },
    /// Sets a cluster-wide limit, or removes the value that was set.
    SetLimit {
        name: String,
        value: Option<LimitValue>,
    },
    /// Sets the weight of an owner among fair turns; 1 removes it.
    SetShare { owner: String, weight: u32 },
    /// Changes the concurrency limit of the array with these instances, or removes it.
    LimitArray {
        first: InstanceId,
        last: InstanceId,
        total: Option<u32>,
    },
    /// An operator vouches that a worker is gone, with every incarnation seen of its state directory:
    /// the given one, or else that of the worker that has this name.
    Forget {
        worker: WorkerName,
        lineage: Option<Lineage>,
    },
    /// Reads a log from a worker.
    ReadLogs { worker: WorkerName, query: LogQuery },
    /// Reads the processes of an attempt from a worker.
    ReadProcesses {
        worker: WorkerName,
        query: ProcessQuery,
    },
    /// Defines a task of the library.
    Define(Box<DefineCommand>),
    /// Removes a task from the library.
    Remove(RemoveCommand),
    /// Pauses a task of the library, or ends its pause.
    Pause(PauseCommand),
    /// Registers, halts or resumes a backfill.
    Backfill(Box<BackfillCommand>),
    /// Triggers a task of the library.
    Trigger(TriggerCommand),
    /// Registers, changes, halts or resumes a run.
    Run(Box<RunCommand>),
    /// Defines, removes, pauses or resumes a fleet.
    Fleet(Box<FleetCommand>),
    /// A channel of notifications cannot deliver, or can again.
    ReportChannel {
        channel: String,
        fault: Option<Arc<str>>,
    },
    /// Does nothing: its reply says that everything decided before is durable.
    Sync,
}

/// The reply to a command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// The first and the last instance.
    Submitted(Result<(InstanceId, InstanceId), SubmitError>),
    Cancelled(CancelCounts),
    /// The attempt that is killed.
    AttemptKilled(Result<AttemptNo, KillError>),
    Retried(Result<(), RetryError>),
    Drained,
    LimitSet(Result<(), LimitError>),
    ShareSet(Result<(), ShareError>),
    /// Whether there was a worker of that name.
    Forgotten(bool),
    Logs(LogAnswer),
    Processes(ProcessAnswer),
    Defined(Result<DefineReply, LibraryError>),
    /// The revision that it had.
    Removed(Result<Revision, LibraryError>),
    /// Its pause now.
    Paused(Result<Option<Pause>, LibraryError>),
    Backfill(Result<BackfillReply, BackfillError>),
    Triggered(Result<TriggerReply, TriggerError>),
    /// The run and its current generation.
    Run(Result<(RunId, Generation), RunError>),
    Fleet(Result<(), FleetError>),
    ChannelReported,
    Synced,
}

/// Carries out a command of a client. Without a reply here, a later input brings it.
pub(super) fn execute(
    cx: &mut Cx<'_>,
    protocol: &mut Protocol,
    table: &mut Timetable,
    deadlines: &mut Deadlines,
    fleet_controller: &mut Controller,
    request: RequestId,
    command: Command,
) -> Option<Reply> {
    Some(match command {
        Command::Submit { submission, mark } => {
            Reply::Submitted(instances::submit(cx, submission, mark))
        }
        Command::Cancel { first, last, mode } => {
            Reply::Cancelled(instances::cancel(cx, protocol, first, last, mode))
        }
        Command::KillAttempt {
            instance,
            attempt,
            mode,
        } => Reply::AttemptKilled(instances::kill(cx, protocol, instance, attempt, mode)),
        Command::Retry(instance) => Reply::Retried(instances::retry(cx, *instance)),
        Command::Drain { worker, drained } => {
            drain(cx, protocol, &worker, drained);
            Reply::Drained
        }
        Command::SetLimit { name, value } => Reply::LimitSet(limits::set(cx, &name, value)),
        Command::SetShare { owner, weight } => Reply::ShareSet(shares::set(cx, owner, weight)),
        Command::LimitArray { first, last, total } => {
            Reply::LimitSet(limits::set_array(cx, first, last, total))
        }
        Command::Forget { worker, lineage } => {
            let cx = &mut cx.protocol();
            let is_known = protocol.forget(cx, &worker, lineage);
            Reply::Forgotten(protocol.release_name(cx, &worker) || is_known)
        }
        Command::ReadLogs { worker, query } => {
            protocol.read_logs(&mut cx.protocol(), request, &worker, query);
            return None;
        }
        Command::ReadProcesses { worker, query } => {
            protocol.read_processes(&mut cx.protocol(), request, &worker, query);
            return None;
        }
        Command::Define(command) => Reply::Defined(library::define(cx, table, *command)),
        Command::Remove(command) => Reply::Removed(library::remove(cx, table, &command)),
        Command::Pause(command) => Reply::Paused(library::pause(cx, table, command)),
        Command::Backfill(command) => Reply::Backfill(backfill::execute(cx, table, *command)),
        Command::Trigger(command) => Reply::Triggered(library::trigger(cx, table, command)),
        Command::Run(command) => Reply::Run(execute_run(cx, deadlines, *command)),
        Command::Fleet(command) => Reply::Fleet(fleets::execute(cx, fleet_controller, *command)),
        Command::ReportChannel { channel, fault } => {
            cx.commit(Fact::ChannelFaulted { channel, fault });
            Reply::ChannelReported
        }
        Command::Sync => Reply::Synced,
    })
}

fn drain(cx: &mut Cx<'_>, protocol: &mut Protocol, worker: &WorkerName, drained: bool) {
    if cx.ledger.drained().contains(worker) != drained {
        cx.commit(Fact::WorkerDrained {
            worker: worker.clone(),
            drained,
        });
    }
    protocol.offer_changed(&mut cx.protocol(), worker);
    if !drained {
        protocol.trust(&mut cx.protocol(), worker);
    }
}
