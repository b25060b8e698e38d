//! Proves for every machine what [`super::Machine`] promises, and compares the
//! tables with lists of arrows that are written here a second time, from the
//! design and not from the tables.

use std::collections::BTreeSet;

use baton_model::state::{AttemptState, LeaderState, UniversalState, WorkerState};

use super::*;

/// Runs one generic check on each of the five machines.
macro_rules! for_every_machine {
    ($check:ident) => {
        $check::<Universal>();
        $check::<Attempt>();
        $check::<Process>();
        $check::<Worker>();
        $check::<Leader>();
    };
}

#[test]
fn every_pair_of_state_and_event_has_exactly_one_answer() {
    fn check<M: Machine>() {
        let mut answered = 0;
        for &state in M::State::ALL {
            for &event in M::Event::ALL {
                let moves: Vec<_> = M::TABLE
                    .iter()
                    .filter(|row| row.from == state && row.event == event)
                    .collect();
                let races: Vec<_> = M::LATE
                    .iter()
                    .filter(|row| row.state == state && row.event == event)
                    .collect();
                let expected = match (moves.as_slice(), races.as_slice()) {
                    ([row], []) => Ok(Transition::Moved(row.to)),
                    ([], [row]) => Ok(Transition::Late(row.name)),
                    ([], []) => Err(IllegalTransition { state, event }),
                    _ => panic!("{}: {state:?} on {event:?} stands twice", M::NAME),
                };
                assert_eq!(transition::<M>(state, event), expected);
                answered += moves.len() + races.len();
            }
        }
        assert_eq!(answered, M::TABLE.len() + M::LATE.len());
    }
    for_every_machine!(check);
}

#[test]
fn every_state_is_reachable_and_every_event_moves_something() {
    fn check<M: Machine>() {
        let mut seen: BTreeSet<M::State> = M::INITIAL.iter().copied().collect();
        for _ in M::State::ALL {
            let next: Vec<_> = M::TABLE
                .iter()
                .filter(|row| seen.contains(&row.from))
                .map(|row| row.to)
                .collect();
            seen.extend(next);
        }
        for state in M::State::ALL {
            assert!(seen.contains(state), "{}: {state:?} unreachable", M::NAME);
        }
        for event in M::Event::ALL {
            assert!(
                M::TABLE.iter().any(|row| row.event == *event),
                "{}: {event:?} moves nothing",
                M::NAME
            );
        }
    }
    for_every_machine!(check);
}

#[test]
fn only_a_person_leads_out_of_a_terminal_state_and_every_other_has_a_way_out() {
    fn check<M: Machine>() {
        for &state in M::State::ALL {
            let mut out = M::TABLE.iter().filter(|row| row.from == state);
            if M::TERMINAL.contains(&state) {
                assert!(
                    out.all(|row| M::BY_HAND.contains(&row.event)),
                    "{}: {state:?} is terminal",
                    M::NAME
                );
            } else {
                assert!(out.next().is_some(), "{}: {state:?} is a trap", M::NAME);
            }
        }
    }
    for_every_machine!(check);
}

#[test]
fn every_word_is_spelt_in_its_own_style_and_only_once() {
    fn check<M: Machine>() {
        let kebab = |word: &str| {
            word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')
                && !word.starts_with('-')
                && !word.ends_with('-')
        };
        let events: BTreeSet<_> = M::Event::ALL.iter().map(|event| event.word()).collect();
        assert_eq!(events.len(), M::Event::ALL.len());
        assert!(events.into_iter().all(kebab));
        assert!(M::LATE.iter().all(|row| kebab(row.name.0)));
        assert!(
            M::Event::ALL
                .iter()
                .all(|event| event.about().ends_with('.'))
        );
        let states: BTreeSet<_> = M::State::ALL.iter().map(|state| state.word()).collect();
        assert_eq!(states.len(), M::State::ALL.len());
    }
    for_every_machine!(check);
    let machines = [
        Universal::NAME,
        Attempt::NAME,
        Process::NAME,
        Worker::NAME,
        Leader::NAME,
    ];
    assert_eq!(BTreeSet::from(machines).len(), machines.len());
}

/// Compares the arrows of a machine with lines such as `A -> B | C`.
#[track_caller]
fn assert_arrows<M: Machine>(design: &[&str]) {
    let mut expected = BTreeSet::new();
    for line in design {
        let (from, to) = line.split_once(" -> ").expect("a line has an arrow");
        expected.extend(to.split(" | ").map(|to| (from, to)));
    }
    let actual: BTreeSet<_> = M::TABLE
        .iter()
        .map(|row| (row.from.word(), row.to.word()))
        .collect();
    assert_eq!(actual, expected, "{}", M::NAME);
}

#[test]
fn the_universal_arrows_are_those_of_the_design_and_a_run_that_is_reopened() {
    assert_arrows::<Universal>(&[
        "REGISTERING -> QUEUED | ABORTED",
        "QUEUED -> INSTANTIATING | HALTED | ABORTED",
        "INSTANTIATING -> LAUNCHED | TRIAGING | HALTED",
        "LAUNCHED -> RUNNING | TRIAGING | HALTED",
        "RUNNING -> DONE | TRIAGING | HALTED",
        "TRIAGING -> QUEUED | FAILED | HALTED",
        "HALTED -> QUEUED",
        "FAILED -> QUEUED",
        "DONE -> QUEUED",
    ]);
}

#[test]
fn the_attempt_arrows_are_those_of_the_design() {
    assert_arrows::<Attempt>(&[
        "ACTIVE -> CLEANING | LOST",
        "CLEANING -> FINALIZING | LOST",
        "FINALIZING -> SUCCESS | FAILED | KILLED | LOST",
    ]);
}

#[test]
fn the_process_arrows_are_those_of_the_design() {
    assert_arrows::<Process>(&[
        "WAITING -> FORKED | FAILED",
        "FORKED -> RUNNING | LOST",
        "RUNNING -> SUCCESS | FAILED | KILLED | LOST",
    ]);
}

#[test]
fn the_worker_arrows_are_those_of_the_design_and_a_new_session() {
    assert_arrows::<Worker>(&[
        "NEW -> UNHEALTHY | MUST_DIE",
        "UNHEALTHY -> HEALTHY | NEW | MUST_DIE",
        "HEALTHY -> UNHEALTHY | NEW | MUST_DIE",
    ]);
}

#[test]
fn the_leader_arrows_are_those_of_the_design() {
    assert_arrows::<Leader>(&[
        "FOLLOWER -> CANDIDATE",
        "CANDIDATE -> LEADER | FOLLOWER",
        "LEADER -> DEPOSED",
    ]);
}

#[test]
fn the_universal_terminal_states_are_those_of_the_model() {
    for state in UniversalState::ALL {
        assert_eq!(
            Universal::TERMINAL.contains(state),
            state.is_terminal(),
            "{state}"
        );
    }
}

#[test]
fn a_worker_event_is_never_illegal() {
    for &state in WorkerState::ALL {
        for &event in WorkerEvent::ALL {
            assert!(transition::<Worker>(state, event).is_ok());
        }
    }
}

#[test]
fn a_known_end_and_a_lost_one_never_replace_each_other() {
    let known = [
        AttemptEvent::Succeeded,
        AttemptEvent::Failed,
        AttemptEvent::Killed,
    ];
    for event in known {
        let after_lost = transition::<Attempt>(AttemptState::Lost, event);
        assert_eq!(
            after_lost,
            Ok(Transition::Late(LateName("proof-after-lost")))
        );
    }
    for state in [
        AttemptState::Success,
        AttemptState::Failed,
        AttemptState::Killed,
    ] {
        let after_end = transition::<Attempt>(state, AttemptEvent::ProofLost);
        assert_eq!(after_end, Ok(Transition::Late(LateName("lost-after-end"))));
    }
}

#[test]
fn an_illegal_transition_says_what_would_have_been_legal() {
    let error = transition::<Universal>(UniversalState::Queued, UniversalEvent::GaveUp)
        .expect_err("only triage gives up");
    assert_eq!(error.machine(), "universal");
    assert_eq!(
        error.to_string(),
        "illegal transition: the universal machine in QUEUED does not take gave-up; \
         it takes claimed, definition-abandoned, stopped there, and takes gave-up in TRIAGING"
    );
    let error = transition::<Universal>(UniversalState::Aborted, UniversalEvent::Claimed)
        .expect_err("ABORTED is for ever");
    assert!(error.to_string().contains("it takes nothing there"));
    let error: Box<dyn std::error::Error> = Box::new(
        transition::<Leader>(LeaderState::Leader, LeaderEvent::Elected)
            .expect_err("a leader is not elected again"),
    );
    assert!(error.to_string().contains("the leader machine in LEADER"));
}

#[test]
fn late_events_are_counted_by_machine_and_race() {
    let mut counts = LateCounts::default();
    let stop = LateName("stop-after-end");
    counts.record::<Universal>(stop);
    counts.record::<Universal>(stop);
    counts.record::<Attempt>(LateName("end-repeated"));
    assert_eq!(
        counts.iter().collect::<Vec<_>>(),
        [
            ("attempt", LateName("end-repeated"), 1),
            ("universal", stop, 2)
        ]
    );
    assert_eq!(counts.count::<Universal>(stop), 2);
    assert_eq!(counts.count::<Attempt>(stop), 0);
}

#[test]
fn only_a_move_has_a_new_state() {
    assert_eq!(
        Transition::Moved(LeaderState::Leader).moved(),
        Some(LeaderState::Leader)
    );
    assert_eq!(Transition::<LeaderState>::Late(LateName("x")).moved(), None);
}
