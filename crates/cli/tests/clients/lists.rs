//! Lists by worker and in both orders, as a user types them.

use baton_testing::cluster::Cluster;

/// The ids of a list, in its order.
fn ids(cluster: &Cluster, args: &[&str]) -> Vec<String> {
    let listed = cluster.run(&[args, &["--json"]].concat()).json();
    let rows = listed.as_array().expect("a list").iter();
    rows.map(|it| it["id"].as_str().expect("an id").to_owned())
        .collect()
}

#[test]
fn lists_are_filtered_by_worker_and_read_in_both_orders() {
    let mut cluster = Cluster::new(&[]);
    for name in ["a", "b"] {
        cluster.start_worker(name, &["--label", &format!("at={name}")]);
        cluster.healthy(name);
    }
    for name in ["at=a", "at=b", "at=a"] {
        let submit = ["submit", "--wait", "--label", name, "--", "true"];
        cluster.run(&submit).good();
    }
    for (args, expected) in [
        (&["history"][..], &["i3", "i2", "i1"][..]),
        (&["history", "--sort", "-ended"], &["i3", "i2", "i1"]),
        (&["history", "--sort", "ended"], &["i1", "i2", "i3"]),
        (&["history", "--worker", "a"], &["i3", "i1"]),
        (
            &["history", "--worker", "a", "--sort", "ended"],
            &["i1", "i3"],
        ),
        (&["history", "--worker", "a", "-n", "1"], &["i3"]),
        (&["history", "--worker", "other"], &[]),
    ] {
        assert_eq!(ids(&cluster, args), expected, "{args:?}");
    }

    for (id, name) in [("i4", "at=a"), ("i5", "at=b")] {
        let submit = ["submit", "--label", name, "--", "sleep", "1000"];
        cluster.run(&submit).good();
        cluster.until_state(id, "RUNNING");
    }
    for _ in 0..2 {
        let submit = ["submit", "--cpu", "100000", "--", "true"];
        cluster.run(&submit).good();
    }
    for (args, expected) in [
        (&["arena"][..], &["i4", "i5"][..]),
        (&["arena", "--sort", "-submitted"], &["i5", "i4"]),
        (&["arena", "--worker", "b"], &["i5"]),
        (&["bullpen"], &["i6", "i7"]),
        (&["bullpen", "--sort", "-submitted"], &["i7", "i6"]),
        (&["bullpen", "--sort", "submitted"], &["i6", "i7"]),
        (&["bullpen", "--worker", "a"], &[]),
    ] {
        assert_eq!(ids(&cluster, args), expected, "{args:?}");
    }
    cluster.run(&["cancel", "i4..i7", "--now"]).good();

    std::fs::write(
        cluster.path("w.yaml"),
        "workflow: w\ntasks: { a: { run: 'true' } }\n",
    )
    .expect("written");
    for _ in 0..2 {
        cluster.run(&["submit", "--wait", "w.yaml"]).good();
    }
    assert_eq!(ids(&cluster, &["runs"]), ["r2", "r1"]);
    let oldest_first = ["runs", "--sort", "submitted"];
    assert_eq!(ids(&cluster, &oldest_first), ["r1", "r2"]);

    for (list, orders) in [
        ("history", "ended"),
        ("arena", "submitted"),
        ("runs", "submitted"),
    ] {
        let refused = cluster.run(&[list, "--sort", "name"]);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.err.contains(orders), "{refused:?}");
    }
}
