//! Rates, limits of arrays and shares of owners, against a real scheduler with a real worker.

use baton_testing::cluster::Cluster;
use baton_testing::until;
use serde_json::json;

#[test]
fn a_rate_lets_its_burst_start_and_tells_when_the_next_may() {
    let mut cluster = Cluster::with_worker();
    let set = ["limits", "set", "api", "1/h", "--burst", "2"];
    assert_eq!(cluster.run(&set).good(), "api: 1/h, burst 2\n");
    let file = "task: t\nrun: 'true'\nresources: { api: 1 }\n";
    std::fs::write(cluster.path("t.yaml"), file).expect("writable");
    let file = cluster.path("t.yaml").display().to_string();
    cluster.run(&["submit", "--array", "1-3", &file]).good();
    cluster.until_state("i1", "DONE");
    cluster.until_state("i2", "DONE");
    let explained = |cluster: &Cluster| cluster.run(&["explain", "i3"]).good();
    let waits = "the rate api (1/h), which is used up; the next start is possible in";
    assert!(
        explained(&cluster).contains(waits),
        "{}",
        explained(&cluster)
    );
    let listed = cluster.run(&["limits", "ls"]).good();
    assert!(listed.contains("1/h") && listed.contains("in "), "{listed}");
    let limits = cluster.run(&["limits", "--json"]).json();
    assert_eq!(
        (
            &limits[0]["rate"],
            &limits[0]["used"],
            &limits[0]["waiting"]
        ),
        (&json!("1/h"), &json!(2), &json!(1))
    );
    cluster.kill_scheduler();
    cluster.start_scheduler();
    cluster.healthy("w1");
    until("it waits", || explained(&cluster).contains(waits));
    let limits = cluster.run(&["limits", "--json"]).json();
    assert_eq!(limits[0]["used"], 2, "nothing is free after a restart");
    // The scheduler wakes by itself.
    cluster.run(&["limits", "set", "api", "10/s"]).good();
    cluster.until_state("i3", "DONE");
    for (args, text) in [
        (
            &["limits", "set", "api", "often"][..],
            "a rate such as 10/s",
        ),
        (&["limits", "set", "api", "0/s"], "is not a rate"),
        (
            &["limits", "set", "api", "4", "--burst", "2"],
            "belongs to a rate",
        ),
    ] {
        let refused = cluster.run(args);
        assert_eq!(refused.code, Some(2), "{args:?} {refused:?}");
        assert!(refused.err.contains(text), "{refused:?}");
    }
}

#[test]
fn the_limit_of_an_array_is_raised_lowered_and_removed_while_it_runs() {
    let mut cluster = Cluster::with_worker();
    let held = format!(
        "until test -e {}; do sleep 0.02; done",
        cluster.path("go").display()
    );
    let array = [
        "submit", "--array", "1-6%1", "--cpu", "0", "--", "sh", "-c", &held,
    ];
    cluster.run(&array).good();
    let running = |cluster: &Cluster| {
        let arena = cluster.run(&["arena", "--json"]).json();
        arena.as_array().map_or(0, Vec::len)
    };
    until("one runs", || running(&cluster) == 1);
    let set = cluster.run(&["array", "limit", "i1..i6", "3"]).good();
    assert_eq!(set, "i1..i6: at most 3 at once\n");
    until("three run", || running(&cluster) == 3);
    cluster.kill_scheduler();
    cluster.start_scheduler();
    cluster.healthy("w1");
    let lowered = cluster.run(&["array", "limit", "i2", "2"]);
    assert!(lowered.err.contains("3 are in flight"), "{lowered:?}");
    let explained = cluster.run(&["explain", "i6"]).good();
    assert!(explained.contains("3 of 2 are in use"), "{explained}");
    let none = cluster.run(&["array", "limit", "i1..i6", "none"]).good();
    assert_eq!(none, "i1..i6: no limit\n");
    until("all run", || running(&cluster) == 6);
    let shown = cluster.run(&["show", "i1"]).good();
    assert!(
        shown.contains("the array i1 has no concurrency limit"),
        "{shown}"
    );
    std::fs::write(cluster.path("go"), "").expect("writable");
    cluster.run(&["wait", "i1..i6"]).good();
    cluster.run(&["submit", "--", "true"]).good();
    let refused = cluster.run(&["array", "limit", "i7", "2"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(
        refused.err.contains("i7 is no element of an array"),
        "{refused:?}"
    );
    let refused = cluster.run(&["array", "limit", "i1..i6", "0"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
}

#[test]
fn shares_are_set_listed_and_removed() {
    let mut cluster = Cluster::new(&[]);
    let none = cluster.run(&["share"]);
    assert!(none.err.contains("every owner has weight 1"), "{none:?}");
    assert_eq!(
        cluster.run(&["share", "set", "lab", "3"]).good(),
        "lab: weight 3\n"
    );
    cluster.kill_scheduler();
    cluster.start_scheduler();
    let listed = cluster.run(&["share", "ls"]).good();
    assert!(listed.contains("lab    3"), "{listed}");
    let listed = cluster.run(&["share", "ls", "--json"]).json();
    assert_eq!(
        (&listed[0]["owner"], &listed[0]["weight"]),
        (&json!("lab"), &json!(3))
    );
    assert_eq!(
        cluster.run(&["share", "rm", "lab"]).good(),
        "lab: weight 1 again\n"
    );
    assert_eq!(cluster.run(&["share", "rm", "lab"]).code, Some(1));
    for bad in ["0", "1001", "x"] {
        let refused = cluster.run(&["share", "set", "lab", bad]);
        assert_eq!(refused.code, Some(2), "{refused:?}");
    }
}
