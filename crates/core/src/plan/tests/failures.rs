//! What counts as a failure, and what follows from one.

use super::*;
use baton_model::outcome::KillCause;
use baton_model::task::{Disposition, OnKill, RunEnd, StopCause};

#[test]
fn it_may_succeed_on_the_kth_try() {
    let mut spec = task(vec![process("a"), after("b", &["a"])]);
    spec.processes[0].max_failures = 4;
    let mut rig = Rig::new(spec);
    let launched = rig.run_all(|name, run| i32::from(name == "a" && run < 3));
    assert_eq!(launched, ["a", "a", "a", "a", "b"]);
    rig.assert_finished(AttemptState::Success);
    assert_eq!((rig.at("a").failures, rig.at("a").runs), (3, 4));
}

#[test]
fn the_last_allowed_failure_is_for_good() {
    let mut spec = task(vec![process("a")]);
    spec.processes[0].max_failures = 3;
    let mut rig = Rig::new(spec);
    assert_eq!(rig.run_all(|_, _| 1).len(), 3);
    rig.assert_finished(AttemptState::Failed);
}

#[test]
fn a_dependent_of_a_failed_process_never_starts_and_the_task_fails() {
    let mut rig = Rig::new(task(vec![process("a"), after("b", &["a"])]));
    assert_eq!(rig.run_all(|_, _| 1), ["a"]);
    rig.assert_finished(AttemptState::Failed);
    assert_eq!(rig.at("b").runs, 0);
    rig.assert_state("b", ProcessState::Waiting);
    let never = vec![(rig.no("a"), Condition::Success)];
    assert_eq!(rig.wait("b"), Some(Wait::Never(never)));
}

#[test]
fn without_a_limit_a_task_succeeds_despite_failures() {
    let mut spec = task(vec![process("a"), process("b"), process("c")]);
    spec.max_failures = 0;
    let mut rig = Rig::new(spec);
    rig.run_all(|name, _| i32::from(name != "c"));
    rig.assert_finished(AttemptState::Success);
    assert_eq!(rig.at("a").disposition, Disposition::Failed);
}

#[test]
fn a_blocked_process_fails_the_task_even_without_a_limit() {
    let mut spec = task(vec![
        process("a"),
        after("b", &["a"]),
        after("c", &["b"]),
        process("other"),
        after("another", &["other"]),
    ]);
    spec.max_failures = 0;
    let mut rig = Rig::new(spec);
    let launched = rig.run_all(|name, _| i32::from(name == "a"));
    assert_eq!(launched, ["a", "other", "another"], "the rest still runs");
    rig.assert_finished(AttemptState::Failed);
    assert_eq!(rig.at("c").disposition, Disposition::Blocked);
}

#[test]
fn the_task_fails_at_its_own_limit_and_stops_the_rest() {
    let mut spec = task(vec![process("a"), process("b"), process("c")]);
    spec.max_failures = 2;
    let mut rig = Rig::new(spec);
    rig.start("c");
    rig.exit("a", 1);
    assert_eq!(rig.state(), AttemptState::Active);
    rig.taken();
    rig.exit("b", 1);
    assert_eq!(rig.state(), AttemptState::Cleaning);
    let (process, run) = rig.live("c");
    assert_eq!(
        rig.taken(),
        [Order::Stop {
            process,
            run,
            signal: 15,
            grace: Millis(10_000)
        }]
    );
    rig.killed("c");
    rig.assert_finished(AttemptState::Failed);
    rig.assert_state("c", ProcessState::Killed);
}

#[test]
fn unlimited_failures_never_fail_a_process() {
    let mut spec = task(vec![process("a")]);
    spec.processes[0].max_failures = 0;
    let mut rig = Rig::new(spec);
    let launched = rig.run_all(|_, run| i32::from(run < 150));
    assert_eq!(launched.len(), 151, "and there is no cap on runs");
    rig.assert_finished(AttemptState::Success);
}

#[test]
fn a_code_that_is_not_worth_another_run_fails_for_good_at_once() {
    let mut spec = task(vec![process("a")]);
    spec.processes[0].max_failures = 0;
    spec.processes[0].retryable = Some(vec![75, 139]);
    let mut rig = Rig::new(spec);
    rig.exit("a", 75);
    rig.start("a");
    rig.end("a", Outcome::Signaled(11));
    assert_eq!(
        rig.at("a").disposition,
        Disposition::Open,
        "signal 11 is 139"
    );
    rig.exit("a", 2);
    rig.assert_finished(AttemptState::Failed);
    assert_eq!(rig.at("a").failures, 3);
}

#[test]
fn a_kill_from_outside_does_not_count_unless_the_file_says_so() {
    for signal in [1, 2, 3, 9, 15] {
        let mut rig = Rig::new(task(vec![process("a")]));
        rig.start("a");
        rig.end("a", Outcome::Signaled(signal));
        assert_eq!(rig.at("a").failures, 0);
        assert_eq!(rig.at("a").disposition, Disposition::Open, "runs again");
        let last = rig.at("a").last.expect("it has ended");
        assert_eq!(last.state, ProcessState::Killed);
        let mut spec = task(vec![process("a")]);
        spec.processes[0].on_kill = OnKill::Fail;
        let mut rig = Rig::new(spec);
        rig.start("a");
        rig.end("a", Outcome::Signaled(signal));
        rig.assert_finished(AttemptState::Failed);
    }
}

#[test]
fn what_ran_out_of_memory_has_failed() {
    let mut rig = Rig::new(task(vec![process("a")]));
    rig.start("a");
    rig.end("a", Outcome::Killed(KillCause::OutOfMemory));
    rig.assert_finished(AttemptState::Failed);
    assert_eq!(rig.at("a").failures, 1);
}

#[test]
fn what_is_unhealthy_is_stopped_and_has_failed_however_it_exits() {
    let mut spec = task(vec![process("a")]);
    spec.processes[0].health = Some(check());
    spec.processes[0].max_failures = 2;
    spec.processes[0].stop.signal = 2;
    let mut rig = Rig::new(spec);
    let (process, run) = rig.live("a");
    rig.taken();
    rig.start("a");
    assert_eq!(rig.taken(), [Order::StartChecks { process, run }]);
    rig.feed(Input::Unhealthy { process, run });
    let stop = Order::Stop {
        process,
        run,
        signal: 2,
        grace: Millis(10_000),
    };
    assert_eq!(rig.taken(), [Order::StopChecks { process, run }, stop]);
    rig.feed(Input::Unhealthy { process, run });
    assert_eq!(rig.taken(), [], "once is enough");
    assert_eq!(rig.plan.counts().noticed("plan/unhealthy-not-expected"), 1);
    rig.end("a", Outcome::Exited(0));
    let last = rig.at("a").last.unwrap();
    assert_eq!(last.state, ProcessState::Failed);
    assert_eq!(last.stopped, Some(StopCause::Unhealthy));
    assert_eq!(last.end, RunEnd::Observed(Outcome::Exited(0)));
    assert_eq!(rig.at("a").failures, 1);
}

#[test]
fn checks_end_with_their_run() {
    let mut spec = task(vec![process("a")]);
    spec.processes[0].health = Some(check());
    let mut rig = Rig::new(spec);
    let (process, run) = rig.live("a");
    rig.exit("a", 0);
    assert!(rig.taken().contains(&Order::StopChecks { process, run }));
}
