//! Requests and use by task, with commands that really take memory.

use baton_testing::cluster::Cluster;
use baton_testing::until;
use serde_json::{Value, json};

const MIB: f64 = 1_048_576.0;

/// Tasks with their usage, once so many attempts were measured.
fn used(cluster: &Cluster, attempts: u64) -> Vec<Value> {
    let mut all = Vec::new();
    until("all attempts are measured", || {
        let shown = cluster.run(&["usage", "--by", "task", "--json"]).json();
        all = shown.as_array().expect("a list").clone();
        let measured = all.iter().filter_map(|it| it["measured"].as_u64());
        measured.sum::<u64>() == attempts
    });
    all
}

#[test]
fn requests_that_are_too_large_are_suggested_smaller() {
    let cluster = Cluster::with_worker();
    // `tail` holds 60 MB, or 90 MB in the last element.
    let run = "n=60; test $BATON_ARRAY_INDEX = 6 && n=90; \
               head -c ${n}000000 /dev/zero | tail -c ${n}000000 > /dev/null";
    let task = json!({
        "task": "hold", "run": run, "resources": { "cpu": 0.1, "memory": "1GiB" },
    });
    std::fs::write(cluster.path("hold.yaml"), task.to_string()).expect("written");
    cluster
        .run(&["submit", "hold.yaml", "--array", "1-6"])
        .good();
    let workflow = json!({
        "workflow": "flow",
        "tasks": { "part": { "run": "true", "for_each": [1, 2], "resources": { "cpu": 0.1 } } },
    });
    std::fs::write(cluster.path("flow.yaml"), workflow.to_string()).expect("written");
    cluster.run(&["submit", "flow.yaml"]).good();
    // Two items, and the run as a whole.
    let all = used(&cluster, 9);
    let paths: Vec<_> = all
        .iter()
        .map(|it| (&it["workflow"], &it["task"]))
        .collect();
    let (flow, part, hold) = (json!("flow"), json!("part"), json!("hold"));
    let none = Value::Null;
    assert_eq!(paths, [(&none, &hold), (&flow, &none), (&flow, &part)]);
    let memory = &all[0]["memory"];
    let peak = |name: &str| memory[name].as_f64().expect("a number") / MIB;
    assert!((55.0..75.0).contains(&peak("p50")), "{memory}");
    assert!((83.0..110.0).contains(&peak("max")), "{memory}");
    assert_eq!(all[2]["attempts"], 2);

    let text = cluster.run(&["usage", "--by", "task", "--suggest"]).good();
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].starts_with("# default/hold: 6 attempts since "),
        "{text}"
    );
    assert!(text.contains("# memory: 1GiB is too much, "), "{text}");
    let is_line = |it: &&&str| it.starts_with("resources: { cpu: ");
    let line = lines.iter().find(is_line).expect("a suggestion");
    let few = "# too few attempts: 2 of at least 5 have succeeded";
    assert!(lines.contains(&few), "{text}");
    let table = cluster.run(&["usage", "--by", "task"]).good();
    assert!(table.contains("default/flow/part"), "{table}");

    // The line is valid, and enough.
    let file = format!("task: again\nrun: '{run}'\n{line}\n");
    std::fs::write(cluster.path("again.yaml"), file).expect("written");
    cluster
        .run(&["submit", "again.yaml", "--array", "1-6", "--wait"])
        .good();

    let refused = cluster.run(&["usage", "--suggest"]);
    assert!(refused.err.contains("add --by task"), "{}", refused.err);
}

#[test]
fn what_ran_out_of_memory_is_suggested_more() {
    let cluster = Cluster::with_worker();
    let task = json!({
        "task": "greedy",
        "run": "(head -c 62914560 /dev/zero; exec sleep 1000) | tail -c 62914560 > /dev/null",
        "resources": { "cpu": 0.1, "memory": "16MiB..32MiB" },
    });
    std::fs::write(cluster.path("greedy.yaml"), task.to_string()).expect("written");
    cluster.run(&["submit", "greedy.yaml"]).good();
    cluster.until_state("i1", "FAILED");
    let all = used(&cluster, 1);
    assert_eq!(all[0]["outOfMemory"], 1, "{all:?}");
    let reasons = &all[0]["suggestion"]["reasons"];
    let reason = "memory: 1 attempt ran out of it, with 16MiB..32MiB";
    assert_eq!(reasons[0], reason, "{reasons}");
    let line = all[0]["suggestion"]["lines"][0].as_str().expect("a line");
    assert!(
        line.starts_with("resources: { cpu: 0.1, memory: 16MiB.."),
        "{line}"
    );
}
