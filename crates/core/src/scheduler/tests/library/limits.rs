//! `max_instances` and launch rates.

use baton_model::library::Rate;
use baton_model::outcome::{KillCause, Outcome};
use baton_model::spec::RetryBudget;

use super::super::placing::rig;
use super::*;

/// Due every hour, one at a time, and failing for good the second time.
fn one_at_a_time() -> Definition {
    let spec = InstanceSpec {
        retry: RetryBudget {
            failures_max: 1,
            ..RetryBudget::default()
        },
        ..InstanceSpec::default()
    };
    let mut definition = scheduled("every hour");
    definition.spec = Some(Arc::new(spec));
    definition.trigger.max_instances = Some(1);
    definition
}

/// A leader with a worker, and that task.
fn with_worker() -> (Leader, Remote) {
    let (mut leader, worker) = rig();
    leader.set_wall(NEW_YEAR);
    leader.define("a", one_at_a_time()).expect("taken");
    (leader, worker)
}

fn last(leader: &Leader) -> u64 {
    leader.core.ledger().known().last().expect("was launched").0
}

#[test]
fn what_is_queued_counts_and_so_it_does_for_the_next_leader() {
    let mut leader = Leader::of_2026();
    leader.define("a", one_at_a_time()).expect("taken");
    assert_eq!(verdicts(&leader.at(NEW_YEAR + HOUR)), [TickVerdict::Launch]);
    assert_eq!(leader.state(1), UniversalState::Queued);
    assert_eq!(verdicts(&leader.at(NEW_YEAR + 2 * HOUR)), [FULL]);
    let mut next = leader.successor();
    assert_eq!(next.active(1), 1);
    assert_eq!(verdicts(&next.at(NEW_YEAR + 3 * HOUR)), [FULL]);
    assert_eq!(next.kept.known().last(), Some(InstanceId(1)));
}

#[test]
fn a_retry_counts_as_in_flight_until_it_has_failed_for_good() {
    let (mut leader, worker) = with_worker();
    leader.at(NEW_YEAR + HOUR);
    leader.ends(&worker, &[1], Outcome::Exited(1), 1);
    assert_eq!(leader.active(1), 1);
    assert_eq!(verdicts(&leader.at(NEW_YEAR + 2 * HOUR)), [FULL]);
    leader.ends(&worker, &[1], Outcome::Exited(1), 1);
    assert_eq!(leader.state(1), UniversalState::Failed);
    assert_eq!(leader.active(1), 0);
    assert_eq!(
        verdicts(&leader.at(NEW_YEAR + 3 * HOUR)),
        [TickVerdict::Launch]
    );
}

/// Each way to an end, and the state that it ends in.
#[test]
fn every_kind_of_end_makes_room() {
    type End = fn(&mut Leader, &Remote);
    let ends: [(End, UniversalState); 4] = [
        (
            |leader, worker| leader.ends(worker, &[1], Outcome::Exited(0), 1),
            UniversalState::Done,
        ),
        (
            |leader, worker| {
                leader.ends(worker, &[1], Outcome::Exited(1), 1);
                leader.ends(worker, &[1], Outcome::Exited(1), 1);
            },
            UniversalState::Failed,
        ),
        (
            |leader, worker| {
                leader.cancel_range(1, 1);
                assert_eq!(leader.active(1), 1, "it may still run");
                let killed = Outcome::Killed(KillCause::Requested);
                leader.ends(worker, &[1], killed, 1);
            },
            UniversalState::Halted,
        ),
        (
            |leader, worker| {
                leader.ends(worker, &[1], Outcome::Exited(1), 1);
                // Another attempt is in flight; it is stopped as well.
                leader.cancel_range(0, 9);
                leader.ends(worker, &[1], Outcome::Exited(1), 1);
            },
            UniversalState::Halted,
        ),
    ];
    for (index, (end, state)) in ends.into_iter().enumerate() {
        let (mut leader, worker) = with_worker();
        leader.at(NEW_YEAR + HOUR);
        end(&mut leader, &worker);
        assert_eq!(leader.state(1), state, "end {index}");
        assert_eq!(leader.active(1), 0, "end {index}");
        assert_eq!(
            leader.kept.library().active_count(TaskNo(1)),
            0,
            "end {index}"
        );
        let told = verdicts(&leader.at(NEW_YEAR + 2 * HOUR));
        assert_eq!(told, [TickVerdict::Launch], "end {index}");
    }
}

#[test]
fn what_is_halted_while_it_waits_makes_room_alone_or_in_a_range() {
    for (first, last) in [(1, 1), (1, 500)] {
        let mut leader = Leader::of_2026();
        leader.define("a", one_at_a_time()).expect("taken");
        leader.at(NEW_YEAR + HOUR);
        assert_eq!(leader.cancel_range(first, last).halted, 1);
        assert_eq!(leader.active(1), 0);
        let told = verdicts(&leader.at(NEW_YEAR + 2 * HOUR));
        assert_eq!(told, [TickVerdict::Launch]);
        assert_eq!(leader.successor().active(1), 1);
    }
}

#[test]
fn a_retry_by_hand_counts_again_also_above_the_limit() {
    let (mut leader, worker) = with_worker();
    leader.at(NEW_YEAR + HOUR);
    leader.ends(&worker, &[1], Outcome::Exited(1), 1);
    leader.ends(&worker, &[1], Outcome::Exited(1), 1);
    leader.at(NEW_YEAR + 2 * HOUR);
    assert_eq!(last(&leader), 2);
    assert_eq!(leader.retry(1), Ok(()));
    assert_eq!((leader.active(1), leader.successor().active(1)), (2, 2));
    leader.ends(&worker, &[2], Outcome::Exited(0), 1);
    assert_eq!(verdicts(&leader.at(NEW_YEAR + 3 * HOUR)), [FULL]);
    leader.ends(&worker, &[1], Outcome::Exited(0), 1);
    assert_eq!(
        verdicts(&leader.at(NEW_YEAR + 4 * HOUR)),
        [TickVerdict::Launch]
    );
}

#[test]
fn instances_of_others_do_not_count() {
    let mut leader = Leader::of_2026();
    leader.define("a", one_at_a_time()).expect("taken");
    leader.define("b", one_at_a_time()).expect("taken");
    leader.submit(1, Exclusive::Timed);
    let told = verdicts(&leader.at(NEW_YEAR + HOUR));
    assert_eq!(told, [TickVerdict::Launch, TickVerdict::Launch]);
    assert_eq!((leader.active(1), leader.active(2)), (1, 1));
}

#[test]
fn a_launch_rate_skips_excess_launches_and_uses_the_monotonic_clock() {
    let mut leader = Leader::of_2026();
    let mut definition = catching_up("every 10s", HOUR, CatchUp::All);
    definition.trigger.launch_rate = Some(Rate {
        count: 2,
        per: Millis(MINUTE),
    });
    leader.define("a", definition).expect("taken");
    let rate = TickVerdict::Skip(SkipReason::LaunchRate);
    let late = |by| TickVerdict::Late { by: Millis(by) };
    // The wall clock alone fills no bucket.
    let told = verdicts(&leader.at(NEW_YEAR + 40 * SECOND));
    assert_eq!(told, [late(30 * SECOND), late(20 * SECOND), rate, rate]);
    leader.now += Millis(30 * SECOND);
    let facts = leader.at(NEW_YEAR + 60 * SECOND);
    assert_eq!(verdicts(&facts), [late(10 * SECOND), rate]);
    let submitted = |it: &&Fact| matches!(it, Fact::InstancesSubmitted { .. });
    assert_eq!(facts.iter().filter(submitted).count(), 1);
}
