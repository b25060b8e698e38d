//! Events of the driver, and its inbox.
//!
//! The inbox itself is unbounded; each sender is bounded: a worker connection by its unread bytes
//! ([`crate::limits::UNREAD_INPUT_BYTES_MAX`]), a client by one request, the store by the batches
//! it has accepted.

use std::sync::mpsc;

use baton_core::ledger::{Instance, Ledger};
use baton_core::scheduler::{
    CancelCounts, DefineCommand, DefineReply, LibraryError, Reason, RemoveCommand, RetryError,
    RunCommand, RunError, RunView, SubmitError, TriggerCommand, TriggerError, TriggerReply,
};
use baton_core::step::Receipt;
use baton_model::api::Worker;
use baton_model::ids::{Epoch, Generation, InstanceId, Revision, RunId, WorkerName};
use baton_model::message::{LogAnswer, LogQuery, ToScheduler};
use baton_model::spec::InstanceSpec;
use baton_model::state::UniversalState;
use baton_store::StoreError;
use serde_json::Value;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::links::{Link, LinkId};

/// An event for the driver.
pub(crate) enum Event {
    /// A worker connection was opened.
    Opened(LinkId, Link),
    /// A message of a worker. The permit accounts for its unread bytes.
    Message(LinkId, Box<ToScheduler>, OwnedSemaphorePermit),
    /// A worker connection was closed.
    Closed(LinkId),
    /// The store has processed a batch of the leader of this epoch.
    CommitResult(Epoch, Result<Receipt, StoreError>),
    /// Result of an attempt to take over the store.
    TakeoverResult(Result<(Epoch, Box<Ledger>), TakeoverFailed>),
    /// A request of a client.
    Request(LeaderRequest),
    /// A tick is due; everything that had arrived before has been read.
    Due,
    /// Shut down.
    Stop,
}

/// Why the store could not be taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TakeoverFailed {
    pub(crate) reason: String,
    /// This process cannot recover.
    pub(crate) permanent: bool,
}

/// The store cannot be written, for this reason; so the request has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreFailed(pub(crate) String);

pub(crate) type Reply<T> = oneshot::Sender<Result<T, StoreFailed>>;

/// A request of a client to the leader.
pub(crate) enum LeaderRequest {
    /// Submits instances.
    Submit {
        spec: Box<InstanceSpec>,
        /// For an array: the number of elements, and the index of the first.
        array: Option<(u64, u64)>,
        reply: Reply<Result<(InstanceId, InstanceId), SubmitError>>,
    },
    /// Cancels instances.
    Cancel {
        first: InstanceId,
        last: InstanceId,
        reply: Reply<CancelCounts>,
    },
    /// Retries an instance, which is passed as the store has it.
    Retry {
        instance: Box<Instance>,
        reply: Reply<Result<(), RetryError>>,
    },
    /// Drains or undrains a worker.
    Drain {
        worker: WorkerName,
        drained: bool,
        reply: Reply<()>,
    },
    /// Declares a worker gone for good; the answer is false if there is none of that name.
    Forget {
        worker: WorkerName,
        reply: Reply<bool>,
    },
    /// Defines a library task.
    Define {
        command: Box<DefineCommand>,
        reply: Reply<Result<DefineReply, LibraryError>>,
    },
    /// Removes a library task; the answer is its last revision.
    Remove {
        command: RemoveCommand,
        reply: Reply<Result<Revision, LibraryError>>,
    },
    /// Triggers a library task.
    Trigger {
        command: TriggerCommand,
        reply: Reply<Result<TriggerReply, TriggerError>>,
    },
    /// Executes a command on a run.
    Run {
        command: Box<RunCommand>,
        reply: Reply<Result<(RunId, Generation), RunError>>,
    },
    /// Progress of a run that has not ended, with `limit` of its tasks from this one on.
    RunView {
        run: RunId,
        from: u32,
        limit: usize,
        reply: Reply<Option<RunView>>,
    },
    /// Items of a run in flight, by task and item. Answered when everything decided before is
    /// durable: items that are no longer in flight are then in the store.
    RunLive {
        query: LiveQuery,
        reply: Reply<LiveItems>,
    },
    /// Values of these items of a run that has not ended.
    RunValues {
        run: RunId,
        places: Vec<(u32, u32)>,
        reply: Reply<Option<Vec<Option<Value>>>>,
    },
    /// A piece of a log.
    Logs {
        worker: WorkerName,
        query: LogQuery,
        reply: Reply<LogAnswer>,
    },
    /// Why an instance is in its current state.
    Explain {
        id: InstanceId,
        reply: Reply<Option<Reason>>,
    },
    /// All workers, or the one of that name.
    Workers {
        name: Option<WorkerName>,
        reply: Reply<Vec<Worker>>,
    },
    /// Notification when all of these instances have ended.
    Watch {
        first: InstanceId,
        last: InstanceId,
        reply: oneshot::Sender<()>,
    },
}

/// Selects items of a run in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LiveQuery {
    pub(crate) run: RunId,
    /// Only of this task.
    pub(crate) task: Option<u32>,
    /// Only in this state.
    pub(crate) state: Option<UniversalState>,
    /// Start after this item.
    pub(crate) after: Option<(u32, u32)>,
    pub(crate) limit: usize,
}

/// Items of a run in flight.
#[derive(Debug, Default)]
pub(crate) struct LiveItems {
    pub(crate) items: Vec<(u32, u32, InstanceId)>,
    /// Where to continue; `None` if all were scanned.
    pub(crate) next: Option<(u32, u32)>,
}

/// Sender side of the inbox.
#[derive(Clone, Debug)]
pub(crate) struct Inbox(pub(super) mpsc::Sender<Event>);

impl Inbox {
    /// Sends an event. If the driver is gone the whole server shuts down, so the error is ignored.
    pub(crate) fn send(&self, event: Event) {
        let _ = self.0.send(event);
    }
}
