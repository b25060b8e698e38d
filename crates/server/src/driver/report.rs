//! Reports of what was committed: to the driver, and of what concerns operators to the log.

use std::sync::Arc;
use std::time::Instant;

use baton_core::scheduler::Effect;
use baton_core::step::{Batch, Receipt, Step};
use baton_model::fact::Fact;
use baton_model::ids::Epoch;
use baton_store::StoreError;

use super::event::{Event, Inbox};
use crate::metrics::{Kinds, Metrics};

/// Reports the result of a commit to the driver, even if the store dies.
pub(super) struct CommitGuard {
    inbox: Inbox,
    epoch: Epoch,
    metrics: Arc<Metrics>,
    kinds: Kinds,
    begun: Instant,
    reported: bool,
}

impl CommitGuard {
    /// The guard of a batch that is about to be submitted.
    pub(super) fn new(batch: &Batch<Fact>, inbox: Inbox, metrics: Arc<Metrics>) -> Self {
        Self {
            inbox,
            epoch: batch.epoch(),
            metrics,
            kinds: Kinds::of(batch.facts()),
            begun: Instant::now(),
            reported: false,
        }
    }

    pub(super) fn report(mut self, result: Result<Receipt, StoreError>) {
        self.reported = true;
        match &result {
            Ok(_) => self.metrics.committed(&self.kinds, self.begun.elapsed()),
            Err(_) => self.metrics.store_failed(),
        }
        self.inbox.send(Event::CommitResult(self.epoch, result));
    }
}

impl Drop for CommitGuard {
    fn drop(&mut self) {
        if !self.reported {
            self.metrics.store_failed();
            let result = Err(StoreError::Closed);
            self.inbox.send(Event::CommitResult(self.epoch, result));
        }
    }
}

/// Logs facts that concern operators; none about single instances.
pub(super) fn log_facts(step: &Step<Fact, Effect>) {
    for (fact, by) in step.requests() {
        let by = by.map(Arc::as_ref);
        match fact {
            Fact::WorkerCondemned { .. }
            | Fact::CopyOpened { .. }
            | Fact::AttemptsDisowned { .. }
            | Fact::WorkerFaulted { fault: Some(_), .. }
            | Fact::ChannelFaulted { fault: Some(_), .. }
            | Fact::WorkerSuspected {
                suspicion: Some(_), ..
            } => {
                tracing::warn!("{}", fact.sentence(by));
            }
            Fact::WorkerDrained { .. }
            | Fact::WorkerNameAssigned { .. }
            | Fact::CopySettled { .. }
            | Fact::LimitSet { .. }
            | Fact::ArrayLimitSet { .. }
            | Fact::ShareSet { .. }
            | Fact::FleetDefined { .. }
            | Fact::FleetPaused { .. }
            | Fact::FleetRemoved { .. }
            | Fact::WorkerFaulted { fault: None, .. }
            | Fact::ChannelFaulted { fault: None, .. }
            | Fact::WorkerSuspected {
                suspicion: None, ..
            } => {
                tracing::info!("{}", fact.sentence(by))
            }
            _ => {}
        }
    }
}
