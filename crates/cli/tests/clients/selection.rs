//! Several ids, ranges, elements of arrays and filters on one command line; waiting for them.

use std::io::{BufRead as _, BufReader, Read as _};

use baton_testing::cluster::Cluster;
use baton_testing::command::Ended;
use baton_testing::processes::send;
use baton_testing::until;
use rustix::process::Signal;
use serde_json::json;

#[test]
fn several_ids_ranges_and_elements_are_one_command() {
    let cluster = Cluster::with_worker();
    let script = "test $BATON_ARRAY_INDEX -gt 3 || exit 4; echo part $BATON_ARRAY_INDEX";
    let array = [
        "submit", "--array", "1-5", "--name", "sim", "--wait", "--", script,
    ];
    let failed = cluster.run(&array);
    assert_eq!(failed.code, Some(1));
    let more = "i1..i5 2 DONE, 3 FAILED; more: baton logs i1..i5 --state FAILED; again: baton retry i1..i5";
    assert!(failed.err.contains(more), "{failed:?}");
    let logs = cluster.run(&["logs", "i1..i5", "--state", "FAILED"]);
    assert_eq!(logs.out, "==> i1 <==\n\n==> i2 <==\n\n==> i3 <==\n");
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
    let halted = cluster.run(&["retry", "i1", "--state", "HALTED"]);
    assert_eq!(halted.code, Some(1), "{halted:?}");
    assert!(
        halted.err.contains("no instance matches (state HALTED)"),
        "{halted:?}"
    );
    let range = cluster
        .run(&["retry", "i1..i1", "--state", "halted"])
        .good();
    assert_eq!(
        range,
        "i1: 0 queued again, 1 skipped (not HALTED, or part of a run)\n"
    );
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
    assert_eq!(cluster.run(&args).good(), "i3..i4\n");
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

#[test]
fn several_are_followed_at_once_and_each_line_has_its_instance() {
    let cluster = Cluster::with_worker();
    let gates = cluster.path("gates").display().to_string();
    let script = format!(
        "echo one $BATON_ARRAY_INDEX; until test -e {gates}; do sleep 0.02; done; echo two >&2"
    );
    let array = [
        "submit", "--array", "1-2", "--name", "sim", "--cpu", "0.1", "--", &script,
    ];
    cluster.run(&array).good();
    let following = cluster.begin(&["logs", "--name", "sim", "-f"]);
    until("both have printed", || {
        let logs = cluster.run(&["logs", "i1..i2"]).out;
        logs.contains("one 1") && logs.contains("one 2")
    });
    std::fs::write(&gates, "").expect("writable");
    let ended: Ended = following.wait_with_output().expect("it ends").into();
    let mut out: Vec<&str> = ended.out.lines().collect();
    out.sort_unstable();
    assert_eq!(out, ["i1 | one 1", "i2 | one 2"], "{ended:?}");
    let mut err: Vec<&str> = ended.err.lines().collect();
    err.sort_unstable();
    assert_eq!(err, ["i1 | two", "i2 | two"], "{ended:?}");
    assert_eq!(ended.code, Some(0));
    let json = cluster.run(&["logs", "i1", "i2", "-f", "--stdout", "--json"]);
    let lines = json.out.lines().map(|line| {
        let piece: serde_json::Value = serde_json::from_str(line).expect("JSON");
        piece["instance"].clone()
    });
    let instances: std::collections::BTreeSet<String> = lines
        .map(|it| it.as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(instances.into_iter().collect::<Vec<_>>(), ["i1", "i2"]);
    let array = ["submit", "--array", "1-51", "--cpu", "900", "--", "true"];
    cluster.run(&array).good();
    let many = cluster.run(&["logs", "i3..i53", "-f"]);
    assert_eq!(many.code, Some(2), "{many:?}");
}

#[test]
fn an_interrupted_wait_says_how_to_go_on() {
    let cluster = Cluster::with_worker();
    let never = [
        "submit", "--array", "1-3", "--name", "big", "--cpu", "900", "--", "true",
    ];
    cluster.run(&never).good();
    for (args, expected) in [
        (
            &["wait", "i1"][..],
            "i1 continues; `baton wait i1` waits for it again, `baton cancel i1` cancels it",
        ),
        (
            &["wait", "i1", "i2..i3"],
            "i1 i2..i3 continue; `baton wait i1 i2..i3` waits for them again, `baton cancel i1 i2..i3` cancels them",
        ),
        (
            &[
                "--utc",
                "wait",
                "--name",
                "big",
                "--since",
                "2020-01-01T01:00:00+01:00",
            ],
            "3 instances (name big, since 2020-01-01 00:00:00Z) continue; \
             `baton wait --name big --since '2020-01-01 00:00:00Z'` waits for them again, \
             `baton cancel --name big --since '2020-01-01 00:00:00Z'` cancels them",
        ),
    ] {
        let mut waiting = cluster.begin(args);
        let mut err = BufReader::new(waiting.stderr.take().expect("it is piped"));
        let mut progress = String::new();
        err.read_line(&mut progress).expect("readable");
        assert!(progress.contains("QUEUED"), "{progress}");
        assert!(send(waiting.id(), Signal::INT));
        let mut rest = String::new();
        err.read_to_string(&mut rest).expect("readable");
        assert!(rest.contains(expected), "{rest}");
        assert_eq!(waiting.wait().expect("it ends").code(), Some(130));
    }
}

#[test]
fn show_and_history_take_filters() {
    let cluster = Cluster::with_worker();
    let submit = |name: &str, command: &str| {
        let args = ["submit", "--name", name, "--wait", "--", command];
        cluster.run(&args)
    };
    submit("good", "true").good();
    submit("bad", "exit 4");
    submit("bad", "true").good();
    let shown = |args: &[&str]| {
        let mut words = vec!["show", "--json"];
        words.extend(args);
        let shown = cluster.run(&words).json();
        let shown = shown.as_array().expect("an array").iter();
        let ids = shown.map(|it| it["instance"]["id"].as_str().unwrap_or_default().to_owned());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(shown(&["--name", "bad"]), ["i2", "i3"]);
    assert_eq!(shown(&["--name", "bad", "--state", "failed"]), ["i2"]);
    assert_eq!(shown(&["i1..i2", "--since", "1h"]), ["i1", "i2"]);
    let text = cluster.run(&["show", "--state", "FAILED"]).good();
    assert!(text.contains("name       bad"), "{text}");
    assert!(!text.contains("name       good"), "{text}");
    let none = cluster.run(&["show", "--name", "other"]);
    assert_eq!(none.code, Some(1), "{none:?}");
    assert_eq!(cluster.run(&["show"]).code, Some(2));
    let run = cluster.run(&["show", "r1", "--state", "FAILED"]);
    assert_eq!(run.code, Some(2), "{run:?}");

    let ids = |args: &[&str]| {
        let mut words = vec!["history", "--json"];
        words.extend(args);
        let rows = cluster.run(&words).json();
        let rows = rows.as_array().expect("an array").iter();
        let ids = rows.map(|it| it["id"].as_str().unwrap_or_default().to_owned());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(ids(&["--since", "1h"]), ["i3", "i2", "i1"]);
    assert_eq!(ids(&["--since", "1h", "-n", "1", "--name", "bad"]), ["i3"]);
    assert_eq!(ids(&["--since", "0"]), Vec::<String>::new());
    let text = cluster.run(&["history", "--since", "0"]);
    assert!(
        text.err.contains("no instance in the history matches"),
        "{text:?}"
    );
}

#[test]
fn instances_are_selected_by_tag() {
    let cluster = Cluster::with_worker();
    let (file, text) = (
        "tagged.yaml",
        "{ task: filed, tags: [nightly], run: 'true' }",
    );
    std::fs::write(cluster.path(file), text).expect("writable");
    cluster.run(&["submit", "--wait", file]).good();
    let more = ["submit", "--wait", "--tag", "gpu", "--tag", "x y", file];
    let bad = cluster.run(&more);
    assert_eq!(bad.code, Some(2), "{bad:?}");
    cluster
        .run(&["submit", "--wait", "--tag", "gpu", file])
        .good();
    let plain = ["submit", "--wait", "--name", "nightly", "--", "true"];
    cluster.run(&plain).good();
    let ids = |args: &[&str]| {
        let words = [&["history", "--json"], args].concat();
        let rows = cluster.run(&words).json();
        let rows = rows.as_array().expect("an array").iter();
        let ids = rows.map(|it| it["id"].as_str().unwrap_or_default().to_owned());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(ids(&["--tag", "nightly"]), ["i2", "i1"]);
    assert_eq!(ids(&["--tag", "gpu"]), ["i2"]);
    assert_eq!(
        ids(&["--tag", "gpu", "--name", "other"]),
        Vec::<String>::new()
    );
    let shown = cluster.run(&["show", "--json", "--tag", "gpu"]).json();
    assert_eq!(shown[0]["instance"]["id"], "i2", "{shown}");
    let ended = cluster.run(&["wait", "--tag", "gpu"]);
    assert!(
        ended.err.contains("no instance matches (tag gpu)"),
        "{ended:?}"
    );
}
