//! The four things one process may wait for in another.

use super::*;
use baton_model::task::Disposition;

fn pair(condition: Condition) -> TaskSpec {
    let mut b = process("b");
    b.after = vec![on("a", condition)];
    let mut spec = task(vec![process("a"), b]);
    spec.max_failures = 0;
    spec
}

#[test]
fn exit_is_met_by_success_and_by_failure_for_good() {
    for code in [0, 1] {
        let mut rig = Rig::new(pair(Condition::Exit));
        assert_eq!(rig.launched(), ["a"]);
        rig.exit("a", code);
        assert_eq!(rig.launched(), ["b"]);
        rig.exit("b", 0);
        rig.assert_finished(AttemptState::Success);
    }
}

#[test]
fn exit_is_not_met_while_another_run_follows() {
    let mut spec = pair(Condition::Exit);
    spec.processes[0].max_failures = 2;
    let mut rig = Rig::new(spec);
    rig.exit("a", 1);
    assert_eq!(rig.launched(), ["a", "a"]);
    rig.exit("a", 1);
    assert_eq!(rig.launched(), ["b"]);
}

#[test]
fn exit_of_what_never_ran_is_not_met() {
    let mut c = process("c");
    c.after = vec![on("b", Condition::Exit)];
    let mut spec = task(vec![process("a"), after("b", &["a"]), c]);
    spec.max_failures = 0;
    let mut rig = Rig::new(spec);
    rig.exit("a", 1);
    rig.assert_finished(AttemptState::Failed);
    assert_eq!(rig.at("c").disposition, Disposition::Blocked);
}

#[test]
fn started_is_met_by_the_start_of_a_daemon_and_stays_met() {
    let mut spec = pair(Condition::Started);
    spec.processes[0].daemon = true;
    spec.processes[0].ephemeral = true;
    spec.processes[1].ephemeral = true;
    spec.processes.push(process("main"));
    let mut rig = Rig::new(spec);
    assert_eq!(rig.launched(), ["a", "main"]);
    rig.start("a");
    assert_eq!(rig.launched(), ["b"]);
    rig.exit("b", 0);
    rig.end("a", Outcome::Exited(0));
    rig.exit("main", 0);
    rig.start("a");
    rig.killed("a");
    rig.assert_finished(AttemptState::Success);
}

#[test]
fn a_launch_that_fails_for_good_blocks_processes_that_wait_for_the_start() {
    let mut rig = Rig::new(pair(Condition::Started));
    rig.launch_failed("a");
    rig.assert_finished(AttemptState::Failed);
    assert_eq!(rig.at("b").disposition, Disposition::Blocked);
}

#[test]
fn healthy_is_met_by_the_readiness_check() {
    let mut spec = pair(Condition::Healthy);
    spec.processes[0].ready = Some(check());
    let mut rig = Rig::new(spec);
    rig.start("a");
    assert_eq!(rig.launched(), ["a"]);
    let (process, run) = rig.live("a");
    rig.feed(Input::Ready { process, run });
    assert_eq!(rig.launched(), ["b"]);
    rig.feed(Input::Ready { process, run });
    assert_eq!(rig.plan.counts().noticed("plan/ready-not-expected"), 1);
    assert!(rig.at("a").live.unwrap().ready);
}

#[test]
fn healthy_without_a_check_is_met_by_the_start() {
    let mut rig = Rig::new(pair(Condition::Healthy));
    rig.start("a");
    assert_eq!(rig.launched(), ["a", "b"]);
}

#[test]
fn what_ends_without_ever_being_ready_blocks_processes_that_wait_for_it() {
    let mut spec = pair(Condition::Healthy);
    spec.processes[0].ready = Some(check());
    let mut rig = Rig::new(spec);
    rig.exit("a", 0);
    rig.assert_finished(AttemptState::Failed);
}

#[test]
fn several_conditions_must_all_be_met() {
    let mut c = process("c");
    c.after = vec![on("a", Condition::Started), on("b", Condition::Exit)];
    let mut spec = task(vec![process("a"), process("b"), c]);
    spec.max_failures = 0;
    let mut rig = Rig::new(spec);
    rig.launched();
    rig.exit("b", 1);
    assert_eq!(rig.launched(), names(&[]));
    rig.start("a");
    assert_eq!(rig.launched(), ["c"]);
}
