//! Tests of the plan. The [`Rig`] is a runner without a host: it writes the log
//! before it looks at the orders, and holds the replayed log against the live plan
//! after every single input.

mod conditions;
mod daemons;
mod definition;
mod endings;
mod failures;
mod finalization;
mod known_defects;
mod losses;
mod order;
mod random;
mod recovery;
mod timing;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_model::ids::Epoch;
use baton_model::outcome::{KillCause, Outcome};
use baton_model::state::{AttemptState, ProcessState};
use baton_model::task::{
    Check, CommandLine, Condition, Dependency, PlanEvent, Probe, ProcessName, ProcessNo,
    ProcessProgress, ProcessSpec, Resources, RunNo, TaskSpec,
};
use baton_model::time::{Millis, Mono, Now, Wall};

use super::{Input, Order, Plan, Wait};
use crate::step::Outbox;

/// Wall time runs ahead by this much, so that the two are never mixed up.
const WALL_AHEAD: u64 = 1_000_000;

fn now(mono: u64) -> Now {
    Now {
        mono: Mono(mono),
        wall: Wall(mono + WALL_AHEAD),
    }
}

/// A process that may be run again at once.
fn process(name: &str) -> ProcessSpec {
    let mut process = ProcessSpec::new(name, CommandLine::Shell("true".to_owned()));
    process.min_duration = Millis(0);
    process
}

/// The same, which waits for the success of others.
fn after(name: &str, others: &[&str]) -> ProcessSpec {
    let mut process = process(name);
    process.after = others
        .iter()
        .map(|name| on(name, Condition::Success))
        .collect();
    process
}

/// The same, which runs at the end.
fn last(name: &str, others: &[&str]) -> ProcessSpec {
    let mut process = after(name, others);
    process.is_final = true;
    process
}

fn on(name: &str, condition: Condition) -> Dependency {
    Dependency {
        process: ProcessName(name.to_owned()),
        condition,
    }
}

fn check() -> Check {
    Check {
        probe: Probe::Tcp { port: 1 },
        delay: Millis(0),
        interval: Millis(1_000),
        timeout: Millis(1_000),
        successes_min: 1,
        failures_max: 1,
    }
}

fn task(processes: Vec<ProcessSpec>) -> TaskSpec {
    TaskSpec {
        name: "test".to_owned(),
        owner: None,
        processes,
        max_failures: 1,
        max_concurrency: 0,
        finalization_wait: Millis(30_000),
        user: None,
        resources: Resources::default(),
        ports: BTreeMap::new(),
    }
}

/// A runner without a host.
struct Rig {
    spec: Arc<TaskSpec>,
    plan: Plan,
    outbox: Outbox<Order>,
    log: Vec<PlanEvent>,
    now: u64,
    /// Orders not yet looked at.
    orders: Vec<Order>,
}

/// Either way of making sure that no process of the task is left.
fn is_kill(order: Order) -> bool {
    matches!(order, Order::KillEverything | Order::KillLeftovers { .. })
}

impl Rig {
    /// A plan at time 1000, and its first tick.
    fn new(spec: TaskSpec) -> Self {
        let spec = Arc::new(spec);
        let plan = Plan::new(Arc::clone(&spec), now(1_000)).unwrap();
        let mut rig = Self {
            spec,
            plan,
            outbox: Outbox::new(Epoch(1)),
            log: Vec::new(),
            now: 1_000,
            orders: Vec::new(),
        };
        rig.feed(Input::Tick);
        rig
    }

    fn feed(&mut self, input: Input) {
        let step = self.plan.handle(now(self.now), input);
        if let Some(batch) = self.outbox.accept(step) {
            self.log.extend_from_slice(batch.facts());
            self.outbox.release(batch.durable());
        }
        self.orders.extend(self.outbox.drain());
        let replayed = self.replayed();
        assert_eq!(replayed.fold, self.plan.fold, "after {input:?}");
        let restored = Plan::from_snapshot(Arc::clone(&self.spec), self.plan.snapshot()).unwrap();
        assert_eq!(restored.fold, self.plan.fold, "after {input:?}");
    }

    /// What the log adds up to.
    fn replayed(&self) -> Plan {
        let mut plan = Plan::new(Arc::clone(&self.spec), now(1_000)).unwrap();
        for event in &self.log {
            plan.apply(event).unwrap();
        }
        plan
    }

    /// The runner dies and another takes over, at the same boot.
    fn crash_and_resume(&mut self) {
        self.crash();
        self.feed(Input::Resumed {
            boot_changed: false,
        });
    }

    fn crash(&mut self) {
        self.plan = self.replayed();
        self.outbox = Outbox::new(Epoch(1));
        self.orders.clear();
    }

    fn no(&self, name: &str) -> ProcessNo {
        self.plan.find(&ProcessName(name.to_owned())).unwrap()
    }

    fn at(&self, name: &str) -> &ProcessProgress {
        self.plan.process(self.no(name)).unwrap()
    }

    fn live(&self, name: &str) -> (ProcessNo, RunNo) {
        (self.no(name), self.at(name).live.unwrap().run)
    }

    fn wait(&self, name: &str) -> Option<Wait> {
        self.plan.wait(self.no(name), now(self.now))
    }

    /// The state of a process as a view has it.
    fn shown(&self, name: &str) -> ProcessState {
        let mut views = self.plan.processes(now(self.now));
        let view = views.find(|view| view.spec.name.0 == name);
        view.expect("a process of the task").state
    }

    fn name(&self, no: ProcessNo) -> &str {
        &self.spec.processes[no.index()].name.0
    }

    /// The names in the launch orders since the last look, in order.
    fn launched(&mut self) -> Vec<String> {
        let orders = self.taken();
        orders
            .iter()
            .filter_map(|order| match order {
                Order::Launch { process, .. } => Some(self.name(*process).to_owned()),
                _ => None,
            })
            .collect()
    }

    /// The orders since the last look.
    fn taken(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.orders)
    }

    fn start(&mut self, name: &str) {
        let (process, run) = self.live(name);
        self.feed(Input::Started {
            process,
            run,
            at: now(self.now),
            identity: None,
        });
    }

    fn end(&mut self, name: &str, outcome: Outcome) {
        let (process, run) = self.live(name);
        self.feed(Input::Exited {
            process,
            run,
            at: now(self.now),
            outcome,
            random: 0,
        });
    }

    /// Starts it if need be, and lets it exit.
    fn exit(&mut self, name: &str, code: i32) {
        if self.at(name).live.unwrap().started.is_none() {
            self.start(name);
        }
        self.end(name, Outcome::Exited(code));
    }

    fn killed(&mut self, name: &str) {
        self.end(name, Outcome::Killed(KillCause::Requested));
    }

    fn lose(&mut self, name: &str) {
        let (process, run) = self.live(name);
        self.feed(Input::Lost { process, run });
    }

    fn launch_failed(&mut self, name: &str) {
        let (process, run) = self.live(name);
        self.feed(Input::LaunchFailed {
            process,
            run,
            at: now(self.now),
            random: 0,
        });
    }

    fn advance(&mut self, ms: u64) {
        self.now += ms;
        self.feed(Input::Tick);
    }

    fn state(&self) -> AttemptState {
        self.plan.state()
    }

    /// The order that ends it was given, and it is the last word.
    #[track_caller]
    fn assert_finished(&mut self, state: AttemptState) {
        assert_eq!(self.state(), state);
        assert_eq!(self.plan.outcome(), Some(state));
        assert_eq!(self.plan.live().count(), 0);
        assert_eq!(self.plan.next_due(), None);
        let orders = self.taken();
        let end = orders.len().saturating_sub(2);
        let [kill, Order::Finish(told)] = orders[end..] else {
            panic!("the end is told last: {orders:?}");
        };
        assert!(is_kill(kill), "nothing is left over: {kill:?}");
        assert_eq!(told, state);
    }

    #[track_caller]
    fn assert_state(&self, name: &str, state: ProcessState) {
        assert_eq!(self.at(name).state, state, "{name}");
    }

    /// Runs everything to the end: each run exits with what `code` says of (name,
    /// run), one after the other. Answers the names in the order of their launch.
    fn run_all(&mut self, code: impl Fn(&str, u64) -> i32) -> Vec<String> {
        let mut launched = self.launched();
        for _ in 0..10_000 {
            if self.plan.outcome().is_some() {
                return launched;
            }
            let first = self.plan.live().map(|(no, live)| (no, live.run)).next();
            match (first, self.plan.next_due()) {
                (Some((no, run)), _) => {
                    let name = self.name(no).to_owned();
                    self.now += 10;
                    self.exit(&name, code(&name, run.0));
                }
                (None, Some(due)) => {
                    self.now = due.0;
                    self.feed(Input::Tick);
                }
                (None, None) => panic!("stuck: {:?}", self.plan.snapshot()),
            }
            let end = self.orders.clone();
            launched.extend(self.launched());
            self.orders = end;
            if self.plan.outcome().is_none() {
                self.orders.clear();
            }
        }
        panic!("endless: {:?}", self.plan.snapshot())
    }
}

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|&name| name.to_owned()).collect()
}
