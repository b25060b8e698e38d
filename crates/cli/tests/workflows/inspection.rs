//! Inspecting a run: its items, their logs, and why it ended.

use std::fmt::Write as _;

use baton_testing::command::Ended;
use baton_testing::command::run;
use serde_json::Value;

use crate::workspace::{Workspace, write};

const MIXED: &str = "workflow: mixed
params: { who: you }
tasks:
  each:
    for_each: [eu, us]
    run: 'echo this is {{ item }}; echo from {{ item }} >&2; test {{ item }} = eu'
  alone: { run: 'echo alone' }
  next: { run: 'true', after: [each] }
";

/// Fails unless it is refused as wrong usage, with these words.
fn is_wrong_usage(ended: &Ended, words: &[&str]) {
    assert_eq!(ended.code, Some(2), "{ended:?}");
    for word in words {
        assert!(ended.err.contains(word), "{word:?} is missing: {ended:?}");
    }
}

#[test]
fn from_a_run_a_task_and_an_item_to_the_instance_and_what_it_printed() {
    let workspace = Workspace::start();
    workspace.finished(MIXED).has_failed();
    let table = workspace.run(&["show", "r1", "--items"]).good();
    let failed = table.lines().find(|line| line.contains("FAILED"));
    let failed = failed.expect("a row for it");
    let words: Vec<&str> = failed.split_whitespace().collect();
    assert_eq!(words[..4], ["each", "1", "us", "FAILED"], "{table}");
    assert!(failed.ends_with("exit 1"), "{table}");
    let items = |args: &[&str]| -> Vec<Value> {
        let all = [&["show", "r1", "--items", "--json"][..], args].concat();
        let list = workspace.run(&all).json();
        list.as_array().expect("a list").clone()
    };
    assert_eq!(items(&[]).len(), 3);
    assert_eq!(items(&["-n", "1"]).len(), 1);
    let one = items(&["--task", "each", "--item", "1"]);
    assert_eq!((one.len(), &one[0]["item"]), (1, &1.into()));
    assert_eq!(items(&["--state", "failed"]), one);
    assert_eq!(one[0]["instance"], words[4]);

    let logs = |args: &[&str]| workspace.run(&[&["logs", "r1"][..], args].concat());
    let us = ["--task", "each", "--item", "1"];
    assert_eq!(logs(&us).good(), "this is us\n");
    assert_eq!(logs(&[&us[..], &["--stderr"]].concat()).good(), "from us\n");
    assert_eq!(logs(&["--task", "alone"]).good(), "alone\n");
    is_wrong_usage(&logs(&[]), &["4 items", "--task", "each", "alone", "next"]);
    is_wrong_usage(&logs(&["--task", "each"]), &["2 items", "--item 0 to 1"]);
    is_wrong_usage(&logs(&["--task", "nope"]), &["`nope`", "alone, each, next"]);
    is_wrong_usage(
        &workspace.run(&["show", "r1", "--items", "--task", "nope"]),
        &["`nope`", "alone, each, next"],
    );
    is_wrong_usage(&logs(&["--task", "each", "--item", "2"]), &["no item 2"]);
    let never = logs(&["--task", "next"]);
    assert_eq!(never.code, Some(1), "{never:?}");
    assert!(never.err.contains("never started"), "{never:?}");
}

#[test]
fn a_run_that_has_failed_explains_why_and_what_to_do() {
    let workspace = Workspace::start();
    workspace.finished(MIXED).has_failed();
    let told = workspace.run(&["explain", "r1"]).good();
    for words in [
        "r1 FAILED: 1 item failed",
        "first item 1: exit 1",
        "1 blocked: needs each",
        "baton resume r1",
        "baton retry r1 --task each",
    ] {
        assert!(told.contains(words), "{words:?} is missing: {told}");
    }
    let json = workspace.run(&["explain", "r1", "--json"]).json();
    assert_eq!(json["errors"][0]["task"], "each", "{json}");
    let refused = workspace.run(&["retry", "r1", "--task", "nope"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert_eq!(
        refused.err.matches("no task `nope`").count(),
        1,
        "{refused:?}"
    );
}

#[test]
fn the_log_of_an_item_that_has_not_begun_is_waited_for() {
    let workspace = Workspace::start();
    let run = workspace.submit(
        "workflow: two
tasks:
  first: { run: 'until test -e DIR/go; do sleep 0.02; done' }
  second: { run: 'echo here I am', after: [first] }
",
    );
    let args = ["logs", &run, "--task", "second"];
    let not_yet = workspace.run(&args);
    assert_eq!(not_yet.code, Some(1), "{not_yet:?}");
    assert!(not_yet.err.contains("has not started"), "{not_yet:?}");
    let child = workspace.begin(&[&args[..], &["-f"]].concat());
    workspace.touch("go");
    let ended: Ended = child.wait_with_output().expect("it ends").into();
    assert_eq!(
        (ended.code, &*ended.out),
        (Some(0), "here I am\n"),
        "{ended:?}"
    );
    let watched = workspace.run(&["watch", &run, "--quiet", "--json"]);
    assert_eq!(watched.json()["state"], "DONE");
}

#[test]
fn the_one_item_of_a_run_needs_no_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = "workflow: one\ntasks: { only: { run: 'echo it' } }\n";
    write(dir.path(), "wf.yaml", text);
    let ran = run(dir.path(), &["run", "wf.yaml", "--quiet", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.json()["items"]["done"], 1);
    let workspace = Workspace::start();
    workspace.finished(text).is_done();
    assert_eq!(workspace.run(&["logs", "r1"]).good(), "it\n");
}

#[test]
fn an_unreachable_scheduler_is_not_waited_for_before_its_first_response() {
    let dir = tempfile::tempdir().expect("a directory");
    for args in [
        &["watch", "r1"][..],
        &["watch", "r1", "--quiet"],
        &["logs", "i1", "-f"],
        &["logs", "r1", "--task", "a", "-f"],
    ] {
        let url = ["--url", "http://127.0.0.1:1"];
        let ended = run(dir.path(), &[args, &url].concat());
        assert_eq!(ended.code, Some(3), "{args:?}: {ended:?}");
    }
}

#[test]
fn two_values_for_one_parameter_are_refused_before_anything_is_sent() {
    let dir = tempfile::tempdir().expect("a directory");
    write(dir.path(), "wf.yaml", MIXED);
    let twice = ["-p", "who=a", "-p", "who=b"];
    for args in [
        &["run", "wf.yaml"][..],
        &["submit", "wf.yaml"],
        &["resume", "r1", "wf.yaml"],
    ] {
        let refused = run(dir.path(), &[args, &twice].concat());
        is_wrong_usage(&refused, &["who is given twice"]);
    }
}

#[test]
fn the_end_of_a_run_is_told_from_all_of_its_tasks() {
    let workspace = Workspace::start();
    let mut text = "workflow: broad\ntasks:\n".to_owned();
    for number in 0..1_100 {
        // Writing to a string cannot fail. Tasks without items cost nothing.
        let _ = writeln!(text, "  t{number}: {{ run: 'true', for_each: [] }}");
    }
    text += "  zz: { run: 'exit 7', after: [t999] }\n";
    workspace.write("wf.yaml", &text);
    let ended = workspace.run(&["submit", "wf.yaml", "--wait"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let last = &workspace.show("r1")["tasks"][1_100]["name"];
    assert_eq!(last, "zz", "it is behind the first page");
    let (_, told) = ended.err.split_once("FAILED broad").expect("a summary");
    let row = told.lines().find(|line| line.contains("✗ zz"));
    assert!(row.is_some_and(|row| row.contains("0/1")), "{told}");
    assert!(!told.contains("more tasks"), "{told}");
}
