//! Orders of views, and filters by worker, by tag and by time.

use std::sync::Arc;

use baton_model::api::{InstanceFilter, RunFilter};
use baton_model::fact::Fact;
use baton_model::ids::{InstanceId, RunId};
use baton_model::outcome::{AttemptEnd, Outcome};
use baton_model::spec::InstanceSpec;
use baton_model::time::Wall;
use baton_store::Store;
use baton_store::limits::PAGE_SCAN_MAX;
use baton_store::view::{Query, RunQuery, View};

use crate::Open;
use crate::leading::{Leader, array, ended, halted, holder, submitted};
use crate::running::{Running, plan, task};

/// The first ids of all records, page by page, and the number of pages.
fn read_all(store: &dyn Store, mut query: Query) -> (Vec<u64>, usize) {
    let (mut ids, mut pages) = (Vec::new(), 0);
    loop {
        let page = store.page(&query).expect("readable");
        pages += 1;
        ids.extend(page.items.iter().map(|record| record.instance.id.0));
        query.after = page.next;
        if query.after.is_none() {
            return (ids, pages);
        }
    }
}

/// A grant to the holder of this number, and what follows up to an end, if one is given.
fn attempt(leader: &Leader, id: u64, n: u64, end: Option<AttemptEnd>) -> Vec<Fact> {
    let lease = leader.ledger.next_lease(InstanceId(id), leader.epoch);
    let granted = Fact::LeaseGranted {
        lease,
        holder: holder(n),
        executor: None,
        others: Vec::new(),
    };
    let end = end.map(|end| ended(leader, lease, end));
    [submitted(id), granted].into_iter().chain(end).collect()
}

const EXITED: Option<AttemptEnd> = Some(AttemptEnd::Real(Outcome::Exited(0)));

pub(crate) fn a_view_can_be_read_backwards(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    for id in 0..9 {
        let end = EXITED.filter(|_| id % 3 != 0);
        leader.commit(&*store, attempt(&leader, id, id, end));
    }
    for first in [100, 200, 300, 400] {
        leader.commit(
            &*store,
            vec![array(first, first + 9), submitted(first + 50)],
        );
    }
    // Several ends by one fact have one rank.
    leader.commit(&*store, vec![halted(100, 250)]);
    leader.commit(&*store, leader.done(20));
    for view in [View::Bullpen, View::Arena, View::History] {
        let (mut forward, _) = read_all(&*store, Query::first(view, 2));
        for limit in [1, 2, 100] {
            let query = Query {
                reversed: true,
                ..Query::first(view, limit)
            };
            let (backward, _) = read_all(&*store, query);
            forward.reverse();
            assert_eq!(backward, forward, "{view:?} {limit}");
            forward.reverse();
        }
        assert!(forward.len() >= 3, "{view:?}: {forward:?}");
    }
}

pub(crate) fn a_worker_can_be_asked_for(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    for (id, worker, end) in [(1, 1, None), (2, 2, None), (3, 1, EXITED), (4, 2, EXITED)] {
        leader.commit(&*store, attempt(&leader, id, worker, end));
    }
    // One that has run on another worker before counts where it runs.
    let lost = Some(AttemptEnd::Real(Outcome::Exited(9)));
    leader.commit(&*store, attempt(&leader, 5, 2, lost));
    leader.commit(&*store, vec![array(10, 19)]);
    let on = |view, n| {
        let query = Query {
            filter: InstanceFilter {
                worker: Some(holder(n).worker.to_string()),
                ..InstanceFilter::default()
            },
            ..Query::first(view, 10)
        };
        read_all(&*store, query).0
    };
    assert_eq!((on(View::Arena, 1), on(View::Arena, 2)), (vec![1], vec![2]));
    assert_eq!(on(View::History, 1), [3]);
    assert_eq!(on(View::History, 2), [5, 4]);
    assert!(on(View::History, 3).is_empty());
    assert!(on(View::Bullpen, 1).is_empty(), "no range has an attempt");
}

pub(crate) fn a_time_can_be_asked_for(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    for id in 1..=6 {
        let at = Wall(id * 10);
        leader.commit_at(&*store, at, leader.done(id));
        leader.commit_at(&*store, at, vec![submitted(id + 100)]);
    }
    // So many later ends that no page gets past them one by one.
    let many = PAGE_SCAN_MAX as u64 + 10;
    leader.commit_at(&*store, Wall(100), vec![array(1_000, 1_000 + 2 * many)]);
    // Neighbours might be stored as one range.
    let ends = (0..=many).map(|id| halted(1_000 + 2 * id, 1_000 + 2 * id));
    leader.commit_at(&*store, Wall(100), ends.collect());
    let ask = |view, limit, since: Option<u64>, until: Option<u64>, reversed| {
        let query = Query {
            filter: InstanceFilter {
                since: since.map(Wall),
                until: until.map(Wall),
                ..InstanceFilter::default()
            },
            reversed,
            ..Query::first(view, limit)
        };
        read_all(&*store, query)
    };
    let history = |since, until, reversed| ask(View::History, 2, since, until, reversed);
    assert_eq!(history(Some(30), Some(60), false), (vec![5, 4, 3], 2));
    assert_eq!(history(Some(30), Some(60), true), (vec![3, 4, 5], 2));
    assert_eq!(history(None, Some(31), false), (vec![3, 2, 1], 2));
    assert_eq!(history(None, Some(31), true), (vec![1, 2, 3], 2));
    assert_eq!(history(Some(61), Some(100), false), (vec![], 1));
    assert_eq!(history(Some(101), None, false), (vec![], 1));
    assert_eq!(history(None, Some(10), true), (vec![], 1));
    let latest = ask(View::History, 1_000, Some(60), None, true).0;
    assert_eq!((latest[0], latest.len()), (6, many as usize + 2));
    let waiting = |since, until, reversed| ask(View::Bullpen, 2, since, until, reversed).0;
    assert_eq!(waiting(Some(20), Some(40), false), [102, 103]);
    assert_eq!(waiting(Some(20), Some(40), true), [103, 102]);
}

pub(crate) fn runs_can_be_asked_for_by_time_in_both_orders(open: Open<'_>) {
    let mut running = Running::new(open);
    for at in [10, 20, 30, 40] {
        running.at = Wall(at);
        running.register(plan(vec![task("a", &[])]));
    }
    let ask = |since: Option<u64>, until: Option<u64>, oldest_first: bool| {
        let mut query = RunQuery {
            filter: RunFilter {
                since: since.map(Wall),
                until: until.map(Wall),
                ..RunFilter::default()
            },
            oldest_first,
            limit: 2,
            ..RunQuery::default()
        };
        let mut ids = Vec::new();
        loop {
            let page = running.store.runs(&query).expect("readable");
            ids.extend(page.items.iter().map(|it| it.head.id));
            query.after = page.next;
            if query.after.is_none() {
                return ids;
            }
        }
    };
    assert_eq!(ask(None, None, false), [4, 3, 2, 1].map(RunId));
    assert_eq!(ask(None, None, true), [1, 2, 3, 4].map(RunId));
    assert_eq!(ask(Some(20), None, true), [2, 3, 4].map(RunId));
    assert_eq!(ask(Some(20), Some(40), false), [3, 2].map(RunId));
}

pub(crate) fn a_view_can_be_filtered_by_tag(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let of = |first: u64, last: u64, name: &str, tags: &[&str]| Fact::InstancesSubmitted {
        first: InstanceId(first),
        last: InstanceId(last),
        spec: Arc::new(InstanceSpec {
            name: name.to_owned(),
            tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
            ..InstanceSpec::default()
        }),
    };
    leader.commit(
        &*store,
        vec![
            of(1, 1, "a", &["gpu", "nightly"]),
            // Its name is not its tag.
            of(2, 2, "nightly", &[]),
            of(10, 19, "b", &["nightly"]),
            of(20, 29, "c", &["nightly-2", "a\"b"]),
        ],
    );
    let end = attempt(&leader, 30, 1, EXITED);
    leader.commit(&*store, end);
    let tagged = |view, tag: &str| {
        let query = Query {
            filter: InstanceFilter {
                tag: Some(tag.to_owned()),
                ..InstanceFilter::default()
            },
            ..Query::first(view, 10)
        };
        read_all(&*store, query).0
    };
    assert_eq!(tagged(View::Bullpen, "nightly"), [1, 10]);
    assert_eq!(tagged(View::Bullpen, "gpu"), [1]);
    assert_eq!(tagged(View::Bullpen, "a\"b"), [20]);
    assert_eq!(tagged(View::Bullpen, "night"), [0; 0]);
    assert_eq!(tagged(View::History, "nightly"), [0; 0]);
}
