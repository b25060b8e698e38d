//! Another life of the runner, on the same boot and on another.

use super::*;
use crate::plan::{ApplyError, PlanError};
use baton_model::ids::BootId;
use baton_model::task::{Identity, PlanChange, RunEnd};

fn reboot(rig: &mut Rig, at: u64) {
    rig.crash();
    rig.now = at;
    rig.feed(Input::Resumed { boot_changed: true });
}

#[test]
fn orders_that_may_not_have_been_carried_out_are_repeated() {
    let mut spec = task(vec![
        process("launching"),
        process("running"),
        process("stopping"),
        process("checked"),
    ]);
    spec.processes[2].timeout = Some(Millis(10));
    spec.processes[3].health = Some(check());
    let mut rig = Rig::new(spec);
    for name in ["running", "stopping", "checked"] {
        rig.start(name);
    }
    rig.advance(10);
    rig.crash_and_resume();
    let run = RunNo(0);
    let expected = [
        Order::Launch {
            process: rig.no("launching"),
            run,
        },
        Order::Stop {
            process: rig.no("stopping"),
            run,
            signal: 15,
            grace: Millis(10_000),
        },
        Order::StartChecks {
            process: rig.no("checked"),
            run,
        },
    ];
    assert_eq!(rig.taken(), expected);
}

#[test]
fn reports_before_the_resumption_are_taken_but_nothing_is_started() {
    let mut rig = Rig::new(task(vec![process("a"), after("b", &["a"])]));
    rig.start("a");
    rig.crash();
    rig.now += 500;
    rig.end("a", Outcome::Exited(0));
    assert_eq!(rig.taken(), []);
    rig.assert_state("a", ProcessState::Success);
    rig.feed(Input::Resumed {
        boot_changed: false,
    });
    assert_eq!(rig.launched(), ["b"]);
}

#[test]
fn a_kill_while_recovering_is_carried_out_after_it() {
    let mut rig = Rig::new(task(vec![process("a")]));
    rig.start("a");
    rig.crash();
    rig.feed(Input::Kill { grace: None });
    assert_eq!(rig.taken(), []);
    rig.feed(Input::Resumed {
        boot_changed: false,
    });
    assert!(matches!(rig.taken()[..], [Order::Stop { .. }]));
}

#[test]
fn the_end_is_told_again_but_not_recorded_again() {
    let mut rig = Rig::new(task(vec![process("a")]));
    rig.exit("a", 0);
    let records = rig.log.len();
    for boot_changed in [false, true] {
        rig.crash();
        rig.feed(Input::Resumed { boot_changed });
        rig.assert_finished(AttemptState::Success);
    }
    assert_eq!(rig.log.len(), records);
}

#[test]
fn the_killing_before_final_processes_is_repeated_if_none_has_begun() {
    let mut rig = Rig::new(task(vec![process("a"), last("x", &[])]));
    rig.exit("a", 0);
    rig.crash_and_resume();
    let (process, run) = rig.live("x");
    let grace = Millis::from_secs(2);
    assert_eq!(
        rig.taken(),
        [
            Order::KillLeftovers { grace },
            Order::Launch { process, run }
        ]
    );
}

#[test]
fn a_step_cut_in_the_middle_goes_on_where_it_was_cut() {
    let mut rig = Rig::new(task(vec![process("a"), last("x", &[])]));
    rig.start("a");
    let before = rig.log.len();
    rig.end("a", Outcome::Exited(0));
    for cut in before..=rig.log.len() {
        let mut again = Rig::new((*rig.spec).clone());
        again.log = rig.log[..cut].to_vec();
        again.crash();
        if again.at("a").live.is_some() {
            again.end("a", Outcome::Exited(0));
        }
        again.feed(Input::Resumed {
            boot_changed: false,
        });
        again.exit("x", 0);
        again.assert_finished(AttemptState::Success);
        assert_eq!(again.at("a").runs, 1, "finished work is not run again");
    }
}

#[test]
fn after_a_boot_everything_that_ran_is_lost_and_runs_again() {
    let mut rig = Rig::new(task(vec![
        process("a"),
        process("b"),
        after("c", &["a", "b"]),
    ]));
    rig.now = 900_000;
    rig.exit("a", 0);
    rig.start("b");
    reboot(&mut rig, 50);
    assert_eq!(rig.launched(), ["b"]);
    let last = rig.at("b").last.unwrap();
    assert_eq!((last.end, last.ended.mono), (RunEnd::Lost, Mono(50)));
    assert_eq!(rig.at("a").runs, 1);
    rig.run_all(|_, _| 0);
    rig.assert_finished(AttemptState::Success);
}

#[test]
fn a_pause_goes_on_after_a_boot_with_what_was_left_of_it() {
    let mut spec = task(vec![process("a"), process("b")]);
    spec.processes[0].min_duration = Millis(5_000);
    spec.processes[0].max_failures = 2;
    let mut rig = Rig::new(spec);
    rig.now = 900_000;
    rig.exit("a", 1);
    rig.now = 903_000;
    rig.start("b");
    reboot(&mut rig, 50);
    assert_eq!(rig.at("a").not_before, Mono(2_050));
}

#[test]
fn a_boot_does_not_renew_the_budget() {
    let mut rig = Rig::new(task(vec![process("a"), last("x", &[])]));
    rig.now = 900_000;
    rig.exit("a", 0);
    rig.start("x");
    // No report comes; the plan itself notes at 7.5, 15 and 22.5 s what is used up.
    for _ in 0..25 {
        rig.advance(1_000);
    }
    reboot(&mut rig, 50);
    let left = rig.plan.ending().unwrap().deadline.since(Mono(50));
    assert!(left <= Millis(7_500), "{left} left");
    assert!(left >= Millis(5_000), "{left} left");
    let marks = rig.log.iter();
    let marks = marks.filter(|event| event.change == PlanChange::BudgetMarked);
    assert_eq!(marks.count(), 3);
    rig.start("x");
    rig.advance(7_500);
    assert!(rig.taken().contains(&Order::KillEverything));
}

#[test]
fn after_a_boot_while_everything_was_killed_the_attempt_is_over() {
    let mut rig = Rig::new(task(vec![process("a"), last("x", &[])]));
    rig.start("a");
    rig.feed(Input::KillNow);
    reboot(&mut rig, 5);
    rig.assert_finished(AttemptState::Killed);
}

#[test]
fn an_identity_survives() {
    let mut rig = Rig::new(task(vec![process("a")]));
    let (process, run) = rig.live("a");
    let identity = Some(Identity {
        boot: BootId(7),
        pid: 4711,
        start_ticks: 99,
    });
    rig.feed(Input::Started {
        process,
        run,
        at: now(1_000),
        identity,
    });
    rig.crash_and_resume();
    let live: Vec<_> = rig.plan.live().map(|(_, live)| live.identity).collect();
    assert_eq!(live, [identity]);
}

#[test]
fn a_record_that_does_not_follow_is_refused_and_changes_nothing() {
    let mut rig = Rig::new(task(vec![process("a"), after("b", &["a"]), last("x", &[])]));
    rig.start("a");
    let at = now(2_000).into();
    let (a, b, x) = (rig.no("a"), rig.no("b"), rig.no("x"));
    let wrong = [
        (a, 0, "p0: r0 is neither under way nor next"),
        (a, 1, "p0: r1 is neither under way nor next"),
        (b, 0, "a run before its time"),
        (x, 0, "a run of what may not run any more"),
        (ProcessNo(9), 0, "the task has no process p9"),
    ];
    let mut plan = rig.replayed();
    for (process, run, reason) in wrong {
        let run = RunNo(run);
        let change = PlanChange::RunOrdered { process, run };
        let error = plan.apply(&PlanEvent { at, change }).unwrap_err();
        assert_eq!(error.to_string(), reason);
    }
    for change in [
        PlanChange::FinalizingBegun,
        PlanChange::AttemptEnded,
        PlanChange::KillBegun,
        PlanChange::BudgetMarked,
    ] {
        assert!(plan.apply(&PlanEvent { at, change }).is_err());
    }
    let early = PlanEvent {
        at: now(1).into(),
        change: PlanChange::AttemptLost,
    };
    let error = plan.apply(&early).unwrap_err();
    assert!(matches!(error, ApplyError::ClockWentBack { .. }));
    assert_eq!(plan.fold, rig.plan.fold);
}

#[test]
fn a_snapshot_of_another_task_is_refused() {
    let rig = Rig::new(task(vec![process("a")]));
    let other = Arc::new(task(vec![process("a"), process("b")]));
    let error = Plan::from_snapshot(other, rig.plan.snapshot()).unwrap_err();
    assert!(matches!(error, PlanError::Snapshot(_)));
}
