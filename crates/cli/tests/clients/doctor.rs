//! `baton doctor` on a real host and a real cluster.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use baton_testing::command::{Ended, PORTS, baton, end, is_healthy, ready, run, silent_port};
use baton_testing::until;
use rustix::process::Signal;
use serde_json::Value;

/// The findings of one check, as (grade, message and remedy).
fn of(report: &Value, check: &str) -> Vec<(String, String)> {
    let findings = report["findings"].as_array().expect("a list").iter();
    let word = |it: &Value, key: &str| it[key].as_str().unwrap_or_default().to_owned();
    findings
        .filter(|it| it["check"] == check)
        .map(|it| {
            let text = format!("{}; {}", word(it, "message"), word(it, "remedy"));
            (word(it, "grade"), text)
        })
        .collect()
}

fn report(dir: &Path, url: &str, args: &[&str]) -> (Option<i32>, Value) {
    let mut command = baton(dir, &["doctor", "--json"]);
    let ended = command.args(args).env("BATON_URL", url).output();
    let ended = Ended::from(ended.expect("it ends"));
    let report = serde_json::from_str(&ended.out).expect("it is JSON");
    (ended.code, report)
}

#[test]
fn a_host_is_examined_without_a_scheduler() {
    let dir = tempfile::tempdir().expect("a directory");
    let (code, found) = report(dir.path(), "", &["--host"]);
    assert_eq!(code, Some(0), "{found}");
    assert_eq!(found["problems"], 0, "{found}");
    for check in [
        "kernel",
        "data directory",
        "disk space",
        "disk writes",
        "memory limits",
        "open files",
    ] {
        assert_eq!(of(&found, check).len(), 1, "{check}: {found}");
    }
    let left = fs::read_dir(dir.path()).expect("readable").count();
    assert_eq!(left, 0, "the file of the measurement is removed");

    let data = dir.path().join(".baton");
    fs::create_dir(&data).expect("created");
    fs::set_permissions(&data, Permissions::from_mode(0o777)).expect("ours");
    let (code, found) = report(dir.path(), "", &["--host"]);
    assert_eq!(code, Some(1), "{found}");
    let directory = &of(&found, "data directory")[0];
    assert_eq!(directory.0, "problem", "{found}");
}

#[test]
fn a_scheduler_that_is_not_there_is_a_problem_with_a_remedy() {
    let dir = tempfile::tempdir().expect("a directory");
    let (_held, port) = silent_port();
    let (code, found) = report(dir.path(), &format!("http://127.0.0.1:{port}"), &[]);
    assert_eq!(code, Some(1), "{found}");
    let (grade, text) = &of(&found, "scheduler")[0];
    assert_eq!(grade, "problem", "{found}");
    assert!(text.contains("start it with `baton up`"), "{text}");
    let printed = run(dir.path(), &["doctor", "--host"]).good();
    assert!(printed.contains("ok      disk space"), "{printed}");
    assert!(printed.ends_with("warnings\n"), "{printed}");
}

#[test]
fn a_cluster_is_examined_and_a_drained_worker_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let library = dir.path().join("library");
    fs::create_dir(&library).expect("created");
    fs::write(library.join("bad.yaml"), "task: bad\nrunn: x\n").expect("written");
    let mut up = baton(dir.path(), &["up", "--library", "library"])
        .args(PORTS)
        .spawn()
        .expect("it starts");
    let url = ready(&mut up).expect("it is ready").url;
    let client = |args: &[&str]| {
        let ended = baton(dir.path(), args).env("BATON_URL", &url).output();
        Ended::from(ended.expect("it ends"))
    };
    until("its worker is healthy", || {
        is_healthy(&client(&["workers", "--json"]).json(), "local")
    });
    let (code, found) = report(dir.path(), &url, &[]);
    assert_eq!(code, Some(1), "a file of the library is unusable: {found}");
    for (check, text) in [
        ("version", "here and of the scheduler"),
        ("scheduler", "ready"),
        ("workers", "1 of 1 can take work"),
        ("data directory", "used by process"),
    ] {
        let (grade, message) = &of(&found, check)[0];
        assert_eq!(grade, "good", "{check}: {found}");
        assert!(message.contains(text), "{check}: {message}");
    }
    let unusable = of(&found, "library");
    let unusable: Vec<_> = unusable.iter().filter(|it| it.0 == "problem").collect();
    assert!(unusable[0].1.contains("bad.yaml"), "{found}");

    client(&["drain", "local"]).good();
    fs::remove_file(library.join("bad.yaml")).expect("removed");
    until("the library is read again", || {
        let (code, found) = report(dir.path(), &url, &[]);
        let drained = of(&found, "workers")
            .iter()
            .any(|it| it.1.contains("--undo"));
        assert!(drained, "{found}");
        code == Some(0)
    });
    end(&mut up, Signal::INT);
}
