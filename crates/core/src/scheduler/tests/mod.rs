//! Single rules of the leader that a golden conversation would hide.

use std::sync::Arc;

use baton_model::device::DeviceShare;
use baton_model::fact::Holder;
use baton_model::ids::{
    Association, BootId, HostId, Incarnation, IncarnationNo, InstanceId, Lineage, SessionId,
    StoreId, WorkerName,
};
use baton_model::library::IdempotencyKey;
use baton_model::limits::PROTOCOL_VERSION;
use baton_model::message::{
    Greeting, Heartbeat, HeartbeatReply, HeldAttempt, LaunchRefusal, LaunchVerdict, Status, Tenure,
    ToWorker,
};
use baton_model::outcome::{KillMode, Outcome};
use baton_model::placement::{MeasuredUse, Offer};
use baton_model::spec::{Exclusive, InstanceSpec};
use baton_model::state::{UniversalState, WorkerState};
use baton_model::time::{Millis, Stamp, Wall};
use baton_model::worker_set::KnownSet;

use super::*;
use crate::ledger::Instance;
use crate::step::Outbox;

/// A leader whose store always answers at once.
struct Leader {
    core: Scheduler,
    outbox: Outbox<Effect>,
    /// The ledger of a store, including ended instances.
    kept: Ledger,
    /// Every fact of its term, in order.
    facts: Vec<Fact>,
    now: Mono,
    /// Wall clock reading at monotonic time 0.
    wall_at_zero: u64,
}

/// A worker as far as the leader can see it.
struct Remote {
    holder: Holder,
    association: Option<Association>,
    known: Option<KnownSet>,
    offer: Arc<Offer>,
    slots: u32,
    tenure: Tenure,
    greeting: Option<Greeting>,
    measured: Option<MeasuredUse>,
    /// When its host was booted.
    booted: Mono,
}

impl Remote {
    fn new(name: &str, lineage: u64, number: u64) -> Self {
        let holder = Holder {
            worker: WorkerName::new(name),
            incarnation: Incarnation {
                lineage: Lineage(lineage),
                number: IncarnationNo(number),
            },
            host: HostId(lineage),
            boot: BootId(lineage),
        };
        Self {
            holder,
            association: None,
            known: None,
            offer: Arc::default(),
            slots: 2,
            tenure: Tenure::default(),
            greeting: None,
            measured: None,
            booted: Mono(0),
        }
    }

    fn association(&self) -> Association {
        self.association.expect("the worker was answered")
    }
}

impl Leader {
    fn new(store: StoreMode, epoch: u64) -> Self {
        let config = Config {
            store,
            ..Config::default()
        };
        let now = Now {
            mono: Mono(1_000_000),
            wall: Wall(0),
        };
        Self {
            core: Scheduler::new(config, Epoch(epoch), Ledger::default(), now),
            outbox: Outbox::new(Epoch(epoch)),
            kept: Ledger::default(),
            facts: Vec::new(),
            now: now.mono,
            wall_at_zero: 0,
        }
    }

    /// The next leader, with the store that this one has left.
    fn next(&self, config: Config, epoch: Epoch) -> Self {
        let mut next = Self::new(StoreMode::Durable, epoch.0);
        next.kept = self.kept.clone();
        next.core = Scheduler::new(config, epoch, self.core.ledger().clone(), next.clock());
        next
    }

    fn give(&mut self, input: Input) -> Vec<Effect> {
        let now = self.clock();
        let step = self.core.handle(now, input);
        self.core.assert_invariants();
        for fact in step.facts() {
            self.kept.apply(fact).expect("facts fit each other");
        }
        self.facts.extend_from_slice(step.facts());
        if let Some(batch) = self.outbox.accept(step) {
            self.outbox.release(batch.durable());
        }
        self.outbox.drain().collect()
    }

    fn clock(&self) -> Now {
        Now {
            mono: self.now,
            wall: Wall(self.wall_at_zero + self.now.0),
        }
    }

    fn wait(&mut self, span: Millis) -> Vec<Effect> {
        self.now += span;
        self.give(Input::Tick)
    }

    fn heartbeat(&mut self, remote: &mut Remote, state: WorkerState) -> Option<HeartbeatReply> {
        self.now += Millis(1);
        let heartbeat = Heartbeat {
            version: PROTOCOL_VERSION,
            worker: remote.holder.clone(),
            executor: None,
            slots: remote.slots,
            offer: Arc::clone(&remote.offer),
            association: remote.association,
            epoch_seen: remote.association.map_or(Epoch(0), |it| it.epoch),
            stamp: Stamp(Mono(self.now.since(remote.booted).0)),
            state,
            worker_set: remote.known,
            tenure: remote.tenure,
            greeting: remote.greeting.clone(),
            measured: remote.measured,
        };
        let effects = self.give(Input::Message(ToScheduler::ProcessHeartbeat(heartbeat)));
        let reply = effects.into_iter().find_map(|effect| match effect {
            Effect::Send(_, ToWorker::HeartbeatReply(reply)) => Some(reply),
            _ => None,
        })?;
        remote.association = Some(reply.association);
        remote.known = reply.worker_set.or(remote.known);
        Some(reply)
    }

    fn report(&mut self, remote: &Remote, held: &[LeaseId]) {
        let held = held
            .iter()
            .map(|lease| HeldAttempt {
                lease: *lease,
                spec: Arc::default(),
                ended: None,
            })
            .collect();
        let association = remote.association();
        self.give(Input::Message(ToScheduler::RunningTasks {
            association,
            held,
        }));
    }

    /// Takes a worker from its first heartbeat to HEALTHY.
    fn welcome(&mut self, remote: &mut Remote, held: &[LeaseId]) {
        self.heartbeat(remote, WorkerState::New);
        self.report(remote, held);
        let check = self.core.protocol.last_check();
        let association = remote.association();
        let report = ToScheduler::HealthReport {
            association,
            check,
            ok: true,
        };
        self.give(Input::Message(report));
        self.heartbeat(remote, WorkerState::Unhealthy);
        self.heartbeat(remote, WorkerState::Healthy);
    }

    fn submit(&mut self, id: u64, exclusive: Exclusive) -> Vec<Effect> {
        let spec = InstanceSpec {
            exclusive,
            ..InstanceSpec::default()
        };
        self.submit_as(id, submission(&spec, None))
    }

    /// Submits instances that must get ids from this one on.
    fn submit_as(&mut self, id: u64, submission: Submission) -> Vec<Effect> {
        let request = RequestId(id);
        let effects = self.give(Input::command(
            request,
            Command::Submit {
                submission,
                mark: None,
            },
        ));
        let reply = effects.iter().find_map(|effect| match effect {
            Effect::Reply(to, Reply::Submitted(reply)) if *to == request => Some(*reply),
            _ => None,
        });
        let (first, _) = reply.expect("an answer").expect("it is accepted");
        assert_eq!(first, InstanceId(id), "the ids of this test");
        effects
    }

    fn state(&self, id: u64) -> UniversalState {
        self.kept.find(InstanceId(id)).expect("submitted").state
    }

    fn lease(&self, id: u64) -> LeaseId {
        let instance = self
            .core
            .ledger()
            .instance(InstanceId(id))
            .expect("submitted");
        instance.lease.as_ref().expect("leased").id
    }
}

/// One instance, or an array of them.
fn submission(spec: &InstanceSpec, count: Option<u64>) -> Submission {
    Submission {
        spec: Box::new(spec.clone()),
        array: count.map(|count| (count, 0)),
        more: Vec::new(),
        key: None,
    }
}

fn lease_time() -> Millis {
    Config::default().timeouts.lease()
}

fn launched(effects: &[Effect]) -> usize {
    let is_launch = |it: &&Effect| matches!(it, Effect::Send(_, ToWorker::RunTask { .. }));
    effects.iter().filter(is_launch).count()
}

#[test]
fn work_goes_to_a_worker_that_was_told_it_is_healthy() {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    let mut w = Remote::new("w", 7, 1);
    leader.submit(1, Exclusive::Timed);
    leader.heartbeat(&mut w, WorkerState::New);
    assert_eq!(leader.state(1), UniversalState::Queued);
    leader.welcome(&mut w, &[]);
    assert_eq!(leader.state(1), UniversalState::Launched);
}

#[test]
fn forgetting_a_worker_closes_what_a_later_life_had_taken_over() {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    let mut first = Remote::new("w", 7, 1);
    leader.welcome(&mut first, &[]);
    leader.submit(1, Exclusive::Strict);
    let lease = leader.lease(1);
    let mut second = Remote::new("w", 7, 2);
    leader.welcome(&mut second, &[lease]);
    assert_eq!(
        leader.state(1),
        UniversalState::Running,
        "the later life answers for it"
    );
    leader.wait(lease_time());
    leader.wait(lease_time());
    assert_eq!(
        leader.state(1),
        UniversalState::Running,
        "strict does not go by time"
    );
    leader.give(Input::command(
        RequestId(1),
        Command::Forget {
            worker: WorkerName::new("w"),
            lineage: Some(Lineage(7)),
        },
    ));
    assert_eq!(leader.state(1), UniversalState::Queued);
}

#[test]
fn a_dying_worker_that_never_reported_holds_up_the_initial_wait() {
    let mut leader = Leader::new(StoreMode::Memory, 2);
    let mut quick = Remote::new("a", 1, 1);
    let mut dying = Remote::new("b", 2, 1);
    leader.heartbeat(&mut dying, WorkerState::New);
    leader.welcome(&mut quick, &[]);
    leader.submit(2_000_000_001, Exclusive::Timed);
    leader.heartbeat(&mut dying, WorkerState::MustDie);
    let rest = Millis(lease_time().0 - 50);
    leader.wait(rest);
    assert!(
        leader.core.is_waiting(),
        "what it runs is not known, and it may be alive"
    );
    leader.wait(lease_time());
    assert!(!leader.core.is_waiting());
}

#[test]
fn without_a_store_a_key_stands_for_what_a_worker_still_runs() {
    let submit = |leader: &mut Leader, key, spec: InstanceSpec| {
        let submission = Submission {
            key: Some(IdempotencyKey { key, request: 1 }),
            ..submission(&spec, None)
        };
        let effects = leader.give(Input::command(
            RequestId(1),
            Command::Submit {
                submission,
                mark: None,
            },
        ));
        let reply = effects.into_iter().find_map(|effect| match effect {
            Effect::Reply(_, Reply::Submitted(reply)) => Some(reply),
            _ => None,
        });
        reply.expect("an answer").expect("it is accepted").0
    };
    let first = &mut Leader::new(StoreMode::Memory, 1);
    let id = submit(first, (7, 7), InstanceSpec::default());
    let mut next = Leader::new(StoreMode::Memory, 2);
    let lease = first.kept.next_lease(id, Epoch(1));
    next.welcome(&mut Remote::new("w", 1, 1), &[lease]);
    assert_eq!(submit(&mut next, (7, 7), InstanceSpec::default()), id);
    let submitted = |fact: &Fact| matches!(fact, Fact::InstancesSubmitted { .. });
    assert!(!next.facts.iter().any(submitted), "{:?}", next.facts);
    let other = InstanceSpec {
        name: "other".to_owned(),
        ..InstanceSpec::default()
    };
    // Another key that stands for the same id.
    let collided = submit(&mut next, (7, 8), other);
    assert_eq!(collided, InstanceId(2_000_000_001));
}

#[test]
fn a_life_that_is_over_leaves_the_worker_set_whatever_came_first() {
    let mut leader = Leader::new(StoreMode::Memory, 1);
    let mut old = Remote::new("w", 1, 1);
    leader.heartbeat(&mut old, WorkerState::New);
    // Its lease runs out and another machine asks for the seat at the same instant.
    leader.now += lease_time() + lease_time();
    let mut new = Remote::new("w", 2, 1);
    leader.welcome(&mut new, &[]);
    let set = new.known.expect("a worker set is told without a store").id;
    assert_eq!(set.hash.count, 1, "only the new one is left: {set}");
}

#[test]
fn a_worker_that_refused_gets_nothing_until_it_has_spoken_again() {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    let mut w = Remote::new("w", 7, 1);
    leader.welcome(&mut w, &[]);
    assert_eq!(launched(&leader.submit(1, Exclusive::Timed)), 1);
    let refused = LaunchVerdict::Refused(LaunchRefusal::NotHealthy);
    let reply = ToScheduler::RunTaskReply {
        association: w.association(),
        verdicts: vec![(leader.lease(1), refused)],
    };
    assert_eq!(launched(&leader.give(Input::Message(reply))), 0);
    assert_eq!(leader.state(1), UniversalState::Queued);
    leader.heartbeat(&mut w, WorkerState::Healthy);
    assert_eq!(leader.state(1), UniversalState::Launched);
}

#[test]
fn a_seat_has_the_use_of_the_last_heartbeat_and_none_of_a_worker_that_does_not_measure() {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    let mut w = Remote::new("w", 7, 1);
    let busy = MeasuredUse {
        cpu_milli: 980,
        memory: 1 << 20,
    };
    for measured in [None, Some(busy), Some(MeasuredUse::default()), None] {
        w.measured = measured;
        leader.heartbeat(&mut w, WorkerState::New);
        let seat = &leader.core.seats()[&w.holder.worker];
        assert_eq!(seat.measured, measured);
    }
}

#[test]
fn a_seat_has_the_devices_of_open_leases_only() {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    let mut w = Remote::new("w", 7, 1);
    leader.welcome(&mut w, &[]);
    leader.submit(1, Exclusive::Timed);
    let lease = leader.lease(1);
    let share = DeviceShare {
        resource: "gpu".to_owned(),
        id: "a".to_owned(),
        milli: 1_000,
    };
    let tell = |leader: &mut Leader| {
        let held = ToScheduler::HeldDevices {
            association: w.association(),
            held: vec![(lease, vec![share.clone()])],
        };
        leader.give(Input::Message(held));
        leader.core.seats()[&w.holder.worker].devices.len()
    };
    assert_eq!(tell(&mut leader), 1);
    let statuses = vec![(lease, Status::Ended(Outcome::Exited(0).into()))];
    let association = w.association();
    leader.give(Input::Message(ToScheduler::UpdateStatus {
        association,
        statuses,
    }));
    let seat = &leader.core.seats()[&w.holder.worker];
    assert!(seat.devices.is_empty(), "its lease is closed");
    assert_eq!(tell(&mut leader), 0, "it comes too late");
}

#[test]
fn only_the_worker_with_the_lease_gets_the_secrets_of_an_attempt() {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    let mut w = Remote::new("w", 7, 1);
    let mut other = Remote::new("v", 8, 1);
    leader.welcome(&mut w, &[]);
    leader.submit(1, Exclusive::Timed);
    let lease = leader.lease(1);
    leader.welcome(&mut other, &[]);
    let ask = |leader: &mut Leader, who: &Remote| {
        let association = who.association();
        let ask = ToScheduler::GetSecrets { association, lease };
        let effects = leader.give(Input::Message(ask));
        let grants = effects.into_iter().filter_map(|effect| match effect {
            Effect::GrantSecrets(grant) => Some((grant.to.worker, grant.lease)),
            _ => None,
        });
        grants.collect::<Vec<_>>()
    };
    assert_eq!(ask(&mut leader, &other), [], "it holds another lease");
    let granted = ask(&mut leader, &w);
    assert_eq!(granted, [(w.holder.worker.clone(), lease)]);
    let statuses = vec![(lease, Status::Ended(Outcome::Exited(0).into()))];
    let association = w.association();
    leader.give(Input::Message(ToScheduler::UpdateStatus {
        association,
        statuses,
    }));
    assert_eq!(ask(&mut leader, &w), [], "its lease is closed");
}

#[test]
fn a_heartbeat_reply_waits_for_the_store_although_it_records_nothing() {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    leader.give(Input::Tick);
    let w = Remote::new("w", 7, 1);
    let heartbeat = Heartbeat {
        version: PROTOCOL_VERSION,
        worker: w.holder,
        executor: None,
        slots: 1,
        offer: Arc::default(),
        association: None,
        epoch_seen: Epoch(0),
        stamp: Stamp(Mono(5)),
        state: WorkerState::New,
        worker_set: None,
        tenure: Tenure::default(),
        greeting: None,
        measured: None,
    };
    let now = Now {
        mono: leader.now,
        wall: Wall(0),
    };
    let input = Input::Message(ToScheduler::ProcessHeartbeat(heartbeat));
    let step = leader.core.handle(now, input);
    assert!(step.facts().is_empty());
    let batch = leader.outbox.accept(step).expect("a fence is a batch");
    assert_eq!(leader.outbox.drain().count(), 0);
    leader.outbox.release(batch.durable());
    assert!(leader.outbox.drain().count() > 0);
}

#[test]
fn a_worker_that_obeyed_a_higher_epoch_is_not_answered_but_reported() {
    let mut leader = Leader::new(StoreMode::Durable, 3);
    let mut w = Remote::new("w", 7, 1);
    w.association = Some(Association {
        store: StoreId(0),
        epoch: Epoch(9),
        incarnation: w.holder.incarnation,
        session: SessionId(1),
    });
    assert!(leader.heartbeat(&mut w, WorkerState::Healthy).is_none());
    assert!(leader.core.seats().is_empty());
}

#[test]
fn without_a_store_a_strict_instance_is_refused() {
    let mut leader = Leader::new(StoreMode::Memory, 1);
    let spec = InstanceSpec {
        exclusive: Exclusive::Strict,
        ..InstanceSpec::default()
    };
    let submit = Command::Submit {
        submission: submission(&spec, None),
        mark: None,
    };
    let effects = leader.give(Input::command(RequestId(1), submit));
    let refused = Effect::Reply(RequestId(1), Reply::Submitted(Err(SubmitError::NeedsStore)));
    assert_eq!(effects, [refused]);
    assert!(leader.facts.is_empty());
}

fn cancel(id: u64) -> Input {
    Input::command(
        RequestId(id),
        Command::Cancel {
            first: InstanceId(id),
            last: InstanceId(id),
            mode: KillMode::Graceful,
        },
    )
}

#[test]
fn cancelling_what_is_queued_halts_it_and_cancelling_again_changes_nothing() {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    leader.submit(1, Exclusive::Timed);
    leader.give(cancel(1));
    assert_eq!(leader.state(1), UniversalState::Halted);
    leader.give(cancel(1));
    leader.give(cancel(99));
    assert_eq!(leader.core.counts().noticed("cancel-after-end"), 2);
}

#[test]
fn placement_never_exceeds_the_slots() {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    let (mut a, mut b) = (Remote::new("a", 1, 1), Remote::new("b", 2, 1));
    leader.welcome(&mut a, &[]);
    leader.welcome(&mut b, &[]);
    for id in 1..=5 {
        leader.submit(id, Exclusive::Timed);
    }
    let on = |name: &str| {
        let here = |lease: &&crate::ledger::Lease| &*lease.holder.worker.0 == name;
        leader.core.ledger().open_leases().filter(here).count()
    };
    assert_eq!(
        (on("a"), on("b")),
        (2, 2),
        "two slots each, the fifth waits"
    );
}

#[test]
fn a_leader_waits_for_leases_that_its_predecessor_extended_after_its_term() {
    let mut before = Leader::new(StoreMode::Durable, 1);
    let mut w = Remote::new("w", 7, 1);
    before.welcome(&mut w, &[]);
    before.submit(1, Exclusive::Timed);
    let grace = Millis::from_secs(8);
    let config = Config {
        predecessor_grace: grace,
        ..Config::default()
    };
    let mut next = before.next(config, Epoch(2));
    next.wait(lease_time() + grace.saturating_sub(Millis(1)));
    assert_eq!(next.state(1), UniversalState::Launched, "it may still run");
    next.wait(Millis(1));
    assert_eq!(next.state(1), UniversalState::Queued);
}

#[test]
fn a_leader_with_a_shorter_lease_waits_for_what_the_one_before_promised() {
    let mut patient = Leader::new(StoreMode::Durable, 1);
    patient.core.config.timeouts.lose_after = Millis::from_secs(500);
    let long = patient.core.config.timeouts.lease();
    let mut w = Remote::new("w", 7, 1);
    patient.welcome(&mut w, &[]);
    patient.submit(1, Exclusive::Timed);
    assert_eq!(patient.core.ledger().lease_time(), long);
    let mut hasty = patient.next(Config::default(), Epoch(2));
    hasty.wait(lease_time() + Millis::from_secs(1));
    assert_eq!(hasty.state(1), UniversalState::Launched, "it may still run");
    hasty.wait(long);
    assert_eq!(hasty.state(1), UniversalState::Queued);
    assert_eq!(hasty.core.ledger().lease_time(), lease_time());
}

#[test]
fn a_worker_cannot_close_the_lease_of_another() {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    let mut holder = Remote::new("a", 1, 1);
    leader.welcome(&mut holder, &[]);
    leader.submit(1, Exclusive::Timed);
    let mut other = Remote::new("b", 2, 1);
    leader.welcome(&mut other, &[]);
    let lease = leader.lease(1);
    let refused = LaunchVerdict::Refused(LaunchRefusal::NotHealthy);
    let reply = ToScheduler::RunTaskReply {
        association: other.association(),
        verdicts: vec![(lease, refused)],
    };
    leader.give(Input::Message(reply));
    assert_eq!(leader.lease(1), lease, "it is not its to refuse");
}

#[test]
fn messages_are_read_before_the_clock() {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    let mut w = Remote::new("w", 7, 1);
    leader.welcome(&mut w, &[]);
    leader.submit(1, Exclusive::Timed);
    // Stopped for longer than a lease, with the result waiting in the queue.
    leader.now += lease_time() + lease_time();
    let statuses = vec![(
        leader.lease(1),
        baton_model::message::Status::Ended(baton_model::outcome::Outcome::Exited(0).into()),
    )];
    let association = w.association();
    leader.give(Input::Message(ToScheduler::UpdateStatus {
        association,
        statuses,
    }));
    leader.give(Input::Tick);
    assert_eq!(leader.state(1), UniversalState::Done);
}

#[test]
fn what_a_condemned_worker_has_finished_is_taken_before_it_is_acknowledged() {
    use baton_model::message::Status;
    use baton_model::outcome::Outcome;

    let mut leader = Leader::new(StoreMode::Memory, 2);
    let mut w = Remote::new("w", 1, 1);
    leader.heartbeat(&mut w, WorkerState::New);
    leader.heartbeat(&mut w, WorkerState::MustDie);
    let (lease, association) = (
        Ledger::default().next_lease(InstanceId(1), Epoch(1)),
        w.association(),
    );
    let told = || ToScheduler::UpdateStatus {
        association,
        statuses: vec![(lease, Status::Ended(Outcome::Exited(0).into()))],
    };
    let acknowledged = |effects: &[Effect]| {
        effects
            .iter()
            .any(|it| matches!(it, Effect::Send(_, ToWorker::StatusAck { .. })))
    };
    assert!(!acknowledged(&leader.give(Input::Message(told()))));
    let held = vec![HeldAttempt {
        lease,
        spec: Arc::default(),
        ended: Some(Outcome::Exited(0).into()),
    }];
    leader.give(Input::Message(ToScheduler::RunningTasks {
        association,
        held,
    }));
    assert_eq!(leader.state(1), UniversalState::Done);
    assert!(acknowledged(&leader.give(Input::Message(told()))));
}

mod alarms;
mod conditions;
mod copies;
mod dependencies;
mod faults;
mod fleets;
mod gangs;
mod kills;
mod library;
mod limits;
mod placing;
mod progress;
mod runs;
mod suspicion;
mod tenure;
mod terms;
mod traces;
mod waits;
mod workers;
