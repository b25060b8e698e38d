//! For how long a worker that is gone is listed, and to whom its name belongs.

use baton_model::ids::TokenId;
use baton_model::limits::{GONE_WORKER_LEASES, WORKER_NAMES_MAX};
use baton_model::principal::{NameOwner, Principal};

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
    let effects = leader.give(Input::command(RequestId(9), command));
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
    // It may come back with its work, however late.
    assert_eq!(listed(&leader), [WorkerState::Unhealthy]);
    assert_eq!(forget(&mut leader, "w"), Some(true));
    assert_eq!(listed(&leader), []);
    assert_eq!(leader.state(1), UniversalState::Queued);
    assert_eq!(forget(&mut leader, "w"), Some(false));
}

fn token(id: u64) -> NameOwner {
    let name = "rack".to_owned();
    NameOwner::Client(Arc::new(Principal::Token {
        id: TokenId(id),
        name,
    }))
}

/// The name for which a worker with this token is refused.
fn refused(core: &Scheduler, remote: &Remote, by: u64) -> Option<String> {
    let found = core.foreign_name(&remote.holder, &token(by), &|_| false);
    found.map(|(name, _)| name.to_string())
}

fn used(leader: &mut Leader, name: &str, by: u64) {
    leader.give(Input::NameUsed(WorkerName::new(name), token(by)));
}

#[test]
fn a_name_belongs_to_the_credential_that_used_it_first() {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    let mut w = Remote::new("w", 7, 1);
    assert_eq!(refused(&leader.core, &w, 2), None, "it is free");
    used(&mut leader, "w", 1);
    leader.welcome(&mut w, &[]);
    leader.submit(1, Exclusive::Timed);
    let next = Remote::new("w", 7, 2);
    let renamed = Remote::new("other", 7, 2);
    let stranger = Remote::new("w", 8, 1);
    let taken = Some("w".to_owned());
    for remote in [&w, &next, &renamed, &stranger] {
        assert_eq!(refused(&leader.core, remote, 1), None);
        assert_eq!(refused(&leader.core, remote, 2), taken);
    }
    assert_eq!(refused(&leader.core, &Remote::new("other", 8, 1), 2), None);
    // The next leader knows it, also of a state directory that has not spoken yet.
    let clock = leader.clock();
    let after = Scheduler::new(Config::default(), Epoch(2), leader.kept.clone(), clock);
    for remote in [&w, &next, &renamed] {
        assert_eq!(refused(&after, remote, 1), None);
        assert_eq!(refused(&after, remote, 2), taken);
    }
    let revoked = leader
        .core
        .foreign_name(&next.holder, &token(2), &|owner| *owner == token(1));
    assert_eq!(revoked, None, "a revoked token owns nothing");
}

#[test]
fn forgetting_a_worker_releases_its_name() {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    used(&mut leader, "w", 1);
    let w = Remote::new("w", 7, 1);
    assert_eq!(refused(&leader.core, &w, 2), Some("w".to_owned()));
    assert_eq!(forget(&mut leader, "w"), Some(true), "its name is known");
    assert_eq!(refused(&leader.core, &w, 2), None);
    assert_eq!(forget(&mut leader, "w"), Some(false));
}

#[test]
fn an_owner_of_too_many_names_loses_unused_ones() {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    let mut kept = Remote::new("w00000", 7, 1);
    used(&mut leader, "w00000", 1);
    leader.welcome(&mut kept, &[]);
    for number in 1..=WORKER_NAMES_MAX {
        let name = WorkerName::new(&format!("w{number:05}"));
        let used = Input::NameUsed(name, token(1));
        drop(leader.core.handle(leader.clock(), used));
    }
    let owners = leader.core.ledger().name_owners();
    assert_eq!(owners.len(), WORKER_NAMES_MAX);
    let owned = |name: &str| owners.contains_key(&WorkerName::new(name));
    assert!(owned("w00000") && !owned("w00001") && owned("w10000"));
}
