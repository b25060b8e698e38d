//! Worker connections, as the driver sees them.
//!
//! A connection belongs to the incarnation whose heartbeats arrive on it. A later connection of the
//! same incarnation replaces the earlier one. All messages to a worker within one turn are sent in
//! one write.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use baton_core::protocol::frame::{
    FrameError, SecretDelivery, encode_refusal, encode_secrets, encode_to_worker,
};
use baton_model::ids::ExecutorId;
use baton_model::message::{Refusal, ToScheduler, ToWorker, WorkerAddress};
use baton_model::principal::{NameOwner, Principal};
use tokio::sync::mpsc;

use crate::access::Access;
use crate::limits::UNREAD_OUTPUT_BYTES_MAX;

/// Why a worker gets no secrets over its connection.
const NOT_PRIVATE: &str = "the connection between its worker and the scheduler is not encrypted, so no secrets are sent \
                           over it; use TLS (--tls-cert, --tls-key; workers: --ca), or, in a network that you trust, \
                           start the scheduler with --allow-plain-secrets";

/// Number of a connection of this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LinkId(pub(crate) u64);

/// A connection; dropping it closes the connection.
pub(crate) struct Link {
    /// To the task that writes.
    pub(crate) out: mpsc::UnboundedSender<Vec<u8>>,
    /// Bytes that it has not written yet.
    pub(crate) unread: Arc<AtomicUsize>,
    /// It is encrypted, or within this host: no other user can read what is sent.
    pub(crate) is_private: bool,
    /// The credential of the worker, where one is required.
    pub(crate) credential: Option<LinkCredential>,
}

/// The credential of a worker, to which names may belong.
#[derive(Clone)]
pub(crate) struct LinkCredential {
    pub(crate) owner: NameOwner,
    /// Knows which credentials are revoked.
    pub(crate) access: Access,
}

impl LinkCredential {
    /// True if the credential of an owner was revoked: it owns nothing any more.
    pub(super) fn is_void(&self, owner: &NameOwner) -> bool {
        match owner {
            NameOwner::Client(principal) => match **principal {
                Principal::Token { id, .. } => self.access.is_revoked(id),
                _ => false,
            },
            NameOwner::Fleet(_) | NameOwner::LocalWorker => false,
        }
    }
}

struct OpenLink {
    link: Link,
    worker: Option<WorkerAddress>,
    /// The worker's agent, for the log.
    executor: Option<ExecutorId>,
    pending: Vec<u8>,
}

/// All worker connections.
#[derive(Default)]
pub(super) struct Links {
    open: HashMap<LinkId, OpenLink>,
    /// Connections that were refused, until they are closed: what they still send is ignored.
    refused: HashSet<LinkId>,
    by_worker: HashMap<WorkerAddress, LinkId>,
    /// Connections with pending output.
    dirty: Vec<LinkId>,
}

impl Links {
    pub(super) fn opened(&mut self, id: LinkId, link: Link) {
        let open = OpenLink {
            link,
            worker: None,
            executor: None,
            pending: Vec::new(),
        };
        self.open.insert(id, open);
    }

    /// The credential of the worker of a connection.
    pub(super) fn credential(&self, id: LinkId) -> Option<&LinkCredential> {
        self.open.get(&id)?.link.credential.as_ref()
    }

    pub(super) fn is_refused(&self, id: LinkId) -> bool {
        self.refused.contains(&id)
    }

    /// Sends a worker the reason for which its connection ends, and ends it. Returns the worker that
    /// thereby has no connection left.
    pub(super) fn refuse(&mut self, id: LinkId, reason: &str) -> Option<WorkerAddress> {
        let mut frame = Vec::new();
        if let Err(error) = encode_refusal(reason, &mut frame) {
            tracing::error!("cannot encode a refusal: {error}");
        }
        if let Some(open) = self.open.get(&id) {
            open.link.unread.fetch_add(frame.len(), Ordering::AcqRel);
            // Fails only if the connection has just ended.
            let _ = open.link.out.send(frame);
        }
        let left = self.closed(id);
        self.refused.insert(id);
        left
    }

    /// Learns the worker of a connection from a message. Returns the worker that thereby has no
    /// connection left.
    pub(super) fn identify(&mut self, id: LinkId, message: &ToScheduler) -> Option<WorkerAddress> {
        let ToScheduler::ProcessHeartbeat(heartbeat) = message else {
            return None;
        };
        let worker = WorkerAddress::from(&heartbeat.worker);
        let open = self.open.get_mut(&id)?;
        if open.worker.as_ref() == Some(&worker) {
            return None;
        }
        open.executor.clone_from(&heartbeat.executor);
        tracing::info!("worker {} is connected", label(&worker, &open.executor));
        let left = open.worker.replace(worker.clone());
        let left = left.filter(|left| self.by_worker.get(left) == Some(&id));
        if let Some(left) = &left {
            self.by_worker.remove(left);
        }
        if let Some(earlier) = self.by_worker.insert(worker, id) {
            self.open.remove(&earlier);
        }
        left
    }

    /// Removes a connection. Returns the worker that thereby has none left.
    pub(super) fn closed(&mut self, id: LinkId) -> Option<WorkerAddress> {
        self.refused.remove(&id);
        let open = self.open.remove(&id)?;
        let worker = open.worker?;
        if self.by_worker.get(&worker) != Some(&id) {
            return None;
        }
        self.by_worker.remove(&worker);
        tracing::info!("worker {} is disconnected", label(&worker, &open.executor));
        Some(worker)
    }

    /// Queues a message for this turn. Without a connection it is lost, which the protocol
    /// tolerates.
    pub(super) fn send(&mut self, to: &WorkerAddress, message: &ToWorker) {
        if let ToWorker::HeartbeatRefused {
            refusal: Refusal::Copied,
            ..
        } = message
        {
            tracing::warn!(
                "worker {} ({}) has a copy of the state directory of a worker on another machine; it \
                 is refused, and goes on as a new worker",
                to.worker,
                to.incarnation
            );
        }
        self.queue(to, |out| encode(message, out));
    }

    fn queue(
        &mut self,
        to: &WorkerAddress,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), FrameError>,
    ) {
        let Some(id) = self.by_worker.get(to) else {
            return;
        };
        let Some(open) = self.open.get_mut(id) else {
            return;
        };
        if open.pending.is_empty() {
            self.dirty.push(*id);
        }
        if let Err(error) = encode(&mut open.pending) {
            tracing::error!("cannot encode a message for worker {}: {error}", to.worker);
        }
    }

    /// Queues the secrets of an attempt, if no other user can read them there, or that is allowed.
    pub(super) fn send_secrets(
        &mut self,
        to: &WorkerAddress,
        delivery: SecretDelivery,
        allow_plain: bool,
    ) {
        let link = self.by_worker.get(to).and_then(|id| self.open.get(id));
        let may_have = link.is_some_and(|it| it.link.is_private || allow_plain);
        let delivery = if may_have {
            delivery
        } else {
            SecretDelivery {
                values: Err(NOT_PRIVATE.to_owned()),
                ..delivery
            }
        };
        self.queue(to, |out| encode_secrets(&delivery, out));
    }

    /// Sends the queued messages. Returns the workers that do not read and were disconnected.
    pub(super) fn flush(&mut self) -> Vec<WorkerAddress> {
        let mut stalled = Vec::new();
        for id in std::mem::take(&mut self.dirty) {
            let Some(open) = self.open.get_mut(&id) else {
                continue;
            };
            let bytes = std::mem::take(&mut open.pending);
            let unread = open.link.unread.load(Ordering::Acquire);
            let reads = unread <= UNREAD_OUTPUT_BYTES_MAX;
            if reads {
                open.link.unread.fetch_add(bytes.len(), Ordering::AcqRel);
                // Fails only if the connection has just ended; its `Closed` event is in flight.
                let _ = open.link.out.send(bytes);
            } else {
                tracing::warn!("dropping a worker that does not read: {unread} bytes are unsent");
                stalled.extend(self.closed(id));
            }
        }
        stalled
    }
}

/// Encodes a message. A batch of launches that is too long is split.
fn encode(message: &ToWorker, out: &mut Vec<u8>) -> Result<(), FrameError> {
    match (encode_to_worker(message, out), message) {
        (
            Err(FrameError::TooLong(_)),
            ToWorker::RunTask {
                association,
                seq,
                stamp,
                launches,
            },
        ) if launches.len() > 1 => {
            let (left, right) = launches.split_at(launches.len() / 2);
            for half in [left, right] {
                let half = ToWorker::RunTask {
                    association: *association,
                    seq: *seq,
                    stamp: *stamp,
                    launches: half.to_vec(),
                };
                encode(&half, out)?;
            }
            Ok(())
        }
        (result, _) => result,
    }
}
/// A worker in the log: its seat, its incarnation, and its agent.
fn label(worker: &WorkerAddress, executor: &Option<ExecutorId>) -> String {
    let WorkerAddress {
        worker,
        incarnation,
        ..
    } = worker;
    match executor {
        Some(executor) => format!("{worker} ({incarnation}, {executor})"),
        None => format!("{worker} ({incarnation})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::protocol::frame::{FromScheduler, decode_from_scheduler};
    use baton_model::ids::{
        AttemptId, AttemptNo, BootId, Epoch, Incarnation, IncarnationNo, InstanceId, LeaseId,
        Lineage, WorkerName,
    };
    use baton_model::secret::SecretValue;

    fn delivery() -> SecretDelivery {
        let attempt = AttemptId {
            instance: InstanceId(1),
            number: AttemptNo(1),
        };
        let value = SecretValue::new(b"hunter2".to_vec()).expect("a value");
        SecretDelivery {
            lease: LeaseId {
                attempt,
                epoch: Epoch(1),
            },
            values: Ok(vec![("db".parse().expect("a name"), value)]),
        }
    }

    /// What a worker is sent over such a link.
    fn sent(is_private: bool, allow_plain: bool) -> SecretDelivery {
        let (out, mut frames) = mpsc::unbounded_channel();
        let mut links = Links::default();
        let link = Link {
            out,
            unread: Arc::default(),
            is_private,
            credential: None,
        };
        links.opened(LinkId(1), link);
        let to = WorkerAddress {
            worker: WorkerName::new("w"),
            incarnation: Incarnation {
                lineage: Lineage(1),
                number: IncarnationNo(1),
            },
            boot: BootId(1),
        };
        links.by_worker.insert(to.clone(), LinkId(1));
        links.send_secrets(&to, delivery(), allow_plain);
        assert_eq!(links.flush(), []);
        let bytes = frames.try_recv().expect("a frame");
        match decode_from_scheduler(&bytes).expect("well formed") {
            Some((FromScheduler::Secrets(sent), _)) => sent,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn secrets_are_sent_only_over_a_private_link_unless_that_is_allowed() {
        assert_eq!(sent(true, false), delivery());
        assert_eq!(sent(false, true), delivery());
        let reason = sent(false, false).values.expect_err("refused");
        assert!(reason.contains("--allow-plain-secrets"), "{reason}");
    }
}
