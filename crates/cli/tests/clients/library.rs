//! `baton library`, `trigger` and `ticks`, against a real scheduler with a real worker.

use baton_testing::cluster::Cluster;
use baton_testing::until;
use serde_json::{Value, json};

const HELLO: &str = "task: hello\nowner: demo\nparams: { who: world, n: { type: int, default: 1, max: 9 } }\n\
                     run: echo \"hello, {{ params.who }} {{ params.n }}\"\n";

fn write(cluster: &Cluster, name: &str, text: &str) {
    std::fs::write(cluster.path(name), text).expect("written");
}

#[test]
fn a_task_is_put_looked_at_compared_and_removed() {
    let cluster = Cluster::with_worker();
    write(&cluster, "hello.yaml", HELLO);
    let dry = cluster.run(&["library", "put", "hello.yaml", "--dry-run"]);
    assert_eq!(dry.good(), "demo/hello: would be created, revision 1\n");
    let none = cluster.run(&["library", "ls"]);
    assert!(none.err.contains("the library is empty"), "{none:?}");
    let diff = cluster.run(&["library", "diff", "hello.yaml"]);
    assert_eq!(diff.code, Some(1), "everything is new: {diff:?}");
    let put = cluster.run(&["library", "put", "hello.yaml"]);
    assert_eq!(put.good(), "demo/hello: created, revision 1\n");
    assert_eq!(cluster.run(&["library", "diff", "hello.yaml"]).good(), "");
    write(&cluster, "hello.yaml", &format!("{HELLO}timeout: 1h\n"));
    let diff = cluster.run(&["library", "diff", "hello.yaml"]);
    assert_eq!(diff.code, Some(1));
    let changed: Vec<&str> = diff.out.lines().filter(|it| it.starts_with('+')).collect();
    assert!(
        changed.iter().any(|it| it.contains("\"timeout\": \"1h\"")),
        "{diff:?}"
    );
    let put = cluster.run(&["library", "put", "hello.yaml", "--json"]);
    assert_eq!((&put.json()["change"],), (&json!("replaced"),));
    let stale = cluster.run(&["library", "put", "hello.yaml", "--if-revision", "1"]);
    assert_eq!(stale.code, Some(3), "{stale:?}");
    assert!(stale.err.contains("revision 2"), "{stale:?}");
    let old = cluster.run(&["library", "show", "demo/hello", "--revision", "1", "--json"]);
    assert_eq!(old.json()["definition"].get("timeout"), None);
    let shown = cluster.run(&["library", "show", "demo/hello"]).good();
    assert!(
        shown.contains("manually") && shown.contains("\ntimeout: \"1h\"\n"),
        "{shown}"
    );
    assert!(
        cluster
            .run(&["library", "ls"])
            .good()
            .contains("demo/hello")
    );
    let interval = ["--from", "2026-01-01", "--to", "2026-01-02"];
    for args in [
        &["trigger", "hello"][..],
        &["library", "show", "hello"],
        &["library", "show", "hello", "--revision", "1"],
        &["library", "rm", "demo/helo"],
        &["library", "pause", "hello"],
        &["library", "unpause", "hello"],
        &["ticks", "hello"],
        &[&["backfill", "hello"], &interval[..]].concat(),
        &["backfill", "list", "hello"],
        &["ui", "hello", "--print"],
    ] {
        let missing = cluster.run(args);
        assert_eq!(missing.code, Some(1), "{args:?}: {missing:?}");
        let suggestion = "did you mean demo/hello?";
        assert!(missing.err.contains(suggestion), "{args:?}: {missing:?}");
    }
    cluster.run(&["library", "rm", "demo/hello"]).good();
    for args in [
        &["library", "rm", "demo/hello"][..],
        &["library", "show", "demo/hello"],
        &["trigger", "demo/hello"],
    ] {
        let missing = cluster.run(args);
        assert_eq!(missing.code, Some(1), "{args:?}: {missing:?}");
    }
    write(
        &cluster,
        "bad.yaml",
        "task: bad\nrun: x\ntrigger: { schedule: never ever }\n",
    );
    let bad = cluster.run(&["library", "put", "bad.yaml"]);
    assert_eq!(bad.code, Some(2), "{bad:?}");
    assert!(
        bad.err.contains("bad.yaml:3") && bad.err.contains("trigger.schedule"),
        "{bad:?}"
    );
}

#[test]
fn a_task_is_triggered_with_parameters_and_waited_for() {
    let cluster = Cluster::with_worker();
    write(&cluster, "hello.yaml", HELLO);
    cluster.run(&["library", "put", "hello.yaml"]).good();
    let ended = cluster.run(&[
        "trigger",
        "demo/hello",
        "-p",
        "who=you",
        "-p",
        "n=03",
        "--wait",
    ]);
    assert_eq!(ended.good(), "i1\n");
    assert_eq!(cluster.run(&["logs", "i1"]).good(), "hello, you 3\n");
    for (value, told) in [
        ("n=10", "params.n"),
        ("n=x", "params.n"),
        ("m=1", "params.m"),
    ] {
        let bad = cluster.run(&["trigger", "demo/hello", "-p", value]);
        assert_eq!(bad.code, Some(2), "{bad:?}");
        assert!(bad.err.contains(told), "{bad:?}");
    }
    let key = ["trigger", "demo/hello", "--idempotency-key", "k", "--json"];
    let (once, twice) = (cluster.run(&key).json(), cluster.run(&key).json());
    assert_eq!(once["id"], twice["id"]);
    let remote = cluster.run(&["trigger", "demo/hello", "--remote"]);
    assert_eq!(remote.code, Some(3), "it is not remote: {remote:?}");
    assert!(remote.err.contains("remote: true"), "{remote:?}");
    write(&cluster, "fails.yaml", "task: fails\nrun: exit 7\n");
    cluster.run(&["library", "put", "fails.yaml"]).good();
    assert_eq!(cluster.run(&["trigger", "fails", "--wait"]).code, Some(7));
}

#[test]
fn a_scheduled_task_runs_by_itself_and_knows_when_it_was_due() {
    let cluster = Cluster::with_worker();
    let text = "task: tick\nowner: demo\nrun: echo \"due $BATON_NOMINAL_TIME\"\n\
                trigger: { schedule: every second }\n";
    write(&cluster, "tick.yaml", text);
    cluster.run(&["library", "put", "tick.yaml"]).good();
    let ticks = || cluster.run(&["ticks", "demo/tick", "--json"]).json();
    until("two due times have launched something", || {
        ticks().as_array().is_some_and(|all| all.len() >= 2)
    });
    cluster.run(&["library", "rm", "demo/tick"]).good();
    let all = ticks();
    let all = all.as_array().expect("a list");
    let times: Vec<u64> = all
        .iter()
        .rev()
        .filter_map(|it| it["nominalAt"].as_u64())
        .collect();
    assert!(times.windows(2).all(|it| it[0] < it[1]), "{times:?}");
    let launched = all.iter().find(|it| it["instance"] != Value::Null);
    let launched = launched.expect("one was launched");
    let id = launched["instance"].as_str().expect("an id");
    cluster.until_state(id, "DONE");
    let log = cluster.run(&["logs", id]).good();
    assert!(
        log.starts_with("due 20") && log.ends_with("+00:00\n"),
        "{log}"
    );
    let shown = cluster.run(&["show", id, "--json"]).json();
    assert_eq!(shown["instance"]["nominalAt"], launched["nominalAt"]);
    let shown = cluster.run(&["show", id]).good();
    let origin = "origin     by its schedule, revision 1 of demo/tick, due 20";
    assert!(shown.contains(origin), "{shown}");
    let table = cluster.run(&["ticks"]).good();
    assert!(
        table.contains("demo/tick") && table.contains("launched"),
        "{table}"
    );
}

#[test]
fn a_pause_survives_the_scheduler_and_a_revision_and_makes_up_for_nothing() {
    let mut cluster = Cluster::with_worker();
    let text = "task: tick\nowner: demo\nrun: [\"true\"]\ntrigger: { schedule: every second, catch_up: all }\n";
    write(&cluster, "tick.yaml", text);
    cluster.run(&["library", "put", "tick.yaml"]).good();
    let pause = ["library", "pause", "demo/tick", "--reason", "repairs"];
    let told = cluster.run(&pause).good();
    assert_eq!(told, "demo/tick: paused, due times are skipped\n");
    cluster.kill_scheduler();
    cluster.start_scheduler();
    write(&cluster, "tick.yaml", &format!("{text}timeout: 1h\n"));
    cluster.run(&["library", "put", "tick.yaml"]).good();
    let shown = cluster.run(&["library", "show", "demo/tick"]).good();
    assert!(
        shown.contains("paused") && shown.contains("repairs"),
        "{shown}"
    );
    let listed = cluster.run(&["library", "ls"]).good();
    assert!(listed.contains("paused: repairs"), "{listed}");
    let ticks = || cluster.run(&["ticks", "demo/tick", "--json"]).json();
    until("a due time of the new revision is skipped", || {
        ticks()[0]["revision"] == 2 && ticks()[0]["reason"] == "paused"
    });
    cluster.run(&["trigger", "demo/tick", "--wait"]).good();
    let unpaused = cluster.run(&["library", "unpause", "demo/tick", "--json"]);
    assert_eq!(unpaused.json().get("pausedAt"), None);
    until("a due time is launched", || {
        ticks()[0]["verdict"] == "launched"
    });
    let all = ticks();
    let all = all.as_array().expect("a list");
    let paused: Vec<bool> = all.iter().map(|it| it["reason"] == "paused").collect();
    let first = paused.iter().position(|paused| *paused).expect("one");
    let last = paused.iter().rposition(|paused| *paused).expect("one");
    assert!(paused[first..=last].iter().all(|paused| *paused), "{all:?}");
    let missing = cluster.run(&["library", "pause", "demo/nothing"]);
    assert_eq!(missing.code, Some(1), "{missing:?}");
}

#[test]
fn several_entries_are_paused_by_a_filter_and_unpaused_by_their_reason() {
    let cluster = Cluster::new(&[]);
    for name in ["load-a", "load-b", "report"] {
        let text = format!("task: {name}\nowner: demo\nrun: [\"true\"]\n");
        write(&cluster, "task.yaml", &text);
        cluster.run(&["library", "put", "task.yaml"]).good();
    }
    let pause = |args: &[&str]| cluster.run(&[&["library", "pause"], args].concat());
    let unpause = |args: &[&str]| cluster.run(&[&["library", "unpause"], args].concat());
    pause(&["demo/load-a", "--reason", "broken"]).good();
    let paused = pause(&[
        "--owner",
        "demo",
        "--matching",
        "load-*",
        "--reason",
        "move",
    ]);
    let expected = "demo/load-b: paused, due times are skipped\n";
    assert_eq!(paused.good(), expected, "the other one stays as it is");
    let rest = pause(&["--all", "--reason", "move", "--json"]).json();
    assert_eq!(rest.as_array().map(Vec::len), Some(1), "{rest}");
    let again = unpause(&["--all", "--reason", "move"]).good();
    assert_eq!(again.lines().count(), 2, "{again}");
    let left = cluster.run(&["library", "ls"]).good();
    assert_eq!(left.matches("paused: ").count(), 1, "{left}");
    unpause(&["demo/load-a", "demo/load-b"]).good();
    assert_eq!(pause(&["--owner", "nobody"]).code, Some(1));
    assert_eq!(pause(&[]).code, Some(2), "nothing is chosen by silence");
}
