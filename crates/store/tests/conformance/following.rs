//! The whole history in order, as a following reader sees it.

use std::sync::Arc;
use std::thread;

use baton_model::fact::Fact;
use baton_model::ids::{InstanceId, RunId};
use baton_model::spec::{InstanceSpec, Work};
use baton_model::time::Wall;
use baton_model::workflow::Plan;
use baton_store::facts::{FactPage, FactQuery};
use baton_store::limits::{FACTS_PAGE_BYTES_MAX, PAGE_ITEMS_MAX};
use baton_store::view::{RecordedFact, Seq};
use baton_store::{Retention, Store};

use crate::Open;
use crate::leading::{Leader, array, condemned, granted, halted, submitted};
use crate::running::{Running, many, plan};

fn page(store: &dyn Store, after: u64, owner: Option<&str>) -> FactPage {
    let query = FactQuery {
        after: Seq(after),
        owner: owner.map(str::to_owned),
        run: None,
    };
    store.facts(&query).expect("readable")
}

/// All facts, page by page.
fn all(store: &dyn Store, mut after: u64, owner: Option<&str>) -> Vec<RecordedFact> {
    let mut found = Vec::new();
    loop {
        let page = page(store, after, owner);
        found.extend(page.items);
        after = page.scanned_to.0;
        if !page.more {
            return found;
        }
    }
}

fn numbers(entries: &[RecordedFact]) -> Vec<u64> {
    entries.iter().map(|entry| entry.seq.0).collect()
}

/// A submission by this owner.
fn submitted_by(owner: &str, first: u64, last: u64) -> Fact {
    Fact::InstancesSubmitted {
        first: InstanceId(first),
        last: InstanceId(last),
        spec: Arc::new(InstanceSpec {
            owner: owner.to_owned(),
            ..InstanceSpec::default()
        }),
    }
}

pub(crate) fn facts_of_every_kind_come_once_and_in_order(open: Open<'_>) {
    let store = open();
    assert_eq!(page(&*store, 0, None), FactPage::default());
    let mut leader = Leader::elect(&*store);
    let mut expected = Vec::new();
    for id in [7, 3, 5] {
        expected.extend(leader.done(id));
        leader.commit(&*store, leader.done(id));
    }
    let others = vec![condemned(1, 1), array(10, 20), halted(10, 20)];
    expected.extend(others.clone());
    leader.commit(&*store, others);
    let again = open();
    let found = all(&*again, 0, None);
    let facts: Vec<Fact> = found.iter().map(|entry| entry.fact.clone()).collect();
    assert_eq!(facts, expected);
    assert_eq!(numbers(&found), (1..=15).collect::<Vec<_>>());
    for after in 0..=15 {
        let rest: Vec<_> = (after + 1..=15).collect();
        assert_eq!(numbers(&all(&*again, after, None)), rest);
    }
    let beyond = page(&*again, 99, None);
    assert_eq!(
        (beyond.items.len(), beyond.last, beyond.more),
        (0, Seq(15), false)
    );
}

pub(crate) fn a_page_of_the_history_ends_by_number_and_by_bytes(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let many = PAGE_ITEMS_MAX as u64 + 10;
    leader.commit(&*store, (1..=many).map(submitted).collect());
    let first = page(&*store, 0, None);
    assert_eq!((first.items.len(), first.more), (PAGE_ITEMS_MAX, true));
    let rest = page(&*store, first.scanned_to.0, None);
    assert_eq!((rest.items.len(), rest.more), (10, false));
    let large = |id: u64| Fact::InstancesSubmitted {
        first: InstanceId(id),
        // Every other one goes into the table of facts about several instances.
        last: InstanceId(id + id % 2),
        spec: Arc::new(InstanceSpec {
            work: Work::Command(vec![id.to_string().repeat(FACTS_PAGE_BYTES_MAX / 8)]),
            ..InstanceSpec::default()
        }),
    };
    let ids = (0..20).map(|n| 10_000 + 3 * n);
    leader.commit(&*store, ids.map(large).collect());
    let first = page(&*store, many, None);
    assert!(
        first.items.len() <= 4 && first.more,
        "{}",
        first.items.len()
    );
    assert_eq!(
        numbers(&all(&*store, many, None)),
        (many + 1..=many + 20).collect::<Vec<_>>()
    );
}

pub(crate) fn an_owner_sees_what_is_about_its_own_instances(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    leader.commit(
        &*store,
        vec![
            submitted_by("a", 1, 1),
            submitted_by("b", 2, 2),
            submitted_by("a", 3, 9),
            submitted_by("b", 11, 19),
            condemned(1, 1),
        ],
    );
    for id in [1, 2, 4, 12] {
        let lease = leader.ledger.next_lease(InstanceId(id), leader.epoch);
        leader.commit(&*store, vec![granted(lease)]);
    }
    leader.commit(&*store, vec![halted(3, 3)]);
    leader.commit(&*store, vec![halted(5, 30)]);
    leader.commit(&*store, vec![halted(11, 19)]);
    let of = |owner: &str| numbers(&all(&*store, 0, Some(owner)));
    assert_eq!(of("a"), [1, 3, 6, 8, 10, 11]);
    assert_eq!(of("b"), [2, 4, 7, 9, 11, 12]);
    assert!(of("c").is_empty());
    // No fact of this owner, but all were scanned.
    assert_eq!(page(&*store, 0, Some("c")).scanned_to, Seq(12));
}

pub(crate) fn a_run_and_its_owner_see_its_facts_and_those_of_its_instances(open: Open<'_>) {
    let mut running = Running::of(open, plan(vec![many("a", &[], 9)]));
    let first = running.run;
    let others = Plan {
        owner: "others".to_owned(),
        ..plan(vec![many("a", &[], 9)])
    };
    running.fails(0, 0);
    let waits = running.begin(0, 1);
    let second = running.register(others);
    let other = running.begin(0, 0);
    running.commit(vec![condemned(1, 1), halted(waits.0, other.0)]);
    running.run = first;
    let retried = running.begin(0, 2);
    running.attempt(retried, 0, None);
    let of = |owner: Option<&str>, run: Option<RunId>| {
        let (mut query, mut found) = (FactQuery::default(), Vec::new());
        query.owner = owner.map(str::to_owned);
        query.run = run;
        loop {
            let page = running.store.facts(&query).expect("readable");
            found.extend(page.items);
            query.after = page.scanned_to;
            if !page.more {
                return found;
            }
        }
    };
    let all = of(None, None);
    let is_of = |entry: &&RecordedFact, run: RunId, instances: &[InstanceId]| {
        let spans = |(first, last): (InstanceId, InstanceId)| {
            instances.iter().any(|id| (first..=last).contains(id))
        };
        entry.fact.run() == Some(run) || entry.fact.instances().is_some_and(spans)
    };
    let wanted = |run: RunId, instances: &[InstanceId]| -> Vec<RecordedFact> {
        let all = all.iter();
        all.filter(|it| is_of(it, run, instances))
            .cloned()
            .collect()
    };
    let firsts = [InstanceId(1), waits, retried];
    assert_eq!(of(None, Some(first)), wanted(first, &firsts));
    assert_eq!(of(None, Some(second)), wanted(second, &[other]));
    assert!(of(None, Some(RunId(9))).is_empty());
    // The owner of an instance comes from its own spec.
    assert_eq!(of(Some("lab"), Some(first)), wanted(first, &firsts));
    assert_eq!(of(Some("others"), Some(first)), []);
    let said = of(Some("others"), None);
    assert_eq!(said, wanted(second, &[]));
    let kinds = said.iter().map(|it| std::mem::discriminant(&it.fact));
    assert!(kinds.collect::<std::collections::HashSet<_>>().len() > 1);
}

pub(crate) fn a_follower_learns_up_to_where_there_are_gaps(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    for id in 1..=4 {
        leader.commit_at(&*store, Wall(id * 100), leader.done(id));
    }
    leader.commit_at(&*store, Wall(500), vec![submitted(9)]);
    assert_eq!(page(&*store, 0, None).pruned, Seq(0));
    let two = Retention {
        terminal_instances_max: Some(2),
        ..Retention::default()
    };
    let pruned = store.prune(leader.epoch, Wall(500), &two, usize::MAX);
    assert_eq!(pruned.expect("prunable").last, Seq(8));
    let left = page(&*open(), 0, None);
    assert_eq!((left.pruned, left.last), (Seq(8), Seq(17)));
    assert_eq!(numbers(&left.items), (9..=17).collect::<Vec<_>>());
    // The latest pruning does not hide an earlier one.
    let none = Retention {
        terminal_instances_max: Some(0),
        ..Retention::default()
    };
    store
        .prune(leader.epoch, Wall(500), &none, 1)
        .expect("prunable");
    assert_eq!(page(&*store, 0, None).pruned, Seq(12));
    store
        .prune(leader.epoch, Wall(500), &none, usize::MAX)
        .expect("prunable");
    let left = page(&*store, 16, None);
    assert_eq!((left.pruned, numbers(&left.items)), (Seq(16), vec![17]));
}

pub(crate) fn who_follows_while_others_write_misses_nothing(open: Open<'_>) {
    const COUNT: u64 = 400;
    let store = open();
    let mut leader = Leader::elect(&*store);
    thread::scope(|scope| {
        let follower = scope.spawn(|| {
            let mut seen = Vec::new();
            let mut after = 0;
            while seen.len() < 4 * COUNT as usize {
                let page = page(&*store, after, None);
                seen.extend(numbers(&page.items));
                after = page.scanned_to.0;
                thread::yield_now();
            }
            seen
        });
        for id in 1..=COUNT {
            let facts = leader.done(id);
            let batch = leader.batch(facts);
            store.submit(batch, Wall(1), Box::new(drop));
        }
        let seen = follower.join().expect("no panic");
        assert_eq!(seen, (1..=4 * COUNT).collect::<Vec<_>>());
    });
}
