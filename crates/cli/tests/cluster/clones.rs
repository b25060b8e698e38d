//! Machines that are cloned with the state directory of their worker.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;
use std::time::UNIX_EPOCH;

use baton_model::ids::InstanceId;
use baton_testing::cluster::{Cluster, lines};
use baton_testing::command::baton_path;
use baton_testing::processes::is_alive;
use baton_testing::until;
use serde_json::{Value, json};

use crate::api::Api;

const INSTANCES: u64 = 40;
const SHORT_LEASE: [&str; 2] = ["--lease", "6s"];
const RESOURCES: [&str; 2] = ["--resources", "cpu=4"];

/// A copy of a worker's state directory, made while it was off.
fn copy_state(cluster: &Cluster, from: &str, to: &str) {
    let mut cp = Command::new("cp");
    let copied = cp.arg("-a").args([cluster.path(from), cluster.path(to)]);
    assert!(copied.status().is_ok_and(|status| status.success()));
}

/// Makes a copied directory look as in the clone of a whole disk: it has the inode and the creation time
/// of the original.
fn pretend_same_place(state: &Path) {
    let file = state.join("lineage");
    let text = fs::read_to_string(&file).expect("readable");
    let mut record: Value = serde_json::from_str(&text).expect("JSON");
    let metadata = fs::metadata(state).expect("there");
    let created = metadata.created().expect("recorded");
    let created = created.duration_since(UNIX_EPOCH).expect("since 1970");
    record["place"]["inode"] = metadata.ino().into();
    record["place"]["created_ns"] = u64::try_from(created.as_nanos()).expect("small").into();
    fs::write(&file, record.to_string()).expect("written");
}

/// The binary on a machine with this boot id, processes and control groups of its own, which go with it: in
/// namespaces. `None` with a note where that is not allowed.
fn booted(cluster: &Cluster, boot: u32) -> Option<Command> {
    let file = cluster.path(&format!("boot-{boot}"));
    fs::write(&file, format!("{boot:08x}-0000-4000-8000-000000000000\n")).expect("written");
    let script = "mount --bind \"$1\" /proc/sys/kernel/random/boot_id \
                  && mount -t tmpfs none /sys/fs/cgroup && shift && exec \"$@\"";
    let by = || {
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
        unshare.args(["sh", "-c", script, "sh"]).arg(&file);
        unshare
    };
    let tried = by().arg("true").output();
    if !tried.as_ref().is_ok_and(|it| it.status.success()) {
        eprintln!("skipped: no namespaces: {tried:?}");
        return None;
    }
    let mut by = by();
    by.arg(baton_path());
    Some(by)
}

/// Each instance ran once, and is DONE.
fn all_run_once(cluster: &Cluster) {
    let script = "echo ran >> $DIR/ran; sleep 0.1";
    let task = json!({ "task": "t", "run": script, "env": { "DIR": cluster.path("") } });
    let submitted = cluster.submit(task, INSTANCES);
    for id in submitted.first.0..=submitted.last.0 {
        let over = cluster.finish(InstanceId(id));
        assert_eq!(
            (over.state.word(), over.attempts, over.losses),
            ("DONE", 1, 0)
        );
    }
    let ran = lines(&cluster.path("ran")).len();
    assert_eq!(ran, usize::try_from(INSTANCES).expect("small"));
}

fn count(cluster: &Cluster, worker: &str, text: &str) -> usize {
    let log = cluster.log(worker);
    log.iter().filter(|line| line.contains(text)).count()
}

#[test]
fn a_copied_state_directory_is_a_worker_of_its_own() {
    let mut cluster = Cluster::new(&SHORT_LEASE);
    cluster.start_worker("one", &RESOURCES);
    cluster.healthy("one");
    cluster.kill_worker("one");
    copy_state(&cluster, "one", "two");
    for worker in ["one", "two"] {
        cluster.start_worker(worker, &RESOURCES);
        cluster.healthy(worker);
    }
    assert_eq!(
        count(&cluster, "two", "is a copy of the state directory"),
        1
    );
    assert_eq!(count(&cluster, "one", "copy"), 0);
    all_run_once(&cluster);
    for worker in ["one", "two"] {
        assert_eq!(count(&cluster, worker, "refuses this worker"), 0);
    }
}

/// Two clones run, under other names: the later one was refused once, has an identity of its own since,
/// and neither disturbs the other.
fn live_side_by_side(cluster: &Cluster) {
    let refused = "so this one is a copy";
    until("the clone is refused", || {
        count(cluster, "two", refused) > 0
    });
    cluster.healthy("two");
    cluster.healthy("one");
    all_run_once(cluster);
    let log = cluster.log("two");
    assert_eq!(count(cluster, "two", "refuses this worker"), 1, "{log:?}");
    assert_eq!(count(cluster, "one", "refuses this worker"), 0);
    assert!(is_alive(cluster.worker_pid("one")) && is_alive(cluster.worker_pid("two")));
}

#[test]
fn the_clone_of_a_running_machine_gives_way_to_it() {
    let mut cluster = Cluster::new(&SHORT_LEASE);
    let (Some(first), Some(second)) = (booted(&cluster, 1), booted(&cluster, 2)) else {
        return;
    };
    cluster.start_worker_by(first, "one", &RESOURCES);
    cluster.healthy("one");
    copy_state(&cluster, "one", "two");
    pretend_same_place(&cluster.path("two"));
    cluster.start_worker_by(second, "two", &RESOURCES);
    live_side_by_side(&cluster);
}

#[test]
fn of_two_machines_with_one_image_the_later_one_gives_way() {
    let mut cluster = Cluster::new(&SHORT_LEASE);
    let [Some(image), Some(first), Some(second)] = [1, 2, 3].map(|boot| booted(&cluster, boot))
    else {
        return;
    };
    cluster.start_worker_by(image, "one", &RESOURCES);
    cluster.healthy("one");
    cluster.kill_worker("one");
    cluster.kill_scheduler();
    copy_state(&cluster, "one", "two");
    pretend_same_place(&cluster.path("two"));
    cluster.start_scheduler();
    cluster.start_worker_by(first, "one", &RESOURCES);
    cluster.healthy("one");
    cluster.start_worker_by(second, "two", &RESOURCES);
    live_side_by_side(&cluster);
}
