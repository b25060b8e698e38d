//! The order of service.

use baton_model::ids::InstanceId;
use baton_model::time::Millis;

use super::*;

/// One worker with one core.
fn narrow() -> Placement {
    let mut placement = Placement::default();
    join(&mut placement, "w", offer(1, 8, 0));
    placement
}

#[test]
fn a_higher_priority_goes_first_in_and_across_classes() {
    let mut p = narrow();
    wait_as(&mut p, 1, &request(1, 1), "me", 0);
    wait_as(&mut p, 2, &request(1, 1), "me", 5);
    wait_as(&mut p, 3, &request(1, 2), "me", 9);
    wait_as(&mut p, 4, &request(1, 2), "me", -1);
    assert_eq!(one_by_one(&mut p, "w"), [3, 2, 1, 4]);
}

#[test]
fn the_longest_waiting_goes_first_in_and_across_classes() {
    let mut p = narrow();
    for (id, gib) in [(7, 1), (3, 2), (5, 1), (4, 2)] {
        wait(&mut p, id, &request(1, gib));
    }
    assert_eq!(one_by_one(&mut p, "w"), [3, 4, 5, 7]);
}

#[test]
fn owners_take_turns_however_much_each_has_waiting() {
    let mut p = narrow();
    wait_range(&mut p, (100, 199), &request(1, 1), "much", 0, 1);
    wait_range(&mut p, (10, 12), &request(1, 1), "some", 0, 2);
    wait_as(&mut p, 20, &request(1, 1), "little", 0);
    let served = one_by_one(&mut p, "w");
    assert_eq!(served[..8], [100, 10, 20, 101, 11, 102, 12, 103]);
}

#[test]
fn turns_hold_across_classes() {
    let mut p = narrow();
    wait_range(&mut p, (100, 199), &request(1, 1), "much", 0, 1);
    wait_range(&mut p, (10, 12), &request(1, 2), "other", 0, 2);
    let served = one_by_one(&mut p, "w");
    assert_eq!(served[..6], [100, 10, 101, 11, 102, 12]);
}

#[test]
fn who_submits_one_at_a_time_gets_no_more_turns_than_the_others() {
    let mut p = narrow();
    wait_range(&mut p, (100, 199), &request(1, 1), "a", 0, 1);
    wait_range(&mut p, (200, 299), &request(1, 1), "b", 0, 2);
    let mut dribble = 0;
    for round in 0..30 {
        if dribble == round / 3 {
            wait_as(&mut p, 1_000 + round, &request(1, 1), "dribble", 0);
            dribble += 1;
        }
        let decision = p.next().expect("plenty waits");
        release(&mut p, "w", decision.instance.0);
    }
    assert_eq!(p.waiting_in(ClassId(0)), 200 + dribble - 30);
    let left = |first, last| {
        let mut copy = p.clone();
        copy.withdraw(InstanceId(first), InstanceId(last))
    };
    assert_eq!((left(100, 199), left(200, 299)), (90, 90));
}

#[test]
fn a_turn_taken_at_one_priority_counts_at_the_others() {
    let mut p = narrow();
    wait_as(&mut p, 1, &request(1, 1), "a", 0);
    wait_as(&mut p, 2, &request(1, 1), "b", 0);
    wait_as(&mut p, 3, &request(1, 1), "a", 5);
    assert_eq!(one_by_one(&mut p, "w"), [3, 2, 1]);
}

#[test]
fn a_range_is_one_entry_and_is_taken_from_its_front() {
    let mut p = narrow();
    wait_range(&mut p, (5, 4_000_000_000), &request(1, 1), "me", 0, 1);
    assert_eq!(p.queue.len(), 1);
    for expected in 5..9 {
        assert_eq!(p.next().map(|d| d.instance.0), Some(expected));
        assert_eq!(p.queue.len(), 1);
        release(&mut p, "w", expected);
    }
}

#[test]
fn a_retry_keeps_its_place_and_so_goes_first() {
    let mut p = narrow();
    wait_range(&mut p, (10, 13), &request(1, 1), "me", 0, 1);
    wait_range(&mut p, (20, 21), &request(1, 1), "me", 0, 2);
    for expected in [10, 11, 12] {
        assert_eq!(p.next().map(|d| d.instance.0), Some(expected));
        release(&mut p, "w", expected);
    }
    wait_range(&mut p, (11, 11), &request(1, 1), "me", 0, 1);
    assert_eq!(one_by_one(&mut p, "w"), [11, 13, 20, 21]);
}

#[test]
fn a_retry_that_asks_for_more_keeps_its_place_too() {
    let mut p = narrow();
    wait_range(&mut p, (10, 12), &request(1, 1), "me", 0, 1);
    assert_eq!(p.next().map(|d| d.instance.0), Some(10));
    release(&mut p, "w", 10);
    wait(&mut p, 20, &request(1, 2));
    wait_range(&mut p, (10, 10), &request(1, 2), "me", 0, 0);
    assert_eq!(one_by_one(&mut p, "w"), [10, 11, 12, 20]);
}

#[test]
fn of_equally_long_waiting_classes_the_one_with_the_shorter_history_goes_first() {
    let mut p = narrow();
    let long = wait_range(&mut p, (10, 10), &request(1, 1), "me", 0, 1);
    let short = wait_range(&mut p, (20, 20), &request(1, 2), "me", 0, 1);
    p.record_run_time(long, Millis(900));
    p.record_run_time(short, Millis(100));
    assert_eq!(one_by_one(&mut p.clone(), "w"), [20, 10]);
    for _ in 0..20 {
        p.record_run_time(short, Millis(5_000));
    }
    assert_eq!(one_by_one(&mut p, "w"), [10, 20], "the estimate moves");
}

#[test]
fn of_classes_that_are_equal_in_all_the_lowest_id_goes_first() {
    let mut p = narrow();
    wait_range(&mut p, (20, 20), &request(1, 2), "me", 0, 1);
    wait_range(&mut p, (10, 10), &request(1, 1), "me", 0, 1);
    assert_eq!(one_by_one(&mut p, "w"), [10, 20]);
}

#[test]
fn cancelling_inside_a_range_splits_it_and_keeps_the_order() {
    let mut p = narrow();
    wait_range(&mut p, (10, 19), &request(1, 1), "me", 0, 1);
    wait(&mut p, 2, &request(1, 1));
    assert_eq!(p.withdraw(InstanceId(13), InstanceId(13)), 1);
    assert_eq!(p.withdraw(InstanceId(13), InstanceId(13)), 0);
    assert_eq!(p.withdraw(InstanceId(10), InstanceId(10)), 1);
    assert_eq!(p.withdraw(InstanceId(17), InstanceId(30)), 3);
    assert_eq!(one_by_one(&mut p, "w"), [11, 12, 14, 15, 16, 2]);
}

#[test]
fn cancelling_a_stretch_takes_everything_in_it_of_any_class() {
    let mut p = narrow();
    wait_range(&mut p, (10, 19), &request(1, 1), "me", 0, 1);
    wait_range(&mut p, (20, 29), &request(1, 2), "you", 3, 2);
    assert_eq!(p.withdraw(InstanceId(12), InstanceId(27)), 16);
    assert_eq!(one_by_one(&mut p, "w"), [28, 29, 10, 11]);
    assert!(p.queue.turns.is_empty() && p.queue.len() == 0);
}
