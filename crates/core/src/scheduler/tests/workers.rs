//! For how long a worker that is gone is listed.

use baton_model::limits::GONE_WORKER_LEASES;

use super::*;

/// The states of the listed workers.
fn listed(leader: &Leader) -> Vec<WorkerState> {
    leader.core.seats().values().map(|it| it.state).collect()
}

/// Lets lease times pass, less one millisecond.
fn wait_leases(leader: &mut Leader, count: u64) -> Vec<Effect> {
    leader.wait(Millis(lease_time().0 * count - 1))
}

fn forget(leader: &mut Leader, name: &str) -> Option<bool> {
    let command = Command::Forget {
        worker: WorkerName::new(name),
        lineage: None,
    };
    let effects = leader.give(Input::Command(RequestId(9), command));
    effects.iter().find_map(|effect| match effect {
        Effect::Reply(_, Reply::Forgotten(known)) => Some(*known),
        _ => None,
    })
}

#[test]
fn a_lost_worker_is_listed_for_a_while_and_then_no_more() {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    let mut w = Remote::new("w", 7, 1);
    leader.welcome(&mut w, &[]);
    leader.submit(1, Exclusive::Timed);
    leader.wait(lease_time());
    wait_leases(&mut leader, GONE_WORKER_LEASES - 1);
    assert_eq!(listed(&leader), [WorkerState::MustDie]);
    assert_eq!(leader.state(1), UniversalState::Queued);
    leader.wait(Millis(1));
    assert_eq!(listed(&leader), []);
    // It speaks after all: the order to die stands.
    assert_eq!(leader.heartbeat(&mut w, WorkerState::Healthy), None);
    assert_eq!(listed(&leader), []);
    let mut next = Remote::new("w", 7, 2);
    leader.welcome(&mut next, &[]);
    assert_eq!(listed(&leader), [WorkerState::Healthy]);
}

#[test]
fn a_lost_worker_with_strict_work_is_listed_until_an_operator_forgets_it() {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    let mut w = Remote::new("w", 7, 1);
    leader.welcome(&mut w, &[]);
    leader.submit(1, Exclusive::Strict);
    leader.wait(lease_time());
    wait_leases(&mut leader, 3 * GONE_WORKER_LEASES);
    assert_eq!(listed(&leader), [WorkerState::MustDie]);
    assert_eq!(forget(&mut leader, "w"), Some(true));
    assert_eq!(listed(&leader), []);
    assert_eq!(leader.state(1), UniversalState::Queued);
    assert_eq!(forget(&mut leader, "w"), Some(false));
}
