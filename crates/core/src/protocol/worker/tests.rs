//! Single rules of the worker's half that a whole conversation would hide.

use std::collections::BTreeSet;
use std::sync::Arc;

use baton_model::device::DeviceShare;
use baton_model::fact::Holder;
use baton_model::ids::{
    Association, AttemptId, AttemptNo, BootId, Epoch, HostId, Incarnation, IncarnationNo,
    InstanceId, LeaseId, Lineage, NotifySeq, SessionId, StoreId, WorkerName,
};
use baton_model::limits::PROGRESS_PER_HEARTBEAT_MAX;
use baton_model::message::{
    HeartbeatReply, Launch, LaunchRefusal, LaunchVerdict, Refusal, Status, ToScheduler, ToWorker,
};
use baton_model::outcome::{Outcome, Report};
use baton_model::progress::Progress;
use baton_model::state::WorkerState;
use baton_model::time::{Millis, Mono, Stamp, Wall};
use baton_model::timeouts::Timeouts;
use baton_model::worker_set::{KnownSet, SetVersion, WorkerSetHash, WorkerSetId};

use super::Worker;
use super::io::{Effect, Input, Record};

const ME: Incarnation = Incarnation {
    lineage: Lineage(7),
    number: IncarnationNo(1),
};

fn lease(instance: u64) -> LeaseId {
    LeaseId {
        attempt: AttemptId {
            instance: InstanceId(instance),
            number: AttemptNo(1),
        },
        epoch: Epoch(1),
    }
}

fn association(session: u64) -> Association {
    Association {
        store: StoreId(1),
        epoch: Epoch(1),
        incarnation: ME,
        session: SessionId(session),
    }
}

fn worker(records: Vec<Record>, now: u64) -> Worker {
    let me = Holder {
        worker: WorkerName::new("w"),
        incarnation: ME,
        host: HostId(1),
        boot: BootId(1),
    };
    Worker::begin(me, 4, Arc::default(), records, Mono(now))
}

fn reply(session: u64, stamp: u64, state: WorkerState) -> Input {
    Input::Message(ToWorker::HeartbeatReply(HeartbeatReply {
        held: 0,
        association: association(session),
        stamp: Stamp(Mono(stamp)),
        state,
        timeouts: Timeouts::default().for_worker(),
        worker_set: None,
    }))
}

fn run_task(session: u64, stamp: u64, instance: u64) -> Input {
    Input::Message(ToWorker::RunTask {
        association: association(session),
        seq: NotifySeq(0),
        stamp: Stamp(Mono(stamp)),
        launches: vec![Launch {
            lease: lease(instance),
            spec: Arc::default(),
            allowance: None,
            trace: None,
        }],
    })
}

/// The stamp of the heartbeat among these effects.
fn heartbeat(effects: &[Effect]) -> Option<u64> {
    effects.iter().find_map(|effect| match effect {
        Effect::Send(ToScheduler::ProcessHeartbeat(heartbeat)) => Some(heartbeat.stamp.0.0),
        _ => None,
    })
}

fn verdicts(effects: &[Effect]) -> Vec<LaunchVerdict> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Send(ToScheduler::RunTaskReply { verdicts, .. }) => Some(verdicts),
            _ => None,
        })
        .flatten()
        .map(|(_, verdict)| *verdict)
        .collect()
}

fn statuses(effects: &[Effect]) -> Vec<(LeaseId, Status)> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Send(ToScheduler::UpdateStatus { statuses, .. }) => Some(statuses.clone()),
            _ => None,
        })
        .flatten()
        .collect()
}

fn launches(effects: &[Effect]) -> usize {
    effects
        .iter()
        .filter(|effect| matches!(effect, Effect::Launch(..)))
        .count()
}

/// A worker that a leader has just called HEALTHY, and the stamp it answered.
fn healthy(now: u64) -> (Worker, u64) {
    let mut worker = worker(Vec::new(), now);
    let stamp = heartbeat(&worker.handle(Mono(now + 1), Input::Tick)).expect("a first heartbeat");
    worker.handle(Mono(now + 2), reply(1, stamp, WorkerState::Healthy));
    assert_eq!(worker.state(), WorkerState::Healthy);
    (worker, stamp)
}

#[test]
fn a_reply_to_an_agent_that_is_gone_is_not_for_its_successor() {
    let (_, stamp) = healthy(1_000);
    let mut successor = worker(Vec::new(), 2_000);
    successor.handle(Mono(2_001), Input::Tick);
    successor.handle(Mono(2_002), reply(1, stamp, WorkerState::Healthy));
    assert_eq!(successor.state(), WorkerState::New);
    let effects = successor.handle(Mono(2_003), run_task(1, stamp, 1));
    assert_eq!(launches(&effects), 0);
}

#[test]
fn a_launch_that_the_guard_refused_is_told_until_it_is_acknowledged() {
    let (mut worker, stamp) = healthy(0);
    assert_eq!(launches(&worker.handle(Mono(10), run_task(1, stamp, 1))), 1);
    let effects = worker.handle(Mono(11), Input::LaunchRefused(lease(1)));
    let refused = LaunchVerdict::Refused(LaunchRefusal::GuardFired);
    assert_eq!(verdicts(&effects), [refused]);
    let retry = Timeouts::default().status_retry;
    let mut told = 0;
    for round in 1..=3 {
        let effects = worker.handle(Mono(11) + retry.scaled(round, 1), Input::Tick);
        told += statuses(&effects).len();
    }
    assert_eq!(told, 3, "it is repeated");
    let ack = ToWorker::StatusAck {
        association: association(1),
        leases: vec![lease(1)],
    };
    worker.handle(Mono(9_000), Input::Message(ack));
    let effects = worker.handle(Mono(9_000) + retry, Input::Tick);
    assert!(statuses(&effects).is_empty());
}

#[test]
fn a_refused_lease_is_refused_for_ever_also_once_the_worker_is_well() {
    let mut worker = worker(Vec::new(), 0);
    let stamp = heartbeat(&worker.handle(Mono(1), Input::Tick)).expect("a first heartbeat");
    worker.handle(Mono(2), reply(1, stamp, WorkerState::Unhealthy));
    let early = worker.handle(Mono(3), run_task(1, stamp, 1));
    let not_healthy = LaunchVerdict::Refused(LaunchRefusal::NotHealthy);
    assert_eq!(verdicts(&early), [not_healthy]);
    let next = heartbeat(&worker.handle(Mono(6_000), Input::Tick)).expect("the next heartbeat");
    worker.handle(Mono(6_001), reply(1, next, WorkerState::Healthy));
    let copy = worker.handle(Mono(6_002), run_task(1, stamp, 1));
    let over = LaunchVerdict::Refused(LaunchRefusal::AlreadyOver);
    assert_eq!(verdicts(&copy), [over]);
    assert_eq!(launches(&copy), 0);
}

#[test]
fn a_second_copy_of_an_accepted_launch_is_accepted_again_and_not_started_again() {
    let (mut worker, stamp) = healthy(0);
    worker.handle(Mono(10), run_task(1, stamp, 1));
    worker.handle(Mono(11), Input::Launched(lease(1)));
    let copy = worker.handle(Mono(12), run_task(1, stamp, 1));
    assert_eq!(launches(&copy), 0);
    assert_eq!(verdicts(&copy), [LaunchVerdict::Accepted]);
}

#[test]
fn what_waits_for_room_is_not_confirmed_and_given_back_without_a_refusal() {
    let (mut worker, stamp) = healthy(0);
    let launched = worker.handle(Mono(10), run_task(1, stamp, 1));
    assert_eq!(verdicts(&launched), [], "it has not started");
    let copy = worker.handle(Mono(11), run_task(1, stamp, 1));
    assert_eq!(verdicts(&copy), [], "nor now");
    let given_back = worker.handle(Mono(12), Input::Withdrawn(lease(1)));
    assert_eq!(verdicts(&given_back), []);
    assert_eq!(statuses(&given_back), [(lease(1), Status::WasNotRunning)]);
    let copy = worker.handle(Mono(13), run_task(1, stamp, 1));
    let over = LaunchVerdict::Refused(LaunchRefusal::AlreadyOver);
    assert_eq!(verdicts(&copy), [over], "for ever");
}

/// Seed 1926: attempts that were given back every second put the repeat of an end off for ever, and so its
/// acknowledgement, and its devices.
#[test]
fn a_steady_flow_of_ends_delays_no_repeat() {
    let (mut worker, stamp) = healthy(0);
    worker.handle(Mono(10), run_task(1, stamp, 1));
    worker.handle(Mono(11), Input::Launched(lease(1)));
    worker.handle(Mono(12), Input::Ended(lease(1), Outcome::Exited(0).into()));
    let ended = (lease(1), Status::Ended(Outcome::Exited(0).into()));
    let retry = Timeouts::default().for_worker().status_retry;
    let mut repeats = 0;
    for round in 1..=8 {
        let now = Mono(12) + retry.scaled(round, 2);
        let other = lease(1 + round);
        let mut sent = statuses(&worker.handle(now, run_task(1, stamp, 1 + round)));
        sent.extend(statuses(&worker.handle(now, Input::Withdrawn(other))));
        assert!(sent.contains(&(other, Status::WasNotRunning)), "{sent:?}");
        repeats += sent.iter().filter(|status| **status == ended).count();
        let ack = ToWorker::StatusAck {
            association: association(1),
            leases: vec![other],
        };
        worker.handle(now, Input::Message(ack));
    }
    assert_eq!(repeats, 4, "once in each interval");
}

#[test]
fn a_worker_that_is_ended_says_so_before_its_attempts_end() {
    let (mut worker, stamp) = healthy(0);
    worker.handle(Mono(10), run_task(1, stamp, 1));
    worker.handle(Mono(11), Input::Launched(lease(1)));
    let effects = worker.handle(Mono(12), Input::GiveUp);
    let said = effects.iter().find_map(|effect| match effect {
        Effect::Send(ToScheduler::ProcessHeartbeat(heartbeat)) => Some(heartbeat.state),
        _ => None,
    });
    assert_eq!(said, Some(WorkerState::MustDie));
}

#[test]
fn an_answer_too_old_for_the_lease_starts_nothing() {
    let (mut worker, stamp) = healthy(0);
    let lease_time = Timeouts::default().for_worker().lease;
    let mut now = Mono(2);
    // Stay well by being answered, while the copy of an early launch is under way.
    while now < Mono(stamp) + lease_time {
        now += Millis(1_000);
        if let Some(sent) = heartbeat(&worker.handle(now, Input::Tick)) {
            worker.handle(now, reply(1, sent, WorkerState::Healthy));
            worker.handle(now, Input::CheckDone(baton_model::ids::CheckId(1), Ok(())));
        }
    }
    assert_eq!(worker.state(), WorkerState::Healthy);
    let late = worker.handle(now, run_task(1, stamp, 1));
    let stale = LaunchVerdict::Refused(LaunchRefusal::StaleStamp);
    assert_eq!(verdicts(&late), [stale]);
}

#[test]
fn an_unanswered_worker_keeps_its_work_and_its_incarnation() {
    let (mut worker, stamp) = healthy(0);
    worker.handle(Mono(10), run_task(1, stamp, 1));
    worker.handle(Mono(11), Input::Launched(lease(1)));
    for hours in 1..=48 {
        let effects = worker.handle(Mono(hours * 3_600_000), Input::Tick);
        let sent = |it: &Effect| matches!(it, Effect::Send(_));
        assert!(effects.iter().all(sent), "{effects:?}");
    }
    assert_eq!(worker.state(), WorkerState::Unhealthy);
    let again = heartbeat(&worker.handle(Mono(999_000_000), Input::Tick)).expect("a heartbeat");
    let effects = worker.handle(Mono(999_000_001), reply(1, again, WorkerState::Healthy));
    assert!(effects.iter().any(|it| matches!(it, Effect::Guard(_))));
    assert_eq!(worker.held().count(), 1);
}

#[test]
fn without_a_store_an_unanswered_worker_gives_up_at_its_deadline() {
    let (mut worker, _) = healthy(0);
    let stamp = heartbeat(&worker.handle(Mono(6_000), Input::Tick)).expect("a heartbeat");
    let Input::Message(ToWorker::HeartbeatReply(mut reply)) = reply(1, stamp, WorkerState::Healthy)
    else {
        panic!("a reply");
    };
    reply.worker_set = Some(KnownSet {
        id: WorkerSetId {
            epoch: Epoch(1),
            version: SetVersion(1),
            hash: WorkerSetHash::of([ME]),
        },
        settled: true,
    });
    worker.handle(Mono(6_001), Input::Message(ToWorker::HeartbeatReply(reply)));
    let deadline = Mono(stamp) + Timeouts::default().for_worker().lease;
    worker.handle(Mono(deadline.0 - 1), Input::Tick);
    assert_ne!(worker.state(), WorkerState::MustDie);
    let effects = worker.handle(deadline, Input::Tick);
    assert_eq!(worker.state(), WorkerState::MustDie);
    assert!(effects.iter().any(|it| matches!(it, Effect::KillAll(..))));
    assert!(effects.contains(&Effect::EndLife), "it held nothing");
}

#[test]
fn a_dying_worker_waits_for_its_processes_and_then_a_while_for_acknowledgements() {
    let (mut worker, stamp) = healthy(0);
    worker.handle(Mono(10), run_task(1, stamp, 1));
    worker.handle(Mono(11), Input::Launched(lease(1)));
    let suicide = ToWorker::RequestSuicide {
        association: association(1),
    };
    let effects = worker.handle(Mono(12), Input::Message(suicide));
    assert!(!effects.contains(&Effect::EndLife), "its process lives");
    let effects = worker.handle(Mono(13), Input::Ended(lease(1), Outcome::Exited(0).into()));
    assert_eq!(
        statuses(&effects),
        [(lease(1), Status::Ended(Outcome::Exited(0).into()))]
    );
    assert!(
        !effects.contains(&Effect::EndLife),
        "its end is not acknowledged"
    );
    let effects = worker.handle(Mono(20_000), Input::Tick);
    assert!(
        effects.contains(&Effect::EndLife),
        "the next life carries it on"
    );
}

#[test]
fn an_order_to_die_counts_only_in_answer_to_a_heartbeat_of_ours() {
    let (mut worker, stamp) = healthy(0);
    let refused = |stamp: u64, refusal| {
        Input::Message(ToWorker::HeartbeatRefused {
            epoch: Epoch(1),
            incarnation: ME,
            stamp: Stamp(Mono(stamp)),
            refusal,
        })
    };
    worker.handle(Mono(10), refused(stamp + 5_000, Refusal::SeatTaken));
    worker.handle(Mono(11), refused(stamp, Refusal::OtherVersion));
    assert_eq!(worker.state(), WorkerState::Healthy);
    worker.handle(Mono(12), refused(stamp, Refusal::SeatTaken));
    assert_eq!(worker.state(), WorkerState::MustDie);
}

#[test]
fn ends_on_record_are_told_by_the_next_agent() {
    let records = vec![Record {
        lease: lease(1),
        spec: Arc::default(),
        ended: Some(Outcome::Exited(3).into()),
        devices: Vec::new(),
    }];
    let mut worker = worker(records, 0);
    let stamp = heartbeat(&worker.handle(Mono(1), Input::Tick)).expect("a first heartbeat");
    let effects = worker.handle(Mono(2), reply(1, stamp, WorkerState::New));
    assert_eq!(
        statuses(&effects),
        [(lease(1), Status::Ended(Outcome::Exited(3).into()))]
    );
    let request = ToWorker::GetRunningTasks {
        association: association(1),
    };
    let effects = worker.handle(Mono(3), Input::Message(request));
    let listed = effects.iter().any(|effect| match effect {
        Effect::Send(ToScheduler::RunningTasks { held, .. }) => held
            .iter()
            .any(|it| it.ended == Some(Outcome::Exited(3).into())),
        _ => false,
    });
    assert!(listed, "the list says how it ended: {effects:?}");
}

#[test]
fn devices_are_told_with_the_start_and_after_the_list() {
    let share = |id: &str| DeviceShare {
        resource: "gpu".to_owned(),
        id: id.to_owned(),
        milli: 1_000,
    };
    let told = |effects: &[Effect]| -> Vec<LeaseId> {
        let messages = effects.iter().filter_map(|effect| match effect {
            Effect::Send(ToScheduler::HeldDevices { held, .. }) => Some(held),
            _ => None,
        });
        messages.flatten().map(|(lease, _)| *lease).collect()
    };
    let record = |instance, ended: Option<Report>| Record {
        lease: lease(instance),
        spec: Arc::default(),
        ended,
        devices: vec![share("a")],
    };
    let over = Some(Outcome::Exited(0).into());
    let mut worker = worker(vec![record(1, None), record(2, over)], 0);
    let stamp = heartbeat(&worker.handle(Mono(1), Input::Tick)).expect("a first heartbeat");
    worker.handle(Mono(2), reply(1, stamp, WorkerState::New));
    let request = ToWorker::GetRunningTasks {
        association: association(1),
    };
    let effects = worker.handle(Mono(3), Input::Message(request));
    assert_eq!(told(&effects), [lease(1)], "the other holds none any more");
    let next = heartbeat(&worker.handle(Mono(6_000), Input::Tick)).expect("the next heartbeat");
    worker.handle(Mono(6_001), reply(1, next, WorkerState::Healthy));
    for (instance, devices) in [(3, vec![share("b")]), (4, Vec::new())] {
        worker.handle(Mono(6_002), run_task(1, next, instance));
        let lease = lease(instance);
        let expected = if devices.is_empty() {
            vec![]
        } else {
            vec![lease]
        };
        worker.handle(Mono(6_003), Input::DevicesAssigned(lease, devices));
        let effects = worker.handle(Mono(6_003), Input::Launched(lease));
        assert_eq!(verdicts(&effects), [LaunchVerdict::Accepted]);
        assert_eq!(told(&effects), expected);
    }
}

#[test]
fn an_end_with_outputs_is_told_by_its_status_and_not_by_the_list() {
    let report = Report {
        outputs: Some("{}".into()),
        ..Report::from(Outcome::Exited(0))
    };
    let records = vec![Record {
        lease: lease(1),
        spec: Arc::default(),
        ended: Some(report.clone()),
        devices: Vec::new(),
    }];
    let mut worker = worker(records, 0);
    let stamp = heartbeat(&worker.handle(Mono(1), Input::Tick)).expect("a first heartbeat");
    worker.handle(Mono(2), reply(1, stamp, WorkerState::New));
    let request = ToWorker::GetRunningTasks {
        association: association(1),
    };
    let effects = worker.handle(Mono(3), Input::Message(request));
    let listed = effects.iter().find_map(|effect| match effect {
        Effect::Send(ToScheduler::RunningTasks { held, .. }) => Some(held),
        _ => None,
    });
    let listed = listed.expect("a list");
    assert_eq!((listed[0].lease, &listed[0].ended), (lease(1), &None));
    let mut told = statuses(&effects);
    let mut now = Mono(3);
    while told.is_empty() {
        now = worker.next_due().expect("it will be told").max(now);
        told = statuses(&worker.handle(now, Input::Tick));
    }
    assert_eq!(told, [(lease(1), Status::Ended(report))]);
}

/// The leases of the progress that is sent, with its text.
fn progress(effects: &[Effect]) -> Vec<(LeaseId, String)> {
    let messages = effects.iter().filter_map(|effect| match effect {
        Effect::Send(ToScheduler::Progress { attempts, .. }) => Some(attempts),
        _ => None,
    });
    let told = messages.flatten().map(|(lease, it)| (*lease, it.text()));
    told.collect()
}

fn running(instances: u64) -> Vec<Record> {
    let records = (1..=instances).map(|instance| Record {
        lease: lease(instance),
        spec: Arc::default(),
        ended: None,
        devices: Vec::new(),
    });
    records.collect()
}

fn note(worker: &mut Worker, instance: u64, line: &str) {
    let line = Progress::parse(line, Wall(1)).expect("a line");
    worker.note_progress(lease(instance), line);
}

#[test]
fn progress_is_told_with_heartbeats_and_only_what_has_changed() {
    let mut worker = worker(running(2), 0);
    note(&mut worker, 1, "1/2 a");
    let first = worker.handle(Mono(1), Input::Tick);
    let stamp = heartbeat(&first).expect("a first heartbeat");
    assert_eq!(progress(&first), [], "there is no association yet");
    worker.handle(Mono(2), reply(1, stamp, WorkerState::New));
    let beat = |worker: &mut Worker, at: u64| {
        let effects = worker.handle(Mono(at), Input::Tick);
        heartbeat(&effects).expect("a heartbeat");
        progress(&effects)
    };
    assert_eq!(beat(&mut worker, 6_000), [(lease(1), "1/2 a".to_owned())]);
    for line in ["1/2 a", "2/2 b", "1/2 a"] {
        note(&mut worker, 2, line);
    }
    note(&mut worker, 1, "1/2 a");
    note(&mut worker, 9, "of no attempt");
    assert_eq!(progress(&worker.handle(Mono(6_500), Input::Tick)), []);
    assert_eq!(beat(&mut worker, 12_000), [(lease(2), "1/2 a".to_owned())]);
    assert_eq!(beat(&mut worker, 18_000), []);
    note(&mut worker, 2, "2/2 b");
    worker.handle(
        Mono(18_001),
        Input::Ended(lease(2), Outcome::Exited(0).into()),
    );
    assert_eq!(
        beat(&mut worker, 24_000),
        [],
        "its end tells the last of it"
    );
    worker.note_dialled("elsewhere:1".into());
    let again = beat(&mut worker, 30_000);
    assert_eq!(
        again,
        [(lease(1), "1/2 a".to_owned())],
        "it may have been lost"
    );
}

#[test]
fn progress_of_many_attempts_is_spread_over_heartbeats() {
    let count = PROGRESS_PER_HEARTBEAT_MAX as u64 + 3;
    let mut worker = worker(running(count), 0);
    let stamp = heartbeat(&worker.handle(Mono(1), Input::Tick)).expect("a first heartbeat");
    worker.handle(Mono(2), reply(1, stamp, WorkerState::New));
    let mut told = Vec::new();
    for at in [6_000, 12_000] {
        for instance in 1..=count {
            note(&mut worker, instance, &format!("{at}"));
        }
        let sent = progress(&worker.handle(Mono(at), Input::Tick));
        assert_eq!(sent.len(), PROGRESS_PER_HEARTBEAT_MAX);
        told.extend(sent.into_iter().map(|(lease, _)| lease));
    }
    let all: BTreeSet<LeaseId> = told.into_iter().collect();
    assert_eq!(all.len() as u64, count, "each has its turn");
}
