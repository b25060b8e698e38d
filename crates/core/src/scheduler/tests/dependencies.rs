//! Dependencies when several ends come at once, when the leader changes, and when work is retried.

use baton_model::conditions::{Conditions, HaltReason};
use baton_model::message::Status;
use baton_model::outcome::{Outcome, Report};

use super::conditions::{after, submit, try_submit_since};
use super::placing::rig;
use super::*;
use crate::wait::WaitReason;

const OK: Outcome = Outcome::Exited(0);
const BAD: Outcome = Outcome::Exited(1);

fn report(outcome: Outcome) -> Report {
    Report {
        outcome,
        stats: None,
        outputs: None,
        stderr_tail: None,
        progress: None,
    }
}

impl Leader {
    /// All of these end, in one message.
    fn end_together(&mut self, worker: &Remote, ends: &[(u64, Outcome)]) {
        let statuses = ends
            .iter()
            .map(|(id, outcome)| (self.lease(*id), Status::Ended(report(*outcome))));
        let statuses = statuses.collect();
        self.give(Input::Message(ToScheduler::UpdateStatus {
            association: worker.association(),
            statuses,
        }));
    }

    /// Another leader takes the store over, and the worker reports its attempts with these ends.
    fn take_over(&mut self, worker: &mut Remote, ends: &[(u64, Outcome)]) {
        let leases: Vec<_> = self.core.running().collect();
        let epoch = Epoch(self.core.epoch().0 + 1);
        self.kept.begin_term(epoch);
        let ledger = self.kept.clone();
        self.core = Scheduler::new(Config::default(), epoch, ledger, self.clock());
        self.outbox = Outbox::new(epoch);
        worker.association = None;
        self.heartbeat(worker, WorkerState::New);
        let held = leases.into_iter().map(|lease| {
            let end = ends.iter().find(|(id, _)| *id == lease.attempt.instance.0);
            HeldAttempt {
                lease,
                spec: Arc::default(),
                ended: end.map(|(_, outcome)| report(*outcome)),
            }
        });
        let held = held.collect();
        self.give(Input::Message(ToScheduler::RunningTasks {
            association: worker.association(),
            held,
        }));
        let report = ToScheduler::HealthReport {
            association: worker.association(),
            check: self.core.protocol.last_check(),
            ok: true,
        };
        self.give(Input::Message(report));
        self.heartbeat(worker, WorkerState::Unhealthy);
        self.heartbeat(worker, WorkerState::Healthy);
    }

    fn has_stopped_any(&self) -> bool {
        let mut facts = self.facts.iter();
        facts.any(|fact| matches!(fact, Fact::StopRequested { .. }))
    }

    fn has_begun(&self, id: u64) -> bool {
        let instance = self.kept.find(InstanceId(id)).expect("submitted");
        instance.attempts > baton_model::ids::AttemptNo(0)
    }
}

/// Two upstream instances, and one that comes after them.
fn two_and_one(texts: &[&str]) -> (Leader, Remote) {
    let (mut leader, worker) = rig();
    submit(&mut leader, 1, 2, Conditions::default());
    submit(&mut leader, 3, 1, after(texts));
    (leader, worker)
}

/// The conditions of i3, the ends of i1 and i2, and whether i3 may start.
const DECISIONS: &[(&[&str], [Outcome; 2], bool)] = &[
    (&["i1..i2"], [OK, OK], true),
    (&["i1..i2"], [OK, BAD], false),
    (&["i1..i2"], [BAD, OK], false),
    (&["i1", "i2"], [OK, OK], true),
    (&["i1", "i2"], [OK, BAD], false),
    (&["i1", "i2"], [BAD, OK], false),
    (&["i1..i2:fail"], [BAD, BAD], true),
    (&["i1..i2:fail"], [BAD, OK], false),
    (&["i1..i2:fail"], [OK, BAD], false),
    (&["i1:fail", "i2:fail"], [BAD, OK], false),
    (&["i1:fail", "i2"], [BAD, OK], true),
    (&["i1:fail", "i2"], [BAD, BAD], false),
    (&["i1..i2:any"], [BAD, OK], true),
    (&["i1:any", "i2"], [BAD, OK], true),
    (&["i1:any", "i2"], [OK, BAD], false),
    (&["i1..i2:any", "i2:fail"], [BAD, OK], false),
];

fn assert_decided(leader: &Leader, texts: &[&str], ends: [Outcome; 2], starts: bool) {
    let expected = if starts { vec![3] } else { Vec::new() };
    assert_eq!(leader.running(), expected, "{texts:?} after {ends:?}");
    let halted = leader.state(3) == UniversalState::Halted;
    assert_eq!(halted, !starts, "{texts:?} after {ends:?}");
}

#[test]
fn all_ends_of_a_message_are_held_against_the_rules() {
    for (texts, ends, starts) in DECISIONS {
        for order in [[0, 1], [1, 0]] {
            let (mut leader, worker) = two_and_one(texts);
            let ends_in_order = order.map(|at| (1 + at as u64, ends[at]));
            leader.end_together(&worker, &ends_in_order);
            assert_decided(&leader, texts, *ends, *starts);
        }
    }
}

#[test]
fn ends_during_a_takeover_are_all_held_against_the_rules() {
    for (texts, ends, starts) in DECISIONS {
        let (mut leader, mut worker) = two_and_one(texts);
        leader.take_over(&mut worker, &[(1, ends[0]), (2, ends[1])]);
        assert_decided(&leader, texts, *ends, *starts);
    }
}

#[test]
fn ends_before_and_after_a_takeover_count() {
    for (texts, ends, starts) in DECISIONS {
        for (first, second) in [(0, 1), (1, 0)] {
            let (mut leader, mut worker) = two_and_one(texts);
            let end = |at: usize| (1 + at as u64, ends[at]);
            leader.end_together(&worker, &[end(first)]);
            leader.take_over(&mut worker, &[]);
            leader.end_together(&worker, &[end(second)]);
            leader.take_over(&mut worker, &[]);
            assert_decided(&leader, texts, *ends, *starts);
        }
    }
}

#[test]
fn a_violation_in_a_batch_cancels_all_that_follows_from_it() {
    let (mut leader, worker) = two_and_one(&["i1..i2"]);
    submit(&mut leader, 4, 1, after(&["i1", "i3"]));
    submit(&mut leader, 5, 1, after(&["i2:fail", "i4:fail"]));
    leader.end_together(&worker, &[(1, OK), (2, BAD)]);
    assert_eq!(leader.running(), [5]);
    let halted: Vec<u64> = leader.halts().iter().map(|(first, ..)| *first).collect();
    assert_eq!(halted, [3, 4]);
}

#[test]
fn an_array_that_gives_up_ends_for_its_dependents_at_once() {
    let (mut leader, worker) = rig();
    let one = Conditions {
        failed_max: Some(1),
        ..Conditions::default()
    };
    submit(&mut leader, 1, 6, one);
    submit(&mut leader, 7, 1, after(&["i1..i6"]));
    submit(&mut leader, 8, 1, after(&["i5..i6:fail"]));
    let ends = [(1, OK), (2, OK), (3, OK), (4, BAD)];
    leader.end_together(&worker, &ends);
    assert_eq!(leader.running(), [8]);
    assert_eq!(leader.state(7), UniversalState::Halted);
}

/// A full worker: i1 runs on all of it, and i2 ends before i3 and i4, which come after it.
fn crowded(rule: &str) -> (Leader, Remote) {
    let (mut leader, worker) = rig();
    submit(&mut leader, 1, 4, Conditions::default());
    submit(&mut leader, 5, 3, Conditions::default());
    submit(&mut leader, 8, 2, after(&[rule]));
    (leader, worker)
}

#[test]
fn retried_work_is_waited_for_again_under_every_leader() {
    for leaders in [1, 2] {
        let (mut leader, mut worker) = crowded("i4:fail");
        // i5 takes its place, so that i8 and i9 may start, and cannot.
        leader.end_together(&worker, &[(4, BAD)]);
        assert_eq!(leader.running(), [1, 2, 3, 5]);
        assert_eq!(leader.retry(4), Ok(()));
        if leaders == 2 {
            leader.take_over(&mut worker, &[]);
        }
        let reason = leader.wait_reason(8);
        assert!(matches!(reason, Some(WaitReason::After(_))), "{reason:?}");
        leader.end_together(&worker, &[(1, OK), (2, OK), (3, OK), (5, OK)]);
        assert!(!leader.has_begun(8) && !leader.has_begun(9));
        leader.end_together(&worker, &[(4, OK)]);
        let dependency = "i4:fail".parse().expect("a dependency");
        let reason = Some(HaltReason::Dependency(dependency));
        assert_eq!(leader.halts(), [(8, 9, reason)]);
    }
}

#[test]
fn work_that_has_begun_is_not_stopped_by_a_retry() {
    for leaders in [1, 2] {
        let (mut leader, mut worker) = crowded("i4:fail");
        leader.end_together(&worker, &[(4, BAD), (1, OK), (2, OK)]);
        leader.end_together(&worker, &[(3, OK)]);
        assert_eq!(leader.running(), [5, 6, 7, 8]);
        assert_eq!(leader.retry(4), Ok(()));
        if leaders == 2 {
            leader.take_over(&mut worker, &[]);
        }
        leader.end_together(&worker, &[(5, OK), (6, OK)]);
        assert_eq!(leader.running(), [4, 7, 8]);
        leader.end_together(&worker, &[(4, OK)]);
        assert_eq!(leader.running(), [7, 8], "i8 goes on");
        assert_eq!(leader.state(9), UniversalState::Halted);
        assert!(!leader.has_stopped_any());
    }
}

#[test]
fn an_element_retried_by_hand_ignores_its_dependency() {
    for leaders in [1, 2] {
        let (mut leader, mut worker) = rig();
        submit(&mut leader, 1, 1, Conditions::default());
        submit(&mut leader, 2, 3, after(&["i1"]));
        leader.cancel_range(3, 3);
        assert_eq!(leader.retry(3), Ok(()));
        assert_eq!(leader.running(), [1, 3]);
        if leaders == 2 {
            leader.take_over(&mut worker, &[]);
        }
        leader.end_together(&worker, &[(1, BAD)]);
        assert_eq!(leader.running(), [3]);
        assert!(!leader.has_stopped_any(), "it was asked for");
        let reason = Some(HaltReason::Dependency("i1".parse().expect("a dependency")));
        let halts = leader.halts();
        assert_eq!(halts[1..], [(2, 2, reason), (4, 4, reason)]);
    }
}

#[test]
fn a_batch_between_the_check_and_the_submission_is_noticed() {
    for (texts, ends, starts) in DECISIONS {
        let (mut leader, worker) = rig();
        submit(&mut leader, 1, 2, Conditions::default());
        let mark = leader.core.end_mark();
        leader.end_together(&worker, &[(1, ends[0]), (2, ends[1])]);
        let tried = try_submit_since(&mut leader, 1, after(texts), mark);
        assert_eq!(
            tried.is_ok(),
            *starts,
            "{texts:?} after {ends:?}: {tried:?}"
        );
        assert_eq!(leader.running() == [3], *starts);
    }
}

#[test]
fn a_mark_of_an_earlier_leader_is_outdated() {
    let (mut leader, mut worker) = two_and_one(&["i1..i2"]);
    let mark = leader.core.end_mark();
    leader.take_over(&mut worker, &[(1, BAD)]);
    let tried = try_submit_since(&mut leader, 1, after(&["i1"]), mark);
    assert_eq!(tried, Err(SubmitError::Outdated));
}

#[test]
fn a_retried_element_that_fails_again_counts_once() {
    let (mut leader, worker) = rig();
    let two = Conditions {
        failed_max: Some(2),
        ..Conditions::default()
    };
    submit(&mut leader, 1, 9, two);
    leader.end_together(&worker, &[(1, BAD)]);
    assert_eq!(leader.retry(1), Ok(()));
    leader.end_together(&worker, &[(2, OK), (3, OK)]);
    leader.end_together(&worker, &[(1, BAD)]);
    assert_eq!(leader.halts(), []);
    let next = leader.running()[0];
    leader.end_together(&worker, &[(next, BAD)]);
    let reasons = leader.halts().into_iter().map(|(.., reason)| reason);
    assert!(reasons.eq([Some(HaltReason::FailedMax(2))]));
}
