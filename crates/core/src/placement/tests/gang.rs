//! Several workers of one group at the same time.

use baton_model::fleet::Shape;
use baton_model::ids::InstanceId;
use baton_model::placement::GROUP_LABEL;
use baton_model::time::{Millis, Mono};

use super::*;
use crate::placement::limits::PASSED_OVER_MAX;
use crate::placement::{Decision, Demand, JobShape, PlacementError, Vacancy};
use crate::wait::{Exclusion, WaitReason};

fn in_group(group: &str, mut offer: Offer) -> Offer {
    offer
        .labels
        .insert(GROUP_LABEL.to_owned(), group.to_owned());
    offer
}

/// Workers `GROUP-0` and so on, of 8 cores each.
fn group(placement: &mut Placement, group: &str, count: usize) {
    for number in 0..count {
        let worker = format!("{group}-{number}");
        join(placement, &worker, in_group(group, offer(8, 64, 0)));
    }
}

fn demand(request: &ResourceRequest, nodes: u32) -> Demand<'_> {
    Demand {
        nodes,
        ..request.into()
    }
}

fn wait_for_nodes(p: &mut Placement, id: u64, request: &ResourceRequest, nodes: u32) -> ClassId {
    let arrival = Arrival {
        first: InstanceId(id),
        last: InstanceId(id),
        demand: demand(request, nodes),
        owner: "me",
        priority: 0,
        sequence: id,
        task: None,
    };
    p.enqueue(arrival).expect("new and within limits")
}

fn workers(decision: &Decision) -> Vec<String> {
    let others = decision.others.iter().map(ToString::to_string);
    std::iter::once(decision.worker.to_string())
        .chain(others)
        .collect()
}

fn used(p: &Placement, worker: &str) -> u64 {
    p.used(&name(worker)).map_or(0, |used| used.cpu_milli)
}

#[test]
fn a_gang_takes_its_whole_request_of_each_member() {
    let mut p = Placement::default();
    group(&mut p, "a", 3);
    p.set_limit("licence", Some(1)).expect("one limit");
    wait_for_nodes(&mut p, 1, &with_named(request(6, 1), "licence", 1), 3);
    let decision = p.next().expect("there is room");
    assert_eq!(workers(&decision), ["a-0", "a-1", "a-2"]);
    for worker in ["a-0", "a-1", "a-2"] {
        assert_eq!(used(&p, worker), 6_000, "{worker}");
    }
    let licence = p.limits(Mono(0)).next().expect("one limit");
    assert_eq!(licence.limit.used, 1, "a limit is taken once");
    wait(&mut p, 2, &request(3, 1));
    assert_eq!(p.next(), None, "beside it are two cores");
    wait(&mut p, 3, &request(2, 1));
    assert_eq!(placed(&mut p), [3]);
    release(&mut p, "a-0", 1);
    assert_eq!(placed(&mut p), [2], "all members are free again");
    assert_eq!(used(&p, "a-1") + used(&p, "a-2") + used(&p, "a-0"), 5_000);
}

#[test]
fn no_gang_starts_on_fewer_members_or_on_two_groups() {
    let mut p = Placement::default();
    group(&mut p, "a", 2);
    group(&mut p, "b", 2);
    join(&mut p, "c", offer(8, 64, 0));
    wait_for_nodes(&mut p, 1, &request(1, 1), 3);
    assert_eq!(p.next(), None);
    join(&mut p, "b-2", in_group("b", offer(8, 64, 0)));
    let decision = p.next().expect("three of one group");
    assert_eq!(workers(&decision), ["b-0", "b-1", "b-2"]);
}

#[test]
fn the_smallest_group_that_is_large_enough_is_taken() {
    let mut p = Placement::default();
    group(&mut p, "a", 4);
    group(&mut p, "b", 2);
    wait_for_nodes(&mut p, 1, &request(8, 1), 2);
    wait_for_nodes(&mut p, 2, &request(8, 1), 4);
    assert_eq!(workers(&p.next().expect("room"))[0], "b-0");
    assert_eq!(workers(&p.next().expect("room")).len(), 4);
}

#[test]
fn the_earliest_end_of_the_members_counts() {
    let mut p = Placement::default();
    group(&mut p, "a", 2);
    p.set_now(Mono(1));
    let soon = Some(Mono(1_000));
    p.set_offer_until(&name("a-1"), in_group("a", offer(8, 64, 0)), soon)
        .expect("known");
    let request = request(1, 1);
    let long = Demand {
        time: Some(Millis(5_000)),
        ..demand(&request, 2)
    };
    let arrival = Arrival {
        first: InstanceId(1),
        last: InstanceId(1),
        demand: long,
        owner: "me",
        priority: 0,
        sequence: 1,
        task: None,
    };
    p.enqueue(arrival).expect("new");
    assert_eq!(p.next(), None);
}

#[test]
fn a_member_that_is_gone_stays_charged_until_the_release() {
    let mut p = Placement::default();
    group(&mut p, "a", 2);
    wait_for_nodes(&mut p, 1, &request(8, 1), 2);
    p.next().expect("room");
    p.remove_worker(&name("a-1"));
    join(&mut p, "a-1", in_group("a", offer(8, 64, 0)));
    wait(&mut p, 2, &request(1, 1));
    assert_eq!(p.next(), None, "processes of it may still be there");
    release(&mut p, "a-0", 1);
    assert_eq!(placed(&mut p), [2]);
}

#[test]
fn a_leader_adopts_all_members() {
    let mut p = Placement::default();
    let cores = request(8, 1);
    let others = [&name("a-1"), &name("a-2")];
    p.adopt_gang(&name("a-0"), &others, InstanceId(1), demand(&cores, 3))
        .expect("new");
    group(&mut p, "a", 3);
    wait(&mut p, 2, &request(1, 1));
    assert_eq!(p.next(), None);
    let again = p.adopt(&name("a-1"), InstanceId(1), &cores);
    assert_eq!(again, Err(PlacementError::Placed(InstanceId(1))));
    release(&mut p, "a-0", 1);
    assert_eq!(placed(&mut p), [2]);
}

#[test]
fn a_retry_avoids_the_member_that_had_it_if_others_are_free() {
    let mut p = Placement::default();
    group(&mut p, "a", 3);
    p.avoid(InstanceId(1), &name("a-0"));
    wait_for_nodes(&mut p, 1, &request(8, 1), 2);
    assert_eq!(workers(&p.next().expect("room")), ["a-1", "a-2"]);
}

/// Workers of a group, each full of small ones that end one after the other, with more of them waiting.
fn busy_group(count: usize) -> (Placement, std::collections::VecDeque<(u64, String)>) {
    let mut p = Placement::default();
    group(&mut p, "a", count);
    wait_range(&mut p, (1, 4_000), &request(1, 1), "me", 0, 5_000);
    let running = drain(&mut p).into();
    (p, running)
}

/// Ends small ones until `id` is placed; returns how many.
fn ends_until(
    p: &mut Placement,
    running: &mut std::collections::VecDeque<(u64, String)>,
    id: u64,
    most: u32,
) -> Option<u32> {
    (1..=most).find(|_| {
        let (ended, worker) = running.pop_front().expect("something runs");
        release(p, &worker, ended);
        let decided = drain(p);
        let found = decided.iter().any(|(placed, _)| *placed == id);
        running.extend(decided.into_iter().filter(|(placed, _)| *placed != id));
        found
    })
}

#[test]
fn a_gang_does_not_starve_behind_small_ones() {
    for count in [2_usize, 4, 7] {
        let (mut p, mut running) = busy_group(count);
        let nodes = u32::try_from(count).expect("few");
        wait_for_nodes(&mut p, 4_500, &request(8, 1), nodes);
        let bound = PASSED_OVER_MAX + 8 * nodes;
        let took = ends_until(&mut p, &mut running, 4_500, bound);
        assert!(took.is_some_and(|took| took > 8), "{count}: {took:?}");
        assert_eq!(p.reservations().count(), 0);
    }
}

#[test]
fn a_reservation_of_a_gang_covers_all_members_and_is_explained() {
    let (mut p, mut running) = busy_group(3);
    let class = wait_for_nodes(&mut p, 4_500, &request(8, 1), 2);
    assert_eq!(
        ends_until(&mut p, &mut running, 4_500, PASSED_OVER_MAX),
        None
    );
    let seen: Vec<_> = p.reservations().collect();
    assert_eq!((seen.len(), seen[0].class), (1, class));
    assert_eq!(seen[0].workers.len(), 2);
    let wait = p.explain(InstanceId(4_500)).expect("it waits");
    let WaitReason::Gang {
        nodes: 2,
        nearest: Some((group, _)),
        reserved: true,
    } = wait.reason.clone()
    else {
        panic!("{wait:?}");
    };
    assert_eq!(group, "a");
    let text = wait.first_text();
    assert!(
        text.starts_with("it needs 2 workers of one group at the same time, and group a, "),
        "{text}"
    );
}

#[test]
fn a_gang_also_reserves_workers_that_are_reserved_for_older_ones() {
    let (mut p, mut running) = busy_group(2);
    wait(&mut p, 4_400, &request(8, 1));
    wait_for_nodes(&mut p, 4_500, &request(8, 1), 2);
    let bound = 2 * PASSED_OVER_MAX;
    assert!(ends_until(&mut p, &mut running, 4_400, bound).is_some());
    release_all(&mut p, &mut running);
    let worker = p.worker_of(InstanceId(4_400)).expect("placed").to_string();
    release(&mut p, &worker, 4_400);
    let placed = drain(&mut p);
    assert!(placed.iter().any(|(id, _)| *id == 4_500), "{placed:?}");
}

fn release_all(p: &mut Placement, running: &mut std::collections::VecDeque<(u64, String)>) {
    for (id, worker) in running.drain(..) {
        release(p, &worker, id);
    }
}

#[test]
fn a_reservation_ends_when_a_member_leaves_and_others_go_on() {
    let (mut p, mut running) = busy_group(2);
    wait_for_nodes(&mut p, 4_500, &request(8, 1), 2);
    let reserved = PASSED_OVER_MAX + 3;
    assert_eq!(ends_until(&mut p, &mut running, 4_500, reserved), None);
    assert_eq!(p.reservations().count(), 1);
    p.remove_worker(&name("a-1"));
    assert_eq!(p.reservations().count(), 0);
    running.retain(|(_, worker)| worker == "a-0");
    let (ended, worker) = running.pop_front().expect("something runs");
    release(&mut p, &worker, ended);
    assert!(!drain(&mut p).is_empty(), "small ones go on");
}

#[test]
fn explain_tells_that_no_group_is_large_enough() {
    let mut p = Placement::default();
    group(&mut p, "a", 2);
    join(&mut p, "b", offer(8, 64, 0));
    wait_for_nodes(&mut p, 1, &request(1, 1), 3);
    let wait = p.explain(InstanceId(1)).expect("it waits");
    let too_small = Exclusion::GroupTooSmall { asked: 3, has: 2 };
    assert_eq!(wait.reason, WaitReason::Excluded(too_small.clone()));
    let first = &wait.workers[0];
    assert_eq!(
        (first.exclusion.as_ref(), first.workers),
        (Some(&too_small), 3)
    );
    let text = wait.first_text();
    assert!(text.contains("--label group=NAME"), "{text}");
}

#[test]
fn explain_names_the_group_that_comes_nearest() {
    let mut p = Placement::default();
    group(&mut p, "a", 3);
    group(&mut p, "b", 3);
    for (id, worker) in [(1, "a-0"), (2, "a-1"), (3, "b-2")] {
        p.adopt(&name(worker), InstanceId(id), &request(8, 1))
            .expect("new");
    }
    wait_for_nodes(&mut p, 9, &request(8, 1), 3);
    let wait = p.explain(InstanceId(9)).expect("it waits");
    let nearest = Some(("b".to_owned(), 2));
    assert_eq!(
        wait.reason,
        WaitReason::Gang {
            nodes: 3,
            nearest,
            reserved: false
        }
    );
}

#[test]
fn a_fleet_needs_jobs_with_enough_workers() {
    let mut p = Placement::default();
    wait_for_nodes(&mut p, 1, &request(4, 1), 3);
    wait_for_nodes(&mut p, 2, &request(4, 1), 3);
    wait(&mut p, 3, &request(4, 1));
    let shape = Shape {
        capacity: offer(8, 64, 0).capacity,
        ..Shape::default()
    };
    let job = |workers| JobShape {
        worker: &shape,
        workers,
        time_limit: None,
    };
    let too_small = Exclusion::GroupTooSmall { asked: 3, has: 2 };
    assert_eq!(p.misfit(InstanceId(1), job(2)), Some(too_small));
    assert_eq!(p.misfit(InstanceId(1), job(3)), None);
    assert_eq!(p.misfit(InstanceId(3), job(1)), None);
    let mut backlog = p.backlog();
    let gangs = backlog
        .iter_mut()
        .find(|it| it.is_gang())
        .expect("two of them wait");
    let mut workers = vec![Vacancy::new(&shape); 3];
    Vacancy::fill_gangs(&mut workers[..2], gangs);
    assert_eq!(gangs.count, 2, "a job of two starts none");
    Vacancy::fill_gangs(&mut workers, gangs);
    assert_eq!(gangs.count, 0, "two have room beside each other");
}
