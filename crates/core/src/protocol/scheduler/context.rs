//! The context of a handler: time, configuration, and the leader behind the protocol.

use std::sync::Arc;

use baton_model::fact::{CopyEvidence, Fact, Holder};
use baton_model::ids::{Epoch, LeaseId, RequestId, WorkerName};
use baton_model::message::{LogAnswer, ProcessAnswer, ToWorker, WorkerAddress};
use baton_model::outcome::{AttemptEnd, Report};
use baton_model::placement::Offer;
use baton_model::progress::Progress;
use baton_model::spec::InstanceSpec;
use baton_model::time::{Mono, Now};

use crate::config::Config;
use crate::counts::Counts;
use crate::ledger::Ledger;
use crate::placement::Availability;

/// Secrets that a worker is to be sent: those of an attempt whose lease it holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SecretGrant {
    pub to: WorkerAddress,
    pub lease: LeaseId,
    /// It names them, and their owner.
    pub spec: Arc<InstanceSpec>,
}

/// The leader, as far as the protocol needs it: it keeps the ledger, decides what follows from the
/// end of an attempt, and places work on what workers offer.
pub(crate) trait Leader {
    fn ledger(&self) -> &Ledger;

    fn counts(&mut self) -> &mut Counts;

    /// Records a fact and applies it to the ledger.
    fn commit(&mut self, fact: Fact);

    /// Sends a message to a worker, once all facts so far are durable.
    fn send(&mut self, to: WorkerAddress, message: ToWorker);

    /// Sends a worker the secrets of an attempt, once all facts so far are durable.
    fn grant_secrets(&mut self, grant: SecretGrant);

    /// Sends a message before its facts are durable: a seeded bug.
    #[cfg(feature = "seeded-bugs")]
    fn leak(&mut self, to: WorkerAddress, message: ToWorker);

    /// Frees all workers of an attempt that may be running: a seeded bug.
    #[cfg(feature = "seeded-bugs")]
    fn free(&mut self, lease: LeaseId);

    /// Lets later effects wait for a commit, even if no fact is recorded.
    fn fence(&mut self);

    /// A worker has obeyed a leader of this epoch, which this leader cannot have succeeded; with
    /// the evidence, if any, that the store is a copy.
    fn epoch_overtaken(&mut self, epoch: Epoch, evidence: Option<CopyEvidence>);

    /// A log request is answered.
    fn logs_read(&mut self, request: RequestId, answer: LogAnswer);
    /// A request for processes is answered.
    fn processes_read(&mut self, request: RequestId, answer: ProcessAnswer);

    /// Closes an open lease with the end of its attempt, and decides what follows. An observed end
    /// comes with its report.
    fn close(
        &mut self,
        lease: LeaseId,
        end: AttemptEnd,
        report: Option<&Report>,
        progress: Option<Progress>,
    );

    /// Without a store: records an attempt that a worker holds already.
    fn adopt(&mut self, lease: LeaseId, holder: Holder, spec: Arc<InstanceSpec>);

    /// A worker offers these resources, until the time at which it ends by itself; it gets no work
    /// unless it is open.
    fn offer(
        &mut self,
        worker: &WorkerName,
        offer: &Offer,
        availability: Availability,
        ends_at: Option<Mono>,
    );

    /// A worker has left its seat.
    fn left(&mut self, worker: &WorkerName);
}

/// The context of one input.
pub(crate) struct Cx<'a> {
    pub(crate) now: Now,
    pub(crate) epoch: Epoch,
    pub(crate) config: &'a Config,
    pub(crate) leader: &'a mut dyn Leader,
}

impl Cx<'_> {
    pub(crate) fn ledger(&self) -> &Ledger {
        self.leader.ledger()
    }

    /// Counts an event that was noticed and ignored.
    pub(crate) fn notice(&mut self, name: &'static str) {
        self.leader.counts().notice(name);
    }

    /// See [`Leader::commit`].
    pub(crate) fn commit(&mut self, fact: Fact) {
        self.leader.commit(fact);
    }

    /// See [`Leader::send`].
    pub(crate) fn send(&mut self, to: WorkerAddress, message: ToWorker) {
        self.leader.send(to, message);
    }
}
