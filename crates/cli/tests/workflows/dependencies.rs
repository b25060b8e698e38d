//! Order, failures, conditions and timeouts.

use std::path::Path;

use baton_testing::cluster::lines;
use baton_testing::command::run;
use baton_testing::until;
use serde_json::json;

use crate::workspace::{Workspace, place_of, write};

/// A chain of ten; the fifth does this.
fn chain(fifth: &str) -> String {
    let mut text = "workflow: chain\ntasks:\n".to_owned();
    for at in 0..10 {
        let run = match at {
            4 => fifth,
            _ => "true",
        };
        let after = match at {
            0 => String::new(),
            at => format!("s{}", at - 1),
        };
        let retry = "retry: { attempts: 3, backoff: 10ms..20ms }";
        text.push_str(&format!(
            "  s{at}:\n    after: [{after}]\n    {retry}\n    run: |\n      {run}\n      echo s{at} >> DIR/ran\n"
        ));
    }
    text
}

#[test]
fn a_fork_and_its_join_run_in_order_without_a_cluster() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = "workflow: fork
templates:
  say: { run: 'echo {{ task.name }} >> DIR/ran' }
tasks:
  a: { template: say }
  b: { template: say, after: [a] }
  c: { template: say, after: a }
  d: { template: say, after: a }
  e: { template: say, after: [b, c, d] }
";
    write(dir.path(), "fork.yaml", text);
    let ended = run(dir.path(), &["run", "fork.yaml"]);
    assert!(ended.err.contains("DONE fork r1"), "{ended:?}");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let ran = lines(&dir.path().join("ran"));
    assert_eq!(ran.len(), 5, "{ran:?}");
    assert_eq!((place_of(&ran, "a"), place_of(&ran, "e")), (0, 4));
    let again = run(dir.path(), &["run", "fork.yaml"]);
    assert!(
        again.err.contains("r1 is DONE since an earlier run"),
        "{again:?}"
    );
    assert_eq!(again.code, Some(0), "{again:?}");
    assert_eq!(lines(&dir.path().join("ran")).len(), 5, "not run again");
    let afresh = run(dir.path(), &["run", "fork.yaml", "--again", "--quiet"]);
    assert!(afresh.err.starts_with("DONE fork r2"), "{afresh:?}");
    assert_eq!(afresh.err.lines().count(), 1, "only its end: {afresh:?}");
    assert_eq!(lines(&dir.path().join("ran")).len(), 10);
}

#[test]
fn a_diamond_is_done_and_every_item_has_one_instance() {
    let workspace = Workspace::start();
    let over = workspace.finished(
        "workflow: diamond
tasks:
  top: { run: 'echo top >> DIR/ran' }
  left: { run: 'echo left >> DIR/ran', after: [top] }
  right: { run: 'echo right >> DIR/ran', after: [top] }
  bottom: { run: 'echo bottom >> DIR/ran', after: [left, right] }
",
    );
    over.is_done();
    assert_eq!(over.items(), "4 done");
    assert_eq!(
        (&over.run["name"], &over.run["generation"]),
        (&json!("diamond"), &json!(1))
    );
    let ran = workspace.lines("ran");
    let at = |name: &str| place_of(&ran, name);
    assert_eq!((at("top"), at("bottom"), ran.len()), (0, 3, 4));
    let items = workspace.items(over.id());
    let of = |key: &str| -> Vec<_> { items.iter().map(|it| it[key].clone()).collect() };
    assert_eq!(of("task"), ["top", "left", "right", "bottom"]);
    assert_eq!(of("state"), ["DONE"; 4]);
    assert_eq!(of("endText"), ["exit 0"; 4]);
    let listed = workspace.run(&["runs", "--json"]).json();
    assert_eq!(
        (&listed[0]["id"], &listed[0]["state"]),
        (&json!("r1"), &json!("DONE"))
    );
}

#[test]
fn what_fails_twice_in_a_chain_is_tried_again_and_the_chain_goes_on() {
    let workspace = Workspace::start();
    let twice = "echo x >> DIR/tries; test $(wc -l < DIR/tries) -ge 3 || exit 1";
    let over = workspace.finished(&chain(twice));
    over.is_done();
    assert_eq!(over.items(), "10 done");
    let wanted: Vec<String> = (0..10).map(|at| format!("s{at}")).collect();
    assert_eq!(workspace.lines("ran"), wanted);
    assert_eq!(workspace.lines("tries").len(), 3);
    let fifth = workspace.items(over.id())[4]["instance"].clone();
    let fifth = workspace
        .run(&["show", fifth.as_str().expect("an id"), "--json"])
        .json();
    assert_eq!(fifth["instance"]["attempts"], 3, "{fifth}");
    let fifth = &fifth["instance"];
    assert_eq!(
        (&fifth["run"], &fifth["name"]),
        (&json!("r1"), &json!("s4"))
    );
}

#[test]
fn what_fails_for_good_blocks_what_comes_after_it_and_fails_the_run() {
    let workspace = Workspace::start();
    let over = workspace.finished(&chain("echo x >> DIR/tries; exit 3"));
    over.has_failed();
    assert_eq!(over.items(), "4 done, 1 failed, 5 blocked");
    assert_eq!(workspace.lines("ran"), ["s0", "s1", "s2", "s3"]);
    assert_eq!(workspace.lines("tries").len(), 3, "as often as it may");
    assert_eq!(workspace.task(over.id(), "s5"), "1 blocked");
    let shown = workspace.show(over.id());
    let error = &shown["errors"][0];
    assert_eq!(
        (&error["task"], &error["endText"]),
        (&json!("s4"), &json!("exit 3"))
    );
    assert_eq!(
        (&error["count"], &error["example"]),
        (&json!(1), &json!("i5"))
    );
}

/// A downstream task of `first` for each condition.
fn conditions(first: &str) -> String {
    format!(
        "workflow: conditions
tasks:
  first: {{ run: '{first}' }}
  good: {{ run: 'echo good >> DIR/ran', after: [first] }}
  alarm: {{ run: 'echo alarm >> DIR/ran', after: [{{ task: first, on: failure }}] }}
  end: {{ run: 'echo end >> DIR/ran', after: [{{ task: first, on: end }}] }}
  tidy: {{ run: 'echo tidy >> DIR/ran', after: [{{ task: good, on: end }}] }}
"
    )
}

#[test]
fn each_condition_lets_begin_what_it_says() {
    let workspace = Workspace::start();
    let bad = workspace.finished(&conditions("exit 1"));
    bad.has_failed();
    assert_eq!(workspace.sorted("ran"), ["alarm", "end", "tidy"]);
    assert_eq!(bad.items(), "3 done, 1 failed, 1 blocked");
    std::fs::remove_file(workspace.path("ran")).expect("written");
    let good = workspace.finished(&conditions("true"));
    good.is_done();
    assert_eq!(workspace.sorted("ran"), ["end", "good", "tidy"]);
    assert_eq!(good.items(), "4 done, 1 skipped");
    assert_eq!(workspace.task(good.id(), "alarm"), "1 skipped");
}

/// Something fails while something else runs.
fn while_it_runs(fail_fast: bool) -> String {
    format!(
        "workflow: fast
fail_fast: {fail_fast}
tasks:
  bad: {{ run: 'exit 1' }}
  slow: {{ run: 'until test -e DIR/go; do sleep 0.02; done; echo slow >> DIR/ran' }}
  next: {{ run: 'echo next >> DIR/ran', after: [slow] }}
  tidy: {{ run: 'echo tidy >> DIR/ran', after: [{{ task: slow, on: end }}] }}
"
    )
}

#[test]
fn with_fail_fast_a_failure_lets_only_begin_what_tidies_up() {
    let workspace = Workspace::start();
    for (fail_fast, wanted) in [
        (false, &["next", "slow", "tidy"][..]),
        (true, &["slow", "tidy"]),
    ] {
        let run = workspace.submit(&while_it_runs(fail_fast));
        until("one has failed", || {
            workspace.task(&run, "bad") == "1 failed"
        });
        workspace.touch("go");
        let over = workspace.wait(&run);
        over.has_failed();
        assert_eq!(workspace.sorted("ran"), wanted, "{fail_fast}");
        for name in ["go", "ran"] {
            std::fs::remove_file(workspace.path(name)).expect("written");
        }
    }
}

#[test]
fn a_run_and_a_task_that_take_too_long_are_killed_and_say_so() {
    let workspace = Workspace::start();
    let over = workspace.finished(
        "workflow: late
timeout: 2s
tasks:
  hangs: { run: 'echo $$ > DIR/pid; sleep 1000' }
  next: { run: 'echo next >> DIR/ran', after: [hangs] }
  tidy: { run: 'echo tidy >> DIR/ran', after: [{ task: hangs, on: end }] }
",
    );
    over.has_failed();
    assert_eq!(over.run["timedOut"], true, "{over:?}");
    assert_eq!(workspace.task(over.id(), "hangs"), "1 halted");
    for pid in workspace.lines("pid") {
        assert!(!Path::new("/proc").join(pid).exists(), "killed");
    }
    assert_eq!(workspace.lines("ran"), [""; 0], "nothing more begins");
    let over = workspace.finished(
        "workflow: late
tasks:
  hangs: { run: 'sleep 1000', timeout: 300ms }
  next: { run: 'echo next >> DIR/ran', after: [hangs] }
  alarm: { run: 'echo alarm >> DIR/ran', after: [{ task: hangs, on: failure }] }
",
    );
    over.has_failed();
    assert_eq!(over.run.get("timedOut"), None, "the run had time: {over:?}");
    assert_eq!(workspace.lines("ran"), ["alarm"]);
    let errors = &workspace.show(over.id())["errors"];
    let text = errors[0]["endText"].as_str().expect("a text");
    assert!(text.contains("time"), "{text}");
}
