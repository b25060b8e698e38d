//! Placement by the leader: ranges, resources, backoff, retries, drains, and explanations.

use baton_model::fact::NextAttempt;
use baton_model::library::{Created, IdempotencyKey};
use baton_model::message::{LaunchRefusal, LaunchVerdict, Status};
use baton_model::outcome::{
    AttemptEnd, AttemptStats, KillCause, KillMode, Outcome, Report, Synthetic,
};
use baton_model::placement::{Capacity, Constraint, Offer, ResourceRequest, Rule};
use baton_model::spec::{Array, RetryBackoff, RetryBudget, Scale};
use baton_model::task::Resources;

use super::*;
use crate::wait::{Exclusion, Wait, WaitReason};

/// Asks for cores and memory, and may fail twice.
fn spec(cpu: u64, memory: u64) -> Arc<InstanceSpec> {
    Arc::new(InstanceSpec {
        request: ResourceRequest {
            resources: Resources {
                cpu_milli: 1_000 * cpu,
                memory_min: memory,
                memory_max: memory,
                ..Resources::default()
            },
            ..ResourceRequest::default()
        },
        retry: RetryBudget {
            failures_max: 2,
            losses_max: 2,
            backoff: RetryBackoff {
                first: Millis(100),
                max: Millis(1_000),
            },
            scale: Scale {
                memory_percent: 200,
                ..Scale::default()
            },
            fallback: Vec::new(),
        },
        ..InstanceSpec::default()
    })
}

/// A leader with one worker of four cores and 100 bytes.
pub(super) fn rig() -> (Leader, Remote) {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    let mut worker = Remote::new("w", 7, 1);
    worker.offer = Arc::new(Offer {
        capacity: Capacity {
            cpu_milli: 4_000,
            memory: 100,
            ..Capacity::default()
        },
        ..Offer::default()
    });
    worker.slots = 1_000;
    leader.welcome(&mut worker, &[]);
    (leader, worker)
}

impl Leader {
    fn submit_range(&mut self, first: u64, last: u64, spec: &Arc<InstanceSpec>) -> Vec<Effect> {
        let count = (last > first).then_some(last - first + 1);
        self.submit_as(first, submission(spec, count))
    }

    pub(super) fn ends(&mut self, worker: &Remote, ids: &[u64], outcome: Outcome, elapsed: u64) {
        let stats = AttemptStats {
            started: Wall(0),
            ended: Wall(elapsed),
            elapsed: Millis(elapsed),
            cpu: Millis(0),
            memory_peak: 0,
        };
        let report = Report {
            outcome,
            stats: Some(stats),
            outputs: None,
            stderr_tail: None,
            progress: None,
        };
        let statuses = ids
            .iter()
            .map(|id| (self.lease(*id), Status::Ended(report.clone())));
        let statuses = statuses.collect();
        self.give(Input::Message(ToScheduler::UpdateStatus {
            association: worker.association(),
            statuses,
        }));
    }

    /// The worker has not started these in time.
    fn gives_back(&mut self, worker: &Remote, ids: &[u64]) {
        let statuses = ids
            .iter()
            .map(|id| (self.lease(*id), Status::WasNotRunning));
        let statuses = statuses.collect();
        self.give(Input::Message(ToScheduler::UpdateStatus {
            association: worker.association(),
            statuses,
        }));
    }

    pub(super) fn leased(&self) -> Vec<u64> {
        self.core
            .running()
            .map(|lease| lease.attempt.instance.0)
            .collect()
    }

    fn standing(&self, id: u64) -> Option<Standing> {
        self.core.explain(InstanceId(id), self.clock())
    }

    /// The wait of an instance for a worker. Its explanation counts every worker.
    pub(super) fn waits(&self, id: u64) -> Wait {
        let Some(Standing::Waiting(wait)) = self.standing(id) else {
            panic!("{:?}", self.standing(id));
        };
        let wait = *wait;
        assert!(wait.is_for_worker(), "{wait:?}");
        let counted: usize = wait.workers.iter().map(|group| group.workers).sum();
        assert_eq!(counted, self.core.seats().len(), "{wait:?}");
        wait
    }

    pub(super) fn cancel_range(&mut self, first: u64, last: u64) -> CancelCounts {
        let effects = self.give(Input::command(
            RequestId(0),
            Command::Cancel {
                first: InstanceId(first),
                last: InstanceId(last),
                mode: KillMode::Graceful,
            },
        ));
        let told = effects.iter().find_map(|effect| match effect {
            Effect::Reply(_, Reply::Cancelled(what)) => Some(*what),
            _ => None,
        });
        told.expect("a cancel is answered")
    }

    pub(super) fn retry(&mut self, id: u64) -> Result<(), RetryError> {
        let instance = self.kept.find(InstanceId(id)).expect("submitted");
        let effects = self.give(Input::command(
            RequestId(0),
            Command::Retry(Box::new(instance)),
        ));
        let told = effects.iter().find_map(|effect| match effect {
            Effect::Reply(_, Reply::Retried(what)) => Some(*what),
            _ => None,
        });
        told.expect("a retry is answered")
    }
}

#[test]
fn an_array_is_one_fact_and_takes_what_room_there_is() {
    let (mut leader, worker) = rig();
    leader.submit_range(1, 1_000_000, &spec(1, 0));
    assert_eq!(leader.leased(), [1, 2, 3, 4]);
    leader.ends(&worker, &[2], Outcome::Exited(0), 60_000);
    assert_eq!(leader.leased(), [1, 3, 4, 5]);
    assert_eq!(leader.state(2), UniversalState::Done);
    assert!(
        leader.core.ledger().find(InstanceId(2)).is_none(),
        "dropped"
    );
    assert_eq!(leader.core.ledger().instances().count(), 4);
}

#[test]
fn of_submissions_with_the_same_key_only_the_first_creates_something() {
    let (mut leader, _) = rig();
    let key = |request| IdempotencyKey {
        key: (7, 7),
        request,
    };
    let submit = |leader: &mut Leader, id, key| {
        let submission = Submission {
            key,
            ..submission(&spec(1, 0), Some(10))
        };
        let effects = leader.give(Input::command(
            RequestId(id),
            Command::Submit {
                submission,
                mark: None,
            },
        ));
        effects.into_iter().find_map(|effect| match effect {
            Effect::Reply(RequestId(to), Reply::Submitted(reply)) if to == id => Some(reply),
            _ => None,
        })
    };
    let (first, last) = (InstanceId(1), InstanceId(10));
    assert_eq!(
        submit(&mut leader, 1, Some(key(1))),
        Some(Ok((first, last)))
    );
    let facts = leader.facts.len();
    assert_eq!(
        submit(&mut leader, 2, Some(key(1))),
        Some(Ok((first, last)))
    );
    let used = SubmitError::KeyUsed(Created::Instances { first, last });
    assert_eq!(submit(&mut leader, 3, Some(key(2))), Some(Err(used)));
    assert_eq!(leader.facts.len(), facts, "nothing was recorded");
    let next = Some(Ok((InstanceId(11), InstanceId(20))));
    assert_eq!(submit(&mut leader, 4, None), next);
}

#[test]
fn cancelling_a_range_halts_what_waits_and_kills_what_runs() {
    let (mut leader, worker) = rig();
    leader.submit_range(1, 1_000, &spec(2, 0));
    assert_eq!(leader.leased(), [1, 2]);
    let told = leader.cancel_range(2, 900);
    assert_eq!((told.halted, told.stopping), (898, 1));
    assert_eq!(leader.standing(900), None);
    leader.ends(&worker, &[2], Outcome::Killed(KillCause::Requested), 5);
    assert_eq!(leader.state(2), UniversalState::Halted);
    assert_eq!(leader.leased(), [1, 901], "the rest goes on");
    let again = leader.cancel_range(2, 900);
    assert_eq!((again.halted, again.stopping), (0, 0));
}

#[test]
fn of_tasks_submitted_within_one_tick_the_one_with_the_shorter_history_goes_first() {
    // The long one has the lower id. Each takes the whole worker, with equal requests.
    let order = |pause: u64| {
        let (mut leader, worker) = rig();
        let named = |name: &str| {
            let mut spec = Arc::unwrap_or_clone(spec(4, 10));
            name.clone_into(&mut spec.name);
            Arc::new(spec)
        };
        let (long, short) = (named("long"), named("short"));
        leader.submit_range(1, 1, &long);
        leader.ends(&worker, &[1], Outcome::Exited(0), 90_000);
        leader.submit_range(2, 2, &short);
        leader.ends(&worker, &[2], Outcome::Exited(0), 60_000);
        leader.submit_range(3, 3, &spec(4, 30));
        leader.wait(Millis(5_000));
        leader.submit_range(4, 4, &long);
        leader.wait(Millis(pause));
        leader.submit_range(5, 5, &short);
        leader.ends(&worker, &[3], Outcome::Exited(0), 60_000);
        leader.leased()
    };
    assert_eq!(order(900), [5], "within one tick its history decides");
    assert_eq!(order(1_000), [4], "beyond it the waiting time decides");
}

#[test]
fn a_failed_instance_backs_off_and_then_goes_before_later_ones() {
    let (mut leader, worker) = rig();
    leader.submit_range(1, 1, &spec(4, 0));
    leader.submit_range(2, 9, &spec(4, 0));
    leader.ends(&worker, &[1], Outcome::Exited(3), 60_000);
    assert_eq!(leader.leased(), [2], "the next one need not wait");
    assert_eq!(leader.wait_reason(1), Some(backoff(100)));
    leader.wait(Millis(100));
    leader.ends(&worker, &[2], Outcome::Exited(0), 60_000);
    assert_eq!(leader.leased(), [1]);
    leader.ends(&worker, &[1], Outcome::Exited(3), 60_000);
    assert_eq!(leader.wait_reason(1), Some(backoff(200)));
}

const fn backoff(left: u64) -> WaitReason {
    WaitReason::Backoff { left: Millis(left) }
}

#[test]
fn a_backoff_survives_the_leader_but_not_a_clock_that_was_set_back() {
    let (mut leader, worker) = rig();
    leader.submit_range(1, 1, &spec(1, 0));
    leader.ends(&worker, &[1], Outcome::Exited(3), 60_000);
    let ledger = leader.core.ledger().clone();
    let at = |wall: u64| {
        let now = Now {
            mono: Mono(77),
            wall: Wall(wall),
        };
        let next = Scheduler::new(Config::default(), Epoch(2), ledger.clone(), now);
        let standing = next.explain(InstanceId(1), now)?;
        Some(standing.wait()?.reason.clone())
    };
    let soon = leader.clock().wall.0 + 40;
    assert_eq!(at(soon), Some(backoff(60)));
    assert_eq!(at(0), Some(backoff(1_000)));
}

#[test]
fn what_ran_out_of_memory_gets_more_of_it_and_waits_for_that() {
    let (mut leader, worker) = rig();
    leader.submit_range(1, 1, &spec(1, 40));
    leader.submit_range(2, 2, &spec(1, 50));
    leader.ends(&worker, &[1], Outcome::Killed(KillCause::OutOfMemory), 9);
    leader.wait(Millis(100));
    let instance = leader.kept.find(InstanceId(1)).expect("submitted");
    assert_eq!(instance.allowance().memory_max, 80);
    let WaitReason::Room {
        resource, short, ..
    } = leader.waits(1).reason
    else {
        panic!("{:?}", leader.standing(1));
    };
    assert_eq!((resource.as_str(), short), ("memory", 30));
    leader.ends(&worker, &[2], Outcome::Exited(0), 9);
    assert_eq!(leader.leased(), [1]);
    leader.ends(&worker, &[1], Outcome::Killed(KillCause::OutOfMemory), 9);
    leader.wait(Millis(200));
    let too_small = Exclusion::TooSmall {
        resource: "memory".to_owned(),
        asked: 160,
        has: 100,
    };
    let wait = leader.waits(1);
    assert_eq!(wait.reason, WaitReason::Excluded(too_small));
    let text = wait.text();
    assert!(
        text.contains("(40 B of memory, now 160 B of memory)"),
        "{text}"
    );
}

#[test]
fn what_fails_goes_to_the_workers_of_its_fallback_and_begins_anew_by_hand() {
    let (mut leader, small) = rig();
    let mut big = Remote::new("big", 8, 2);
    big.offer = Arc::new(Offer {
        labels: [("pool".to_owned(), "big".to_owned())].into(),
        ..(*small.offer).clone()
    });
    big.slots = 10;
    let pool = |rule| {
        vec![Constraint {
            label: "pool".to_owned(),
            rule,
        }]
    };
    let mut spec = InstanceSpec::clone(&spec(1, 0));
    spec.request.constraints = pool(Rule::Absent);
    spec.retry.fallback = vec![pool(Rule::OneOf(["big".to_owned()].into()))];
    leader.submit_range(1, 1, &Arc::new(spec));
    let holder = |leader: &Leader| {
        let instance = leader.kept.find(InstanceId(1)).expect("submitted");
        let lease = instance.lease.expect("it is leased");
        lease.holder.worker.to_string()
    };
    assert_eq!(holder(&leader), "w");
    leader.ends(&small, &[1], Outcome::Exited(1), 9);
    leader.wait(Millis(100));
    let WaitReason::Excluded(Exclusion::Constraint(_)) = leader.waits(1).reason else {
        panic!("{:?}", leader.standing(1));
    };
    leader.welcome(&mut big, &[]);
    assert_eq!(holder(&leader), "big");
    leader.ends(&big, &[1], Outcome::Exited(1), 9);
    leader.wait(Millis(200));
    assert_eq!(holder(&leader), "big", "the last place stays");
    leader.ends(&big, &[1], Outcome::Exited(1), 9);
    assert_eq!(leader.state(1), UniversalState::Failed);
    assert_eq!(leader.retry(1), Ok(()));
    assert_eq!(holder(&leader), "w");
}

#[test]
fn outputs_of_an_attempt_are_stored_if_it_is_done_and_they_are_not_too_large() {
    let (mut leader, worker) = rig();
    leader.submit_range(1, 3, &spec(1, 0));
    let mut end = |id: u64, outcome, outputs: &str| {
        let lease = leader.lease(id);
        let report = Report {
            outputs: Some(outputs.into()),
            ..Report::from(outcome)
        };
        leader.give(Input::Message(ToScheduler::UpdateStatus {
            association: worker.association(),
            statuses: vec![(lease, Status::Ended(report))],
        }));
        let kept = leader.facts.iter().find_map(|fact| match fact {
            Fact::AttemptEnded {
                lease: ended,
                outputs,
                ..
            } if *ended == lease => Some(outputs.clone()),
            _ => None,
        });
        kept.expect("it has ended")
    };
    assert_eq!(end(1, Outcome::Exited(0), "{}").as_deref(), Some("{}"));
    assert_eq!(end(2, Outcome::Exited(1), "{}"), None);
    let much = " ".repeat(baton_model::limits::OUTPUTS_BYTES_MAX + 1);
    assert_eq!(end(3, Outcome::Exited(0), &much), None);
}

#[test]
fn what_has_failed_or_was_halted_can_be_tried_again_and_nothing_else() {
    let (mut leader, worker) = rig();
    let once = Arc::new(InstanceSpec::default());
    leader.submit_range(1, 1, &once);
    let refused = Err(RetryError::NotEnded(UniversalState::Launched));
    assert_eq!(leader.retry(1), refused);
    leader.ends(&worker, &[1], Outcome::Exited(9), 5);
    assert_eq!(leader.state(1), UniversalState::Failed);
    assert_eq!(leader.retry(1), Ok(()));
    assert_eq!(leader.lease(1).attempt.number.0, 2, "numbers go on");
    leader.ends(&worker, &[1], Outcome::Exited(0), 5);
    let refused = Err(RetryError::NotEnded(UniversalState::Done));
    assert_eq!(leader.retry(1), refused);
}

#[test]
fn a_drained_worker_keeps_what_it_has_and_gets_nothing_in_any_life() {
    let (mut leader, mut worker) = rig();
    let drain = |drained| {
        Input::command(
            RequestId(5),
            Command::Drain {
                worker: WorkerName::new("w"),
                drained,
            },
        )
    };
    leader.submit_range(1, 1, &spec(1, 0));
    assert!(
        leader
            .give(drain(true))
            .contains(&Effect::Reply(RequestId(5), Reply::Drained))
    );
    leader.submit_range(2, 2, &spec(1, 0));
    leader.heartbeat(&mut worker, WorkerState::Healthy);
    assert_eq!(leader.leased(), [1]);
    let drained = WaitReason::Excluded(Exclusion::Drained);
    assert_eq!(leader.waits(2).reason, drained);
    let now = leader.clock();
    let ledger = leader.core.ledger().clone();
    let next = Scheduler::new(Config::default(), Epoch(2), ledger, now);
    assert!(next.ledger().drained().contains(&WorkerName::new("w")));
    leader.give(drain(false));
    assert_eq!(leader.leased(), [1, 2]);
}

#[test]
fn short_instances_are_placed_ahead_and_given_back_without_a_charge() {
    let (mut leader, worker) = rig();
    leader.submit_range(1, 1_000, &spec(1, 0));
    assert_eq!(leader.leased().len(), 4, "their duration is not known yet");
    leader.ends(&worker, &[1], Outcome::Exited(0), 10);
    assert_eq!(
        leader.leased().len(),
        4 + 20,
        "as many as four finish in 50 ms"
    );
    let last = *leader.leased().last().expect("some are leased");
    leader.gives_back(&worker, &[last]);
    assert!(
        matches!(
            leader.facts.last(),
            Some(Fact::AttemptEnded {
                end: AttemptEnd::Synthetic(Synthetic::NeverStarted),
                ..
            })
        ),
        "{:?}",
        leader.facts.last()
    );
    let instance = leader.kept.find(InstanceId(last)).expect("submitted");
    assert_eq!(instance.state, UniversalState::Queued);
    assert_eq!((instance.failures, instance.losses), (0, 0));
    assert_eq!(instance.next_attempt, None::<Box<NextAttempt>>);
}

#[test]
fn a_worker_that_gave_work_back_gets_more_as_soon_as_a_core_is_free() {
    let (mut leader, worker) = rig();
    leader.submit_range(1, 1_000, &spec(1, 0));
    leader.ends(&worker, &[1], Outcome::Exited(0), 10);
    let ahead = leader.leased().split_off(4);
    leader.gives_back(&worker, &ahead);
    assert_eq!(leader.leased(), [2, 3, 4, 5], "all others were given back");
    let WaitReason::Room { .. } = leader.waits(6).reason else {
        panic!("{:?}", leader.standing(6));
    };
    leader.ends(&worker, &[3], Outcome::Exited(0), 2_000);
    assert!(leader.leased().contains(&6), "without a heartbeat");
}

#[test]
fn a_worker_that_refused_work_is_busy_until_an_attempt_ends_there() {
    let (mut leader, worker) = rig();
    leader.submit_range(1, 3, &spec(1, 0));
    let lease = leader.lease(3);
    leader.give(Input::Message(ToScheduler::RunTaskReply {
        association: worker.association(),
        verdicts: vec![(lease, LaunchVerdict::Refused(LaunchRefusal::Full))],
    }));
    assert_eq!(leader.leased(), [1, 2]);
    let busy = WaitReason::Busy {
        worker: WorkerName::new("w"),
    };
    assert_eq!(leader.waits(3).reason, busy);
    leader.ends(&worker, &[1], Outcome::Exited(0), 2_000);
    assert_eq!(leader.leased(), [2, 3]);
}

#[test]
fn a_cancelled_instance_has_no_failure() {
    let (mut leader, worker) = rig();
    leader.submit_range(1, 2, &spec(1, 0));
    leader.cancel_range(1, 2);
    leader.ends(&worker, &[1], Outcome::Killed(KillCause::Requested), 9);
    leader.ends(&worker, &[2], Outcome::Exited(1), 9);
    for id in [1, 2] {
        let instance = leader.kept.find(InstanceId(id)).expect("submitted");
        assert_eq!(instance.state, UniversalState::Halted);
        assert_eq!((instance.failures, instance.losses), (0, 0), "{instance:?}");
    }
}

#[test]
fn a_cancelled_range_names_only_what_it_halted() {
    let (mut leader, worker) = rig();
    leader.submit_range(1, 9, &spec(1, 0));
    leader.ends(&worker, &[1], Outcome::Exited(0), 60_000);
    leader.ends(&worker, &[3], Outcome::Exited(1), 60_000);
    assert_eq!(leader.leased(), [2, 4, 5, 6], "i1 is DONE, i3 in backoff");
    let counts = leader.cancel_range(1, 9);
    assert_eq!((counts.halted, counts.stopping), (4, 4));
    let halted = leader.facts.iter().filter_map(|fact| match fact {
        Fact::InstancesHalted { first, last, .. } => Some((first.0, last.0)),
        _ => None,
    });
    assert_eq!(halted.collect::<Vec<_>>(), [(3, 3), (7, 9)]);
    let asked = leader.facts.iter().filter_map(|fact| match fact {
        Fact::StopRequested { instance, .. } => Some(instance.0),
        _ => None,
    });
    assert_eq!(asked.collect::<Vec<_>>(), [2, 4, 5, 6]);
}

#[test]
fn long_instances_are_not_placed_ahead() {
    let (mut leader, worker) = rig();
    leader.submit_range(1, 1_000, &spec(1, 0));
    leader.ends(&worker, &[1], Outcome::Exited(0), 1_000);
    assert_eq!(leader.leased().len(), 4);
}

#[test]
fn an_element_knows_its_index() {
    let array = Array {
        first: InstanceId(100),
        from: 7,
    };
    assert_eq!(array.index(InstanceId(100)), 7);
    assert_eq!(array.index(InstanceId(103)), 10);
}

#[test]
fn a_lease_whose_worker_is_silent_is_unsure_until_it_runs_out() {
    let (mut leader, worker) = rig();
    leader.submit_range(1, 1, &spec(1, 0));
    let lease = leader.lease(1);
    leader.give(Input::Message(ToScheduler::RunTaskReply {
        association: worker.association(),
        verdicts: vec![(lease, LaunchVerdict::Accepted)],
    }));
    let Some(Standing::Running { stopping, .. }) = leader.standing(1) else {
        panic!("{:?}", leader.standing(1));
    };
    assert!(!stopping);
    leader.wait(Millis::from_secs(40));
    let Some(WaitReason::Unsure(unsure)) = leader.wait_reason(1) else {
        panic!("{:?}", leader.wait_reason(1));
    };
    assert_eq!(&*unsure.worker.0, "w");
    assert!(unsure.left.is_some_and(|left| left > Millis(0)));
    leader.wait(lease_time());
    let unhealthy = WaitReason::Excluded(Exclusion::Unhealthy);
    assert_eq!(leader.waits(1).reason, unhealthy);
}
