//! A worker whose host cannot launch anything: its work goes elsewhere and does not fail, it says
//! why, and it comes back by itself.

use std::collections::BTreeMap;
use std::process::Command;

use baton_model::api::Worker;
use baton_model::ids::InstanceId;
use baton_model::outcome::{AttemptEnd, Synthetic};
use baton_testing::cluster::Cluster;
use baton_testing::command::baton_path;
use baton_testing::{until, until_some};
use serde_json::json;

use crate::api::Api;
use crate::effects::{Effects, recorded};
use crate::mounts::SmallFilesystem;

/// More than the healthy worker can hold at once, so that the sick one is the freest.
const COUNT: u64 = 30;

fn worker(cluster: &Cluster, name: &str) -> Worker {
    until_some("the worker is known", || cluster.worker(name))
}

/// The worker `sick` gets no more work, and `baton workers`, `baton events` and its own log tell
/// the reason.
fn is_named(cluster: &Cluster, reason: &str) {
    until("the fault is known", || {
        let worker = worker(cluster, "sick");
        let fault = worker.fault.unwrap_or_default();
        worker.state.word() == "UNHEALTHY" && fault.contains(reason)
    });
    let shown = cluster.run(&["workers"]).out;
    assert!(shown.contains(reason), "{shown}");
    let events = cluster.run(&["events", "--after", "0", "--no-follow"]).out;
    assert!(
        events.contains("sick") && events.contains(reason),
        "{events}"
    );
    let log = cluster.log("sick").join("\n");
    assert!(
        log.contains("cannot launch") && log.contains(reason),
        "{log}"
    );
}

/// Submits many instances without a retry, and checks that all are done by their first attempt that
/// was started.
fn all_are_done(cluster: &Cluster) {
    let file = json!({ "task": "t", "run": "true", "retry": { "attempts": 1, "losses": 0 } });
    let span = cluster.submit(file, COUNT);
    until("all are over", || {
        let states = cluster.states(span);
        let over = states
            .iter()
            .filter(|(state, _)| ["DONE", "FAILED"].contains(&state.as_str()));
        over.map(|(_, count)| count).sum::<u64>() == COUNT
    });
    let expected = BTreeMap::from([("DONE".to_owned(), COUNT)]);
    assert_eq!(cluster.states(span), expected);
    for id in (span.first.0..=span.last.0).map(InstanceId) {
        let ends = recorded(cluster, id);
        let (_, before) = ends.split_last().expect("it has ended");
        for (attempt, end) in before {
            let free = matches!(
                end,
                AttemptEnd::Synthetic(Synthetic::HostFault | Synthetic::NeverStarted)
            );
            assert!(free, "{id}, attempt {attempt}: {end}");
        }
    }
}

/// A cluster without a worker yet, whose worker `sick` will have a disk of its own.
fn with_disk() -> Option<(Cluster, SmallFilesystem)> {
    let mut cluster = Cluster::idle(&[]);
    let disk = SmallFilesystem::mount_ext4(&cluster.path("sick"))?;
    cluster.start_scheduler();
    Some((cluster, disk))
}

/// One of two workers has this disk, which `harm` makes unusable while it runs something.
fn harmed(cluster: &mut Cluster, reason: &str, harm: impl Fn()) {
    cluster.start_worker("sick", &["--resources", "cpu=8"]);
    cluster.healthy("sick");
    let effects = Effects::new(cluster, "effects");
    let running = cluster.submit(effects.task(""), 1).first;
    effects.started(1);

    harm();
    cluster.start_worker("well", &["--resources", "cpu=2"]);
    cluster.healthy("well");
    all_are_done(cluster);
    is_named(cluster, reason);

    effects.go();
    let over = cluster.finish(running);
    assert_eq!(
        (over.state.word(), over.attempts),
        ("DONE", 1),
        "it went on"
    );
}

/// Repaired, the worker takes work again by itself.
fn comes_back(cluster: &Cluster) {
    cluster.healthy("sick");
    assert_eq!(worker(cluster, "sick").fault, None);
    cluster.run(&["drain", "well"]);
    let later = cluster.finish(cluster.sh("later", "true"));
    assert_eq!((later.state.word(), later.attempts), ("DONE", 1));
}

#[test]
fn no_instance_fails_by_a_full_disk() {
    let Some((mut cluster, disk)) = with_disk() else {
        return;
    };
    harmed(&mut cluster, "No space left", || disk.fill());
    disk.free();
    comes_back(&cluster);
}

#[test]
fn no_instance_fails_by_a_disk_without_inodes() {
    let Some((mut cluster, disk)) = with_disk() else {
        return;
    };
    harmed(&mut cluster, "No space left", || disk.take_inodes());
    disk.give_inodes();
    comes_back(&cluster);
}

#[test]
fn no_instance_fails_by_a_read_only_disk() {
    let Some((mut cluster, disk)) = with_disk() else {
        return;
    };
    harmed(&mut cluster, "Read-only file system", || disk.break_down());
}

#[test]
fn no_instance_fails_by_a_lack_of_descriptors() {
    let mut cluster = Cluster::new(&[]);
    cluster.start_worker("sick", &["--resources", "cpu=8"]);
    cluster.healthy("sick");
    let coordinator = until_some("there is a coordinator", || cluster.coordinator_pid("sick"));
    let limit = |soft: &str| {
        let pid = coordinator.to_string();
        let limit = format!("--nofile={soft}:1024");
        let status = Command::new("prlimit")
            .args(["--pid", &pid, &limit])
            .status();
        assert!(status.is_ok_and(|it| it.success()), "limited");
    };
    limit("4");
    cluster.start_worker("well", &["--resources", "cpu=2"]);
    cluster.healthy("well");
    all_are_done(&cluster);
    is_named(&cluster, "Too many open files");
    limit("1024");
    comes_back(&cluster);
}

#[test]
fn no_instance_fails_on_a_worker_with_sixteen_descriptors() {
    let mut cluster = Cluster::new(&[]);
    let mut limited = Command::new("prlimit");
    limited.arg("--nofile=16:16").arg(baton_path());
    cluster.start_worker_by(limited, "sick", &["--resources", "cpu=8"]);
    cluster.start_worker("well", &["--resources", "cpu=2"]);
    cluster.healthy("well");
    all_are_done(&cluster);
}
