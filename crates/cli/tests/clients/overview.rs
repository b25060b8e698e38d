//! `baton check` and `baton status`.

use baton_testing::cluster::Cluster;
use baton_testing::command::{Ended, baton};
use serde_json::json;

const WORKFLOW: &str = "\
workflow: etl
params: { day: { type: string } }
tasks:
  extract: { run: 'true', for_each: [eu, us] }
  load: { run: 'echo {{ params.day }}', after: [extract] }
";

#[test]
fn files_are_checked_without_a_scheduler() {
    let dir = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text);
    write("etl.yaml", WORKFLOW).expect("writable");
    write("t.yaml", "task: t\nrun: 'wc {{ item.name }}'\n").expect("writable");
    write("bad.yaml", "task: t\nrum: x\n").expect("writable");
    let run =
        |args: &[&str]| -> Ended { baton(dir.path(), args).output().expect("it ends").into() };
    let good = run(&["check", "etl.yaml", "t.yaml"]).good();
    let lines: Vec<&str> = good.lines().collect();
    assert_eq!(
        lines.first(),
        Some(&"ok etl.yaml: workflow etl, 2 tasks, 3 items; needs -p day=VALUE"),
        "{good}"
    );
    assert!(
        lines[1].contains("extract") && good.contains("load"),
        "{good}"
    );
    assert!(good.contains("ok t.yaml: task t"), "{good}");
    let bad = run(&["check", "bad.yaml", "etl.yaml", "-p", "day=1"]);
    assert_eq!(bad.code, Some(2), "{bad:?}");
    assert!(
        bad.err.contains("bad.yaml:2:1") && bad.out.contains("ok etl.yaml"),
        "{bad:?}"
    );
    let json = run(&["check", "bad.yaml", "etl.yaml", "--json", "-p", "day=1"]);
    let json: serde_json::Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!(
        (&json[0]["ok"], &json[1]["ok"]),
        (&false.into(), &true.into())
    );
    assert_eq!(json[1]["tasks"][1]["after"][0]["task"], "extract", "{json}");
    // Nothing listens there.
    let dry = [
        "--url",
        "http://127.0.0.1:1",
        "submit",
        "--dry-run",
        "etl.yaml",
    ];
    assert!(run(&dry).good().starts_with("ok etl.yaml"));
    let array = ["submit", "--array", "1-9:4", "--dry-run", "--", "./x"];
    assert_eq!(
        run(&array).good(),
        "ok command line: [\"./x\"], 3 instances\n"
    );
    let program = run(&["submit", "./x.sh"]);
    assert_eq!(program.code, Some(2), "{program:?}");
    assert!(
        program.err.contains("`baton submit -- ./x.sh`"),
        "{program:?}"
    );
    for (args, command) in [
        (&["run", "--", "echo", "a b"][..], "echo 'a b'"),
        (&["run", "./x.sh"], "./x.sh"),
    ] {
        let refused = run(args);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        let hint = format!("`baton submit --wait -- {command}`");
        assert!(refused.err.contains(&hint), "{refused:?}");
    }
    let refused = run(&["run", "--", "echo", "a b"]);
    let file = refused.err.lines().last().expect("a file").trim();
    std::fs::write(dir.path().join("command.json"), file).expect("written");
    let checked = run(&["check", "command.json"]).good();
    assert!(checked.starts_with("ok command.json"), "{checked}");
    let unknown = run(&["validate", "etl.yaml"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.err.contains("baton check FILE"), "{unknown:?}");
}

#[test]
fn a_screen_shows_everything() {
    let cluster = Cluster::with_worker();
    let failed = ["submit", "--name", "bad", "--wait", "--", "exit 3"];
    assert_eq!(cluster.run(&failed).code, Some(3));
    let never = ["submit", "--cpu", "900", "--array", "1-7", "--", "true"];
    cluster.run(&never).good();
    let shown = cluster.run(&["status"]).good();
    for told in [
        "leads at",
        "1 of 1 healthy",
        "it requests 900 cores",
        "exit 3",
    ] {
        assert!(shown.contains(told), "{told}: {shown}");
    }
    let json = cluster.run(&["ls", "--json"]).json();
    assert_eq!(json["waiting"]["total"], 7, "{json}");
    assert_eq!(json["waiting"]["reasons"][0]["count"], 7, "{json}");
    assert_eq!(json["failed"][0]["name"], "bad", "{json}");
    assert_eq!(json["scheduler"]["ready"], true, "{json}");
}

#[test]
fn waiting_items_are_grouped_by_their_reason() {
    let cluster = Cluster::with_worker();
    let hold = ["submit", "--cpu", "4", "--", "sleep 1000"];
    cluster.run(&hold).good();
    cluster.until_state("i1", "RUNNING");
    let lines: String = (0..30).map(|line| format!("{line}\n")).collect();
    std::fs::write(cluster.path("lines"), lines).expect("writable");
    let lines = cluster.path("lines").display().to_string();
    cluster
        .run(&["submit", "--each-line", &lines, "--", "echo {{ item }}"])
        .good();
    let json = cluster.run(&["status", "--json"]).json();
    let reasons = json["waiting"]["reasons"].as_array().expect("a list");
    assert_eq!(
        (reasons.len(), &reasons[0]["count"]),
        (1, &json!(30)),
        "{json}"
    );
    let text = reasons[0]["text"].as_str().expect("a text");
    assert!(
        text.starts_with("worker w1 comes nearest, but lacks 1 core"),
        "{text}"
    );
    // What is submitted last is counted, too.
    let elsewhere = ["submit", "--label", "zone=moon", "--", "true"];
    let elsewhere = [&elsewhere[..1], &["--owner", "ann"], &elsewhere[1..]].concat();
    cluster.run(&elsewhere).good();
    let after = ["submit", "--after", "i1", "--array", "1-40", "--", "true"];
    cluster.run(&after).good();
    let rows = cluster.run(&["bullpen", "--reasons", "--json"]).json();
    let counts: Vec<_> = rows.as_array().expect("a list").iter().collect();
    let counts = counts
        .iter()
        .map(|it| (&it["count"], &it["first"], &it["reason"]));
    let counts: Vec<_> = counts.collect();
    assert_eq!(
        counts,
        [
            (&json!(40), &json!("i33"), &json!("after")),
            (&json!(30), &json!("i2"), &json!("room")),
            (&json!(1), &json!("i32"), &json!("no-match")),
        ]
    );
    let of_ann = cluster
        .run(&["bullpen", "--reasons", "--owner", "ann"])
        .good();
    assert_eq!(of_ann.lines().count(), 2, "{of_ann}");
    assert!(of_ann.contains("zone is moon"), "{of_ann}");
    let refused = cluster.run(&["bullpen", "--reasons", "--name", "x"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    let last = cluster.run(&["explain", "i31"]).good();
    assert!(
        last.contains("29 instances of the same class are ahead"),
        "{last}"
    );
}
