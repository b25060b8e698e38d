//! A store that is a copy of another.

use baton_model::fact::CopyEvidence;
use baton_model::ids::RunId;
use baton_model::message::Status;
use baton_model::outcome::{AttemptEnd, LossProof, Outcome, Synthetic};

use super::*;

const EVIDENCE: CopyEvidence = CopyEvidence::OlderThanMark;

fn has(leader: &Leader, is_wanted: fn(&Fact) -> bool) -> bool {
    leader.facts.iter().any(is_wanted)
}

#[test]
fn a_copy_of_a_store_places_nothing_for_a_lease_time() {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    leader.submit(1, Exclusive::Timed);
    let mut copy = leader.next(Config::default(), Epoch::new(2, 5));
    copy.give(Input::CopyOpened(EVIDENCE));
    let mut w = Remote::new("w", 7, 1);
    copy.welcome(&mut w, &[]);
    copy.wait(Millis(lease_time().0 - 100));
    assert_eq!(copy.state(1), UniversalState::Queued);
    // A restart in between begins the wait anew.
    let mut copy = copy.next(Config::default(), Epoch::new(3, 6));
    copy.welcome(&mut w, &[]);
    copy.wait(Millis(lease_time().0 - 100));
    assert_eq!(copy.state(1), UniversalState::Queued);
    assert!(!has(&copy, |it| matches!(it, Fact::CopySettled { .. })));
    copy.heartbeat(&mut w, WorkerState::Healthy);
    copy.wait(Millis(100));
    assert!(has(&copy, |it| matches!(it, Fact::CopySettled { .. })));
    copy.heartbeat(&mut w, WorkerState::Healthy);
    let mut next = copy.next(Config::default(), Epoch::new(4, 7));
    assert!(!next.core.is_waiting(), "settled once and for all");
    next.welcome(&mut Remote::new("x", 8, 1), &[]);
}

/// A copy of a store with one instance, and a lease of it that only the lost future granted.
fn copy_and_lost_lease() -> (Leader, LeaseId) {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    leader.submit(1, Exclusive::Timed);
    let ledger = leader.core.ledger();
    let lost = ledger.next_lease(InstanceId(1), Epoch::new(2, 4));
    (leader.next(Config::default(), Epoch::new(2, 5)), lost)
}

#[test]
fn an_attempt_of_an_unknown_term_is_shown_killed_and_waited_for() {
    let (mut copy, lost) = copy_and_lost_lease();
    copy.give(Input::CopyOpened(EVIDENCE));
    let mut w = Remote::new("w", 7, 1);
    copy.welcome(&mut w, &[lost]);
    let disowned = copy.facts.iter().find_map(|fact| match fact {
        Fact::AttemptsDisowned {
            attempts, example, ..
        } => Some((*attempts, *example)),
        _ => None,
    });
    assert_eq!(disowned, Some((1, lost)));
    for _ in 0..20 {
        copy.heartbeat(&mut w, WorkerState::Healthy);
        copy.now += Millis(lease_time().0 / 10);
        copy.give(Input::Tick);
        let waited = !copy.core.is_waiting();
        assert!(!waited || copy.now.0 > 1_000_000 + 2 * lease_time().0 - 1);
    }
    assert!(
        !copy.core.is_waiting(),
        "one that cannot be killed stops nothing for ever"
    );
}

#[test]
fn the_end_of_an_attempt_of_an_unknown_term_changes_nothing() {
    let (mut copy, lost) = copy_and_lost_lease();
    let mut w = Remote::new("w", 7, 1);
    copy.welcome(&mut w, &[lost]);
    let own = copy.lease(1);
    assert_eq!(own.attempt, lost.attempt, "only the epoch tells them apart");
    let effects = copy.give(Input::Message(ToScheduler::UpdateStatus {
        association: w.association(),
        statuses: vec![(lost, Status::Ended(Outcome::Exited(0).into()))],
    }));
    let acknowledged = |effect: &Effect| match effect {
        Effect::Send(_, ToWorker::StatusAck { leases, .. }) => leases == &[lost],
        _ => false,
    };
    assert!(
        effects.iter().any(acknowledged),
        "or it would repeat it for ever"
    );
    assert_eq!(copy.lease(1), own);
    assert!(!has(&copy, |it| matches!(it, Fact::AttemptEnded { .. })));
}

#[test]
fn an_attempt_that_ended_in_a_lost_future_is_lost() {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    let mut w = Remote::new("w", 7, 1);
    leader.welcome(&mut w, &[]);
    leader.submit(1, Exclusive::Strict);
    let lease = leader.lease(1);
    for (copied, end) in [
        (false, Synthetic::WasNotRunning),
        (true, Synthetic::WorkerLost(LossProof::StoreCopied)),
    ] {
        let mut next = leader.next(Config::default(), Epoch::new(2, 5));
        if copied {
            next.give(Input::CopyOpened(EVIDENCE));
        }
        next.welcome(&mut Remote::new("w", 7, 1), &[]);
        let ended = next.facts.iter().find_map(|fact| match fact {
            Fact::AttemptEnded { lease: it, end, .. } if *it == lease => Some(*end),
            _ => None,
        });
        assert_eq!(ended, Some(AttemptEnd::Synthetic(end)));
    }
}

#[test]
fn a_worker_proves_a_copy_by_a_term_of_this_store_only() {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    let store = leader.core.term().store;
    let evidence = |leader: &mut Leader, store, epoch| {
        let mut w = Remote::new("w", 7, 1);
        w.association = Some(Association {
            store,
            epoch,
            incarnation: w.holder.incarnation,
            session: SessionId(1),
        });
        let heartbeat = Heartbeat {
            version: PROTOCOL_VERSION,
            worker: w.holder.clone(),
            executor: None,
            slots: 1,
            offer: Arc::default(),
            association: w.association,
            epoch_seen: epoch,
            stamp: Stamp(leader.now),
            state: WorkerState::Healthy,
            worker_set: None,
            tenure: Tenure::default(),
            greeting: None,
            measured: None,
        };
        leader.now += Millis(1);
        let effects = leader.give(Input::Message(ToScheduler::ProcessHeartbeat(heartbeat)));
        effects.into_iter().find_map(|effect| match effect {
            Effect::EpochOvertaken(seen, evidence) => Some((seen, evidence.is_some())),
            _ => None,
        })
    };
    let later = Epoch::new(9, 1);
    assert_eq!(evidence(&mut leader, store, later), Some((later, true)));
    let other = StoreId(store.0 + 1);
    assert_eq!(evidence(&mut leader, other, later), Some((later, false)));
    let mut next = leader.next(Config::default(), Epoch::new(10, 2));
    let twin = Epoch::new(10, 1);
    assert_eq!(evidence(&mut next, store, twin), Some((twin, true)));
    next.give(Input::CopyOpened(EVIDENCE));
    assert_eq!(evidence(&mut next, store, twin), None, "known by now");
}

/// A client or a worker may know the ids that the lost future has used.
#[test]
fn a_copy_gives_no_id_to_a_new_instance_that_the_lost_future_may_have_used() {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    leader.submit(1, Exclusive::Timed);
    let mut copy = leader.next(Config::default(), Epoch::new(2, 5));
    copy.give(Input::CopyOpened(EVIDENCE));
    let above = copy.core.ledger().identity().ids_above();
    assert!(above >= InstanceId(1_000_001), "{above}");
    // One from the same state, or a later one, whose predecessor is lost as well, uses others.
    for epoch in [Epoch::new(2, 6), Epoch::new(3, 6)] {
        let mut other = leader.next(Config::default(), epoch);
        other.give(Input::CopyOpened(EVIDENCE));
        let others = other.core.ledger().identity().ids_above();
        assert!(
            others.0.abs_diff(above.0) >= 1_000_000,
            "{others} and {above}"
        );
    }
}

/// A script may know the ids of the runs that the lost future had.
#[test]
fn a_copy_gives_no_id_to_a_new_run_that_the_lost_future_may_have_used() {
    let leader = Leader::new(StoreMode::Durable, 1);
    let mut copy = leader.next(Config::default(), Epoch::new(2, 5));
    copy.give(Input::CopyOpened(EVIDENCE));
    let register = RunCommand::Register {
        plan: Arc::default(),
        open: true,
        key: None,
    };
    let command = Command::Run(Box::new(register));
    let effects = copy.give(Input::command(RequestId(1), command));
    let run = effects.into_iter().find_map(|effect| match effect {
        Effect::Reply(_, Reply::Run(Ok((run, _)))) => Some(run),
        _ => None,
    });
    assert!(run > Some(RunId(1_000)), "{run:?}");
}
