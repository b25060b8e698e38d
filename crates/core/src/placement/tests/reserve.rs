//! Large requests among small ones.

use std::collections::VecDeque;

use baton_model::ids::InstanceId;

use super::*;
use crate::placement::ReservationView;
use crate::placement::limits::{PASSED_OVER_MAX, RESERVATIONS_MAX};
use crate::wait::{Exclusion, WaitReason};

const BIG: u64 = 1_000_000;

/// An endless stream of small ones keeps the workers full; the oldest ends first.
struct Stream {
    p: Placement,
    small: ResourceRequest,
    running: VecDeque<(u64, String)>,
    next: u64,
}

impl Stream {
    fn new(p: Placement, small: ResourceRequest) -> Self {
        Self {
            p,
            small,
            running: VecDeque::new(),
            next: 1,
        }
    }

    /// Keeps small ones waiting, of sequences after everything else.
    fn feed(&mut self) {
        let sequence = BIG * 2 + self.next;
        let range = (self.next, self.next + 99);
        wait_range(&mut self.p, range, &self.small, "me", 0, sequence);
        self.next += 100;
        self.decide();
    }

    fn decide(&mut self) -> Vec<u64> {
        let all = drain(&mut self.p);
        let ids = all.iter().map(|(id, _)| *id).collect();
        self.running.extend(all);
        ids
    }

    /// Ends the oldest; says what was placed instead.
    fn step(&mut self) -> Vec<u64> {
        if self.p.waiting_in(self.class()) < 50 {
            self.feed();
        }
        let (id, worker) = self.running.pop_front().expect("something runs");
        release(&mut self.p, &worker, id);
        self.decide()
    }

    fn class(&self) -> ClassId {
        self.p.class(&self.small).expect("known")
    }

    /// Steps until `id` is placed, at most `most` times; says after how many.
    fn until(&mut self, id: u64, most: u32) -> Option<u32> {
        (1..=most).find(|_| self.step().contains(&id))
    }
}

/// Workers of 8 cores, filled by a stream of one core each.
fn stream(workers: u32) -> Stream {
    let mut p = Placement::default();
    for worker in 0..workers {
        join(&mut p, &format!("w{worker}"), offer(8, 64, 0));
    }
    let mut stream = Stream::new(p, request(1, 1));
    stream.feed();
    stream
}

#[test]
fn a_big_one_among_endless_small_ones_is_placed_after_a_bounded_wait() {
    for (workers, cores) in [(1, 8), (2, 8), (5, 5), (9, 2)] {
        let mut s = stream(workers);
        wait(&mut s.p, BIG, &request(cores, 8));
        let bound = PASSED_OVER_MAX + 8 * workers;
        assert!(
            s.until(BIG, bound).is_some(),
            "{workers} workers, {cores} cores"
        );
    }
}

#[test]
fn before_that_gaps_are_filled() {
    let mut s = stream(2);
    wait(&mut s.p, BIG, &request(8, 8));
    for _ in 1..PASSED_OVER_MAX {
        assert_eq!(s.step().len(), 1);
        assert_eq!(s.p.reservations().count(), 0);
    }
}

#[test]
fn the_reservation_can_be_seen_and_ends_with_the_placement() {
    let mut s = stream(2);
    let class = wait(&mut s.p, BIG, &request(8, 8));
    for _ in 0..PASSED_OVER_MAX {
        s.step();
    }
    let seen: Vec<ReservationView> = s.p.reservations().collect();
    assert_eq!((seen.len(), seen[0].class), (1, class));
    let worker = seen[0].workers.first().cloned().expect("a worker");
    match s.p.explain(InstanceId(BIG)).map(|wait| wait.reason) {
        Some(WaitReason::Room {
            worker: at,
            reserved: true,
            ..
        }) => assert_eq!(at, worker),
        other => panic!("{other:?}"),
    }
    let before = s.running.len();
    while s.running.iter().any(|(_, at)| *at == worker.to_string()) {
        let on = |s: &Stream| {
            s.running
                .iter()
                .filter(|(_, at)| *at == worker.to_string())
                .count()
        };
        let was = on(&s);
        let placed = s.step();
        assert!(
            on(&s) <= was || placed.contains(&BIG),
            "a small one slipped in"
        );
        if placed.contains(&BIG) {
            break;
        }
    }
    assert!(before > 0 && s.p.explain(InstanceId(BIG)).is_none());
    assert_eq!(s.p.reservations().count(), 0);
    assert_eq!(s.p.worker_of(InstanceId(BIG)), Some(&worker));
}

#[test]
fn a_small_one_learns_for_whom_the_free_cores_are_kept() {
    let mut s = stream(1);
    let class = wait(&mut s.p, BIG, &request(8, 8));
    for _ in 0..PASSED_OVER_MAX {
        s.step();
    }
    assert_eq!(s.step(), [0_u64; 0]);
    let what = "w0".to_owned();
    let explained = s.p.explain_class(s.class()).expect("it waits");
    assert_eq!(explained.reason, WaitReason::Reserved { what, class });
    let group = &explained.workers[0];
    assert_eq!(group.exclusion, Some(Exclusion::Reserved { class }));
}

#[test]
fn it_is_made_where_the_fewest_have_to_end() {
    let mut p = Placement::default();
    join(&mut p, "a-many", offer(8, 64, 0));
    join(&mut p, "b-few", offer(8, 64, 0));
    for id in 0..8 {
        p.adopt(&name("a-many"), InstanceId(BIG * 9 + id), &request(1, 1))
            .expect("new");
    }
    for id in 10..12 {
        p.adopt(&name("b-few"), InstanceId(BIG * 9 + id), &request(3, 1))
            .expect("new");
    }
    let mut s = Stream::new(p, request(1, 1));
    s.feed();
    wait(&mut s.p, BIG, &request(8, 8));
    for _ in 0..PASSED_OVER_MAX {
        s.step();
    }
    // There are two large and two small on the one, eight small on the other.
    let seen: Vec<_> = s.p.reservations().flat_map(|r| r.workers).collect();
    assert_eq!(seen, [name("b-few")]);
}

#[test]
fn who_waits_for_something_else_than_the_passers_take_does_not_reserve() {
    let mut p = Placement::default();
    join(&mut p, "w", offer(8, 64, 1));
    let mut device = request(1, 1);
    device.resources.gpu = DeviceAmount::whole(1);
    p.adopt(&name("w"), InstanceId(BIG * 9), &device)
        .expect("new");
    wait(&mut p, BIG, &device);
    for id in 0..u64::from(3 * PASSED_OVER_MAX) {
        wait(&mut p, BIG + 1 + id, &request(1, 1));
        assert_eq!(placed(&mut p), [BIG + 1 + id]);
        release(&mut p, "w", BIG + 1 + id);
    }
    assert_eq!(p.reservations().count(), 0, "of cores there were enough");
}

#[test]
fn who_never_fits_does_not_reserve() {
    let mut s = stream(1);
    wait(&mut s.p, BIG, &request(9, 1));
    assert_eq!(s.until(BIG, 3 * PASSED_OVER_MAX), None);
    assert_eq!(s.p.reservations().count(), 0);
}

#[test]
fn a_higher_priority_may_use_what_is_reserved() {
    let mut s = stream(1);
    wait(&mut s.p, BIG, &request(8, 8));
    for _ in 0..PASSED_OVER_MAX + 2 {
        s.step();
    }
    assert_eq!(s.p.reservations().count(), 1);
    wait_as(&mut s.p, BIG + 1, &request(1, 2), "me", 1);
    assert_eq!(s.decide(), [BIG + 1]);
}

#[test]
fn a_large_share_of_a_limit_is_reserved_too() {
    let mut p = Placement::default();
    join(&mut p, "w", offer(64, 64, 0));
    p.set_limit("db", Some(4)).expect("few limits");
    let mut s = Stream::new(p, with_named(request(1, 1), "db", 1));
    s.feed();
    wait(&mut s.p, BIG, &with_named(request(1, 1), "db", 4));
    assert!(s.until(BIG, PASSED_OVER_MAX + 4).is_some());
}

#[test]
fn two_that_reserved_what_the_other_needs_do_not_wait_for_each_other() {
    let mut p = Placement::default();
    join(&mut p, "w", offer(8, 64, 0));
    p.set_limit("x", Some(4)).expect("few limits");
    p.set_limit("y", Some(4)).expect("few limits");
    let both = |x, y| with_named(with_named(request(1, 1), "x", x), "y", y);
    let mut s = Stream::new(p, both(1, 1));
    s.feed();
    wait(&mut s.p, BIG, &both(4, 1));
    wait(&mut s.p, BIG + 1, &both(1, 4));
    let mut missing = vec![BIG, BIG + 1];
    for _ in 0..4 * PASSED_OVER_MAX {
        let placed = s.step();
        missing.retain(|id| !placed.contains(id));
        if missing.is_empty() {
            return;
        }
    }
    panic!(
        "{missing:?} starve: {:?}",
        s.p.reservations().collect::<Vec<_>>()
    );
}

#[test]
fn many_that_starve_are_all_served() {
    let mut s = stream(3);
    let count = 2 * RESERVATIONS_MAX as u64;
    for n in 0..count {
        wait(&mut s.p, BIG + n, &request(5, 1 + n));
    }
    let mut missing: Vec<u64> = (BIG..BIG + count).collect();
    for _ in 0..20_000 {
        let placed = s.step();
        missing.retain(|id| !placed.contains(id));
        let mut workers: Vec<_> = s.p.reservations().flat_map(|r| r.workers).collect();
        workers.sort();
        workers.dedup();
        assert_eq!(workers.len(), s.p.reservations().count(), "one each");
    }
    assert_eq!(missing, [0_u64; 0]);
}

#[test]
fn a_reservation_ends_when_the_big_one_is_cancelled_or_the_worker_goes() {
    let mut s = stream(2);
    wait(&mut s.p, BIG, &request(8, 8));
    for _ in 0..PASSED_OVER_MAX {
        s.step();
    }
    let worker =
        s.p.reservations()
            .next()
            .and_then(|r| r.workers.first().cloned())
            .expect("made");
    let mut cancelled = s.p.clone();
    cancelled.withdraw(InstanceId(BIG), InstanceId(BIG));
    assert_eq!(cancelled.reservations().count(), 0);
    let close: fn(&mut Placement, &WorkerName) = |p, worker| p.close(worker, Exclusion::Drained);
    for act in [close, Placement::remove_worker] {
        let mut gone = s.p.clone();
        act(&mut gone, &worker);
        assert_eq!(gone.reservations().count(), 0);
    }
    let mut smaller = s.p.clone();
    join(&mut smaller, &worker.0, offer(7, 64, 0));
    assert_eq!(smaller.reservations().count(), 0);
}
