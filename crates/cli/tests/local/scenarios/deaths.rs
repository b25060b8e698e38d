//! Processes, coordinators and runners that are killed.

use baton_model::outcome::{KillCause, Outcome};
use baton_model::state::ProcessState;
use baton_model::task::{PlanChange, RunEnd};
use baton_model::time::Millis;

use crate::support::{
    Scenario, Signal, ends_of_orphans_are_known, exited, is_alive, send, signalled, until,
};

/// A process that can be killed and retried, until the file `go` exists.
const PATIENT: &str = "
task: patient
processes:
  - name: work
    run: 'echo $$ > pid.$BATON_RUN; echo x >> runs; until test -e go; do sleep 0.02; done'
    min_duration: 0s
";

#[test]
fn a_process_that_is_killed_from_outside_runs_again_and_has_not_failed() {
    let scenario = Scenario::new(PATIENT);
    let runner = scenario.start();
    runner.wait_for_start("work", 0);
    assert!(send(scenario.wait_for_pid("pid.0"), Signal::KILL));
    scenario.wait_for_pid("pid.1");
    scenario.touch("go");
    assert_eq!(runner.wait().code, 0);
    let log = scenario.task_log();
    assert_eq!(log.ends("work"), [signalled(9), exited(0)]);
    assert_eq!(log.progress("work").failures, 0);
}

#[test]
fn a_process_that_is_killed_from_outside_has_failed_if_its_file_says_so() {
    let scenario = Scenario::new(
        "
task: once
processes:
  - { name: once, run: 'echo $$ > pid; sleep 1000', on_kill: fail }
",
    );
    let runner = scenario.start();
    assert!(send(scenario.wait_for_pid("pid"), Signal::KILL));
    assert_eq!(runner.wait().code, 1);
    assert_eq!(scenario.task_log().ends("once"), [signalled(9)]);
}

#[test]
fn a_process_that_crashes_has_failed() {
    let scenario = Scenario::new("{ task: crash, run: 'kill -SEGV $$' }");
    let runner = scenario.start();
    assert_eq!(runner.wait().code, 1);
    assert_eq!(scenario.task_log().ends("crash"), [signalled(11)]);
}

#[test]
fn processes_outlive_their_coordinator_and_their_true_ends_are_known() {
    let scenario = Scenario::new(
        "
task: orphans
max_failures: 0
processes:
  - { name: good, run: 'echo $$ > good.pid; until test -e go; do sleep 0.02; done; exit 0' }
  - { name: bad, run: 'echo $$ > bad.pid; until test -e go; do sleep 0.02; done; exit 7' }
  - { name: shot, run: 'echo $$ > shot.pid; until test -e go; do sleep 0.02; done; kill -USR1 $$' }
",
    );
    let runner = scenario.start();
    let pids: Vec<u32> = ["good.pid", "bad.pid", "shot.pid"]
        .map(|name| scenario.wait_for_pid(name))
        .into();
    for name in ["good", "bad", "shot"] {
        runner.wait_for_start(name, 0);
    }
    let dead = scenario.kill_coordinator();
    scenario.wait_for_successor(dead);
    runner.wait_for_change("the plan goes on", |change| {
        matches!(
            change,
            PlanChange::Resumed {
                boot_changed: false
            }
        )
    });
    assert!(pids.iter().all(|pid| is_alive(*pid)), "no signal hit them");
    scenario.touch("go");
    assert_eq!(runner.wait().code, 0);
    let log = scenario.task_log();
    assert_eq!(log.ends("good"), [exited(0)]);
    assert_eq!(log.ends("bad"), [exited(7)]);
    assert_eq!(log.ends("shot"), [signalled(10)]);
}

#[test]
fn processes_outlive_their_runner_and_are_found_again() {
    let scenario = Scenario::new(PATIENT);
    let runner = scenario.start();
    let pid = scenario.wait_for_pid("pid.0");
    runner.kill();
    assert!(is_alive(pid) && is_alive(scenario.coordinator()));
    let runner = scenario.resume();
    runner.wait_for_change("the plan goes on", |change| {
        matches!(change, PlanChange::Resumed { .. })
    });
    scenario.touch("go");
    assert_eq!(runner.wait().code, 0);
    assert_eq!(scenario.task_log().ends("work"), [exited(0)]);
    assert_eq!(scenario.count_lines("runs"), 1);
}

#[test]
fn a_process_may_end_without_a_runner_and_its_end_is_reported_later() {
    let scenario = Scenario::new(
        "{ task: alone, run: 'echo $$ > pid; until test -e go; do sleep 0.02; done; exit 5' }",
    );
    let runner = scenario.start();
    let pid = scenario.wait_for_pid("pid");
    runner.kill();
    scenario.touch("go");
    until("the end of the process", || !is_alive(pid));
    assert_eq!(scenario.resume().wait().code, 1);
    assert_eq!(scenario.task_log().ends("alone"), [exited(5)]);
}

#[test]
fn deaths_of_all_kinds_one_after_the_other_cost_only_what_was_killed_itself() {
    let scenario = Scenario::new(PATIENT);
    let mut runner = scenario.start();
    let mut run = 0_usize;
    for round in 0..2 {
        let pid = next_run(&scenario, run);
        runner.kill();
        assert!(is_alive(pid), "round {round}: it has outlived its runner");
        runner = scenario.resume();
        runner.wait_for_change("the plan goes on", |change| {
            matches!(change, PlanChange::Resumed { .. })
        });
        assert!(send(pid, Signal::KILL));
        run += 1;

        let pid = next_run(&scenario, run);
        let dead = scenario.kill_coordinator();
        scenario.wait_for_successor(dead);
        scenario.wait_for_adoption(dead, run as u64);
        assert!(
            is_alive(pid),
            "round {round}: it has outlived its coordinator"
        );
        assert!(send(pid, Signal::KILL));
        run += 1;
    }
    next_run(&scenario, run);
    scenario.touch("go");
    assert_eq!(runner.wait().code, 0);
    let log = scenario.task_log();
    let mut ends = log.ends("work");
    assert_eq!(ends.pop(), Some(exited(0)));
    let progress = log.progress("work");
    assert_eq!((progress.failures, ends.len()), (0, 4));
    if ends_of_orphans_are_known() {
        assert_eq!(ends, [signalled(9); 4]);
    }
    assert_eq!(scenario.count_lines("runs"), 5);
}

#[test]
fn a_process_outlives_runner_and_coordinator_together_and_is_watched_again() {
    let scenario = Scenario::new(PATIENT);
    let runner = scenario.start();
    let pid = next_run(&scenario, 0);
    runner.kill();
    let dead = scenario.kill_coordinator();
    let runner = scenario.resume();
    scenario.wait_for_adoption(dead, 0);
    assert!(is_alive(pid));
    scenario.touch("go");
    assert_eq!(runner.wait().code, 0);
    let ends = scenario.task_log().ends("work");
    if ends_of_orphans_are_known() {
        assert_eq!(ends, [exited(0)], "though its parent is none of ours");
    } else {
        assert_eq!(ends, [RunEnd::Lost, exited(0)]);
    }
}

/// Waits until this run is there, and its start is recorded: an unrecorded run
/// could not be distinguished from one that never started.
fn next_run(scenario: &Scenario, run: usize) -> u32 {
    let pid = scenario.wait_for_pid(&format!("pid.{run}"));
    until("the record of the start", || {
        let runs = scenario.task_log().runs("work");
        runs.get(run).is_some_and(|run| run.started.is_some())
    });
    pid
}

#[test]
fn when_all_processes_are_killed_the_run_is_lost_and_run_again() {
    let scenario = Scenario::new(PATIENT);
    let runner = scenario.start();
    let pid = scenario.wait_for_pid("pid.0");
    runner.wait_for_start("work", 0);
    runner.kill();
    scenario.kill_coordinator();
    assert!(send(pid, Signal::KILL));
    // Until it is reaped, the kernel still has its exit code.
    let there = format!("/proc/{pid}");
    until("nothing of the process is left", || {
        !std::path::Path::new(&there).exists()
    });
    let runner = scenario.resume();
    scenario.wait_for_pid("pid.1");
    scenario.touch("go");
    assert_eq!(runner.wait().code, 0);
    let log = scenario.task_log();
    assert_eq!(log.ends("work"), [RunEnd::Lost, exited(0)]);
    let progress = log.progress("work");
    assert_eq!(
        (progress.losses, progress.failures),
        (1, 0),
        "a loss is no failure"
    );
}

#[test]
fn a_child_in_the_background_dies_with_the_group_of_its_process() {
    let scenario = Scenario::new(
        "
task: background
order: [[parent, next]]
processes:
  - { name: parent, run: 'sleep 1000 & echo $! > child.pid' }
  - { name: next, run: 'until test -e go; do sleep 0.02; done' }
",
    );
    let runner = scenario.start();
    let child = scenario.wait_for_pid("child.pid");
    runner.wait_for_start("next", 0);
    until("the end of the child, though the task goes on", || {
        !is_alive(child)
    });
    scenario.touch("go");
    assert_eq!(runner.wait().code, 0);
}

#[test]
fn what_leaves_its_group_stays_and_what_does_not_goes_under_another_coordinator_too() {
    let scenario = Scenario::new(
        r#"
task: replaced
processes:
  - name: main
    run: |
      ( setsid bash -c 'trap "touch asked; exit 0" TERM; echo $$ > daemon.pid
        while :; do sleep 0.02; done' & )
      sleep 1000 &
      echo $! > child.pid
      until test -e go; do sleep 0.02; done
  - { name: later, run: 'until test -e done; do sleep 0.02; done', after: [main] }
"#,
    );
    let runner = scenario.start();
    let daemon = scenario.wait_for_pid("daemon.pid");
    let child = scenario.wait_for_pid("child.pid");
    runner.wait_for_start("main", 0);
    let dead = scenario.kill_coordinator();
    scenario.wait_for_adoption(dead, 0);
    scenario.touch("go");
    runner.wait_for_start("later", 0);
    until("the end of the child", || !is_alive(child));
    assert!(is_alive(daemon), "it goes with the task, not with the run");
    scenario.touch("done");
    assert_eq!(runner.wait().code, 0);
    assert!(scenario.has("asked") && !is_alive(daemon));
}

#[test]
fn a_process_that_ignores_the_signal_has_its_grace_and_no_more() {
    let scenario = Scenario::new(
        "
task: deaf
processes:
  - name: deaf
    ephemeral: true
    stop: { grace: 300ms }
    run: 'trap \"\" TERM; touch up; while :; do sleep 0.02; done'
  - { name: main, run: 'until test -e up; do sleep 0.02; done' }
",
    );
    assert_eq!(scenario.run().code, 0);
    let log = scenario.task_log();
    let [run] = log.runs("deaf")[..] else {
        panic!("one run");
    };
    assert_eq!(
        run.end,
        Some(RunEnd::Observed(Outcome::Killed(KillCause::Requested)))
    );
    let told = log.when("the end has begun", |change| {
        matches!(change, PlanChange::CleaningBegun { .. })
    });
    let grace = run.ended.expect("ended").mono.since(told);
    assert!(grace >= Millis(300), "it had its grace, not {grace:?}");
    assert_eq!(log.progress("deaf").state, ProcessState::Killed);
}

#[test]
fn a_daemonised_process_is_asked_to_stop_at_the_end_and_is_gone() {
    let scenario = Scenario::new(
        r#"
task: escape
processes:
  - name: main
    run: |
      ( setsid bash -c 'trap "touch asked; exit 0" TERM; echo $$ > daemon.pid
        while :; do sleep 0.02; done' & )
      until test -s daemon.pid; do sleep 0.02; done
  - { name: later, run: 'kill -0 $(cat daemon.pid) && touch outlived', after: [main] }
"#,
    );
    assert_eq!(scenario.run().code, 0);
    assert!(scenario.has("outlived"), "it is in no group of ours");
    assert!(scenario.has("asked"), "it could put things in order");
    assert!(!is_alive(scenario.wait_for_pid("daemon.pid")));
}
