//! The election of a shared store, on a thread of its own, because every step of it may block.
//!
//! `baton_core::leader` decides; this carries out its actions. While the scheduler follows, the thread
//! waits for the session of the leader to end, and reads the row now and then: one that is not renewed
//! belongs to a leader that is frozen or cut off, whose session is ended. While it leads, the thread
//! renews the row, and extends its [`Tenure`], which the driver reads before it handles anything: a
//! renewal may block for as long as the network does.
//!
//! ```text
//!   driver ── StepDown, Stop ──▶ election ── Won, Lost, Trouble ──▶ inbox of the driver
//!      ▲                            │
//!      └────────── Tenure ◀─────────┘
//! ```

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, TryRecvError};
use std::thread;
use std::time::Duration;

use baton_core::leader::{Action, Election};
use baton_model::fact::CopyEvidence;
use baton_model::ids::Epoch;
use baton_model::state::LeaderState;
use baton_model::time::{Millis, Mono};
use baton_store::StoreError;
use baton_store::sharing::Sharing;

use super::Setup;
use super::event::{ElectionEvent, Event, Inbox};
use crate::clock;
use crate::error::ServeError;
use crate::leadership::{Taken, take_shared};
use crate::limits::{ELECTION_PAUSE_MAX, ELECTION_PAUSE_MIN, SHARED_WAIT};

/// An order of the driver.
#[derive(Debug)]
pub(super) enum Order {
    /// Lead no more in this epoch; the next one must be above `above`.
    StepDown {
        epoch: Epoch,
        above: Epoch,
        copied: Option<CopyEvidence>,
    },
    /// End, and give the leadership back.
    Stop,
}

/// Until when this scheduler may answer as the leader, by its own clock.
#[derive(Debug, Default)]
struct Tenure(AtomicU64);

impl Tenure {
    fn extend(&self, until: Mono) {
        self.0.store(until.0, Ordering::Release);
    }

    fn until(&self) -> Mono {
        Mono(self.0.load(Ordering::Acquire))
    }
}

/// Handle of the thread.
#[derive(Debug)]
pub(super) struct Elector {
    orders: mpsc::Sender<Order>,
    ended: mpsc::Receiver<()>,
    tenure: Arc<Tenure>,
}

impl Elector {
    /// Starts the election of a shared store.
    pub(super) fn start(setup: Arc<Setup>, inbox: Inbox) -> io::Result<Self> {
        let (orders, orders_receiver) = mpsc::channel();
        let (ended_sender, ended) = mpsc::channel();
        let guard = DeathGuard::new(inbox.clone(), "the thread of the election died");
        let election = Election::new(setup.election, clock::now().mono);
        let tenure = Arc::new(Tenure::default());
        let extended = Arc::clone(&tenure);
        thread::Builder::new()
            .name("election".to_owned())
            .spawn(move || {
                let candidate = Candidate {
                    setup: &setup,
                    inbox,
                    orders: orders_receiver,
                    election,
                    tenure: extended,
                    holds_session: false,
                    above: Epoch(0),
                    copied: None,
                    history_is_due: false,
                    unreadable: Backoff::default(),
                    unled: Backoff::default(),
                    resumes: Mono(0),
                    trouble: None,
                };
                if let Some(sharing) = setup.store.sharing() {
                    candidate.run(sharing);
                }
                guard.disarm();
                // The driver may not wait.
                let _ = ended_sender.send(());
            })?;
        Ok(Self {
            orders,
            ended,
            tenure,
        })
    }

    /// Whether the lease of the leader has passed without a renewal that the store has confirmed.
    pub(super) fn has_lapsed(&self, now: Mono) -> bool {
        now >= self.tenure.until()
    }

    pub(super) fn order(&self, order: Order) {
        // Fails only if the thread has died, which the driver learns from its guard.
        let _ = self.orders.send(order);
    }

    /// Ends the election; waits at most `wait` until the leadership is given back.
    pub(super) fn stop(self, wait: Option<Duration>) {
        self.order(Order::Stop);
        if let Some(wait) = wait
            && self.ended.recv_timeout(wait).is_err()
        {
            tracing::warn!("the leadership was not given back in time; it ends with its lease");
        }
    }
}

/// Reports to the driver that a thread has died, unless it ended in order.
pub(super) struct DeathGuard {
    inbox: Inbox,
    reason: &'static str,
    armed: bool,
}

impl DeathGuard {
    pub(super) const fn new(inbox: Inbox, reason: &'static str) -> Self {
        Self {
            inbox,
            reason,
            armed: true,
        }
    }

    pub(super) fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for DeathGuard {
    fn drop(&mut self) {
        if self.armed {
            let died = ElectionEvent::Died(self.reason.to_owned());
            self.inbox.send(Event::Election(died));
        }
    }
}

/// Pauses after failures: they double, with jitter, so that schedulers that lose the store together do
/// not return together.
#[derive(Debug, Default)]
struct Backoff {
    failures: u32,
}

impl Backoff {
    fn next(&mut self) -> Millis {
        let doubled = ELECTION_PAUSE_MIN.0 << self.failures.min(16);
        let pause = doubled.min(ELECTION_PAUSE_MAX.0);
        self.failures = self.failures.saturating_add(1);
        // Without random numbers there is no jitter, and no harm.
        let random = getrandom::u32().unwrap_or(u32::MAX);
        Millis(pause / 2 + u64::from(random) % (pause / 2 + 1))
    }
}

/// The end of the thread.
struct Stopped;

struct Candidate<'a> {
    setup: &'a Setup,
    inbox: Inbox,
    orders: mpsc::Receiver<Order>,
    election: Election,
    tenure: Arc<Tenure>,
    /// The session of this scheduler is the one that leads.
    holds_session: bool,
    /// The next epoch must be above this one.
    above: Epoch,
    /// The evidence that the store is a copy.
    copied: Option<CopyEvidence>,
    /// Where the term is led is to be recorded.
    history_is_due: bool,
    /// Pauses after failures to read the row: the store is not asked meanwhile.
    unreadable: Backoff,
    /// Pauses after terms that have failed. The row is read meanwhile: a follower that has not seen its
    /// last renewal would replace the next leader so much later, if that freezes.
    unled: Backoff,
    /// The end of such a pause, in which another scheduler may take over.
    resumes: Mono,
    /// Why the store cannot be reached, as last reported.
    trouble: Option<String>,
}

impl Candidate<'_> {
    fn run(mut self, sharing: &dyn Sharing) {
        loop {
            let step = match self.election.state() {
                LeaderState::Leader => self.lead(sharing),
                LeaderState::Follower | LeaderState::Candidate | LeaderState::Deposed => {
                    self.follow(sharing)
                }
            };
            if let Err(Stopped) = step {
                break;
            }
        }
        self.give_back(sharing);
    }

    /// Waits for a vacancy until it is time to read the row.
    fn follow(&mut self, sharing: &dyn Sharing) -> Result<(), Stopped> {
        match self.orders.try_recv() {
            Ok(order) => self.obey(sharing, order)?,
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return Err(Stopped),
        }
        let due = self.election.next_due();
        if self.rests() {
            let wait = due.min(self.resumes).since(clock::now().mono);
            self.pause(sharing, wait)?;
            let action = self.election.tick(clock::now().mono);
            return self.act(sharing, action);
        }
        let wait = until(due).min(SHARED_WAIT);
        match sharing.await_vacancy(wait) {
            Ok(vacant) => {
                let now = clock::now().mono;
                let action = if vacant {
                    self.holds_session = true;
                    self.election.vacant(now)
                } else {
                    self.election.tick(now)
                };
                self.act(sharing, action)
            }
            Err(error) => self.failed(sharing, &error),
        }
    }

    /// Waits until it is time to renew the row.
    fn lead(&mut self, sharing: &dyn Sharing) -> Result<(), Stopped> {
        match self.orders.recv_timeout(until(self.election.next_due())) {
            Ok(order) => self.obey(sharing, order),
            Err(RecvTimeoutError::Timeout) => {
                let action = self.election.tick(clock::now().mono);
                self.act(sharing, action)
            }
            Err(RecvTimeoutError::Disconnected) => Err(Stopped),
        }
    }

    fn obey(&mut self, sharing: &dyn Sharing, order: Order) -> Result<(), Stopped> {
        match order {
            Order::Stop => Err(Stopped),
            Order::StepDown {
                epoch,
                above,
                copied,
            } => {
                self.above = self.above.max(above);
                self.copied = copied.or(self.copied.take());
                // An order about an earlier term is already carried out.
                if self.election.epoch() == Some(epoch) {
                    self.step_down(sharing);
                }
                Ok(())
            }
        }
    }

    fn act(&mut self, sharing: &dyn Sharing, action: Option<Action>) -> Result<(), Stopped> {
        let mut action = action;
        while let Some(next) = action.take() {
            let store = &*self.setup.store;
            match next {
                Action::Read => match store.read_row() {
                    Ok(row) => {
                        self.unreadable = Backoff::default();
                        if !self.rests() {
                            self.recovered();
                        }
                        action = self.election.observed(clock::now().mono, row);
                    }
                    Err(error) => return self.failed(sharing, &error),
                },
                Action::Take(expected) => return self.take(sharing, expected),
                Action::Renew(epoch) => match self.renew(epoch) {
                    Ok(()) => {
                        self.unled = Backoff::default();
                        self.record_history(sharing, epoch);
                    }
                    Err(error) => {
                        let lost = ElectionEvent::Lost(epoch, error.to_string());
                        self.inbox.send(Event::Election(lost));
                        self.step_down(sharing);
                        return Ok(());
                    }
                },
                Action::StepDown => {
                    self.step_down(sharing);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Renews the row. The tenure counts from before: a follower cannot have seen the renewal earlier.
    fn renew(&self, epoch: Epoch) -> Result<(), StoreError> {
        let begun = clock::now().mono;
        self.setup.store.renew(epoch)?;
        self.tenure.extend(begun + self.setup.election.tenure());
        Ok(())
    }

    /// The evidence that the store is a copy, if there is any.
    fn evidence(&self, sharing: &dyn Sharing) -> Result<Option<CopyEvidence>, StoreError> {
        if self.copied.is_some() {
            return Ok(self.copied.clone());
        }
        let is_broken = sharing.has_broken_history()?;
        Ok(is_broken.then_some(CopyEvidence::OtherHistory))
    }

    /// Not before the first renewal: only the next term needs it, and this one must not begin later for
    /// it.
    fn record_history(&mut self, sharing: &dyn Sharing, epoch: Epoch) {
        if !self.history_is_due {
            return;
        }
        match sharing.record_history(epoch) {
            Ok(recorded) => self.history_is_due = !recorded,
            Err(error) => tracing::debug!("cannot record the history of the store: {error}"),
        }
    }

    fn take(&mut self, sharing: &dyn Sharing, expected: Epoch) -> Result<(), Stopped> {
        if self.rests() {
            let action = self.election.lost(clock::now().mono);
            return self.act(sharing, action);
        }
        if !self.holds_session {
            if expected > Epoch(0) {
                tracing::warn!(
                    "the leader of epoch {expected} has not renewed its lease in time; replacing it"
                );
            }
            match sharing.depose() {
                Ok(()) => self.holds_session = true,
                // Another follower has done so.
                Err(StoreError::Overtaken) => {
                    let action = self.election.lost(clock::now().mono);
                    return self.act(sharing, action);
                }
                // The epoch fences the other one all the same.
                Err(error) => tracing::warn!("cannot end the session of the leader: {error}"),
            }
        }
        let begun = clock::now().mono;
        let taken = self.take_row(sharing, expected);
        let now = clock::now().mono;
        match taken {
            Ok(Some(taken)) => {
                self.tenure.extend(begun + self.setup.election.tenure());
                // A large store takes long to read.
                if now.since(begun) >= self.setup.election.renew
                    && let Err(error) = self.renew(taken.epoch)
                {
                    return self.failed_to_lead(sharing, &error);
                }
                self.election.won(clock::now().mono, taken.epoch);
                self.history_is_due = true;
                (self.above, self.copied) = (taken.epoch, None);
                self.recovered();
                self.inbox.send(Event::Election(ElectionEvent::Won(taken)));
                Ok(())
            }
            Ok(None) => {
                self.give_back(sharing);
                let action = self.election.lost(now);
                self.act(sharing, action)
            }
            Err(ServeError::Store(error)) => self.failed_to_lead(sharing, &error),
            Err(error) => self.failed_to_lead(sharing, &StoreError::Failed(error.to_string())),
        }
    }

    /// Takes the row, if its epoch still is `expected`. A store that fails to tell whether it has lost
    /// anything is not led: what it has forgotten may be running.
    fn take_row(
        &self,
        sharing: &dyn Sharing,
        expected: Epoch,
    ) -> Result<Option<Taken>, ServeError> {
        let copied = self.evidence(sharing).map_err(ServeError::Store)?;
        let taken = take_shared(&*self.setup.store, expected, self.above, copied)?;
        // The database may have failed over between the question and the take.
        if taken.as_ref().is_some_and(|taken| taken.copied.is_none())
            && sharing.has_broken_history().map_err(ServeError::Store)?
        {
            let reason = "the database failed over during the election".to_owned();
            return Err(ServeError::Store(StoreError::Failed(reason)));
        }
        Ok(taken)
    }

    /// Handles a failure to read the store while it follows.
    fn failed(&mut self, sharing: &dyn Sharing, error: &StoreError) -> Result<(), Stopped> {
        self.report_failure(sharing, error)?;
        let pause = self.unreadable.next();
        // It does not lead, so there is nothing to step down from.
        let _ = self.election.store_failed(clock::now().mono, pause);
        self.pause(sharing, pause)
    }

    /// Handles a failure to begin a term: another scheduler may have more luck.
    fn failed_to_lead(&mut self, sharing: &dyn Sharing, error: &StoreError) -> Result<(), Stopped> {
        self.report_failure(sharing, error)?;
        let now = clock::now().mono;
        let _ = self.election.store_failed(now, self.setup.election.read);
        self.resumes = now + self.unled.next();
        Ok(())
    }

    fn report_failure(&mut self, sharing: &dyn Sharing, error: &StoreError) -> Result<(), Stopped> {
        if *error == StoreError::Closed {
            // Its thread has died: this process can never lead.
            let died = ElectionEvent::Died(error.to_string());
            self.inbox.send(Event::Election(died));
            return Err(Stopped);
        }
        self.give_back(sharing);
        let reason = error.to_string();
        if self.trouble.as_ref() != Some(&reason) {
            tracing::error!("the shared store cannot be used: {reason}; retrying");
            self.trouble = Some(reason.clone());
            let trouble = ElectionEvent::Trouble(Some(reason));
            self.inbox.send(Event::Election(trouble));
        }
        Ok(())
    }

    /// Whether it may not lead yet.
    fn rests(&self) -> bool {
        clock::now().mono < self.resumes
    }

    fn recovered(&mut self) {
        if self.trouble.take().is_some() {
            tracing::info!("the shared store can be used again");
            self.inbox
                .send(Event::Election(ElectionEvent::Trouble(None)));
        }
    }

    /// Follows again, after a pause in which others may take over.
    fn step_down(&mut self, sharing: &dyn Sharing) {
        self.give_back(sharing);
        let now = clock::now().mono;
        self.election = Election::new(self.setup.election, now);
        self.resumes = now + self.unled.next();
    }

    /// Waits, or obeys an order meanwhile.
    fn pause(&mut self, sharing: &dyn Sharing, pause: Millis) -> Result<(), Stopped> {
        match self.orders.recv_timeout(Duration::from_millis(pause.0)) {
            Ok(order) => self.obey(sharing, order),
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => Err(Stopped),
        }
    }

    fn give_back(&mut self, sharing: &dyn Sharing) {
        if !self.holds_session {
            return;
        }
        self.holds_session = false;
        if let Err(error) = sharing.release() {
            // A broken session leads no more either.
            tracing::debug!("cannot give the leadership back: {error}");
        }
    }
}

fn until(due: Mono) -> Duration {
    Duration::from_millis(due.since(clock::now().mono).0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_differ() {
        let mut backoff = Backoff::default();
        let pauses: Vec<u64> = (0..40).map(|_| backoff.next().0).collect();
        assert!(pauses[0] <= ELECTION_PAUSE_MIN.0, "{pauses:?}");
        for pause in &pauses[20..] {
            assert!(*pause >= ELECTION_PAUSE_MAX.0 / 2, "{pauses:?}");
            assert!(*pause <= ELECTION_PAUSE_MAX.0, "{pauses:?}");
        }
        assert!(pauses[20..].iter().any(|pause| *pause != pauses[20]));
    }
}
