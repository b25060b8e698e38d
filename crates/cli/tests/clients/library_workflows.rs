//! Workflows in the library, with `baton library`, `trigger` and `ticks`, against a real scheduler
//! with a real worker.

use baton_testing::cluster::Cluster;
use baton_testing::until;
use serde_json::{Value, json};

/// Two tasks in a row; the second writes what it was launched with.
const ETL: &str = "workflow: etl\nowner: demo\n\
                   params: { day: today, n: { type: int, default: 1, max: 9 } }\n\
                   tasks:\n  extract: { run: 'true' }\n  load:\n    after: [extract]\n    \
                   run: echo \"{{ params.day }} {{ params.n }} due ${BATON_NOMINAL_TIME:-never}\"\n";

fn write(cluster: &Cluster, name: &str, text: &str) {
    std::fs::write(cluster.path(name), text).expect("written");
}

fn put(cluster: &Cluster, name: &str, text: &str) {
    write(cluster, name, text);
    cluster.run(&["library", "put", name]).good();
}

fn ticks(cluster: &Cluster, entry: &str) -> Vec<Value> {
    let ticks = cluster.run(&["ticks", entry, "--json"]).json();
    ticks.as_array().expect("a list").clone()
}

fn run_state(cluster: &Cluster, run: &str) -> Value {
    cluster.run(&["show", run, "--json"]).json()["run"]["state"].clone()
}

fn until_done(cluster: &Cluster, run: &str) {
    until("the run is DONE", || run_state(cluster, run) == "DONE");
}

#[test]
fn a_workflow_is_put_looked_at_compared_and_removed() {
    let cluster = Cluster::with_worker();
    write(&cluster, "etl.yaml", ETL);
    let dry = cluster.run(&["library", "put", "etl.yaml", "--dry-run"]);
    assert_eq!(dry.good(), "demo/etl: would be created, revision 1\n");
    let made = cluster.run(&["library", "put", "etl.yaml"]).good();
    assert_eq!(made, "demo/etl: created, revision 1\n");
    assert_eq!(cluster.run(&["library", "diff", "etl.yaml"]).good(), "");
    write(&cluster, "etl.yaml", &format!("{ETL}max_concurrent: 7\n"));
    let diff = cluster.run(&["library", "diff", "etl.yaml"]);
    assert_eq!(diff.code, Some(1));
    assert!(diff.out.contains("+  \"max_concurrent\": 7"), "{diff:?}");
    let made = cluster.run(&["library", "put", "etl.yaml"]).good();
    assert_eq!(made, "demo/etl: replaced, revision 2\n");
    let shown = cluster.run(&["library", "show", "demo/etl"]).good();
    assert!(
        shown.starts_with("workflow") && shown.contains("manually"),
        "{shown}"
    );
    let listed = cluster.run(&["library", "ls", "--json"]).json();
    assert_eq!(listed["items"][0]["kind"], "workflow");
    assert!(
        cluster
            .run(&["library", "ls"])
            .good()
            .contains("demo/etl  workflow")
    );
    cluster.run(&["library", "rm", "demo/etl"]).good();
    assert_eq!(cluster.run(&["trigger", "demo/etl"]).code, Some(1));
    let open = "workflow: open\nparams: { day: null }\ntrigger: { schedule: every hour }\n\
                tasks: { a: { run: 'echo {{ params.day }}' } }\n";
    write(&cluster, "open.yaml", open);
    let bad = cluster.run(&["library", "put", "open.yaml"]);
    assert_eq!(bad.code, Some(2), "{bad:?}");
    assert!(bad.err.contains("params.day"), "{bad:?}");
}

#[test]
fn a_workflow_is_triggered_with_parameters_and_waited_for() {
    let cluster = Cluster::with_worker();
    put(&cluster, "etl.yaml", ETL);
    let ended = cluster.run(&["trigger", "demo/etl", "-p", "day=monday", "--wait"]);
    assert_eq!(ended.good(), "r1\n");
    let log = cluster.run(&["logs", "r1", "--task", "load"]).good();
    assert_eq!(log, "monday 1 due never\n");
    let shown = cluster.run(&["show", "r1"]).good();
    assert!(shown.contains("revision 1 of demo/etl"), "{shown}");
    let bad = cluster.run(&["trigger", "demo/etl", "-p", "n=10"]);
    assert_eq!(bad.code, Some(2), "{bad:?}");
    assert!(bad.err.contains("params.n"), "{bad:?}");
    let key = ["trigger", "demo/etl", "--idempotency-key", "k", "--json"];
    let (once, twice) = (cluster.run(&key).json(), cluster.run(&key).json());
    assert_eq!(
        (&once["id"], &once["repeated"]),
        (&json!("r2"), &json!(false))
    );
    assert_eq!(
        (&twice["id"], &twice["repeated"]),
        (&json!("r2"), &json!(true))
    );
    let fails = "workflow: fails\ntasks: { a: { run: exit 7 } }\n";
    put(&cluster, "fails.yaml", fails);
    let failed = cluster.run(&["trigger", "fails", "--wait"]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
}

#[test]
fn a_scheduled_workflow_runs_by_itself_across_a_killed_scheduler() {
    let mut cluster = Cluster::with_worker();
    put(&cluster, "etl.yaml", ETL);
    put(
        &cluster,
        "report.yaml",
        "task: report\nowner: demo\nrun: echo \"after $BATON_AFTER\"\ntrigger: { after: etl }\n",
    );
    // Not before: the first run might end before there is anything to follow it.
    let text = format!("{ETL}trigger: {{ schedule: every second, catch_up: all }}\n");
    put(&cluster, "etl.yaml", &text);
    until("two due times have launched a run", || {
        ticks(&cluster, "demo/etl").len() >= 2
    });
    cluster.kill_scheduler();
    cluster.start_scheduler();
    let before = ticks(&cluster, "demo/etl").len();
    until("the next leader continues the schedule", || {
        ticks(&cluster, "demo/etl").len() > before
    });
    cluster.run(&["library", "rm", "demo/etl"]).good();
    let all = ticks(&cluster, "demo/etl");
    let mut times: Vec<u64> = all
        .iter()
        .filter_map(|it| it["nominalAt"].as_u64())
        .collect();
    times.sort_unstable();
    let twice = times.windows(2).find(|it| it[0] == it[1]);
    assert_eq!(twice, None, "{times:?}");
    let launched = all.iter().filter(|it| it["verdict"] != "skipped");
    let mut runs: Vec<&str> = launched.filter_map(|it| it["run"].as_str()).collect();
    let records = runs.len();
    runs.sort_unstable();
    runs.dedup();
    assert_eq!(runs.len(), records, "each has its own run");
    let first = all.last().expect("a record");
    assert_eq!(
        (&first["run"], &first["instance"]),
        (&json!("r1"), &Value::Null)
    );
    until_done(&cluster, "r1");
    let shown = cluster.run(&["show", "r1", "--json"]).json();
    assert_eq!(shown["run"]["nominalAt"], first["nominalAt"]);
    let log = cluster.run(&["logs", "r1", "--task", "load"]).good();
    assert!(log.starts_with("today 1 due 20"), "{log}");
    until("the report follows the first run", || {
        ticks(&cluster, "demo/report")
            .iter()
            .any(|it| it["after"] == "r1")
    });
    let reports = ticks(&cluster, "demo/report");
    let report = reports.iter().find(|it| it["after"] == "r1");
    let id = report.and_then(|it| it["instance"].as_str());
    let id = id.expect("an instance");
    cluster.until_state(id, "DONE");
    assert_eq!(cluster.run(&["logs", id]).good(), "after r1\n");
}

#[test]
fn another_system_triggers_a_workflow_with_its_secret_only() {
    let cluster = Cluster::with_worker();
    // printf %s s3cret | sha256sum
    let hash = "1ec1c26b50d5d3c58d9583181af8076655fe00756bf7285940ba3670f99fcba0";
    let text = format!("{ETL}trigger: {{ remote: true, secret_sha256: {hash} }}\n");
    put(&cluster, "etl.yaml", &text);
    let refused = cluster.run(&["trigger", "demo/etl", "--remote"]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.err.contains("secret"), "{refused:?}");
    write(&cluster, "secret", "s3cret\n");
    let remote = [
        "trigger",
        "demo/etl",
        "--remote",
        "--secret-file",
        "secret",
        "--wait",
    ];
    assert_eq!(cluster.run(&remote).good(), "r1\n");
    let events = cluster.run(&["events", "--after", "0", "--no-follow", "--json"]);
    assert!(
        events
            .out
            .contains(r#""cause":{"request":{"source":"remote""#),
        "{events:?}"
    );
}

#[test]
fn a_file_of_the_library_directory_defines_a_workflow() {
    let library = tempfile::tempdir().expect("a directory");
    let define = |text: &str| {
        std::fs::write(library.path().join("etl.yaml"), text).expect("written");
    };
    define(ETL);
    let cluster = Cluster::new(&["--library", &library.path().to_string_lossy()]);
    let revision = || {
        let shown = cluster.run(&["library", "show", "demo/etl", "--json"]);
        (shown.code == Some(0)).then(|| shown.json()["revision"].clone())
    };
    until("it is read", || revision() == Some(json!(1)));
    define(&format!("{ETL}fail_fast: true\n"));
    until("it is read again", || revision() == Some(json!(2)));
    write(&cluster, "elsewhere.yaml", ETL);
    let refused = cluster.run(&["library", "put", "elsewhere.yaml"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    std::fs::remove_file(library.path().join("etl.yaml")).expect("removed");
    until("it is removed", || revision().is_none());
}

#[test]
fn parameters_refer_to_the_due_time_of_a_task_and_of_a_workflow() {
    let cluster = Cluster::with_worker();
    let params = "params: { day: \"{{ nominal_time + 1d in Asia/Tokyo as %F }}\" }\n\
                  trigger: { schedule: every second }\n";
    let run = "run: 'echo \"{{ params.day }} $BATON_PARAM_DAY $BATON_NOMINAL_TIME\"'";
    put(
        &cluster,
        "t.yaml",
        &format!("task: t\nowner: demo\n{params}{run}\n"),
    );
    let tasks = format!("tasks: {{ a: {{ {run} }} }}\n");
    put(
        &cluster,
        "w.yaml",
        &format!("workflow: w\nowner: demo\n{params}{tasks}"),
    );
    let log_of = |entry: &str, kind: &str| {
        until("it was launched", || !ticks(&cluster, entry).is_empty());
        let tick = ticks(&cluster, entry).pop().expect("a record");
        let id = tick[kind].as_str().expect("an id").to_owned();
        if kind == "run" {
            until_done(&cluster, &id);
        } else {
            cluster.until_state(&id, "DONE");
        }
        cluster.run(&["logs", &id]).good()
    };
    for (entry, kind) in [("demo/t", "instance"), ("demo/w", "run")] {
        let log = log_of(entry, kind);
        let words: Vec<&str> = log.split_whitespace().collect();
        let [day, variable, nominal] = *words else {
            panic!("{log}");
        };
        assert_eq!(day, variable, "{log}");
        assert!(day.len() == 10 && day > &nominal[..10], "{log}");
    }
    let shown = cluster.run(&["show", "r1", "--json"]).json();
    assert!(shown["run"]["params"]["day"].as_str().is_some(), "{shown}");
    // Without a schedule it is the current time.
    for args in [&["submit", "t.yaml", "--wait"][..], &["run", "w.yaml"]] {
        cluster.run(args).good();
    }
}

#[test]
fn launches_beyond_the_limit_wait_for_their_turn_or_replace_the_oldest() {
    let cluster = Cluster::with_worker();
    let slow = |overlap: &str| {
        format!(
            "workflow: slow\nowner: demo\ntrigger: {{ max_instances: 1, overlap: {overlap} }}\n\
             tasks: {{ a: {{ run: \"until [ -e '{}' ]; do sleep 0.05; done\" }} }}\n",
            cluster.path("go").display()
        )
    };
    put(&cluster, "slow.yaml", &slow("queue"));
    for run in ["r1", "r2"] {
        let launched = cluster.run(&["trigger", "demo/slow"]).good();
        assert_eq!(launched, format!("{run}\n"));
    }
    until("the first runs", || run_state(&cluster, "r1") == "RUNNING");
    assert_eq!(run_state(&cluster, "r2"), "QUEUED");
    let explanation = cluster.run(&["explain", "r2"]).good();
    assert!(
        explanation.contains("max_instances of demo/slow is reached"),
        "{explanation}"
    );
    put(&cluster, "slow.yaml", &slow("replace"));
    assert_eq!(cluster.run(&["trigger", "demo/slow"]).good(), "r3\n");
    until("the others are stopped", || {
        ["r1", "r2"].map(|run| run_state(&cluster, run)) == ["HALTED", "HALTED"]
    });
    let explanation = cluster.run(&["explain", "r1"]).good();
    assert!(explanation.contains("took its place"), "{explanation}");
    until("the last runs", || run_state(&cluster, "r3") == "RUNNING");
    write(&cluster, "go", "");
    until_done(&cluster, "r3");
}
