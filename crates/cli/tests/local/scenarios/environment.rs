//! The environment of a process.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt as _};

use baton_runner::sys::users;

use crate::support::{Scenario, Signal, exited, lacks_root};

fn env_of(scenario: &Scenario, file: &str) -> BTreeMap<String, String> {
    let text = scenario.text(file);
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[test]
fn a_process_has_three_descriptors_whatever_its_runner_was_given() {
    let scenario = Scenario::new("{ task: fds, processes: [ { name: p, run: [sleep, '1000'] } ] }")
        .through("exec 7</dev/null 8</dev/null 42</dev/null; exec \"$@\"");
    let runner = scenario.start();
    runner.wait_for_start("p", 0);
    let pid = scenario.task_log().pid("p");
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("our own process");
    let mut open: Vec<String> = open
        .map(|entry| {
            entry
                .expect("readable")
                .file_name()
                .into_string()
                .expect("a number")
        })
        .collect();
    open.sort();
    assert_eq!(open, ["0", "1", "2"]);
    runner.signal(Signal::INT);
    assert_eq!(runner.wait().code, 3);
}

#[test]
fn the_environment_is_clean_and_what_is_nearer_to_the_process_wins() {
    let scenario = Scenario::new(
        "
task: env
params: { day: monday }
env: { TASK: of-task, BOTH: of-task }
processes:
  - { name: p, env: { OWN: 'on {{ params.day }}', BOTH: of-process, GIVEN: of-process, BATON_RUN: '99' }, run: [sh, -c, 'env > env'] }
  - { name: q, run: [sh, -c, 'env > env.q'] }
",
    )
    .env("SECRET", "of the runner")
    .env("LANG", "C.UTF-8")
    .args(&["-E", "GIVEN=of-person", "-E", "MORE=a=b c", "-p", "day=friday"]);
    assert_eq!(scenario.run().code, 0);
    let env = env_of(&scenario, "env");
    let get = |name: &str| env.get(name).map(String::as_str);
    assert_eq!(get("SECRET"), None, "the runner's environment is its own");
    assert_eq!(
        get("LANG"),
        Some("C.UTF-8"),
        "except for the common variables"
    );
    assert_eq!(get("TASK"), Some("of-task"));
    assert_eq!(get("BOTH"), Some("of-process"));
    assert_eq!(get("OWN"), Some("on friday"));
    assert_eq!(get("BATON_PARAM_DAY"), Some("friday"));
    assert_eq!(get("GIVEN"), Some("of-process"));
    assert_eq!(get("MORE"), Some("a=b c"));
    assert_eq!(env_of(&scenario, "env.q")["GIVEN"], "of-person");
    assert_eq!(get("BATON_TASK_ID"), Some("t-1"));
    assert_eq!(get("BATON_PROCESS"), Some("p"));
    assert_eq!(get("BATON_RUN"), Some("0"), "what Baton says is true");
    assert_eq!(get("BATON_SANDBOX"), get("PWD"));
    assert!(get("BATON_MARK").is_some_and(|mark| !mark.is_empty()));
    assert!(get("PATH").is_some_and(|path| !path.is_empty()));
    let me = users::by_uid(users::effective_uid())
        .expect("readable")
        .expect("a user");
    assert_eq!(get("HOME"), Some(me.home.as_str()));
    assert_eq!(get("USER"), Some(me.name.as_str()));
    assert_eq!(get("LOGNAME"), Some(me.name.as_str()));
}

#[test]
fn a_priority_that_cannot_be_set_is_named() {
    if lacks_root("become a user without rights") {
        return;
    }
    let scenario =
        Scenario::new("{ task: first, processes: [ { name: p, nice: -20, run: 'true' } ] }")
            .through("exec setpriv --reuid nobody --regid nogroup --clear-groups \"$@\"");
    std::fs::create_dir(scenario.root.path()).expect("our own");
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(scenario.root.path(), open).expect("our own");
    assert_eq!(scenario.run().code, 1);
    let printed = scenario.output("p", 0, "stderr");
    let text = "cannot set the priority to -20: permission denied";
    assert!(printed.contains(text), "{printed}");
}

#[test]
fn mask_priority_limits_and_directory_are_as_asked() {
    let scenario = Scenario::new(
        "
task: limits
order: [[make, p]]
processes:
  - { name: make, run: 'mkdir -p deep/er' }
  - name: p
    cwd: deep/er
    umask: '027'
    nice: 7
    oom_score: 750
    rlimits: { nofile: 100..200, core: 0 }
    run: |
      umask > mask; nice > nice; pwd > pwd; cat /proc/self/oom_score_adj > oom
      ulimit -Sn > soft; ulimit -Hn > hard; ulimit -c > core
",
    );
    assert_eq!(scenario.run().code, 0);
    let text = |name: &str| scenario.text(&format!("deep/er/{name}"));
    assert_eq!(text("mask"), "0027");
    assert_eq!(
        (text("nice"), text("oom")),
        ("7".to_owned(), "750".to_owned())
    );
    assert!(text("pwd").ends_with("/deep/er"));
    assert_eq!(
        (text("soft").as_str(), text("hard").as_str()),
        ("100", "200")
    );
    assert_eq!(text("core"), "0");
    let mode = std::fs::metadata(scenario.sandbox("deep/er/pwd"))
        .expect("there")
        .mode();
    assert_eq!(mode & 0o777, 0o640);
}

#[test]
fn a_directory_that_is_not_there_is_a_launch_that_failed_and_the_log_says_so() {
    let scenario =
        Scenario::new("{ task: nowhere, processes: [ { name: p, cwd: gone, run: 'true' } ] }");
    assert_eq!(scenario.run().code, 1);
    let printed = scenario.output("p", 0, "stderr");
    assert!(
        printed.contains("cannot enter") && printed.contains("gone"),
        "{printed}"
    );
}

#[test]
fn words_are_run_without_a_shell() {
    let scenario = Scenario::new(
        "{ task: words, processes: [ { name: p, run: [printf, '%s\\n', '$HOME', 'a  b', '*'] } ] }",
    );
    assert_eq!(scenario.run().code, 0);
    assert_eq!(scenario.output("p", 0, "stdout"), "$HOME\na  b\n*");
}

#[test]
fn another_user_is_that_user_in_everything() {
    if lacks_root("run processes as another user") {
        return;
    }
    let Ok(Some(account)) = users::by_name("nobody") else {
        println!("skipped: there is no user nobody");
        return;
    };
    let scenario = Scenario::new(
        "
task: other
user: nobody
processes:
  - name: p
    run: 'id -u > uid; id -g > gid; id -G > groups; echo $HOME $USER $LOGNAME > env; echo out; echo err >&2'
  - { name: rotated, run: 'echo out', log: { mode: rotate, size: 1KiB, backups: 1 } }
  - { name: root, user: root, run: 'id -u > uid.root' }
",
    );
    assert_eq!(
        scenario.run().code,
        0,
        "{:?}",
        scenario.task_log().ends("p")
    );
    assert_eq!(scenario.text("uid"), account.uid.to_string());
    assert_eq!(scenario.text("gid"), account.gid.to_string());
    let mut groups: Vec<u32> = scenario
        .text("groups")
        .split(' ')
        .map(|gid| gid.parse().expect("a number"))
        .collect();
    let mut expected = account.groups.clone();
    groups.sort_unstable();
    expected.sort_unstable();
    assert_eq!(groups, expected, "and not one of root's");
    assert_eq!(
        scenario.text("env"),
        format!("{} {name} {name}", account.home, name = "nobody")
    );
    assert_eq!(
        scenario.text("uid.root"),
        "0",
        "a process may say otherwise"
    );
    for path in [
        "",
        "uid",
        ".logs/p/0/stdout",
        ".logs/p/0/stderr",
        ".logs/p/0",
        ".logs/rotated/0/stdout",
    ] {
        let owner = std::fs::metadata(scenario.sandbox(path)).expect(path);
        assert_eq!(
            (owner.uid(), owner.gid()),
            (account.uid, account.gid),
            "{path}"
        );
    }
}

#[test]
fn a_user_that_there_is_not_is_refused_and_nothing_is_made() {
    let scenario = Scenario::new("{ task: ghost, user: no-such-user, run: 'true' }");
    let ended = scenario.start().wait_unproved();
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.contains("no-such-user"), "{}", ended.stderr);
    assert!(!scenario.root.path().exists(), "not even the root");
}

#[test]
fn a_program_that_is_there_runs_from_a_relative_path_in_the_sandbox() {
    let scenario = Scenario::new(
        "
task: script
order: [[make, use]]
processes:
  - { name: make, run: 'printf \"#!/bin/sh\\nexit 6\\n\" > own; chmod +x own' }
  - { name: use, run: [./own] }
",
    );
    assert_eq!(scenario.run().code, 1);
    assert_eq!(scenario.task_log().ends("use"), [exited(6)]);
}
