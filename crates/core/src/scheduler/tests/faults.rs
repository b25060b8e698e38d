//! Workers whose host cannot launch anything.

use baton_model::limits::HOST_FAULTS_MAX;
use baton_model::message::Status;
use baton_model::outcome::{AttemptEnd, Outcome, Synthetic};
use baton_model::spec::RetryBudget;

use super::placing::rig;
use super::*;

const REASON: &str = "/s/work/i1.1: no space left";

/// Neither a failure nor a loss is forgiven.
fn once() -> InstanceSpec {
    InstanceSpec {
        retry: RetryBudget {
            failures_max: 0,
            losses_max: 0,
            ..RetryBudget::default()
        },
        ..InstanceSpec::default()
    }
}

impl Leader {
    fn faults_on_launch(&mut self, worker: &Remote, id: u64) -> Vec<Effect> {
        let statuses = vec![(self.lease(id), Status::HostFault(REASON.into()))];
        self.give(Input::Message(ToScheduler::UpdateStatus {
            association: worker.association(),
            statuses,
        }))
    }

    /// Waits until a worker that was just welcomed was not checked for a while.
    fn pass_first_checks(&mut self) {
        for _ in 0..2 {
            self.wait(Config::default().timeouts.reply_wait);
        }
    }

    /// Answers the latest check.
    pub(super) fn checked(&mut self, worker: &Remote, is_well: bool) {
        let (association, check) = (worker.association(), self.core.protocol.last_check());
        let answer = if is_well {
            ToScheduler::HealthReport {
                association,
                check,
                ok: true,
            }
        } else {
            let reason = REASON.into();
            ToScheduler::HealthFault {
                association,
                check,
                reason,
            }
        };
        self.give(Input::Message(answer));
    }

    fn health(&self, worker: &str) -> (WorkerState, Option<&str>) {
        let seat = &self.core.seats()[&WorkerName::new(worker)];
        (seat.state, seat.fault.as_deref())
    }

    /// The changes that operators are told of.
    fn told(&self) -> Vec<bool> {
        let facts = self.facts.iter();
        let faults = facts.filter_map(|fact| match fact {
            Fact::WorkerFaulted { fault, .. } => Some(fault.is_some()),
            _ => None,
        });
        faults.collect()
    }
}

fn checks(effects: &[Effect]) -> usize {
    let is_check = |it: &&Effect| matches!(it, Effect::Send(_, ToWorker::CheckHealth { .. }));
    effects.iter().filter(is_check).count()
}

#[test]
fn a_launch_that_its_host_prevents_costs_nothing() {
    let (mut leader, worker) = rig();
    leader.pass_first_checks();
    leader.submit_as(1, submission(&once(), None));
    let effects = leader.faults_on_launch(&worker, 1);
    assert_eq!(leader.state(1), UniversalState::Queued);
    let instance = leader.core.ledger().instance(InstanceId(1)).expect("there");
    assert_eq!((instance.failures, instance.losses), (0, 0));
    let end = leader.facts.iter().find_map(|fact| match fact {
        Fact::AttemptEnded {
            end, stderr_tail, ..
        } => Some((*end, stderr_tail.as_deref())),
        _ => None,
    });
    let fault = AttemptEnd::Synthetic(Synthetic::HostFault);
    assert_eq!(end, Some((fault, Some(REASON))));
    assert_eq!(checks(&effects), 1, "the worker is checked at once");
    assert_eq!(launched(&effects), 0, "and gets nothing meanwhile");
}

#[test]
fn a_failed_check_closes_a_worker_until_one_passes() {
    let (mut leader, mut worker) = rig();
    leader.submit(1, Exclusive::Timed);
    leader.wait(Config::default().timeouts.check_period);
    leader.checked(&worker, false);
    assert_eq!(leader.health("w"), (WorkerState::Unhealthy, Some(REASON)));
    leader.submit(2, Exclusive::Timed);
    assert_eq!(leader.state(2), UniversalState::Queued);
    // For far longer than a silent worker has.
    for _ in 0..100 {
        leader.wait(Config::default().timeouts.reply_wait);
        leader.checked(&worker, false);
        leader.heartbeat(&mut worker, WorkerState::Unhealthy);
    }
    assert_eq!(leader.health("w"), (WorkerState::Unhealthy, Some(REASON)));
    assert!(leader.core.ledger().open_lease(leader.lease(1)).is_some());
    leader.wait(Config::default().timeouts.reply_wait);
    leader.checked(&worker, true);
    leader.heartbeat(&mut worker, WorkerState::Unhealthy);
    assert_eq!(leader.health("w"), (WorkerState::Healthy, None));
    assert_eq!(leader.state(2), UniversalState::Launched);
    assert_eq!(leader.told(), [true, false]);
}

#[test]
fn several_faults_in_a_row_close_a_worker_that_passes_checks() {
    let (mut leader, mut worker) = rig();
    leader.submit_as(1, submission(&once(), None));
    for fault in 1..=HOST_FAULTS_MAX {
        assert_eq!(leader.health("w"), (WorkerState::Healthy, None), "{fault}");
        leader.faults_on_launch(&worker, 1);
        if fault < HOST_FAULTS_MAX {
            leader.checked(&worker, true);
            assert_eq!(leader.state(1), UniversalState::Queued, "{fault}");
            leader.heartbeat(&mut worker, WorkerState::Healthy);
        }
    }
    assert_eq!(leader.health("w"), (WorkerState::Unhealthy, Some(REASON)));
    leader.wait(Config::default().timeouts.reply_wait);
    leader.checked(&worker, true);
    leader.heartbeat(&mut worker, WorkerState::Unhealthy);
    assert_eq!(leader.health("w"), (WorkerState::Healthy, None));
    assert_eq!(leader.state(1), UniversalState::Launched, "tried again");
}

#[test]
fn a_worker_is_checked_when_work_has_failed_on_it() {
    let (mut leader, worker) = rig();
    leader.pass_first_checks();
    leader.submit_as(1, submission(&once(), Some(4)));
    let before = leader.core.protocol.last_check();
    leader.ends(&worker, &[1], Outcome::Exited(0), 10);
    assert_eq!(leader.core.protocol.last_check(), before);
    leader.ends(&worker, &[2, 3], Outcome::Exited(1), 10);
    leader.ends(&worker, &[4], Outcome::Exited(1), 10);
    assert_eq!(leader.core.protocol.last_check(), before.next(), "once");
}

#[test]
fn a_retry_prefers_another_worker_and_does_not_wait_for_it() {
    let (mut leader, first) = rig();
    let spec = InstanceSpec {
        retry: RetryBudget {
            failures_max: 9,
            ..RetryBudget::default()
        },
        ..InstanceSpec::default()
    };
    leader.submit_as(1, submission(&spec, None));
    leader.ends(&first, &[1], Outcome::Exited(1), 10);
    assert_eq!(
        leader.state(1),
        UniversalState::Launched,
        "there is no other"
    );
    let mut second = Remote::new("x", 8, 1);
    second.offer = Arc::clone(&first.offer);
    leader.welcome(&mut second, &[]);
    for (ends_on, runs_on) in [(&first, "x"), (&second, "w"), (&first, "x")] {
        leader.ends(ends_on, &[1], Outcome::Exited(1), 10);
        let instance = leader.core.ledger().instance(InstanceId(1)).expect("there");
        let lease = instance.lease.as_ref().expect("placed at once");
        assert_eq!(lease.holder.worker, WorkerName::new(runs_on));
    }
}
