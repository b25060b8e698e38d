//! Views and timelines.

use std::sync::Arc;
use std::thread;

use baton_model::fact::Fact;
use baton_model::ids::InstanceId;
use baton_model::outcome::{AttemptEnd, Outcome};
use baton_model::spec::InstanceSpec;
use baton_model::state::UniversalState;
use baton_model::time::Wall;
use baton_store::Store;
use baton_store::limits::PAGE_SCAN_MAX;
use baton_store::view::{Cursor, LastEnd, Query, View};

use crate::Open;
use crate::leading::{Leader, array, ended, granted, halted, holder, submitted};
use crate::order::stop;

/// Every page of a view, two items at a time; `between` runs after each page.
fn read_all(store: &dyn Store, view: View, mut between: impl FnMut()) -> Vec<u64> {
    let mut query = Query::first(view, 2);
    let mut ids = Vec::new();
    loop {
        let page = store.page(&query).expect("readable");
        assert!(page.items.len() <= 2);
        ids.extend(page.items.iter().map(|record| record.instance.id.0));
        if page.next.is_none() {
            return ids;
        }
        query.after = page.next;
        between();
    }
}

fn ids(store: &dyn Store, view: View) -> Vec<u64> {
    read_all(store, view, || ())
}

fn failed(leader: &Leader, id: u64) -> Vec<Fact> {
    let lease = leader.ledger.next_lease(InstanceId(id), leader.epoch);
    let end = AttemptEnd::Real(Outcome::Exited(1));
    vec![submitted(id), granted(lease), ended(leader, lease, end)]
}

pub(crate) fn a_timeline_tells_what_happened_when_and_in_whose_name(open: Open<'_>) {
    let store = open();
    let mut first = Leader::elect(&*store);
    first.commit_at(&*store, Wall(10), vec![submitted(1), submitted(2)]);
    let mut second = Leader::elect(&*store);
    let lease = second.ledger.next_lease(InstanceId(1), second.epoch);
    second.commit_at(&*store, Wall(20), vec![granted(lease)]);
    let timeline = store.timeline(InstanceId(1), None, 10).expect("readable");
    let timeline_facts: Vec<_> = timeline
        .items
        .iter()
        .map(|it| (it.at, it.epoch, it.fact.clone()))
        .collect();
    assert_eq!(
        timeline_facts,
        [
            (Wall(10), first.epoch, submitted(1)),
            (Wall(20), second.epoch, granted(lease)),
        ]
    );
    assert!(timeline.items.is_sorted_by_key(|it| it.seq));
    let record = store.instance(InstanceId(1)).expect("readable");
    let record = record.expect("is there");
    assert_eq!(
        (record.submitted_at, record.changed_at),
        (Wall(10), Wall(20))
    );
}

pub(crate) fn the_instances_of_a_range_are_found_by_their_state(open: Open<'_>) {
    use UniversalState::{Failed, Halted, Queued};
    let store = open();
    let mut leader = Leader::elect(&*store);
    leader.commit(&*store, failed(&leader, 1));
    leader.commit(&*store, vec![array(2, 9), halted(4, 6)]);
    leader.commit(&*store, failed(&leader, 10));
    let within = |first, last, states: &[UniversalState]| {
        let (first, last) = (InstanceId(first), InstanceId(last));
        let found = store.within(first, last, states, usize::MAX);
        let found = found.expect("readable").into_iter();
        found
            .map(|record| (record.instance.id.0, record.instance.state))
            .collect::<Vec<_>>()
    };
    assert_eq!(within(1, 10, &[Failed]), [(1, Failed), (10, Failed)]);
    assert_eq!(within(2, 10, &[Failed]), [(10, Failed)]);
    assert_eq!(
        within(5, 10, &[Failed, Halted]),
        [(5, Halted), (6, Halted), (10, Failed)]
    );
    assert_eq!(within(3, 5, &[Queued]), [(3, Queued)]);
    assert_eq!(within(8, 8, &[Queued]), [(8, Queued)]);
    assert_eq!(within(11, 99, &[Queued, Failed, Halted]), []);
    let some = store.within(InstanceId(1), InstanceId(10), &[Queued], 2);
    let some = some.expect("readable").into_iter();
    let some: Vec<u64> = some.map(|record| record.instance.id.0).collect();
    assert_eq!(some, [2, 3]);
    // The index of the states has the same of a long range.
    let all = u64::MAX;
    assert_eq!(within(0, all, &[Failed]), [(1, Failed), (10, Failed)]);
    assert_eq!(within(2, all, &[Queued, Failed]).len(), 6);
    let some = store.within(InstanceId(0), InstanceId(all), &[Queued, Failed], 3);
    let some = some.expect("readable").into_iter();
    let some: Vec<u64> = some.map(|record| record.instance.id.0).collect();
    assert_eq!(some, [1, 2, 3]);
    let stretches = |first, last| {
        let found = store.stretches(InstanceId(first), InstanceId(last));
        let found = found.expect("readable").into_iter();
        found
            .map(|it| (it.first.0, it.last.0, it.state))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        stretches(0, 99),
        [
            (1, 1, Failed),
            (2, 3, Queued),
            (4, 6, Halted),
            (7, 9, Queued),
            (10, 10, Failed)
        ]
    );
    assert_eq!(stretches(5, 5), [(5, 5, Halted)]);
    assert_eq!(stretches(11, 99), []);
}

pub(crate) fn a_long_timeline_comes_in_pages(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    leader.commit(&*store, vec![submitted(1), submitted(2)]);
    for _ in 0..12 {
        let stops = [1, 2].map(|id| stop(InstanceId(id)));
        leader.commit(&*store, stops.to_vec());
    }
    let mut after = None;
    let mut seqs = Vec::new();
    loop {
        let page = store.timeline(InstanceId(1), after, 5).expect("readable");
        seqs.extend(page.items.iter().map(|it| it.seq));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seqs.len(), 13);
    assert!(seqs.is_sorted_by(|a, b| a < b));
}

pub(crate) fn a_view_holds_its_instances_and_no_others(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let facts = (1..=3).map(submitted).collect();
    leader.commit(&*store, facts);
    leader.commit(&*store, leader.done(9));
    let lease = leader.ledger.next_lease(InstanceId(2), leader.epoch);
    leader.commit(&*store, vec![granted(lease)]);
    assert_eq!(ids(&*store, View::Bullpen), [1, 3]);
    assert_eq!(ids(&*store, View::Arena), [2]);
    assert_eq!(ids(&*store, View::History), [9]);
    leader.commit(&*store, vec![Fact::AttemptConfirmed { lease }]);
    assert_eq!(ids(&*store, View::Arena), [2]);
}

pub(crate) fn history_begins_with_the_latest_end(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    for id in [5, 1, 9] {
        leader.commit(&*store, leader.done(id));
        leader.commit(&*store, failed(&leader, id + 20));
    }
    assert_eq!(ids(&*store, View::History), [29, 9, 21, 1, 25, 5]);
}

pub(crate) fn a_state_can_be_asked_for(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    for id in 0..5 {
        leader.commit(&*store, leader.done(id));
        leader.commit(&*store, failed(&leader, id + 20));
    }
    let mut query = Query::first(View::History, 10);
    query.filter.state = Some(UniversalState::Failed);
    let page = store.page(&query).expect("readable");
    let found: Vec<_> = page.items.iter().map(|it| it.instance.id.0).collect();
    assert_eq!(found, [24, 23, 22, 21, 20]);
    query.filter.state = Some(UniversalState::Running);
    assert!(store.page(&query).expect("readable").items.is_empty());
}

pub(crate) fn any_id_and_any_limit_can_be_asked_for(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let odd = [0, 1, i64::MAX as u64, 1 << 63, u64::MAX];
    leader.commit(&*store, odd.map(submitted).to_vec());
    assert_eq!(
        ids(&*store, View::Bullpen),
        [1 << 63, u64::MAX, 0, 1, i64::MAX as u64]
    );
    assert_eq!(store.instance(InstanceId(77)), Ok(None));
    let nothing = store.timeline(InstanceId(77), None, 5).expect("readable");
    assert!(nothing.items.is_empty() && nothing.next.is_none());
    let page = |limit| {
        store
            .page(&Query::first(View::Bullpen, limit))
            .map(|it| it.items.len())
    };
    assert_eq!(page(0), Ok(1));
    assert_eq!(page(usize::MAX), Ok(5));
    let mut behind = Query::first(View::Bullpen, 5);
    behind.after = Some(Cursor(i64::MAX, i64::MAX));
    assert!(store.page(&behind).expect("readable").items.is_empty());
}

pub(crate) fn pages_show_everything_once_while_others_write(open: Open<'_>) {
    let (store, reader) = (open(), open());
    let mut leader = Leader::elect(&*store);
    let stay: Vec<u64> = (0..20).map(|n| n * 10).collect();
    leader.commit(&*store, stay.iter().map(|id| submitted(*id)).collect());
    let mut fresh = 0;
    let found = read_all(&*reader, View::Bullpen, || {
        // Before, in and behind the part that was read, one record is added and one removed.
        fresh += 1;
        let facts = [fresh * 17, fresh * 13].map(|id| id * 10 + 1);
        leader.commit(&*store, vec![submitted(facts[0])]);
        if facts[0] != facts[1] {
            leader.commit(&*store, leader.done(facts[1] + 1));
        }
    });
    assert!(found.is_sorted_by(|a, b| a < b), "{found:?}");
    let stayed: Vec<_> = found.into_iter().filter(|id| id % 10 == 0).collect();
    assert_eq!(stayed, stay);

    let ended = ids(&*reader, View::History);
    let second = read_all(&*reader, View::History, || {
        fresh += 1;
        leader.commit(&*store, leader.done(1_000_000 + fresh));
    });
    assert_eq!(second, ended);
}

/// The records of a view: first and last ids.
fn ranges(store: &dyn Store, view: View) -> Vec<(u64, u64)> {
    let page = store.page(&Query::first(view, 100)).expect("readable");
    let range = |it: &baton_store::view::Record| {
        let first = it.instance.id;
        (first.0, it.span.unwrap_or(first).0)
    };
    page.items.iter().map(range).collect()
}

pub(crate) fn one_of_a_range_leaves_it_with_its_first_fact(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    leader.commit(&*store, vec![array(10, 19), submitted(30)]);
    assert_eq!(ranges(&*store, View::Bullpen), [(10, 19), (30, 30)]);
    let lease = leader.ledger.next_lease(InstanceId(15), leader.epoch);
    leader.commit(&*store, vec![granted(lease)]);
    assert_eq!(
        ranges(&*store, View::Bullpen),
        [(10, 14), (16, 19), (30, 30)]
    );
    assert_eq!(ranges(&*store, View::Arena), [(15, 15)]);
    // A loss requeues it, between the parts of its former range.
    let lost = AttemptEnd::Synthetic(baton_model::outcome::Synthetic::WasNotRunning);
    leader.commit(&*store, vec![ended(&leader, lease, lost)]);
    assert_eq!(
        ranges(&*store, View::Bullpen),
        [(10, 14), (15, 15), (16, 19), (30, 30)]
    );
    let record = store.instance(InstanceId(15)).expect("readable");
    let last = LastEnd {
        lease,
        worker: holder(1).worker,
        end: lost,
        stats: None,
        stderr_tail: None,
        progress: None,
    };
    assert_eq!(record.expect("is there").last, Some(last));
    let neighbour = store.instance(InstanceId(16)).expect("readable");
    let neighbour = neighbour.expect("is there");
    assert_eq!((neighbour.instance.id.0, neighbour.span), (16, None));
}

pub(crate) fn a_halted_range_is_one_end_and_each_of_it_can_be_retried(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    leader.commit(&*store, vec![array(10, 19), submitted(20)]);
    let lease = leader.ledger.next_lease(InstanceId(12), leader.epoch);
    leader.commit(&*store, vec![granted(lease)]);
    leader.commit(&*store, vec![halted(0, 15)]);
    assert_eq!(ranges(&*store, View::Bullpen), [(16, 19), (20, 20)]);
    assert_eq!(ranges(&*store, View::Arena), [(12, 12)]);
    assert_eq!(ranges(&*store, View::History), [(10, 11), (13, 15)]);
    let mut next = Leader::elect(&*store);
    let ended = store.instance(InstanceId(14)).expect("readable");
    let ended = ended.expect("is there").instance;
    assert_eq!(ended.state, UniversalState::Halted);
    next.ledger.admit(ended).expect("it was away");
    let retried = Fact::InstanceRetried {
        instance: InstanceId(14),
    };
    next.commit(&*store, vec![retried.clone()]);
    assert_eq!(
        ranges(&*store, View::History),
        [(10, 11), (13, 13), (15, 15)]
    );
    assert_eq!(
        ranges(&*store, View::Bullpen),
        [(14, 14), (16, 19), (20, 20)]
    );
    let timeline_facts = |id| {
        let timeline = store.timeline(InstanceId(id), None, 10).expect("readable");
        let facts = timeline.items.into_iter().map(|it| it.fact);
        facts.collect::<Vec<_>>()
    };
    assert_eq!(timeline_facts(14), [array(10, 19), halted(0, 15), retried]);
    assert_eq!(timeline_facts(17), [array(10, 19)]);
    assert_eq!(timeline_facts(20), [submitted(20)]);
}

pub(crate) fn ranges_that_fall_apart_between_pages_are_shown_once(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    for (base, reversed) in [(0, false), (10_000, true)] {
        let arrays = (0..6).map(|n| base + n * 100).map(|id| array(id, id + 9));
        leader.commit(&*store, arrays.collect());
        for view in [View::Bullpen, View::History] {
            read_ranges_that_fall_apart(&*store, &mut leader, view, reversed);
            leader.commit(&*store, vec![halted(base, base + 1_000)]);
        }
        let arena = store
            .page(&Query::first(View::Arena, 100))
            .expect("readable");
        for record in arena.items {
            let lease = record.instance.lease.expect("it is in the arena").id;
            let end = ended(&leader, lease, AttemptEnd::Real(Outcome::Exited(0)));
            leader.commit(&*store, vec![end]);
        }
    }
}

/// Reads one range a page; then one in the middle of it moves to another view.
fn read_ranges_that_fall_apart(store: &dyn Store, leader: &mut Leader, view: View, reversed: bool) {
    let mut query = Query {
        reversed,
        ..Query::first(view, 1)
    };
    let mut seen = Vec::new();
    loop {
        let page = store.page(&query).expect("readable");
        for it in page.items {
            let (first, last) = (it.instance.id, it.span.unwrap_or(it.instance.id));
            seen.extend(first.0..=last.0);
            let middle = InstanceId(first.0.midpoint(last.0));
            if first == last {
                continue;
            }
            if view == View::Bullpen {
                let lease = leader.ledger.next_lease(middle, leader.epoch);
                leader.commit(store, vec![granted(lease)]);
            } else {
                let ended = store.instance(middle).expect("readable").expect("is there");
                leader.ledger.admit(ended.instance).expect("it was away");
                leader.commit(store, vec![Fact::InstanceRetried { instance: middle }]);
            }
        }
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    let count = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), count, "{view:?}: some were shown twice");
    // A record that left the view may have left before it was read.
    assert!(count >= 48, "{view:?}: {count} were shown");
}

pub(crate) fn owners_and_names_can_be_asked_for(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    let of = |owner: &str, name: &str, id: u64| Fact::InstancesSubmitted {
        first: InstanceId(id),
        last: InstanceId(id),
        spec: Arc::new(InstanceSpec {
            owner: owner.to_owned(),
            name: name.to_owned(),
            ..InstanceSpec::default()
        }),
    };
    let many = PAGE_SCAN_MAX as u64 + 10;
    leader.commit(&*store, (0..many).map(|id| of("ann", "big", id)).collect());
    leader.commit(
        &*store,
        vec![of("ann", "small", many), of("bob", "small", many + 1)],
    );
    let found = |owner: Option<&str>, name: Option<&str>| {
        let mut query = Query::first(View::Bullpen, 10);
        query.filter.owner = owner.map(str::to_owned);
        query.filter.name = name.map(str::to_owned);
        let (mut ids, mut pages) = (Vec::new(), 0);
        loop {
            let page = store.page(&query).expect("readable");
            ids.extend(page.items.iter().map(|it| it.instance.id.0));
            pages += 1;
            query.after = page.next;
            if query.after.is_none() || ids.len() >= 10 {
                return (ids, pages);
            }
        }
    };
    assert_eq!(found(Some("bob"), None), (vec![many + 1], 2));
    assert_eq!(found(None, Some("small")), (vec![many, many + 1], 2));
    assert_eq!(found(Some("ann"), Some("small")), (vec![many], 2));
    assert_eq!(found(Some("ann"), None).1, 1);
    assert_eq!(found(Some("eve"), None), (vec![], 2));
}

pub(crate) fn a_cursor_survives_being_printed(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    (1..=3).for_each(|id| leader.commit(&*store, leader.done(id)));
    let page = store.page(&Query::first(View::History, 1));
    let cursor = page.expect("readable").next.expect("two more");
    assert_eq!(cursor.to_string().parse(), Ok(cursor));
    for nonsense in ["", ".", "1", "1.", "x.1", "1.2.3", "99999999999999999999.1"] {
        assert!(nonsense.parse::<Cursor>().is_err(), "{nonsense}");
    }
}

pub(crate) fn readers_and_a_writer_at_the_same_time(open: Open<'_>) {
    let store = open();
    let mut leader = Leader::elect(&*store);
    leader.commit(&*store, leader.done(0));
    thread::scope(|scope| {
        let readers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let page = store.page(&Query::first(View::History, 1_000));
                        let shown = page.expect("readable").items.len() as u64;
                        let counts = store.counts().expect("readable");
                        assert!(counts.terminal() >= shown.min(1_000));
                    }
                })
            })
            .collect();
        for id in 1..200 {
            leader.commit(&*store, leader.done(id));
        }
        for reader in readers {
            reader.join().expect("no reader fails");
        }
    });
}
