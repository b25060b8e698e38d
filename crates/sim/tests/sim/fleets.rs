//! Fleets and their cluster manager: seeds without violations, and seeded bugs that the checkers must detect.
//! `baton-sim --fleets` runs many more seeds.

use baton_core::bugs::{Bug, Bugs};
use baton_sim::fleets::{BUGS, run_seed};
use baton_sim::trace::Detail;

const SEEDS: u64 = 150;

/// Seeds to search for each bug.
const BUG_SEEDS_MAX: u64 = 200;

#[test]
fn fleets_keep_their_guarantees_whatever_the_manager_does() {
    for seed in 0..SEEDS {
        let outcome = run_seed(seed, Bugs::NONE, Detail::Hash);
        assert_eq!(outcome.violation, None, "seed {seed}");
    }
    let [once, again] = [3, 3].map(|seed| run_seed(seed, Bugs::NONE, Detail::Hash));
    assert_eq!(once.trace_hash, again.trace_hash);
}

#[test]
fn every_seeded_bug_of_fleets_is_found_by_its_checker() {
    for bug in BUGS {
        let expected = match bug {
            Bug::SubmittedAgain => "submitted-twice",
            Bug::DemandCountedTwice => "needless-request",
            Bug::AbsenceIsEnd => "ended-alive",
            Bug::CancelForgotten => "left-behind",
            Bug::UncontainedTrusted => "overlap",
            Bug::TokenPresumed => "no-token",
            other => panic!("{} has no checker here", other.name()),
        };
        let mut seeds = 0..BUG_SEEDS_MAX;
        let found = seeds.find_map(|seed| run_seed(seed, Bugs::only(*bug), Detail::Hash).violation);
        let found = found.map(|it| it.checker);
        assert_eq!(found, Some(expected), "{}", bug.name());
    }
}
