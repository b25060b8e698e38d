//! What follows from an end: who may begin now, and who never can.

use baton_model::limits::{RUN_ITEMS_MAX, TASK_FILLED_BYTES_MAX};
use baton_model::workflow::{Edges, Items, PlanTask};
use serde_json::Value;

use super::bars::{Bar, Bars, bars, gate};
use super::{ItemState, Progress, Tally};
use crate::workflow::graph::DownEdges;
use crate::workflow::{Dag, items};

/// Items that are named with why they could not begin; more are only counted.
const PROBLEMS_MAX: usize = 100;

/// Instances of a task that may be on their way at once, however much their texts have grown.
const FILLED_MIN: usize = 16;

/// One task of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct TaskProgress {
    /// Its items are known. Until then it has one that stands for all of them.
    pub(super) mapped: bool,
    pub(super) states: Vec<ItemState>,
    /// Edges item by item that are not settled; empty if it has none.
    open: Vec<u32>,
    bars: Vec<Bars>,
    /// Edges from whole tasks that are not settled.
    gates: u32,
    own: Bars,
    pub(super) tally: Tally,
}

/// Ends that have to be settled.
pub(super) type Work = Vec<(u32, u32, ItemState)>;

impl Progress {
    /// Lets those begin that come after nothing.
    pub(super) fn begin(&mut self, dag: &Dag) {
        let tasks = self.tasks.iter().zip(0_u32..);
        let first: Vec<_> = tasks
            .filter(|(own, _)| own.gates == 0)
            .map(|(_, at)| at)
            .collect();
        let mut work = Work::new();
        for task in first {
            self.enter(dag, task, &mut work);
        }
        self.settle(dag, work, false);
    }

    /// Settles ends, and whatever follows from them; with `closes`, also from the first
    /// failure of a run that shall fail fast.
    pub(super) fn settle(&mut self, dag: &Dag, mut work: Work, closes: bool) {
        while let Some((task, item, state)) = work.pop() {
            let Some(before) = self.state(task, item) else {
                continue;
            };
            if before.is_settled() {
                continue;
            }
            if before == ItemState::Live {
                self.live.remove(&(task, item));
            }
            self.set(dag, task, item, state);
            self.release(dag, task, item, state, &mut work);
            let own = &self.tasks[task as usize];
            if own.tally.settled() == own.tally.all() {
                self.complete(dag, task, &mut work);
            }
            if closes && work.is_empty() {
                work = self.closing(dag);
            }
        }
    }

    /// Tells those that wait for this item.
    fn release(&mut self, dag: &Dag, task: u32, item: u32, state: ItemState, work: &mut Work) {
        for down in dag.graph.downstream(task) {
            let bars = bars(down, state);
            match &down.edges {
                DownEdges::All => {}
                DownEdges::Same => self.edge(dag, down.task, item, bars, work),
                DownEdges::Lists(lists) => {
                    for waiting in lists.of(item) {
                        self.edge(dag, down.task, *waiting, bars, work);
                    }
                }
            }
        }
    }

    /// One edge of an item is settled.
    fn edge(&mut self, dag: &Dag, task: u32, item: u32, bars: Bars, work: &mut Work) {
        let own = &mut self.tasks[task as usize];
        let at = item as usize;
        own.open[at] -= 1;
        own.bars[at] = own.bars[at].and(bars);
        if own.open[at] == 0 && own.gates == 0 {
            self.arrive(dag, task, item, work);
        }
    }

    /// All items of a task are over: tells those that wait for all of them.
    fn complete(&mut self, dag: &Dag, task: u32, work: &mut Work) {
        self.join(dag, task);
        let own = &self.tasks[task as usize];
        let (tally, bar) = (own.tally, own.own.bar());
        for down in dag.graph.downstream(task) {
            if down.edges != DownEdges::All {
                continue;
            }
            let own = &mut self.tasks[down.task as usize];
            own.gates -= 1;
            own.own = own.own.and(gate(down, &tally, bar));
            if own.gates == 0 {
                self.enter(dag, down.task, work);
            }
        }
    }

    /// Nothing bars or keeps the task as a whole any more: looks at each item.
    fn enter(&mut self, dag: &Dag, task: u32, work: &mut Work) {
        if !self.tasks[task as usize].mapped && !self.map(dag, task, work) {
            return;
        }
        if let Some(limit) = TASK_FILLED_BYTES_MAX.checked_div(self.filled_bytes(dag, task)) {
            let limit = u32::try_from(limit.max(FILLED_MIN)).unwrap_or(u32::MAX);
            self.lanes.narrow(task, limit);
        }
        let own = &self.tasks[task as usize];
        if own.states.is_empty() {
            self.complete(dag, task, work);
            return;
        }
        let free: Vec<u32> = (0..u32::try_from(own.states.len()).unwrap_or(u32::MAX))
            .filter(|item| own.open.get(*item as usize).is_none_or(|open| *open == 0))
            .collect();
        for item in free {
            self.arrive(dag, task, item, work);
        }
    }

    /// Finds out which items a task has. False if it cannot have any.
    fn map(&mut self, dag: &Dag, task: u32, work: &mut Work) -> bool {
        let own = &dag.plan.tasks[task as usize];
        let Items::Output { task: from, key } = &own.items else {
            return true;
        };
        if self.tasks[task as usize].own.bar() != Bar::None {
            self.arrive(dag, task, 0, work);
            return false;
        }
        match self.assign(dag, task, *from, key) {
            Ok(()) => true,
            Err(why) => {
                self.fail(task, 0, why, work);
                false
            }
        }
    }

    /// Gives a task the items that another has put out. How many there may be does not depend on
    /// what else has been put out by then: a leader that takes over may learn it in another order.
    pub(super) fn assign(
        &mut self,
        dag: &Dag,
        task: u32,
        from: u32,
        key: &str,
    ) -> Result<(), String> {
        let list = self.listed(dag, from, key)?;
        let count = u32::try_from(list.len()).ok();
        let count = count.filter(|it| u64::from(*it) <= RUN_ITEMS_MAX);
        let count =
            count.ok_or_else(|| format!("it would have more than {RUN_ITEMS_MAX} items"))?;
        let texts = list.iter().map(Value::to_string);
        self.lists.insert(task, texts.collect());
        let progress = &mut self.tasks[task as usize];
        progress.mapped = true;
        progress.states = vec![ItemState::Waiting; count as usize];
        progress.tally = Tally::default();
        progress.tally.add(ItemState::Waiting, count);
        self.total.remove(ItemState::Waiting);
        self.total.add(ItemState::Waiting, count);
        Ok(())
    }

    /// Nothing keeps the item any more: it becomes ready, or is settled.
    fn arrive(&mut self, dag: &Dag, task: u32, item: u32, work: &mut Work) {
        let own = &self.tasks[task as usize];
        if own.states[item as usize] != ItemState::Waiting {
            return;
        }
        let bars = own.bars.get(item as usize).copied().unwrap_or_default();
        match bars.and(own.own).bar() {
            Bar::Block => work.push((task, item, ItemState::Blocked)),
            Bar::Skip => work.push((task, item, ItemState::Skipped)),
            // What it is does not depend on whether the failure or this came first: it may be
            // learned either way.
            Bar::None => match self.wanted(dag, task, item) {
                Ok(true) if self.failing && !dag.is_handler(task) => {
                    work.push((task, item, ItemState::Blocked));
                }
                Ok(true) => self.set(dag, task, item, ItemState::Ready),
                Ok(false) => work.push((task, item, ItemState::Skipped)),
                Err(why) => self.fail(task, item, why, work),
            },
        }
    }

    /// Whether an item shall run, and can.
    fn wanted(&self, dag: &Dag, task: u32, item: u32) -> Result<bool, String> {
        if let Some(when) = dag.graph.when(task) {
            let holds = when.holds(&mut |reference| self.asked(dag, (task, item), reference));
            if !holds.map_err(|why| format!("its `when` cannot be answered: {why}"))? {
                return Ok(false);
            }
        }
        for (from, key) in dag.graph.needs(task) {
            self.output(dag, (task, item), *from, key)?;
        }
        // Values that stand in a file were looked at when it was read.
        let keys = dag.graph.item_keys(task);
        let own = &dag.plan.tasks[task as usize];
        if !keys.is_empty() && matches!(own.items, Items::Output { .. }) {
            let value = self.value(dag, task, item).unwrap_or_default();
            if let Some(key) = keys.iter().find(|key| value.get(key).is_none()) {
                return Err(format!("its item has no `{key}`: {value}"));
            }
        }
        Ok(true)
    }

    fn fail(&mut self, task: u32, item: u32, why: String, work: &mut Work) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.insert((task, item), why);
        }
        work.push((task, item, ItemState::Failed));
    }

    /// With `fail_fast`, the first failure settles what is ready.
    pub(super) fn closing(&mut self, dag: &Dag) -> Work {
        if self.failing || !dag.plan.fail_fast || self.total.bad() == 0 {
            return Work::new();
        }
        self.failing = true;
        let tasks = self.lanes.all().filter(|(task, _)| !dag.is_handler(*task));
        tasks
            .flat_map(|(task, items)| {
                items
                    .iter()
                    .map(move |item| (task, *item, ItemState::Blocked))
            })
            .collect()
    }

    pub(super) fn set(&mut self, dag: &Dag, task: u32, item: u32, state: ItemState) {
        let own = &mut self.tasks[task as usize];
        let before = std::mem::replace(&mut own.states[item as usize], state);
        own.tally.moved(before, state);
        self.total.moved(before, state);
        let plan = &dag.plan;
        match before {
            ItemState::Ready => self.lanes.unready(plan, task, item),
            ItemState::Live => self.lanes.count(plan, task, false),
            _ => {}
        }
        match state {
            ItemState::Ready => self.lanes.ready(plan, task, item),
            ItemState::Live => self.lanes.count(plan, task, true),
            _ => {}
        }
    }
}

impl TaskProgress {
    pub(super) fn new(task: &PlanTask) -> Self {
        let count = items::count(&task.items);
        let length = usize::try_from(count.unwrap_or(1)).unwrap_or(usize::MAX);
        let by_item = task.after.iter().any(|after| after.edges != Edges::All);
        let gates = task
            .after
            .iter()
            .filter(|after| after.edges == Edges::All)
            .count();
        let mut open = vec![0; if by_item { length } else { 0 }];
        for after in &task.after {
            match &after.edges {
                Edges::All => {}
                Edges::Same => open.iter_mut().for_each(|open| *open += 1),
                Edges::Lists(lists) => {
                    for (open, item) in open.iter_mut().zip(0..) {
                        *open += u32::try_from(lists.of(item).len()).unwrap_or(u32::MAX);
                    }
                }
            }
        }
        let mut tally = Tally::default();
        tally.add(
            ItemState::Waiting,
            u32::try_from(length).unwrap_or(u32::MAX),
        );
        Self {
            mapped: count.is_some(),
            states: vec![ItemState::Waiting; length],
            bars: vec![Bars::default(); open.len()],
            open,
            gates: u32::try_from(gates).unwrap_or(u32::MAX),
            own: Bars::default(),
            tally,
        }
    }
}
