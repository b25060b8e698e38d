//! Metrics by owner and entry.

use std::fs;

use baton_testing::cluster::Cluster;
use baton_testing::until;

#[test]
fn ends_due_times_and_queues_are_counted_by_owner_and_entry() {
    let mut cluster = Cluster::new(&[]);
    cluster.start_worker("w1", &["--resources", "cpu=4,memory=4GiB"]);
    cluster.healthy("w1");
    let files = [
        (
            "beat.yaml",
            "task: beat\nowner: lab\nrun: 'true'\ntrigger: { schedule: every 1s }\n",
        ),
        (
            "etl.yaml",
            "workflow: etl\nowner: lab\ntasks:\n  a: { run: 'true', for_each: [1, 2] }\n  b: { run: 'false', after: a }\n",
        ),
    ];
    for (name, text) in files {
        fs::write(cluster.path(name), text).expect("written");
    }
    cluster.run(&["library", "put", "beat.yaml"]).good();
    let ended = cluster.run(&["submit", "etl.yaml", "--wait"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let waits = [
        "submit", "--owner", "big", "--name", "model", "--cpu", "64", "--", "true",
    ];
    cluster.run(&waits).good();
    for line in [
        r#"baton_instances_ended_total{owner="lab",entry="etl",state="DONE"} 2"#,
        r#"baton_instances_ended_total{owner="lab",entry="etl",state="FAILED"} 1"#,
        r#"baton_runs_ended_total{owner="lab",entry="etl",state="FAILED"} 1"#,
        r#"baton_queue_oldest_seconds{owner="big",entry="model"} "#,
        r#"baton_due_times_total{owner="lab",entry="beat",outcome="launched"} "#,
        r#"baton_instances_ended_total{owner="lab",entry="beat",state="DONE"} "#,
    ] {
        until(line, || {
            cluster.metrics().lines().any(|it| it.starts_with(line))
        });
    }
}
