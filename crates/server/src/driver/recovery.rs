//! Operation without a store, where no other scheduler can use it; `following` is about shared stores.
//!
//! When a commit has failed, the leader is deposed and all its unsent effects are dropped: its memory is ahead
//! of the store. Pending requests fail. Then:
//!
//! * Once a second the driver tries to take over the store again, on a thread of its own, because
//!   that may block. When it succeeds, a new leader starts with a new epoch. If the thread of the
//!   store has died it never will, and the whole server ends with that reason, so that it is
//!   restarted.
//! * Meanwhile a [`LeaseKeeper`] renews the leases of workers, where the lock of the data directory
//!   guarantees that no other scheduler leads. A store in memory has nothing to recover, and needs
//!   none.
//! * What only reads goes on: the deposed leader answers from its memory, as it did before what it had decided was
//!   durable, and passes requests for logs to the workers, whose associations the lease keeper continues. It decides
//!   nothing any more.

use std::sync::Arc;
use std::thread;

use baton_core::lease_keeper::LeaseKeeper;
use baton_core::scheduler::{Effect, Input, Scheduler, StoreMode};
use baton_core::step::Outbox;
use baton_model::fact::CopyEvidence;
use baton_model::ids::Epoch;
use baton_model::message::{ToScheduler, ToWorker, WorkerAddress};
use baton_model::time::{Millis, Mono};
use baton_store::StoreError;

use super::event::{Event, Inbox, TakeoverFailed, Unanswered};
use super::start::lead;
use super::{Driver, Setup, State, Status};
use crate::clock;
use crate::error::ServeError;
use crate::leadership::{self, Taken};
use crate::limits::RETAKE_PAUSE;

/// State between two leaders.
pub(super) struct Failed {
    lease_keeper: Option<LeaseKeeper>,
    /// The deposed leader, for reads.
    leader: Option<Box<Scheduler>>,
    /// The next epoch must be above this one.
    above: Epoch,
    /// The evidence of a worker that the store is a copy.
    copied: Option<CopyEvidence>,
    reason: String,
    /// When to try next; `None` while an attempt is in flight.
    next_attempt: Option<Mono>,
}

impl Failed {
    pub(super) fn next_due(&self) -> Option<Mono> {
        self.next_attempt
    }

    pub(super) fn reason(&self) -> Unanswered {
        Unanswered::StoreFailed(self.reason.clone())
    }

    /// The memory of the deposed leader.
    pub(super) fn leader(&self) -> Result<&Scheduler, Unanswered> {
        self.leader.as_deref().ok_or_else(|| self.reason())
    }

    /// Passes an input that only reads to the deposed leader. Returns its effects.
    ///
    /// # Errors
    /// If it has decided something with it, which cannot be recorded.
    pub(super) fn read(&mut self, input: Input) -> Result<Vec<Effect>, Unanswered> {
        let reason = self.reason();
        let Some(leader) = &mut self.leader else {
            return Err(reason);
        };
        let mut outbox = Outbox::new(leader.epoch());
        match outbox.accept(leader.handle(clock::now(), input)) {
            None => Ok(outbox.drain().collect()),
            Some(_undurable) => Err(reason),
        }
    }

    pub(super) fn answer(&mut self, message: &ToScheduler) -> Option<(WorkerAddress, ToWorker)> {
        self.lease_keeper.as_mut()?.answer(message)
    }
}

impl Driver {
    /// Drops the leader. One of a shared store follows.
    pub(super) fn fail(&mut self, reason: String, above: Epoch, copied: Option<CopyEvidence>) {
        let State::Leading(leading) = &self.state else {
            return;
        };
        if self.election.is_some() {
            return self.follow(reason, above, copied);
        }
        let config = &self.setup.config;
        let epoch = leading.core.epoch();
        let lease_keeper = (config.store == StoreMode::Durable)
            .then(|| LeaseKeeper::new(leading.core.term(), &config.timeouts, leading.core.seats()));
        self.fail_pending(&reason);
        self.watch.dropped();
        self.status.send_replace(Status::Failed(reason.clone()));
        let failed = Failed {
            lease_keeper,
            leader: None,
            above: above.max(epoch),
            copied,
            reason,
            next_attempt: Some(clock::now().mono + pause()),
        };
        let before = std::mem::replace(&mut self.state, State::Failed(failed));
        if let (State::Leading(leading), State::Failed(failed)) = (before, &mut self.state) {
            failed.leader = Some(Box::new(leading.core));
        }
    }

    /// Starts an attempt to take over the store.
    pub(super) fn retry_takeover(&mut self) {
        let State::Failed(failed) = &mut self.state else {
            return;
        };
        failed.next_attempt = None;
        let (above, copied) = (failed.above, failed.copied.clone());
        let setup = Arc::clone(&self.setup);
        let mut guard = TakeoverGuard(Some(self.inbox.clone()));
        let spawned = thread::Builder::new()
            .name("store-take".to_owned())
            .spawn(move || {
                let takeover = take(&setup, above, copied);
                guard.report(takeover);
            });
        if let Err(error) = spawned {
            tracing::error!("cannot start a thread to take over the store: {error}");
            failed.next_attempt = Some(clock::now().mono + pause());
        }
    }

    pub(super) fn takeover_done(&mut self, takeover: Result<Taken, TakeoverFailed>) {
        let State::Failed(failed) = &mut self.state else {
            return;
        };
        match takeover {
            Ok(taken) => {
                let epoch = taken.epoch;
                let reason = failed.reason.clone();
                self.fail_pending(&reason);
                let leading = lead(&self.setup, epoch, *taken.ledger);
                self.watch.begun(leading.core.ledger());
                self.state = State::Leading(Box::new(leading));
                self.open_copy(taken.copied);
                self.status.send_replace(Status::Leading(epoch));
                // The failed batch may have been committed all the same.
                self.committed.send_replace(());
            }
            Err(TakeoverFailed {
                reason,
                permanent: true,
            }) => self.fatal = Some(reason),
            Err(TakeoverFailed { reason, .. }) => {
                if reason != failed.reason {
                    tracing::error!("the store still cannot be written: {reason}");
                    failed.reason.clone_from(&reason);
                    self.status.send_replace(Status::Failed(reason));
                }
                failed.next_attempt = Some(clock::now().mono + pause());
            }
        }
    }
}

/// Reports the result of a takeover to the driver, even if it panics.
struct TakeoverGuard(Option<Inbox>);

impl TakeoverGuard {
    fn report(&mut self, takeover: Result<Taken, TakeoverFailed>) {
        if let Some(inbox) = self.0.take() {
            inbox.send(Event::TakeoverResult(takeover));
        }
    }
}

impl Drop for TakeoverGuard {
    fn drop(&mut self) {
        self.report(Err(TakeoverFailed {
            reason: "taking over the store panicked".to_owned(),
            permanent: false,
        }));
    }
}

fn take(
    setup: &Setup,
    above: Epoch,
    copied: Option<CopyEvidence>,
) -> Result<Taken, TakeoverFailed> {
    leadership::take(&*setup.store, &setup.mark, above, copied).map_err(|error| TakeoverFailed {
        reason: error.to_string(),
        permanent: matches!(error, ServeError::Store(StoreError::Closed)),
    })
}

fn pause() -> Millis {
    Millis(u64::try_from(RETAKE_PAUSE.as_millis()).unwrap_or(u64::MAX))
}
