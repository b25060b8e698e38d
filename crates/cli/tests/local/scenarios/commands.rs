//! The command line: interrupts, kills, refusals.

use std::fs;

use baton_model::task::PlanChange;

use crate::support::{Scenario, Signal, exited, is_alive, lacks_root, until};

/// Stops at once on SIGTERM, and cleans up.
const POLITE: &str = "
task: polite
processes:
  - { name: main, run: 'echo $$ > pid; echo x >> runs; sleep 1000' }
  - { name: clean, final: true, run: 'echo x >> clean' }
";

/// Ignores SIGTERM.
const STUBBORN: &str = "
task: stubborn
finalization_wait: 10m
processes:
  - name: main
    stop: { grace: 10m }
    run: 'trap \"echo x >> asked\" TERM; echo $$ > pid; while :; do sleep 0.02; done'
  - { name: clean, final: true, run: 'touch clean' }
";

#[test]
fn an_interrupt_stops_the_task_and_runs_its_final_processes() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let scenario = Scenario::new(POLITE);
        let runner = scenario.start();
        let pid = scenario.wait_for_pid("pid");
        runner.signal(signal);
        assert_eq!(runner.wait().code, 3, "{signal:?}");
        assert!(scenario.has("clean") && !is_alive(pid));
    }
}

#[test]
fn a_second_interrupt_kills_at_once() {
    let scenario = Scenario::new(STUBBORN);
    let runner = scenario.start();
    let pid = scenario.wait_for_pid("pid");
    runner.signal(Signal::INT);
    scenario.wait_for("asked");
    assert!(is_alive(pid), "it does as it likes");
    runner.signal(Signal::INT);
    assert_eq!(runner.wait().code, 3);
    assert!(!is_alive(pid) && !scenario.has("clean"));
}

#[test]
fn kill_ends_a_driven_task_with_its_final_processes_and_waits_for_that() {
    let scenario = Scenario::new(POLITE);
    let runner = scenario.start();
    let pid = scenario.wait_for_pid("pid");
    let killed = scenario.baton(&["kill", "t-1"]);
    assert!(killed.status.success(), "{killed:?}");
    assert!(String::from_utf8_lossy(&killed.stdout).contains("KILLED"));
    assert!(scenario.is_finished() && scenario.has("clean") && !is_alive(pid));
    assert_eq!(runner.wait().code, 3);
}

#[test]
fn kill_now_ends_a_driven_task_at_once() {
    let scenario = Scenario::new(STUBBORN);
    let runner = scenario.start();
    let pid = scenario.wait_for_pid("pid");
    let killed = scenario.baton_json(&["kill", "t-1", "--now", "--json"]);
    assert_eq!(killed[0]["state"], "KILLED");
    assert!(!is_alive(pid) && !scenario.has("clean") && !scenario.has("asked"));
    assert_eq!(runner.wait().code, 3);
}

#[test]
fn kill_ends_a_task_whose_runner_is_dead() {
    let scenario = Scenario::new(POLITE);
    let runner = scenario.start();
    let pid = scenario.wait_for_pid("pid");
    runner.kill();
    assert_eq!(scenario.status()["orphaned"], true);
    let killed = scenario.baton_json(&["kill", "t-1", "--json"]);
    assert_eq!(killed[0]["state"], "KILLED");
    assert!(scenario.is_finished() && scenario.has("clean") && !is_alive(pid));
    scenario.prove_runner_outputs();
    scenario.prove_status();
    assert_eq!(scenario.task_log().ends("clean"), [exited(0)]);
}

#[test]
fn kill_now_ends_a_task_of_which_only_processes_are_left() {
    let scenario = Scenario::new(STUBBORN);
    let runner = scenario.start();
    let pid = scenario.wait_for_pid("pid");
    runner.kill();
    scenario.kill_coordinator();
    assert!(is_alive(pid));
    let killed = scenario.baton_json(&["kill", "t-1", "--now", "--json"]);
    assert_eq!(killed[0]["state"], "KILLED", "{killed}");
    assert!(!is_alive(pid) && !scenario.has("clean"));
    scenario.prove_runner_outputs();
    scenario.prove_status();
}

#[test]
fn kill_finds_nothing_to_do_for_a_task_that_has_ended() {
    let scenario = Scenario::new("{ task: short, run: 'true' }");
    assert_eq!(scenario.run().code, 0);
    let killed = scenario.baton(&["kill", "t-1"]);
    assert!(killed.status.success());
    assert!(String::from_utf8_lossy(&killed.stdout).contains("nothing to kill"));
    assert_eq!(scenario.task_log().state(), "SUCCESS");
}

#[test]
fn a_task_that_has_ended_tells_its_end_again_and_runs_nothing() {
    for (command, code, state) in [("true", 0, "SUCCESS"), ("exit 9", 1, "FAILED")] {
        let scenario = Scenario::new(&format!(
            "{{ task: over, run: 'echo x >> runs; {command}' }}"
        ));
        assert_eq!(scenario.run().code, code);
        let events = scenario.task_log().events();
        for with_its_file in [true, false] {
            let runner = if with_its_file {
                scenario.start()
            } else {
                scenario.resume()
            };
            let ended = runner.wait_unproved();
            assert_eq!(ended.code, code, "{ended:?}");
            assert_eq!(ended.state(), Some(state), "it is told: {ended:?}");
        }
        assert_eq!(scenario.count_lines("runs"), 1);
        assert_eq!(
            scenario.task_log().events(),
            events,
            "nothing has happened since"
        );
        assert!(scenario.is_finished());
    }
}

#[test]
fn a_second_runner_is_refused_while_the_first_drives() {
    let scenario = Scenario::new(POLITE);
    let first = scenario.start();
    scenario.wait_for_pid("pid");
    for second in [scenario.start(), scenario.resume()] {
        let second = second.wait_unproved();
        assert_eq!(second.code, 2, "{second:?}");
        assert!(second.stderr.contains("t-1"), "{}", second.stderr);
    }
    first.signal(Signal::INT);
    assert_eq!(first.wait().code, 3);
    assert_eq!(scenario.count_lines("runs"), 1);
}

#[test]
fn a_changed_definition_under_the_same_id_is_refused() {
    let scenario = Scenario::new(POLITE);
    let first = scenario.start();
    let pid = scenario.wait_for_pid("pid");
    first.kill();
    scenario.define(&POLITE.replace("sleep 1000", "sleep 1001"));
    let refused = scenario.start().wait_unproved();
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("another definition"),
        "{}",
        refused.stderr
    );
    assert!(is_alive(pid), "what runs goes on");
    scenario.define(POLITE);
    let again = scenario.start();
    again.wait_for_change("the plan goes on", |change| {
        matches!(change, PlanChange::Resumed { .. })
    });
    again.signal(Signal::INT);
    assert_eq!(again.wait().code, 3);
    assert_eq!(scenario.count_lines("runs"), 1);
}

#[test]
fn what_is_not_bound_or_not_right_is_refused_and_nothing_is_made() {
    for definition in [
        "{ task: port, run: 'echo {{ ports.http }}' }",
        "{ task: param, params: { day: }, run: 'echo {{ params.day }}' }",
        "{ task: wrong, rum: 'true' }",
        "{ task: cycle, processes: [ { name: a, run: 'true', after: [b] }, { name: b, run: 'true', after: [a] } ] }",
        "not a task",
    ] {
        let scenario = Scenario::new(definition);
        let refused = scenario.start().wait_unproved();
        assert_eq!(refused.code, 2, "{definition}: {refused:?}");
        assert!(!refused.stderr.is_empty());
        assert!(!scenario.root.path().exists(), "{definition}");
    }
}

#[test]
fn a_task_that_was_never_begun_cannot_be_gone_on_with() {
    let scenario = Scenario::new(POLITE);
    let refused = scenario.resume().wait_unproved();
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("no task"), "{}", refused.stderr);
}

#[test]
fn simplerun_shows_the_output_of_one_command_and_exits_as_it_did() {
    let scenario = Scenario::new("");
    let good = scenario.baton(&[
        "simplerun",
        "--task-id",
        "s-1",
        "-E",
        "WHO=you",
        "--",
        "echo hello $WHO",
    ]);
    let text = String::from_utf8_lossy(&good.stdout).into_owned();
    assert!(
        good.status.success() && text.contains("simple | hello you"),
        "{text}"
    );
    assert!(text.contains("SUCCESS"), "{text}");
    let words = scenario.baton(&[
        "simplerun",
        "--name",
        "w",
        "--",
        "printf",
        "%s\n",
        "$WHO  x",
    ]);
    assert!(
        String::from_utf8_lossy(&words.stdout).contains("w | $WHO  x"),
        "{words:?}"
    );
    let bad = scenario.baton(&["simplerun", "--", "echo oh no >&2; exit 3"]);
    assert_eq!(bad.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&bad.stdout).contains("oh no"),
        "{bad:?}"
    );
}

#[test]
fn a_watcher_that_goes_away_does_not_end_the_task() {
    let scenario =
        Scenario::new("{ task: alone, run: 'until test -e go; do sleep 0.02; done; touch done' }")
            .through("\"$@\" | head -n 1 > /dev/null");
    let runner = scenario.start();
    until("the task", || {
        scenario.root.runner_log(&scenario.id).exists()
    });
    scenario.wait_for("");
    scenario.touch("go");
    runner.wait_unproved();
    scenario.wait_for("done");
    until("the end of the task", || scenario.is_finished());
    assert_eq!(scenario.task_log().state(), "SUCCESS");
}

#[test]
fn what_cannot_be_killed_makes_a_task_lost() {
    if lacks_root("make a process that its own runner may not kill") {
        return;
    }
    // A setuid program, in a task of an unprivileged user.
    let scenario = Scenario::new("{ task: risen, run: 'exec ../../../rise --reuid 0 --regid 0 --clear-groups sh -c \"echo \\$\\$ > /proc/self/fd/1; exec sleep 1000\"' }")
        .through("exec setpriv --reuid nobody --regid nogroup --clear-groups \"$@\"")
        .allow_leftovers();
    let rise = scenario.dir().join("rise");
    if fs::copy("/usr/bin/setpriv", &rise).is_err() {
        println!("skipped: there is no setpriv");
        return;
    }
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(&rise, fs::Permissions::from_mode(0o4755)).expect("our own");
    fs::create_dir(scenario.root.path()).expect("our own");
    fs::set_permissions(scenario.root.path(), fs::Permissions::from_mode(0o777)).expect("our own");
    let runner = scenario.start();
    let pid = scenario.wait_for_pid(".logs/risen/0/stdout");
    runner.signal(Signal::INT);
    // Two signals that come at once are one.
    runner.wait_for("the first signal", |line| line["kind"] == "note");
    runner.signal(Signal::INT);
    assert_eq!(runner.wait().code, 4);
    assert!(is_alive(pid), "and that is what LOST says");
}
