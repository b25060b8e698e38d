//! Defects that similar planners are known for, each with a test that this one does not have it.

use super::*;
use baton_model::task::{Disposition, RunEnd};

#[test]
fn a_failure_keeps_its_exit_code_and_its_time() {
    let mut rig = Rig::new(task(vec![process("a"), process("b")]));
    rig.start("a");
    rig.now += 250;
    rig.end("a", Outcome::Exited(42));
    let last = rig.replayed().process(rig.no("a")).unwrap().last.unwrap();
    assert_eq!(last.state, ProcessState::Failed);
    assert_eq!(last.end, RunEnd::Observed(Outcome::Exited(42)));
    assert_eq!(last.ended.mono, Mono(1_250));
    assert_eq!(last.ended.wall, Wall(1_250 + WALL_AHEAD));
}

#[test]
fn a_launch_failure_is_a_failure_and_can_be_replayed() {
    let mut spec = task(vec![process("a")]);
    spec.processes[0].max_failures = 2;
    let mut rig = Rig::new(spec);
    rig.launch_failed("a");
    assert_eq!(rig.at("a").failures, 1);
    assert_eq!(rig.at("a").last.unwrap().state, ProcessState::Failed);
    rig.crash_and_resume();
    assert_eq!(rig.launched(), ["a"]);
    rig.launch_failed("a");
    rig.assert_finished(AttemptState::Failed);
    rig.crash_and_resume();
    rig.assert_finished(AttemptState::Failed);
}

#[test]
fn a_replay_orders_nothing() {
    let mut rig = Rig::new(task(vec![process("a"), process("b")]));
    rig.start("b");
    rig.exit("a", 1);
    assert_eq!(rig.state(), AttemptState::Cleaning);
    let mut plan = rig.replayed();
    assert!(plan.is_recovering());
    assert_eq!(plan.next_due(), None);
    let mut outbox = Outbox::new(Epoch(1));
    for input in [Input::Tick, Input::Kill { grace: None }] {
        let batch = outbox.accept(plan.handle(now(90_000), input));
        assert_eq!(batch, None);
    }
    assert_eq!(outbox.drain().count(), 0);
}

#[test]
fn a_recovery_does_not_renew_the_budget() {
    let mut rig = Rig::new(task(vec![process("a"), process("b"), last("x", &[])]));
    rig.start("b");
    rig.exit("a", 1);
    for _ in 0..6 {
        rig.now += 5_000;
        assert_eq!(rig.state(), AttemptState::Cleaning);
        rig.crash_and_resume();
    }
    assert!(rig.taken().contains(&Order::KillEverything));
    rig.killed("b");
    rig.assert_finished(AttemptState::Failed);
}

#[test]
fn a_recovery_leaves_running_final_processes_alone() {
    let mut rig = Rig::new(task(vec![process("a"), last("x", &[]), last("y", &[])]));
    rig.exit("a", 0);
    rig.start("x");
    rig.crash_and_resume();
    let (process, run) = rig.live("y");
    assert_eq!(rig.taken(), [Order::Launch { process, run }]);
    rig.exit("x", 0);
    rig.exit("y", 0);
    rig.assert_finished(AttemptState::Success);
    assert_eq!(rig.at("x").runs, 1);
}

#[test]
fn a_replay_does_not_restart_a_pause() {
    let mut spec = task(vec![process("a")]);
    spec.processes[0].min_duration = Millis(5_000);
    spec.processes[0].max_failures = 2;
    let mut rig = Rig::new(spec);
    rig.exit("a", 1);
    rig.now += 4_000;
    rig.crash_and_resume();
    assert_eq!(rig.plan.next_due(), Some(Mono(6_000)));
    rig.now += 1_000;
    rig.crash_and_resume();
    assert_eq!(rig.launched(), ["a"]);
}

#[test]
fn a_death_by_signal_is_the_same_failure_with_and_without_a_shell() {
    let ends = [Outcome::Signaled(11), Outcome::Exited(128 + 11)];
    let [plain, shell] = ends.map(|outcome| {
        let mut spec = task(vec![process("a"), process("b")]);
        spec.processes[0].max_failures = 2;
        let mut rig = Rig::new(spec);
        rig.start("a");
        rig.end("a", outcome);
        assert_eq!(rig.at("a").disposition, Disposition::Open);
        rig.start("a");
        rig.end("a", outcome);
        let mut progress = *rig.at("a");
        let last = progress.last.take().unwrap();
        assert_eq!(last.end, RunEnd::Observed(outcome), "what was seen is kept");
        (progress, last.state, rig.state())
    });
    assert_eq!(plain, shell);
    assert_eq!((plain.0.failures, plain.1), (2, ProcessState::Failed));
}
