//! The commands of a scheduler's clients, against a real scheduler with a real worker.

use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use baton_testing::cluster::Cluster;
use baton_testing::command::{Ended, baton, silent_port};
use baton_testing::until;
use serde_json::{Value, json};

#[test]
fn an_unreachable_scheduler_is_reported_with_a_hint() {
    let dir = tempfile::tempdir().expect("a directory");
    let (_reserved, port) = silent_port();
    let url = format!("http://127.0.0.1:{port}");
    for args in [&["bullpen"][..], &["show", "i1"], &["submit", "--", "true"]] {
        let ended: Ended = baton(dir.path(), args)
            .env("BATON_URL", &url)
            .output()
            .expect("it ends")
            .into();
        assert_eq!(ended.code, Some(3), "{ended:?}");
        assert!(
            ended.err.starts_with(&format!(
                "baton: cannot reach the scheduler at {url}: Connection refused"
            )) && ended.err.contains("`baton up`"),
            "{ended:?}"
        );
        assert_eq!(ended.out, "");
    }
}

#[test]
fn bad_input_is_reported_before_a_request_is_sent() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("bad.yaml"), "task: t\nrum: x\n").expect("writable");
    for (args, told) in [
        (&["submit", "bad.yaml"][..], "bad.yaml:2:1: rum"),
        (&["submit"], "name a file, or a command after `--`"),
        (&["submit", "bad.yaml", "--", "x"], "not both"),
        (&["submit", "--timeout", "5", "--", "x"], "`5` has no unit"),
        (
            &["submit", "--array", "3-1", "--", "x"],
            "the last index is less than the first",
        ),
        (&["show", "x12"], "expected an instance such as i12"),
        (&["cancel", "i9..i1"], "write i1..i9"),
        (
            &["--url", "ftp://x", "bullpen"],
            "is not the URL of a scheduler",
        ),
        (&["run", "bad.yaml"], "bad.yaml:2:1: rum"),
    ] {
        let ended: Ended = baton(dir.path(), args).output().expect("it ends").into();
        assert_eq!(ended.code, Some(2), "{args:?}: {ended:?}");
        assert!(ended.err.contains(told), "{args:?}: {ended:?}");
    }
}

#[test]
fn a_command_is_submitted_waited_for_and_looked_at() {
    let cluster = Cluster::with_worker();
    let submitted = cluster.run(&["submit", "--wait", "--", "/bin/echo", "hello"]);
    assert_eq!(submitted.good(), "i1\n");
    assert_eq!(cluster.run(&["logs", "i1"]).good(), "hello\n");
    assert_eq!(cluster.run(&["logs", "i1", "-f"]).good(), "hello\n");
    let history = cluster.run(&["history", "--json"]).json();
    assert_eq!(history[0]["id"], "i1");
    assert_eq!(history[0]["state"], "DONE");
    assert_eq!(history[0]["name"], "echo");
    let shown = cluster.run(&["show", "i1"]).good();
    assert!(
        shown.contains("DONE") && shown.contains("+0.000s"),
        "{shown}"
    );
    assert_eq!(cluster.run(&["arena", "--json"]).json(), json!([]));
    let empty = cluster.run(&["bullpen"]);
    assert_eq!(empty.err, "baton: the bullpen is empty\n");
    let missing = cluster.run(&["show", "i99"]);
    assert_eq!(missing.code, Some(1), "{missing:?}");
}

#[test]
fn what_prints_nothing_leaves_nothing_and_its_log_is_empty() {
    let cluster = Cluster::with_worker();
    let quiet = ["submit", "--array", "1-40", "--wait", "--", "/bin/true"];
    cluster.run(&quiet).good();
    cluster
        .run(&["submit", "--wait", "--", "/bin/echo", "loud"])
        .good();
    cluster.run(&quiet).good();
    assert_eq!(cluster.run(&["logs", "i41"]).good(), "loud\n");
    for (id, stream) in [("i1", "--stderr"), ("i40", "-f"), ("i81", "-f")] {
        assert_eq!(cluster.run(&["logs", id, stream]).good(), "", "{id}");
    }
    // Four at once, and each has reused the empty files of another.
    let logs = std::fs::read_dir(cluster.path("w1/logs")).expect("there");
    let work = std::fs::read_dir(cluster.path("w1/work")).expect("there");
    let (logs, work) = (logs.count(), work.count());
    assert!(logs < 20 && work < 10, "{logs} files, {work} directories");
}

#[test]
fn who_waits_ends_with_the_exit_code_of_the_command() {
    let cluster = Cluster::with_worker();
    let ended = cluster.run(&["submit", "--wait", "--", "echo oops >&2; exit 7"]);
    assert_eq!(ended.code, Some(7), "{ended:?}");
    assert!(ended.err.contains("i1 FAILED: exit 7"), "{ended:?}");
    let errors = cluster.run(&["logs", "i1", "--stderr"]).good();
    assert_eq!(errors, "oops\n");
    let failed = cluster.run(&["history", "--state", "failed", "--json"]);
    assert_eq!(failed.json()[0]["id"], "i1");
    let done = cluster.run(&["history", "--state", "done"]);
    assert_eq!(done.err, "baton: no instance in the history matches\n");
}

#[test]
fn an_array_is_one_submission_and_one_summary() {
    let cluster = Cluster::with_worker();
    let args = [
        "submit",
        "--array",
        "5-24",
        "--cpu",
        "0.1",
        "--wait",
        "--json",
        "--",
        "echo $BATON_ARRAY_INDEX",
    ];
    let out = cluster.run(&args).good();
    let lines: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines[0]["first"], "i1");
    assert_eq!(lines[0]["last"], "i20");
    assert_eq!(lines[1]["counts"], json!({ "DONE": 20 }));
    assert_eq!(cluster.run(&["logs", "i3"]).good(), "7\n");
    let shown = cluster.run(&["show", "i1..i20"]).good();
    assert_eq!(shown, "i1..i20 (20 instances)\n  DONE  20\n");
}

#[test]
fn what_runs_is_cancelled_and_who_waits_for_it_hears() {
    let cluster = Cluster::with_worker();
    let waiting = cluster.begin(&["submit", "--wait", "--", "/bin/sleep", "600"]);
    until("it is accepted", || {
        cluster.run(&["show", "i1"]).code == Some(0)
    });
    cluster.until_state("i1", "RUNNING");
    assert_eq!(cluster.run(&["cancel", "i1"]).good(), "i1: stopping\n");
    let ended: Ended = waiting.wait_with_output().expect("it ends").into();
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert_eq!(cluster.state("i1"), "HALTED");
    let again = cluster.run(&["cancel", "i1"]).good();
    assert_eq!(again, "i1: nothing to cancel, already ended\n");
}

#[test]
fn what_cannot_run_is_explained_and_cancelled_at_once() {
    let cluster = Cluster::with_worker();
    let submitted = cluster.run(&["submit", "--cpu", "1000", "--", "/bin/true"]);
    assert_eq!(submitted.good(), "i1\n");
    let explanation = cluster.run(&["explain", "i1", "--json"]).json();
    assert_eq!(explanation["reason"], "never-fits", "{explanation}");
    let told = cluster.run(&["explain", "i1"]).good();
    assert_eq!(
        told,
        "i1 QUEUED: no worker takes it; it requests 1000 cores, and w1 has 4 cores: start a larger \
         worker, or resubmit with smaller requests\n"
    );
    let label = ["submit", "--label", "zone=us", "--", "/bin/true"];
    assert_eq!(cluster.run(&label).good(), "i2\n");
    let explanation = cluster.run(&["explain", "i2", "--json"]).json();
    assert_eq!(explanation["reason"], "no-match", "{explanation}");
    let bullpen = cluster.run(&["bullpen", "--json"]).json();
    assert_eq!(bullpen.as_array().map(Vec::len), Some(2));
    let cancelled = cluster.run(&["cancel", "i1..i2", "--json"]).json();
    assert_eq!(cancelled, json!({ "halted": 2, "stopping": 0 }));
}

#[test]
fn a_failed_instance_is_retried_by_command() {
    let cluster = Cluster::with_worker();
    let flag = cluster.path("flag");
    let test = ["/usr/bin/test", "-e", flag.to_str().expect("a plain path")];
    let args = [&["submit", "--wait", "--"][..], &test].concat();
    assert_eq!(cluster.run(&args).code, Some(1));
    std::fs::write(&flag, "").expect("writable");
    assert_eq!(cluster.run(&["retry", "i1"]).good(), "i1: queued again\n");
    cluster.until_state("i1", "DONE");
    let refused = cluster.run(&["retry", "i1"]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
}

#[test]
fn a_drained_worker_gets_nothing_until_that_is_undone() {
    let cluster = Cluster::with_worker();
    let drained = cluster.run(&["drain", "w1"]).good();
    assert_eq!(drained, "w1: drained, nothing more is placed on it\n");
    assert_eq!(
        cluster.run(&["workers", "--json"]).json()[0]["drained"],
        true
    );
    let table = cluster.run(&["workers"]).good();
    assert!(table.contains("HEALTHY (drained)"), "{table}");
    cluster.run(&["submit", "--", "/bin/true"]).good();
    assert_eq!(cluster.state("i1"), "QUEUED");
    cluster.run(&["drain", "w1", "--undo"]).good();
    cluster.until_state("i1", "DONE");
    let unknown = cluster.run(&["drain", "w9"]);
    assert_eq!(unknown.code, Some(1), "{unknown:?}");

    let go = cluster.path("go");
    let hold = format!("until [ -e '{}' ]; do sleep 0.01; done", go.display());
    cluster.run(&["submit", "--", &hold]).good();
    cluster.until_state("i2", "RUNNING");
    let late = cluster.run(&["drain", "w1", "--wait", "--timeout", "1ms"]);
    assert_eq!(late.code, Some(124), "{late:?}");
    assert!(
        late.err
            .contains("w1: 1 attempt after 1ms, such as i2 (until)"),
        "{late:?}"
    );
    let waiting = cluster
        .command(&["drain", "w1", "--wait"])
        .spawn()
        .expect("it starts");
    std::fs::write(&go, "").expect("written");
    let idle: Ended = waiting.wait_with_output().expect("it ends").into();
    assert!(idle.err.contains("nothing runs on it"), "{idle:?}");
    assert_eq!(cluster.state("i2"), "DONE");
    assert_eq!(idle.code, Some(0), "{idle:?}");
}

#[test]
fn a_worker_is_not_forgotten_without_a_confirmation() {
    let cluster = Cluster::with_worker();
    let refused = cluster.run(&["forget", "w1"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("-y"), "{refused:?}");
    assert_eq!(cluster.run(&["workers", "--json"]).json()[0]["name"], "w1");
}

#[test]
fn a_log_is_followed_from_before_the_start_to_the_end() {
    let cluster = Cluster::with_worker();
    let flag = cluster.path("flag");
    cluster.run(&["drain", "w1"]).good();
    let wait = format!(
        "echo one; until test -e {}; do sleep 0.05; done; echo two",
        flag.display()
    );
    cluster.run(&["submit", "--", &wait]).good();
    let mut following = cluster.begin(&["logs", "i1", "-f"]);
    let mut told = String::new();
    let told_at = following.stderr.as_mut().expect("it is piped");
    BufReader::new(told_at)
        .read_line(&mut told)
        .expect("readable");
    assert!(told.contains("waiting for it to start"), "{told}");
    cluster.run(&["drain", "w1", "--undo"]).good();
    until("it has printed", || {
        cluster.run(&["logs", "i1"]).out == "one\n"
    });
    std::fs::write(&flag, "").expect("writable");
    let ended: Ended = following.wait_with_output().expect("it ends").into();
    assert_eq!(ended.good(), "one\ntwo\n");
}

#[test]
fn a_process_that_is_started_again_is_followed_from_the_beginning_of_its_next_run() {
    let cluster = Cluster::with_worker();
    let go = cluster.path("go");
    let script = format!(
        "if [ -e once ]; then echo short; else touch once; echo the first run says more; \
         while [ ! -e {} ]; do sleep 0.02; done; exit 1; fi",
        go.display()
    );
    let task = json!({
        "task": "again",
        "processes": [{ "name": "p", "run": script, "max_failures": 3, "min_duration": "1ms" }],
    });
    std::fs::write(cluster.path("again.json"), task.to_string()).expect("writable");
    cluster.run(&["submit", "again.json"]).good();
    let mut following = cluster.begin(&["logs", "i1", "-f"]);
    let mut lines = BufReader::new(following.stdout.take().expect("piped")).lines();
    let mut next = || lines.next().map(|line| line.expect("text"));
    assert_eq!(next().as_deref(), Some("the first run says more"));
    std::fs::write(&go, "").expect("writable");
    assert_eq!(next().as_deref(), Some("short"));
    assert_eq!(next(), None);
    assert!(following.wait().expect("it ends").success());
    cluster.until_state("i1", "DONE");
    // The last run by default; a named one is followed to its own end.
    assert_eq!(cluster.run(&["logs", "i1"]).good(), "short\n");
    let first = cluster.run(&["logs", "i1", "--run", "0", "-f"]).good();
    assert_eq!(first, "the first run says more\n");
    let none = cluster.run(&["logs", "i1", "--run", "7"]);
    assert_eq!(none.code, Some(1), "{none:?}");
}

/// Each step of the process rotates its log once or twice while it is followed.
#[test]
fn a_log_is_followed_across_rotations_and_shown_from_its_oldest_file_on() {
    const STEPS: usize = 4;
    let cluster = Cluster::with_worker();
    let gates = cluster.path("gates");
    std::fs::create_dir(&gates).expect("made");
    let script = format!(
        "for step in 1 2 3 {STEPS}; do for line in a b c; do printf '%s%s%0400d\\n' $step $line 0; done; \
         until test -e {}/$step; do sleep 0.02; done; done",
        gates.display()
    );
    let log = json!({ "mode": "rotate", "size": "1KiB", "backups": 9 });
    let task = json!({
        "task": "rotating",
        "processes": [{ "name": "p", "run": script, "log": log }],
    });
    std::fs::write(cluster.path("rotating.json"), task.to_string()).expect("writable");
    cluster.run(&["submit", "rotating.json"]).good();
    let mut following = cluster.begin(&["logs", "i1", "-f"]);
    let mut lines = BufReader::new(following.stdout.take().expect("piped")).lines();
    cluster.until_state("i1", "RUNNING");
    let address = cluster.url().trim_start_matches("http://").to_owned();
    let mut streaming = TcpStream::connect(&address).expect("it listens");
    let request = "GET /instances/i1/logs/stdout?follow=true HTTP/1.0\r\n";
    write!(streaming, "{request}Host: {address}\r\n\r\n").expect("sent");
    let mut whole = String::new();
    for step in 1..=STEPS {
        for line in ["a", "b", "c"] {
            let expected = format!("{step}{line}{}", "0".repeat(400));
            let next = lines.next().expect("there is more").expect("text");
            assert_eq!(next, expected);
            whole += &(expected + "\n");
        }
        std::fs::write(gates.join(step.to_string()), "").expect("writable");
    }
    assert!(lines.next().is_none());
    assert!(following.wait().expect("it ends").success());
    let mut streamed = String::new();
    streaming.read_to_string(&mut streamed).expect("text");
    let (_, streamed) = streamed.split_once("\r\n\r\n").expect("a body");
    assert_eq!(streamed, whole);
    cluster.until_state("i1", "DONE");
    assert_eq!(cluster.run(&["logs", "i1"]).good(), whole);
    assert_eq!(cluster.run(&["logs", "i1", "-f"]).good(), whole);
}

#[test]
fn a_limit_is_set_at_run_time_survives_a_restart_and_overrides_the_flag() {
    let mut cluster = Cluster::new(&["--limit", "licences=5"]);
    cluster.start_worker("w", &[]);
    cluster.healthy("w");
    let file = "task: t\nrun: 'true'\nresources: { db/orders: 2 }\n";
    std::fs::write(cluster.path("t.yaml"), file).expect("writable");
    let file = cluster.path("t.yaml").display().to_string();
    cluster.run(&["submit", &file]).good();
    let explained = || cluster.run(&["explain", "i1"]).good();
    until("it waits", || {
        explained().contains("baton limits set db/orders")
    });
    assert!(
        explained().contains("--limit db/orders=N"),
        "{}",
        explained()
    );
    assert_eq!(
        cluster.run(&["limits", "set", "db/orders", "1"]).good(),
        "db/orders: 1\n"
    );
    until("it waits", || explained().contains("whose total is 1"));
    let limits = || cluster.run(&["limits", "--json"]).json();
    let listed = limits();
    assert_eq!(listed[0]["name"], "db/orders");
    assert_eq!(
        (&listed[0]["waiting"], &listed[0]["used"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(listed[1]["origin"], "flag", "{listed}");
    cluster.run(&["limits", "set", "licences", "7"]).good();
    let table = cluster.run(&["limits"]).good();
    assert!(table.contains("run time, --limit is 5"), "{table}");
    cluster.kill_scheduler();
    cluster.start_scheduler();
    let limits = || cluster.run(&["limits", "--json"]).json();
    let capacities = |limits: Value| -> Vec<Value> {
        let limits = limits.as_array().expect("a list").iter();
        limits.map(|it| it["capacity"].clone()).collect()
    };
    assert_eq!(capacities(limits()), [json!(1), json!(7)]);
    cluster.run(&["limits", "set", "db/orders", "2"]).good();
    cluster.until_state("i1", "DONE");
    let removed = cluster.run(&["limits", "rm", "licences"]).good();
    assert_eq!(removed, "licences: 5 again, by --limit\n");
    for (args, code) in [
        (&["limits", "rm", "licences"][..], 3),
        (&["limits", "rm", "nothing"], 1),
        (&["limits", "set", "cpu", "1"], 2),
        (&["limits", "set", "a b", "1"], 2),
    ] {
        let refused = cluster.run(args);
        assert_eq!(refused.code, Some(code), "{args:?} {refused:?}");
    }
    assert_eq!(capacities(limits()), [json!(2), json!(5)]);
}

#[test]
fn collected_logs_outlive_their_worker_and_others_name_the_option() {
    let collected = |options: &[&str]| {
        let mut cluster = Cluster::new(options);
        cluster.start_worker("w", &[]);
        cluster.healthy("w");
        let script = "echo out; echo err >&2";
        let submitted = cluster.run(&["submit", "--wait", "--", "sh", "-c", script]);
        assert_eq!(submitted.code, Some(0), "{submitted:?}");
        let file = "task: t
processes:
  - { name: one, run: echo first }
  - { name: two, run: echo second, after: [one] }
";
        std::fs::write(cluster.path("t.yaml"), file).expect("writable");
        let file = cluster.path("t.yaml").display().to_string();
        let submitted = cluster.run(&["submit", "--wait", &file]);
        assert_eq!(submitted.code, Some(0), "{submitted:?}");
        cluster
    };
    let mut cluster = collected(&["--collect-logs", "1MiB"]);
    let archive = cluster.path("data").join("logs");
    let files = || std::fs::read_dir(&archive).map_or(0, |dir| dir.count());
    // Four logs, and how far it has come.
    until("they are collected", || files() == 5);
    cluster.kill_worker("w");
    let logs = |args: &[&str]| cluster.run(&[&["logs"], args].concat()).good();
    assert_eq!(logs(&["i1", "--stderr"]), "err\n");
    assert_eq!(logs(&["i2", "--process", "two"]), "second\n");
    cluster.kill_scheduler();
    cluster.start_scheduler();
    let logs = |args: &[&str]| cluster.run(&[&["logs"], args].concat()).good();
    assert!(logs(&["i1"]).contains("out"));
    assert!(logs(&["i1", "-f"]).contains("out"));
    assert_eq!(files(), 5, "none twice");

    let mut cluster = collected(&[]);
    cluster.kill_worker("w");
    let refused = cluster.run(&["logs", "i1"]);
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(refused.err.contains("--collect-logs"), "{refused:?}");
}

#[test]
fn a_log_beyond_the_limit_of_its_worker_loses_its_middle() {
    let mut cluster = Cluster::new(&[]);
    cluster.start_worker("w", &["--log-limit", "64KiB"]);
    cluster.healthy("w");
    let submitted = cluster.run(&["submit", "--wait", "--", "seq", "1000000", "1200000"]);
    assert_eq!(submitted.code, Some(0), "{submitted:?}");
    let log = cluster.run(&["logs", "i1"]).good();
    assert!(log.len() <= 64 << 10, "{}", log.len());
    assert!(log.contains("[baton: output was removed here"), "{log}");
    assert!(log.contains("1000000\n") && log.contains("1200000\n"));
    assert!(!log.contains('\0'));
}
