//! Control groups that outlive their workers.

use std::fs::{self, File, FileTimes};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use baton_testing::cluster::Cluster;
use baton_testing::processes::{is_alive, processes, send};
use baton_testing::until;
use rustix::process::Signal;

use crate::api::Api as _;

/// The control group of a running worker; `None` with a note where it has none.
fn group(cluster: &Cluster, worker: &str) -> Option<PathBuf> {
    let coordinator = cluster.coordinator_pid(worker).expect("there");
    let line = fs::read(format!("/proc/{coordinator}/cmdline")).expect("readable");
    let line = String::from_utf8_lossy(&line);
    let found = line.split('\0').map(Path::new).find(|argument| {
        let name = argument.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("baton-w") && argument.is_dir()
    });
    if found.is_none() {
        eprintln!("skipped: control groups are not writable here");
    }
    found.map(Path::to_owned)
}

/// Makes a group old enough to be swept.
fn age(group: &Path) {
    let hour_ago = SystemTime::now() - Duration::from_secs(3_600);
    let times = FileTimes::new().set_modified(hour_ago);
    let dir = File::open(group).expect("there");
    dir.set_times(times).expect("ours");
}

#[test]
fn a_worker_that_starts_removes_the_control_groups_of_dead_workers_and_its_own_when_it_ends() {
    let mut cluster = Cluster::new(&[]);
    for worker in ["dead", "idle"] {
        cluster.start_worker(worker, &["--label", &format!("name={worker}")]);
        cluster.healthy(worker);
    }
    let (Some(left), Some(used)) = (group(&cluster, "dead"), group(&cluster, "idle")) else {
        return;
    };
    cluster.kill_worker("dead");
    let state = cluster.path("dead").to_string_lossy().into_owned();
    until("nothing of the worker runs", || {
        let others = processes(|line| line.contains(&state));
        for pid in &others {
            send(*pid, Signal::KILL);
        }
        others.is_empty()
    });
    assert!(left.is_dir(), "killed workers remove nothing");
    for group in [&left, &used] {
        age(group);
    }
    cluster.start_worker("next", &["--label", "name=next"]);
    cluster.healthy("next");
    until("the group without an owner is removed", || !left.exists());
    assert!(used.is_dir(), "its coordinator is alive");
    let run = |worker: &str| {
        let constraints = serde_json::json!({ "name": worker });
        let task = serde_json::json!({ "task": "t", "run": "true", "constraints": constraints });
        let over = cluster.finish(cluster.submit(task, 1).first);
        assert_eq!((over.state.word(), over.attempts), ("DONE", 1));
    };
    run("idle");
    run("next");
    let own = group(&cluster, "next").expect("as the others");
    let agent = cluster.worker_pid("next");
    send(agent, Signal::INT);
    until("the worker has ended", || !is_alive(agent));
    assert!(!own.exists(), "removed with its worker");
}
