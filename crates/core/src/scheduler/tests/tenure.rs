//! How long workers stay: the remaining time in placement, and goodbyes.

use baton_model::fact::Condemnation;
use baton_model::limits::DIALLED_BYTES_MAX;
use baton_model::message::{HostSize, LeaveCause};
use baton_model::placement::{Constraint, Rule};

use super::placing::rig;
use super::*;
use crate::wait::{Exclusion, WaitReason};

const fn minutes(n: u64) -> Millis {
    Millis::from_secs(60 * n)
}

fn asks_for(time: Option<Millis>, timeout: Option<Millis>) -> Arc<InstanceSpec> {
    Arc::new(InstanceSpec {
        time_request: time,
        timeout,
        ..InstanceSpec::default()
    })
}

impl Leader {
    fn submit_spec(&mut self, id: u64, spec: &InstanceSpec) -> Vec<Effect> {
        self.submit_as(id, submission(spec, None))
    }

    fn goodbye(&mut self, remote: &Remote) -> Vec<Effect> {
        self.give(Input::Message(ToScheduler::Goodbye {
            association: remote.association(),
            cause: LeaveCause::Terminated,
        }))
    }
}

fn reports(leader: &mut Leader, worker: &mut Remote, left: Millis) {
    worker.tenure.left = Some(left);
    leader.heartbeat(worker, WorkerState::Healthy);
}

#[test]
fn work_that_outlasts_its_worker_is_not_placed_there() {
    let (mut leader, mut worker) = rig();
    reports(&mut leader, &mut worker, minutes(12));
    leader.submit_spec(1, &asks_for(Some(minutes(30)), None));
    leader.submit_spec(2, &asks_for(Some(minutes(10)), Some(minutes(90))));
    leader.submit_spec(3, &asks_for(None, Some(minutes(30))));
    leader.submit_spec(4, &asks_for(None, None));
    let queued = |leader: &Leader, id| leader.state(id) == UniversalState::Queued;
    let waits: Vec<bool> = (1..=4).map(|id| queued(&leader, id)).collect();
    assert_eq!(waits, [true, false, true, false]);
    let standing = leader
        .core
        .explain(InstanceId(1), leader.clock())
        .expect("known");
    let wait = standing.wait().expect("it waits").clone();
    let WaitReason::Excluded(Exclusion::EndsSoon { asked, left }) = wait.reason else {
        panic!("{wait:?}");
    };
    assert_eq!(asked, minutes(30));
    assert!(left < minutes(12) && left > minutes(11), "{left}");
    let text = wait.workers[0].describe(None);
    assert_eq!(
        text,
        "worker w ends in 12 min, and the task asks for 30 min"
    );
    let mut other = Remote::new("x", 8, 1);
    other.offer = Arc::clone(&worker.offer);
    leader.welcome(&mut other, &[]);
    assert!(
        !queued(&leader, 1) && !queued(&leader, 3),
        "it does not end"
    );
}

#[test]
fn the_remaining_time_passes_between_heartbeats() {
    let (mut leader, mut worker) = rig();
    reports(&mut leader, &mut worker, Millis(15_000));
    leader.now += Millis(4_000);
    leader.submit_spec(1, &asks_for(Some(Millis(11_000)), None));
    assert_eq!(leader.state(1), UniversalState::Queued);
    leader.submit_spec(2, &asks_for(Some(Millis(9_000)), None));
    assert_eq!(leader.state(2), UniversalState::Launched);
}

#[test]
fn a_late_heartbeat_does_not_prolong_a_life() {
    let (mut leader, mut worker) = rig();
    reports(&mut leader, &mut worker, minutes(12));
    let end = |leader: &Leader| {
        let seat = leader.core.seats().values().next().expect("seated");
        leader.now + seat.time_left(leader.now).expect("it ends")
    };
    let first = end(&leader);
    leader.now += Millis(9_000);
    // Sent long ago.
    reports(&mut leader, &mut worker, minutes(12));
    assert_eq!(end(&leader), first);
    reports(&mut leader, &mut worker, minutes(5));
    assert!(end(&leader) < first);
}

#[test]
fn a_leaving_worker_gets_nothing_and_is_not_condemned() {
    let (mut leader, mut worker) = rig();
    worker.tenure.leaving = true;
    leader.heartbeat(&mut worker, WorkerState::MustDie);
    leader.submit_spec(1, &asks_for(None, None));
    assert_eq!(leader.state(1), UniversalState::Queued);
    let standing = leader
        .core
        .explain(InstanceId(1), leader.clock())
        .expect("known");
    let reason = standing.wait().expect("it waits").reason.clone();
    assert_eq!(reason, WaitReason::Excluded(Exclusion::Leaving));
    let condemned = leader
        .facts
        .iter()
        .any(|it| matches!(it, Fact::WorkerCondemned { .. }));
    assert!(!condemned, "{:?}", leader.facts);
}

#[test]
fn a_goodbye_empties_the_seat_and_requeues_what_was_not_started() {
    let (mut leader, worker) = rig();
    leader.submit_spec(1, &asks_for(None, None));
    assert_eq!(
        leader.state(1),
        UniversalState::Launched,
        "and not confirmed"
    );
    let effects = leader.goodbye(&worker);
    let acknowledged = effects
        .iter()
        .any(|it| matches!(it, Effect::Send(_, ToWorker::GoodbyeAck { .. })));
    assert!(acknowledged, "{effects:?}");
    assert!(leader.core.seats().is_empty());
    assert_eq!(leader.state(1), UniversalState::Queued);
    let instance = leader.kept.find(InstanceId(1)).expect("known");
    assert_eq!((instance.failures, instance.losses), (0, 0));
    let left = leader.facts.iter().any(|fact| {
        let reason = Condemnation::Left;
        matches!(fact, Fact::WorkerCondemned { reason: it, .. } if *it == reason)
    });
    assert!(left, "{:?}", leader.facts);
}

#[test]
fn a_heartbeat_in_flight_does_not_take_the_seat_again() {
    let (mut leader, mut worker) = rig();
    leader.goodbye(&worker);
    assert!(
        leader
            .heartbeat(&mut worker, WorkerState::Healthy)
            .is_none()
    );
    assert!(leader.core.seats().is_empty());
    let mut next = Remote::new("w", 7, 2);
    next.offer = Arc::clone(&worker.offer);
    leader.welcome(&mut next, &[]);
    assert_eq!(leader.core.seats().len(), 1, "its next start is welcome");
}

#[test]
fn the_name_of_a_worker_is_a_label_whatever_it_says() {
    let (mut leader, mut worker) = rig();
    let labels = [("worker".to_owned(), "other".to_owned())].into();
    worker.offer = Arc::new(baton_model::placement::Offer {
        labels,
        ..(*worker.offer).clone()
    });
    leader.heartbeat(&mut worker, WorkerState::Healthy);
    let on = |name: &str| {
        let mut spec = InstanceSpec::default();
        spec.request.constraints = vec![Constraint {
            label: "worker".to_owned(),
            rule: Rule::OneOf([name.to_owned()].into()),
        }];
        spec
    };
    leader.submit_spec(1, &on("other"));
    leader.submit_spec(2, &on("w"));
    assert_eq!(leader.state(1), UniversalState::Queued);
    assert_eq!(leader.state(2), UniversalState::Launched);
}

#[test]
fn a_greeting_tells_the_version_the_address_and_the_clock() {
    let mut leader = Leader::new(StoreMode::Durable, 1);
    leader.wall_at_zero = 5_000_000;
    let mut worker = Remote::new("w", 7, 1);
    worker.greeting = Some(Greeting {
        version: "9.9.9".into(),
        wall: Wall(leader.clock().wall.0 - 60_000),
        host: HostSize::default(),
        dialled: Some("é".repeat(DIALLED_BYTES_MAX).into()),
    });
    leader.heartbeat(&mut worker, WorkerState::New);
    leader.now += Millis(40);
    leader.report(&worker, &[]);
    let seat = leader.core.seats().values().next().expect("seated");
    assert_eq!(seat.version.as_deref(), Some("9.9.9"));
    let kept = "é".repeat(DIALLED_BYTES_MAX / 2);
    assert_eq!(seat.dialled.as_deref(), Some(&*kept), "no more is kept");
    let offset = seat.clock.and_then(|clock| clock.offset_ms());
    assert_eq!(
        offset,
        Some(-59_961),
        "at least, however long the message took"
    );
}
