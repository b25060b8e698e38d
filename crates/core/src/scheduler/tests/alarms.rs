//! Alarms: what is late, slow, short or stuck.

use baton_model::alarm::{AlarmKind, Deadline, Expectations, TimeOfDay};
use baton_model::conditions::Subject;
use baton_model::ids::RunId;
use baton_model::measurement::MeasuredEnd;
use baton_model::outcome::Outcome;
use baton_model::workflow::{Plan, PlanTask};

use super::placing::rig;
use super::*;
use crate::ledger::RunTimes;

const MINUTE: Millis = Millis::from_secs(60);

fn expecting(expected: Expectations) -> InstanceSpec {
    let mut spec = InstanceSpec {
        name: "nightly".to_owned(),
        owner: "lab".to_owned(),
        expected,
        ..InstanceSpec::default()
    };
    spec.request.resources.cpu_milli = 1_000;
    spec
}

fn due_in(after: Millis) -> Expectations {
    Expectations {
        deadline: Some(Deadline::After(after)),
        ..Expectations::default()
    }
}

fn lasting(min: Option<Millis>, max: Option<Millis>) -> Expectations {
    Expectations {
        min,
        max,
        ..Expectations::default()
    }
}

/// Needs more than any worker has.
fn unplaceable() -> InstanceSpec {
    let mut spec = expecting(Expectations::default());
    spec.request.resources.cpu_milli = 64_000;
    spec
}

impl Leader {
    /// Alarms in the order of their facts: those that were raised, and those that were cleared.
    fn alarms(&self) -> Vec<String> {
        let told = self.facts.iter().filter_map(|fact| match fact {
            Fact::AlarmRaised(alarm) => Some(format!("{}", alarm.key())),
            Fact::AlarmCleared { alarm, .. } => Some(format!("-{alarm}")),
            _ => None,
        });
        told.collect()
    }

    fn reason(&self) -> String {
        let raised = self.facts.iter().rev().find_map(|fact| match fact {
            Fact::AlarmRaised(alarm) => Some(alarm.sentence()),
            _ => None,
        });
        raised.expect("an alarm")
    }

    /// The worker says that it has launched them.
    fn launched(&mut self, worker: &Remote, ids: &[u64]) {
        let verdicts = ids
            .iter()
            .map(|id| (self.lease(*id), LaunchVerdict::Accepted));
        self.give(Input::Message(ToScheduler::RunTaskReply {
            association: worker.association(),
            verdicts: verdicts.collect(),
        }));
    }

    /// Waits, while the worker stays in contact.
    pub(super) fn pass(&mut self, worker: &mut Remote, span: Millis) {
        let end = self.now + span;
        while self.now < end {
            self.heartbeat(worker, WorkerState::Healthy);
            self.give(Input::Message(ToScheduler::HealthReport {
                association: worker.association(),
                check: self.core.protocol.last_check(),
                ok: true,
            }));
            let step = Millis(5_000).min(end.since(self.now));
            self.wait(step);
        }
    }
}

#[test]
fn an_array_is_late_once_as_a_whole() {
    let (mut leader, mut worker) = rig();
    leader.submit_as(1, submission(&expecting(due_in(MINUTE)), Some(3)));
    leader.launched(&worker, &[1, 2, 3]);
    leader.pass(&mut worker, Millis(59_000));
    assert!(leader.alarms().is_empty(), "{:?}", leader.alarms());
    leader.ends(&worker, &[2], Outcome::Exited(0), 10);
    leader.pass(&mut worker, Millis(2_000));
    assert_eq!(leader.alarms(), ["late:i1..i3"]);
    assert!(
        leader
            .reason()
            .starts_with("lab/nightly has not ended by its deadline, 1970-01-01 00:"),
        "{}",
        leader.reason()
    );
    leader.ends(&worker, &[1], Outcome::Exited(1), 10);
    assert_eq!(leader.alarms().len(), 1, "one element still runs");
    leader.ends(&worker, &[3], Outcome::Exited(0), 10);
    assert_eq!(leader.alarms(), ["late:i1..i3", "-late:i1..i3"]);
}

#[test]
fn what_ends_in_time_is_never_late() {
    let (mut leader, mut worker) = rig();
    leader.submit_as(1, submission(&expecting(due_in(MINUTE)), None));
    leader.launched(&worker, &[1]);
    leader.ends(&worker, &[1], Outcome::Exited(0), 10);
    leader.pass(&mut worker, Millis(120_000));
    assert!(leader.alarms().is_empty());
}

#[test]
fn what_waits_is_late_too_until_it_is_cancelled() {
    let (mut leader, mut worker) = rig();
    let mut spec = unplaceable();
    spec.expected = due_in(MINUTE);
    leader.submit_as(1, submission(&spec, None));
    leader.pass(&mut worker, Millis(61_000));
    assert_eq!(leader.alarms(), ["late:i1"]);
    leader.give(Input::command(
        RequestId(5),
        Command::Cancel {
            first: InstanceId(1),
            last: InstanceId(1),
            mode: KillMode::default(),
        },
    ));
    assert_eq!(leader.alarms(), ["late:i1", "-late:i1"]);
}

#[test]
fn what_is_retried_after_its_deadline_is_late_again() {
    let (mut leader, mut worker) = rig();
    leader.submit_as(1, submission(&expecting(due_in(MINUTE)), None));
    leader.launched(&worker, &[1]);
    leader.pass(&mut worker, Millis(61_000));
    leader.ends(&worker, &[1], Outcome::Exited(1), 10);
    let ended = leader.kept.find(InstanceId(1)).expect("kept");
    leader.give(Input::command(
        RequestId(5),
        Command::Retry(Box::new(ended)),
    ));
    leader.pass(&mut worker, Millis(1_000));
    assert_eq!(leader.alarms(), ["late:i1", "-late:i1", "late:i1"]);
}

#[test]
fn a_deadline_is_a_time_after_the_submission() {
    let (mut leader, _) = rig();
    leader.wall_at_zero = 1_767_225_600_000;
    let zone = "Europe/Berlin".to_owned();
    let expected = Expectations {
        deadline: Some(Deadline::Daily(TimeOfDay { minute: 90, zone })),
        ..Expectations::default()
    };
    leader.submit_as(1, submission(&expecting(expected), None));
    let known = leader.kept.find(InstanceId(1)).expect("submitted");
    // 2026-01-01 01:16:40 in Berlin when it was submitted.
    let half_past_one = Wall(1_767_225_600_000 + 30 * 60_000);
    assert_eq!(known.spec.expected.late_at(), Some(half_past_one));
}

#[test]
fn a_slow_attempt_and_a_short_one_are_told() {
    let (mut leader, mut worker) = rig();
    let expected = lasting(Some(Millis(500)), Some(MINUTE));
    leader.submit_as(1, submission(&expecting(expected), None));
    leader.pass(&mut worker, Millis(50_000));
    leader.launched(&worker, &[1]);
    leader.pass(&mut worker, Millis(55_000));
    assert!(leader.alarms().is_empty(), "it counts from its launch");
    leader.pass(&mut worker, Millis(6_000));
    assert_eq!(leader.alarms(), ["slow:i1"]);
    assert_eq!(
        leader.reason(),
        "lab/nightly runs for longer than expected: more than 60s on worker w"
    );
    leader.ends(&worker, &[1], Outcome::Exited(0), 61_000);
    assert_eq!(leader.alarms(), ["slow:i1", "-slow:i1"]);

    leader.facts.clear();
    leader.submit_as(
        2,
        submission(&expecting(lasting(Some(MINUTE), None)), Some(2)),
    );
    leader.launched(&worker, &[2, 3]);
    leader.ends(&worker, &[2], Outcome::Exited(1), 10);
    assert!(leader.alarms().is_empty(), "a failure is told as such");
    leader.ends(&worker, &[3], Outcome::Exited(0), 10);
    assert_eq!(leader.alarms(), ["short:i2..i3", "-short:i2..i3"]);
    assert!(leader.reason().contains("(i3)"), "{}", leader.reason());
}

#[test]
fn an_array_of_slow_elements_is_told_once() {
    let (mut leader, mut worker) = rig();
    let expected = lasting(None, Some(MINUTE));
    leader.submit_as(1, submission(&expecting(expected), Some(4)));
    leader.launched(&worker, &[1, 2, 3, 4]);
    leader.pass(&mut worker, Millis(61_000));
    assert_eq!(leader.alarms(), ["slow:i1..i4"]);
    leader.ends(&worker, &[1, 2, 3], Outcome::Exited(0), 62_000);
    leader.pass(&mut worker, Millis(61_000));
    assert_eq!(leader.alarms().len(), 1);
}

#[test]
fn the_head_of_a_queue_is_stuck_with_its_reason() {
    let (mut leader, mut worker) = rig();
    leader.submit_as(1, submission(&unplaceable(), Some(1_000)));
    let after = Config::default().stuck_after;
    leader.pass(&mut worker, Millis(after.0 - 60_000));
    assert!(leader.alarms().is_empty());
    leader.pass(&mut worker, Millis(after.0 / 2));
    assert_eq!(leader.alarms(), ["stuck:i1"], "not one for each element");
    assert!(
        leader.reason().contains("waits for a worker for more than"),
        "{}",
        leader.reason()
    );
    assert!(leader.reason().contains("cores"), "{}", leader.reason());
    let mut large = Remote::new("large", 8, 1);
    large.offer = Arc::new(baton_model::placement::Offer {
        capacity: baton_model::placement::Capacity {
            cpu_milli: 64_000,
            ..baton_model::placement::Capacity::default()
        },
        ..baton_model::placement::Offer::default()
    });
    leader.welcome(&mut large, &[]);
    assert_eq!(leader.alarms(), ["stuck:i1", "-stuck:i1"]);
}

#[test]
fn a_queue_that_moves_is_not_stuck() {
    let (mut leader, mut worker) = rig();
    let mut spec = expecting(Expectations::default());
    spec.request.resources.cpu_milli = 4_000;
    leader.submit_as(1, submission(&spec, Some(20)));
    let step = Millis(Config::default().stuck_after.0 / 2);
    for id in 1..10 {
        leader.launched(&worker, &[id]);
        leader.pass(&mut worker, step);
        leader.ends(&worker, &[id], Outcome::Exited(0), step.0);
    }
    assert!(leader.alarms().is_empty(), "{:?}", leader.alarms());
}

#[test]
fn a_new_leader_watches_what_the_last_one_has() {
    let (mut leader, mut worker) = rig();
    let mut late = unplaceable();
    late.expected = due_in(MINUTE);
    leader.submit_as(1, submission(&late, None));
    let expected = lasting(None, Some(MINUTE));
    leader.submit_as(2, submission(&expecting(expected), None));
    leader.submit_as(3, submission(&late, None));
    leader.launched(&worker, &[2]);
    leader.pass(&mut worker, Millis(30_000));
    let mut ledger = leader.core.ledger().clone();
    // As a store has it.
    let granted = leader.clock().wall.0 - 30_000;
    ledger.restore_leased_at(InstanceId(2), Wall(granted));
    leader.core = Scheduler::new(Config::default(), Epoch(2), ledger, leader.clock());
    leader.outbox = Outbox::new(Epoch(2));
    worker.association = None;
    let lease = leader.lease(2);
    leader.welcome(&mut worker, &[lease]);
    leader.pass(&mut worker, Millis(31_000));
    let mut alarms = leader.alarms();
    alarms.sort();
    assert_eq!(alarms, ["late:i1", "late:i3", "slow:i2"]);
    // What is told is not told again, and what has ended meanwhile is cleared.
    let mut ledger = leader.core.ledger().clone();
    let halted = Fact::InstancesHalted {
        first: InstanceId(1),
        last: InstanceId(1),
        reason: None,
    };
    ledger.apply(&halted).expect("it waits");
    leader.kept.apply(&halted).expect("it waits");
    leader.core = Scheduler::new(Config::default(), Epoch(3), ledger, leader.clock());
    leader.outbox = Outbox::new(Epoch(3));
    leader.facts.clear();
    leader.wait(Millis(1));
    assert_eq!(leader.alarms(), ["-late:i1"]);
}

const LEARNED: Expectations = Expectations {
    deadline: None,
    min: None,
    max: None,
    learned: true,
};

impl Leader {
    /// Ten instances whose run times are learned succeed, after 100 s to 109 s.
    fn learn(&mut self, worker: &Remote) {
        for id in 1..=10 {
            self.submit_as(id, submission(&expecting(LEARNED), None));
            self.launched(worker, &[id]);
            self.ends(worker, &[id], Outcome::Exited(0), 99_000 + id * 1_000);
        }
        assert!(self.alarms().is_empty(), "{:?}", self.alarms());
    }
}

#[test]
fn what_is_unusual_for_a_task_is_learned() {
    let (mut leader, mut worker) = rig();
    leader.learn(&worker);
    leader.submit_as(11, submission(&expecting(LEARNED), Some(2)));
    leader.launched(&worker, &[11, 12]);
    leader.ends(&worker, &[11], Outcome::Exited(0), 25_000);
    assert!(leader.alarms().is_empty(), "a quarter is not short");
    leader.pass(&mut worker, Millis(320_000));
    assert!(
        leader.alarms().is_empty(),
        "three times as long is not slow"
    );
    leader.pass(&mut worker, Millis(10_000));
    assert_eq!(leader.alarms(), ["slow:i11..i12"]);
    assert_eq!(
        leader.reason(),
        "lab/nightly runs for longer than usual: more than 324s, by its last 11 successes on worker w (i12)"
    );
    leader.ends(&worker, &[12], Outcome::Exited(0), 330_000);
    leader.facts.clear();
    leader.submit_as(13, submission(&expecting(LEARNED), None));
    leader.launched(&worker, &[13]);
    leader.ends(&worker, &[13], Outcome::Exited(0), 24_000);
    assert_eq!(leader.alarms(), ["short:i13", "-short:i13"]);
    assert_eq!(
        leader.reason(),
        "lab/nightly succeeded after 24s, in less time than usual (at least 25s, by its last 12 successes)"
    );
}

#[test]
fn another_task_and_one_without_history_are_not_unusual() {
    let (mut leader, mut worker) = rig();
    leader.learn(&worker);
    let mut other = expecting(LEARNED);
    other.name = "other".to_owned();
    leader.submit_as(11, submission(&other, Some(2)));
    leader.launched(&worker, &[11, 12]);
    leader.ends(&worker, &[11], Outcome::Exited(0), 1);
    leader.pass(&mut worker, Millis(4_000_000));
    assert!(leader.alarms().is_empty(), "{:?}", leader.alarms());
}

#[test]
fn what_was_learned_meanwhile_counts_for_what_runs() {
    let (mut leader, mut worker) = rig();
    leader.learn(&worker);
    leader.submit_as(11, submission(&expecting(LEARNED), Some(4)));
    leader.launched(&worker, &[11, 12, 13, 14]);
    leader.pass(&mut worker, Millis(200_000));
    leader.ends(&worker, &[11, 12, 13], Outcome::Exited(0), 200_000);
    leader.pass(&mut worker, Millis(350_000));
    assert!(leader.alarms().is_empty(), "{:?}", leader.alarms());
    leader.pass(&mut worker, Millis(60_000));
    assert_eq!(leader.alarms(), ["slow:i11..i14"]);
}

#[test]
fn a_new_leader_knows_what_the_last_one_has_learned() {
    let (mut leader, mut worker) = rig();
    leader.learn(&worker);
    leader.submit_as(11, submission(&expecting(LEARNED), None));
    leader.launched(&worker, &[11]);
    leader.pass(&mut worker, Millis(30_000));
    let mut ledger = leader.core.ledger().clone();
    ledger.forget_transient();
    // As a store has it.
    let mut times = RunTimes::default();
    let path = ledger.task_path(&expecting(LEARNED)).expect("a task");
    for id in 1..=10 {
        times.record(&path, Millis(99_000 + id * 1_000), MeasuredEnd::Done);
    }
    ledger.restore_run_times(times);
    let granted = leader.clock().wall.0 - 30_000;
    ledger.restore_leased_at(InstanceId(11), Wall(granted));
    leader.core = Scheduler::new(Config::default(), Epoch(2), ledger, leader.clock());
    leader.outbox = Outbox::new(Epoch(2));
    worker.association = None;
    let lease = leader.lease(11);
    leader.welcome(&mut worker, &[lease]);
    leader.pass(&mut worker, Millis(290_000));
    assert!(leader.alarms().is_empty(), "{:?}", leader.alarms());
    leader.pass(&mut worker, Millis(10_000));
    assert_eq!(leader.alarms(), ["slow:i11"]);
}

#[test]
fn a_run_has_one_alarm_for_all_its_items() {
    let (mut leader, mut worker) = rig();
    let task = |name: &str| PlanTask {
        name: name.to_owned(),
        spec: Arc::new(expecting(lasting(None, Some(MINUTE)))),
        ..PlanTask::default()
    };
    let plan = Plan {
        name: "etl".to_owned(),
        owner: "lab".to_owned(),
        tasks: vec![task("a"), task("b")],
        expected: due_in(Millis(90_000)),
        ..Plan::default()
    };
    let register = RunCommand::Register {
        plan: Arc::new(plan),
        open: false,
        key: None,
    };
    leader.give(Input::command(
        RequestId(1),
        Command::Run(Box::new(register)),
    ));
    leader.launched(&worker, &[1, 2]);
    leader.pass(&mut worker, Millis(65_000));
    assert_eq!(leader.alarms(), ["slow:r1"]);
    assert!(leader.reason().starts_with("lab/etl runs"));
    leader.pass(&mut worker, Millis(30_000));
    assert_eq!(leader.alarms(), ["slow:r1", "late:r1"]);
    leader.ends(&worker, &[1, 2], Outcome::Exited(0), 95_000);
    let cleared = leader.alarms()[2..].to_vec();
    assert_eq!(cleared.len(), 2, "{cleared:?}");
    let open = leader.core.ledger().alarms().keys();
    assert_eq!(open.count(), 0);
    let key = baton_model::alarm::AlarmKey {
        subject: Subject::Run(RunId(1)),
        kind: AlarmKind::Late,
    };
    assert!(cleared.contains(&format!("-{key}")));
}
