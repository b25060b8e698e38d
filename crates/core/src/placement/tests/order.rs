//! The order of service.

use baton_model::ids::InstanceId;
use baton_model::measurement::TaskPath;
use baton_model::time::Millis;

use super::*;
use crate::placement::TaskHistory;
use crate::placement::limits::TASKS_WAITING_MAX;

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

fn path(task: &str) -> TaskPath {
    TaskPath {
        owner: "me".into(),
        workflow: "".into(),
        task: task.into(),
    }
}

/// Instances of a task that wait as long as all others of these tests.
fn wait_task(
    p: &mut Placement,
    (first, last): (u64, u64),
    request: &ResourceRequest,
    task: &str,
    estimate: Option<u64>,
) {
    let arrival = Arrival {
        first: InstanceId(first),
        last: InstanceId(last),
        demand: request.into(),
        owner: "me",
        priority: 0,
        sequence: 1,
        task: Some(TaskHistory {
            path: &path(task),
            estimate: estimate.map(Millis),
        }),
    };
    p.enqueue(arrival).expect("new and within limits");
}

#[test]
fn of_equally_long_waiting_tasks_the_shorter_history_goes_first() {
    for other in [request(1, 1), request(1, 2)] {
        let mut p = narrow();
        wait_task(&mut p, (10, 10), &request(1, 1), "long", Some(900));
        wait_task(&mut p, (20, 21), &other, "short", Some(100));
        assert_eq!(one_by_one(&mut p.clone(), "w"), [20, 21, 10]);
        p.set_estimate(&path("short"), Millis(5_000));
        assert_eq!(one_by_one(&mut p, "w"), [10, 20, 21], "the history moves");
    }
}

#[test]
fn a_history_that_begins_while_its_task_waits_counts() {
    let mut p = narrow();
    wait_task(&mut p, (10, 11), &request(1, 1), "long", None);
    wait_task(&mut p, (20, 21), &request(1, 1), "short", None);
    p.set_estimate(&path("gone"), Millis(1));
    assert_eq!(p.next().map(|d| d.instance.0), Some(10));
    release(&mut p, "w", 10);
    p.set_estimate(&path("long"), Millis(900));
    assert_eq!(p.next().map(|d| d.instance.0), Some(20));
    release(&mut p, "w", 20);
    p.set_estimate(&path("short"), Millis(100));
    assert_eq!(one_by_one(&mut p, "w"), [21, 11]);
}

#[test]
fn who_waits_longer_goes_before_a_shorter_history() {
    let mut p = narrow();
    wait_task(&mut p, (10, 10), &request(1, 1), "short", Some(1));
    wait_range(&mut p, (20, 20), &request(1, 1), "me", 0, 0);
    let demand = request(1, 1);
    let first = Arrival {
        first: InstanceId(30),
        last: InstanceId(30),
        demand: (&demand).into(),
        owner: "me",
        priority: 0,
        sequence: 0,
        task: Some(TaskHistory {
            path: &path("long"),
            estimate: Some(Millis(900)),
        }),
    };
    p.enqueue(first).expect("new and within limits");
    let ahead = |p: &Placement, id| p.explain(InstanceId(id)).map(|wait| wait.ahead);
    assert_eq!(
        [10, 20, 30].map(|id| ahead(&p, id)),
        [Some(2), Some(0), Some(1)]
    );
    assert_eq!(one_by_one(&mut p, "w"), [20, 30, 10]);
}

#[test]
fn explain_counts_tied_tasks_in_the_order_of_service() {
    let mut p = narrow();
    wait_task(&mut p, (10, 14), &request(1, 1), "long", Some(900));
    wait_task(&mut p, (20, 22), &request(1, 1), "short", Some(100));
    wait_task(&mut p, (30, 30), &request(1, 1), "new", None);
    let ahead = |id| p.explain(InstanceId(id)).map(|wait| wait.ahead);
    let counted = [30, 20, 22, 10, 12].map(ahead);
    assert_eq!(counted, [0, 1, 3, 4, 6].map(Some));
    let order = [30, 20, 21, 22, 10, 11, 12, 13, 14];
    assert_eq!(one_by_one(&mut p.clone(), "w"), order);
}

#[test]
fn nothing_is_left_of_tasks_that_no_longer_wait() {
    let mut p = narrow();
    wait_task(&mut p, (10, 19), &request(1, 1), "a", Some(900));
    wait_task(&mut p, (20, 29), &request(1, 2), "a", Some(900));
    wait_task(&mut p, (30, 39), &request(1, 1), "b", None);
    p.withdraw(InstanceId(12), InstanceId(15));
    assert_eq!(p.withdraw(InstanceId(20), InstanceId(29)), 10);
    p.set_estimate(&path("a"), Millis(1));
    assert_eq!(one_by_one(&mut p, "w").len(), 16);
    assert!(p.queue.task_queues.is_empty());
    assert!(p.queue.tasks.all.is_empty());
}

#[test]
fn tasks_beyond_the_limit_wait_without_a_history() {
    let mut p = Placement::default();
    let most = TASKS_WAITING_MAX as u64;
    for id in 1..=most + 2 {
        wait_task(&mut p, (id, id), &request(1, 1), &format!("t{id}"), Some(1));
    }
    assert_eq!(p.queue.tasks.all.len(), TASKS_WAITING_MAX);
    join(&mut p, "w", offer(1, 64, 0));
    assert_eq!(one_by_one(&mut p, "w")[..2], [most + 1, most + 2]);
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

#[test]
fn an_owner_with_weight_three_has_three_turns_for_each_of_another() {
    let mut p = Placement::default();
    join(&mut p, "w", offer(1, 1, 0));
    p.set_share("lab", 3);
    let one = request(1, 1);
    wait_range(&mut p, (1, 9), &one, "lab", 0, 1);
    wait_range(&mut p, (11, 19), &one, "you", 0, 11);
    assert_eq!(p.explain(InstanceId(12)).map(|it| it.ahead), Some(7));
    assert_eq!(p.explain(InstanceId(4)).map(|it| it.ahead), Some(4));
    let served = one_by_one(&mut p, "w");
    let order = [1, 2, 3, 11, 4, 5, 6, 12, 7, 8, 9, 13, 14];
    assert_eq!(served[..order.len()], order);
}

#[test]
fn launches_are_in_proportion_to_weights_within_one_turn() {
    let weights = [("a", 1_u32), ("b", 3), ("c", 7), ("d", 1)];
    let mut p = Placement::default();
    join(&mut p, "w", offer(1, 1, 0));
    let one = request(1, 1);
    for (at, (owner, weight)) in (0..).zip(weights) {
        p.set_share(owner, weight);
        let first = at * 10_000 + 1;
        wait_range(&mut p, (first, first + 9_999), &one, owner, 0, first);
    }
    let mut served = [0_u64; 4];
    for _ in 0..5_000 {
        let decision = p.next().expect("all have enough waiting");
        let id = decision.instance.0;
        served[usize::try_from((id - 1) / 10_000).expect("small")] += 1;
        release(&mut p, "w", id);
        // In turns: n of one owner end within one turn of those of any other.
        for (n, (_, w)) in served.iter().zip(weights) {
            for (m, (_, v)) in served.iter().zip(weights) {
                let (own, other) = (n * u64::from(v), m * u64::from(w));
                assert!(
                    own.abs_diff(other) <= u64::from(w) * u64::from(v),
                    "{served:?}"
                );
            }
        }
    }
    assert_eq!(served.iter().sum::<u64>(), 5_000);
}

#[test]
fn an_owner_that_was_away_has_no_more_than_one_turn_saved_up() {
    let mut p = Placement::default();
    join(&mut p, "w", offer(1, 1, 0));
    p.set_share("lab", 2);
    let one = request(1, 1);
    wait_range(&mut p, (1, 9), &one, "you", 0, 1);
    for id in 1..=5 {
        assert_eq!(p.next().map(|it| it.instance.0), Some(id));
        release(&mut p, "w", id);
    }
    wait_range(&mut p, (11, 19), &one, "lab", 0, 11);
    let served = one_by_one(&mut p, "w");
    assert_eq!(served[..7], [11, 12, 6, 13, 14, 7, 15]);
}
