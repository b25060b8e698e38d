//! The faults of a shared store, as PostgreSQL has them: a request whose outcome is unknown, because its
//! connection broke, and a standby that is promoted without the last commits.
//!
//! The server executes a request whose client has gone, or does not, or does so a little later. After a
//! failover the requests in flight are lost, and every scheduler notices its broken connection in its
//! own time. Until then it continues with what it has.

use baton_core::bugs::Bug;
use baton_core::leader::{Row, epoch_above};
use baton_core::step::Batch;
use baton_model::fact::{CopyEvidence, Fact};
use baton_model::ids::Epoch;

use super::store::{StoreOp, StoreReply};
use super::{Event, World};
use crate::swarm::FaultKind;
use crate::time::{MILLI, Micros, SECOND, Time};

/// The number of stores in a thousand that are shared.
pub(super) const SHARED: u64 = 500;

/// The longest time until a scheduler notices that its connection is broken: the keepalive of a
/// connection, and some.
const NOTICED_MAX: Micros = 12 * SECOND;

/// The longest time that a server needs for a request whose client has gone.
const LATE_MAX: Micros = 10 * SECOND;

impl World {
    /// Draws the faults of a shared store.
    pub(super) fn populate_failover(&mut self) {
        if !self.is_shared {
            return;
        }
        if self.failover_rng.chance(600) {
            let mean = self.failover_rng.pick(&[40, 120, 400]) * SECOND;
            let first = self.failover_rng.below(2 * mean);
            self.at(first, Event::Strike(FaultKind::OutcomeUnknown, mean));
        }
        if self.failover_rng.chance(500) {
            let mean = self.failover_rng.pick(&[300, 600]) * SECOND;
            let first = self.failover_rng.below(2 * mean);
            self.at(first, Event::Strike(FaultKind::StandbyPromoted, mean));
        }
    }

    /// The connection of a scheduler breaks with its next request.
    pub(super) fn lose_next_outcome(&mut self, scheduler: usize) {
        // The one that leads has most to lose.
        let leader = self.leader().map(|(leader, _)| leader);
        let index = leader.unwrap_or(scheduler);
        self.schedulers[index].loses_outcome = true;
    }

    /// Breaks the connection that has just sent a request for the time `at`, if it is to break. Returns by
    /// how much the request is late.
    pub(super) fn break_connection(&mut self, scheduler: usize, at: Time) -> Micros {
        let process = &mut self.schedulers[scheduler];
        if !std::mem::take(&mut process.loses_outcome) {
            return 0;
        }
        let (term, seq) = (process.term, process.ops_sent);
        // Nothing that is sent on it later arrives.
        let (last, late) = match self.failover_rng.below(3) {
            0 => (seq - 1, 0),
            1 => (seq, 0),
            _ => (seq, self.failover_rng.below(LATE_MAX)),
        };
        self.note(&(scheduler, last, late), || {
            format!("s{scheduler} - store breaks (executed up to {last} of {seq}, {late} us late)")
        });
        self.store.cuts.entry((scheduler, term)).or_insert(last);
        self.checkers.cancel_expected_orders();
        let noticed = at.after(self.failover_rng.below(2 * SECOND));
        let reply = StoreReply::Failed;
        self.at_time(
            noticed,
            Event::StoreReply {
                scheduler,
                term,
                reply,
            },
        );
        late
    }

    /// The standby falls behind from now on, and is promoted soon. Sometimes a new term falls into what
    /// it lacks.
    pub(super) fn replication_lags(&mut self, scheduler: usize) {
        if self.store.backup.is_some() || self.is_copy_unopened() {
            return;
        }
        self.note(&"lag", || "the standby falls behind".to_owned());
        self.store.backup = Some(self.copy_store());
        let longest = self
            .failover_rng
            .pick(&[200 * MILLI, 2 * SECOND, 10 * SECOND, 30 * SECOND]);
        let lag = self.failover_rng.within(MILLI, longest);
        self.at(lag, Event::RestoreStore);
        if self.failover_rng.chance(400) {
            let leader = self.leader().map(|(leader, _)| leader);
            let scheduler = leader.unwrap_or(scheduler);
            let downtime = self.failover_rng.below(5 * SECOND);
            let crash = self.failover_rng.below(lag);
            self.at(
                crash,
                Event::CrashScheduler {
                    scheduler,
                    downtime,
                },
            );
        }
    }

    /// The server is gone, with every connection to it; another one answers after a while.
    pub(super) fn lose_server(&mut self) {
        self.store.failing = true;
        let outage = self.failover_rng.pick(&[10 * MILLI, SECOND, 20 * SECOND]);
        self.at(outage, Event::StoreHeals);
        self.checkers.cancel_expected_orders();
        // One that does not run connects to the other server when it starts.
        let connected = |index: &usize| self.schedulers[*index].up;
        let connected: Vec<usize> = (0..self.schedulers.len()).filter(connected).collect();
        for scheduler in connected {
            let process = &self.schedulers[scheduler];
            let (term, applied) = (process.term, process.ops_applied);
            self.store
                .cuts
                .entry((scheduler, term))
                .and_modify(|last| *last = applied.min(*last))
                .or_insert(applied);
            let noticed = self.failover_rng.below(NOTICED_MAX);
            let reply = StoreReply::Failed;
            self.at(
                noticed,
                Event::StoreReply {
                    scheduler,
                    term,
                    reply,
                },
            );
        }
    }

    /// Takes the row of a shared store under the next epoch: it has no mark, but knows its server.
    pub(super) fn store_take_shared(
        &mut self,
        above: Epoch,
        copied: Option<CopyEvidence>,
    ) -> StoreReply {
        let expected = self.store.row.epoch;
        let epoch = if self.config.bugs.has(Bug::EpochFromStore) {
            Epoch::new(expected.number() + 1, 0)
        } else {
            let random = self.failover_rng.below(1 << 32) as u32;
            let last = expected.max(above);
            epoch_above(last, copied.is_some(), random).unwrap_or(last)
        };
        self.store.row = Row { epoch, renewals: 0 };
        self.store.ledger.begin_term(epoch);
        let ledger = self.ledger_for_leader();
        let is_moved = self.store.server != self.store.recorded_server
            && !self.config.bugs.has(Bug::PromotionUnnoticed);
        let copied = copied.or(is_moved.then_some(CopyEvidence::OtherHistory));
        StoreReply::Won(epoch, Box::new(ledger), copied)
    }

    /// Checks the term that was just taken.
    pub(super) fn check_term(&mut self) {
        let epoch = self.store.row.epoch;
        self.checkers.term_begun(epoch, &self.store.ledger);
    }

    /// The session of a leader has ended: another scheduler learns of it.
    pub(super) fn announce_vacancy(&mut self, index: usize) {
        if !self.is_shared || self.calm {
            return;
        }
        // One of them gets the lock of the session.
        let others: Vec<usize> = (0..self.schedulers.len())
            .filter(|other| *other != index && self.schedulers[*other].up)
            .collect();
        if !others.is_empty() {
            let next = self.failover_rng.pick(&others);
            let span = self.failover_rng.below(2 * SECOND);
            self.at(span, Event::Vacancy(next));
        }
    }

    /// [`Bug::OutcomeTakenAsFailure`], [`Bug::OutcomeTakenAsSuccess`]: a leader that guesses what became of
    /// its commits in flight, and leads on over a new connection. False without these bugs.
    pub(super) fn guess_outcome(&mut self, index: usize) -> bool {
        let bugs = self.config.bugs;
        let guesses = bugs.has(Bug::OutcomeTakenAsFailure) || bugs.has(Bug::OutcomeTakenAsSuccess);
        if !guesses || !self.is_leading(index) {
            return false;
        }
        self.store_cut(index);
        let batches: Vec<Batch<Fact>> = self.schedulers[index].unconfirmed.drain(..).collect();
        for batch in batches {
            if bugs.has(Bug::OutcomeTakenAsFailure) {
                self.send_commit(index, batch);
            } else {
                self.release(index, batch.durable());
            }
        }
        true
    }

    /// Sends a group to the store, and remembers it until its outcome is known.
    pub(super) fn send_commit(&mut self, index: usize, batch: Batch<Fact>) {
        self.schedulers[index].unconfirmed.push_back(batch.clone());
        self.store_send(index, StoreOp::Commit(batch));
    }
}
