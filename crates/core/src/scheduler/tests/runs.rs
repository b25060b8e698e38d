//! Runs of a leader with one cooperative worker.

use baton_model::ids::{Generation, RunId};
use baton_model::message::Status;
use baton_model::outcome::Outcome;
use baton_model::spec::Work;
use baton_model::workflow::{Condition, Edges, HaltMode, Items, Plan, PlanTask, Upstream};

use super::*;
use crate::ledger::{LedgerParts, StoredRun};
use crate::limits::{Limit, LimitKey, RunLimit};
use crate::wait::{Wait, WaitReason};
use crate::workflow::ItemResult;

const R1: RunId = RunId(1);

/// A leader with one worker that has room for everything.
struct Team {
    leader: Leader,
    worker: Remote,
    requests: u64,
}

fn task(name: &str, after: &[u32]) -> PlanTask {
    let edge = |task: &u32| Upstream {
        task: *task,
        condition: Condition::Success,
        edges: Edges::All,
    };
    PlanTask {
        name: name.to_owned(),
        spec: Arc::new(InstanceSpec {
            work: Work::Command(vec![name.to_owned()]),
            ..InstanceSpec::default()
        }),
        after: after.iter().map(edge).collect(),
        ..PlanTask::default()
    }
}

fn plan(tasks: Vec<PlanTask>) -> Plan {
    Plan {
        name: "etl".to_owned(),
        tasks,
        ..Plan::default()
    }
}

/// a, then b three times, then c.
fn fork() -> Plan {
    let mut fork = plan(vec![task("a", &[]), task("b", &[0]), task("c", &[1])]);
    fork.tasks[1].items = Items::Range {
        first: 0,
        step: 1,
        count: 3,
    };
    fork
}

impl Team {
    fn new() -> Self {
        let mut leader = Leader::new(StoreMode::Durable, 1);
        leader.wall_at_zero = 5_000;
        let mut worker = Remote::new("w", 7, 1);
        worker.slots = 100;
        leader.welcome(&mut worker, &[]);
        Self {
            leader,
            worker,
            requests: 0,
        }
    }

    fn execute(&mut self, command: RunCommand) -> Result<(RunId, Generation), RunError> {
        self.requests += 1;
        let request = RequestId(self.requests);
        let effects = self
            .leader
            .give(Input::command(request, Command::Run(Box::new(command))));
        let answer = effects.into_iter().find_map(|effect| match effect {
            Effect::Reply(to, Reply::Run(answer)) if to == request => Some(answer),
            _ => None,
        });
        answer.expect("every command is answered")
    }

    fn register(&mut self, plan: Plan) {
        let answer = self.execute(RunCommand::Register {
            plan: Arc::new(plan),
            open: false,
            key: None,
        });
        assert_eq!(answer, Ok((R1, Generation(1))));
    }

    fn halt(&mut self, mode: HaltMode) -> Result<(RunId, Generation), RunError> {
        self.execute(RunCommand::Halt {
            run: R1,
            mode,
            generation: None,
        })
    }

    /// The run as a store would have it.
    fn stored(&self) -> StoredRun {
        let run = self.leader.kept.runs().run(R1).expect("was registered");
        StoredRun {
            head: run.head.clone(),
            plan: Arc::clone(&run.dag.plan),
            ended: run.progress.done().collect(),
        }
    }

    fn resume(&mut self, plan: Option<Plan>) -> Result<(RunId, Generation), RunError> {
        let command = Resume {
            run: self.stored(),
            plan: plan.map(Arc::new),
            rerun: None,
            generation: None,
        };
        self.execute(RunCommand::Resume(command))
    }

    /// What the worker holds, by name, with the instance's id.
    fn running(&self) -> Vec<(String, u64)> {
        let ledger = self.leader.core.ledger();
        let leased = ledger.leased(InstanceId(0), InstanceId(u64::MAX));
        let mut names: Vec<_> = leased.map(|it| (it.spec.name.clone(), it.id.0)).collect();
        names.sort();
        names
    }

    fn names(&self) -> Vec<String> {
        self.running().into_iter().map(|(name, _)| name).collect()
    }

    /// The worker reports how an instance ended.
    fn end(&mut self, name: &str, outcome: Outcome) {
        let running = self.running();
        let (_, id) = running.iter().find(|it| it.0 == name).expect("it runs");
        let lease = self.leader.lease(*id);
        let association = self.worker.association();
        let told = ToScheduler::UpdateStatus {
            association,
            statuses: vec![(lease, Status::Ended(outcome.into()))],
        };
        self.leader.give(Input::Message(told));
    }

    fn done(&mut self, name: &str) {
        self.end(name, Outcome::Exited(0));
    }

    fn fails(&mut self, name: &str) {
        self.end(name, Outcome::Exited(1));
    }

    fn state(&self) -> (UniversalState, u32) {
        let head = self.leader.core.ledger().runs().head(R1).expect("known");
        assert_eq!(self.leader.kept.runs().head(R1), Some(head));
        (head.state, head.generation.0)
    }

    /// Another leader takes over from what a store would have.
    fn takeover(&mut self) {
        let kept = &self.leader.kept;
        let mut ended = Vec::new();
        let mut runs = Vec::new();
        for run in kept.runs().iter() {
            if run.head.state.is_terminal() {
                ended.push(run.head.clone());
            } else {
                runs.push(StoredRun {
                    head: run.head.clone(),
                    plan: Arc::clone(&run.dag.plan),
                    ended: all_ended(run),
                });
            }
        }
        let live = |it: &&Instance| !it.state.is_terminal();
        let parts = LedgerParts {
            instances: kept
                .instances()
                .map(|(_, it)| it)
                .filter(live)
                .cloned()
                .collect(),
            waiting: kept.waiting().collect(),
            known: kept.known().ranges().collect(),
            lease_time: kept.lease_time(),
            runs,
            ended_runs: ended,
            ..LedgerParts::default()
        };
        let mut ledger = Ledger::restore(parts).expect("what was kept fits");
        ledger.settle();
        for run in self.leader.core.ledger().runs().iter() {
            assert_eq!(ledger.runs().run(run.head.id), Some(run));
        }
        let epoch = Epoch(self.leader.core.epoch().0 + 1);
        let now = self.leader.clock();
        self.leader.core = Scheduler::new(Config::default(), epoch, ledger, now);
        self.leader.outbox = Outbox::new(epoch);
        let held: Vec<_> = self.leader.core.running().collect();
        self.worker.association = None;
        self.leader.welcome(&mut self.worker, &held);
    }
}

fn all_ended(run: &crate::ledger::Run) -> Vec<ItemResult> {
    use crate::workflow::ItemState as S;
    use baton_model::workflow::ItemEnd;
    let tasks = 0..u32::try_from(run.dag.plan.tasks.len()).expect("few");
    let mut ended = Vec::new();
    for task in tasks {
        for item in 0..run.progress.item_count(task) {
            let end = match run.progress.state(task, item) {
                Some(S::Done) => ItemEnd::Done,
                Some(S::Failed) => ItemEnd::Failed,
                Some(S::Halted) => ItemEnd::Halted,
                _ => continue,
            };
            ended.push(ItemResult {
                task,
                item,
                end,
                outputs: None,
            });
        }
    }
    ended
}

#[test]
fn a_task_names_the_limit_or_the_task_it_waits_for() {
    let mut team = Team::new();
    let mut plan = fork();
    plan.tasks[1].max_concurrent = Some(2);
    team.register(plan);
    let waits = |team: &Team| {
        let leader = &team.leader;
        let view = leader.core.run_view(R1, 0, 9, leader.clock());
        let tasks = view.expect("a live run").tasks.into_iter();
        tasks.map(|it| it.wait).collect::<Vec<_>>()
    };
    let text = |wait: &Option<Wait>| wait.as_ref().map(Wait::text);
    let texts: Vec<_> = waits(&team).iter().map(text).collect();
    let after = |task: &str| Some(format!("waits for {task}"));
    assert_eq!(texts, [None, after("a"), after("b")]);
    team.done("a");
    team.takeover();
    let held = waits(&team);
    let text = text(&held[1]).expect("an item of it waits");
    assert!(text.contains("2 of 2 instances of task b"), "{text}");
    let Some(WaitReason::Limit(reached)) = held[1].as_ref().map(|wait| &wait.reason) else {
        panic!("{held:?}");
    };
    let key = LimitKey::Run(R1, RunLimit::Task(1));
    assert_eq!(reached.key, key);
    let counted = team.leader.core.limit(&key);
    assert_eq!(counted, Some(Limit { total: 2, used: 2 }));
    team.done("b[0]");
    assert_eq!(waits(&team)[1], None, "all of its items have an instance");
}

#[test]
fn a_run_goes_from_registering_to_done_and_a_hop_is_one_step() {
    let mut team = Team::new();
    team.register(fork());
    assert_eq!(team.names(), ["a"]);
    assert_eq!(team.state().0, UniversalState::Launched);
    team.done("a");
    assert_eq!(team.names(), ["b[0]", "b[1]", "b[2]"]);
    assert_eq!(team.state().0, UniversalState::Running);
    for name in ["b[1]", "b[0]"] {
        team.done(name);
    }
    assert_eq!(team.names(), ["b[2]"]);
    team.done("b[2]");
    assert_eq!(team.names(), ["c"]);
    team.done("c");
    assert_eq!(team.state(), (UniversalState::Done, 1));
    let ledger = team.leader.core.ledger();
    assert!(
        ledger.runs().run(R1).is_none(),
        "nothing of it stays in memory"
    );
    assert!(ledger.is_settled());
}

#[test]
fn a_new_leader_goes_on_where_the_one_before_stood() {
    let mut team = Team::new();
    team.register(fork());
    team.takeover();
    assert_eq!(team.names(), ["a"]);
    team.done("a");
    team.done("b[1]");
    team.takeover();
    assert_eq!(team.names(), ["b[0]", "b[2]"]);
    team.done("b[0]");
    team.takeover();
    team.done("b[2]");
    team.takeover();
    assert_eq!(team.names(), ["c"]);
    team.done("c");
    assert_eq!(team.state().0, UniversalState::Done);
    team.takeover();
    assert!(team.names().is_empty());
}

#[test]
fn a_drained_run_lets_what_began_end_and_goes_on_with_the_rest() {
    let mut team = Team::new();
    team.register(fork());
    team.done("a");
    team.done("b[1]");
    assert_eq!(team.halt(HaltMode::Drain), Ok((R1, Generation(1))));
    assert_eq!(team.state().0, UniversalState::Running);
    assert!(
        matches!(team.resume(None), Err(RunError::State(..))),
        "it still runs"
    );
    team.done("b[0]");
    team.fails("b[2]");
    assert_eq!(team.state(), (UniversalState::Halted, 1));
    assert!(matches!(
        team.halt(HaltMode::Kill),
        Err(RunError::State(..))
    ));
    assert_eq!(team.resume(None), Ok((R1, Generation(2))));
    assert_eq!(team.names(), ["b[2]"], "what is DONE is not run again");
    team.done("b[2]");
    team.done("c");
    assert_eq!(team.state(), (UniversalState::Done, 2));
}

#[test]
fn a_killed_run_is_halted_when_its_last_instance_is_dead() {
    let mut team = Team::new();
    team.register(fork());
    team.done("a");
    team.halt(HaltMode::Kill).expect("it runs");
    assert_eq!(
        team.state().0,
        UniversalState::Running,
        "its instances may be alive"
    );
    let killed = Outcome::Killed(baton_model::outcome::KillCause::Requested);
    team.takeover();
    for name in ["b[0]", "b[1]"] {
        team.end(name, killed);
    }
    assert_eq!(team.state().0, UniversalState::Running);
    team.done("b[2]");
    assert_eq!(team.state(), (UniversalState::Halted, 1));
    team.takeover();
    team.resume(None).expect("it is halted");
    assert_eq!(team.names(), ["b[0]", "b[1]"]);
}

#[test]
fn what_waits_for_a_worker_is_halted_at_once() {
    let mut team = Team::new();
    let mut plan = fork();
    let spec = Arc::make_mut(&mut plan.tasks[1].spec);
    spec.request.resources.gpu = baton_model::device::DeviceAmount::whole(1);
    team.register(plan);
    team.done("a");
    assert!(team.names().is_empty());
    team.halt(HaltMode::Drain).expect("it runs");
    assert_eq!(team.state().0, UniversalState::Halted);
    team.resume(None).expect("it is halted");
    assert_eq!(team.state().0, UniversalState::Launched);
}

#[test]
fn of_two_resumes_one_is_carried_out() {
    let mut team = Team::new();
    team.register(fork());
    team.fails("a");
    assert_eq!(team.state(), (UniversalState::Failed, 1));
    let (first, second) = (team.stored(), team.stored());
    let command = |run| {
        RunCommand::Resume(Resume {
            run,
            plan: None,
            rerun: None,
            generation: None,
        })
    };
    assert_eq!(team.execute(command(first)), Ok((R1, Generation(2))));
    assert!(matches!(
        team.execute(command(second.clone())),
        Err(RunError::State(..))
    ));
    team.fails("a");
    // It is over again, but not as the second has seen it.
    assert_eq!(
        team.execute(command(second)),
        Err(RunError::Generation(R1, Generation(2)))
    );
    assert_eq!(team.state(), (UniversalState::Failed, 2));
    assert!(team.leader.core.ledger().is_settled());
}

#[test]
fn a_command_for_a_generation_that_is_over_changes_nothing() {
    let mut team = Team::new();
    team.register(fork());
    team.fails("a");
    team.resume(None).expect("it failed");
    let stale = team.execute(RunCommand::Halt {
        run: R1,
        mode: HaltMode::Kill,
        generation: Some(Generation(1)),
    });
    assert_eq!(stale, Err(RunError::Generation(R1, Generation(2))));
    assert_eq!(team.names(), ["a"]);
    let mut again = Resume {
        run: team.stored(),
        plan: None,
        rerun: None,
        generation: Some(Generation(1)),
    };
    assert!(team.execute(RunCommand::Resume(again.clone())).is_err());
    again.generation = None;
    assert!(team.execute(RunCommand::Resume(again)).is_err(), "it lives");
}

#[test]
fn another_plan_reruns_what_changed_and_everything_downstream() {
    let mut team = Team::new();
    let mut first = fork();
    first.tasks.push(task("d", &[0]));
    team.register(first.clone());
    team.done("a");
    for name in ["b[0]", "b[1]", "b[2]", "d"] {
        team.done(name);
    }
    team.fails("c");
    let mut second = first;
    let spec = Arc::make_mut(&mut second.tasks[3].spec);
    spec.work = Work::Command(vec!["other".to_owned()]);
    second.tasks.push(task("e", &[3]));
    assert_eq!(team.resume(Some(second)), Ok((R1, Generation(2))));
    assert_eq!(team.names(), ["c", "d"]);
    team.takeover();
    team.done("d");
    assert_eq!(team.names(), ["c", "e"]);
    team.done("c");
    team.done("e");
    assert_eq!(team.state(), (UniversalState::Done, 2));
    assert!(
        matches!(team.resume(None), Err(RunError::State(..))),
        "DONE is for ever"
    );
}

#[test]
fn a_task_is_rerun_by_name_and_an_unknown_name_changes_nothing() {
    let mut team = Team::new();
    team.register(fork());
    team.done("a");
    for name in ["b[0]", "b[1]", "b[2]"] {
        team.done(name);
    }
    team.fails("c");
    let command = |team: &Team, name: &str, downstream| {
        RunCommand::Resume(Resume {
            run: team.stored(),
            plan: None,
            rerun: Some((name.to_owned(), downstream)),
            generation: None,
        })
    };
    let none = command(&team, "x", false);
    assert_eq!(
        team.execute(none),
        Err(RunError::NoTask(R1, "x".to_owned()))
    );
    assert_eq!(team.state(), (UniversalState::Failed, 1));
    let again = command(&team, "a", false);
    team.execute(again).expect("it failed");
    assert_eq!(team.names(), ["a", "c"], "b is DONE, whatever becomes of a");
    team.fails("c");
    team.done("a");
    let again = command(&team, "a", true);
    team.execute(again).expect("it failed");
    assert_eq!(team.names(), ["a"]);
    team.done("a");
    assert_eq!(team.names(), ["b[0]", "b[1]", "b[2]"]);
}

#[test]
fn the_first_failure_stops_what_waits_and_spares_what_runs() {
    let mut team = Team::new();
    let mut plan = fork();
    plan.fail_fast = true;
    plan.tasks.insert(0, task("gpu", &[]));
    Arc::make_mut(&mut plan.tasks[0].spec).request.resources.gpu =
        baton_model::device::DeviceAmount::whole(1);
    for task in &mut plan.tasks[1..] {
        task.after.iter_mut().for_each(|it| it.task += 1);
    }
    team.register(plan);
    team.done("a");
    team.fails("b[1]");
    assert_eq!(team.names(), ["b[0]", "b[2]"]);
    assert!(
        team.leader.core.ledger().waiting().next().is_none(),
        "gpu waits no more"
    );
    team.done("b[0]");
    team.done("b[2]");
    assert_eq!(team.state(), (UniversalState::Failed, 1));
}

#[test]
fn a_failure_handler_is_retried_even_if_the_run_fails_fast() {
    let mut team = Team::new();
    let mut plan = plan(vec![task("a", &[]), task("tidy", &[0])]);
    plan.fail_fast = true;
    plan.tasks[1].after[0].condition = Condition::Failure;
    Arc::make_mut(&mut plan.tasks[1].spec).retry.failures_max = 1;
    team.register(plan);
    team.fails("a");
    assert_eq!(team.names(), ["tidy"]);
    team.fails("tidy");
    team.leader.give(Input::Tick);
    assert_eq!(team.names(), ["tidy"], "it has one more try");
    assert_eq!(team.state().0, UniversalState::Running);
    team.done("tidy");
    assert_eq!(team.state(), (UniversalState::Failed, 1));
}

#[test]
fn a_run_that_takes_too_long_is_killed_and_fails() {
    let mut team = Team::new();
    let mut plan = fork();
    plan.timeout = Some(Millis(10_000));
    team.register(plan);
    assert!(team.leader.core.next_due().is_some());
    team.takeover();
    team.leader.now += Millis(9_000);
    let worker = &mut team.worker;
    team.leader.heartbeat(worker, WorkerState::Healthy);
    team.leader.give(Input::Tick);
    assert_eq!(team.state().0, UniversalState::Running);
    team.leader.now += Millis(2_000);
    team.leader.give(Input::Tick);
    team.end(
        "a",
        Outcome::Killed(baton_model::outcome::KillCause::Requested),
    );
    assert_eq!(team.state(), (UniversalState::Failed, 1));
    team.resume(None).expect("it failed");
    assert_eq!(team.names(), ["a"], "and it has its time again");
}

#[test]
fn a_plan_may_come_in_parts_and_one_that_is_never_completed_is_aborted() {
    let mut team = Team::new();
    let part = |tasks| Arc::new(plan(tasks));
    let open = RunCommand::Register {
        plan: part(vec![task("a", &[])]),
        open: true,
        key: None,
    };
    assert_eq!(team.execute(open.clone()), Ok((R1, Generation(1))));
    assert_eq!(team.state().0, UniversalState::Registering);
    let extend = |tasks| RunCommand::Extend {
        run: R1,
        plan: part(tasks),
    };
    assert!(
        team.execute(extend(vec![task("a", &[])])).is_err(),
        "the name is taken"
    );
    team.execute(extend(vec![task("b", &[0])])).expect("more");
    team.takeover();
    assert!(team.names().is_empty());
    team.execute(RunCommand::Start(R1)).expect("complete");
    assert_eq!(team.names(), ["a"]);
    assert!(
        team.execute(extend(vec![task("c", &[0])])).is_err(),
        "too late"
    );
    team.done("a");
    team.done("b");
    assert_eq!(team.state().0, UniversalState::Done);

    assert_eq!(team.execute(open), Ok((RunId(2), Generation(1))));
    team.leader
        .wait(Millis(baton_model::limits::REGISTERING_MS_MAX));
    let head = team
        .leader
        .core
        .ledger()
        .runs()
        .head(RunId(2))
        .expect("known");
    assert_eq!(head.state, UniversalState::Aborted);
    assert!(team.execute(RunCommand::Start(RunId(2))).is_err());
}

#[test]
fn an_instance_of_a_run_is_tried_again_with_its_run_only() {
    let mut team = Team::new();
    team.register(fork());
    let (_, id) = team.running().remove(0);
    team.fails("a");
    let instance = team.leader.kept.find(InstanceId(id)).expect("kept");
    let effects = team.leader.give(Input::command(
        RequestId(99),
        Command::Retry(Box::new(instance)),
    ));
    let refused = Effect::Reply(RequestId(99), Reply::Retried(Err(RetryError::PartOfRun)));
    assert!(effects.contains(&refused), "{effects:?}");
}
