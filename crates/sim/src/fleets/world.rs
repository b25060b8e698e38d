//! Leaders, a store, time, and the course of a run: faults, then calm, then the removal of all fleets.

use std::collections::VecDeque;

use baton_core::bugs::Bugs;
use baton_core::ledger::Ledger;
use baton_core::scheduler::{Command, Config, Effect, FleetCommand, Input, Scheduler, Submission};
use baton_core::step::Batch;
use baton_model::fact::Fact;
use baton_model::fleet::FleetCall;
use baton_model::ids::{Epoch, RequestId, WorkerName};
use baton_model::message::{ToScheduler, ToWorker, WorkerAddress};
use baton_model::time::{Mono, Now, Wall};

use super::check::{Checker, violated};
use super::draw::{self, Faults, MINUTE, Plan};
use super::manager::Manager;
use crate::checkers::Violation;
use crate::leader::Leader;
use crate::rng::Rng;
use crate::time::{MILLI, Time};
use crate::trace::{Detail, Trace};

const STEP_MS: u64 = 1_000;

/// The part of a run with faults.
const FAULTY_MS: u64 = 60 * MINUTE;

/// How long everything may take when faults have ended: slow trials, and jobs that are given up only after their time.
const CALM_MS: u64 = 480 * MINUTE;

/// A call on its way to the manager.
#[derive(Debug)]
struct Call {
    due: u64,
    /// The term that hears the answer.
    epoch: Epoch,
    call: FleetCall,
}

/// One run.
#[derive(Debug)]
pub(super) struct World {
    pub(super) trace: Trace,
    pub(super) violation: Option<Violation>,
    rng: Rng,
    bugs: Bugs,
    now: u64,
    epoch: Epoch,
    durable: Ledger,
    leader: Option<Leader>,
    /// Batches stay in the queue of the store until then.
    slow_until: u64,
    faults: Faults,
    plans: Vec<Plan>,
    manager: Manager,
    calls: VecDeque<Call>,
    checker: Checker,
    requests: u64,
    outbound: VecDeque<(WorkerAddress, ToWorker)>,
}

impl World {
    pub(super) fn new(seed: u64, bugs: Bugs, detail: Detail) -> Self {
        let mut rng = Rng::new(seed);
        let plans = draw::fleets(&mut rng);
        let faults = Faults::draw(&mut rng);
        let mut manager = Manager::default();
        manager.draw_nodes(&mut rng, &faults);
        Self {
            trace: Trace::new(detail),
            violation: None,
            rng,
            bugs,
            now: 10_000_000,
            epoch: Epoch(0),
            durable: Ledger::default(),
            leader: None,
            slow_until: 0,
            faults,
            plans,
            manager,
            calls: VecDeque::new(),
            checker: Checker::default(),
            requests: 0,
            outbound: VecDeque::new(),
        }
    }

    pub(super) const fn elapsed(&self) -> Time {
        Time((self.now - 10_000_000) * MILLI)
    }

    pub(super) fn run(&mut self) {
        self.elect();
        for plan in self.plans.clone() {
            let (name, spec) = (plan.name, plan.spec);
            self.command(Command::Fleet(Box::new(FleetCommand::Define {
                name,
                spec,
                file: None,
            })));
        }
        let calm = self.now + FAULTY_MS;
        while self.now < calm && self.violation.is_none() {
            if self.rng.chance(3) {
                self.submit();
            }
            if self.now.is_multiple_of(MINUTE) && self.rng.chance(self.faults.leader) {
                self.replace_leader();
            }
            self.step();
        }
        self.faults = Faults::default();
        self.manager.draw_nodes(&mut self.rng, &self.faults.clone());
        self.until("stuck", CALM_MS, |world| world.durable.is_settled());
        // A leader that ends just after it has decided to cancel leaves that to the next.
        for plan in self.plans.clone() {
            let drain = self.rng.chance(300);
            let name = plan.name;
            self.command(Command::Fleet(Box::new(FleetCommand::Remove {
                name,
                drain,
                by_file: false,
            })));
        }
        self.step();
        if self.rng.chance(500) {
            self.replace_leader();
        }
        self.until("left-behind", CALM_MS, |world| {
            world.durable.fleets().is_empty() && !world.manager.jobs.iter().any(|it| it.is_alive())
        });
    }

    /// Goes on until something holds.
    fn until(&mut self, checker: &'static str, most: u64, holds: impl Fn(&Self) -> bool) {
        let end = self.now + most;
        while self.violation.is_none() && !holds(self) {
            if self.now >= end {
                let waits = self.durable.is_settled();
                let jobs: Vec<_> = self.durable.fleets().jobs().collect();
                let what = format!("settled: {waits}, open jobs: {jobs:?}");
                self.judge(violated(checker, what));
                return;
            }
            self.step();
        }
    }

    fn step(&mut self) {
        self.now += STEP_MS;
        let (now, faults) = (self.now, self.faults.clone());
        self.manager.advance(now, &mut self.rng, &faults);
        self.carry_out_calls();
        self.run_pilots();
        let core = self.leader.as_ref().map(Leader::core);
        let due = core.and_then(Scheduler::next_due);
        if due.is_some_and(|due| due.0 <= now) {
            self.feed(Input::Tick);
        }
        self.settle();
        let judged = Checker::state(now, &self.manager, &self.plans);
        self.judge(judged);
    }

    fn submit(&mut self) {
        let spec = draw::spec(&mut self.rng);
        let count = self.rng.within(1, 12);
        let submission = Submission {
            spec: Box::new((*spec).clone()),
            array: Some((count, 0)),
            more: Vec::new(),
            key: None,
        };
        let mark = None;
        self.command(Command::Submit { submission, mark });
    }

    fn command(&mut self, command: Command) {
        self.requests += 1;
        let request = RequestId(self.requests);
        self.slow_until = 0;
        self.feed(Input::command(request, command));
        self.settle();
    }

    const fn clock(&self) -> Now {
        Now {
            mono: Mono(self.now),
            wall: Wall(1_800_000_000_000 + self.now),
        }
    }

    fn feed(&mut self, input: Input) {
        let now = self.clock();
        let Some(leader) = &mut self.leader else {
            return;
        };
        let step = leader.decide(now, input);
        leader.accept(step);
    }

    /// Commits what may be committed, and carries out what follows, until nothing does.
    fn settle(&mut self) {
        if self.rng.chance(20) && self.faults.leader > 0 {
            self.slow_until = self.now + self.rng.within(1, 8) * 1_000;
        }
        loop {
            if self.slow_until <= self.now {
                self.commit_all();
            }
            let effects = self.leader.as_mut().map(Leader::take_ready);
            for effect in effects.unwrap_or_default() {
                match effect {
                    Effect::Send(to, message) => self.outbound.push_back((to, message)),
                    Effect::Fleet(call) => {
                        let due = self.now + self.rng.within(0, 20) * 1_000;
                        let epoch = self.epoch;
                        self.note(|| format!("call: {}", brief(&call)));
                        self.calls.push_back(Call { due, epoch, call });
                    }
                    Effect::Reply(..) | Effect::EpochOvertaken(..) | Effect::GrantSecrets(_) => {}
                }
            }
            let Some((to, message)) = self.outbound.pop_front() else {
                return;
            };
            let answers = self.deliver(&to, message);
            for answer in answers {
                self.feed(Input::Message(answer));
            }
        }
    }

    fn commit_all(&mut self) {
        while let Some(batch) = self.leader.as_mut().and_then(Leader::next_batch) {
            self.persist(&batch);
            if let Some(leader) = &mut self.leader {
                leader.release(batch.durable());
            }
        }
    }

    fn persist(&mut self, batch: &Batch<Fact>) {
        for fact in batch.facts() {
            self.note(|| format!("stored: {fact}"));
            let now = self.now;
            let judged = self.checker.fact(now, &self.manager, &self.durable, fact);
            self.judge(judged);
            if let Err(error) = self.durable.apply(fact) {
                self.judge(violated("contradiction", format!("{fact}: {error}")));
            }
        }
        self.durable.drop_all_ended();
    }

    fn carry_out_calls(&mut self) {
        let mut later = VecDeque::new();
        while let Some(call) = self.calls.pop_front() {
            if call.due > self.now {
                later.push_back(call);
                continue;
            }
            let judged = self.checker.call(&call.call);
            self.judge(judged);
            let (now, faults) = (self.now, self.faults.clone());
            let rng = &mut self.rng;
            let answer = self
                .manager
                .carry_out(now, rng, &faults, &self.plans, &call.call);
            self.note(|| format!("answer: {answer:?}"));
            self.checker.answer(&answer);
            if call.epoch == self.epoch {
                self.feed(Input::FleetAnswered(answer));
                self.settle();
            }
        }
        self.calls.append(&mut later);
    }

    fn run_pilots(&mut self) {
        let now = self.clock();
        let jobs = self.manager.jobs.iter_mut();
        let pilots = jobs
            .flat_map(|it| &mut it.pilots)
            .filter(|it| it.is_there());
        let messages: Vec<ToScheduler> = pilots.flat_map(|it| it.due(now)).collect();
        for message in messages {
            self.feed(Input::Message(message));
            self.settle();
        }
    }

    fn deliver(&mut self, to: &WorkerAddress, message: ToWorker) -> Vec<ToScheduler> {
        let now = self.clock();
        let is_it = |name: &WorkerName, it: &WorkerAddress| *name == it.worker;
        let jobs = self.manager.jobs.iter_mut();
        let mut pilots = jobs.flat_map(|it| &mut it.pilots);
        let pilot = pilots.find(|it| {
            let holder = &it.holder;
            it.is_there() && is_it(&holder.worker, to) && holder.incarnation == to.incarnation
        });
        let rng = &mut self.rng;
        pilot.map_or_else(Vec::new, |pilot| pilot.take(now, rng, message))
    }

    fn elect(&mut self) {
        self.epoch = Epoch(self.epoch.0 + 1);
        let config = Config {
            bugs: self.bugs,
            ..Config::default()
        };
        let core = Scheduler::new(config, self.epoch, self.durable.clone(), self.clock());
        self.leader = Some(Leader::new(core));
        let epoch = self.epoch;
        self.note(|| format!("{epoch} leads"));
    }

    /// The leader ends, perhaps with decisions that are not durable, and with calls that may or may not have left.
    fn replace_leader(&mut self) {
        self.note(|| "the leader ends".to_owned());
        self.leader = None;
        self.outbound.clear();
        let rng = &mut self.rng;
        self.calls.retain(|_| rng.chance(600));
        for _ in 0..self.rng.below(30) {
            self.step();
        }
        self.slow_until = 0;
        self.elect();
    }

    fn judge(&mut self, judged: Result<(), Violation>) {
        if let Err(violation) = judged {
            self.violation.get_or_insert(violation);
        }
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        let (at, now) = (self.elapsed(), self.now);
        self.trace.note(at, &now, what);
    }
}

/// A call without the definition of its fleet.
fn brief(call: &FleetCall) -> String {
    match call {
        FleetCall::Submit { name, excluded, .. } => format!("submit {name}, not on {excluded:?}"),
        FleetCall::List { fleet, .. } => format!("list {fleet}"),
        FleetCall::Token { fleet, until, .. } => format!("token of {fleet} until {until:?}"),
        FleetCall::Cancel { fleet, jobs, .. } => format!("cancel of {fleet}: {jobs:?}"),
    }
}
