//! The command line of `baton-sim`.

use std::process::{Command, Output};

use baton_model::json;

fn sim(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_baton-sim"))
        .args(args)
        .output()
        .expect("the binary was built with this test")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(args: &[&str]) -> serde_json::Value {
    let output = sim(args);
    json::from_slice(&output.stdout).expect("one JSON object on standard output")
}

#[test]
fn clean_seeds_exit_with_zero_and_a_summary() {
    let output = sim(&["--seeds", "3"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("3 seeds, 0 violations"));
}

#[test]
fn json_has_the_promised_keys() {
    let report = json(&["--seeds", "2", "--json"]);
    assert_eq!(report["seeds"], 2);
    assert_eq!(report["violations"], 0);
    for key in ["events", "virtual_seconds"] {
        assert!(
            report[key].as_u64().is_some_and(|n| n > 0),
            "{key}: {report}"
        );
    }
    assert!(report["wall_seconds"].as_f64().is_some_and(|n| n > 0.0));
    assert!(
        report["trace_hash"]
            .as_str()
            .is_some_and(|hash| hash.len() == 16)
    );
}

#[test]
fn two_processes_agree_on_the_trace_hash() {
    let args = ["--seed", "40", "--seeds", "4", "--json"];
    assert_eq!(json(&args)["trace_hash"], json(&args)["trace_hash"]);
    let other = json(&["--seed", "41", "--seeds", "4", "--json"]);
    assert_ne!(json(&args)["trace_hash"], other["trace_hash"]);
}

#[test]
fn a_violation_exits_with_one_and_prints_the_replay_command() {
    let output = sim(&["--bug", "cleared-on-send-failure", "--seeds", "50"]);
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{told}");
    for needle in [
        "violates a guarantee",
        "checker: ",
        "replay:  cargo sim",
        "--bug cleared-on-send-failure",
    ] {
        assert!(told.contains(needle), "no {needle:?} in:\n{told}");
    }
    assert!(
        told.contains("runTask"),
        "the last events are missing:\n{told}"
    );
}

#[test]
fn a_violation_in_json_names_seed_and_checker() {
    let report = json(&[
        "--bug",
        "cleared-on-send-failure",
        "--seeds",
        "50",
        "--json",
    ]);
    assert_eq!(report["violations"], 1);
    assert!(report["found"][0]["seed"].is_u64());
    assert!(report["found"][0]["checker"].is_string());
    let replay = report["found"][0]["replay"].as_str();
    assert!(replay.is_some_and(|command| command.contains("--seed")));
}

#[test]
fn at_least_fifteen_bugs_are_listed_with_what_they_do() {
    let output = sim(&["--list-bugs"]);
    assert_eq!(output.status.code(), Some(0));
    let lines = text(&output.stdout);
    assert!(lines.lines().count() >= 15, "{lines}");
    assert!(
        lines
            .lines()
            .all(|line| line.split_whitespace().count() > 3),
        "{lines}"
    );
}

#[test]
fn bad_usage_exits_with_two_and_names_the_hint() {
    let unknown = sim(&["--bug", "no-such-bug"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("--list-bugs"));
    for args in [
        ["--seeds", "0"],
        ["--seeds", "many"],
        ["--workers", "0"],
        ["--no-such", "1"],
    ] {
        assert_eq!(sim(&args).status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn trace_prints_every_event() {
    let output = sim(&["--seed", "1", "--trace"]);
    let told = text(&output.stdout);
    for needle in [
        "processHeartbeat",
        "store: lease-granted",
        "the faults are over",
    ] {
        assert!(told.contains(needle), "no {needle:?}");
    }
}

#[test]
fn bugs_of_schedules_imply_the_schedule_simulation() {
    let output = sim(&["--schedules", "--seeds", "3"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("3 seeds, 0 violations"));
    let output = sim(&["--bug", "catch-up-repeats", "--seeds", "50"]);
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{told}");
    for needle in ["checker: due-twice", "stored: ", "--trace"] {
        assert!(told.contains(needle), "no {needle:?} in:\n{told}");
    }
    let both = sim(&["--schedules", "--workers", "3"]);
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn bugs_of_runs_imply_workflows() {
    let plain = json(&["--seeds", "2", "--json"]);
    let with = json(&["--seeds", "2", "--workflows", "--json"]);
    assert_eq!(with["violations"], 0, "{with}");
    assert_ne!(plain["trace_hash"], with["trace_hash"]);
    let output = sim(&["--bug", "resume-keeps-nothing", "--seeds", "50"]);
    let told = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{told}");
    for needle in ["checker: resume-unasked", "store: run-resumed", "--trace"] {
        assert!(told.contains(needle), "no {needle:?} in:\n{told}");
    }
    let both = sim(&["--schedules", "--workflows"]);
    assert_eq!(both.status.code(), Some(2));
}
