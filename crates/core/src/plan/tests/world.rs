//! A coordinator and a host made of nothing, with chance and faults, that watch
//! what the plan has them do.
//!
//! It keeps what a real one keeps: a report stays until the plan has durably taken
//! it, and an order about a run that it has seen before does nothing. Crashes cut
//! the log anywhere, also within a step, and lose the orders of that step.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::*;
use crate::step::Step;
use baton_model::task::Disposition;
use baton_testing::Rng;

#[derive(Clone, Copy, Debug)]
struct Child {
    run: RunNo,
    started: bool,
    stopping: bool,
    checked: bool,
}

pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) spec: Arc<TaskSpec>,
    pub(super) plan: Plan,
    pub(super) finished: Option<AttemptState>,
    /// Follows the log record by record.
    shadow: Plan,
    log: Vec<PlanEvent>,
    outbox: Outbox<Order>,
    now: u64,
    children: BTreeMap<ProcessNo, Child>,
    reports: VecDeque<Input>,
    launched: BTreeSet<(ProcessNo, RunNo)>,
    started: BTreeSet<ProcessNo>,
    ready: BTreeSet<ProcessNo>,
    succeeded: BTreeSet<ProcessNo>,
}

impl World {
    pub(super) fn new(seed: u64, spec: TaskSpec) -> Self {
        let spec = Arc::new(spec);
        let plan = Plan::new(Arc::clone(&spec), now(1_000)).unwrap();
        Self {
            rng: Rng::new(seed),
            shadow: plan.clone(),
            plan,
            spec,
            finished: None,
            log: Vec::new(),
            outbox: Outbox::new(Epoch(1)),
            now: 1_000,
            children: BTreeMap::new(),
            reports: VecDeque::new(),
            launched: BTreeSet::new(),
            started: BTreeSet::new(),
            ready: BTreeSet::new(),
            succeeded: BTreeSet::new(),
        }
    }

    /// One whole step: log, then orders.
    pub(super) fn feed(&mut self, input: Input) {
        let step = self.plan.handle(now(self.now), input);
        self.append(step.facts());
        assert_eq!(self.shadow.fold, self.plan.fold, "after {input:?}");
        if let Some(batch) = self.outbox.accept(step) {
            self.outbox.release(batch.durable());
        }
        let orders: Vec<Order> = self.outbox.drain().collect();
        for order in orders {
            self.obey(order);
        }
        self.check();
    }

    /// A step of which only the beginning reaches the log, and then the end of the
    /// runner.
    pub(super) fn feed_and_crash(&mut self, input: Input) {
        let step: Step<PlanEvent, Order> = self.plan.handle(now(self.now), input);
        let kept = self.rng.below(step.facts().len() as u64 + 1) as usize;
        self.append(&step.facts()[..kept]);
        self.recover(false);
    }

    /// Another life of the runner.
    pub(super) fn recover(&mut self, boot_changed: bool) {
        let mut plan = Plan::new(Arc::clone(&self.spec), now(1_000)).unwrap();
        for event in &self.log {
            plan.apply(event).unwrap();
        }
        assert_eq!(plan.fold, self.shadow.fold);
        if self.rng.chance(50) {
            plan = Plan::from_snapshot(Arc::clone(&self.spec), plan.snapshot()).unwrap();
        }
        self.plan = plan;
        self.outbox = Outbox::new(Epoch(1));
        if boot_changed {
            self.children.clear();
            self.now = self.rng.below(1_000);
        }
        while !self.reports.is_empty() {
            self.deliver();
        }
        self.feed(Input::Resumed { boot_changed });
    }

    /// The plan takes the oldest report.
    pub(super) fn deliver(&mut self) {
        if let Some(report) = self.reports.front().copied() {
            if self.rng.chance(10) {
                self.feed(report);
            }
            self.feed(report);
            self.reports.pop_front();
        }
    }

    /// The oldest report meets a crash, and stays.
    pub(super) fn deliver_and_crash(&mut self) {
        let input = self.reports.front().copied().unwrap_or(Input::Tick);
        self.feed_and_crash(input);
    }

    /// Some time, or, if `leap`, perhaps all until something is due.
    pub(super) fn pass_time(&mut self, leap: bool) {
        match self.plan.next_due() {
            Some(due) if leap && self.rng.chance(60) => self.now = self.now.max(due.0),
            _ => self.now += self.rng.below(300),
        }
        self.feed(Input::Tick);
    }

    /// True if only time can move anything.
    pub(super) fn is_idle(&self) -> bool {
        self.children.is_empty() && self.reports.is_empty()
    }

    /// Something happens to a child. `kindly`: it does what it should.
    pub(super) fn happen(&mut self, kindly: bool) {
        let count = self.children.len() as u64;
        let index = self.rng.below(count) as usize;
        let Some((&process, &child)) = self.children.iter().nth(index) else {
            return;
        };
        let run = child.run;
        if !kindly && self.rng.chance(5) {
            // The outcome is unknown.
            return self.reports.push_back(Input::Lost { process, run });
        }
        if !child.started {
            return self.child_starts(process, run, kindly);
        }
        if child.checked && self.rng.chance(40) {
            let well = kindly || self.rng.chance(70);
            self.reports.push_back(if well {
                self.ready.insert(process);
                Input::Ready { process, run }
            } else {
                Input::Unhealthy { process, run }
            });
            return;
        }
        let outcome = match self.rng.below(if kindly { 1 } else { 5 }) {
            _ if child.stopping => Outcome::Killed(KillCause::Requested),
            0 | 1 => Outcome::Exited(0),
            2 => Outcome::Exited(1),
            3 => Outcome::Signaled(11),
            _ => Outcome::Killed(KillCause::Requested),
        };
        self.child_ends(process, run, outcome);
    }

    fn child_starts(&mut self, process: ProcessNo, run: RunNo, kindly: bool) {
        let at = now(self.now);
        if !kindly && self.rng.chance(10) {
            self.children.remove(&process);
            let random = self.rng.next();
            self.reports.push_back(Input::LaunchFailed {
                process,
                run,
                at,
                random,
            });
            return;
        }
        self.started.insert(process);
        if let Some(child) = self.children.get_mut(&process) {
            child.started = true;
        }
        self.reports.push_back(Input::Started {
            process,
            run,
            at,
            identity: None,
        });
    }

    fn child_ends(&mut self, process: ProcessNo, run: RunNo, outcome: Outcome) {
        self.children.remove(&process);
        self.started.insert(process);
        if outcome.is_success() {
            self.succeeded.insert(process);
        }
        let random = self.rng.next();
        self.reports.push_back(Input::Exited {
            process,
            run,
            at: now(self.now),
            outcome,
            random,
        });
    }

    fn append(&mut self, events: &[PlanEvent]) {
        for event in events {
            self.shadow.apply(event).unwrap();
            let snapshot = self.shadow.snapshot();
            let rebuilt = Plan::from_snapshot(Arc::clone(&self.spec), snapshot).unwrap();
            assert_eq!(rebuilt.fold, self.shadow.fold, "derived after {event:?}");
        }
        self.log.extend_from_slice(events);
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Launch { process, run } => self.launch(process, run),
            Order::Stop { process, run, .. } => {
                if let Some(child) = self.child(process, run) {
                    child.stopping = true;
                } else if !self.launched.contains(&(process, run)) {
                    self.reports.push_back(Input::Lost { process, run });
                }
            }
            Order::KillRun { process, run } => {
                if self.child(process, run).is_some() {
                    self.children.remove(&process);
                }
            }
            Order::KillEverything | Order::KillLeftovers { .. } => {
                for (process, child) in std::mem::take(&mut self.children) {
                    self.child_ends(process, child.run, Outcome::Killed(KillCause::Requested));
                }
                // A launch that was never heard of will not happen any more.
                for (process, live) in self.plan.live() {
                    if !self.launched.contains(&(process, live.run)) && live.stopping.is_some() {
                        let run = live.run;
                        self.reports.push_back(Input::Lost { process, run });
                    }
                }
            }
            Order::StartChecks { process, run } => {
                if let Some(child) = self.child(process, run) {
                    child.checked = true;
                }
            }
            Order::StopChecks { process, run } => {
                if let Some(child) = self.child(process, run) {
                    child.checked = false;
                }
            }
            Order::Finish(state) => {
                assert!(self.children.is_empty(), "{:?}", self.children);
                assert_eq!(self.plan.outcome(), Some(state));
                self.finished = Some(state);
            }
        }
    }

    fn child(&mut self, process: ProcessNo, run: RunNo) -> Option<&mut Child> {
        self.children
            .get_mut(&process)
            .filter(|child| child.run == run)
    }

    fn launch(&mut self, process: ProcessNo, run: RunNo) {
        if !self.launched.insert((process, run)) {
            return;
        }
        assert_eq!(self.finished, None, "a launch after the end");
        let child = Child {
            run,
            started: false,
            stopping: false,
            checked: false,
        };
        let earlier = self.children.insert(process, child);
        assert!(earlier.is_none(), "two runs of {process} at once");
        let spec = &self.spec.processes[process.index()];
        for dependency in &spec.after {
            let other = self.plan.find(&dependency.process).unwrap();
            assert!(
                self.is_met(other, dependency.condition),
                "{process} before {other} was {:?}",
                dependency.condition
            );
        }
        let running = self.children.keys();
        let same = running.filter(|no| self.spec.processes[no.index()].is_final == spec.is_final);
        let same = same.count();
        assert!(!spec.is_final || same == self.children.len(), "mixed plans");
        let limit = self.spec.max_concurrency as usize;
        assert!(limit == 0 || same <= limit, "{same} of {limit} at once");
    }

    fn is_met(&self, other: ProcessNo, condition: Condition) -> bool {
        let spec = &self.spec.processes[other.index()];
        let fate = self.plan.process(other).unwrap().disposition;
        match condition {
            Condition::Success => spec.ephemeral || self.succeeded.contains(&other),
            Condition::Exit => matches!(fate, Disposition::Finished | Disposition::Failed),
            Condition::Started => self.started.contains(&other),
            Condition::Healthy if spec.ready.is_some() => self.ready.contains(&other),
            Condition::Healthy => self.started.contains(&other),
        }
    }

    /// What must hold after every step.
    fn check(&self) {
        let limit = self.spec.max_concurrency as usize;
        let live = self.plan.live().count();
        assert!(limit == 0 || live <= limit);
        if self.plan.outcome().is_some() {
            assert_eq!(live, 0);
            assert_eq!(self.plan.next_due(), None);
        }
        if let Some(due) = self.plan.next_due() {
            let last = self.plan.snapshot().at.mono;
            assert!(due > last, "due again at once: {due}, decided at {last}");
        }
        self.check_verdict();
    }

    /// The verdict, worked out again from what has become of the processes.
    fn check_verdict(&self) {
        if self.plan.state() != AttemptState::Success {
            return;
        }
        let mut failed = 0;
        for view in self.plan.processes(now(self.now)) {
            if view.spec.is_final || view.spec.ephemeral {
                continue;
            }
            match view.progress.disposition {
                Disposition::Finished => {}
                Disposition::Failed => failed += 1,
                other => panic!("success with {} {other:?}", view.spec.name),
            }
        }
        let limit = self.spec.max_failures;
        assert!(limit == 0 || failed < limit);
    }
}
