//! What is pruned, and what is not.

use std::thread;

use baton_model::ids::InstanceId;
use baton_model::time::{Millis, Wall};
use baton_store::view::{Query, View};
use baton_store::{PruneReport, Retention, Store};

use crate::Open;
use crate::leading::{Leader, array, condemned, halted, submitted};

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

fn prune(store: &dyn Store, leader: &Leader, retention: Retention) -> PruneReport {
    store
        .prune(leader.epoch, Wall(1_000), &retention, usize::MAX)
        .expect("prunable")
}

/// The number of ended instances that are left; checks that they are the latest.
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
    assert_eq!(prune(&*store, &leader, NO_LIMIT), PruneReport::default());
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
    assert_eq!((pruned.instances, pruned.facts), (7, 28));
    assert_eq!(left(&*store), 3);
    for (id, facts) in [(1, 0), (7, 0), (8, 4)] {
        let timeline = store.timeline(InstanceId(id), None, 10).expect("readable");
        assert_eq!(timeline.items.len(), facts);
    }
    assert_eq!(store.instance(InstanceId(1)), Ok(None));
    assert_eq!(prune(&*store, &leader, three), PruneReport::default());
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
    assert_eq!(pruned.expect("prunable").instances, 10);
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
    assert_eq!(Leader::elect(&*store).ledger, leader.left());
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
    assert_eq!((pruned.instances, pruned.more), (4, true));
    let pruned = prune(&*store, &leader, none);
    assert_eq!((pruned.instances, pruned.more), (6, false));
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
        pruned.instances
    });
    assert_eq!(gone, 2_000);
    assert_eq!(store.counts().expect("readable").terminal(), 100);
}

pub(crate) fn what_is_pruned_stays_known(open: Open<'_>) {
    let store = open();
    let leader = ten_ends(&*store);
    let three = Retention {
        terminal_instances_max: Some(3),
        ..NO_LIMIT
    };
    prune(&*store, &leader, three);
    let mut next = Leader::elect(&*open());
    assert_eq!(next.ledger, leader.left());
    assert_eq!(next.ledger.known().last(), Some(InstanceId(10)));
    assert!(next.try_commit(&*store, vec![submitted(1)]).is_err());
}

pub(crate) fn of_a_halted_range_no_more_goes_than_must(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    leader.commit_at(&*store, Wall(100), vec![array(1, 100), halted(31, 90)]);
    let count = |max| Retention {
        terminal_instances_max: Some(max),
        ..NO_LIMIT
    };
    let pruned = prune(&*store, &leader, count(20));
    assert_eq!((pruned.instances, pruned.records, pruned.facts), (40, 1, 0));
    let page = store.page(&Query::first(View::History, 10));
    let left = &page.expect("readable").items[0];
    assert_eq!((left.instance.id.0, left.span), (71, Some(InstanceId(90))));
    assert_eq!(store.counts().expect("readable").terminal(), 20);
    assert_eq!(store.instance(InstanceId(70)), Ok(None));
    let pruned = prune(&*store, &leader, count(0));
    // The halt is removed with its last instance; the others of the array still wait.
    assert_eq!((pruned.instances, pruned.facts), (20, 1));
    let timeline = store.timeline(InstanceId(30), None, 10).expect("readable");
    assert_eq!(timeline.items.len(), 1);
    leader.commit_at(&*store, Wall(200), vec![halted(1, 100)]);
    let pruned = prune(&*store, &leader, count(0));
    assert_eq!((pruned.instances, pruned.facts), (40, 2));
    let counts = store.counts().expect("readable");
    assert_eq!((counts.terminal(), counts.history_bytes), (0, 0));
    assert_eq!(Leader::elect(&*open()).ledger, leader.left());
}

pub(crate) fn the_fact_about_a_range_goes_with_the_last_one_of_it(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    leader.commit(&*store, vec![array(1, 3)]);
    for id in 1..=3 {
        let facts = leader.done(id);
        leader.commit_at(&*store, Wall(id * 100), facts[1..].to_vec());
    }
    let keep = |max| Retention {
        terminal_instances_max: Some(max),
        ..NO_LIMIT
    };
    assert_eq!(prune(&*store, &leader, keep(1)).facts, 6);
    let timeline = store.timeline(InstanceId(3), None, 10).expect("readable");
    assert_eq!(timeline.items[0].fact, array(1, 3));
    assert_eq!(prune(&*store, &leader, keep(0)).facts, 4);
    assert_eq!(store.counts().expect("readable").history_bytes, 0);
}
