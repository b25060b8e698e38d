//! The final processes: always their turn, never their verdict.

use super::*;
use baton_model::task::Disposition;

#[test]
fn final_processes_run_after_success_and_after_failure() {
    for code in [0, 1] {
        let mut rig = Rig::new(task(vec![last("clean", &[]), process("a")]));
        assert_eq!(rig.launched(), ["a"]);
        rig.exit("a", code);
        assert_eq!(rig.state(), AttemptState::Finalizing);
        let orders = rig.taken();
        let grace = Millis::from_secs(2);
        assert_eq!(orders[0], Order::KillLeftovers { grace });
        assert!(matches!(orders[1], Order::Launch { .. }));
        rig.exit("clean", 0);
        rig.assert_finished(match code {
            0 => AttemptState::Success,
            _ => AttemptState::Failed,
        });
    }
}

#[test]
fn final_processes_keep_their_order() {
    let mut rig = Rig::new(task(vec![
        last("third", &["second"]),
        last("second", &["first"]),
        last("first", &[]),
        process("a"),
    ]));
    assert_eq!(rig.run_all(|_, _| 0), ["a", "first", "second", "third"]);
    rig.assert_finished(AttemptState::Success);
}

#[test]
fn a_failing_final_process_blocks_its_successor_but_not_success() {
    let mut rig = Rig::new(task(vec![process("a"), last("x", &[]), last("y", &["x"])]));
    assert_eq!(rig.run_all(|name, _| i32::from(name == "x")), ["a", "x"]);
    rig.assert_finished(AttemptState::Success);
    assert_eq!(rig.at("y").disposition, Disposition::Blocked);
}

#[test]
fn parallel_final_processes_retry_each_on_its_own() {
    let mut spec = task(vec![process("a"), last("x", &[]), last("y", &[])]);
    spec.processes[1].max_failures = 3;
    spec.processes[2].max_failures = 2;
    let mut rig = Rig::new(spec);
    rig.exit("a", 0);
    assert_eq!(rig.plan.live().count(), 2);
    rig.exit("x", 1);
    rig.exit("y", 1);
    rig.exit("x", 1);
    rig.exit("y", 0);
    assert_eq!(rig.state(), AttemptState::Finalizing);
    rig.exit("x", 0);
    rig.assert_finished(AttemptState::Success);
    assert_eq!((rig.at("x").runs, rig.at("y").runs), (3, 2));
}

#[test]
fn more_failures_than_the_task_allows_do_not_matter_at_the_end() {
    let mut rig = Rig::new(task(vec![process("a"), last("x", &[]), last("y", &[])]));
    assert_eq!(rig.run_all(|name, _| i32::from(name != "a")).len(), 3);
    rig.assert_finished(AttemptState::Success);
}

#[test]
fn what_does_not_end_within_the_budget_is_killed() {
    let mut rig = Rig::new(task(vec![process("a"), last("x", &[]), last("y", &["x"])]));
    rig.exit("a", 0);
    rig.start("x");
    rig.taken();
    rig.advance(29_999);
    assert_eq!(rig.taken(), []);
    rig.advance(1);
    assert_eq!(rig.taken(), [Order::KillEverything]);
    rig.killed("x");
    rig.assert_finished(AttemptState::Success);
    assert_eq!(rig.at("y").runs, 0);
}

#[test]
fn cleaning_and_finalizing_share_one_budget() {
    let mut rig = Rig::new(task(vec![process("a"), process("b"), last("x", &[])]));
    rig.start("b");
    rig.exit("a", 1);
    rig.advance(20_000);
    assert_eq!(rig.state(), AttemptState::Cleaning);
    rig.killed("b");
    assert_eq!(rig.state(), AttemptState::Finalizing);
    rig.start("x");
    rig.taken();
    rig.advance(10_000);
    assert_eq!(rig.taken(), [Order::KillEverything]);
    rig.killed("x");
    rig.assert_finished(AttemptState::Failed);
}

#[test]
fn a_budget_used_up_by_cleaning_leaves_none_for_final_processes() {
    let mut rig = Rig::new(task(vec![process("a"), process("b"), last("x", &[])]));
    rig.start("b");
    rig.exit("a", 1);
    rig.advance(30_000);
    assert!(rig.taken().contains(&Order::KillEverything));
    assert_eq!(rig.state(), AttemptState::Cleaning, "b may still be there");
    rig.killed("b");
    rig.assert_finished(AttemptState::Failed);
    assert_eq!(rig.wait("x"), Some(Wait::Over));
}

#[test]
fn a_budget_of_nothing_runs_no_final_process() {
    let mut spec = task(vec![process("a"), last("x", &[])]);
    spec.finalization_wait = Millis(0);
    let mut rig = Rig::new(spec);
    assert_eq!(rig.run_all(|_, _| 0), ["a"]);
    rig.assert_finished(AttemptState::Success);
}

#[test]
fn an_ephemeral_final_process_is_stopped_when_the_others_are_over() {
    let mut spec = task(vec![process("a"), last("x", &[]), last("tail", &[])]);
    spec.processes[2].ephemeral = true;
    let mut rig = Rig::new(spec);
    rig.exit("a", 0);
    rig.start("tail");
    rig.exit("x", 0);
    assert_eq!(rig.state(), AttemptState::Finalizing);
    let (process, run) = rig.live("tail");
    assert!(rig.taken().iter().any(|order| matches!(
        order,
        Order::Stop { process: p, run: r, .. } if (*p, *r) == (process, run)
    )));
    rig.killed("tail");
    rig.assert_finished(AttemptState::Success);
}

#[test]
fn a_final_process_that_times_out_is_stopped_within_the_budget() {
    let mut spec = task(vec![process("a"), last("x", &[])]);
    spec.processes[1].timeout = Some(Millis(25_000));
    let mut rig = Rig::new(spec);
    rig.exit("a", 0);
    rig.start("x");
    rig.taken();
    rig.advance(25_000);
    let orders = rig.taken();
    assert!(
        matches!(orders[..], [Order::Stop { grace, .. }] if grace == Millis(5_000)),
        "{orders:?}"
    );
}

#[test]
fn what_has_slipped_away_gets_no_more_time_than_is_left() {
    let mut spec = task(vec![process("a"), process("b"), last("x", &[])]);
    spec.finalization_wait = Millis(1_500);
    let mut rig = Rig::new(spec);
    rig.start("b");
    rig.exit("a", 1);
    rig.advance(1_000);
    rig.taken();
    rig.killed("b");
    let grace = Millis(500);
    assert_eq!(rig.taken()[0], Order::KillLeftovers { grace });
}
