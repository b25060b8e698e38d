//! Workflows of the library: the same triggers and limits as tasks, with runs for instances.

use baton_model::ids::RunId;
use baton_model::library::{Created, EntryKind, RunOrigin, TriggerSource};
use baton_model::outcome::Outcome;
use baton_model::spec::{Due, Work};
use baton_model::workflow::{HaltCause, HaltMode, Plan, PlanTask, Upstream};

use super::super::placing::rig;
use super::triggers::{by_hand, keyed};
use super::*;
use crate::ledger::{Payload, StoredRun};

const R1: RunId = RunId(1);

pub(super) fn plan(tasks: &[&str]) -> Plan {
    let task = |(at, name): (usize, &&str)| PlanTask {
        name: (*name).to_owned(),
        spec: Arc::new(InstanceSpec {
            work: Work::Command(vec![(*name).to_owned()]),
            ..InstanceSpec::default()
        }),
        after: at
            .checked_sub(1)
            .map(|before| Upstream {
                task: before as u32,
                condition: Default::default(),
                edges: Default::default(),
            })
            .into_iter()
            .collect(),
        ..PlanTask::default()
    };
    Plan {
        name: "etl".to_owned(),
        owner: "o".to_owned(),
        tasks: tasks.iter().enumerate().map(task).collect(),
        ..Plan::default()
    }
}

/// The same trigger, for a workflow with these tasks in a chain.
pub(super) fn workflow(definition: Definition, tasks: &[&str]) -> Definition {
    Definition {
        kind: EntryKind::Workflow,
        spec: None,
        plan: Some(Arc::new(plan(tasks))),
        ..definition
    }
}

/// Resumes the first run, which has ended, of a workflow with the task `a`.
fn resume_first(leader: &mut Leader) {
    let head = leader.kept.runs().head(R1).cloned().expect("is known");
    let resume = Resume {
        run: StoredRun {
            head,
            plan: Arc::new(plan(&["a"])),
            ended: Vec::new(),
        },
        plan: None,
        rerun: None,
        generation: None,
    };
    let resume = Command::Run(Box::new(RunCommand::Resume(resume)));
    leader.give(Input::command(RequestId(9), resume));
}

fn origin(leader: &Leader, run: u64) -> Option<RunOrigin> {
    leader.core.ledger().runs().head(RunId(run))?.origin
}

pub(super) fn state(leader: &Leader, run: u64) -> Option<UniversalState> {
    let head = leader.core.ledger().runs().head(RunId(run));
    head.map(|head| head.state)
}

/// The runs and instances that records say were launched, with what they came after.
pub(super) fn launched(facts: &[Fact]) -> Vec<(Option<Execution>, Option<Execution>)> {
    let one = |fact: &Fact| match fact {
        Fact::Launched {
            cause: Cause::Due { .. },
            execution,
            ..
        } => Some((*execution, None)),
        Fact::Launched {
            cause: Cause::Upstream { execution: of, .. },
            execution,
            ..
        } => Some((*execution, Some(*of))),
        _ => None,
    };
    facts.iter().filter_map(one).collect()
}

#[test]
fn a_due_time_becomes_a_record_a_run_and_its_first_instance_in_one_step() {
    let mut leader = Leader::of_2026();
    let daily = scheduled("every day at 12:00");
    leader
        .define("etl", workflow(daily, &["a", "b"]))
        .expect("taken");
    let noon = NEW_YEAR + 12 * HOUR;
    let facts = leader.at(noon + 300);
    let [
        Fact::Launched {
            entry: TaskNo(1),
            cause: Cause::Due {
                first, count: 1, ..
            },
            verdict: TickVerdict::Launch,
            execution: Some(Execution::Run(R1)),
            ..
        },
        Fact::RunRegistered {
            run: R1,
            open: false,
            origin: Some(of),
            ..
        },
        Fact::InstancesSubmitted { spec, .. },
        Fact::RunAdvanced {
            run: R1,
            to: UniversalState::Launched,
            at: None,
        },
    ] = &*facts
    else {
        panic!("{facts:?}");
    };
    let due = Due {
        nominal: Wall(noon),
        latest: Wall(noon + HOUR),
    };
    assert_eq!((first.0, of.due, of.after), (noon, Some(due), None));
    assert_eq!((of.task, of.revision), (TaskNo(1), Revision(1)));
    let nominal = spec.env.get("BATON_NOMINAL_TIME").map(String::as_str);
    assert_eq!(nominal, Some("2026-01-01T12:00:00+00:00"));
    assert_eq!(
        spec.origin, None,
        "the run is counted, not each of its instances"
    );
    assert_eq!(leader.active(1), 1);
    assert_eq!(leader.at(noon + 301), []);
    assert_eq!(leader.core.next_tick(), Some(Wall(noon + DAY)));
}

#[test]
fn the_next_leader_continues_the_run_and_its_schedule() {
    let (mut leader, worker) = rig();
    leader.set_wall(NEW_YEAR);
    let hourly = scheduled("every hour");
    leader
        .define("etl", workflow(hourly, &["a", "b"]))
        .expect("taken");
    leader.at(NEW_YEAR + HOUR);
    leader.ends(&worker, &[1], Outcome::Exited(0), 1);
    let mut next = leader.successor();
    assert_eq!(next.at(NEW_YEAR + HOUR + 2), []);
    assert_eq!((next.active(1), state(&next, 1)), (1, state(&leader, 1)));
    assert_eq!(origin(&next, 1), origin(&leader, 1));
    let facts = next.at(NEW_YEAR + 2 * HOUR);
    let second = Execution::Run(RunId(2));
    assert_eq!(launched(&facts), [(Some(second), None)]);
}

#[test]
fn max_instances_counts_runs_until_they_have_ended_and_again_when_they_are_resumed() {
    let (mut leader, worker) = rig();
    leader.set_wall(NEW_YEAR);
    let mut hourly = scheduled("every hour");
    hourly.trigger.max_instances = Some(1);
    leader
        .define("etl", workflow(hourly, &["a"]))
        .expect("taken");
    leader.at(NEW_YEAR + HOUR);
    assert_eq!(verdicts(&leader.at(NEW_YEAR + 2 * HOUR)), [FULL]);
    let refused = leader.trigger(by_hand("etl"));
    assert_eq!(refused, Err(TriggerError::MaxInstances(1)));
    leader.ends(&worker, &[1], Outcome::Exited(1), 1);
    assert_eq!(state(&leader, 1), Some(UniversalState::Failed));
    assert_eq!((leader.active(1), leader.successor().active(1)), (0, 0));
    resume_first(&mut leader);
    assert_eq!((leader.active(1), leader.successor().active(1)), (1, 1));
    assert_eq!(verdicts(&leader.at(NEW_YEAR + 3 * HOUR)), [FULL]);
    let of = origin(&leader, 1).and_then(|origin| origin.due);
    assert_eq!(of.map(|due| due.nominal), Some(Wall(NEW_YEAR + HOUR)));
}

#[test]
fn the_timeout_of_a_workflow_counts_for_runs_that_a_schedule_has_launched() {
    for takeover in [false, true] {
        let (mut leader, _) = rig();
        leader.set_wall(NEW_YEAR);
        let mut etl = workflow(scheduled("every day at 00:01"), &["a"]);
        etl.plan = Some(Arc::new(Plan {
            timeout: Some(Millis(5 * SECOND)),
            ..plan(&["a"])
        }));
        leader.define("etl", etl).expect("taken");
        leader.at(NEW_YEAR + MINUTE);
        if takeover {
            leader = leader.successor();
        }
        let facts = leader.facts_of(|leader| drop(leader.wait(Millis(4 * SECOND))));
        assert_eq!(facts, [], "{takeover}");
        let facts = leader.facts_of(|leader| drop(leader.wait(Millis(2 * SECOND))));
        let halting = Fact::RunHalting {
            run: R1,
            mode: HaltMode::Kill,
            cause: HaltCause::TimedOut,
        };
        assert_eq!(facts.first(), Some(&halting), "{takeover}");
    }
}

#[test]
fn a_trigger_launches_a_run_once_for_each_key() {
    let mut leader = Leader::of_2026();
    leader
        .define("a", workflow(plain(), &["x"]))
        .expect("taken");
    let facts = leader.facts_of(|leader| {
        let reply = leader.trigger(keyed(7, 1)).expect("launched");
        assert_eq!(
            (reply.execution, reply.repeated),
            (Execution::Run(R1), false)
        );
    });
    let triggered = |fact: &&Fact| {
        matches!(
            fact,
            Fact::Launched {
                entry: TaskNo(1),
                cause: Cause::Request {
                    source: TriggerSource::Manual,
                    key: Some(_),
                },
                execution: Some(Execution::Run(R1)),
                ..
            }
        )
    };
    assert_eq!(facts.iter().filter(triggered).count(), 1, "{facts:?}");
    for mut leader in [leader.successor(), leader] {
        let reply = leader.trigger(keyed(7, 1)).expect("answered");
        assert_eq!(
            (reply.execution, reply.repeated),
            (Execution::Run(R1), true)
        );
        let used = Err(TriggerError::KeyUsed(Created::Run(R1)));
        assert_eq!(leader.trigger(keyed(7, 2)), used);
        assert_eq!(leader.core.ledger().runs().last(), R1);
    }
}

#[test]
fn bound_parameters_replace_the_default_plan() {
    let mut leader = Leader::of_2026();
    let open = Definition {
        plan: None,
        ..workflow(plain(), &["x"])
    };
    leader.define("a", open).expect("by hand it can be");
    let refused = leader.trigger(by_hand("a"));
    assert_eq!(refused, Err(TriggerError::NeedsParameters));
    let bound = |revision, plan: Plan| TriggerCommand {
        bound: Some((Revision(revision), Payload::Plan(Arc::new(plan)))),
        ..by_hand("a")
    };
    let stale = leader.trigger(bound(2, plan(&["y"])));
    assert_eq!(stale, Err(TriggerError::Revised(Revision(1))));
    let mut circle = plan(&["y", "z"]);
    circle.tasks.swap(0, 1);
    let refused = leader.trigger(bound(1, circle));
    assert!(matches!(refused, Err(TriggerError::Plan(_))), "{refused:?}");
    let reply = leader.trigger(bound(1, plan(&["y"]))).expect("launched");
    assert_eq!(reply.execution, Execution::Run(R1));
    let run = leader.core.ledger().runs().run(R1).expect("in flight");
    assert_eq!(run.dag.plan.tasks[0].name, "y");
}

#[test]
fn tasks_and_workflows_come_after_each_other() {
    let (mut leader, worker) = rig();
    leader.set_wall(NEW_YEAR);
    let after = |name: &str| {
        let mut definition = plain();
        definition.trigger.after = vec![named(name)];
        definition
    };
    leader
        .define("first", scheduled("every hour"))
        .expect("taken");
    let etl = workflow(after("first"), &["a", "b"]);
    leader.define("etl", etl).expect("taken");
    leader.define("report", after("etl")).expect("taken");
    let next = workflow(after("etl"), &["x"]);
    leader.define("next", next).expect("taken");
    leader.at(NEW_YEAR + HOUR);
    let facts = leader.facts_of(|leader| leader.ends(&worker, &[1], Outcome::Exited(0), 1));
    let (i1, r1) = (Execution::Instance(InstanceId(1)), Execution::Run(R1));
    assert_eq!(launched(&facts), [(Some(r1), Some(i1))]);
    assert_eq!(origin(&leader, 1).and_then(|it| it.after), Some(i1));
    let env = |leader: &Leader, id| {
        let instance = leader.core.ledger().find(InstanceId(id)).expect("exists");
        instance.spec.env.get("BATON_AFTER").cloned()
    };
    assert_eq!(env(&leader, 2).as_deref(), Some("i1"));
    let facts = leader.facts_of(|leader| leader.ends(&worker, &[2], Outcome::Exited(0), 1));
    assert_eq!(launched(&facts), [], "the run is not over");
    let facts = leader.facts_of(|leader| leader.ends(&worker, &[3], Outcome::Exited(0), 1));
    let i4 = Execution::Instance(InstanceId(4));
    let r2 = Execution::Run(RunId(2));
    let followers = [(Some(i4), Some(r1)), (Some(r2), Some(r1))];
    assert_eq!(launched(&facts), followers, "in the step that ends the run");
    assert_eq!(env(&leader, 4).as_deref(), Some("r1"));
    let circle = workflow(after("next"), &["a"]);
    let refused = leader.define("etl", circle);
    assert!(
        matches!(refused, Err(LibraryError::Cycle(_))),
        "{refused:?}"
    );
}

#[test]
fn nothing_follows_a_run_that_failed_until_a_resume_has_made_it_done() {
    let (mut leader, worker) = rig();
    leader.set_wall(NEW_YEAR);
    let hourly = scheduled("every day at 01:00");
    leader
        .define("etl", workflow(hourly, &["a"]))
        .expect("taken");
    let mut follower = plain();
    follower.trigger.after = vec![named("etl")];
    leader.define("report", follower).expect("taken");
    leader.at(NEW_YEAR + HOUR);
    let facts = leader.facts_of(|leader| leader.ends(&worker, &[1], Outcome::Exited(1), 1));
    assert_eq!(launched(&facts), []);
    resume_first(&mut leader);
    let facts = leader.facts_of(|leader| leader.ends(&worker, &[2], Outcome::Exited(0), 1));
    let i3 = Execution::Instance(InstanceId(3));
    assert_eq!(launched(&facts), [(Some(i3), Some(Execution::Run(R1)))]);
}

#[test]
fn an_entry_may_change_from_a_task_to_a_workflow() {
    let mut leader = Leader::of_2026();
    leader.define("a", scheduled("every hour")).expect("taken");
    leader.at(NEW_YEAR + HOUR);
    let etl = workflow(scheduled("every hour"), &["x"]);
    let reply = leader.define("a", etl).expect("taken");
    assert_eq!(
        (reply.revision, reply.change),
        (Revision(2), Change::Replaced)
    );
    let facts = leader.at(NEW_YEAR + 2 * HOUR);
    assert_eq!(launched(&facts), [(Some(Execution::Run(R1)), None)]);
    assert_eq!(leader.active(1), 2, "an instance and a run");
}

#[test]
fn an_unusable_plan_is_refused_when_it_is_defined() {
    let mut leader = Leader::of_2026();
    let mut definition = workflow(plain(), &["a", "b"]);
    let mut circle = plan(&["a", "b"]);
    circle.tasks.swap(0, 1);
    definition.plan = Some(Arc::new(circle));
    let refused = leader.define("a", definition);
    assert!(matches!(refused, Err(LibraryError::Plan(_))), "{refused:?}");
    let mut open = workflow(scheduled("every hour"), &["a"]);
    open.plan = None;
    assert_eq!(leader.define("a", open), Err(LibraryError::NeedsDefaults));
    let mut memory = Leader::new(StoreMode::Memory, 1);
    let mut strict = plan(&["a"]);
    strict.tasks[0].spec = Arc::new(InstanceSpec {
        exclusive: Exclusive::Strict,
        ..InstanceSpec::default()
    });
    let definition = Definition {
        plan: Some(Arc::new(strict)),
        ..workflow(plain(), &[])
    };
    let refused = memory.define("a", definition);
    assert_eq!(refused, Err(LibraryError::NeedsStore));
}

/// The same, with a parameter whose default is the day before the nominal time.
fn of_yesterday(mut definition: Definition) -> Definition {
    let day = "{{ nominal_time - 1d as %F }}".to_owned();
    definition.nominal_params = [("day".to_owned(), day)].into();
    let spec = Arc::new(InstanceSpec {
        work: Work::Command(vec!["{{ params.day }} {{{{x}}".to_owned()]),
        ..InstanceSpec::default()
    });
    match definition.kind {
        EntryKind::Task => definition.spec = Some(spec),
        EntryKind::Workflow => {
            let mut plan = plan(&["a"]);
            plan.tasks[0].spec = spec;
            definition.plan = Some(Arc::new(plan));
        }
    }
    definition
}

fn commands<'a>(facts: &'a [Fact]) -> Vec<&'a str> {
    let words = |fact: &'a Fact| match fact {
        Fact::InstancesSubmitted { spec, .. } => match &spec.work {
            Work::Command(words) => Some(words[0].as_str()),
            Work::Task(_) => None,
        },
        _ => None,
    };
    facts.iter().filter_map(words).collect()
}

#[test]
fn a_launch_renders_parameters_with_its_nominal_time() {
    for kind in [EntryKind::Task, EntryKind::Workflow] {
        let of = |definition| of_yesterday(Definition { kind, ..definition });
        let (mut leader, worker) = rig();
        leader.set_wall(NEW_YEAR);
        let daily = scheduled("every day at 12:00");
        leader.define("a", of(daily)).expect("taken");
        let mut follower = plain();
        follower.trigger.after = vec![named("a")];
        leader.define("b", of(follower)).expect("taken");
        // Late, on the next day: the day of the due time counts.
        let facts = leader.at(NEW_YEAR + 12 * HOUR + 30 * MINUTE);
        assert_eq!(commands(&facts), ["2025-12-31 {{x}}"], "{kind}");
        leader.set_wall(NEW_YEAR + 36 * HOUR + 1);
        let facts = leader.facts_of(|leader| leader.ends(&worker, &[1], Outcome::Exited(0), 1));
        assert_eq!(
            commands(&facts),
            ["2025-12-31 {{x}}"],
            "{kind}: of what it follows"
        );
        let facts = leader.facts_of(|leader| drop(leader.trigger(by_hand("a"))));
        assert_eq!(commands(&facts), ["2026-01-01 {{x}}"], "{kind}: of now");
        if kind == EntryKind::Workflow {
            let run = leader.core.ledger().runs().run(RunId(3)).expect("live");
            assert_eq!(run.dag.plan.params["day"], "2026-01-01");
        }
    }
}
