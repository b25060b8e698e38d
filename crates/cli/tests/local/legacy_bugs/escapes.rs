//! Processes that try to escape: none is left when the task has been killed.

use baton_runner::sys::cgroup;

use crate::support::{Scenario, is_alive, lacks_root, marked, until};

/// Every process with the mark must be gone, and so must every process that
/// wrote its number down, whether or not its environment can be read.
fn assert_no_process_is_left(scenario: &Scenario) {
    let mark = scenario.mark().expect("it was begun");
    assert!(marked(&mark).is_empty(), "left: {:?}", marked(&mark));
    let pids = scenario.text("pids");
    for pid in pids.lines() {
        let pid = pid.parse().expect("a number");
        assert!(!is_alive(pid), "{pid} is left");
    }
    scenario.prove_runner_outputs();
    scenario.prove_status();
}

fn kill_now(scenario: &Scenario) {
    let killed = scenario.baton_json(&["kill", "t-1", "--now", "--json"]);
    assert_eq!(killed[0]["state"], "KILLED", "{killed}");
}

/// One that sits in every corner that a process can get into.
const CORNERS: &str = r#"
task: corners
processes:
  - name: p
    run: |
      deaf='trap "" TERM HUP INT; echo $$ >> pids; while :; do sleep 0.02; done'
      bash -c "$deaf" &
      ( bash -c "$deaf" & )
      setsid bash -c "$deaf" &
      ( setsid bash -c "$deaf" & )
      ( setsid bash -c "( setsid bash -c '$deaf' & )" & )
      env -u BATON_MARK setsid bash -c "$deaf" &
      eval "$deaf"
"#;

fn escape_script(args: &[&str], orphaned: bool) {
    let scenario = Scenario::new(CORNERS).args(args);
    let runner = scenario.start();
    until("seven processes", || scenario.count_lines("pids") == 7);
    if orphaned {
        runner.kill();
        kill_now(&scenario);
    } else {
        kill_now(&scenario);
        assert_eq!(runner.wait().code, 3);
    }
    assert_no_process_is_left(&scenario);
}

fn has_cgroups() -> bool {
    let name = format!("baton-test-{}", std::process::id());
    let made = cgroup::create(&name);
    let there = made.is_some();
    if let Some(made) = made {
        made.remove().expect("it is empty");
    } else {
        println!("skipped: there are no control groups that we may make");
    }
    there
}

#[test]
fn no_corner_is_safe_without_a_cgroup() {
    escape_script(&["--no-cgroup"], false);
}

#[test]
fn no_corner_is_safe_without_a_cgroup_and_without_a_runner() {
    escape_script(&["--no-cgroup"], true);
}

#[test]
fn no_corner_is_safe_with_a_cgroup() {
    if has_cgroups() {
        escape_script(&[], false);
    }
}

#[test]
fn a_process_without_its_mark_is_still_in_its_cgroup_when_runner_and_coordinator_are_dead() {
    if !has_cgroups() {
        return;
    }
    let scenario = Scenario::new(
        r#"
task: unmarked
finalization_wait: 300ms
processes:
  - name: p
    run: |
      ( env -u BATON_MARK setsid bash -c 'trap "" TERM; echo $$ >> pids; while :; do sleep 0.02; done' & )
      until test -s pids; do sleep 0.02; done
      echo $$ > pid
      until test -e go; do sleep 0.02; done
"#,
    );
    let runner = scenario.start();
    scenario.wait_for_pid("pid");
    runner.wait_for_start("p", 0);
    runner.kill();
    let dead = scenario.kill_coordinator();
    let runner = scenario.resume();
    scenario.wait_for_adoption(dead, 0);
    scenario.touch("go");
    assert_eq!(runner.wait().code, 0);
    assert_no_process_is_left(&scenario);
}

#[test]
fn what_has_left_even_its_mark_is_gone_at_an_ordinary_end() {
    let scenario = Scenario::new(
        r#"
task: unmarked
finalization_wait: 1s
processes:
  - name: p
    run: |
      ( env -u BATON_MARK setsid bash -c 'trap "" TERM; echo $$ >> pids; while :; do sleep 0.02; done' & )
      until test -s pids; do sleep 0.02; done
"#,
    );
    assert_eq!(scenario.run().code, 0);
    assert_no_process_is_left(&scenario);
}

fn bomb(args: &[&str]) {
    if lacks_root("run a fork bomb as a user whose processes are limited") {
        return;
    }
    let scenario = Scenario::new(
        "
task: bomb
user: nobody
processes:
  - name: p
    rlimits: { nproc: 300 }
    log: { destination: none }
    run: |
      bomb() { echo $BASHPID >> pids; while :; do ( bomb ) & sleep 0.05; done; }
      bomb
",
    )
    .args(args);
    let runner = scenario.start();
    until("a hundred processes", || {
        scenario.count_lines("pids") >= 100
    });
    kill_now(&scenario);
    assert_eq!(runner.wait().code, 3);
    let before = scenario.count_lines("pids");
    assert_no_process_is_left(&scenario);
    assert_eq!(
        scenario.count_lines("pids"),
        before,
        "no process forks any more"
    );
}

#[test]
fn a_fork_bomb_is_put_out_without_a_cgroup() {
    bomb(&["--no-cgroup"]);
}

#[test]
fn a_fork_bomb_is_put_out_with_a_cgroup() {
    if has_cgroups() {
        bomb(&[]);
    }
}
