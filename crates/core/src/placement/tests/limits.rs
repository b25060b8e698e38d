//! Cluster-wide limits.

use super::*;
use crate::limits::LimitKey;
use crate::placement::Demand;

const DB: &str = "db/orders";

/// Two roomy workers and a limit of 4.
fn limited() -> Placement {
    let mut p = Placement::default();
    join(&mut p, "a", offer(64, 64, 0));
    join(&mut p, "b", offer(64, 64, 0));
    p.set_limit(DB, Some(4)).expect("few limits");
    p
}

#[test]
fn a_limit_counts_across_all_workers_and_classes() {
    let mut p = limited();
    wait_range(
        &mut p,
        (1, 9),
        &with_named(request(40, 1), DB, 1),
        "me",
        0,
        1,
    );
    wait_range(
        &mut p,
        (10, 19),
        &with_named(request(1, 1), DB, 1),
        "me",
        0,
        2,
    );
    let all = drain(&mut p);
    assert_eq!(all.len(), 4, "{all:?}");
    release(&mut p, &all[0].1, all[0].0);
    assert_eq!(placed(&mut p).len(), 1);
}

#[test]
fn a_limit_holds_up_only_those_who_ask_for_it() {
    let mut p = limited();
    wait_range(
        &mut p,
        (1, 9),
        &with_named(request(1, 1), DB, 4),
        "me",
        0,
        1,
    );
    wait(&mut p, 20, &request(1, 1));
    assert_eq!(placed(&mut p), [1, 20]);
}

#[test]
fn a_limit_below_what_is_in_use_stops_starts_until_enough_has_ended() {
    let mut p = limited();
    wait_range(
        &mut p,
        (1, 9),
        &with_named(request(1, 1), DB, 1),
        "me",
        0,
        1,
    );
    let all = drain(&mut p);
    p.set_limit(DB, Some(2)).expect("known");
    for (id, worker) in &all[..2] {
        release(&mut p, worker, *id);
        assert_eq!(p.next(), None);
    }
    release(&mut p, &all[2].1, all[2].0);
    assert_eq!(placed(&mut p), [5]);
}

#[test]
fn raising_a_limit_starts_more_at_once() {
    let mut p = limited();
    wait_range(
        &mut p,
        (1, 9),
        &with_named(request(1, 1), DB, 1),
        "me",
        0,
        1,
    );
    assert_eq!(placed(&mut p).len(), 4);
    p.set_limit(DB, Some(6)).expect("known");
    assert_eq!(placed(&mut p), [5, 6]);
}

#[test]
fn a_limit_set_later_counts_what_runs_already() {
    let mut p = Placement::default();
    let mut with_db = offer(64, 64, 0);
    with_db.capacity.named.insert(DB.to_owned(), 3);
    join(&mut p, "w", with_db);
    wait_range(
        &mut p,
        (1, 9),
        &with_named(request(1, 1), DB, 1),
        "me",
        0,
        1,
    );
    assert_eq!(placed(&mut p).len(), 3, "so far it is the worker's own");
    p.set_limit(DB, Some(5)).expect("few limits");
    assert_eq!(placed(&mut p), [4, 5]);
    p.set_limit(DB, None).expect("known");
    release(&mut p, "w", 1);
    release(&mut p, "w", 2);
    assert_eq!(placed(&mut p), [0_u64; 0], "three are still on the worker");
    release(&mut p, "w", 3);
    assert_eq!(placed(&mut p), [6]);
}

#[test]
fn what_runs_on_a_worker_that_left_counts_until_it_is_released() {
    let mut p = limited();
    wait_range(
        &mut p,
        (1, 9),
        &with_named(request(40, 1), DB, 2),
        "me",
        0,
        1,
    );
    let all = drain(&mut p);
    assert_eq!(all.len(), 2);
    p.remove_worker(&name(&all[0].1));
    assert_eq!(p.next(), None);
    release(&mut p, &all[1].1, all[1].0);
    assert_eq!(placed(&mut p), [3]);
    release(&mut p, &all[0].1, all[0].0);
    assert_eq!(p.next(), None, "the limit has room, but no worker has");
}

#[test]
fn a_limit_of_an_array_binds_its_elements_only() {
    let mut p = limited();
    let request = request(1, 1);
    let array = LimitKey::Array(InstanceId(1));
    p.set_limit(array.clone(), Some(2)).expect("few limits");
    // A resource that is called like the array is another one, and no worker has it.
    wait(&mut p, 30, &with_named(request.clone(), "array i1", 1));
    let elements = Arrival {
        first: InstanceId(1),
        last: InstanceId(9),
        demand: Demand {
            request: &request,
            limits: std::slice::from_ref(&array),
            time: None,
            nodes: 1,
        },
        owner: "me",
        priority: 0,
        sequence: 1,
        task: None,
    };
    p.enqueue(elements).expect("new");
    wait(&mut p, 20, &request);
    let all = drain(&mut p);
    let ids: Vec<u64> = all.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [1, 2, 20]);
    release(&mut p, &all[0].1, 1);
    assert_eq!(placed(&mut p), [3]);
}
