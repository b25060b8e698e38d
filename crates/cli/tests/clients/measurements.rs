//! The measured use of workers, beside what is claimed of them.

use baton_testing::cluster::Cluster;
use baton_testing::until;
use serde_json::{Value, json};

/// The only worker, as `baton workers --json` prints it.
fn worker(cluster: &Cluster) -> Value {
    cluster.run(&["workers", "--json"]).json()[0].take()
}

/// Waits until the worker has measured some of a core. A busy machine may leave little of it.
fn until_busy(cluster: &Cluster) {
    until("a core is in use", || {
        let cores = worker(cluster)["measured"]["cpu_milli"].as_u64();
        cores.is_some_and(|milli| (1..=1_500).contains(&milli))
    });
}

#[test]
fn a_worker_reports_what_its_attempts_use_not_what_they_claim() {
    let cluster = Cluster::with_worker();
    let idle = json!({ "cpu_milli": 0, "memory": 0 });
    until("an idle worker uses nothing", || {
        worker(&cluster)["measured"] == idle
    });
    let busy = "while :; do :; done";
    cluster.run(&["submit", "--cpu", "0.1", "--", busy]).good();
    until_busy(&cluster);
    let shown = worker(&cluster);
    assert_eq!(shown["used"]["cpu_milli"], 100, "{shown}");
    assert!(shown["measured"]["memory"].as_u64() > Some(0), "{shown}");
    let table = cluster.run(&["workers"]).good();
    assert!(table.contains("MEASURED"), "{table}");
    let amount = "baton_workers_cpu_millicores{amount=\"measured\"}";
    until("the metric has it", || cluster.metric(amount) > 0);
    cluster.run(&["cancel", "i1", "--now"]).good();
    until("nothing is in use", || worker(&cluster)["measured"] == idle);

    // The processes of a task are children of its runner.
    let task = json!({
        "task": "busy", "resources": { "cpu": 0.1 }, "processes": [{ "name": "p", "run": busy }],
    });
    std::fs::write(cluster.path("busy.yaml"), task.to_string()).expect("written");
    cluster.run(&["submit", "busy.yaml"]).good();
    until_busy(&cluster);
    cluster.run(&["cancel", "i2", "--now"]).good();
    cluster.until_state("i2", "HALTED");
}
