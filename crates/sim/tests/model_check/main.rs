//! Exhaustive model check of the real core within small bounds.
//!
//! Two workers, two instances, and a network that keeps every message ever sent: each may arrive
//! at any time, repeatedly, or never, so loss, delay, duplication and reordering are all
//! explored. The exploration starts from a settled cluster. Each test states its bounds, must
//! visit every state within them, and must reach its witnesses, so that it is not vacuous.
//!
//! Time stands still except for one step, in which a whole lease time passes for the scheduler.
//! In timed mode that step is allowed only after the dead-man timer of the silent host has killed
//! everything: the timeouts guarantee that order (`baton_model::timeouts` proves it). In strict
//! mode it is allowed at any moment, as if the host were frozen.
//!
//! The bounds limit the number of each fault. Faults of a worker and of its connection hit worker
//! `a` alone: the two are symmetric. A heartbeat is sent where it can change something, once per
//! leader, agent and incarnation: to get an association, to learn that the worker is HEALTHY, to
//! report that it gives up. Health checks pass at once, and agent and coordinator communicate
//! without delay. Everything else (attempts, sessions, messages) is finite by itself. About
//! 3.5 million states in all, in about a minute on two idle cores, below 2 GiB.
//!
//! | file | holds |
//! |---|---|
//! | [`bound`] | bounds of an exploration, and its timeouts |
//! | [`world`], [`memo`] | the constants of one exploration; memoized answers |
//! | [`cluster`] | one state, and how messages and time reach its parts |
//! | [`leader`], [`store`], [`host`], [`network`] | the parts of a state |
//! | [`machine`] | one machine in detail: the real host, killed at every record |
//! | [`action`] | the actions of a state, and the states they lead to |
//! | [`properties`] | safety properties, and witnesses that must be reached |
//! | [`explore`] | runs the checker and verifies that it was exhaustive |
//! | [`hashed`] | parts that are cheap to copy and to compare |

#![allow(missing_docs, reason = "test helpers")]

mod action;
mod bound;
mod cluster;
mod explore;
mod hashed;
mod host;
mod leader;
mod machine;
mod memo;
mod network;
mod properties;
mod store;
mod world;

use baton_core::bugs::{Bug, Bugs};
use baton_model::spec::Exclusive;

use bound::Bound;
use explore::{exhaust, expect_violation};
use properties as seen;

const STRICT: &[Exclusive] = &[Exclusive::Strict, Exclusive::Strict];

/// One worker's handshakes are explored step by step, the other's are one step.
const ONE_BY_ONE: [bool; 2] = [false, true];
/// Both workers' handshakes are one step.
const AT_ONCE: [bool; 2] = [true, true];

/// Broken connections in the largest state spaces: `make soak` explores them with one, which takes
/// minutes.
fn soak_breaks() -> u8 {
    u8::from(std::env::var_os("BATON_ALL").is_some())
}

#[test]
fn a_leader_is_lost_while_commits_are_under_way() {
    let bound = Bound {
        leaders: 2,
        slow_store: true,
        ..Bound::CALM
    };
    let witnesses = &[seen::DONE, seen::ALL_DONE, seen::OUTLIVED_LEADER];
    exhaust("leader lost", bound, witnesses);
}

#[test]
fn two_leaders_are_lost_while_commits_are_under_way() {
    let bound = Bound {
        leaders: 3,
        slow_store: true,
        atomic_handshake: AT_ONCE,
        ..Bound::CALM
    };
    let witnesses = &[seen::ALL_DONE, seen::OUTLIVED_LEADER, seen::COPY_SUPPRESSED];
    exhaust("two leaders lost", bound, witnesses);
}

#[test]
fn a_leader_is_lost_and_an_agent_is_killed() {
    let bound = Bound {
        leaders: 2,
        slow_store: true,
        agent_restarts: 1,
        breaks: 1,
        atomic_handshake: AT_ONCE,
        ..Bound::CALM
    };
    let witnesses = &[
        seen::ALL_DONE,
        seen::OUTLIVED_LEADER,
        seen::READOPTED,
        seen::STALE_SEQUENCE,
        seen::WAS_NOT_RUNNING,
        seen::COPY_SUPPRESSED,
    ];
    exhaust("leader lost, agent killed", bound, witnesses);
}

#[test]
fn a_leader_is_lost_and_a_life_ends() {
    let bound = Bound {
        leaders: 2,
        slow_store: true,
        deaths: 1,
        breaks: 1,
        atomic_handshake: AT_ONCE,
        ..Bound::CALM
    };
    let witnesses = &[
        seen::ALL_DONE,
        seen::OUTLIVED_LEADER,
        seen::NEWER_INCARNATION,
        seen::RETRIED_ELSEWHERE,
        seen::STALE_SEQUENCE,
    ];
    exhaust("leader lost, life ended", bound, witnesses);
}

#[test]
fn an_agent_is_killed_a_life_ends_and_a_connection_breaks() {
    let bound = Bound {
        agent_restarts: 1,
        deaths: 1,
        breaks: soak_breaks(),
        atomic_handshake: ONE_BY_ONE,
        ..Bound::CALM
    };
    let witnesses: &[_] = &[
        seen::ALL_DONE,
        seen::READOPTED,
        seen::NEWER_INCARNATION,
        seen::TOLD_BY_NEXT_LIFE,
        seen::RETRIED_ELSEWHERE,
        seen::COPY_SUPPRESSED,
    ];
    // Only after a broken connection does the leader ask, and may a launch be overtaken.
    let all: &[_] = &[
        seen::ALL_DONE,
        seen::READOPTED,
        seen::NEWER_INCARNATION,
        seen::TOLD_BY_NEXT_LIFE,
        seen::RETRIED_ELSEWHERE,
        seen::STALE_SEQUENCE,
        seen::WAS_NOT_RUNNING,
        seen::COPY_SUPPRESSED,
    ];
    let witnesses = if soak_breaks() > 0 { all } else { witnesses };
    exhaust("agent killed, life ended", bound, witnesses);
}

#[test]
fn timed_a_lease_runs_out_after_the_dead_man_timer_has_fired() {
    let bound = Bound {
        guard_firings: 1,
        leases_out: 1,
        deaths: 1,
        atomic_handshake: ONE_BY_ONE,
        ..Bound::CALM
    };
    let witnesses = &[
        seen::ALL_DONE,
        seen::RAN_OUT,
        seen::KILLED_BY_GUARD,
        seen::RETRIED_ELSEWHERE,
        seen::NEWER_INCARNATION,
    ];
    exhaust("timed, lease run out", bound, witnesses);
}

#[test]
fn timed_a_lease_runs_out_around_a_change_of_leader() {
    let bound = Bound {
        leaders: 2,
        guard_firings: 1,
        leases_out: 1,
        atomic_handshake: AT_ONCE,
        ..Bound::CALM
    };
    let witnesses = &[
        seen::ALL_DONE,
        seen::OUTLIVED_LEADER,
        seen::RAN_OUT,
        seen::KILLED_BY_GUARD,
        seen::RETRIED_ELSEWHERE,
    ];
    exhaust("timed, lease run out, leader lost", bound, witnesses);
}

#[test]
fn strict_a_host_is_frozen_and_the_leader_changes() {
    let bound = Bound {
        exclusive: STRICT,
        leases_out: 1,
        frozen_hosts: true,
        leaders: 2,
        atomic_handshake: ONE_BY_ONE,
        ..Bound::CALM
    };
    let witnesses = &[seen::ALL_DONE, seen::OUTLIVED_LEADER, seen::OUTLIVED_LEASE];
    exhaust("strict, frozen, leader changed", bound, witnesses);
}

#[test]
fn strict_a_host_is_frozen_and_its_agent_is_killed() {
    let bound = Bound {
        exclusive: STRICT,
        leases_out: 1,
        frozen_hosts: true,
        agent_restarts: 1,
        breaks: soak_breaks(),
        atomic_handshake: ONE_BY_ONE,
        ..Bound::CALM
    };
    let witnesses: &[_] = &[seen::ALL_DONE, seen::OUTLIVED_LEASE, seen::READOPTED];
    // Only after a broken connection does the leader ask, and may a launch be overtaken.
    let all: &[_] = &[
        seen::ALL_DONE,
        seen::OUTLIVED_LEASE,
        seen::READOPTED,
        seen::WAS_NOT_RUNNING,
    ];
    let witnesses = if soak_breaks() > 0 { all } else { witnesses };
    exhaust("strict, frozen, agent killed", bound, witnesses);
}

/// The host, killed at every record and every effect, with two agents.
#[test]
fn a_coordinator_is_killed_at_every_record() {
    for room in [1, 2] {
        let explored = machine::explore(machine::Bound {
            room,
            deaths: 2,
            agents: 1,
            bugs: Bugs::NONE,
        });
        assert_eq!(explored.violation, None, "with room for {room}");
        assert!(explored.survived && explored.reaped, "{explored:?}");
        eprintln!(
            "killed at every record, room for {room}: {} states",
            explored.states
        );
    }
}

#[test]
fn seeded_bugs_of_the_host_are_found() {
    for bug in [
        Bug::EffectBeforeRecord,
        Bug::GraceSkipped,
        Bug::SummaryIncomplete,
    ] {
        let explored = machine::explore(machine::Bound {
            room: 1,
            deaths: 1,
            agents: 1,
            bugs: Bugs::only(bug),
        });
        assert!(explored.violation.is_some(), "{bug:?}: {explored:?}");
    }
}

/// Proves that the checker can find violations.
#[test]
fn seeded_bugs_are_found() {
    let broken = Bound {
        breaks: 1,
        ..Bound::CALM
    };
    let lost = Bound {
        leaders: 2,
        slow_store: true,
        atomic_handshake: AT_ONCE,
        ..Bound::CALM
    };
    let frozen = Bound {
        exclusive: STRICT,
        leases_out: 1,
        frozen_hosts: true,
        atomic_handshake: ONE_BY_ONE,
        ..Bound::CALM
    };
    let restarted = Bound {
        agent_restarts: 1,
        deaths: 1,
        ..Bound::CALM
    };
    let cases = [
        (Bug::SequenceUnchecked, broken),
        (Bug::RefusalForgotten, broken),
        (Bug::ClearedOnSendFailure, broken),
        (Bug::SyntheticBeatsReal, broken),
        (Bug::StatusForgottenEarly, broken),
        (Bug::LeaseBeforeDurable, lost),
        (Bug::AckBeforeDurable, lost),
        (Bug::LeaseWaitSkipped, lost),
        (Bug::OlderEpochObeyed, Bound { breaks: 1, ..lost }),
        (Bug::RunningListToSuccessor, restarted),
        (Bug::StrictByTime, frozen),
    ];
    for (bug, bound) in cases {
        let bugs = Bugs::only(bug);
        expect_violation(bug.name(), Bound { bugs, ..bound });
    }
}
