//! Launches beyond `max_instances`: queued, or in place of others.

use baton_model::ids::RunId;
use baton_model::library::{EntryKind, Execution, Overlap};
use baton_model::outcome::{KillCause, KillMode, Outcome};
use baton_model::workflow::{HaltCause, HaltMode, Plan};

use super::super::placing::rig;
use super::triggers::by_hand;
use super::workflows::{launched, plan, state, workflow};
use super::*;
use crate::limits::{Limit, LimitKey};
use crate::wait::Wait;

const DONE: Outcome = Outcome::Exited(0);
const KILLED: Outcome = Outcome::Killed(KillCause::Requested);

/// Every hour, at most one at once.
fn hourly(kind: EntryKind, overlap: Overlap) -> Definition {
    let mut definition = scheduled("every hour");
    definition.trigger.max_instances = Some(1);
    definition.trigger.overlap = overlap;
    match kind {
        EntryKind::Task => definition,
        EntryKind::Workflow => workflow(definition, &["a"]),
    }
}

fn with(definition: Definition) -> (Leader, Remote) {
    let (mut leader, worker) = rig();
    leader.set_wall(NEW_YEAR);
    leader.define("e", definition).expect("taken");
    (leader, worker)
}

/// Instances that have a lease.
fn leased(leader: &Leader) -> Vec<u64> {
    let all = leader
        .core
        .ledger()
        .leased(InstanceId(0), InstanceId(u64::MAX));
    all.map(|it| it.id.0).collect()
}

#[test]
fn a_launch_waits_for_its_turn_and_starts_in_the_step_that_makes_room() {
    for (kind, takeover) in [
        (EntryKind::Task, false),
        (EntryKind::Task, true),
        (EntryKind::Workflow, false),
        (EntryKind::Workflow, true),
    ] {
        let (mut leader, worker) = with(hourly(kind, Overlap::Queue));
        for hour in 1..=3 {
            let facts = leader.at(NEW_YEAR + hour * HOUR);
            let [(Some(execution), None)] = *launched(&facts) else {
                panic!("{facts:?}");
            };
            let expected = match kind {
                EntryKind::Task => Execution::Instance(InstanceId(hour)),
                EntryKind::Workflow => Execution::Run(RunId(hour)),
            };
            assert_eq!(execution, expected, "{kind}");
        }
        assert_eq!(leased(&leader), [1], "{kind}");
        assert_eq!(leader.active(1), 3, "{kind}");
        let text = "max_instances of o/e is reached (1 of 1); it starts when its turn comes";
        if kind == EntryKind::Task {
            let reason = leader.core.explain(InstanceId(2), leader.clock());
            let reason = reason.as_ref().and_then(Standing::wait);
            assert_eq!(reason.map(Wait::text).as_deref(), Some(text));
        } else {
            let view = leader.core.run_view(RunId(2), 0, 9, leader.clock());
            let view = view.expect("a live run");
            let waits = view.tasks[0]
                .wait
                .as_ref()
                .map(|wait| (wait.word(), wait.text()));
            assert_eq!(waits, Some(("turn", text.to_owned())));
            assert_eq!(state(&leader, 2), Some(UniversalState::Queued));
        }
        let one = Some(Limit { total: 1, used: 1 });
        let entry = LimitKey::Entry(TaskNo(1));
        assert_eq!(leader.core.limit(&entry), one, "{kind}");
        let mut worker = worker;
        if takeover {
            leader = leader.successor();
            worker.association = None;
            let lease = leader.lease(1);
            leader.welcome(&mut worker, &[lease]);
            assert_eq!(leased(&leader), [1], "{kind}");
            assert_eq!(leader.core.limit(&entry), one, "{kind}");
        }
        // Each end lets the next one start, in order.
        leader.ends(&worker, &[1], DONE, 1);
        assert_eq!(leased(&leader), [2], "{kind} {takeover}");
        assert_eq!(leader.active(1), 2);
        leader.ends(&worker, &[2], Outcome::Exited(1), 1);
        assert_eq!(leased(&leader), [3], "{kind} {takeover}");
        leader.ends(&worker, &[3], DONE, 1);
        assert_eq!((leased(&leader), leader.active(1)), (vec![], 0));
    }
}

#[test]
fn a_replacement_stops_the_oldest_and_waits_for_its_end() {
    for kind in [EntryKind::Task, EntryKind::Workflow] {
        let (mut leader, worker) = with(hourly(kind, Overlap::Replace));
        leader.at(NEW_YEAR + HOUR);
        let facts = leader.at(NEW_YEAR + 2 * HOUR);
        let stop = Fact::StopRequested {
            instance: InstanceId(1),
            mode: KillMode::Graceful,
            reason: None,
        };
        assert!(facts.contains(&stop), "{kind}: {facts:?}");
        if kind == EntryKind::Workflow {
            let halting = Fact::RunHalting {
                run: RunId(1),
                mode: HaltMode::Kill,
                cause: HaltCause::Replaced,
            };
            assert!(facts.contains(&halting), "{facts:?}");
        }
        assert_eq!(leased(&leader), [1], "{kind}: it may still run");
        // The third replaces the second, which has not started.
        leader.at(NEW_YEAR + 3 * HOUR);
        assert_eq!((leased(&leader), leader.active(1)), (vec![1], 2), "{kind}");
        leader.ends(&worker, &[1], KILLED, 1);
        let last = match kind {
            EntryKind::Task => 3,
            // The second run never had an instance.
            EntryKind::Workflow => 2,
        };
        assert_eq!(
            (leased(&leader), leader.active(1)),
            (vec![last], 1),
            "{kind}"
        );
        if kind == EntryKind::Workflow {
            let states = [1, 2, 3].map(|run| state(&leader, run));
            let halted = Some(UniversalState::Halted);
            assert_eq!(states, [halted, halted, Some(UniversalState::Launched)]);
        }
    }
}

#[test]
fn a_request_follows_the_policy_as_well() {
    let (mut leader, worker) = with(hourly(EntryKind::Workflow, Overlap::Queue));
    for run in 1..=2 {
        let reply = leader.trigger(by_hand("e")).expect("it may wait");
        assert_eq!(reply.execution, Execution::Run(RunId(run)));
    }
    assert_eq!(leased(&leader), [1]);
    leader.ends(&worker, &[1], DONE, 1);
    assert_eq!(leased(&leader), [2]);
}

#[test]
fn what_waits_can_be_stopped_and_a_higher_limit_lets_it_start() {
    for kind in [EntryKind::Task, EntryKind::Workflow] {
        let (mut leader, _) = with(hourly(kind, Overlap::Queue));
        for hour in 1..=4 {
            leader.at(NEW_YEAR + hour * HOUR);
        }
        match kind {
            EntryKind::Task => drop(leader.cancel_range(2, 2)),
            EntryKind::Workflow => {
                let halt = RunCommand::Halt {
                    run: RunId(2),
                    mode: HaltMode::Drain,
                    generation: None,
                };
                leader.give(Input::command(RequestId(5), Command::Run(Box::new(halt))));
                assert_eq!(state(&leader, 2), Some(UniversalState::Halted));
            }
        }
        assert_eq!((leased(&leader), leader.active(1)), (vec![1], 3), "{kind}");
        let mut wider = hourly(kind, Overlap::Queue);
        wider.trigger.max_instances = Some(2);
        leader.define("e", wider).expect("taken");
        assert_eq!(leased(&leader).len(), 2, "{kind}");
        leader.remove("e").expect("it is there");
        assert_eq!(leased(&leader).len(), 3, "{kind}: no limit is left");
    }
}

#[test]
fn the_timeout_of_a_run_begins_with_its_turn() {
    for takeover in [false, true] {
        let mut definition = hourly(EntryKind::Workflow, Overlap::Queue);
        definition.plan = Some(Arc::new(Plan {
            timeout: Some(Millis(5 * SECOND)),
            ..plan(&["a"])
        }));
        let (mut leader, worker) = with(definition);
        leader.trigger(by_hand("e")).expect("launched");
        leader.trigger(by_hand("e")).expect("launched");
        leader.wait(Millis(4 * SECOND));
        let facts = leader.facts_of(|leader| leader.ends(&worker, &[1], DONE, 1));
        let started = Fact::RunAdvanced {
            run: RunId(2),
            to: UniversalState::Launched,
            at: Some(leader.clock().wall),
        };
        assert!(facts.contains(&started), "{facts:?}");
        if takeover {
            leader = leader.successor();
        }
        let halts = |leader: &mut Leader| {
            let facts = leader.facts_of(|leader| drop(leader.wait(Millis(3 * SECOND))));
            let halt = |fact: &&Fact| matches!(fact, Fact::RunHalting { run: RunId(2), .. });
            facts.iter().filter(halt).count()
        };
        assert_eq!(halts(&mut leader), 0, "{takeover}: 7 s after its launch");
        assert_eq!(halts(&mut leader), 1, "{takeover}: 6 s after its start");
    }
}
