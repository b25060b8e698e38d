//! Resuming after a crash.

use baton_model::task::{NextStep, PlanChange};
use baton_model::time::{Millis, Mono};
use baton_runner::sys::clock;
use baton_runner::sys::users;

use crate::support::{Scenario, Signal, exited, is_alive, is_root, until};

/// Notes every signal, and stops when it is told in another way.
const COUNTING: &str = "
task: counting
finalization_wait: 10m
processes:
  - name: main
    stop: { grace: 10m }
    run: |
      trap 'echo x >> asked' TERM
      echo $$ > pid
      until test -e leave; do sleep 0.02; done
";

fn resumed(change: &PlanChange) -> bool {
    matches!(change, PlanChange::Resumed { .. })
}

#[test]
fn legacy_bug_05_inspecting_a_task_that_is_being_stopped_signals_no_process() {
    let scenario = Scenario::new(COUNTING);
    let runner = scenario.start();
    let pid = scenario.wait_for_pid("pid");
    runner.signal(Signal::INT);
    until("the signal", || scenario.count_lines("asked") == 1);
    let look = || {
        assert_eq!(scenario.status()["state"], "CLEANING");
        scenario.prove_status();
        scenario.baton_json(&["read", "t-1", "--json"]);
        scenario.baton(&["tail", "t-1", "main"]);
    };
    look();
    runner.kill();
    look();
    assert_eq!(scenario.count_lines("asked"), 1);
    assert!(is_alive(pid));
    // A resume does not signal a second time either, which many programs take as a forced stop.
    let runner = scenario.resume();
    runner.wait_for_change("the plan goes on", resumed);
    look();
    scenario.touch("leave");
    assert_eq!(runner.wait().code, 3);
    assert_eq!(scenario.count_lines("asked"), 1);
}

#[test]
fn legacy_bug_07_going_on_neither_renews_the_budget_nor_runs_final_processes_twice() {
    let scenario = Scenario::new(
        "
task: budget
finalization_wait: 10m
processes:
  - name: main
    stop: { grace: 10m }
    run: 'trap \"touch asked\" TERM; touch up; until test -e leave; do sleep 0.02; done'
  - name: last
    final: true
    run: 'echo $$ > last.pid; echo x >> lasts; until test -e done; do sleep 0.02; done'
",
    );
    let runner = scenario.start();
    scenario.wait_for("up");
    runner.signal(Signal::INT);
    scenario.wait_for("asked");
    let deadline = |scenario: &Scenario| {
        scenario
            .task_log()
            .plan()
            .ending()
            .expect("ending")
            .deadline
    };
    let begun = deadline(&scenario);
    runner.kill();
    let runner = scenario.resume();
    runner.wait_for_change("the plan goes on in CLEANING", resumed);
    assert_eq!(deadline(&scenario), begun, "the budget is the first one");
    scenario.touch("leave");
    let pid = scenario.wait_for_pid("last.pid");
    runner.kill();
    let runner = scenario.resume();
    runner.wait_for_change("the plan goes on in FINALIZING", resumed);
    assert!(is_alive(pid), "it was left alone");
    assert_eq!(deadline(&scenario), begun);
    scenario.touch("done");
    assert_eq!(runner.wait().code, 3);
    assert_eq!(scenario.count_lines("lasts"), 1);
    assert_eq!(scenario.task_log().ends("last"), [exited(0)]);
}

#[test]
fn legacy_bug_08_final_processes_of_a_later_runner_have_everything_of_the_definition() {
    let user = if is_root() {
        "user: nobody"
    } else {
        "owner: us"
    };
    let scenario = Scenario::new(&format!(
        "
task: later
{user}
env: {{ TASK: of-task }}
processes:
  - {{ name: main, run: 'echo $$ > pid; sleep 1000' }}
  - name: last
    final: true
    umask: '077'
    env: {{ OWN: of-process }}
    log: {{ mode: rotate, size: 1KiB, backups: 1 }}
    run: 'echo $TASK $OWN $GIVEN $LANG > env; id -u > uid; umask > mask; seq 1 600'
"
    ))
    .env("LANG", "C.UTF-8")
    .args(&["-E", "GIVEN=of-person"]);
    let runner = scenario.start();
    scenario.wait_for_pid("pid");
    runner.kill();
    // With another environment, and without the file.
    let killed = scenario.baton_json(&["kill", "t-1", "--json"]);
    assert_eq!(killed[0]["state"], "KILLED");
    scenario.prove_status();
    assert_eq!(scenario.text("env"), "of-task of-process of-person C.UTF-8");
    assert_eq!(scenario.text("mask"), "0077");
    if is_root() {
        let account = users::by_name("nobody").expect("readable").expect("there");
        assert_eq!(scenario.text("uid"), account.uid.to_string());
    }
    assert!(scenario.has(".logs/last/0/stdout.1"), "rotated");
}

#[test]
fn legacy_bug_09_a_coordinator_that_dies_right_after_a_launch_leaves_no_second_copy() {
    for round in 0..6 {
        let scenario = Scenario::new(
            "
task: copies
processes:
  - name: p
    min_duration: 0s
    run: |
      for other in $(cat pids 2>/dev/null); do
        grep -q '^State:.[RSDT]' /proc/$other/status 2>/dev/null && echo $other >> overlap
      done
      echo $$ >> pids
      until test -e go; do sleep 0.02; done
",
        );
        let mut runner = scenario.start();
        scenario.wait_for("pids");
        let dead = scenario.kill_coordinator();
        if round % 2 == 0 {
            scenario.wait_for_successor(dead);
        } else {
            runner.kill();
            runner = scenario.resume();
        }
        runner.wait_for_change("the plan goes on", resumed);
        scenario.touch("go");
        assert_eq!(runner.wait().code, 0, "round {round}");
        assert!(!scenario.has("overlap"), "round {round}: two at once");
        let (runs, copies) = (
            scenario.task_log().runs("p").len(),
            scenario.count_lines("pids"),
        );
        assert_eq!(runs, copies, "round {round}: every copy is a run");
    }
}

#[test]
fn legacy_bug_12_going_on_does_not_restart_the_pause_between_two_runs() {
    let scenario = Scenario::new(
        "
task: pause
processes:
  - { name: p, run: 'test $BATON_RUN = 1', max_failures: 2, min_duration: 1500ms }
",
    );
    let runner = scenario.start();
    runner.wait_for_end("p", 0);
    runner.kill();
    let (ended, not_before) = pause(&scenario);
    assert_eq!(not_before, ended + Millis(1500), "from the end of the run");
    let runner = scenario.resume();
    runner.wait_for_change("the plan goes on", resumed);
    assert_eq!(scenario.task_log().progress("p").not_before, not_before);
    runner.kill();
    until("the end of the pause, without a runner", || {
        clock::now().mono >= not_before
    });
    let runner = scenario.resume();
    assert_eq!(runner.wait().code, 0);
    let log = scenario.task_log();
    let last_resumed = log
        .events()
        .iter()
        .rev()
        .find(|event| resumed(&event.change))
        .map(|event| event.at.mono);
    let ordered = log.runs("p")[1].ordered.mono;
    assert!(ordered >= not_before);
    // Either the second runner observed the end of the pause before it died, or the third began
    // the run in the very step in which it resumed: a restarted pause would delay it.
    assert!(
        Some(ordered) <= last_resumed,
        "{ordered:?} {last_resumed:?}"
    );
}

fn pause(scenario: &Scenario) -> (Mono, Mono) {
    let events = scenario.task_log().events();
    let found = events.iter().find_map(|event| match event.change {
        PlanChange::RunEnded {
            ended,
            next: NextStep::Restart { not_before, .. },
            ..
        } => Some((ended.mono, not_before)),
        _ => None,
    });
    found.expect("a run that is followed by another")
}
