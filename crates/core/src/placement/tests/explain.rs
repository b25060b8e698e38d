//! What an instance is said to wait for, and in which words.

use baton_model::ids::InstanceId;

use super::*;
use crate::placement::WaitReason;

fn said(p: &Placement, id: u64) -> String {
    let waiting = p.explain(InstanceId(id)).expect("it waits");
    waiting.to_string()
}

#[test]
fn nothing_is_said_of_what_does_not_wait() {
    let mut p = Placement::default();
    join(&mut p, "w", offer(1, 1, 0));
    let class = wait(&mut p, 1, &request(1, 1));
    assert_eq!(p.explain(InstanceId(1)), Some(WaitReason::Nothing));
    assert_eq!(placed(&mut p), [1]);
    assert_eq!(p.explain(InstanceId(1)), None);
    assert_eq!(p.explain_class(class), None);
    assert_eq!(p.explain_class(ClassId(99)), None);
}

#[test]
fn no_worker_at_all() {
    let mut p = Placement::default();
    wait(&mut p, 1, &request(1, 1));
    assert_eq!(said(&p, 1), "there is no worker");
    join(&mut p, "w", offer(1, 1, 0));
    p.drain(&name("w"));
    assert_eq!(
        said(&p, 1),
        "the only worker is unhealthy, and takes no work"
    );
    join(&mut p, "v", offer(1, 1, 0));
    p.drain(&name("v"));
    assert_eq!(said(&p, 1), "all 2 workers are unhealthy, and take no work");
    let said = |closed, drained| WaitReason::NoWorker { closed, drained }.to_string();
    assert_eq!(said(1, 1), "the only worker is drained, and takes no work");
    assert_eq!(said(2, 2), "all 2 workers are drained, and take no work");
    assert_eq!(
        said(3, 1),
        "none of the 3 workers takes work: 1 is drained, 2 are unhealthy"
    );
}

#[test]
fn the_label_that_rules_out_most() {
    let mut p = Placement::default();
    for (worker, zone) in [("a", "west"), ("b", "west"), ("c", "east")] {
        let mut offer = offer(1, 1, 0);
        offer.labels.insert("zone".to_owned(), zone.to_owned());
        offer.labels.insert("disk".to_owned(), "ssd".to_owned());
        join(&mut p, worker, offer);
    }
    let wanted = with_label(with_label(request(1, 1), "disk", "tape"), "zone", "east");
    wait(&mut p, 1, &wanted);
    assert_eq!(
        said(&p, 1),
        "no worker meets its constraints: `disk is tape` excludes 3 of 3"
    );
}

#[test]
fn the_nearest_worker_and_what_it_is_short_of() {
    let mut p = Placement::default();
    join(&mut p, "w1", offer(8, 4, 0));
    join(&mut p, "w2", offer(8, 5, 0));
    join(&mut p, "small", offer(1, 1, 0));
    for (worker, id) in [("w1", 10), ("w2", 11)] {
        let mut taken = request(1, 3);
        taken.resources.memory_min += GIB / 2;
        p.adopt(&name(worker), InstanceId(id), &taken).expect("new");
    }
    wait(&mut p, 1, &request(2, 3));
    assert_eq!(p.next(), None);
    assert_eq!(
        said(&p, 1),
        "worker w2 comes nearest, but lacks 1.5 GiB of memory"
    );
}

#[test]
fn what_never_fits_is_told_with_the_largest() {
    let mut p = Placement::default();
    join(&mut p, "w1", offer(8, 4, 0));
    join(&mut p, "w2", offer(8, 16, 0));
    wait(&mut p, 1, &request(2, 32));
    wait(&mut p, 2, &with_named(request(1, 1), "licence", 2));
    wait(&mut p, 3, &request(64, 1));
    assert_eq!(p.next(), None);
    assert_eq!(
        said(&p, 1),
        "it requests 32 GiB of memory, more than any worker has: the largest, w2, has 16 GiB of memory"
    );
    assert_eq!(
        said(&p, 2),
        "it requests 2 of licence, more than any worker has: the largest, w1, has 0 of licence"
    );
    assert_eq!(
        said(&p, 3),
        "it requests 64 cores, more than any worker has: the largest, w1, has 8 cores"
    );
}

#[test]
fn a_limit_with_its_use() {
    let mut p = Placement::default();
    join(&mut p, "w", offer(8, 8, 0));
    p.set_limit("db/orders", Some(4)).expect("few limits");
    wait_range(
        &mut p,
        (1, 9),
        &with_named(request(1, 1), "db/orders", 3),
        "me",
        0,
        1,
    );
    assert_eq!(placed(&mut p), [1]);
    assert_eq!(
        said(&p, 2),
        "it requests 3 of the limit db/orders; 3 of 4 are in use"
    );
    p.set_limit("db/orders", Some(2)).expect("known");
    assert_eq!(
        said(&p, 2),
        "it requests 3 of the limit db/orders, whose total is 2"
    );
}

#[test]
fn how_many_come_before_it_is_exact() {
    let mut p = Placement::default();
    join(&mut p, "w", offer(1, 1, 0));
    wait_range(&mut p, (100, 149), &request(1, 1), "a", 0, 1);
    wait_range(&mut p, (200, 204), &request(1, 1), "b", 0, 2);
    wait_range(&mut p, (300, 309), &request(1, 1), "c", 1, 3);
    wait_range(&mut p, (400, 409), &request(1, 1), "a", -1, 0);
    wait_range(&mut p, (50, 52), &request(1, 1), "a", 0, 0);
    let served = one_by_one(&mut p.clone(), "w");
    for (before, id) in served.into_iter().enumerate() {
        let expected = match before {
            0 => WaitReason::Nothing,
            before => WaitReason::Behind {
                before: before as u64,
            },
        };
        assert_eq!(p.explain(InstanceId(id)), Some(expected), "instance {id}");
    }
    assert_eq!(
        said(&p, 300 + 4),
        "4 instances of the same class are ahead of it"
    );
}
