//! Submissions with conditions: dependencies, elements at the same time, and failed elements.

use baton_testing::cluster::Cluster;
use baton_testing::until;
use serde_json::Value;

/// Waits for the file `NAME` in the directory of the cluster.
fn hold(cluster: &Cluster, name: &str) -> String {
    let path = cluster.path(name);
    format!("until test -e {}; do sleep 0.02; done", path.display())
}

fn release(cluster: &Cluster, name: &str) {
    std::fs::write(cluster.path(name), "").expect("writable");
}

fn explain(cluster: &Cluster, id: &str) -> Value {
    cluster.run(&["explain", id, "--json"]).json()
}

#[test]
fn work_starts_after_other_work_also_under_the_next_leader() {
    let mut cluster = Cluster::with_worker();
    let held = hold(&cluster, "go");
    cluster.run(&["submit", "--", "sh", "-c", &held]).good();
    cluster
        .run(&["submit", "--after", "i1", "--", "true"])
        .good();
    cluster
        .run(&["submit", "--after", "i2:fail", "--", "true"])
        .good();
    let explanation = explain(&cluster, "i2");
    assert_eq!(explanation["reason"], "after", "{explanation}");
    assert_eq!(explanation["text"], "it waits for i1 to succeed");
    cluster.kill_scheduler();
    cluster.start_scheduler();
    until("the leader answers", || {
        explain(&cluster, "i2")["reason"] == "after"
    });
    release(&cluster, "go");
    cluster.until_state("i2", "DONE");
    cluster.until_state("i3", "HALTED");
    let shown = cluster.run(&["show", "i3"]).good();
    assert!(shown.contains("i2 did not fail"), "{shown}");

    let refused = cluster.run(&["submit", "--after", "i3", "--", "true"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("i3 did not succeed"), "{refused:?}");
    let refused = cluster.run(&["submit", "--after", "i99", "--", "true"]);
    assert!(refused.err.contains("i99 does not exist"), "{refused:?}");
    let refused = cluster.run(&["submit", "--after", "i1:done", "--", "true"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let wait = ["submit", "--wait", "--after", "i3:any,i1", "--", "true"];
    assert_eq!(cluster.run(&wait).code, Some(0));
}

#[test]
fn ends_during_a_restart_are_all_held_against_the_rules() {
    let mut cluster = Cluster::with_worker();
    let held = format!(
        "{}; echo x >> {}; exit $BATON_ARRAY_INDEX",
        hold(&cluster, "go"),
        cluster.path("ended").display()
    );
    let array = ["submit", "--array", "0-1", "--", "sh", "-c", &held];
    cluster.run(&array).good();
    for after in ["i1..i2", "i1,i2", "i1..i2:fail", "i1..i2:any"] {
        let dependent = ["submit", "--after", after, "--", "true"];
        cluster.run(&dependent).good();
    }
    cluster.until_state("i1", "RUNNING");
    cluster.until_state("i2", "RUNNING");
    cluster.kill_scheduler();
    release(&cluster, "go");
    until("both have ended", || {
        let text = std::fs::read_to_string(cluster.path("ended")).unwrap_or_default();
        text.lines().count() == 2
    });
    cluster.start_scheduler();
    cluster.until_state("i6", "DONE");
    let states = ["i1", "i2", "i3", "i4", "i5"].map(|id| cluster.state(id));
    assert_eq!(states, ["DONE", "FAILED", "HALTED", "HALTED", "HALTED"]);
    let shown = cluster.run(&["show", "i3"]).good();
    assert!(shown.contains("i1..i2 did not succeed"), "{shown}");
}

#[test]
fn an_array_limits_what_runs_and_what_fails_also_under_the_next_leader() {
    let mut cluster = Cluster::with_worker();
    let held = format!(
        "echo x >> {}; {}; exit 1",
        cluster.path("begun").display(),
        hold(&cluster, "go")
    );
    let args = [
        "submit",
        "--array",
        "1-9%2",
        "--max-fails",
        "3",
        "--",
        "sh",
        "-c",
        &held,
    ];
    cluster.run(&args).good();
    let begun = |cluster: &Cluster| {
        let text = std::fs::read_to_string(cluster.path("begun")).unwrap_or_default();
        text.lines().count()
    };
    until("two have begun", || begun(&cluster) == 2);
    let explanation = explain(&cluster, "i3");
    assert_eq!(
        (&explanation["reason"], &explanation["resource"]),
        (&"limit".into(), &"array i1".into())
    );
    cluster.kill_scheduler();
    cluster.start_scheduler();
    release(&cluster, "go");
    until("all have ended", || {
        let summary = cluster.run(&["show", "i1..i9", "--json"]).json();
        summary["counts"]["QUEUED"].is_null()
            && summary["counts"]["RUNNING"].is_null()
            && summary["counts"]["LAUNCHED"].is_null()
    });
    let summary = cluster.run(&["show", "i1..i9", "--json"]).json();
    let failed = summary["counts"]["FAILED"]
        .as_u64()
        .expect("some have failed");
    assert!((3..=4).contains(&failed), "{summary}");
    let shown = cluster.run(&["show", "i9"]).good();
    assert!(
        shown.contains("3 elements of its array have failed"),
        "{shown}"
    );
    let explained = cluster.run(&["explain", "i9"]).good();
    let reason = "it was cancelled because 3 elements of its array have failed (--max-fails 3); it was never started";
    assert!(explained.contains(reason), "{explained}");
}
