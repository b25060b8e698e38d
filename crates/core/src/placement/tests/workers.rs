//! Workers that come, change and go.

use baton_model::ids::InstanceId;
use baton_model::time::Millis;

use super::*;
use crate::placement::PlacementError;
use crate::wait::Exclusion;

#[test]
fn a_drained_worker_gets_nothing_and_keeps_what_runs() {
    let mut p = Placement::default();
    join(&mut p, "w", offer(2, 2, 0));
    wait_range(&mut p, (1, 9), &request(1, 1), "me", 0, 1);
    assert_eq!(placed(&mut p), [1, 2]);
    let used = p.used(&name("w")).map(|used| (used.cpu_milli, used.memory));
    let all = offer(2, 2, 0).capacity;
    assert_eq!(used, Some((all.cpu_milli, all.memory)));
    p.close(&name("w"), Exclusion::Drained);
    release(&mut p, "w", 1);
    let used = p.used(&name("w")).map(|used| used.cpu_milli);
    assert_eq!(used, Some(all.cpu_milli / 2));
    assert_eq!(p.used(&name("other")), None);
    assert_eq!(p.next(), None);
    join(&mut p, "w", offer(2, 2, 0));
    assert_eq!(placed(&mut p), [3], "2 still runs there");
}

#[test]
fn a_worker_that_is_unhealthy_offers_nothing() {
    let mut p = Placement::default();
    let mut sick = offer(2, 2, 0);
    sick.open = false;
    join(&mut p, "w", sick);
    wait(&mut p, 1, &request(1, 1));
    assert_eq!(p.next(), None);
}

#[test]
fn a_worker_that_shrinks_below_its_use_gets_nothing_until_there_is_room() {
    let mut p = Placement::default();
    join(&mut p, "w", offer(4, 4, 0));
    wait_range(&mut p, (1, 9), &request(1, 1), "me", 0, 1);
    assert_eq!(placed(&mut p).len(), 4);
    join(&mut p, "w", offer(2, 2, 0));
    release(&mut p, "w", 1);
    release(&mut p, "w", 2);
    assert_eq!(p.next(), None);
    release(&mut p, "w", 3);
    assert_eq!(placed(&mut p), [5]);
}

#[test]
fn labels_may_change() {
    let mut p = Placement::default();
    join(&mut p, "w", offer(4, 4, 0));
    wait_range(
        &mut p,
        (1, 2),
        &with_label(request(4, 1), "zone", "a"),
        "me",
        0,
        1,
    );
    assert_eq!(p.next(), None);
    let mut labelled = offer(4, 4, 0);
    labelled.labels.insert("zone".to_owned(), "a".to_owned());
    join(&mut p, "w", labelled);
    assert_eq!(placed(&mut p), [1]);
    join(&mut p, "w", offer(4, 4, 0));
    release(&mut p, "w", 1);
    assert_eq!(p.next(), None);
}

#[test]
fn a_worker_is_forgotten_once_it_is_gone_and_empty() {
    let mut p = Placement::default();
    join(&mut p, "w", offer(1, 1, 0));
    wait(&mut p, 1, &request(1, 1));
    assert_eq!(placed(&mut p), [1]);
    p.remove_worker(&name("w"));
    assert_eq!(p.fleet.workers.len(), 1);
    release(&mut p, "w", 1);
    assert_eq!(p.fleet.workers.len(), 0);
}

#[test]
fn what_runs_after_a_restart_is_adopted_before_its_worker_is_back() {
    let mut p = Placement::default();
    p.adopt(&name("w"), InstanceId(1), &request(3, 1))
        .expect("new");
    join(&mut p, "w", offer(4, 4, 0));
    wait_range(&mut p, (2, 3), &request(1, 1), "me", 0, 1);
    assert_eq!(placed(&mut p), [2]);
    release(&mut p, "w", 1);
    assert_eq!(placed(&mut p), [3]);
}

#[test]
fn what_is_adopted_waits_no_longer_and_may_overfill_its_worker() {
    let mut p = Placement::default();
    join(&mut p, "w", offer(2, 2, 0));
    wait_range(&mut p, (1, 5), &request(1, 1), "me", 0, 1);
    for id in [2, 3, 4] {
        p.adopt(&name("w"), InstanceId(id), &request(1, 1))
            .expect("new");
    }
    assert_eq!(p.next(), None);
    release(&mut p, "w", 2);
    assert_eq!(p.next(), None);
    release(&mut p, "w", 3);
    assert_eq!(placed(&mut p), [1]);
}

#[test]
fn adopting_again_changes_nothing_and_elsewhere_is_refused() {
    let mut p = Placement::default();
    let id = InstanceId(1);
    p.adopt(&name("w"), id, &request(1, 1)).expect("new");
    let before = format!("{p:#?}");
    assert_eq!(p.adopt(&name("w"), id, &request(1, 1)), Ok(()));
    let elsewhere = p.adopt(&name("x"), id, &request(1, 1));
    assert_eq!(elsewhere, Err(PlacementError::Placed(id)));
    assert_eq!(format!("{p:#?}"), before);
}

#[test]
fn releasing_what_is_not_there_changes_nothing() {
    let mut p = Placement::default();
    join(&mut p, "w", offer(2, 2, 0));
    join(&mut p, "x", offer(2, 2, 0));
    wait(&mut p, 1, &request(1, 1));
    assert_eq!(drain(&mut p), [(1, "w".to_owned())]);
    let before = format!("{p:#?}");
    for (worker, id) in [("x", 1), ("w", 2), ("unknown", 1)] {
        assert!(!p.release(&name(worker), InstanceId(id)));
    }
    assert_eq!(format!("{p:#?}"), before);
}

/// Instances of this class are known to be short.
fn run_short(p: &mut Placement, id: u64, request: &ResourceRequest) {
    wait(p, id, request);
    let decision = p.next().expect("there is room");
    p.record_run_time(decision.class, Millis(1));
    release(p, "w", id);
}

fn ahead(p: &mut Placement) -> Option<u64> {
    assert_eq!(p.next(), None);
    p.next_ahead().map(|decision| decision.instance.0)
}

#[test]
fn what_was_placed_ahead_takes_the_room_that_a_worker_grows_by() {
    let mut p = Placement::default();
    join(&mut p, "w", offer(4, 4, 0));
    run_short(&mut p, 100, &request(3, 0));
    wait_range(&mut p, (1, 3), &request(3, 0), "me", 0, 1);
    assert_eq!(placed(&mut p), [1]);
    assert!(!p.is_ahead(), "what runs is not ahead");
    assert_eq!((ahead(&mut p), ahead(&mut p)), (Some(2), Some(3)));
    assert!(p.is_ahead());
    join(&mut p, "w", offer(7, 7, 0));
    assert_eq!(p.ahead_on(&name("w")), 1, "one begins");
    wait(&mut p, 4, &request(2, 0));
    assert_eq!(p.next(), None, "and is counted");
}

#[test]
fn nothing_is_placed_ahead_beside_what_is_something_else() {
    let mut p = Placement::default();
    join(&mut p, "w", offer(4, 4, 0));
    run_short(&mut p, 100, &request(3, 0));
    wait(&mut p, 1, &request(2, 0));
    assert_eq!(placed(&mut p), [1]);
    wait(&mut p, 2, &request(3, 0));
    assert_eq!(ahead(&mut p), None, "the one that runs may run for days");
}

#[test]
fn a_worker_that_gave_one_back_gets_none_ahead_until_something_has_ended_there() {
    let mut p = Placement::default();
    join(&mut p, "w", offer(1, 1, 0));
    run_short(&mut p, 100, &request(1, 0));
    wait_range(&mut p, (1, 9), &request(1, 0), "me", 0, 1);
    assert_eq!(placed(&mut p), [1]);
    assert_eq!((ahead(&mut p), ahead(&mut p)), (Some(2), Some(3)));
    release(&mut p, "w", 3);
    assert_eq!(ahead(&mut p), None);
    release(&mut p, "w", 1);
    assert_eq!(ahead(&mut p), Some(4));
}
