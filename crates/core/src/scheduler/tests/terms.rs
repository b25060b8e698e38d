//! How long attempts outlive the contact to their worker.

use super::*;

fn submit(leader: &mut Leader, id: u64, exclusive: Exclusive, lost_after: Option<u64>) {
    let spec = InstanceSpec {
        exclusive,
        lost_after: lost_after.map(Millis::from_secs),
        ..InstanceSpec::default()
    };
    leader.submit_as(id, submission(&spec, None));
}

fn states(leader: &Leader, ids: impl IntoIterator<Item = u64>) -> Vec<UniversalState> {
    ids.into_iter().map(|id| leader.state(id)).collect()
}

/// A worker with a strict attempt, one of the lease, one of 60 s and one of 240 s.
fn mixed(leader: &mut Leader) -> Remote {
    let mut w = Remote::new("w", 7, 1);
    w.slots = 4;
    leader.welcome(&mut w, &[]);
    submit(leader, 1, Exclusive::Strict, None);
    submit(leader, 2, Exclusive::Timed, None);
    submit(leader, 3, Exclusive::Timed, Some(60));
    submit(leader, 4, Exclusive::Timed, Some(240));
    w
}

#[test]
fn attempts_of_one_worker_are_lost_at_their_own_terms() {
    use UniversalState::{Launched, Queued};
    let mut leader = Leader::new(StoreMode::Durable, 1);
    let w = mixed(&mut leader);
    let heard = leader.core.seats()[&w.holder.worker].heard();
    let mut at = |seconds: u64| {
        leader.wait((heard + Millis(seconds * 1_000)).since(leader.now));
        states(&leader, 1..=4)
    };
    assert_eq!(at(59), [Launched, Launched, Launched, Launched]);
    assert_eq!(at(60), [Launched, Launched, Queued, Launched]);
    assert_eq!(at(90), [Launched, Queued, Queued, Launched]);
    assert_eq!(at(240), [Launched, Queued, Queued, Queued]);
    assert_eq!(at(200_000), [Launched, Queued, Queued, Queued]);
}

#[test]
fn the_next_leader_waits_for_each_term() {
    use UniversalState::{Launched, Queued};
    let mut before = Leader::new(StoreMode::Durable, 1);
    mixed(&mut before);
    let mut next = before.next(Config::default(), Epoch(2));
    next.wait(Millis(60_000));
    assert_eq!(states(&next, 1..=4), [Launched, Launched, Queued, Launched]);
    next.wait(Millis(180_000));
    assert_eq!(states(&next, 1..=4), [Launched, Queued, Queued, Queued]);
}

#[test]
fn a_worker_that_was_away_comes_back_with_its_work() {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    let mut w = mixed(&mut leader);
    let leases: Vec<LeaseId> = (1..=4).map(|id| leader.lease(id)).collect();
    leader.wait(Millis(200_000));
    let reply = leader.heartbeat(&mut w, WorkerState::Unhealthy);
    let state = reply.expect("it is answered").state;
    assert_ne!(state, WorkerState::MustDie);
    // Two of its attempts were given up meanwhile, so it has to list what it holds.
    leader.welcome(&mut w, &[leases[0], leases[3]]);
    assert_eq!(leader.lease(1), leases[0]);
    assert_eq!(leader.lease(4), leases[3]);
    assert_ne!(leader.lease(2), leases[1], "placed again");
    let running = [leader.state(1), leader.state(4)];
    assert_eq!(running, [UniversalState::Running; 2]);
}

#[test]
fn an_attempt_that_was_given_up_is_killed_when_its_worker_returns() {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    let mut w = mixed(&mut leader);
    let stale = leader.lease(3);
    leader.wait(Millis(61_000));
    leader.heartbeat(&mut w, WorkerState::Unhealthy);
    let held: Vec<LeaseId> = [1, 2, 4].map(|id| leader.lease(id)).into();
    let held: Vec<LeaseId> = held.into_iter().chain([stale]).collect();
    leader.report(&w, &held);
    let kills = leader.core.seats()[&w.holder.worker].kills.clone();
    assert_eq!(kills.get(&stale), Some(&KillMode::Now));
}

#[test]
fn a_silent_worker_loses_its_name_but_not_its_attempts() {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    mixed(&mut leader);
    let silence = leader.core.config.timeouts.silence();
    leader.wait(Millis(silence.0 - 1_000));
    let mut other = Remote::new("w", 8, 1);
    assert_eq!(leader.heartbeat(&mut other, WorkerState::New), None);
    leader.wait(Millis(1_000));
    let mut other = Remote::new("w", 9, 1);
    other.slots = 0;
    leader.welcome(&mut other, &[]);
    assert_eq!(
        leader.core.seats()[&other.holder.worker].state,
        WorkerState::Healthy
    );
    let kept = [leader.state(1), leader.state(4)];
    assert_eq!(kept, [UniversalState::Launched; 2]);
}

#[test]
fn a_refused_worker_is_not_silent() {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    let mut original = Remote::new("w", 7, 1);
    leader.welcome(&mut original, &[]);
    submit(&mut leader, 1, Exclusive::Timed, Some(3_600));
    let lease = leader.lease(1);
    leader.wait(Millis(10_000));
    // A clone of its machine boots, and takes its seat.
    let mut clone = Remote::new("w", 7, 2);
    (clone.holder.boot, clone.booted, clone.slots) = (BootId(99), leader.now, 0);
    leader.welcome(&mut clone, &[]);
    for _ in 0..60 {
        leader.wait(Millis(5_000));
        let reply = leader.heartbeat(&mut original, WorkerState::Healthy);
        assert!(reply.is_none(), "the clone has its seat");
        leader.checked(&clone, true);
        leader.heartbeat(&mut clone, WorkerState::Healthy);
    }
    assert_eq!(leader.lease(1), lease, "its attempt is alive");
    let silence = leader.core.config.timeouts.silence();
    for _ in 0..=silence.0 / 5_000 {
        leader.wait(Millis(5_000));
        leader.checked(&clone, true);
        leader.heartbeat(&mut clone, WorkerState::Healthy);
    }
    assert_eq!(leader.state(1), UniversalState::Queued);
}
