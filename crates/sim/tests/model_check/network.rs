//! The network: the set of everything ever sent.
//!
//! Delivering a message does not remove it. So a message that is never delivered is lost, one
//! that is delivered again is a duplicate, and any order is possible; a repeated message is not a
//! new element, so the set stays finite.

use std::fmt;

use baton_model::ids::Incarnation;
use baton_model::message::{ToScheduler, ToWorker, WorkerAddress};

use super::hashed::Hashed;

/// A message between scheduler and worker.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Message {
    /// To the leader at the time of arrival.
    ToScheduler(ToScheduler),
    /// To one incarnation of one worker.
    ToWorker(WorkerAddress, ToWorker),
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ToScheduler(message) => message.fmt(f),
            Self::ToWorker(to, message) => write!(f, "to {}: {message:?}", to.worker),
        }
    }
}

/// The messages ever sent, in the order of their hashes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Network(Vec<Hashed<Message>>);

impl Network {
    /// True if an equal message was sent before.
    pub(crate) fn contains(&self, message: &Hashed<Message>) -> bool {
        self.position(message).is_ok()
    }

    /// Adds a message; a copy of an earlier one changes nothing.
    pub(crate) fn add(&mut self, message: Hashed<Message>) {
        if let Err(at) = self.position(&message) {
            self.0.insert(at, message);
        }
    }

    /// All messages that may be delivered.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Hashed<Message>> {
        self.0.iter()
    }

    /// Drops the messages to an ended incarnation.
    pub(crate) fn drop_for(&mut self, dead: Incarnation) {
        self.0.retain(
            |message| !matches!(&**message, Message::ToWorker(to, _) if to.incarnation == dead),
        );
    }

    /// Drops the messages that match.
    pub(crate) fn drop_if(&mut self, unwanted: impl Fn(&Message) -> bool) {
        self.0.retain(|message| !unwanted(message));
    }

    /// Searches by hash and compares by equality, so that colliding messages stay distinct.
    fn position(&self, message: &Hashed<Message>) -> Result<usize, usize> {
        let at = self.0.partition_point(|it| it.key() < message.key());
        let same = self.0[at..]
            .iter()
            .take_while(|it| it.key() == message.key());
        for (offset, it) in same.enumerate() {
            if it == message {
                return Ok(at + offset);
            }
        }
        Err(at)
    }
}
