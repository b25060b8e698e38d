//! Progress of tasks: seen while they run, and kept with their ends.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use baton_testing::cluster::Cluster;
use baton_testing::until;
use serde_json::Value;

const VALUE: &str = "tr0ub4dor&3-correct-horse";

fn instance(cluster: &Cluster, id: &str) -> Value {
    cluster.run(&["show", id, "--json"]).json()["instance"].clone()
}

/// Waits until an instance has reported this line.
fn until_told(cluster: &Cluster, id: &str, done: u64, total: u64, message: &str) {
    until("progress is shown", || {
        let progress = &instance(cluster, id)["progress"];
        progress["done"] == done && progress["total"] == total && progress["message"] == message
    });
}

const TASKS: &str = r#"
workflow: steps
owner: lab
tasks:
  counts:
    run: 'echo "1/4 first" > $BATON_PROGRESS; until test -e DIR/second; do sleep 0.02; done;
      printf "2/4\r75%% third\n" >> $BATON_PROGRESS; until test -e DIR/fail; do sleep 0.02; done;
      echo "80% last" >> $BATON_PROGRESS; exit 7'
"#;

#[test]
fn progress_is_seen_while_it_runs_and_kept_after_a_failure() {
    let mut cluster = Cluster::new(&[]);
    cluster.start_worker("w1", &["--resources", "cpu=8"]);
    cluster.healthy("w1");
    let dir = cluster.path("").display().to_string();
    let tasks = TASKS.replace("DIR", dir.trim_end_matches('/'));
    fs::write(cluster.path("steps.yaml"), tasks).expect("written");
    let run = cluster.run(&["submit", "steps.yaml"]).good();
    let run = run.trim();
    until_told(&cluster, "i1", 1, 4, "first");
    let shown = cluster.run(&["show", run]).good();
    assert!(shown.contains("1/4 first"), "{shown}");
    let task = cluster.run(&["show", run, "--json"]).json()["tasks"][0]["progress"].clone();
    assert_eq!(
        (&task["instance"], &task["done"]),
        (&"i1".into(), &1.into())
    );
    let facts = |cluster: &Cluster| {
        let shown = cluster.run(&["show", "i1", "--json"]).json();
        shown["timeline"].as_array().expect("a timeline").len()
    };
    let before = facts(&cluster);
    fs::write(cluster.path("second"), "").expect("written");
    until_told(&cluster, "i1", 75, 100, "third");
    assert_eq!(facts(&cluster), before, "an update is no event");
    cluster.kill_scheduler();
    cluster.start_scheduler();
    until_told(&cluster, "i1", 75, 100, "third");
    fs::write(cluster.path("fail"), "").expect("written");
    until("it has failed", || {
        instance(&cluster, "i1")["state"] == "FAILED"
    });
    until_told(&cluster, "i1", 80, 100, "last");
    let shown = cluster.run(&["show", "i1"]).good();
    assert!(
        shown.contains("progress  ") && shown.contains("ended: exit 7, at 80% last;"),
        "{shown}"
    );
}

#[test]
fn progress_shows_no_secret_and_a_bad_file_does_no_harm() {
    let mut cluster = Cluster::new(&[]);
    cluster.start_worker("w1", &["--resources", "cpu=8"]);
    cluster.healthy("w1");
    let mut command = cluster.command(&["secret", "set", "lab/db"]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("started");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(VALUE.as_bytes()).expect("written");
    drop(stdin);
    assert!(child.wait().expect("ended").success());
    let go = cluster.path("go").display().to_string();
    let until_go = format!("until test -e {go}; do sleep 0.02; done");
    let secret = format!(
        "'printf \"1/2 with %s\\n2/2 %s\" \"$KEY\" \"$KEY\" > $BATON_PROGRESS; {until_go}'"
    );
    let file = format!(
        "task: secretive\nowner: lab\nsecrets: [{{ name: db, env: KEY }}]\nrun: {secret}\n"
    );
    fs::write(cluster.path("secretive.yaml"), file).expect("written");
    cluster.run(&["submit", "secretive.yaml"]).good();
    for bad in ["mkfifo", "mkdir", "ln -s /etc/hostname", "truncate -s 1G"] {
        let script = format!("{bad} $BATON_PROGRESS; {until_go}");
        cluster.run(&["submit", "--", "sh", "-c", &script]).good();
    }
    let script = format!("echo 5/9 >> $BATON_PROGRESS; {until_go}");
    cluster.run(&["submit", "--", "sh", "-c", &script]).good();
    until_told(&cluster, "i1", 1, 2, "with ***");
    until("the last one is read, too", || {
        instance(&cluster, "i6")["progress"]["done"] == 5
    });
    for id in ["i2", "i3", "i4", "i5"] {
        assert_eq!(instance(&cluster, id)["progress"], Value::Null);
    }
    fs::write(&go, "").expect("written");
    for id in ["i1", "i2", "i3", "i4", "i5", "i6"] {
        cluster.run(&["wait", id]).good();
    }
    let shown = cluster.run(&["show", "i1", "--json"]).good();
    assert!(
        shown.contains("with ***") && !shown.contains(VALUE),
        "{shown}"
    );
}
