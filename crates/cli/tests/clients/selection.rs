//! Several ids, ranges, elements of arrays and filters on one command line; waiting for them.

use baton_testing::cluster::Cluster;
use serde_json::json;

#[test]
fn several_ids_ranges_and_elements_are_one_command() {
    let cluster = Cluster::with_worker();
    let script = "test $BATON_ARRAY_INDEX -gt 3 || exit 4; echo part $BATON_ARRAY_INDEX";
    let array = [
        "submit", "--array", "1-5", "--name", "sim", "--wait", "--", script,
    ];
    assert_eq!(cluster.run(&array).code, Some(1));
    let done = ["submit", "--name", "other", "--wait", "--", "echo other"];
    assert_eq!(cluster.run(&done).good(), "i6\n");

    let logs = cluster.run(&["logs", "i4[4]", "i6"]).good();
    assert_eq!(logs, "==> i4 <==\npart 4\n\n==> i6 <==\nother\n");
    let shown = cluster.run(&["show", "i4[4]", "i6", "--json"]).json();
    assert_eq!(shown[0]["instance"]["arrayIndex"], 4);
    assert_eq!(shown[1]["instance"]["id"], "i6");
    let wrong = cluster.run(&["show", "i1[4]"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.err.contains("index 4 is i4"), "{wrong:?}");
    let explained = cluster.run(&["explain", "i5..i6", "i99", "--json"]);
    assert_eq!(explained.code, Some(1), "{explained:?}");
    let explained: serde_json::Value = serde_json::from_str(&explained.out).expect("an array");
    assert_eq!(explained[1]["state"], "DONE");
    assert_eq!(explained[2], json!(null));

    let retried = cluster.run(&["retry", "i1..i6"]).good();
    assert_eq!(
        retried,
        "i1..i6 (6 instances): 3 queued again, 3 skipped (not FAILED, or part of a run)\n"
    );
    assert_eq!(cluster.run(&["wait", "i1..i5", "i6"]).code, Some(1));
    assert_eq!(cluster.run(&["wait", "i1[1]"]).code, Some(4));
    assert_eq!(cluster.run(&["wait", "i4", "i5", "i6"]).code, Some(0));
    assert_eq!(cluster.run(&["wait", "i99"]).code, Some(1));
    let again = cluster.run(&["retry", "i1", "i4", "i3"]);
    assert_eq!(again.out, "i1: queued again\ni3: queued again\n");
    assert_eq!(again.code, Some(3), "{again:?}");
    assert!(again.err.contains("i4 cannot be retried"), "{again:?}");
}

#[test]
fn an_array_has_an_element_for_each_line_and_each_json_value() {
    let cluster = Cluster::with_worker();
    std::fs::write(cluster.path("names"), "a b\n\n{{ c }}\n").expect("writable");
    let names = cluster.path("names").display().to_string();
    let args = [
        "submit",
        "--each-line",
        &names,
        "--wait",
        "--",
        "/bin/echo",
        "got {{ item }}",
    ];
    cluster.run(&args).good();
    assert_eq!(cluster.run(&["logs", "i1"]).good(), "got a b\n");
    assert_eq!(cluster.run(&["logs", "i2"]).good(), "got {{ c }}\n");
    let task = "task: each\nrun: 'echo {{ item.size }} $BATON_ARRAY_INDEX $BATON_ITEM'\n";
    std::fs::write(cluster.path("each.yaml"), task).expect("writable");
    std::fs::write(cluster.path("sizes.json"), r#"[{"size": 1}, {"size": 2}]"#).expect("writable");
    let (task, sizes) = (cluster.path("each.yaml"), cluster.path("sizes.json"));
    let (task, sizes) = (task.display().to_string(), sizes.display().to_string());
    let args = ["submit", &task, "--from-json", &sizes, "--wait"];
    assert_eq!(cluster.run(&args).good(), "i3..i4 (2 instances)\n");
    assert_eq!(cluster.run(&["logs", "i4"]).good(), "2 1 {\"size\":2}\n");
    let shown = cluster.run(&["show", "i4"]).good();
    assert!(shown.contains("item       {\"size\":2}"), "{shown}");
    let listed = [
        "submit",
        "--array",
        "0-9:4,20",
        "--wait",
        "--",
        "echo $BATON_ARRAY_INDEX",
    ];
    cluster.run(&listed).good();
    assert_eq!(cluster.run(&["logs", "i6[4]"]).good(), "4\n");
    assert_eq!(cluster.run(&["logs", "i8[20]"]).good(), "20\n");
    for (args, told) in [
        (
            &["submit", "--array", "0-9:0", "--", "x"][..],
            "the step must be at least 1",
        ),
        (&["submit", &task], "has a value only in an array of items"),
        (&["submit", &task, "--from-json", &names], "names: "),
        (
            &["submit", "--array", "1-2", "--each-line", &names, "--", "x"],
            "cannot be used with",
        ),
    ] {
        let ended = cluster.run(args);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.err.contains(told), "{ended:?}");
    }
}

#[test]
fn filters_count_and_ask_before_they_change_anything() {
    let cluster = Cluster::new(&[]);
    let submit = |name: &str, indices: &str| {
        let args = ["submit", "--name", name, "--array", indices, "--", "true"];
        cluster.run(&args).good();
    };
    submit("sim", "1-3");
    submit("other", "1-3");
    submit("sim", "1-3");
    let refused = cluster.run(&["cancel", "--name", "sim"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(
        refused
            .err
            .contains("cancel 6 instances (name sim); confirm it with -y"),
        "{refused:?}"
    );
    assert_eq!(cluster.state("i1"), "QUEUED");
    let late = cluster.run(&["wait", "--name", "sim", "--timeout", "1ms"]);
    assert_eq!(late.code, Some(124), "{late:?}");
    let part = cluster.run(&["cancel", "i2..i5", "--name", "sim"]).good();
    assert_eq!(part, "2 instances (name sim): 2 halted, 0 stopping\n");
    let rest = cluster.run(&["cancel", "--name", "sim", "--since", "1h", "-y", "--json"]);
    assert_eq!(rest.json(), json!({ "halted": 4, "stopping": 0 }));
    assert_eq!(cluster.run(&["wait", "i1..i3", "i7"]).code, Some(130));
    let none = cluster.run(&["kill", "--name", "other", "-y"]);
    assert_eq!(none.code, Some(1), "{none:?}");
    let retried = cluster.run(&["retry", "--name", "sim", "--state", "halted", "-y"]);
    assert_eq!(
        retried.good(),
        "6 instances (name sim, state HALTED): 6 queued again\n"
    );
    let nothing = cluster.run(&["cancel"]);
    assert_eq!(nothing.code, Some(2), "{nothing:?}");
}
