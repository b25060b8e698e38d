//! What is pruned, and what is not.

use std::thread;

use baton_model::ids::InstanceId;
use baton_model::time::{Millis, Wall};
use baton_store::view::{Query, View};
use baton_store::{Pruned, Retention, Store};

use crate::Open;
use crate::leading::{Leader, condemned, submitted};

const NO_LIMIT: Retention = Retention {
    history_age: None,
    history_bytes: None,
    terminal_instances_max: None,
};

/// A leader with ten instances that ended one by one at 100, 200, ... 1000.
fn ten_ends(store: &dyn Store) -> Leader {
    let mut leader = Leader::elect(store);
    for id in 1..=10 {
        leader.commit_at(store, Wall(id * 100), leader.done(id));
    }
    leader
}

fn prune(store: &dyn Store, leader: &Leader, retention: Retention) -> Pruned {
    store
        .prune(leader.epoch, Wall(1_000), &retention, usize::MAX)
        .expect("prunable")
}

/// How many ended instances are left; checks that they are the latest.
fn left(store: &dyn Store) -> u64 {
    let page = store.page(&Query::first(View::History, 100));
    let ids: Vec<_> = page
        .expect("readable")
        .items
        .iter()
        .map(|it| it.instance.id.0)
        .collect();
    let latest: Vec<_> = (1..=10).rev().take(ids.len()).collect();
    assert_eq!(ids, latest);
    assert_eq!(
        store.counts().expect("readable").terminal(),
        ids.len() as u64
    );
    ids.len() as u64
}

pub(crate) fn without_limits_nothing_goes(open: Open<'_>) {
    let store = open();
    let leader = ten_ends(&*store);
    assert_eq!(prune(&*store, &leader, NO_LIMIT), Pruned::default());
    assert_eq!(left(&*store), 10);
}

pub(crate) fn the_oldest_ends_go_by_number(open: Open<'_>) {
    let store = open();
    let leader = ten_ends(&*store);
    let three = Retention {
        terminal_instances_max: Some(3),
        ..NO_LIMIT
    };
    let pruned = prune(&*store, &leader, three);
    let gone: Vec<_> = (1..=7).map(InstanceId).collect();
    assert_eq!((pruned.instances, pruned.facts), (gone, 28));
    assert_eq!(left(&*store), 3);
    for (id, facts) in [(1, 0), (7, 0), (8, 4)] {
        let timeline = store.timeline(InstanceId(id), None, 10).expect("readable");
        assert_eq!(timeline.items.len(), facts);
    }
    assert_eq!(store.instance(InstanceId(1)), Ok(None));
    assert_eq!(prune(&*store, &leader, three), Pruned::default());
}

pub(crate) fn the_oldest_ends_go_by_age(open: Open<'_>) {
    let store = open();
    let leader = ten_ends(&*store);
    let old = Retention {
        history_age: Some(Millis(450)),
        ..NO_LIMIT
    };
    prune(&*store, &leader, old);
    assert_eq!(left(&*store), 5);
}

pub(crate) fn the_oldest_ends_go_by_bytes(open: Open<'_>) {
    let store = open();
    let leader = ten_ends(&*store);
    let before = store.counts().expect("readable").history_bytes;
    let half = Retention {
        history_bytes: Some(before / 2),
        ..NO_LIMIT
    };
    let pruned = prune(&*store, &leader, half);
    let after = store.counts().expect("readable").history_bytes;
    assert_eq!(before - pruned.bytes, after);
    assert!(after <= before / 2);
    assert!((4..=5).contains(&left(&*store)));
}

pub(crate) fn the_living_stay_whatever_the_limits_say(open: Open<'_>) {
    let store = open();
    let mut leader = ten_ends(&*store);
    leader.commit_at(&*store, Wall(1), vec![submitted(99)]);
    let nothing = Retention {
        history_age: Some(Millis(0)),
        history_bytes: Some(0),
        terminal_instances_max: Some(0),
    };
    let pruned = store.prune(leader.epoch, Wall(u64::MAX), &nothing, usize::MAX);
    assert_eq!(pruned.expect("prunable").instances.len(), 10);
    let timeline = store.timeline(InstanceId(99), None, 10).expect("readable");
    assert_eq!(timeline.items.len(), 1);
    let lease = leader.ledger.next_lease(InstanceId(99), leader.epoch);
    leader.commit(&*store, vec![crate::leading::granted(lease)]);
}

pub(crate) fn facts_of_no_instance_go_as_well(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    for n in 1..=10 {
        leader.commit_at(&*store, Wall(n * 100), vec![condemned(n, 1)]);
    }
    let old = Retention {
        history_age: Some(Millis(450)),
        ..NO_LIMIT
    };
    assert_eq!(prune(&*store, &leader, old).facts, 5);
    let none = Retention {
        history_bytes: Some(0),
        ..NO_LIMIT
    };
    assert_eq!(prune(&*store, &leader, none).facts, 5);
    assert_eq!(store.counts().expect("readable").history_bytes, 0);
    assert_eq!(Leader::elect(&*store).ledger, leader.ledger);
}

pub(crate) fn a_budget_ends_the_work_and_says_so(open: Open<'_>) {
    let store = open();
    let leader = ten_ends(&*store);
    let none = Retention {
        terminal_instances_max: Some(0),
        ..NO_LIMIT
    };
    let pruned = store.prune(leader.epoch, Wall(1_000), &none, 4);
    let pruned = pruned.expect("prunable");
    assert_eq!((pruned.instances.len(), pruned.more), (4, true));
    let pruned = prune(&*store, &leader, none);
    assert_eq!((pruned.instances.len(), pruned.more), (6, false));
}

pub(crate) fn commits_pass_while_pruning(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    for id in 0..2_000 {
        let batch = leader.done(id);
        let batch = leader.batch(batch);
        store.submit(batch, Wall(1), Box::new(drop));
    }
    let epoch = leader.epoch;
    let none = Retention {
        history_age: Some(Millis(10)),
        ..NO_LIMIT
    };
    let gone = thread::scope(|scope| {
        let pruning = scope.spawn(|| store.prune(epoch, Wall(100), &none, usize::MAX));
        for id in 10_000..10_100 {
            leader.commit_at(&*store, Wall(100), leader.done(id));
        }
        let pruned = pruning.join().expect("no panic").expect("prunable");
        pruned.instances.len()
    });
    assert_eq!(gone, 2_000);
    assert_eq!(store.counts().expect("readable").terminal(), 100);
}

pub(crate) fn what_is_left_is_restored(open: Open<'_>) {
    let store = open();
    let leader = ten_ends(&*store);
    let three = Retention {
        terminal_instances_max: Some(3),
        ..NO_LIMIT
    };
    prune(&*store, &leader, three);
    let next = Leader::elect(&*open());
    let ids: Vec<_> = next.ledger.instances().map(|(id, _)| id.0).collect();
    assert_eq!(ids, [8, 9, 10]);
}
