//! The scheduler, as the agent sees it: a connection, and the messages of this iteration.

use std::os::fd::BorrowedFd;

use baton_model::message::{Refusal, ToScheduler, ToWorker};
use baton_model::time::Mono;
use rustix::event::PollFlags;

use crate::connection::{Connection, ConnectionEvents};
use crate::outgoing::Outgoing;

pub(crate) struct Scheduler {
    connection: Connection,
    outgoing: Outgoing,
}

impl Scheduler {
    pub(crate) fn new(connection: Connection) -> Self {
        Self {
            connection,
            outgoing: Outgoing::default(),
        }
    }

    pub(crate) fn push(&mut self, message: ToScheduler) {
        self.outgoing.push(message);
    }

    /// Where it was dialled, for people.
    pub(crate) fn place(&self) -> String {
        self.connection.place()
    }

    /// Sends all messages with one write. Without a connection they are dropped: the protocol
    /// repeats what matters.
    pub(crate) fn flush(&mut self, now: Mono) {
        if !self.connection.is_up() {
            return self.outgoing.clear();
        }
        let mut bytes = Vec::new();
        if let Err(error) = self.outgoing.encode(&mut bytes) {
            tracing::error!("a message to the scheduler cannot be encoded: {error}");
        }
        if !bytes.is_empty() {
            self.connection.send(now, &bytes);
        }
    }

    pub(crate) fn receive(&mut self, now: Mono, ready: bool) -> ConnectionEvents {
        let events = self.connection.advance(now, ready);
        for message in &events.messages {
            if let ToWorker::HeartbeatRefused { refusal, .. } = message {
                tracing::warn!("the scheduler refuses this worker: {}", reason(*refusal));
            }
        }
        events
    }

    pub(crate) fn interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        self.connection.interest()
    }

    pub(crate) fn next_due(&self) -> Mono {
        self.connection.next_due()
    }

    pub(crate) fn pause_until(&mut self, until: Mono) {
        self.connection.pause_until(until);
    }
}

/// Explains a refusal.
const fn reason(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Superseded => "a later incarnation of this state directory has registered",
        Refusal::SeatTaken => "another worker has this name; choose another with --name",
        Refusal::Condemned => "this incarnation was condemned",
        Refusal::OtherVersion => "it uses another version of the protocol",
        Refusal::Copied => {
            "another machine is connected with the same state directory, so this one is a copy (of a cloned \
             disk, for instance); its work is killed, and it goes on as a new worker"
        }
    }
}
