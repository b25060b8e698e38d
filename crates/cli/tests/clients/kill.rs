//! `baton kill` and `baton cancel --now`, against a real scheduler with a real worker.

use baton_testing::cluster::Cluster;
use baton_testing::until;
use serde_json::json;

/// Runs until the file `go` of its directory is there, which nothing makes.
const GATED: &str = "trap '' TERM; touch begun; while [ ! -e go ]; do sleep 0.02; done";

fn attempts(cluster: &Cluster, id: &str) -> serde_json::Value {
    cluster.run(&["show", id, "--json"]).json()["instance"]["attempts"].clone()
}

#[test]
fn a_killed_attempt_is_followed_by_the_next_and_the_end_says_who_has_killed_it() {
    let cluster = Cluster::with_worker();
    let submit = ["submit", "--retries", "1", "--", "/bin/sh", "-c", GATED];
    assert_eq!(cluster.run(&submit).good(), "i1\n");
    cluster.until_state("i1", "RUNNING");
    let killed = cluster.run(&["kill", "i1", "--now"]).good();
    assert_eq!(killed, "i1: killing attempt 1\n");
    until("another attempt runs", || attempts(&cluster, "i1") == 2);
    cluster.until_state("i1", "RUNNING");

    let over = cluster.run(&["kill", "i1", "--attempt", "1"]);
    assert_eq!(over.code, Some(3), "{over:?}");
    assert!(
        over.err
            .contains("attempt 1 of i1 is over; attempt 2 runs now"),
        "{over:?}"
    );
    let unknown = cluster.run(&["kill", "i1", "--attempt", "3"]);
    assert_eq!(unknown.code, Some(1), "{unknown:?}");

    let last = cluster.run(&["kill", "i1", "--attempt", "2", "--now", "--json"]);
    let last = last.json();
    assert_eq!((&last["id"], &last["attempt"]), (&json!("i1"), &json!(2)));
    assert_eq!(last["links"]["timeline"], "/instances/i1/timeline");
    cluster.until_state("i1", "FAILED");
    let shown = cluster.run(&["show", "i1"]).good();
    for line in [
        "kill of attempt 1 requested, at once",
        "attempt 1 ended: killed by an operator; requeued",
        "attempt 2 ended: killed by an operator; failed for good",
    ] {
        assert!(shown.contains(line), "{line}:\n{shown}");
    }
    let ended = cluster.run(&["kill", "i1"]);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(ended.err.contains("i1 is FAILED"), "{ended:?}");
}

#[test]
fn what_waits_or_is_cancelled_has_no_attempt_to_kill_and_a_cancel_can_be_made_harder() {
    let cluster = Cluster::with_worker();
    let huge = ["submit", "--cpu", "100000", "--", "true"];
    assert_eq!(cluster.run(&huge).good(), "i1\n");
    let waits = cluster.run(&["kill", "i1"]);
    assert_eq!(waits.code, Some(3), "{waits:?}");
    assert!(waits.err.contains("`baton cancel i1`"), "{waits:?}");

    // Its final process waits for ever; only a second, explicit order ends that.
    let task = "task: slow\nfinalization_wait: 1h\nprocesses:\n- name: main\n  run: echo begun; exec sleep 1000\n\
                - name: last\n  final: true\n  run: echo begun; exec sleep 1000\n";
    std::fs::write(cluster.path("slow.yaml"), task).expect("writable");
    assert_eq!(cluster.run(&["submit", "slow.yaml"]).good(), "i2\n");
    cluster.until_state("i2", "RUNNING");
    let begun = |process: &str| {
        let logs = cluster.run(&["logs", "i2", "--process", process]);
        logs.out == "begun\n"
    };
    until("its process runs", || begun("main"));
    assert_eq!(cluster.run(&["cancel", "i2"]).good(), "i2: stopping\n");
    until("its final process runs", || begun("last"));
    let stopping = cluster.run(&["kill", "i2"]);
    assert_eq!(stopping.code, Some(3), "{stopping:?}");
    assert!(
        stopping.err.contains("`baton cancel i2 --now`"),
        "{stopping:?}"
    );
    assert_eq!(
        cluster.run(&["cancel", "i2", "--now"]).good(),
        "i2: stopping\n"
    );
    cluster.until_state("i2", "HALTED");
    let shown = cluster.run(&["show", "i2"]).good();
    assert!(shown.contains("stop requested, at once"), "{shown}");
}
