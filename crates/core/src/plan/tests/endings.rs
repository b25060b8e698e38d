//! Kills, in every state.

use super::*;

const GRACEFUL: Input = Input::Kill { grace: None };

#[test]
fn a_kill_stops_what_runs_then_finalizes() {
    let mut rig = Rig::new(task(vec![
        process("a"),
        after("b", &["a"]),
        last("clean", &[]),
    ]));
    rig.start("a");
    rig.taken();
    rig.feed(GRACEFUL);
    assert_eq!(rig.state(), AttemptState::Cleaning);
    assert!(matches!(rig.taken()[..], [Order::Stop { .. }]));
    rig.end("a", Outcome::Exited(143));
    rig.assert_state("a", ProcessState::Killed);
    assert_eq!(rig.at("a").failures, 0, "it was our signal");
    assert_eq!(rig.launched(), ["clean"]);
    rig.exit("clean", 0);
    rig.assert_finished(AttemptState::Killed);
    rig.assert_state("b", ProcessState::Waiting);
    assert_eq!(rig.wait("b"), Some(Wait::Over));
}

#[test]
fn a_kill_meets_a_launch_under_way() {
    let mut rig = Rig::new(task(vec![process("a"), process("b")]));
    rig.taken();
    rig.feed(GRACEFUL);
    assert_eq!(rig.taken().len(), 2, "both are told to stop");
    rig.start("a");
    rig.killed("a");
    rig.launch_failed("b");
    rig.assert_finished(AttemptState::Killed);
    rig.assert_state("b", ProcessState::Failed);
    assert_eq!(rig.at("b").failures, 0, "we took it back ourselves");
}

#[test]
fn a_kill_brings_its_own_budget() {
    let mut rig = Rig::new(task(vec![process("a")]));
    rig.start("a");
    rig.taken();
    rig.feed(Input::Kill {
        grace: Some(Millis(3_000)),
    });
    assert!(matches!(rig.taken()[..], [Order::Stop { grace, .. }] if grace == Millis(3_000)));
    rig.advance(2_999);
    assert_eq!(rig.taken(), []);
    rig.advance(1);
    assert_eq!(rig.taken(), [Order::KillEverything]);
    rig.killed("a");
    rig.assert_finished(AttemptState::Killed);
}

#[test]
fn what_had_succeeded_when_it_was_stopped_has_succeeded() {
    let mut rig = Rig::new(task(vec![process("a")]));
    rig.start("a");
    rig.feed(GRACEFUL);
    rig.end("a", Outcome::Exited(0));
    rig.assert_state("a", ProcessState::Success);
    rig.assert_finished(AttemptState::Killed);
}

#[test]
fn a_kill_at_once_runs_no_final_process() {
    let mut rig = Rig::new(task(vec![process("a"), last("clean", &[])]));
    rig.start("a");
    rig.taken();
    rig.feed(Input::KillNow);
    assert_eq!(rig.taken(), [Order::KillEverything]);
    assert_eq!(rig.state(), AttemptState::Cleaning, "until a is gone");
    rig.feed(Input::KillNow);
    assert_eq!(rig.taken(), [], "once is enough");
    rig.killed("a");
    rig.assert_finished(AttemptState::Killed);
    assert_eq!(rig.at("clean").runs, 0);
}

#[test]
fn a_kill_at_once_ends_the_checks() {
    let mut spec = task(vec![process("a")]);
    spec.processes[0].health = Some(check());
    let mut rig = Rig::new(spec);
    rig.start("a");
    let (process, run) = rig.live("a");
    rig.taken();
    rig.feed(Input::KillNow);
    let checks = Order::StopChecks { process, run };
    assert_eq!(rig.taken(), [checks, Order::KillEverything]);
}

/// In CLEANING after a failure, with `b` running and `clean` to come.
fn cleaning() -> Rig {
    let mut rig = Rig::new(task(vec![process("a"), process("b"), last("clean", &[])]));
    rig.start("b");
    rig.exit("a", 1);
    assert_eq!(rig.state(), AttemptState::Cleaning);
    rig.taken();
    rig
}

#[test]
fn a_kill_while_cleaning_shortens_the_budget_and_leaves_the_verdict() {
    let mut rig = cleaning();
    rig.feed(Input::Kill {
        grace: Some(Millis(100)),
    });
    rig.feed(Input::Kill {
        grace: Some(Millis(90_000)),
    });
    assert_eq!(rig.taken(), []);
    rig.advance(100);
    assert_eq!(rig.taken(), [Order::KillEverything], "never longer");
    rig.killed("b");
    rig.assert_finished(AttemptState::Failed);
}

#[test]
fn a_kill_at_once_while_cleaning_skips_the_final_processes() {
    let mut rig = cleaning();
    rig.feed(Input::KillNow);
    assert_eq!(rig.taken(), [Order::KillEverything]);
    rig.killed("b");
    rig.assert_finished(AttemptState::Failed);
    assert_eq!(rig.at("clean").runs, 0);
}

#[test]
fn a_kill_while_finalizing_leaves_the_verdict() {
    for input in [
        Input::KillNow,
        Input::Kill {
            grace: Some(Millis(0)),
        },
    ] {
        let mut rig = Rig::new(task(vec![process("a"), last("x", &[]), last("y", &["x"])]));
        rig.exit("a", 0);
        rig.start("x");
        rig.taken();
        rig.feed(input);
        assert_eq!(rig.taken(), [Order::KillEverything]);
        rig.killed("x");
        rig.assert_finished(AttemptState::Success);
        assert_eq!(rig.at("y").runs, 0);
        assert_eq!(rig.plan.counts().iter().count(), 1, "counted as late");
    }
}

#[test]
fn a_kill_after_the_end_is_counted_and_changes_nothing() {
    let mut rig = Rig::new(task(vec![process("a")]));
    rig.exit("a", 0);
    rig.assert_finished(AttemptState::Success);
    let before = rig.plan.snapshot();
    for input in [Input::KillNow, GRACEFUL, Input::GiveUp, Input::Tick] {
        rig.feed(input);
    }
    assert_eq!(rig.plan.snapshot(), before);
    assert_eq!(rig.taken(), []);
    let late: u64 = rig.plan.counts().iter().map(|(_, count)| count).sum();
    assert_eq!(late, 3);
}

#[test]
fn an_attempt_may_be_given_up_in_every_state() {
    let active = {
        let mut rig = Rig::new(task(vec![process("a"), last("x", &[])]));
        rig.start("a");
        rig
    };
    let finalizing = {
        let mut rig = Rig::new(task(vec![process("a"), last("x", &[])]));
        rig.exit("a", 0);
        rig.start("x");
        rig
    };
    for mut rig in [active, cleaning(), finalizing] {
        rig.feed(Input::GiveUp);
        rig.assert_finished(AttemptState::Lost);
    }
}

#[test]
fn a_process_that_was_timing_out_when_the_end_began_is_told_once() {
    let mut spec = task(vec![process("a"), process("b")]);
    spec.processes[0].timeout = Some(Millis(10));
    let mut rig = Rig::new(spec);
    rig.start("a");
    rig.advance(10);
    rig.taken();
    rig.exit("b", 1);
    assert_eq!(rig.taken(), []);
    rig.killed("a");
    rig.assert_finished(AttemptState::Failed);
}
