//! What reaches the driver, and how one writes to it.
//!
//! The inbox itself has no bound; each sender has. A connection of a worker may have so
//! many bytes unread ([`crate::limits::UNREAD_INPUT_BYTES_MAX`]), a client one request,
//! the store what it has taken in.

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

/// Something for the driver.
pub(crate) enum Event {
    /// A peer speaks the protocol.
    Opened(LinkId, Link),
    /// It says something. The permit is its right to have so much unread.
    Message(LinkId, Box<ToScheduler>, OwnedSemaphorePermit),
    /// It is gone.
    Closed(LinkId),
    /// The store has dealt with a batch of that leader.
    CommitResult(Epoch, Result<Receipt, StoreError>),
    /// What came of an attempt to lead again.
    TakeoverResult(Result<(Epoch, Box<Ledger>), TakeoverFailed>),
    /// A client wants something.
    Request(LeaderRequest),
    /// What had arrived when the time was up has been read.
    Due,
    /// Come to an end.
    Stop,
}

/// Why the store could not be led again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TakeoverFailed {
    pub(crate) reason: String,
    /// It never will be, by this process.
    pub(crate) permanent: bool,
}

/// Why a client gets no answer: the scheduler cannot keep anything, and this is why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoreFailed(pub(crate) String);

pub(crate) type Reply<T> = oneshot::Sender<Result<T, StoreFailed>>;

pub(crate) enum LeaderRequest {
    /// New instances.
    Submit {
        spec: Box<InstanceSpec>,
        /// How many, and the index of the first, if it is an array.
        array: Option<(u64, u64)>,
        reply: Reply<Result<(InstanceId, InstanceId), SubmitError>>,
    },
    /// Instances shall stop.
    Cancel {
        first: InstanceId,
        last: InstanceId,
        reply: Reply<CancelCounts>,
    },
    /// An instance shall be tried again; this is how the store has it.
    Retry {
        instance: Box<Instance>,
        reply: Reply<Result<(), RetryError>>,
    },
    /// A worker shall get no work, or some again.
    Drain {
        worker: WorkerName,
        drained: bool,
        reply: Reply<()>,
    },
    /// A worker is gone for ever; the answer is false if there is none of that name.
    Forget {
        worker: WorkerName,
        reply: Reply<bool>,
    },
    /// A task shall be in the library.
    Define {
        command: Box<DefineCommand>,
        reply: Reply<Result<DefineReply, LibraryError>>,
    },
    /// A task shall not be in the library; the answer is the revision that it had.
    Remove {
        command: RemoveCommand,
        reply: Reply<Result<Revision, LibraryError>>,
    },
    /// A task of the library shall be launched.
    Trigger {
        command: TriggerCommand,
        reply: Reply<Result<TriggerReply, TriggerError>>,
    },
    /// Something of a run.
    Run {
        command: Box<RunCommand>,
        reply: Reply<Result<(RunId, Generation), RunError>>,
    },
    /// How a run stands that is not over, with so many of its tasks from this one on.
    RunView {
        run: RunId,
        from: u32,
        limit: usize,
        reply: Reply<Option<RunView>>,
    },
    /// What of a run is on its way, by task and item. Answered when everything is durable that
    /// was decided before: what is not on its way any more, the store knows.
    RunLive {
        query: LiveQuery,
        reply: Reply<LiveItems>,
    },
    /// The values of these items of a run that is not over.
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
    /// Why an instance is where it is.
    Explain {
        id: InstanceId,
        reply: Reply<Option<Reason>>,
    },
    /// The workers, or the one of that name.
    Workers {
        name: Option<WorkerName>,
        reply: Reply<Vec<Worker>>,
    },
    /// Word that none of these lives any more.
    Watch {
        first: InstanceId,
        last: InstanceId,
        reply: oneshot::Sender<()>,
    },
}

/// Which items of a run that are on their way are asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LiveQuery {
    pub(crate) run: RunId,
    /// Of this task only.
    pub(crate) task: Option<u32>,
    /// In this state only.
    pub(crate) state: Option<UniversalState>,
    /// From behind this one on.
    pub(crate) after: Option<(u32, u32)>,
    pub(crate) limit: usize,
}

/// Some of them.
#[derive(Debug, Default)]
pub(crate) struct LiveItems {
    pub(crate) items: Vec<(u32, u32, InstanceId)>,
    /// Where to go on; nothing if all were looked at.
    pub(crate) next: Option<(u32, u32)>,
}

/// The way to the driver.
#[derive(Clone, Debug)]
pub(crate) struct Inbox(pub(super) mpsc::Sender<Event>);

impl Inbox {
    /// Puts mail into the inbox. If the driver is gone the whole server ends, and nobody
    /// has to be told.
    pub(crate) fn send(&self, event: Event) {
        let _ = self.0.send(event);
    }
}
