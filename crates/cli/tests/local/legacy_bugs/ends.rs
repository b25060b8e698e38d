//! Ends and their reports.

use baton_model::outcome::Outcome;
use baton_model::task::{Disposition, PlanChange, RunEnd};
use serde_json::Value;

use crate::support::{Scenario, Signal, exited, is_alive, signalled, until};

#[test]
fn legacy_bug_01_the_code_and_the_time_of_every_end_are_told_zero_and_failures_too() {
    let scenario = Scenario::new(
        "
task: codes
max_failures: 0
processes:
  - { name: good, run: 'exit 0' }
  - { name: bad, run: 'exit 42' }
",
    );
    assert_eq!(scenario.run().code, 0);
    let status = scenario.status();
    assert_eq!(status["processes"][0]["last_end"], "exit 0");
    assert_eq!(status["processes"][1]["last_end"], "exit 42");
    let read = scenario.baton_json(&["read", "t-1", "--json"]);
    let ends: Vec<&Value> = read["events"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|event| event["change"].get("run-ended"))
        .collect();
    let mut codes: Vec<_> = ends
        .iter()
        .map(|end| end["end"]["seen"]["exited"].as_i64())
        .collect();
    codes.sort_unstable();
    assert_eq!(codes, [Some(0), Some(42)]);
    let log = scenario.task_log();
    for name in ["good", "bad"] {
        let last = log.progress(name).last.expect("it has run");
        assert!(last.ended.mono >= last.started.expect("started").mono);
        assert!(last.ended.wall.0 > 0, "replayed, with its time");
    }
}

#[test]
fn legacy_bug_02_a_launch_that_fails_is_an_ordinary_failure_tried_again_and_replayed() {
    let scenario = Scenario::new(
        "
task: missing
order: [[wait, p]]
processes:
  - { name: wait, run: 'until test -e go; do sleep 0.02; done' }
  - { name: p, run: [./later], max_failures: 0, min_duration: 50ms }
",
    );
    let runner = scenario.start();
    scenario.wait_for("");
    scenario.touch("go");
    runner.wait_for_end("p", 1);
    // In the middle of it: the log must lead a later runner to the same place.
    runner.kill();
    let runner = scenario.resume();
    std::fs::write(scenario.sandbox("draft"), "#!/bin/sh\nexit 0\n").expect("our own");
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(scenario.sandbox("draft"), mode).expect("our own");
    std::fs::rename(scenario.sandbox("draft"), scenario.sandbox("later")).expect("our own");
    assert_eq!(runner.wait().code, 0);
    let log = scenario.task_log();
    let mut ends = log.ends("p");
    assert_eq!(ends.pop(), Some(exited(0)));
    assert!(ends.len() >= 2);
    assert!(
        ends.iter()
            .all(|end| *end == RunEnd::Observed(Outcome::LaunchFailed)),
        "{ends:?}"
    );
    assert_eq!(log.progress("p").failures, ends.len() as u64);
    assert!(
        scenario.output("p", 0, "stderr").contains("./later"),
        "and it says why"
    );
}

#[test]
fn legacy_bug_03_an_error_of_the_runner_itself_is_not_a_success_and_the_task_goes_on_later() {
    // A limit on the size of files is a disk that is full, for the log too.
    let scenario = Scenario::new(
        "
task: full
processes:
  - { name: steady, run: 'echo $$ > steady.pid; until test -e go; do sleep 0.02; done' }
  - { name: noisy, run: 'test -e go', max_failures: 0, min_duration: 10ms, log: { destination: none } }
",
    )
    .through("ulimit -f 8; exec \"$@\"");
    let runner = scenario.start();
    let pid = scenario.wait_for_pid("steady.pid");
    let coordinator = scenario.coordinator();
    let ended = runner.wait_unproved();
    assert_eq!(ended.code, 5, "{ended:?}");
    assert!(
        ended.stderr.contains("baton local run --root ") && ended.stderr.contains(" --task-id t-1"),
        "{}",
        ended.stderr
    );
    assert_eq!(scenario.status()["state"], "ACTIVE");
    assert!(is_alive(pid) && is_alive(coordinator), "what runs goes on");
    let fixed = scenario.through("exec \"$@\"");
    let runner = fixed.resume();
    runner.wait_for_change("the plan goes on", |change| {
        matches!(change, PlanChange::Resumed { .. })
    });
    fixed.touch("go");
    assert_eq!(runner.wait().code, 0);
    assert_eq!(fixed.task_log().ends("steady"), [exited(0)], "and ran once");
}

#[test]
fn legacy_bug_04_the_whole_group_is_signalled_and_keeps_its_grace_though_the_shell_died() {
    let scenario = Scenario::new(
        r#"
task: group
processes:
  - name: main
    stop: { grace: 5m }
    run: |
      bash -c 'trap "asked=1" TERM; echo $$ > child.pid
        until test "$asked"; do sleep 0.02; done
        while kill -0 $0 2>/dev/null; do sleep 0.02; done
        touch child-had-its-time' $$ &
      wait
finalization_wait: 5m
"#,
    );
    let runner = scenario.start();
    let child = scenario.wait_for_pid("child.pid");
    runner.wait_for_start("main", 0);
    let shell = scenario.task_log().pid("main");
    runner.signal(Signal::TERM);
    until("the end of the shell", || !is_alive(shell));
    assert_eq!(runner.wait().code, 3);
    assert!(
        scenario.has("child-had-its-time"),
        "it outlived the shell, and was not shot"
    );
    assert!(!is_alive(child));
}

#[test]
fn legacy_bug_13_a_death_by_signal_counts_the_same_with_and_without_a_shell_between() {
    let policy = "max_failures: 3, min_duration: 0s, retryable: [139]";
    let scenario = Scenario::new(&format!(
        "
task: crash
max_failures: 0
processes:
  - {{ name: bare, run: [bash, -c, 'kill -SEGV $$'], {policy} }}
  - {{ name: shell, run: 'bash -c \"kill -SEGV \\$\\$\"; exit $?', {policy} }}
"
    ));
    assert_eq!(scenario.run().code, 0);
    let log = scenario.task_log();
    assert_eq!(log.ends("bare"), [signalled(11); 3]);
    assert_eq!(log.ends("shell"), [exited(139); 3]);
    for name in ["bare", "shell"] {
        let progress = log.progress(name);
        assert_eq!(
            (progress.failures, progress.disposition),
            (3, Disposition::Failed),
            "{name}"
        );
        assert_eq!(progress.kills, 0, "{name}: no kill of ours");
    }
}

#[test]
fn legacy_bug_14_a_signal_in_the_midst_of_work_loses_no_event_and_leaves_a_whole_log() {
    let busy: String = (0..20)
        .map(|number| {
            format!(
                "  - {{ name: p{number}, run: 'test -e stop', max_failures: 0, min_duration: 1ms, log: {{ destination: none }} }}\n"
            )
        })
        .collect();
    for events in [40, 90, 160] {
        let scenario = Scenario::new(&format!(
            "task: busy\nmax_concurrency: 4\nprocesses:\n{busy}"
        ));
        let runner = scenario.start();
        until("some work", || runner.lines().len() > events);
        runner.signal(Signal::TERM);
        // The harness compares all output in between with the log.
        assert_eq!(runner.wait().code, 3);
    }
}
