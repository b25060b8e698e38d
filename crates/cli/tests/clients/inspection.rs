//! What the commands show of instances and runs.

use baton_testing::cluster::Cluster;
use baton_testing::command::{Ended, baton, run};
use baton_testing::processes::send;
use baton_testing::until;
use rustix::process::Signal;
use serde_json::json;

#[test]
fn an_instance_is_shown_with_its_work_its_origin_and_its_outputs() {
    let cluster = Cluster::with_worker();
    let file = "task: count\nparams: { day: monday }\nenv: { LANG: C }\ntimeout: 1m\n\
                retry: { attempts: 3 }\nresources: { memory: 1MiB..64MiB }\n\
                run: |\n  echo out; echo err >&2; echo rows=3 >> \"$BATON_OUTPUT\"\n";
    std::fs::write(cluster.path("count.yaml"), file).expect("written");
    let mut submit = cluster.command(&["submit", "count.yaml", "--wait"]);
    let submitted = submit.env("USER", "ann").output().expect("it ends");
    Ended::from(submitted).good();
    let shown = cluster.run(&["show", "i1"]).good();
    for row in [
        "command    echo out; echo err >&2",
        "param      day=monday",
        "env        LANG=C",
        "resources  cpu 1, memory 1MiB..64MiB",
        "timeout    1m00s",
        "retry      at most 3 attempts",
        "origin     submitted by ann (not authenticated)",
        "sandbox    STATE/work/i1.1.",
        " on w1, for its --keep (default 24h)",
        "stdout     4B, STATE/logs/i1.1.",
        "stderr     4B, STATE/logs/i1.1.",
        "outputs    {\"rows\":3}",
    ] {
        assert!(shown.contains(row), "{row}: {shown}");
    }
    let instance = &cluster.run(&["show", "i1", "--json"]).json()["instance"];
    assert_eq!(instance["outputs"], json!({ "rows": 3 }));
    assert_eq!(instance["details"]["params"], json!({ "day": "monday" }));
    assert_eq!(instance["details"]["origin"]["kind"], "submission");
    let workflow = "workflow: w\ntasks:\n  a: { run: 'true' }\n";
    std::fs::write(cluster.path("w.yaml"), workflow).expect("written");
    let mut submit = cluster.command(&["submit", "w.yaml", "--wait"]);
    let submitted = submit.env("USER", "bob").output().expect("it ends");
    Ended::from(submitted).good();
    let shown = cluster.run(&["show", "r1"]).good();
    let expected = "submitted by bob (not authenticated), started";
    assert!(shown.contains(expected), "{shown}");

    // Each stream goes where the work has written it.
    let logs = cluster.run(&["logs", "i1"]);
    assert_eq!((&*logs.out, &*logs.err), ("out\n", "err\n"));
    let stderr = cluster.run(&["logs", "i1", "--stderr"]);
    assert_eq!((&*stderr.out, &*stderr.err), ("err\n", ""));
    let followed = cluster.run(&["logs", "i1", "-f"]);
    assert_eq!((&*followed.out, &*followed.err), ("out\n", "err\n"));
    cluster
        .run(&["submit", "--wait", "--", "echo loud >&2"])
        .good();
    let silent = cluster.run(&["logs", "i3", "--stdout"]);
    assert_eq!(silent.out, "");
    assert!(
        silent.err.contains("nothing on stdout; 5 bytes on stderr"),
        "{silent:?}"
    );
}

#[test]
fn what_waits_says_why_in_every_view() {
    let cluster = Cluster::with_worker();
    let reason = "requests 100 cores";
    cluster
        .run(&["submit", "--cpu", "100", "--", "true"])
        .good();
    let bullpen = cluster.run(&["bullpen"]).good();
    assert!(
        bullpen.contains("REASON") && bullpen.contains(reason),
        "{bullpen}"
    );
    let shown = cluster.run(&["show", "i1"]).good();
    assert!(
        shown.contains("reason") && shown.contains(reason),
        "{shown}"
    );

    let mut waiting = cluster
        .command(&["submit", "--wait", "--cpu", "100", "--", "true"])
        .spawn()
        .expect("it starts");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(
        waiting.stderr.take().expect("piped"),
    ));
    let told = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains(reason)));
    assert!(told.is_some());
    send(waiting.id(), Signal::INT);
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    assert!(rest.join(" ").contains("`baton wait i2`"), "{rest:?}");
    assert_eq!(waiting.wait().expect("it ends").code(), Some(130));
}

#[test]
fn a_run_that_does_not_start_says_why_into_a_pipe_and_how_to_go_on() {
    let cluster = Cluster::with_worker();
    let file = "workflow: big\ntasks:\n  load: { run: 'true', resources: { cpu: 100 } }\n";
    std::fs::write(cluster.path("big.yaml"), file).expect("written");
    for (args, run) in [
        (&["submit", "big.yaml", "--wait"][..], "r1"),
        (&["submit", "big.yaml", "--watch"], "r2"),
        (&["watch", "r1"], "r1"),
    ] {
        let mut waiting = cluster.begin(args);
        let stderr = waiting.stderr.take().expect("piped");
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(stderr));
        let reason = "load waits: no worker takes it; it requests 100 cores";
        let told = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains(reason)));
        assert!(told.is_some(), "{args:?}");
        send(waiting.id(), Signal::INT);
        let rest: Vec<String> = lines.map_while(Result::ok).collect();
        let again = format!("`baton wait {run}` waits for it again, `baton cancel {run}` cancels");
        assert!(rest.join(" ").contains(&again), "{args:?}: {rest:?}");
        assert_eq!(waiting.wait().expect("it ends").code(), Some(130));
    }
}

#[test]
fn what_a_worker_has_not_started_is_not_counted_as_running() {
    let cluster = Cluster::with_worker();
    let hold = ["submit", "--cpu", "0.1", "--", "sleep 1000"];
    cluster.run(&hold).good();
    cluster.until_state("i1", "RUNNING");
    let worker = cluster.worker_pid("w1");
    assert!(send(worker, Signal::STOP));
    cluster.run(&hold).good();
    cluster.until_state("i2", "LAUNCHED");
    let shown = cluster.run(&["status"]).good();
    assert!(
        shown.contains("running    1, and 1 waits on its worker"),
        "{shown}"
    );
    let json = cluster.run(&["status", "--json"]).json();
    assert_eq!(
        (&json["running"]["total"], &json["launched"]),
        (&1.into(), &1.into())
    );
    // Only what runs has a duration.
    let arena = cluster.run(&["arena", "--json"]).json();
    assert!(arena[0]["elapsedSeconds"].is_number(), "{arena}");
    assert_eq!(arena[1].get("elapsedSeconds"), None, "{arena}");
    assert!(send(worker, Signal::CONT));
    cluster.until_state("i2", "RUNNING");
    let silent = cluster.run(&["logs", "i2"]);
    assert!(
        silent.err.contains("it has printed nothing yet"),
        "{silent:?}"
    );
}

#[test]
fn what_has_not_succeeded_is_explained_with_the_next_commands() {
    let cluster = Cluster::with_worker();
    let fail = ["submit", "--wait", "--", "echo no such table >&2; exit 4"];
    let failed = cluster.run(&fail);
    assert_eq!(failed.code, Some(4));
    let more = "i1 FAILED: exit 4; more: baton logs i1; baton show i1";
    assert!(failed.err.contains(more), "{failed:?}");
    let explained = cluster.run(&["explain", "i1"]).good();
    for told in [
        "exit 4",
        "no such table",
        "next: baton logs i1",
        "baton retry i1",
    ] {
        assert!(explained.contains(told), "{told}: {explained}");
    }
    cluster
        .run(&["submit", "--cpu", "100", "--", "true"])
        .good();
    cluster.run(&["cancel", "i2"]).good();
    let explained = cluster.run(&["explain", "i2"]).good();
    for told in [
        "it was cancelled",
        "never started",
        "next: baton show i2",
        "baton retry i2",
    ] {
        assert!(explained.contains(told), "{told}: {explained}");
    }
    let workflow = "workflow: w\ntasks:\n  a: { run: 'exit 3' }\n";
    std::fs::write(cluster.path("w.yaml"), workflow).expect("written");
    cluster.run(&["submit", "w.yaml", "--wait"]);
    let explained = cluster.run(&["explain", "i3"]).good();
    assert!(explained.contains("baton explain r1"), "{explained}");
    assert!(!explained.contains("baton retry i3"), "{explained}");
}

#[test]
fn a_run_that_is_over_is_shown_with_its_parameters_and_tasks() {
    let cluster = Cluster::with_worker();
    let file = "workflow: etl\nparams: { day: monday }\ntasks:\n  extract: { run: \"test $BATON_ATTEMPT = 2\", \
                retry: { attempts: 2, backoff: 1ms } }\n  load: { after: extract, run: \"true\" }\n  never: { run: \"true\", when: \"false\" }\n";
    std::fs::write(cluster.path("etl.yaml"), file).expect("written");
    cluster.run(&["submit", "etl.yaml", "--wait"]).good();
    let shown = cluster.run(&["show", "r1"]).good();
    for part in ["started ", "day=monday", "extract", "load"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let runs = cluster.run(&["runs"]).good();
    assert!(
        runs.contains("2/3, 1 skipped") && runs.contains("day=monday"),
        "{runs}"
    );
    until("the item has its attempts", || {
        let items = cluster.run(&["show", "r1", "--items", "--json"]).json();
        items[0]["attempts"] == 2
    });
    let items = cluster.run(&["show", "r1", "--items"]).good();
    assert!(items.contains("ATTEMPT"), "{items}");
    let timeline = cluster.run(&["show", "r1", "--timeline"]).good();
    assert!(timeline.contains("extract (attempt 2)"), "{timeline}");
    assert!(!timeline.contains("load (attempt"), "{timeline}");
}

#[test]
fn a_token_goes_to_a_new_file_that_only_its_owner_can_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let create = |file: &str| {
        let args = [
            "token", "create", "--role", "viewer", "--data", "data", "-o", file,
        ];
        run(dir.path(), &args)
    };
    let created = create("t");
    assert!(created.err.contains("its secret is in t,"), "{created:?}");
    assert_eq!(created.good(), "");
    let path = dir.path().join("t");
    let secret = std::fs::read_to_string(&path).expect("written");
    assert!(secret.trim().len() > 20, "{secret}");
    let mode = std::fs::metadata(&path).expect("it exists").permissions();
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777,
        0o600
    );
    let again = create("t");
    assert_eq!(again.code, Some(2), "{again:?}");
    assert_eq!(std::fs::read_to_string(&path).expect("kept"), secret);
    // No empty file is left if no token was created.
    let args = [
        "token",
        "create",
        "--role",
        "viewer",
        "--url",
        "http://127.0.0.1:1",
        "-o",
        "u",
    ];
    assert_eq!(run(dir.path(), &args).code, Some(3));
    assert!(!dir.path().join("u").exists());
}

#[test]
fn times_are_in_the_zone_of_the_viewer() {
    let dir = tempfile::tempdir().expect("a directory");
    let args = ["token", "create", "--role", "viewer", "--data", "data"];
    run(dir.path(), &args).good();
    let list = |args: &[&str]| {
        let args = [&["token", "ls", "--data", "data"], args].concat();
        let mut command = baton(dir.path(), &args);
        let ended: Ended = command
            .env("TZ", "Asia/Kolkata")
            .output()
            .expect("it ends")
            .into();
        ended.good()
    };
    assert!(list(&[]).contains("+05:30"));
    assert!(!list(&["--utc"]).contains("+05:30"));
}
