//! A store that goes back in time, or is opened twice, while workers hold attempts that it does
//! not know.

use std::fs;
use std::path::{Path, PathBuf};

use baton_model::ids::InstanceId;
use baton_testing::cluster::Cluster;
use baton_testing::command::Ended;
use baton_testing::processes::is_alive;
use baton_testing::{until, until_some};
use serde_json::{Value, json};

use crate::api::Api;

const SHORT_LEASE: [&str; 2] = ["--lease", "6s"];

/// Prints its name, ends at SIGTERM as told, or with the file `go`, and leaves its pid and a note
/// of its end.
pub(crate) fn task(cluster: &Cluster, name: &str, at_term: &str) -> Value {
    let script = format!(
        "trap '{at_term}' TERM; echo of-{name}; echo $$ > $DIR/{name}.pid\n\
         until [ -e $DIR/go ]; do sleep 0.05; done; echo > $DIR/{name}.end"
    );
    json!({ "task": name, "run": script, "env": { "DIR": cluster.path("") } })
}

pub(crate) fn pid(cluster: &Cluster, name: &str) -> u32 {
    until_some("it starts", || {
        let text = fs::read_to_string(cluster.path(&format!("{name}.pid"))).ok()?;
        text.trim().parse().ok()
    })
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("readable") {
        let entry = entry.expect("readable");
        // Into an existing file, which stays the same file.
        fs::copy(entry.path(), to.join(entry.file_name())).expect("copied");
    }
}

/// All events of a kind.
pub(crate) fn events(cluster: &Cluster, kind: &str) -> Vec<Value> {
    let told: Ended = cluster.run(&["events", "--json", "--after", "0", "--no-follow"]);
    let lines = told.good();
    let all = lines.lines().map(serde_json::from_str::<Value>);
    all.map(|event| event.expect("JSON")["fact"][kind].clone())
        .filter(|fact| !fact.is_null())
        .collect()
}

/// Two attempts run when the store goes back to a time before they were submitted; two other tasks
/// take their place.
fn goes_back_in_time(restore: fn(backup: &Path, data: &Path), evidence: &str) {
    let mut cluster = Cluster::new(&SHORT_LEASE);
    cluster.start_worker("w", &["--resources", "cpu=4"]);
    cluster.healthy("w");
    cluster.finish(
        cluster
            .submit(json!({ "task": "first", "run": "true" }), 1)
            .first,
    );
    cluster.kill_scheduler();
    let (data, backup) = (cluster.path("data"), cluster.path("backup"));
    copy(&data, &backup);
    cluster.start_scheduler();
    let submit = |cluster: &Cluster, name, at_term| -> InstanceId {
        cluster.submit(task(cluster, name, at_term), 1).first
    };
    let lost = [("deaf", ""), ("polite", "exit 0")].map(|(name, at_term)| {
        let id = submit(&cluster, name, at_term);
        (id, pid(&cluster, name))
    });
    cluster.kill_scheduler();
    restore(&backup, &data);
    cluster.start_scheduler();
    let next = ["left", "right"].map(|name| submit(&cluster, name, ""));
    // Until a worker has given the evidence, the scheduler cannot know that these ids were used.
    if evidence != "later-term-obeyed" {
        let reused = lost.iter().any(|(id, _)| next.contains(id));
        assert!(!reused, "{next:?} and {lost:?}");
    }

    let shells = ["left", "right"].map(|name| pid(&cluster, name));
    assert!(shells.iter().all(|shell| is_alive(*shell)));
    for (_, shell) in lost {
        assert!(!is_alive(shell), "killed before anything is placed");
    }
    for id in next {
        let state = cluster.instance(id).state;
        assert!(
            !state.is_terminal(),
            "the end of another is its own: {state}"
        );
    }
    fs::write(cluster.path("go"), "").expect("written");
    for (id, name) in next.into_iter().zip(["left", "right"]) {
        let over = cluster.finish(id);
        assert_eq!(
            (over.state.word(), over.attempts, over.losses),
            ("DONE", 1, 0)
        );
        assert!(cluster.path(&format!("{name}.end")).exists(), "it has run");
        let log = cluster.run(&["logs", &id.to_string()]).good();
        assert_eq!(log, format!("of-{name}\n"));
    }
    assert!(!cluster.path("deaf.end").exists());

    let opened = events(&cluster, "copy-opened");
    assert_eq!(opened.len(), 1, "{opened:?}");
    let found = &opened[0]["evidence"];
    assert!(
        *found == *evidence || found[evidence].is_object(),
        "{found}"
    );
    assert_eq!(events(&cluster, "copy-settled").len(), 1);
    let disowned = events(&cluster, "attempts-disowned");
    assert_eq!(disowned[0]["attempts"], 2, "{disowned:?}");
    let log = cluster.log("scheduler").join("\n");
    assert!(log.contains("the store is a copy"), "{log}");
    assert!(
        log.contains("worker w holds 2 attempts of an unknown generation"),
        "{log}"
    );
}

fn replace(backup: &Path, data: &Path, names: &[&str]) {
    for name in names {
        let (from, to) = (backup.join(name), data.join(name));
        if from.exists() {
            fs::copy(from, to).expect("copied");
        } else if to.exists() {
            fs::remove_file(to).expect("removed");
        }
    }
}

const DATABASE: [&str; 3] = ["baton.db", "baton.db-wal", "baton.db-shm"];

#[test]
fn a_restored_database_takes_no_attempt_of_its_lost_future_for_its_own() {
    goes_back_in_time(
        |backup, data| replace(backup, data, &DATABASE),
        "older-than-mark",
    );
}

#[test]
fn a_restored_directory_takes_no_attempt_of_its_lost_future_for_its_own() {
    let restore = |backup: &Path, data: &Path| {
        fs::remove_dir_all(data).expect("removed");
        copy(backup, data);
    };
    goes_back_in_time(restore, "other-file");
}

#[test]
fn workers_recognise_a_file_system_that_was_set_back() {
    let restore = |backup: &Path, data: &Path| {
        replace(backup, data, &DATABASE);
        replace(backup, data, &["baton.mark"]);
    };
    goes_back_in_time(restore, "later-term-obeyed");
}

#[test]
fn a_clone_that_a_second_scheduler_opens_knows_no_attempt_of_the_first() {
    let mut first = Cluster::new(&SHORT_LEASE);
    first.start_worker("w", &["--resources", "cpu=4"]);
    first.healthy("w");
    let mut second = Cluster::idle(&SHORT_LEASE);
    copy(&first.path("data"), &second.path("data"));
    second.start_scheduler();
    let lost = first.submit(task(&first, "lost", ""), 1).first;
    let shell = pid(&first, "lost");

    // The worker moves to the clone, with what it runs.
    first.kill_worker("w");
    let state: PathBuf = second.path("w");
    std::os::unix::fs::symlink(first.path("w"), state).expect("linked");
    let other = second.submit(task(&second, "other", ""), 1).first;
    assert_ne!(other, lost, "the id of another");
    second.start_worker("w", &["--resources", "cpu=4"]);
    pid(&second, "other");
    assert!(!is_alive(shell), "killed before anything is placed");
    fs::write(second.path("go"), "").expect("written");
    let over = second.finish(other);
    assert_eq!((over.state.word(), over.attempts), ("DONE", 1));
    let log = second.run(&["logs", &other.to_string()]).good();
    assert_eq!(log, "of-other\n");
    assert_eq!(events(&second, "copy-opened")[0]["evidence"], "other-file");
    assert_eq!(events(&second, "attempts-disowned")[0]["attempts"], 1);
    assert!(
        events(&first, "copy-opened").is_empty(),
        "the original is none"
    );
    until("the first scheduler has given its attempt up", || {
        first.instance(lost).state.word() != "RUNNING"
    });
}

#[test]
fn a_restart_and_a_moved_directory_are_no_copies() {
    let mut cluster = Cluster::new(&SHORT_LEASE);
    cluster.submit(json!({ "task": "waits", "run": "true" }), 1);
    cluster.kill_scheduler();
    // On the same file system.
    fs::rename(cluster.path("data"), cluster.path("moved")).expect("moved");
    fs::rename(cluster.path("moved"), cluster.path("data")).expect("moved");
    cluster.start_scheduler();
    cluster.kill_scheduler();
    cluster.start_scheduler();
    assert!(events(&cluster, "copy-opened").is_empty());
}
