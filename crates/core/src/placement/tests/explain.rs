//! What an instance is said to wait for, and in which words.

use baton_model::ids::InstanceId;
use baton_model::paths::DIRECTORY_LABEL;

use super::*;
use crate::wait::{Exclusion, WaitReason, WorkerGroup};

fn said(p: &Placement, id: u64) -> String {
    let waiting = p.explain(InstanceId(id)).expect("it waits");
    waiting.reason.to_string()
}

fn groups(p: &Placement, id: u64) -> Vec<WorkerGroup> {
    p.explain(InstanceId(id)).expect("it waits").workers
}

/// The sentence and the remedy of each group.
fn remarks(p: &Placement, id: u64) -> Vec<String> {
    let remark = |group: &WorkerGroup| {
        let remedy = group.remedy(Some("/data")).unwrap_or_default();
        format!("{}: {remedy}", group.describe(Some("/data")))
    };
    groups(p, id).iter().map(remark).collect()
}

fn with_directory(mut request: ResourceRequest) -> ResourceRequest {
    request.constraints.push(Constraint {
        label: DIRECTORY_LABEL.to_owned(),
        rule: Rule::Present,
    });
    request
}

fn labelled(mut offer: Offer, label: &str, value: &str) -> Offer {
    offer.labels.insert(label.to_owned(), value.to_owned());
    offer
}

#[test]
fn nothing_is_said_of_what_does_not_wait() {
    let mut p = Placement::default();
    join(&mut p, "w", offer(1, 1, 0));
    let class = wait(&mut p, 1, &request(1, 1));
    let wait = p.explain(InstanceId(1)).expect("it waits");
    assert_eq!(wait.reason, WaitReason::Nothing);
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
    assert_eq!(groups(&p, 1), []);
}

#[test]
fn closed_workers_are_counted_by_their_reason() {
    let mut p = Placement::default();
    wait(&mut p, 1, &request(1, 1));
    for (worker, reason) in [
        ("d2", Exclusion::Drained),
        ("d1", Exclusion::Drained),
        ("u", Exclusion::Unhealthy),
        ("c", Exclusion::Condemned),
        ("n", Exclusion::New),
    ] {
        join(&mut p, worker, offer(1, 1, 0));
        p.close(&name(worker), reason);
    }
    assert_eq!(said(&p, 1), "no worker takes it");
    assert_eq!(
        remarks(&p, 1),
        [
            "n would do, and is not known to be healthy yet: work goes there once a health check is \
             answered",
            "u would do, and is unhealthy: `baton workers` shows it; start another with `baton \
             worker`",
            "2 workers, such as d1, would do, and are drained: undrain them with `baton drain \
             --undo d1`",
            "c would do, and is condemned: start it again",
        ]
    );
}

#[test]
fn the_label_that_rules_out_most() {
    let mut p = Placement::default();
    for (worker, zone) in [("a", "west"), ("b", "west"), ("c", "east")] {
        let offer = labelled(offer(1, 1, 0), "zone", zone);
        join(&mut p, worker, labelled(offer, "disk", "ssd"));
    }
    let wanted = with_label(with_label(request(1, 1), "disk", "tape"), "zone", "east");
    wait(&mut p, 1, &wanted);
    assert_eq!(said(&p, 1), "no worker takes it");
    assert_eq!(
        remarks(&p, 1),
        [
            "3 workers, such as a, do not meet `disk is tape`: start a worker with `--label \
             disk=tape`, or resubmit with other constraints"
        ]
    );
}

#[test]
fn a_drained_worker_that_would_do_is_named() {
    let mut p = Placement::default();
    join(&mut p, "local", offer(1, 1, 0));
    join(&mut p, "rack8", labelled(offer(1, 1, 0), "zone", "eu"));
    p.close(&name("rack8"), Exclusion::Drained);
    join(&mut p, "rack9", labelled(offer(1, 1, 0), "zone", "us"));
    p.close(&name("rack9"), Exclusion::Drained);
    wait(&mut p, 1, &with_label(request(1, 1), "zone", "eu"));
    assert_eq!(
        remarks(&p, 1),
        [
            "rack8 would do, and is drained: undrain it with `baton drain --undo rack8`",
            "2 workers, such as local, do not meet `zone is eu`: start a worker with `--label \
             zone=eu`, or resubmit with other constraints",
        ]
    );
}

#[test]
fn a_worker_without_the_directory_is_counted() {
    let mut p = Placement::default();
    let allowing = |cpu| labelled(offer(cpu, 4, 0), DIRECTORY_LABEL, "/");
    join(&mut p, "local", allowing(2));
    join(&mut p, "tiny", allowing(0));
    join(&mut p, "vm", offer(2, 4, 0));
    wait_range(&mut p, (1, 4), &with_directory(request(1, 1)), "me", 0, 1);
    assert_eq!(placed(&mut p), [1, 2]);
    assert_eq!(said(&p, 3), "worker local comes nearest, but lacks 1 core");
    assert_eq!(
        remarks(&p, 3),
        [
            "local lacks 1 core at this moment: ",
            "it requests 1 core, and tiny has 0 cores: start a larger worker, or resubmit with \
             smaller requests",
            "vm does not allow /data: start it with `--allow-cwd /data`, or submit with \
             `--sandbox`",
        ]
    );
}

#[test]
fn thousands_of_workers_are_told_in_groups() {
    let mut p = Placement::default();
    for number in 0..3_000 {
        join(
            &mut p,
            &format!("w{number:04}"),
            offer(1 + number % 7, 1, 0),
        );
    }
    wait(&mut p, 1, &request(64, 1));
    let groups = groups(&p, 1);
    let told: Vec<_> = groups.iter().map(|it| it.describe(None)).collect();
    assert_eq!(
        told,
        ["it requests 64 cores, and the largest of 3000 workers, w0006, has 7 cores"]
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
    let largest = |p: &Placement, id| groups(p, id)[0].describe(None);
    let mut p = Placement::default();
    join(&mut p, "w1", offer(8, 4, 0));
    join(&mut p, "w2", offer(8, 16, 0));
    wait(&mut p, 1, &request(2, 32));
    wait(&mut p, 2, &with_named(request(1, 1), "licence", 2));
    wait(&mut p, 3, &request(64, 1));
    assert_eq!(p.next(), None);
    assert_eq!(
        largest(&p, 1),
        "it requests 32 GiB of memory, and the largest of 2 workers, w2, has 16 GiB of memory"
    );
    assert_eq!(
        largest(&p, 2),
        "it requests 2 of licence, and the largest of 2 workers, w1, has 0 of licence"
    );
    assert_eq!(
        largest(&p, 3),
        "it requests 64 cores, and the largest of 2 workers, w1, has 8 cores"
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
        let wait = p.explain(InstanceId(id)).expect("it waits");
        assert_eq!(wait.ahead, before as u64, "instance {id}");
        assert_eq!(wait.reason, WaitReason::Nothing, "instance {id}");
    }
}
