//! Events of the driver, and its inbox.
//!
//! The inbox itself is unbounded; each sender is bounded: a worker connection by its unread bytes
//! ([`crate::limits::UNREAD_INPUT_BYTES_MAX`]), a client by one request, the store by the batches
//! it has accepted, the election by one event at a time.

use std::sync::{Arc, mpsc};

use baton_core::protocol::frame::SecretDelivery;
use baton_core::scheduler::{Command, Reply, Scheduler};
use baton_core::step::Receipt;
use baton_model::fleet::FleetAnswer;
use baton_model::ids::{Epoch, InstanceId};
use baton_model::message::{ToScheduler, WorkerAddress};
use baton_model::principal::Principal;
use baton_store::StoreError;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::links::{Link, LinkId};
use crate::leadership::Taken;

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
    TakeoverResult(Result<Taken, TakeoverFailed>),
    /// The election of a shared store.
    Election(ElectionEvent),
    /// The answer to a call of a fleet's backend that the leader of this epoch has made.
    FleetAnswered(Epoch, Box<FleetAnswer>),
    /// The secrets of an attempt were found, for this worker.
    Secrets(WorkerAddress, Box<SecretDelivery>),
    /// A command of a client.
    Command(Option<Arc<Principal>>, Command, ReplyTo),
    /// A client reads the memory of the leader.
    Query(Query),
    /// A client waits until all of these instances have ended.
    Watch {
        first: InstanceId,
        last: InstanceId,
        notify: oneshot::Sender<()>,
    },
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

/// What the election of a shared store means for this scheduler.
#[derive(Debug)]
pub(crate) enum ElectionEvent {
    /// It leads the term that it has taken.
    Won(Taken),
    /// It does not lead in this epoch any more, for this reason.
    Lost(Epoch, String),
    /// The store cannot be reached, for this reason; or it can be reached again.
    Trouble(Option<String>),
    /// The scheduler can never lead or follow any more, for this reason.
    Died(String),
}

/// Why a request to the leader has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// The store cannot be written, for this reason.
    StoreFailed(String),
    /// This scheduler follows another one.
    Follows,
}

/// Where the reply to a command goes. The client may be gone, which is no error: its command takes
/// effect all the same.
pub(crate) type ReplyTo = oneshot::Sender<Result<Reply, Unanswered>>;

/// Reads the memory of the leader. It runs on the driver's thread, so it must be quick.
pub(crate) type Query = Box<dyn FnOnce(Result<&Scheduler, Unanswered>) + Send>;

/// Sender side of the inbox.
#[derive(Clone, Debug)]
pub(crate) struct Inbox(pub(super) mpsc::Sender<Event>);

impl Inbox {
    /// Sends an event. If the driver is gone the whole server shuts down, so the error is ignored.
    pub(crate) fn send(&self, event: Event) {
        let _ = self.0.send(event);
    }

    /// Sends a command of a client to the leader, if it is known; the reply comes when it is durable.
    pub(crate) fn command(
        &self,
        by: Option<Arc<Principal>>,
        command: Command,
    ) -> oneshot::Receiver<Result<Reply, Unanswered>> {
        let (reply, answer) = oneshot::channel();
        self.send(Event::Command(by, command, reply));
        answer
    }
}
