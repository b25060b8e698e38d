//! The leader machine: one scheduler in the leader election.
//!
//! DEPOSED is for ever: a scheduler that was overtaken drops everything that it
//! held in memory and starts again as FOLLOWER, instead of trusting what
//! it knew under its old epoch.
//!
//! An election is one conditional write to the store, which has one answer. So
//! an answer of an earlier, abandoned candidacy may come late, but a leader is
//! never elected again, nor out-run: those two are illegal.

use baton_model::state::LeaderState;

use super::{LateRow, Machine, Row, late, row};
use LeaderEvent as E;
use LeaderState as S;

/// The machine of one scheduler's part in the election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leader;

events! {
    /// What can happen to a scheduler in the election.
    LeaderEvent {
        /// The lease that it watched was not renewed in time.
        LeaseLapsed = "lease-lapsed",
        /// Its own epoch stands in the store.
        Elected = "elected",
        /// Another scheduler's epoch stands in the store.
        OutRun = "out-run",
        /// A higher epoch than its own has been seen, or its own lease could not be renewed.
        Overtaken = "overtaken",
    }
}

state_words!(LeaderState);

/// A timer over another's lease fired when the candidacy had already begun.
const LAPSE_AFTER_CANDIDACY: &str = "lapse-after-candidacy";
/// The store answered an election that had been abandoned.
const ELECTION_ABANDONED: &str = "election-abandoned";
/// News of a higher epoch came to one that does not lead.
const OVERTAKEN_WITHOUT_LEADING: &str = "overtaken-without-leading";
/// Anything that comes to a deposed leader.
const AFTER_DEPOSED: &str = "after-deposed";

impl Machine for Leader {
    type State = LeaderState;
    type Event = LeaderEvent;

    const NAME: &'static str = "leader";
    const ABOUT: &'static str = "One scheduler's part in the election of the one leader.";
    const INITIAL: &'static [S] = &[S::Follower];
    const TERMINAL: &'static [S] = &[S::Deposed];

    const TABLE: &'static [Row<S, E>] = &[
        row(S::Follower, E::LeaseLapsed, S::Candidate),
        row(S::Candidate, E::Elected, S::Leader),
        row(S::Candidate, E::OutRun, S::Follower),
        row(S::Leader, E::Overtaken, S::Deposed),
    ];

    const LATE: &'static [LateRow<S, E>] = &[
        late(S::Candidate, E::LeaseLapsed, LAPSE_AFTER_CANDIDACY),
        late(S::Leader, E::LeaseLapsed, LAPSE_AFTER_CANDIDACY),
        late(S::Deposed, E::LeaseLapsed, AFTER_DEPOSED),
        late(S::Follower, E::Elected, ELECTION_ABANDONED),
        late(S::Deposed, E::Elected, AFTER_DEPOSED),
        late(S::Follower, E::OutRun, ELECTION_ABANDONED),
        late(S::Deposed, E::OutRun, AFTER_DEPOSED),
        late(S::Follower, E::Overtaken, OVERTAKEN_WITHOUT_LEADING),
        late(S::Candidate, E::Overtaken, OVERTAKEN_WITHOUT_LEADING),
        late(S::Deposed, E::Overtaken, AFTER_DEPOSED),
    ];
}
