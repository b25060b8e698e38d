//! Operation as a follower, of a store that several schedulers share.
//!
//! A follower has no leader in memory: it answers nothing itself, and refuses workers; the client
//! port serves what needs only the store, and forwards the rest. It leads when its election is won,
//! and follows again, without a restart, when a commit or a renewal has failed, or a worker has
//! obeyed a higher epoch.
//!
//! There is no lease keeper here. It may extend a lease only where no other scheduler can lead, and
//! of a shared store another one may have taken the row already, counted the lease from its own start,
//! and given the attempt away when it had passed. So workers keep their work for the rest of their
//! leases, which begin anew with each heartbeat that the next leader answers.

use std::io;
use std::sync::Arc;
use std::thread;

use baton_model::fact::CopyEvidence;
use baton_model::ids::Epoch;
use baton_model::time::Mono;
use tokio::sync::watch as latest;

use super::election::{DeathGuard, Elector, Order};
use super::event::ElectionEvent;
use super::links::Links;
use super::start::lead;
use super::watch::Watch;
use super::{Driver, Setup, State, Status};
use crate::leadership::Taken;
use crate::limits::{SHARED_WAIT, SHUTDOWN_WAIT};

impl Driver {
    /// Starts the threads that wait for a shared store: its election, and commits of other schedulers.
    pub(super) fn watch_store(&mut self) -> io::Result<()> {
        let elector = Elector::start(Arc::clone(&self.setup), self.inbox.clone())?;
        self.election = Some(elector);
        let (setup, committed) = (Arc::clone(&self.setup), self.committed.clone());
        let guard = DeathGuard::new(self.inbox.clone(), "the thread that waits for commits died");
        thread::Builder::new()
            .name("store-commits".to_owned())
            .spawn(move || {
                relay_commits(&setup, &committed);
                guard.disarm();
            })?;
        Ok(())
    }

    /// Drops the leader, and follows.
    pub(super) fn follow(&mut self, reason: String, above: Epoch, copied: Option<CopyEvidence>) {
        let State::Leading(leading) = &self.state else {
            return;
        };
        let epoch = leading.core.epoch();
        tracing::warn!("this scheduler does not lead any more in epoch {epoch}: {reason}");
        self.fail_pending(&reason);
        // Clients that wait for an end, and all workers, are sent to the next leader.
        self.watch = Watch::default();
        self.links = Links::default();
        self.overtaken = None;
        self.state = State::Following;
        self.status.send_replace(Status::Following(None));
        if let Some(election) = &self.election {
            election.order(Order::StepDown {
                epoch,
                above,
                copied,
            });
        }
    }

    /// Follows if the lease of this leader has passed. Another scheduler may lead by now, and counts on
    /// it that no heartbeat which a worker sends from now on is answered here.
    pub(super) fn end_lapsed_term(&mut self, now: Mono) {
        let State::Leading(leading) = &self.state else {
            return;
        };
        let has_lapsed = |election: &Elector| election.has_lapsed(now);
        if self.election.as_ref().is_some_and(has_lapsed) {
            let epoch = leading.core.epoch();
            let reason = "the store has not confirmed that it leads in time".to_owned();
            self.follow(reason, epoch, None);
        }
    }

    pub(super) fn election_event(&mut self, event: ElectionEvent) {
        match event {
            ElectionEvent::Won(taken) => self.elected(taken),
            ElectionEvent::Lost(epoch, reason) => {
                if let State::Leading(leading) = &self.state
                    && leading.core.epoch() == epoch
                {
                    self.follow(reason, epoch, None);
                }
            }
            ElectionEvent::Trouble(reason) => {
                if matches!(self.state, State::Following) {
                    self.status.send_replace(Status::Following(reason));
                }
            }
            ElectionEvent::Died(reason) => self.fatal = Some(reason),
        }
    }

    fn elected(&mut self, taken: Taken) {
        // At its end the driver gives the term back.
        if !matches!(self.state, State::Following) || self.stop_by.is_some() {
            return;
        }
        let epoch = taken.epoch;
        let leading = lead(&self.setup, epoch, *taken.ledger);
        self.state = State::Leading(Box::new(leading));
        self.open_copy(taken.copied);
        self.status.send_replace(Status::Leading(epoch));
        self.committed.send_replace(());
    }

    /// Gives the leadership back at the end, so that another scheduler takes over at once.
    pub(super) fn end_election(&mut self) {
        if let Some(election) = self.election.take() {
            let leads = matches!(self.state, State::Leading(_));
            election.stop(leads.then_some(SHUTDOWN_WAIT));
        }
    }
}

/// Passes on that some scheduler has committed, until the server ends.
fn relay_commits(setup: &Setup, committed: &latest::Sender<()>) {
    let Some(sharing) = setup.store.sharing() else {
        return;
    };
    let mut failed = false;
    while !committed.is_closed() {
        match sharing.await_commit(SHARED_WAIT) {
            Ok(news) => {
                // What was committed during a failure may not be reported.
                if news || failed {
                    committed.send_replace(());
                }
                failed = false;
            }
            Err(error) => {
                if !failed {
                    tracing::warn!("cannot wait for commits of other schedulers: {error}");
                }
                failed = true;
                thread::sleep(SHARED_WAIT);
            }
        }
    }
}
