//! Conditions of submissions: dependencies, elements at the same time, and failed elements.

use baton_model::conditions::{Conditions, HaltReason};
use baton_model::outcome::{Outcome, Report};

use super::placing::rig;
use super::*;
use crate::limits::LimitKey;
use crate::wait::WaitReason;

/// Submits an array with these conditions, whose first id is known.
pub(super) fn submit(leader: &mut Leader, first: u64, count: u64, conditions: Conditions) {
    let tried = try_submit(leader, count, conditions);
    assert_eq!(tried.map(|(first, _)| first), Ok(InstanceId(first)));
}

fn try_submit(
    leader: &mut Leader,
    count: u64,
    conditions: Conditions,
) -> Result<(InstanceId, InstanceId), SubmitError> {
    let mark = leader.core.end_mark();
    try_submit_since(leader, count, conditions, mark)
}

pub(super) fn try_submit_since(
    leader: &mut Leader,
    count: u64,
    conditions: Conditions,
    mark: EndMark,
) -> Result<(InstanceId, InstanceId), SubmitError> {
    let spec = spec(conditions);
    let command = Command::Submit {
        submission: submission(&spec, Some(count)),
        mark: Some(mark),
    };
    let effects = leader.give(Input::command(RequestId(9), command));
    let reply = effects.iter().find_map(|effect| match effect {
        Effect::Reply(_, Reply::Submitted(reply)) => Some(*reply),
        _ => None,
    });
    reply.expect("an answer")
}

/// One core each, without retries.
fn spec(conditions: Conditions) -> InstanceSpec {
    let mut spec = InstanceSpec {
        conditions,
        ..InstanceSpec::default()
    };
    spec.request.resources.cpu_milli = 1_000;
    spec
}

pub(super) fn after(texts: &[&str]) -> Conditions {
    let after = texts.iter().map(|it| it.parse().expect("a dependency"));
    Conditions {
        after: after.collect(),
        ..Conditions::default()
    }
}

impl Leader {
    pub(super) fn running(&self) -> Vec<u64> {
        let leases = self.core.running();
        leases.map(|lease| lease.attempt.instance.0).collect()
    }

    pub(super) fn halts(&self) -> Vec<(u64, u64, Option<HaltReason>)> {
        let halts = self.facts.iter().filter_map(|fact| match fact {
            Fact::InstancesHalted {
                first,
                last,
                reason,
                ..
            } => Some((first.0, last.0, *reason)),
            _ => None,
        });
        halts.collect()
    }

    pub(super) fn wait_reason(&self, id: u64) -> Option<WaitReason> {
        let standing = self.core.explain(InstanceId(id), self.clock())?;
        Some(standing.wait()?.reason.clone())
    }
}

#[test]
fn an_instance_starts_when_all_that_it_comes_after_has_ended() {
    let (mut leader, worker) = rig();
    submit(&mut leader, 1, 2, Conditions::default());
    submit(&mut leader, 3, 1, after(&["i1..i2"]));
    submit(&mut leader, 4, 1, after(&["i1:any", "i3"]));
    assert_eq!(leader.running(), [1, 2]);
    let waits = |text: &str| Some(WaitReason::After(text.parse().expect("a dependency")));
    assert_eq!(leader.wait_reason(3), waits("i1..i2"));
    leader.ends(&worker, &[1], Outcome::Exited(0), 9);
    assert_eq!(leader.running(), [2]);
    assert_eq!(leader.wait_reason(4), waits("i3"));
    leader.ends(&worker, &[2], Outcome::Exited(0), 9);
    assert_eq!(leader.running(), [3]);
    leader.ends(&worker, &[3], Outcome::Exited(0), 9);
    assert_eq!(leader.running(), [4]);
}

#[test]
fn a_dependency_that_cannot_be_met_any_more_cancels_and_so_on() {
    let (mut leader, worker) = rig();
    submit(&mut leader, 1, 2, Conditions::default());
    submit(&mut leader, 3, 2, after(&["i1..i2"]));
    submit(&mut leader, 5, 1, after(&["i3..i4"]));
    submit(&mut leader, 6, 1, after(&["i3:fail"]));
    submit(&mut leader, 7, 1, after(&["i2:fail"]));
    leader.ends(&worker, &[1], Outcome::Exited(1), 9);
    let reason = |text: &str| {
        let dependency = text.parse().expect("a dependency");
        Some(HaltReason::Dependency(dependency))
    };
    let halts = [(3, 4, reason("i1..i2")), (5, 5, reason("i3..i4"))];
    assert_eq!(leader.halts(), halts);
    assert_eq!(
        leader.running(),
        [2, 6],
        "i6 starts when i3 has not succeeded"
    );
    leader.ends(&worker, &[2], Outcome::Exited(0), 9);
    assert_eq!(leader.halts()[2..], [(7, 7, reason("i2:fail"))]);
}

#[test]
fn the_next_leader_waits_for_the_same() {
    let (mut leader, worker) = rig();
    submit(&mut leader, 1, 2, Conditions::default());
    submit(&mut leader, 3, 1, after(&["i1..i2"]));
    leader.ends(&worker, &[1], Outcome::Exited(0), 9);
    let (now, ledger) = (leader.clock(), leader.core.ledger().clone());
    let next = Scheduler::new(Config::default(), Epoch(2), ledger, now);
    let reason = next.explain(InstanceId(3), now);
    let reason = reason
        .as_ref()
        .and_then(Standing::wait)
        .map(|it| &it.reason);
    assert!(matches!(reason, Some(WaitReason::After(_))), "{reason:?}");
}

#[test]
fn an_end_between_the_check_and_the_submission_is_noticed() {
    let (mut leader, worker) = rig();
    submit(&mut leader, 1, 2, Conditions::default());
    let mark = leader.core.end_mark();
    leader.ends(&worker, &[1], Outcome::Exited(1), 9);
    leader.ends(&worker, &[2], Outcome::Exited(0), 9);
    let tried = try_submit_since(&mut leader, 1, after(&["i1"]), mark);
    let dependency = "i1".parse().expect("a dependency");
    assert_eq!(tried, Err(SubmitError::NeverMet(dependency)));
    let tried = try_submit_since(&mut leader, 1, after(&["i2", "i1:any"]), mark);
    assert!(tried.is_ok(), "{tried:?}");
    assert_eq!(leader.running(), [3], "at once");
}

#[test]
fn a_cancelled_range_that_waits_does_not_start() {
    let (mut leader, worker) = rig();
    submit(&mut leader, 1, 1, Conditions::default());
    submit(&mut leader, 2, 3, after(&["i1"]));
    leader.cancel_range(3, 3);
    leader.ends(&worker, &[1], Outcome::Exited(0), 9);
    assert_eq!(leader.running(), [2, 4]);
}

#[test]
fn an_array_runs_no_more_elements_at_once_than_it_allows() {
    let (mut leader, worker) = rig();
    let two = Conditions {
        concurrent_max: Some(2),
        ..Conditions::default()
    };
    submit(&mut leader, 1, 5, two.clone());
    submit(&mut leader, 6, 2, two);
    assert_eq!(
        leader.running(),
        [1, 2, 6, 7],
        "each array has its own limit"
    );
    let reason = leader.waits(3).reason;
    let WaitReason::Limit(reached) = reason else {
        panic!("{reason:?}");
    };
    let array = LimitKey::Array(InstanceId(1));
    assert_eq!((&reached.key, reached.limit.total), (&array, 2));
    assert_eq!(leader.core.limit(&array), Some(reached.limit));
    leader.ends(&worker, &[6, 7], Outcome::Exited(0), 9);
    assert_eq!(leader.running(), [1, 2], "there are free cores");
    leader.ends(&worker, &[1], Outcome::Exited(0), 9);
    assert_eq!(leader.running(), [2, 3]);
    let (now, ledger) = (leader.clock(), leader.core.ledger().clone());
    let next = Scheduler::new(Config::default(), Epoch(2), ledger, now);
    let counted = leader.core.limit(&array);
    assert_eq!(next.limit(&array), counted, "a new leader counts the same");
    let standing = next.explain(InstanceId(4), now).expect("it waits");
    let wait = standing.wait().expect("it waits");
    assert_eq!(wait.reason, WaitReason::NoWorker);
}

#[test]
fn an_array_with_too_many_failed_elements_is_cancelled() {
    let (mut leader, worker) = rig();
    let conditions = Conditions {
        failed_max: Some(2),
        ..Conditions::default()
    };
    submit(&mut leader, 1, 9, conditions);
    leader.ends(&worker, &[1], Outcome::Exited(1), 60_000);
    assert_eq!(leader.running(), [2, 3, 4, 5]);
    leader.ends(&worker, &[3], Outcome::Exited(1), 60_000);
    assert_eq!(leader.halts(), [(6, 9, Some(HaltReason::FailedMax(2)))]);
    let stopped = leader.facts.iter().filter_map(|fact| match fact {
        Fact::StopRequested { reason, .. } => Some(*reason),
        _ => None,
    });
    let reason = Some(HaltReason::FailedMax(2));
    assert!(stopped.eq([reason; 3]), "what runs is stopped, too");
}

#[test]
fn without_a_store_failures_that_were_reported_before_their_array_came_again_count() {
    let spec = spec(Conditions {
        failed_max: Some(1),
        ..Conditions::default()
    });
    let submission = Submission {
        key: Some(IdempotencyKey {
            key: (8, 8),
            request: 1,
        }),
        ..submission(&spec, Some(3))
    };
    let submit = Input::command(
        RequestId(1),
        Command::Submit {
            submission,
            mark: None,
        },
    );
    let mut first = Leader::new(StoreMode::Memory, 1);
    first.give(submit.clone());
    let array = first.kept.waiting().next().expect("it was accepted");
    let mut next = Leader::new(StoreMode::Memory, 2);
    let mut worker = Remote::new("w", 1, 1);
    next.heartbeat(&mut worker, WorkerState::New);
    let failed = HeldAttempt {
        lease: first.kept.next_lease(array.first, Epoch(1)),
        spec: Arc::clone(&array.spec),
        ended: Some(Report {
            outcome: Outcome::Exited(1),
            stats: None,
            outputs: None,
            stderr_tail: None,
            progress: None,
        }),
    };
    next.give(Input::Message(ToScheduler::RunningTasks {
        association: worker.association(),
        held: vec![failed],
    }));
    next.give(submit);
    let rest = (array.first.0 + 1, array.last.0);
    let reason = Some(HaltReason::FailedMax(1));
    assert_eq!(next.halts(), [(rest.0, rest.1, reason)]);
}
