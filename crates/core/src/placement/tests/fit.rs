//! Best fit, and that no class blocks another.

use baton_model::ids::InstanceId;

use super::*;

#[test]
fn the_worker_with_the_least_left_over_is_chosen() {
    let mut p = Placement::default();
    join(&mut p, "a-large", offer(16, 64, 0));
    join(&mut p, "b-small", offer(4, 16, 0));
    join(&mut p, "c-middle", offer(8, 32, 0));
    wait(&mut p, 1, &request(2, 4));
    wait(&mut p, 2, &request(6, 8));
    wait(&mut p, 3, &request(2, 4));
    wait(&mut p, 4, &request(2, 4));
    let expected = [
        (1, "b-small"),
        (2, "c-middle"),
        (3, "b-small"),
        (4, "c-middle"),
    ];
    let expected = expected.map(|(id, worker)| (id, worker.to_owned()));
    assert_eq!(drain(&mut p), expected);
}

#[test]
fn equal_workers_are_taken_by_name() {
    let mut p = Placement::default();
    for worker in ["c", "a", "b"] {
        join(&mut p, worker, offer(1, 1, 0));
    }
    wait_range(&mut p, (1, 3), &request(1, 1), "me", 0, 1);
    let workers: Vec<String> = drain(&mut p).into_iter().map(|(_, w)| w).collect();
    assert_eq!(workers, ["a", "b", "c"]);
}

#[test]
fn who_needs_no_device_leaves_them_free_while_others_have_room() {
    let mut p = Placement::default();
    join(&mut p, "gpu", offer(2, 4, 4));
    join(&mut p, "plain", offer(64, 256, 0));
    wait_range(&mut p, (1, 64), &request(1, 1), "me", 0, 1);
    let all = drain(&mut p);
    assert!(all.iter().all(|(_, worker)| worker == "plain"), "{all:?}");
    wait(&mut p, 100, &request(1, 1));
    assert_eq!(drain(&mut p), [(100, "gpu".to_owned())]);
}

#[test]
fn a_device_is_taken_where_the_fewest_are_left() {
    let mut p = Placement::default();
    join(&mut p, "a", offer(8, 32, 4));
    join(&mut p, "b", offer(8, 32, 2));
    let mut wanted = request(1, 1);
    wanted.resources.gpu = DeviceAmount::whole(1);
    wait_range(&mut p, (1, 6), &wanted, "me", 0, 1);
    let workers: String = drain(&mut p).into_iter().map(|(_, w)| w).collect();
    assert_eq!(workers, "bbaaaa");
}

/// An instance that needs no cores, and this much of a device.
fn device_part(milli: u64) -> ResourceRequest {
    let mut wanted = request(0, 0);
    wanted.resources.gpu = DeviceAmount::from_milli(milli);
    wanted
}

#[test]
fn parts_of_a_device_do_not_add_up_across_devices() {
    let mut p = Placement::default();
    join(&mut p, "w", offer(8, 8, 2));
    wait_range(&mut p, (1, 3), &device_part(600), "me", 0, 1);
    assert_eq!(
        placed(&mut p),
        [1, 2],
        "0.8 of a device is free, in two pieces"
    );
    wait(&mut p, 10, &device_part(400));
    wait(&mut p, 11, &device_part(400));
    assert_eq!(placed(&mut p), [10, 11], "each fits beside one of them");
    release(&mut p, "w", 10);
    release(&mut p, "w", 11);
    release(&mut p, "w", 1);
    assert_eq!(placed(&mut p), [3]);
    release(&mut p, "w", 2);
    wait(&mut p, 12, &device_part(1_000));
    wait(&mut p, 13, &device_part(2_000));
    assert_eq!(placed(&mut p), [12], "the other device is in use");
}

#[test]
fn every_kind_of_resource_is_counted() {
    let mut whole = offer(4, 4, 2);
    whole.capacity.named.insert("licence".to_owned(), 3);
    let mut kinds = vec![
        request(1, 0),
        request(0, 1),
        with_named(request(0, 0), "licence", 1),
    ];
    let mut disk = request(0, 0);
    disk.resources.disk = 50 * GIB;
    let mut gpu = request(0, 0);
    gpu.resources.gpu = DeviceAmount::whole(1);
    kinds.extend([disk, gpu]);
    for (kind, count) in kinds.iter().zip([4, 4, 3, 2, 2]) {
        let mut p = Placement::default();
        join(&mut p, "w", whole.clone());
        wait_range(&mut p, (1, 100), kind, "me", 0, 1);
        assert_eq!(placed(&mut p).len(), count, "{kind:?}");
        release(&mut p, "w", 1);
        assert_eq!(placed(&mut p).len(), 1, "{kind:?}");
    }
}

#[test]
fn memory_is_placed_by_its_minimum_and_the_maximum_makes_no_class() {
    let mut p = Placement::default();
    join(&mut p, "w", offer(8, 4, 0));
    let mut tall = request(1, 2);
    tall.resources.memory_max = 64 * GIB;
    let class = wait(&mut p, 1, &tall);
    assert_eq!(wait(&mut p, 2, &request(1, 2)), class);
    assert_eq!(placed(&mut p), [1, 2]);
}

#[test]
fn labels_decide_where_an_instance_may_go() {
    let mut p = Placement::default();
    for (worker, zone) in [("a", Some("west")), ("b", Some("east")), ("c", None)] {
        let mut offer = offer(8, 8, 0);
        let zone = zone.map(|zone| ("zone".to_owned(), zone.to_owned()));
        offer.labels.extend(zone);
        join(&mut p, worker, offer);
    }
    let east = || ["east".to_owned()].into();
    let rules = [
        (Rule::OneOf(east()), "b"),
        (Rule::NoneOf(east()), "a"),
        (Rule::Present, "a"),
        (Rule::Absent, "c"),
    ];
    for (id, (rule, expected)) in rules.into_iter().enumerate() {
        let mut wanted = request(1, 1);
        let label = "zone".to_owned();
        wanted.constraints.push(Constraint { label, rule });
        wait(&mut p, id as u64, &wanted);
        let all = drain(&mut p);
        assert_eq!(all, [(id as u64, expected.to_owned())], "{wanted:?}");
        release(&mut p, expected, id as u64);
    }
}

#[test]
fn a_class_without_room_blocks_no_other() {
    let mut p = Placement::default();
    join(&mut p, "w", offer(4, 4, 0));
    wait_as(&mut p, 1, &request(8, 1), "me", 9);
    wait(&mut p, 2, &with_label(request(1, 1), "zone", "none"));
    wait(&mut p, 3, &with_named(request(1, 1), "nowhere", 1));
    wait(&mut p, 4, &request(1, 1));
    assert_eq!(placed(&mut p), [4]);
}

#[test]
fn best_fit_goes_by_what_is_free_now_and_not_when_it_was_looked_for() {
    let mut p = Placement::default();
    join(&mut p, "a", offer(8, 64, 0));
    join(&mut p, "b", offer(8, 64, 0));
    p.set_limit("db", Some(1)).expect("few limits");
    wait(&mut p, 1, &request(4, 1));
    wait_range(
        &mut p,
        (2, 3),
        &with_named(request(1, 1), "db", 1),
        "me",
        0,
        2,
    );
    let on_a = |id| (id, "a".to_owned());
    assert_eq!(drain(&mut p), [on_a(1), on_a(2)]);
    // While 3 waits for the limit, b becomes the fuller one.
    p.adopt(&name("b"), InstanceId(9), &request(2, 1))
        .expect("new");
    release(&mut p, "a", 1);
    release(&mut p, "a", 2);
    assert_eq!(drain(&mut p), [(3, "b".to_owned())]);
}

#[test]
fn thousands_of_workers_are_filled_to_the_last_and_in_best_fit() {
    let mut p = Placement::default();
    for worker in 0..2_000_u64 {
        let size = offer(1 + worker % 7, 64, 0);
        join(&mut p, &format!("w{worker:04}"), size);
    }
    let cores: u64 = (0..2_000).map(|worker| 1 + worker % 7).sum();
    wait_range(&mut p, (1, 100_000), &request(1, 1), "me", 0, 1);
    let all = drain(&mut p);
    assert_eq!(all.len() as u64, cores);
    assert_eq!(all[0].1, "w0000", "the smallest first");
    for (id, worker) in all.iter().step_by(3) {
        release(&mut p, worker, *id);
    }
    assert_eq!(placed(&mut p).len(), all.len().div_ceil(3));
}
