//! Runs that Baton killed, and runs whose end is unknown.

use super::*;
use baton_model::task::RunEnd;

#[test]
fn what_baton_killed_runs_again_and_has_not_failed() {
    let mut rig = Rig::new(task(vec![process("a")]));
    rig.start("a");
    rig.killed("a");
    assert_eq!(rig.launched(), ["a", "a"]);
    assert_eq!(rig.at("a").last.unwrap().state, ProcessState::Killed);
    rig.exit("a", 0);
    rig.assert_finished(AttemptState::Success);
    assert_eq!((rig.at("a").failures, rig.at("a").kills), (0, 1));
}

#[test]
fn what_was_lost_runs_again_and_what_may_be_left_of_it_is_killed_first() {
    let mut rig = Rig::new(task(vec![process("a")]));
    rig.start("a");
    let (process, run) = rig.live("a");
    rig.taken();
    rig.lose("a");
    let next = RunNo(run.0 + 1);
    assert_eq!(
        rig.taken(),
        [
            Order::KillRun { process, run },
            Order::Launch { process, run: next }
        ]
    );
    rig.exit("a", 0);
    rig.assert_finished(AttemptState::Success);
}

#[test]
fn what_was_lost_at_the_end_is_shown_as_lost_and_not_as_never_started() {
    let mut paused = process("a");
    paused.min_duration = Millis(10_000);
    let mut rig = Rig::new(task(vec![paused, process("b"), after("c", &["a"])]));
    rig.start("a");
    rig.lose("a");
    assert!(matches!(rig.wait("a"), Some(Wait::MinDuration { .. })));
    rig.exit("b", 1);
    rig.assert_finished(AttemptState::Failed);
    assert_eq!(rig.wait("a"), Some(Wait::NotAgain));
    assert_eq!(rig.shown("a"), ProcessState::Lost);
    assert_eq!(rig.wait("c"), Some(Wait::Over));
    assert_eq!(rig.shown("c"), ProcessState::Waiting);
}

#[test]
fn an_unknown_launch_is_lost_too() {
    let mut rig = Rig::new(task(vec![process("a")]));
    rig.lose("a");
    let last = rig.at("a").last.unwrap();
    assert_eq!((last.state, last.started), (ProcessState::Lost, None));
    rig.exit("a", 0);
    rig.assert_finished(AttemptState::Success);
}

#[test]
fn a_mix_of_kills_losses_and_failures_counts_the_failures_only() {
    let mut spec = task(vec![process("a")]);
    spec.processes[0].max_failures = 3;
    let mut rig = Rig::new(spec);
    for _ in 0..50 {
        rig.start("a");
        rig.killed("a");
        rig.start("a");
        rig.lose("a");
        rig.lose("a");
    }
    assert_eq!(rig.at("a").failures, 0);
    rig.exit("a", 1);
    rig.start("a");
    rig.lose("a");
    rig.exit("a", 1);
    assert_eq!(rig.state(), AttemptState::Active);
    rig.exit("a", 1);
    rig.assert_finished(AttemptState::Failed);
    let progress = rig.at("a");
    assert_eq!(
        (progress.failures, progress.kills, progress.losses),
        (3, 50, 101)
    );
}

#[test]
fn the_first_report_of_an_end_stands_and_later_ones_are_counted() {
    let mut rig = Rig::new(task(vec![process("a"), process("b")]));
    rig.start("a");
    let (process, run) = rig.live("a");
    rig.lose("a");
    let before = rig.plan.snapshot();
    let late = [
        Input::Exited {
            process,
            run,
            at: now(1_000),
            outcome: Outcome::Exited(0),
            random: 0,
        },
        Input::Lost { process, run },
        Input::Started {
            process,
            run,
            at: now(1_000),
            identity: None,
        },
        Input::LaunchFailed {
            process,
            run,
            at: now(1_000),
            random: 0,
        },
        Input::Lost {
            process,
            run: RunNo(99),
        },
        Input::Lost {
            process: ProcessNo(99),
            run,
        },
    ];
    rig.taken();
    for input in late {
        rig.feed(input);
    }
    assert_eq!(rig.plan.snapshot(), before);
    assert_eq!(rig.taken(), []);
    let counted: Vec<_> = rig.plan.counts().iter().collect();
    let expected = [
        ("process/lost-after-end", 1),
        ("process/proof-after-lost", 2),
        ("plan/report-of-unknown-process", 1),
        ("plan/report-of-unknown-run", 1),
        ("plan/report-out-of-order", 1),
    ];
    assert_eq!(
        counted,
        expected.map(|(name, count)| (name.to_owned(), count))
    );
}

#[test]
fn an_end_whose_beginning_was_never_reported_is_taken() {
    let mut rig = Rig::new(task(vec![process("a")]));
    rig.now += 5;
    rig.end("a", Outcome::Exited(3));
    let last = rig.at("a").last.unwrap();
    assert_eq!(last.end, RunEnd::Observed(Outcome::Exited(3)));
    assert_eq!(last.started.unwrap().mono, Mono(1_005));
    rig.assert_finished(AttemptState::Failed);
}
