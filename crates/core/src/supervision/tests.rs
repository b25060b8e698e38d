//! Single rules of supervision, without a scheduler: the worker resumes what is on record.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_model::coordinator::{DeviceClaim, Request};
use baton_model::device::DeviceShare;
use baton_model::fact::Holder;
use baton_model::ids::{
    AttemptId, AttemptNo, BootId, Epoch, HostId, Incarnation, IncarnationNo, InstanceId, LeaseId,
    Lineage, WorkerName,
};
use baton_model::message::HostSize;
use baton_model::outcome::{KillCause, Outcome, Report};
use baton_model::spec::{InstanceSpec, Work};
use baton_model::task::{
    Identity as ProcessIdentity, Moment, ProcessNo, Resources, RunKey, RunNo, TaskSpec,
};
use baton_model::time::{Millis, Mono, Wall};

use super::attempts::{Assignment, Attempt, LOST, Phase};
use super::backoff::RUNNER_DELAY_MAX;
use super::io::{Action, Ending, Event, Sighting};
use super::lifetime::Lifetime;
use super::takeover::{CoordinatorState, Inventory, KnownAttempt, Remnant, ReportedRun};
use super::{Identity, RUNNER_RESTARTS_MAX, Supervisor, WAIT_MAX};
use crate::bugs::Bugs;
use crate::protocol::worker::io::Effect;

const KILLED: Outcome = Outcome::Signaled(9);
/// The `finalization_wait` of a task, and the time after which a task that is to stop is killed.
const WAIT: Millis = Millis(30_000);
const BUDGET: Millis = Millis(40_000);

pub(super) fn lease(instance: u32) -> LeaseId {
    LeaseId {
        attempt: AttemptId {
            instance: InstanceId(instance.into()),
            number: AttemptNo(1),
        },
        epoch: Epoch(1),
    }
}

pub(super) fn run(process: u32, run: u64) -> RunKey {
    RunKey {
        process: ProcessNo(process),
        run: RunNo(run),
    }
}

fn start_of(process: u32) -> (Moment, ProcessIdentity) {
    let moment = Moment {
        mono: Mono(10),
        wall: Wall(10),
    };
    let identity = ProcessIdentity {
        boot: BootId(1),
        pid: process,
        start_ticks: 1,
    };
    (moment, identity)
}

/// A running attempt of the instance with the number of its process.
pub(super) fn running(process: u32, work: Work) -> KnownAttempt {
    let spec = InstanceSpec {
        work,
        ..InstanceSpec::default()
    };
    KnownAttempt {
        run: run(process, 0),
        assignment: Assignment {
            lease: lease(process),
            spec: Arc::new(spec),
            timeout: None,
            memory_min: 0,
            memory_max: 1_000,
            requests: Vec::new(),
            began: None,
            trace: None,
        },
        started: Some(start_of(process)),
        waiting: false,
        ended: None,
        devices: Vec::new(),
    }
}

pub(super) fn command(process: u32) -> KnownAttempt {
    running(process, Work::Command(vec!["true".to_owned()]))
}

fn task(process: u32) -> KnownAttempt {
    let task = TaskSpec {
        name: "t".to_owned(),
        owner: None,
        processes: Vec::new(),
        max_failures: 1,
        max_concurrency: 0,
        finalization_wait: WAIT,
        user: None,
        resources: Resources::default(),
        ports: BTreeMap::new(),
    };
    running(process, Work::Task(Box::new(task)))
}

pub(super) fn identity() -> Identity {
    Identity {
        me: Holder {
            worker: WorkerName::new("w"),
            incarnation: Incarnation {
                lineage: Lineage(7),
                number: IncarnationNo(1),
            },
            host: HostId(1),
            boot: BootId(1),
        },
        executor: None,
        slots: 4,
        offer: Arc::default(),
        version: Arc::default(),
        host: HostSize::default(),
        lifetime: Lifetime::default(),
        bugs: Bugs::NONE,
    }
}

/// A worker whose coordinator has these on its own record.
pub(super) fn supervisor(known: Vec<KnownAttempt>) -> Supervisor {
    let owned: BTreeSet<RunKey> = known.iter().map(|known| known.run).collect();
    let inventory = Inventory::new(known, Vec::new(), None);
    let unasked = |_: &Attempt| -> Sighting { panic!("the coordinator reports its own runs") };
    Supervisor::resume(&identity(), inventory, &owned, None, unasked, Mono(100)).0
}

fn ending(outcome: Outcome) -> Ending {
    Ending {
        at: Mono(200),
        report: outcome.into(),
        has_bad_outputs: false,
    }
}

pub(super) fn ended(run: RunKey, outcome: Outcome) -> Event {
    Event::Ended(run, ending(outcome))
}

pub(super) fn started(run: RunKey) -> Event {
    let (at, identity) = start_of(run.process.0);
    Event::Started {
        run,
        at,
        identity,
        devices: Vec::new(),
    }
}

/// What the coordinator is told, without the worker's messages.
pub(super) fn orders(actions: Vec<Action>) -> Vec<Action> {
    let orders = actions.into_iter();
    orders
        .filter(|action| !matches!(action, Action::Send(_)))
        .collect()
}

pub(super) fn outcome_of(supervisor: &Supervisor, process: u32) -> Option<Outcome> {
    let mut attempts = supervisor.attempts().iter();
    let attempt = attempts.find(|it| it.run.process == ProcessNo(process))?;
    match &attempt.phase {
        Phase::Ended(report) => Some(report.outcome),
        _ => None,
    }
}

#[test]
fn a_runner_that_dies_is_started_again_and_its_record_is_kept_until_then() {
    let mut worker = supervisor(vec![task(1)]);
    let actions = worker.handle(Mono(200), ended(run(1, 0), KILLED));
    assert_eq!(orders(actions), [Action::Launch(run(1, 1))]);
    let actions = worker.handle(Mono(201), started(run(1, 1)));
    assert_eq!(orders(actions), [Action::Forget(run(1, 0))]);
    worker.handle(Mono(202), ended(run(1, 1), Outcome::Exited(0)));
    assert_eq!(outcome_of(&worker, 1), Some(Outcome::Exited(0)));
}

#[test]
fn a_runner_that_dies_again_and_again_waits_ever_longer_and_not_for_ever() {
    let mut worker = supervisor(vec![task(1)]);
    let mut now = Mono(200);
    let mut delays = Vec::new();
    for number in 0..RUNNER_RESTARTS_MAX {
        let died = now;
        let actions = worker.handle(now, ended(run(1, number), KILLED));
        let mut launched = orders(actions).contains(&Action::Launch(run(1, number + 1)));
        while !launched {
            now = worker.next_due().expect("a restart is pending");
            let actions = worker.handle(now, Event::Tick);
            launched = orders(actions).contains(&Action::Launch(run(1, number + 1)));
        }
        delays.push(now.since(died).0);
        worker.handle(now, started(run(1, number + 1)));
    }
    assert_eq!(delays[..4], [0, 250, 500, 1_000]);
    assert!(delays.is_sorted(), "{delays:?}");
    worker.handle(now, ended(run(1, RUNNER_RESTARTS_MAX), KILLED));
    assert_eq!(outcome_of(&worker, 1), Some(KILLED));
}

#[test]
fn a_command_that_dies_is_not_started_again() {
    let mut worker = supervisor(vec![command(1)]);
    let actions = worker.handle(Mono(200), ended(run(1, 0), KILLED));
    assert_eq!(orders(actions), []);
    assert_eq!(outcome_of(&worker, 1), Some(KILLED));
}

/// A worker whose task waits for the third start of its runner.
fn restarting() -> Supervisor {
    let mut worker = supervisor(vec![task(1)]);
    worker.handle(Mono(200), ended(run(1, 0), KILLED));
    worker.handle(Mono(200), started(run(1, 1)));
    let actions = worker.handle(Mono(200), ended(run(1, 1), KILLED));
    assert_eq!(orders(actions), []);
    worker
}

#[test]
fn a_kill_starts_the_runner_that_was_to_be_started_later_and_stops_it() {
    let mut worker = restarting();
    let actions = kill(&mut worker, Mono(300), Millis(5));
    assert_eq!(
        actions,
        [Action::Launch(run(1, 2)), stop(run(1, 2), BUDGET)]
    );
    assert!(orders(worker.handle(Mono(9_000), Event::Tick)).is_empty());
    worker.handle(Mono(9_001), ended(run(1, 2), Outcome::Exited(3)));
    let killed = Outcome::Killed(KillCause::Requested);
    assert_eq!(outcome_of(&worker, 1), Some(killed));
}

/// Orders the kill of the first attempt, with this grace for a command.
fn kill(worker: &mut Supervisor, now: Mono, grace: Millis) -> Vec<Action> {
    let mut out = Vec::new();
    worker.apply(now, Effect::Kill(lease(1), grace), &mut out);
    out
}

const fn stop(run: RunKey, grace: Millis) -> Action {
    Action::Stop {
        run,
        grace,
        cause: KillCause::Requested,
    }
}

#[test]
fn a_task_ends_within_its_own_budget_and_a_command_within_the_given_grace() {
    let mut worker = supervisor(vec![task(1)]);
    let actions = kill(&mut worker, Mono(200), Millis(5));
    assert_eq!(actions, [stop(run(1, 0), BUDGET)]);
    let mut worker = supervisor(vec![command(1)]);
    let actions = kill(&mut worker, Mono(200), Millis(5));
    assert_eq!(actions, [stop(run(1, 0), Millis(5))]);
}

#[test]
fn a_repeated_kill_renews_no_budget_and_one_without_grace_kills_at_once() {
    let mut worker = supervisor(vec![task(1)]);
    kill(&mut worker, Mono(200), Millis(5));
    assert_eq!(kill(&mut worker, Mono(5_200), Millis(5)), []);
    let actions = kill(&mut worker, Mono(5_300), Millis(0));
    assert_eq!(actions, [stop(run(1, 0), Millis(0))]);
    assert_eq!(kill(&mut worker, Mono(5_400), Millis(5)), [], "not gentler");
}

#[test]
fn a_runner_that_dies_while_it_stops_its_task_is_started_again_with_what_is_left() {
    let mut worker = supervisor(vec![task(1)]);
    kill(&mut worker, Mono(200), Millis(5));
    for number in 1..4 {
        let now = Mono(200 + 10_000 * number);
        let actions = orders(worker.handle(now, ended(run(1, number - 1), KILLED)));
        let left = Millis(BUDGET.0 - 10_000 * number);
        let next = run(1, number);
        assert_eq!(actions, [Action::Launch(next), stop(next, left)], "at once");
        worker.handle(now, started(next));
    }
    let late = Mono(90_000);
    let actions = orders(worker.handle(late, ended(run(1, 3), KILLED)));
    let next = run(1, 4);
    assert_eq!(
        actions,
        [Action::Launch(next), stop(next, Millis(0))],
        "its processes may live"
    );
    worker.handle(late, ended(next, Outcome::Killed(KillCause::Requested)));
    let killed = Outcome::Killed(KillCause::Requested);
    assert_eq!(outcome_of(&worker, 1), Some(killed));
}

#[test]
fn a_successor_of_the_coordinator_gets_what_is_left_of_the_time() {
    let mut worker = supervisor(vec![task(1)]);
    kill(&mut worker, Mono(200), Millis(5));
    let inventory = worker.inventory(Vec::new());
    let present = |_: &Attempt| Sighting::Present;
    let now = Mono(30_200);
    let actions = orders(worker.take_over(now, inventory, &BTreeSet::new(), present));
    let stops = actions.into_iter();
    let stops: Vec<Action> = stops
        .filter(|it| matches!(it, Action::Stop { .. }))
        .collect();
    assert_eq!(stops, [stop(run(1, 0), Millis(10_000))]);
    // The runner may have died with the coordinator.
    let inventory = worker.inventory(Vec::new());
    let gone = |_: &Attempt| Sighting::Ended(ending(KILLED));
    let actions = orders(worker.take_over(Mono(35_200), inventory, &BTreeSet::new(), gone));
    let next = run(1, 1);
    assert!(actions.contains(&Action::Launch(next)), "{actions:?}");
    assert!(actions.contains(&stop(next, Millis(5_000))), "{actions:?}");
}

#[test]
fn a_timeout_leaves_a_task_its_budget_once() {
    let mut assignment = task(1).assignment;
    assignment.timeout = Some(Millis(1_000));
    assert_eq!(assignment.timeout_grace(Mono(50), Mono(50)), BUDGET);
    assignment.began = Some(Mono(0));
    let late = Mono(1_000 + 25_000);
    let left = assignment.timeout_grace(late, late);
    assert_eq!(left, Millis(15_000), "a later run of the same attempt");
    let over = Mono(100_000);
    assert_eq!(assignment.timeout_grace(over, over), Millis(0));
    let mut command = command(1).assignment;
    command.timeout = Some(Millis(1_000));
    let grace = command.timeout_grace(Mono(50), Mono(50));
    assert_eq!(grace, Millis::from_secs(10));
}

#[test]
fn too_much_memory_ends_the_patience_with_a_task_that_stops() {
    let mut worker = supervisor(vec![task(1)]);
    kill(&mut worker, Mono(200), Millis(5));
    let beyond = Event::MemoryUsed(run(1, 0), 2_000);
    let actions = orders(worker.handle(Mono(300), beyond));
    assert_eq!(actions, [stop(run(1, 0), Millis(0))]);
}

#[test]
fn giving_up_ends_what_was_to_be_started_later() {
    let mut worker = restarting();
    let actions = orders(worker.handle(Mono(300), Event::GiveUp));
    let killing = actions.iter().find_map(|action| match action {
        Action::KillEverything { id, .. } => Some(*id),
        _ => None,
    });
    let id = killing.expect("it gives up");
    assert_eq!(outcome_of(&worker, 1), None, "its processes may live");
    let actions = worker.handle(Mono(301), Event::EverythingKilled { id, left: 1 });
    assert!(!actions.contains(&Action::EndLife), "one is left");
    let due = Mono(100_000);
    let again = orders(worker.handle(due, Event::Tick));
    let Some(Action::KillEverything { id, .. }) = again.first() else {
        panic!("{again:?}");
    };
    let actions = worker.handle(due, Event::EverythingKilled { id: *id, left: 0 });
    assert!(actions.contains(&Action::EndLife));
    let killed = Outcome::Killed(KillCause::Suicide);
    assert_eq!(outcome_of(&worker, 1), Some(killed));
}

#[test]
fn a_later_run_that_cannot_be_launched_leaves_its_attempt_lost() {
    let mut worker = supervisor(vec![task(1)]);
    worker.handle(Mono(200), ended(run(1, 0), KILLED));
    worker.handle(Mono(200), Event::LaunchImpossible(run(1, 1), None));
    assert_eq!(outcome_of(&worker, 1), Some(LOST));
    assert!(worker.attempts().get(run(1, 0)).is_some(), "as on record");
}

#[test]
fn an_attempt_that_its_host_cannot_launch_is_given_back() {
    let mut worker = supervisor(vec![KnownAttempt {
        started: None,
        waiting: true,
        ..command(1)
    }]);
    worker.handle(Mono(200), Event::HostFault(run(1, 0), "full".into()));
    assert_eq!(worker.worker().held().count(), 0);
    assert!(worker.attempts().is_empty());
}

#[test]
fn a_runner_that_its_host_cannot_launch_again_is_tried_later() {
    let mut worker = supervisor(vec![task(1)]);
    worker.handle(Mono(200), ended(run(1, 0), KILLED));
    let fault = || Event::HostFault(run(1, 1), "full".into());
    let mut now = Mono(200);
    for _ in 0..2 {
        worker.handle(now, fault());
        assert_eq!(outcome_of(&worker, 1), None, "its processes may run");
        now += RUNNER_DELAY_MAX;
        let actions = orders(worker.handle(now, Event::Tick));
        assert_eq!(actions, [Action::Launch(run(1, 1))]);
    }
    let actions = orders(worker.handle(Mono(90_000), started(run(1, 1))));
    assert_eq!(actions, [Action::Forget(run(1, 0))], "as one that has died");
}

#[test]
fn a_late_report_of_a_run_that_is_being_replaced_leaves_its_record() {
    let unknown = || Event::Unknown(run(1, 0), Sighting::Unknown);
    for late in [ended(run(1, 0), KILLED), unknown()] {
        let mut worker = supervisor(vec![task(1)]);
        worker.handle(Mono(200), ended(run(1, 0), KILLED));
        let actions = orders(worker.handle(Mono(201), late.clone()));
        assert_eq!(actions, [], "the next run is not on record: {late:?}");
        worker.handle(Mono(202), started(run(1, 1)));
        let actions = orders(worker.handle(Mono(203), late));
        assert_eq!(actions, [Action::Forget(run(1, 0))]);
    }
}

#[test]
fn a_runner_past_its_deadline_is_not_restarted_and_its_processes_are_killed() {
    let mut worker = supervisor(vec![task(1), command(2)]);
    worker.handle(Mono(200), ended(run(1, 0), KILLED));
    let actions = orders(worker.handle(Mono(201), Event::Refused(run(1, 1))));
    assert_eq!(actions, [Action::KillStrays]);
    assert_eq!(outcome_of(&worker, 1), None, "its processes may live");
    worker.handle(Mono(202), Event::StraysKilled { left: 0 });
    assert_eq!(outcome_of(&worker, 1), Some(LOST));
    assert_eq!(outcome_of(&worker, 2), None, "the incarnation goes on");
}

#[test]
fn what_waits_too_long_for_room_is_given_back_when_the_coordinator_agrees() {
    let mut worker = supervisor(vec![KnownAttempt {
        started: None,
        waiting: true,
        ..command(1)
    }]);
    let due = Mono(100) + WAIT_MAX;
    assert_eq!(orders(worker.handle(Mono(101), Event::Tick)), []);
    let actions = orders(worker.handle(due, Event::Tick));
    assert_eq!(actions, [Action::Withdraw(run(1, 0))]);
    assert_eq!(worker.worker().held().count(), 1, "it may start yet");
    assert_eq!(orders(worker.handle(due, Event::Tick)), [], "once");
    worker.handle(due, Event::Refused(run(1, 0)));
    assert_eq!(worker.worker().held().count(), 0);
    assert!(worker.attempts().is_empty());
}

#[test]
fn only_a_run_that_has_started_is_reported() {
    let mut worker = supervisor(Vec::new());
    let run = run(0, 0);
    let known = command(0);
    worker.attempts.insert(Attempt::new(run, known.assignment));
    worker.handle(Mono(200), Event::Accepted(run));
    let reported = |worker: &Supervisor| worker.attempts().get(run).map(|it| it.reported);
    assert_eq!(reported(&worker), Some(false), "it waits for room");
    worker.handle(Mono(201), started(run));
    assert_eq!(reported(&worker), Some(true));
}

#[test]
fn a_success_with_bad_outputs_is_a_failure() {
    let mut worker = supervisor(vec![command(1)]);
    let bad = Ending {
        has_bad_outputs: true,
        ..ending(Outcome::Exited(0))
    };
    worker.handle(Mono(200), Event::Ended(run(1, 0), bad));
    assert_eq!(outcome_of(&worker, 1), Some(Outcome::BadOutput));
}

#[test]
fn an_attempt_beyond_its_memory_is_killed_once() {
    let mut worker = supervisor(vec![command(1)]);
    let allowed = worker.handle(Mono(200), Event::MemoryUsed(run(1, 0), 1_000));
    assert_eq!(orders(allowed), []);
    let stop = Action::Stop {
        run: run(1, 0),
        grace: Millis(0),
        cause: KillCause::OutOfMemory,
    };
    let beyond = || Event::MemoryUsed(run(1, 0), 1_001);
    assert_eq!(orders(worker.handle(Mono(201), beyond())), [stop]);
    assert_eq!(orders(worker.handle(Mono(202), beyond())), []);
    let requested = Outcome::Killed(KillCause::Requested);
    worker.handle(Mono(203), ended(run(1, 0), requested));
    let cause = Outcome::Killed(KillCause::OutOfMemory);
    assert_eq!(outcome_of(&worker, 1), Some(cause));
}

#[test]
fn of_several_runs_the_last_counts_and_what_belongs_to_nothing_is_discarded() {
    let later = KnownAttempt {
        run: run(1, 1),
        ..task(1)
    };
    let reported = |run, assignment, ended| ReportedRun {
        run,
        assignment,
        started: None,
        waiting: false,
        ended,
        devices: Vec::new(),
    };
    let reports = vec![
        reported(run(1, 0), Some(task(1).assignment), Some(ending(KILLED))),
        reported(run(2, 0), None, None),
        reported(run(3, 0), Some(command(3).assignment), None),
    ];
    let inventory = Inventory::new(vec![later], reports, None);
    let runs: Vec<RunKey> = inventory.attempts().map(|known| known.run).collect();
    assert_eq!(runs, [run(1, 1), run(3, 0)]);
    let owned = runs.into_iter().collect();
    let unasked = |_: &Attempt| -> Sighting { panic!("the coordinator reports its own runs") };
    let (_, actions) = Supervisor::resume(&identity(), inventory, &owned, None, unasked, Mono(100));
    let expected = [
        Action::Forget(run(1, 0)),
        Action::KillRun(run(2, 0)),
        Action::Forget(run(2, 0)),
    ];
    assert_eq!(actions, expected);
}

#[test]
fn devices_are_held_for_what_is_adopted_or_started_again() {
    let device = |id: &str| DeviceShare {
        resource: "gpu".to_owned(),
        id: id.to_owned(),
        milli: 1_000,
    };
    let mut worker = supervisor(vec![command(1), task(2)]);
    for (process, id) in [(1, "a"), (2, "b")] {
        let (at, identity) = start_of(process);
        let devices = vec![device(id)];
        let run = run(process, 0);
        worker.handle(
            Mono(150),
            Event::Started {
                run,
                at,
                identity,
                devices,
            },
        );
    }
    let inventory = worker.inventory(Vec::new());
    let sight = |attempt: &Attempt| match attempt.run.process.0 {
        1 => Sighting::Present,
        _ => Sighting::Unknown,
    };
    let actions = worker.take_over(Mono(200), inventory, &BTreeSet::new(), sight);
    let hold = Action::HoldDevices {
        run: run(2, 0),
        devices: vec![device("b")],
    };
    let expected = [
        Action::Adopt(run(1, 0)),
        hold,
        Action::KillStrays,
        Action::Launch(run(2, 1)),
    ];
    assert_eq!(orders(actions), expected);
    let adopted = worker.attempts().get(run(1, 0)).expect("it runs");
    let Some(Request::Adopt { attempt, .. }) = adopted.adoption(String::new(), vec![], Mono(200))
    else {
        panic!("it is not adopted");
    };
    assert_eq!(attempt.expect("an attempt").devices, [device("a")]);
    let again = worker.attempts().get(run(2, 1)).expect("it starts again");
    let launch = again.launch(String::new(), vec![], DeviceClaim::default(), Mono(200));
    assert_eq!(launch.devices.held, [device("b")]);
}

#[test]
fn a_successor_adopts_what_exists_and_the_rest_has_ended_or_never_began() {
    let known = vec![command(1), command(2), command(3), command(4), task(5)];
    let mut worker = supervisor(known);
    let inventory = worker.inventory(Vec::new());
    let sight = |attempt: &Attempt| match attempt.run.process.0 {
        1 => Sighting::Present,
        2 => Sighting::Ended(ending(Outcome::Exited(3))),
        3 => Sighting::Unknown,
        _ => Sighting::Unexecuted(9),
    };
    let actions = worker.take_over(Mono(200), inventory, &BTreeSet::new(), sight);
    let expected = [
        Action::Adopt(run(1, 0)),
        Action::KillStrays,
        Action::Launch(run(5, 1)),
    ];
    assert_eq!(orders(actions), expected);
    assert_eq!(outcome_of(&worker, 2), None, "its descendants may live");
    let actions = worker.handle(Mono(300), Event::StraysKilled { left: 1 });
    assert_eq!((orders(actions), outcome_of(&worker, 2)), (vec![], None));
    let due = worker.next_due().expect("again");
    let actions = worker.handle(due.max(Mono(1_300)), Event::Tick);
    assert!(orders(actions).contains(&Action::KillStrays));
    worker.handle(Mono(1_400), Event::StraysKilled { left: 0 });
    assert_eq!(outcome_of(&worker, 1), None);
    assert_eq!(outcome_of(&worker, 2), Some(Outcome::Exited(3)));
    assert_eq!(outcome_of(&worker, 3), Some(LOST));
    assert!(!worker.attempts().contains(lease(4)), "it costs nothing");
    assert_eq!(worker.worker().held().count(), 4);
}

#[test]
fn a_successor_is_told_again_what_to_stop_and_ends_are_kept() {
    let mut worker = supervisor(vec![command(1), command(2)]);
    worker.handle(Mono(150), Event::MemoryUsed(run(1, 0), 2_000));
    worker.handle(Mono(160), ended(run(2, 0), Outcome::Exited(0)));
    let inventory = worker.inventory(Vec::new());
    let present = |_: &Attempt| Sighting::Present;
    let actions = orders(worker.take_over(Mono(200), inventory, &BTreeSet::new(), present));
    let stops = actions
        .iter()
        .filter(|it| matches!(it, Action::Stop { .. }));
    assert_eq!(stops.count(), 1, "{actions:?}");
    assert_eq!(outcome_of(&worker, 2), Some(Outcome::Exited(0)));
}

#[test]
fn the_next_agent_decides_again_about_a_runner_that_was_to_be_started_later() {
    let worker = restarting();
    let known: Vec<KnownAttempt> = worker.attempts().iter().map(KnownAttempt::from).collect();
    assert_eq!(known[0].ended.as_ref().map(|it| it.outcome), Some(KILLED));
    let owned = [run(1, 1)].into();
    let inventory = Inventory::new(known, Vec::new(), None);
    let unasked = |_: &Attempt| -> Sighting { panic!("it has ended") };
    let (mut next, actions) =
        Supervisor::resume(&identity(), inventory, &owned, None, unasked, Mono(300));
    assert_eq!(actions, []);
    let actions = next.handle(Mono(300) + Millis(250), Event::Tick);
    assert!(orders(actions).contains(&Action::Launch(run(1, 2))));
}

#[test]
fn the_next_agent_waits_again_for_what_may_be_left_of_a_lost_attempt() {
    let mut worker = supervisor(vec![command(1), command(2)]);
    let inventory = worker.inventory(Vec::new());
    let first_lives = |attempt: &Attempt| match attempt.run {
        run if run == self::run(1, 0) => Sighting::Present,
        _ => Sighting::Unknown,
    };
    worker.take_over(Mono(200), inventory, &BTreeSet::new(), first_lives);
    let known: Vec<KnownAttempt> = worker.attempts().iter().map(KnownAttempt::from).collect();
    let inventory = Inventory::new(known, Vec::new(), None);
    let unasked = |_: &Attempt| -> Sighting { panic!("one is watched, one has ended") };
    let owned = [run(1, 0)].into();
    let (mut next, actions) =
        Supervisor::resume(&identity(), inventory, &owned, None, unasked, Mono(300));
    assert_eq!(orders(actions), [Action::KillStrays]);
    assert_eq!(outcome_of(&next, 2), None, "its processes may live");
    next.handle(Mono(400), Event::StraysKilled { left: 0 });
    assert_eq!(outcome_of(&next, 2), Some(LOST));
}

#[test]
fn an_incarnation_goes_on_only_where_its_deadlines_are_known() {
    let found = |coordinator| Remnant {
        is_of_this_boot: true,
        is_dying: false,
        coordinator,
    };
    let running = found(CoordinatorState::Running);
    let dead = |has_order| found(CoordinatorState::Dead { has_order });
    assert!(running.is_resumable());
    assert!(dead(true).is_resumable());
    assert!(!dead(false).is_resumable(), "there was no lease");
    assert!(!found(CoordinatorState::Unknown).is_resumable());
    for other in [running, dead(true)] {
        let rebooted = Remnant {
            is_of_this_boot: false,
            ..other
        };
        assert!(!rebooted.is_resumable());
    }
    let dying = |found| Remnant {
        is_dying: true,
        ..found
    };
    assert!(dying(running).is_resumable(), "it ends in order");
    assert!(!dying(dead(true)).is_resumable());
}

#[test]
fn a_new_incarnation_carries_ends_and_starts_nothing() {
    let over = KnownAttempt {
        ended: Some(Report::from(KILLED)),
        ..task(1)
    };
    let ended = Inventory::new(vec![over, task(2)], Vec::new(), None).into_ended();
    let mut worker = Supervisor::begin(&identity(), ended, Mono(100));
    assert_eq!(worker.worker().held().count(), 1);
    assert_eq!(outcome_of(&worker, 1), Some(LOST), "not the task's own end");
    let actions = orders(worker.handle(Mono(90_000), Event::Tick));
    assert_eq!(actions, []);
}

#[test]
fn a_run_whose_status_its_coordinator_cannot_know_ends_by_what_is_seen() {
    let mut worker = supervisor(vec![command(1), task(2), task(3)]);
    let mut unknown = |process: u32, outcome: Outcome| {
        let sighting = Sighting::Ended(ending(outcome));
        let actions = worker.handle(Mono(200), Event::Unknown(run(process, 0), sighting));
        (orders(actions), outcome_of(&worker, process))
    };
    let ended = Some(Outcome::Exited(0));
    assert_eq!(unknown(1, Outcome::Exited(0)), (Vec::new(), ended));
    let launch = Action::Launch(run(2, 1));
    assert_eq!(unknown(2, KILLED), (vec![launch], None), "its task goes on");
    let kill = Action::KillStrays;
    assert_eq!(unknown(3, Outcome::Exited(0)), (vec![kill], None));
    worker.handle(Mono(201), Event::StraysKilled { left: 0 });
    assert_eq!(outcome_of(&worker, 3), ended, "when nothing is left of it");
}

#[test]
fn a_run_of_no_attempt_and_one_that_never_began_leave_the_record() {
    let mut worker = supervisor(vec![command(1)]);
    for (process, sighting) in [(7, Sighting::Unknown), (1, Sighting::Unexecuted(9))] {
        let actions = worker.handle(Mono(200), Event::Unknown(run(process, 0), sighting));
        assert_eq!(orders(actions), [Action::Forget(run(process, 0))]);
    }
    assert!(worker.attempts().is_empty());
}
