//! Daemons and ephemeral processes.

use super::*;
use baton_model::task::Disposition;

fn daemon(name: &str) -> ProcessSpec {
    let mut process = process(name);
    process.daemon = true;
    process
}

fn ephemeral(name: &str) -> ProcessSpec {
    let mut process = process(name);
    process.ephemeral = true;
    process
}

#[test]
fn an_ephemeral_process_is_stopped_when_the_main_one_ends() {
    let mut rig = Rig::new(task(vec![process("main"), ephemeral("log")]));
    rig.start("log");
    rig.exit("main", 0);
    assert_eq!(rig.state(), AttemptState::Cleaning);
    rig.killed("log");
    rig.assert_finished(AttemptState::Success);
    rig.assert_state("log", ProcessState::Killed);
}

#[test]
fn daemon_ephemeral_and_final_together() {
    let mut service = daemon("service");
    service.ephemeral = true;
    let mut rig = Rig::new(task(vec![
        process("main"),
        service,
        ephemeral("once"),
        last("clean", &[]),
    ]));
    assert_eq!(rig.launched(), ["main", "service", "once"]);
    rig.exit("service", 0);
    assert_eq!(rig.launched(), ["service"], "a daemon comes back");
    rig.exit("once", 0);
    assert_eq!(rig.launched(), names(&[]), "the other does not");
    rig.start("service");
    rig.exit("main", 0);
    rig.killed("service");
    assert_eq!(rig.launched(), ["clean"]);
    rig.exit("clean", 0);
    rig.assert_finished(AttemptState::Success);
}

#[test]
fn an_ephemeral_process_at_its_limit_has_finished_and_not_failed() {
    let mut follower = ephemeral("follower");
    follower.after = vec![on("log", Condition::Success)];
    let mut rig = Rig::new(task(vec![process("main"), ephemeral("log"), follower]));
    rig.launched();
    rig.exit("log", 1);
    assert_eq!(rig.at("log").disposition, Disposition::Finished);
    assert_eq!(rig.launched(), ["follower"]);
    assert_eq!(rig.state(), AttemptState::Active);
    rig.exit("follower", 0);
    rig.exit("main", 0);
    rig.assert_finished(AttemptState::Success);
}

#[test]
fn a_blocked_ephemeral_process_does_not_fail_the_task() {
    let mut spec = task(vec![process("main"), process("bad"), ephemeral("log")]);
    spec.max_failures = 0;
    spec.processes[2].after = vec![on("bad", Condition::Success)];
    let mut rig = Rig::new(spec);
    rig.run_all(|name, _| i32::from(name == "bad"));
    rig.assert_finished(AttemptState::Success);
}

#[test]
fn a_daemon_keeps_its_task_alive_until_it_fails() {
    let mut rig = Rig::new(task(vec![daemon("d"), process("a")]));
    rig.exit("a", 0);
    for _ in 0..200 {
        rig.exit("d", 0);
        assert_eq!(rig.state(), AttemptState::Active);
    }
    rig.exit("d", 1);
    rig.assert_finished(AttemptState::Failed);
    assert_eq!(rig.at("d").successes, 200);
}

#[test]
fn a_daemon_that_ran_for_ever_has_a_short_history() {
    let mut spec = task(vec![daemon("d")]);
    spec.processes[0].max_failures = 0;
    let plan = Plan::new(Arc::new(spec), now(0)).unwrap();
    let (mut young, mut old) = (plan.clone(), plan);
    let runs = |plan: &mut Plan, count: u64| {
        for run in 0..count {
            let _ = plan.handle(now(run), Input::Tick);
            let ended = Input::Exited {
                process: ProcessNo(0),
                run: RunNo(run),
                at: now(run),
                outcome: Outcome::Exited((run % 2) as i32),
                random: 0,
            };
            let _ = plan.handle(now(run), ended);
        }
    };
    runs(&mut young, 2);
    runs(&mut old, 20_000);
    let size = |plan: &Plan| format!("{:?}", plan.snapshot()).len();
    assert!(
        size(&old) < size(&young) + 100,
        "numbers grow, lists do not"
    );
}
