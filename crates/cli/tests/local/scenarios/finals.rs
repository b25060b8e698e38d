//! Final, ephemeral and daemon processes.

use baton_model::state::ProcessState;
use baton_model::task::Disposition;

use crate::support::{Scenario, exited, is_alive};

#[test]
fn final_processes_run_after_a_success_one_after_the_other() {
    let scenario = Scenario::new(
        "
task: finals
order: [[first, second]]
processes:
  - { name: second, final: true, run: 'echo second >> done' }
  - { name: first, final: true, run: 'echo first >> done' }
  - { name: main, run: 'sleep 0.02; echo main >> done' }
",
    );
    assert_eq!(scenario.run().code, 0);
    assert_eq!(scenario.text("done"), "main\nfirst\nsecond");
    let log = scenario.task_log();
    assert!(log.ended_before("main", "first") && log.ended_before("first", "second"));
}

#[test]
fn final_processes_run_after_a_failure_and_do_not_repair_it() {
    let scenario = Scenario::new(
        "
task: finals
processes:
  - { name: main, run: 'exit 4' }
  - { name: clean, final: true, run: 'touch clean' }
",
    );
    assert_eq!(scenario.run().code, 1);
    assert!(scenario.has("clean"));
    assert_eq!(scenario.task_log().ends("clean"), [exited(0)]);
}

#[test]
fn a_final_process_that_fails_blocks_its_successor_but_not_the_success() {
    let scenario = Scenario::new(
        "
task: finals
order: [[bad, never]]
processes:
  - { name: main, run: 'true' }
  - { name: bad, final: true, run: 'exit 1' }
  - { name: never, final: true, run: 'touch never' }
  - { name: other, final: true, run: 'touch other' }
",
    );
    assert_eq!(scenario.run().code, 0);
    let log = scenario.task_log();
    assert_eq!(log.progress("never").disposition, Disposition::Blocked);
    assert!(!scenario.has("never") && scenario.has("other"));
}

#[test]
fn final_processes_run_side_by_side_and_are_tried_again() {
    // Each can only end when the other is there too.
    let meet = |me: &str, you: &str| {
        format!(
            "run: 'touch {me}.up; until test -e {you}.up; do sleep 0.02; done; \
             echo x >> {me}.tries; test $(wc -l < {me}.tries) -ge 2', \
             max_failures: 3, min_duration: 0s"
        )
    };
    let scenario = Scenario::new(&format!(
        "
task: finals
processes:
  - {{ name: main, run: 'true' }}
  - {{ name: a, final: true, {} }}
  - {{ name: b, final: true, {} }}
",
        meet("a", "b"),
        meet("b", "a")
    ));
    assert_eq!(scenario.run().code, 0);
    let log = scenario.task_log();
    for name in ["a", "b"] {
        assert_eq!(log.ends(name), [exited(1), exited(0)], "{name}");
    }
}

#[test]
fn an_ephemeral_process_is_stopped_when_the_others_are_done() {
    let scenario = Scenario::new(
        "
task: helper
processes:
  - { name: helper, ephemeral: true, run: 'touch up; sleep 1000' }
  - { name: main, run: 'until test -e up; do sleep 0.02; done' }
",
    );
    assert_eq!(scenario.run().code, 0);
    let log = scenario.task_log();
    assert_eq!(log.progress("helper").state, ProcessState::Killed);
    assert_eq!(log.progress("helper").failures, 0, "it was our own doing");
    assert!(!is_alive(log.pid("helper")));
}

#[test]
fn an_ephemeral_process_that_fails_does_not_fail_the_task() {
    let scenario = Scenario::new(
        "
task: helper
processes:
  - { name: helper, ephemeral: true, run: 'exit 1' }
  - { name: main, run: 'until test -e go; do sleep 0.02; done' }
",
    );
    let runner = scenario.start();
    runner.wait_for_end("helper", 0);
    scenario.touch("go");
    assert_eq!(runner.wait().code, 0);
}

#[test]
fn a_daemon_is_run_again_until_its_task_is_over_and_gone_before_the_final_process() {
    let scenario = Scenario::new(
        "
task: all
processes:
  - name: daemon
    daemon: true
    ephemeral: true
    min_duration: 0s
    run: |
      echo $$ >> daemon.pids
      test $BATON_RUN -ge 2 && exec sleep 1000
      exit 0
  - name: main
    run: 'until test $(cat daemon.pids 2>/dev/null | wc -l) -ge 3; do sleep 0.02; done'
  - name: last
    final: true
    run: 'if kill -0 $(tail -1 daemon.pids) 2>/dev/null; then exit 1; fi; touch last'
",
    );
    assert_eq!(scenario.run().code, 0);
    let log = scenario.task_log();
    assert_eq!(log.ends("last"), [exited(0)], "the daemon was gone");
    let daemon = log.progress("daemon");
    assert_eq!((daemon.runs, daemon.successes, daemon.kills), (3, 2, 1));
    assert!(log.ended_before("main", "last") && log.ended_before("daemon", "last"));
}

#[test]
fn a_budget_that_is_used_up_ends_a_final_process_that_hangs() {
    let scenario = Scenario::new(
        "
task: hangs
finalization_wait: 300ms
processes:
  - { name: main, run: 'true' }
  - { name: hang, final: true, run: 'trap \"\" TERM; while :; do sleep 0.02; done' }
",
    );
    assert_eq!(scenario.run().code, 0, "final processes never count");
    assert_eq!(
        scenario.task_log().progress("hang").state,
        ProcessState::Killed
    );
}
