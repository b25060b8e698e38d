//! A leader that drives runs step by step.
//!
//! It records the same facts about the run as a scheduler: each advance once.

use std::sync::Arc;

use baton_core::ledger::Run;
use baton_core::workflow::bind;
use baton_model::fact::Fact;
use baton_model::ids::{InstanceId, LeaseId, RunId};
use baton_model::outcome::{AttemptEnd, Outcome};
use baton_model::spec::{InstanceSpec, Work};
use baton_model::state::UniversalState;
use baton_model::time::Wall;
use baton_model::workflow::{
    CarriedItems, Condition, Edges, ItemEnd, ItemSpan, Items, Part, Plan, PlanTask, Upstream,
};
use baton_store::Store;
use baton_store::view::{ItemQuery, ItemRecord};

use crate::Open;
use crate::leading::{Leader, NOW, granted};

/// One term, and its current run.
pub(crate) struct Running {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) leader: Leader,
    pub(crate) run: RunId,
    /// The time of the next facts.
    pub(crate) at: Wall,
}

impl Running {
    pub(crate) fn new(open: Open<'_>) -> Self {
        let store = open();
        Self {
            leader: Leader::elect(&*store),
            store,
            run: RunId(0),
            at: NOW,
        }
    }

    /// A leader with a run of this plan.
    pub(crate) fn of(open: Open<'_>, plan: Plan) -> Self {
        let mut running = Self::new(open);
        running.register(plan);
        running
    }

    /// Another process takes over; it must find the state that this one has left.
    pub(crate) fn takeover(self, open: Open<'_>) -> Self {
        let left = self.leader.left();
        drop(self.store);
        let store = open();
        let leader = Leader::elect(&*store);
        assert_eq!(leader.ledger, left);
        Self {
            store,
            leader,
            run: self.run,
            at: self.at,
        }
    }

    /// Commits facts, and those that follow for the run.
    pub(crate) fn commit(&mut self, facts: Vec<Fact>) {
        self.leader.commit_at(&*self.store, self.at, facts);
        let runs = self.leader.ledger.runs().iter();
        let begun = runs.filter(|run| run.has_begun && run.head.state == UniversalState::Launched);
        let begun: Vec<_> = begun.map(|run| advanced(run.head.id, true)).collect();
        if !begun.is_empty() {
            self.leader.commit_at(&*self.store, self.at, begun);
        }
    }

    pub(crate) fn register(&mut self, plan: Plan) -> RunId {
        self.run = self.leader.ledger.runs().last().next();
        self.commit(vec![registered(self.run, self.at, plan, false)]);
        self.run
    }

    pub(crate) fn live(&self) -> &Run {
        let run = self.leader.ledger.runs().run(self.run);
        run.expect("the run is not over")
    }

    /// Submits the instance of an item.
    pub(crate) fn begin(&mut self, task: u32, item: u32) -> InstanceId {
        let run = self.live();
        let part = Part {
            run: self.run,
            generation: run.head.generation,
            task,
            item,
        };
        let spec = bind::spec(&run.dag, &run.progress, part);
        let first = run.head.state == UniversalState::Queued;
        let last = self.leader.ledger.known().last();
        let id = last.map_or(InstanceId(1), InstanceId::next);
        let mut facts = vec![Fact::InstancesSubmitted {
            first: id,
            last: id,
            spec: Arc::new(spec),
        }];
        facts.extend(first.then(|| advanced(self.run, false)));
        self.commit(facts);
        id
    }

    pub(crate) fn lease(&mut self, id: InstanceId) -> LeaseId {
        let lease = self.leader.ledger.next_lease(id, self.leader.epoch);
        self.commit(vec![granted(lease), Fact::AttemptConfirmed { lease }]);
        lease
    }

    /// Ends the leased attempt, with the verdict that follows.
    pub(crate) fn end(&mut self, id: InstanceId, end: AttemptEnd, outputs: Option<&str>) {
        let instance = self.leader.ledger.find(id).expect("it lives");
        let lease = instance.lease.as_ref().expect("it is leased").id;
        self.commit(vec![Fact::AttemptEnded {
            lease,
            end,
            verdict: instance.verdict(end),
            stats: None,
            next_attempt: None,
            outputs: outputs.map(Arc::from),
            stderr_tail: None,
            progress: None,
        }]);
    }

    /// One attempt, from its lease on.
    pub(crate) fn attempt(&mut self, id: InstanceId, code: i32, outputs: Option<&str>) {
        self.lease(id);
        self.end(id, AttemptEnd::Real(Outcome::Exited(code)), outputs);
    }

    pub(crate) fn done(&mut self, task: u32, item: u32, outputs: Option<&str>) -> InstanceId {
        let id = self.begin(task, item);
        self.attempt(id, 0, outputs);
        id
    }

    pub(crate) fn fails(&mut self, task: u32, item: u32) -> InstanceId {
        let id = self.begin(task, item);
        self.attempt(id, 1, None);
        id
    }

    /// Ends the run; like a scheduler, it then keeps only the run's head.
    pub(crate) fn over(&mut self, state: UniversalState) {
        let generation = self.live().head.generation;
        self.commit(vec![Fact::RunEnded {
            run: self.run,
            generation,
            state,
        }]);
        self.leader.ledger.runs_mut().drop_ended(self.run);
    }

    /// Starts the next generation, from the stored run.
    pub(crate) fn resume(
        &mut self,
        plan: Option<Plan>,
        carried: Vec<CarriedItems>,
        again: Vec<ItemSpan>,
    ) {
        let stored = self.store.stored_run(self.run).expect("readable");
        let stored = stored.expect("it is stored");
        let generation = stored.head.generation.next();
        let admitted = self.leader.ledger.runs_mut().admit(stored);
        admitted.expect("it is stored as the leader left it");
        self.commit(vec![Fact::RunResumed {
            run: self.run,
            generation,
            at: self.at,
            plan: plan.map(Arc::new),
            carried,
            rerun: again,
        }]);
    }

    /// Query for a page of items.
    pub(crate) fn query(&self) -> ItemQuery {
        ItemQuery {
            run: self.run,
            task: None,
            end: None,
            after: None,
            limit: 1_000,
        }
    }

    pub(crate) fn items(&self) -> Vec<ItemRecord> {
        let page = self.store.run_items(&self.query()).expect("readable");
        assert_eq!(page.next, None);
        page.items
    }

    /// The ended items, and their ends.
    pub(crate) fn ends(&self) -> Vec<(u32, u32, ItemEnd)> {
        let items = self.items().into_iter();
        items.map(|it| (it.task, it.item, it.end)).collect()
    }
}

pub(crate) fn registered(run: RunId, at: Wall, plan: Plan, open: bool) -> Fact {
    Fact::RunRegistered {
        run,
        at,
        plan: Arc::new(plan),
        open,
        origin: None,
    }
}

/// The fact that a run is LAUNCHED (false) or RUNNING (true).
pub(crate) fn advanced(run: RunId, running: bool) -> Fact {
    let to = if running {
        UniversalState::Running
    } else {
        UniversalState::Launched
    };
    Fact::RunAdvanced { run, to, at: None }
}

/// A task of one item, downstream of others.
pub(crate) fn task(name: &str, after: &[u32]) -> PlanTask {
    let edge = |task: &u32| Upstream {
        task: *task,
        condition: Condition::Success,
        edges: Edges::All,
    };
    PlanTask {
        name: name.to_owned(),
        spec: Arc::new(InstanceSpec {
            owner: "lab".to_owned(),
            work: Work::Command(vec![name.to_owned()]),
            ..InstanceSpec::default()
        }),
        after: after.iter().map(edge).collect(),
        ..PlanTask::default()
    }
}

/// A task of many items, downstream of others. Each may fail once.
pub(crate) fn many(name: &str, after: &[u32], count: u32) -> PlanTask {
    let mut many = task(name, after);
    many.items = Items::Range {
        first: 0,
        step: 1,
        count,
    };
    Arc::make_mut(&mut many.spec).retry.failures_max = 1;
    many
}

/// A task with an item for each file that another task lists.
pub(crate) fn mapped(name: &str, from: u32) -> PlanTask {
    let mut mapped = task(name, &[from]);
    mapped.items = Items::Output {
        task: from,
        key: "files".to_owned(),
    };
    mapped
}

pub(crate) fn plan(tasks: Vec<PlanTask>) -> Plan {
    Plan {
        name: "etl".to_owned(),
        owner: "lab".to_owned(),
        params: [("day".to_owned(), "ü \"1\"".to_owned())].into(),
        tasks,
        ..Plan::default()
    }
}
