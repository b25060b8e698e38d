//! What follows from an end: who may begin now, and who never can.

use baton_model::limits::RUN_ITEMS_MAX;
use baton_model::workflow::{Condition, Edges, Items, PlanTask};
use serde_json::Value;

use super::{ItemState, Progress, Tally};
use crate::workflow::graph::DownEdges;
use crate::workflow::template::Reference;
use crate::workflow::when::When;
use crate::workflow::{Planned, items};

/// Items that are named with why they could not begin; more are only counted.
const PROBLEMS_MAX: usize = 100;

/// Why an item cannot begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Bar {
    #[default]
    None,
    Skip,
    Block,
}

/// One task of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct TaskProgress {
    /// Its items are known. Until then it has one that stands for all of them.
    pub(super) mapped: bool,
    pub(super) states: Vec<ItemState>,
    /// Edges item by item that are not settled; empty if it has none.
    open: Vec<u32>,
    bars: Vec<Bar>,
    /// Edges from whole tasks that are not settled.
    gates: u32,
    bar: Bar,
    pub(super) tally: Tally,
}

/// Ends that have to be settled.
pub(super) type Work = Vec<(u32, u32, ItemState)>;

impl Progress {
    /// Lets those begin that come after nothing.
    pub(super) fn begin(&mut self, planned: &Planned) {
        let tasks = self.tasks.iter().zip(0_u32..);
        let first: Vec<_> = tasks
            .filter(|(own, _)| own.gates == 0)
            .map(|(_, at)| at)
            .collect();
        let mut work = Work::new();
        for task in first {
            self.enter(planned, task, &mut work);
        }
        self.settle(planned, work, false);
    }

    /// Settles ends, and whatever follows from them; with `closes`, also from the first
    /// failure of a run that shall fail fast.
    pub(super) fn settle(&mut self, planned: &Planned, mut work: Work, closes: bool) {
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
            self.set(planned, task, item, state);
            self.release(planned, task, item, state, &mut work);
            let own = &self.tasks[task as usize];
            if own.tally.settled() == own.tally.all() {
                self.complete(planned, task, &mut work);
            }
            if closes && work.is_empty() {
                work = self.closing(planned);
            }
        }
    }

    /// Tells those that wait for this item.
    fn release(
        &mut self,
        planned: &Planned,
        task: u32,
        item: u32,
        state: ItemState,
        work: &mut Work,
    ) {
        for down in planned.graph.downstream(task) {
            let bar = bar(down.condition, state);
            match &down.edges {
                DownEdges::All => {}
                DownEdges::Same => self.edge(planned, down.task, item, bar, work),
                DownEdges::Lists(lists) => {
                    for waiting in lists.of(item) {
                        self.edge(planned, down.task, *waiting, bar, work);
                    }
                }
            }
        }
    }

    /// One edge of an item is settled.
    fn edge(&mut self, planned: &Planned, task: u32, item: u32, bar: Bar, work: &mut Work) {
        let own = &mut self.tasks[task as usize];
        let at = item as usize;
        own.open[at] -= 1;
        own.bars[at] = own.bars[at].max(bar);
        if own.open[at] == 0 && own.gates == 0 {
            self.arrive(planned, task, item, work);
        }
    }

    /// All items of a task are over: tells those that wait for all of them.
    fn complete(&mut self, planned: &Planned, task: u32, work: &mut Work) {
        let own = &self.tasks[task as usize];
        let (tally, bar) = (own.tally, own.bar);
        for down in planned.graph.downstream(task) {
            if down.edges != DownEdges::All {
                continue;
            }
            let own = &mut self.tasks[down.task as usize];
            own.gates -= 1;
            own.bar = own.bar.max(gate(down.condition, &tally, bar));
            if own.gates == 0 {
                self.enter(planned, down.task, work);
            }
        }
    }

    /// Nothing bars or keeps the task as a whole any more: looks at each item.
    fn enter(&mut self, planned: &Planned, task: u32, work: &mut Work) {
        if !self.tasks[task as usize].mapped && !self.map(planned, task, work) {
            return;
        }
        let own = &self.tasks[task as usize];
        if own.states.is_empty() {
            self.complete(planned, task, work);
            return;
        }
        let free: Vec<u32> = (0..u32::try_from(own.states.len()).unwrap_or(u32::MAX))
            .filter(|item| own.open.get(*item as usize).is_none_or(|open| *open == 0))
            .collect();
        for item in free {
            self.arrive(planned, task, item, work);
        }
    }

    /// Finds out which items a task has. False if it cannot have any.
    fn map(&mut self, planned: &Planned, task: u32, work: &mut Work) -> bool {
        let own = &planned.plan.tasks[task as usize];
        let Items::Output { task: from, key } = &own.items else {
            return true;
        };
        if self.tasks[task as usize].bar != Bar::None {
            self.arrive(planned, task, 0, work);
            return false;
        }
        match self.assign(task, *from, key) {
            Ok(()) => true,
            Err(why) => {
                self.fail(task, 0, why, work);
                false
            }
        }
    }

    /// Gives a task the items that another has put out.
    pub(super) fn assign(&mut self, task: u32, from: u32, key: &str) -> Result<(), String> {
        let list = self.listed(from, key)?;
        let room = RUN_ITEMS_MAX.saturating_sub(u64::from(self.total.all()));
        let count = u32::try_from(list.len()).ok();
        let count = count.filter(|it| u64::from(*it) <= room);
        let count =
            count.ok_or_else(|| format!("the run would have more than {RUN_ITEMS_MAX} items"))?;
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
    fn arrive(&mut self, planned: &Planned, task: u32, item: u32, work: &mut Work) {
        let own = &self.tasks[task as usize];
        if own.states[item as usize] != ItemState::Waiting {
            return;
        }
        let bar = own
            .bars
            .get(item as usize)
            .copied()
            .unwrap_or_default()
            .max(own.bar);
        match bar {
            Bar::Block => work.push((task, item, ItemState::Blocked)),
            Bar::Skip => work.push((task, item, ItemState::Skipped)),
            // What it is does not depend on whether the failure or this came first: it may be
            // learned either way.
            Bar::None => match self.wanted(planned, task, item) {
                Ok(true) if self.failing && !planned.is_handler(task) => {
                    work.push((task, item, ItemState::Blocked));
                }
                Ok(true) => self.set(planned, task, item, ItemState::Ready),
                Ok(false) => work.push((task, item, ItemState::Skipped)),
                Err(why) => self.fail(task, item, why, work),
            },
        }
    }

    /// Whether an item shall run, and can.
    fn wanted(&self, planned: &Planned, task: u32, item: u32) -> Result<bool, String> {
        let own = &planned.plan.tasks[task as usize];
        if let Some(text) = &own.when {
            let when = When::parse(text)?;
            let mut known = |reference: &Reference| match reference {
                Reference::Item => self.value(planned, task, item),
                Reference::ItemKey(key) => self.value(planned, task, item)?.get(key).cloned(),
                Reference::Output { task, key } => self.output(planned, planned.place(task)?, key),
                Reference::Param(name) => planned.plan.params.get(name).cloned().map(Value::String),
            };
            let holds = when.holds(&mut known);
            if !holds.map_err(|why| format!("its `when` cannot be answered: {why}"))? {
                return Ok(false);
            }
        }
        for (from, key) in planned.graph.needs(task) {
            if self.output(planned, *from, key).is_none() {
                let name = &planned.plan.tasks[*from as usize].name;
                return Err(format!(
                    "`{name}` has not put out `{key}`, or more of it than fits into an argument"
                ));
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
    pub(super) fn closing(&mut self, planned: &Planned) -> Work {
        if self.failing || !planned.plan.fail_fast || self.total.bad() == 0 {
            return Work::new();
        }
        self.failing = true;
        let tasks = self
            .lanes
            .all()
            .filter(|(task, _)| !planned.is_handler(*task));
        tasks
            .flat_map(|(task, items)| {
                items
                    .iter()
                    .map(move |item| (task, *item, ItemState::Blocked))
            })
            .collect()
    }

    pub(super) fn set(&mut self, planned: &Planned, task: u32, item: u32, state: ItemState) {
        let own = &mut self.tasks[task as usize];
        let before = std::mem::replace(&mut own.states[item as usize], state);
        own.tally.moved(before, state);
        self.total.moved(before, state);
        let plan = &planned.plan;
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
            bars: vec![Bar::None; open.len()],
            open,
            gates: u32::try_from(gates).unwrap_or(u32::MAX),
            bar: Bar::None,
            tally,
        }
    }
}

/// What one end means to an item that waits for it.
const fn bar(condition: Condition, state: ItemState) -> Bar {
    match condition {
        Condition::End => Bar::None,
        Condition::Success if state.is_bad() => Bar::Block,
        Condition::Success if matches!(state, ItemState::Skipped) => Bar::Skip,
        Condition::Success => Bar::None,
        Condition::Failure if state.is_bad() => Bar::None,
        Condition::Failure => Bar::Skip,
    }
}

/// What the ends of a whole task mean to one that waits for all of them. Of a task whose items
/// were skipped in part, those that ran count. One without items hands on what bars it.
fn gate(condition: Condition, tally: &Tally, own: Bar) -> Bar {
    let empty = tally.all() == 0;
    let skipped = tally.of(ItemState::Skipped);
    let bad = tally.bad() > 0 || empty && own == Bar::Block;
    match condition {
        Condition::End => Bar::None,
        Condition::Success if bad => Bar::Block,
        Condition::Success if empty => own,
        Condition::Success if skipped == tally.all() => Bar::Skip,
        Condition::Success => Bar::None,
        Condition::Failure if bad => Bar::None,
        Condition::Failure => Bar::Skip,
    }
}
