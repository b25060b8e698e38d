//! Settling an item: which downstream items become ready, and which never can.

use baton_model::limits::{RUN_ITEMS_MAX, TASK_FILLED_BYTES_MAX};
use baton_model::workflow::{Edges, Items, PlanTask};
use serde_json::Value;

use super::block::{BlockReason, EdgeOutcomes, edge_outcome, task_outcome};
use super::{ItemState, Progress, Tally};
use crate::workflow::graph::DownstreamEdges;
use crate::workflow::{Dag, items};

/// Items whose failure to start is recorded with its reason; further ones are only counted.
const PROBLEMS_MAX: usize = 100;

/// Instances of a task that may always be in flight at once, however large their rendered texts are.
const IN_FLIGHT_MIN: usize = 16;

/// One task of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct TaskProgress {
    /// Its items are known. Until then it has one placeholder item.
    pub(super) mapped: bool,
    pub(super) states: Vec<ItemState>,
    /// Unsettled item-level edges of each item; empty if the task has no such edges.
    in_degrees: Vec<u32>,
    outcomes: Vec<EdgeOutcomes>,
    /// Task-level edges whose upstream task is not settled.
    unsettled_upstream: u32,
    outcome: EdgeOutcomes,
    pub(super) tally: Tally,
}

/// Items to settle, as (task, item, final state).
pub(super) type Worklist = Vec<(u32, u32, ItemState)>;

impl Progress {
    /// Starts the tasks without task-level upstream edges.
    pub(super) fn start_roots(&mut self, dag: &Dag) {
        let tasks = self.tasks.iter().zip(0_u32..);
        let first: Vec<_> = tasks
            .filter(|(own, _)| own.unsettled_upstream == 0)
            .map(|(_, at)| at)
            .collect();
        let mut work = Worklist::new();
        for task in first {
            self.unblock_task(dag, task, &mut work);
        }
        self.settle(dag, work, false);
    }

    /// Settles items and everything that follows downstream. With `apply_fail_fast`, the first
    /// failure of a run with `fail_fast` also blocks what is ready.
    pub(super) fn settle(&mut self, dag: &Dag, mut work: Worklist, apply_fail_fast: bool) {
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
            self.set_state(dag, task, item, state);
            self.settle_downstream(dag, task, item, state, &mut work);
            let own = &self.tasks[task as usize];
            if own.tally.settled() == own.tally.all() {
                self.settle_task(dag, task, &mut work);
            }
            if apply_fail_fast && work.is_empty() {
                work = self.fail_fast(dag);
            }
        }
    }

    /// Settles the item-level edges to the items that wait for this one.
    fn settle_downstream(
        &mut self,
        dag: &Dag,
        task: u32,
        item: u32,
        state: ItemState,
        work: &mut Worklist,
    ) {
        for down in dag.graph.downstream(task) {
            let outcome = edge_outcome(down, state);
            match &down.edges {
                DownstreamEdges::All => {}
                DownstreamEdges::Same if self.is_mapped(task) => {
                    self.settle_edge(dag, down.task, item, outcome, work);
                }
                // The placeholder stands for all items.
                DownstreamEdges::Same => {
                    for waiting in 0..self.item_count(down.task) {
                        self.settle_edge(dag, down.task, waiting, outcome, work);
                    }
                }
                DownstreamEdges::Lists(lists) => {
                    for waiting in lists.of(item) {
                        self.settle_edge(dag, down.task, *waiting, outcome, work);
                    }
                }
            }
        }
    }

    /// Settles one item-level edge; the last one resolves the item.
    fn settle_edge(
        &mut self,
        dag: &Dag,
        task: u32,
        item: u32,
        outcome: EdgeOutcomes,
        work: &mut Worklist,
    ) {
        let own = &mut self.tasks[task as usize];
        // A task that cannot have items has one placeholder, which its task-level edges decide.
        if !own.mapped {
            return;
        }
        let at = item as usize;
        assert!(
            own.in_degrees[at] > 0,
            "an edge to item {item} of task {task} is settled once"
        );
        own.in_degrees[at] -= 1;
        own.outcomes[at] = own.outcomes[at].with(outcome);
        if own.in_degrees[at] == 0 && own.unsettled_upstream == 0 {
            self.resolve_item(dag, task, item, work);
        }
    }

    /// Settles the task-level edges downstream of a task whose items are all settled.
    fn settle_task(&mut self, dag: &Dag, task: u32, work: &mut Worklist) {
        self.join_outputs(dag, task);
        let own = &self.tasks[task as usize];
        let (tally, reason) = (own.tally, own.outcome.reason());
        // First, so that edges item by item between tasks of the same list find both ends.
        for down in dag.graph.downstream(task) {
            let items = &dag.plan.tasks[down.task as usize].items;
            let is_source = matches!(items, Items::Output { task: from, .. } if *from == task);
            if is_source
                && dag.item_edges(down.task) > 0
                && task_outcome(down, &tally, reason).reason() == BlockReason::None
            {
                self.restore_items(dag, down.task);
            }
        }
        for down in dag.graph.downstream(task) {
            if down.edges != DownstreamEdges::All {
                continue;
            }
            let own = &mut self.tasks[down.task as usize];
            assert!(
                own.unsettled_upstream > 0,
                "an edge to task {} is settled once",
                down.task
            );
            own.unsettled_upstream -= 1;
            own.outcome = own.outcome.with(task_outcome(down, &tally, reason));
            if own.unsettled_upstream == 0 {
                self.unblock_task(dag, down.task, work);
            }
        }
    }

    /// All task-level edges are settled: expands the task's items and resolves those whose
    /// in-degree is 0.
    fn unblock_task(&mut self, dag: &Dag, task: u32, work: &mut Worklist) {
        if !self.tasks[task as usize].mapped && !self.expand(dag, task, work) {
            return;
        }
        if let Some(limit) = TASK_FILLED_BYTES_MAX.checked_div(self.filled_bytes(dag, task)) {
            let limit = limit.max(IN_FLIGHT_MIN) as u64;
            self.queue.cap(&dag.plan, task, limit);
        }
        let own = &self.tasks[task as usize];
        if own.states.is_empty() {
            self.settle_task(dag, task, work);
            return;
        }
        let unblocked: Vec<u32> = (0..u32::try_from(own.states.len()).unwrap_or(u32::MAX))
            .filter(|item| {
                own.in_degrees
                    .get(*item as usize)
                    .is_none_or(|degree| *degree == 0)
            })
            .collect();
        for item in unblocked {
            self.resolve_item(dag, task, item, work);
        }
    }

    /// Determines the items of a task. False if it cannot have any.
    fn expand(&mut self, dag: &Dag, task: u32, work: &mut Worklist) -> bool {
        let own = &dag.plan.tasks[task as usize];
        let Items::Output { task: from, key } = &own.items else {
            return true;
        };
        if self.tasks[task as usize].outcome.reason() != BlockReason::None {
            self.resolve_item(dag, task, 0, work);
            return false;
        }
        match self.assign_items(dag, task, *from, key) {
            Ok(()) => true,
            Err(reason) => {
                self.fail_item(task, 0, reason, work);
                false
            }
        }
    }

    /// Makes the items of a task from an output of another task. The limit on their number does
    /// not depend on other outputs: a leader that takes over may see them in another order.
    pub(super) fn assign_items(
        &mut self,
        dag: &Dag,
        task: u32,
        from: u32,
        key: &str,
    ) -> Result<(), String> {
        let list = self.output_list(dag, from, key)?;
        let count = u32::try_from(list.len()).ok();
        let count = count.filter(|it| u64::from(*it) <= RUN_ITEMS_MAX);
        let count =
            count.ok_or_else(|| format!("the task would have more than {RUN_ITEMS_MAX} items"))?;
        let texts = list.iter().map(Value::to_string);
        self.lists.insert(task, texts.collect());
        let degree = dag.item_edges(task);
        let progress = &mut self.tasks[task as usize];
        progress.mapped = true;
        progress.states = vec![ItemState::Waiting; count as usize];
        if degree > 0 {
            progress.in_degrees = vec![degree; count as usize];
            progress.outcomes = vec![EdgeOutcomes::default(); count as usize];
        }
        progress.tally = Tally::default();
        progress.tally.add(ItemState::Waiting, count);
        self.total.remove(ItemState::Waiting);
        self.total.add(ItemState::Waiting, count);
        Ok(())
    }

    /// All edges of the item are settled: makes it ready, or settles it as skipped, blocked or
    /// failed.
    fn resolve_item(&mut self, dag: &Dag, task: u32, item: u32, work: &mut Worklist) {
        let own = &self.tasks[task as usize];
        if own.states[item as usize] != ItemState::Waiting {
            return;
        }
        let outcome = own.outcomes.get(item as usize).copied().unwrap_or_default();
        match outcome.with(own.outcome).reason() {
            BlockReason::UpstreamFailed => work.push((task, item, ItemState::Blocked)),
            BlockReason::NotNeeded => work.push((task, item, ItemState::Skipped)),
            // The condition is evaluated even if the run is failing fast: the item's state must
            // not depend on whether the failure or this was seen first.
            BlockReason::None => match self.should_run(dag, task, item) {
                Ok(true) if self.failing_fast && !dag.is_handler(task) => {
                    work.push((task, item, ItemState::Blocked));
                }
                Ok(true) => self.set_state(dag, task, item, ItemState::Ready),
                Ok(false) => work.push((task, item, ItemState::Skipped)),
                Err(reason) => self.fail_item(task, item, reason, work),
            },
        }
    }

    /// Evaluates `when`, and checks that the item's references can be resolved.
    fn should_run(&self, dag: &Dag, task: u32, item: u32) -> Result<bool, String> {
        if let Some(when) = dag.graph.when(task) {
            let holds =
                when.holds(&mut |reference| self.condition_value(dag, (task, item), reference));
            if !holds.map_err(|reason| format!("its `when` cannot be evaluated: {reason}"))? {
                return Ok(false);
            }
        }
        for (from, key) in dag.graph.required_outputs(task) {
            self.visible_output(dag, (task, item), *from, key)?;
        }
        // Values from a file were checked when it was read.
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

    fn fail_item(&mut self, task: u32, item: u32, reason: String, work: &mut Worklist) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.insert((task, item), reason);
        }
        work.push((task, item, ItemState::Failed));
    }

    /// On the first failure of a run with `fail_fast`, returns the ready items to block. Failure
    /// handlers stay ready.
    pub(super) fn fail_fast(&mut self, dag: &Dag) -> Worklist {
        if self.failing_fast || !dag.plan.fail_fast || self.total.unsuccessful() == 0 {
            return Worklist::new();
        }
        self.failing_fast = true;
        let tasks = self
            .queue
            .ready_items()
            .filter(|(task, _)| !dag.is_handler(*task));
        tasks
            .flat_map(|(task, items)| {
                items
                    .iter()
                    .map(move |item| (task, *item, ItemState::Blocked))
            })
            .collect()
    }

    pub(super) fn set_state(&mut self, dag: &Dag, task: u32, item: u32, state: ItemState) {
        let own = &mut self.tasks[task as usize];
        let before = std::mem::replace(&mut own.states[item as usize], state);
        assert!(
            !before.is_settled(),
            "item {item} of task {task} is settled once: {before:?} before {state:?}"
        );
        own.tally.transfer(before, state);
        self.total.transfer(before, state);
        let plan = &dag.plan;
        match before {
            ItemState::Ready => self.queue.remove(plan, task, item),
            ItemState::Live => self.queue.count_in_flight(plan, task, false),
            _ => {}
        }
        match state {
            ItemState::Ready => self.queue.insert(plan, task, item),
            ItemState::Live => self.queue.count_in_flight(plan, task, true),
            _ => {}
        }
    }
}

impl TaskProgress {
    pub(super) fn new(task: &PlanTask) -> Self {
        let count = items::count(&task.items);
        let length = usize::try_from(count.unwrap_or(1)).unwrap_or(usize::MAX);
        let by_item = task.after.iter().any(|after| after.edges != Edges::All);
        let unsettled_upstream = task
            .after
            .iter()
            .filter(|after| after.edges == Edges::All)
            .count();
        let by_item = by_item && count.is_some();
        let mut in_degrees = vec![0; if by_item { length } else { 0 }];
        for after in &task.after {
            match &after.edges {
                Edges::All => {}
                Edges::Same => in_degrees.iter_mut().for_each(|degree| *degree += 1),
                Edges::Lists(lists) => {
                    for (degree, item) in in_degrees.iter_mut().zip(0..) {
                        *degree += u32::try_from(lists.of(item).len()).unwrap_or(u32::MAX);
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
            outcomes: vec![EdgeOutcomes::default(); in_degrees.len()],
            in_degrees,
            unsettled_upstream: u32::try_from(unsettled_upstream).unwrap_or(u32::MAX),
            outcome: EdgeOutcomes::default(),
            tally,
        }
    }
}
