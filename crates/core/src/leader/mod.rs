//! Leader election: the state machine of one scheduler.
//!
//! Leadership is a row in the store: its holder, the epoch, and a
//! counter of renewals. A follower watches the counter on its *own* clock; no two
//! clocks are ever compared. Taking the row is a compare-and-set on the epoch, so
//! two candidates cannot both win, and every write of a leader is conditional on
//! its epoch, so the write of a deposed leader fails. The election may therefore
//! be wrong about which scheduler is dead without losing anything.
//!
//! A store that knows the sessions of its schedulers makes a takeover fast: it tells a follower that
//! the session of the leader has ended ([`Election::vacant`]), which then does not wait for the lease.
//!
//! ```text
//!   driver                                   Election
//!   time is due ─────────────▶ tick ───────▶ Read, or Renew while it leads
//!   the leader's session ended ▶ vacant ───▶ Read
//!   the row ─────────────────▶ observed ───▶ Take, if vacant, lapsed or never taken
//!   it was taken ────────────▶ won
//!   another has it ──────────▶ lost ───────▶ StepDown, if it led
//!   the store failed ────────▶ store_failed ▶ StepDown, if it led
//! ```

mod copies;

use baton_model::ids::Epoch;
use baton_model::state::LeaderState;
use baton_model::time::{Millis, Mono};

use crate::counts::Counts;
use crate::fsm::{Leader, LeaderEvent, Transition, transition};

pub use copies::{copy_evidence, epoch_above, next_epoch};

/// The leadership row, as read from the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Row {
    /// The term that is in force; 0 before the first.
    pub epoch: Epoch,
    /// How often its holder has renewed it.
    pub renewals: u64,
}

/// Intervals of the election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ElectionTimeouts {
    /// The interval at which a leader renews the row.
    pub renew: Millis,
    /// The interval at which a follower reads it: it sees a renewal, and its absence, so much later.
    pub read: Millis,
    /// The time without renewal after which a follower may take the row.
    pub lapse: Millis,
}

impl ElectionTimeouts {
    /// The intervals of a lease of this length. A frozen leader is replaced at most two reads after its
    /// lease, so that is at most half a second.
    #[must_use]
    pub fn of_lease(lapse: Millis) -> Self {
        let renew = lapse.scaled(1, 8);
        let renew = renew.clamp(Millis(1), Millis::from_secs(1));
        Self {
            renew,
            read: renew.scaled(1, 4).max(Millis(1)),
            lapse,
        }
    }

    /// How long a leader may answer after the *beginning* of its last renewal: less than the lease, by
    /// more than two clocks differ. A leader that is cut off from the store, or was frozen, therefore
    /// stops extending the leases of workers before a follower takes the row for want of renewals; and
    /// one whose session was ended earlier, at most this long after the next term began.
    #[must_use]
    pub const fn tenure(&self) -> Millis {
        self.lapse.scaled(3, 4)
    }
}

impl Default for ElectionTimeouts {
    fn default() -> Self {
        Self {
            renew: Millis::from_secs(2),
            read: Millis::from_secs(2),
            lapse: Millis::from_secs(8),
        }
    }
}

/// An operation on the row for the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Read it and report with [`Election::observed`].
    Read,
    /// Set the epoch to the next one if it still is this one; report with
    /// [`Election::won`] or [`Election::lost`].
    Take(Epoch),
    /// Count one renewal if the epoch still is this one; report with
    /// [`Election::lost`] if it is not.
    Renew(Epoch),
    /// The leadership has ended: drop the scheduler and its outbox, and start a new [`Election`].
    StepDown,
}

/// The election, as seen by one scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Election {
    state: LeaderState,
    timeouts: ElectionTimeouts,
    seen: Option<(Row, Mono)>,
    /// No session of another scheduler leads: the row is taken without waiting for the lease.
    vacant: bool,
    epoch: Epoch,
    next: Mono,
    counts: Counts,
}

impl Election {
    /// Starts as a follower that reads the row for the first time at `first`: at once after a
    /// start, after a pause if the store has just failed.
    #[must_use]
    pub fn new(timeouts: ElectionTimeouts, first: Mono) -> Self {
        Self {
            state: LeaderState::Follower,
            timeouts,
            seen: None,
            vacant: false,
            epoch: Epoch(0),
            next: first,
            counts: Counts::default(),
        }
    }

    #[must_use]
    pub const fn state(&self) -> LeaderState {
        self.state
    }

    /// The term that it leads, if it leads.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        (self.state == LeaderState::Leader).then_some(self.epoch)
    }

    /// The next time for [`Self::tick`].
    #[must_use]
    pub const fn next_due(&self) -> Mono {
        self.next
    }

    /// Returns the action that is due, if any.
    pub fn tick(&mut self, now: Mono) -> Option<Action> {
        if now < self.next {
            return None;
        }
        let interval = match self.state {
            LeaderState::Follower => self.timeouts.read,
            _ => self.timeouts.renew,
        };
        self.next = now + interval;
        match self.state {
            LeaderState::Follower => Some(Action::Read),
            LeaderState::Leader => Some(Action::Renew(self.epoch)),
            LeaderState::Candidate => None,
            LeaderState::Deposed => Some(Action::StepDown),
        }
    }

    /// The session of the leader has ended, and none but that of this scheduler may lead: a follower
    /// reads the row, and takes it whatever its lease.
    pub fn vacant(&mut self, now: Mono) -> Option<Action> {
        if self.state != LeaderState::Follower {
            return None;
        }
        self.vacant = true;
        self.next = now + self.timeouts.read;
        Some(Action::Read)
    }

    /// Takes the row as read. A follower tries to take it if it has seen no renewal for `lapse`, or if
    /// there is a vacancy.
    pub fn observed(&mut self, now: Mono, row: Row) -> Option<Action> {
        let since = match self.seen {
            Some((seen, since)) if seen == row => since,
            _ => now,
        };
        self.seen = Some((row, since));
        let lapsed = row == Row::default() || now.since(since) >= self.timeouts.lapse;
        if self.state == LeaderState::Follower && (lapsed || self.vacant) {
            self.vacant = false;
            self.step(LeaderEvent::LeaseLapsed);
            return Some(Action::Take(row.epoch));
        }
        None
    }

    /// The row was taken: leads under this epoch.
    pub fn won(&mut self, now: Mono, epoch: Epoch) {
        self.step(LeaderEvent::Elected);
        if self.state == LeaderState::Leader {
            let taken = self.seen.map(|(row, _)| row.epoch);
            assert!(taken < Some(epoch), "{epoch} was won after {taken:?}");
            self.epoch = epoch;
            self.next = now + self.timeouts.renew;
        }
    }

    /// Another scheduler holds the row.
    pub fn lost(&mut self, now: Mono) -> Option<Action> {
        match self.state {
            LeaderState::Leader => {
                self.step(LeaderEvent::Overtaken);
                Some(Action::StepDown)
            }
            LeaderState::Candidate => {
                self.step(LeaderEvent::OutRun);
                self.next = now + self.timeouts.read;
                None
            }
            LeaderState::Follower | LeaderState::Deposed => None,
        }
    }

    /// The store has failed, and with it the last action: a leader steps down, because its memory may
    /// be ahead of the store; another scheduler reads the row again after `pause`.
    pub fn store_failed(&mut self, now: Mono, pause: Millis) -> Option<Action> {
        self.vacant = false;
        let action = self.lost(now);
        self.next = now + pause;
        action
    }

    fn step(&mut self, event: LeaderEvent) {
        match transition::<Leader>(self.state, event) {
            Ok(Transition::Moved(state)) => self.state = state,
            Ok(Transition::Late(name)) => self.counts.late::<Leader>(name),
            Err(illegal) => panic!("{illegal}: {self:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUTS: ElectionTimeouts = ElectionTimeouts {
        renew: Millis(2),
        read: Millis(2),
        lapse: Millis(8),
    };

    fn row(epoch: u64, renewals: u64) -> Row {
        Row {
            epoch: Epoch(epoch),
            renewals,
        }
    }

    #[test]
    fn an_untaken_row_is_taken_at_once() {
        let mut election = Election::new(TIMEOUTS, Mono(0));
        assert_eq!(election.tick(Mono(0)), Some(Action::Read));
        assert_eq!(
            election.observed(Mono(0), row(0, 0)),
            Some(Action::Take(Epoch(0)))
        );
        election.won(Mono(1), Epoch(1));
        assert_eq!(election.state(), LeaderState::Leader);
        assert_eq!(election.tick(Mono(3)), Some(Action::Renew(Epoch(1))));
    }

    #[test]
    fn a_row_that_is_renewed_is_never_taken() {
        let mut election = Election::new(TIMEOUTS, Mono(0));
        for beat in 0..100 {
            assert_eq!(election.observed(Mono(beat * 7), row(1, beat)), None);
        }
    }

    #[test]
    fn a_row_that_stands_still_is_taken_after_the_lapse_on_the_own_clock() {
        let mut election = Election::new(TIMEOUTS, Mono(0));
        assert_eq!(election.observed(Mono(100), row(3, 5)), None);
        assert_eq!(election.observed(Mono(107), row(3, 5)), None);
        assert_eq!(
            election.observed(Mono(108), row(3, 5)),
            Some(Action::Take(Epoch(3)))
        );
    }

    /// The leader is frozen right after a renewal, and a follower reads at the worst time.
    #[test]
    fn a_frozen_leader_is_replaced_half_a_second_after_its_lease() {
        for seconds in [1, 2, 8, 60] {
            let timeouts = ElectionTimeouts::of_lease(Millis::from_secs(seconds));
            let mut election = Election::new(timeouts, Mono(0));
            assert_eq!(election.tick(Mono(0)), Some(Action::Read));
            assert_eq!(election.observed(Mono(0), row(3, 5)), None);
            let frozen = Mono(1);
            let taken = loop {
                // Each read is a little late.
                let now = election.next_due() + Millis(1);
                assert_eq!(election.tick(now), Some(Action::Read));
                if election.observed(now, row(3, 6)).is_some() {
                    break now;
                }
            };
            let after = taken.since(frozen);
            assert!(after >= timeouts.lapse, "{after:?}");
            assert!(after <= timeouts.lapse + Millis(500), "{after:?}");
        }
    }

    #[test]
    fn a_vacancy_is_taken_at_once_whatever_the_lease() {
        let mut election = Election::new(TIMEOUTS, Mono(0));
        assert_eq!(election.observed(Mono(0), row(3, 5)), None);
        assert_eq!(election.vacant(Mono(1)), Some(Action::Read));
        assert_eq!(
            election.observed(Mono(1), row(3, 6)),
            Some(Action::Take(Epoch(3)))
        );
        assert_eq!(election.state(), LeaderState::Candidate);
        assert_eq!(election.vacant(Mono(1)), None, "it is taken already");
    }

    #[test]
    fn a_vacancy_that_another_has_filled_is_none_any_more() {
        let mut election = Election::new(TIMEOUTS, Mono(0));
        let _ = election.vacant(Mono(0));
        assert_eq!(
            election.observed(Mono(0), row(3, 5)),
            Some(Action::Take(Epoch(3)))
        );
        assert_eq!(election.lost(Mono(0)), None);
        assert_eq!(election.observed(Mono(2), row(4, 0)), None);
    }

    #[test]
    fn a_leader_whose_store_fails_steps_down() {
        let mut election = Election::new(TIMEOUTS, Mono(0));
        let _ = election.observed(Mono(0), row(0, 0));
        election.won(Mono(0), Epoch(1));
        let action = election.store_failed(Mono(1), Millis(5));
        assert_eq!(action, Some(Action::StepDown));
        assert_eq!(election.state(), LeaderState::Deposed);
    }

    #[test]
    fn a_store_that_fails_is_asked_again_after_the_pause_and_its_vacancy_is_not_trusted() {
        let mut election = Election::new(TIMEOUTS, Mono(0));
        let _ = election.vacant(Mono(0));
        assert_eq!(election.store_failed(Mono(1), Millis(5)), None);
        assert_eq!(election.tick(Mono(5)), None);
        assert_eq!(election.tick(Mono(6)), Some(Action::Read));
        assert_eq!(election.observed(Mono(6), row(3, 5)), None);
        let _ = election.vacant(Mono(7));
        let _ = election.observed(Mono(7), row(3, 5));
        assert_eq!(election.state(), LeaderState::Candidate);
        assert_eq!(election.store_failed(Mono(8), Millis(5)), None);
        assert_eq!(election.state(), LeaderState::Follower);
    }

    #[test]
    fn an_overtaken_leader_steps_down_and_stays_down() {
        let mut election = Election::new(TIMEOUTS, Mono(0));
        let _ = election.observed(Mono(0), row(0, 0));
        election.won(Mono(0), Epoch(1));
        assert_eq!(election.lost(Mono(2)), Some(Action::StepDown));
        assert_eq!(election.state(), LeaderState::Deposed);
        election.won(Mono(3), Epoch(2));
        assert_eq!(election.state(), LeaderState::Deposed);
    }

    #[test]
    fn a_candidate_that_was_out_run_follows_again() {
        let mut election = Election::new(TIMEOUTS, Mono(0));
        let _ = election.observed(Mono(0), row(0, 0));
        assert_eq!(election.lost(Mono(0)), None);
        assert_eq!(election.state(), LeaderState::Follower);
    }
}
