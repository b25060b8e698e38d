//! Runs as rows: what a store has in its tables after each fact, without derived state. The
//! checker judges by them, and a client or a new leader reads a run from them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_core::ledger::{RunHead, StoredRun};
use baton_core::workflow::ItemResult;
use baton_model::fact::Fact;
use baton_model::ids::{Generation, InstanceId, RunId};
use baton_model::state::UniversalState;
use baton_model::workflow::{
    CarriedItems, Edges, HaltCause, HaltMode, ItemEnd, ItemSpan, Part, Plan,
};

use super::ItemPosition;
use super::oracle::Oracle;
use crate::plans::count;

/// One run.
#[derive(Clone, Debug)]
pub struct Row {
    /// The plan so far.
    pub plan: Arc<Plan>,
    /// Further parts of the plan may follow.
    pub open: bool,
    pub generation: Generation,
    /// Mode and cause of a halt in progress.
    pub halting: Option<(HaltMode, HaltCause)>,
    /// The final state.
    pub over: Option<UniversalState>,
    /// Items that ended in this generation, or stay DONE from earlier ones.
    pub(super) ends: BTreeMap<ItemPosition, ItemEnd>,
    /// Items in flight.
    pub(super) live: BTreeMap<ItemPosition, InstanceId>,
    /// All instances of all generations.
    pub(super) instances: BTreeSet<InstanceId>,
}

impl Row {
    pub(super) fn new(plan: &Arc<Plan>, open: bool) -> Self {
        Self {
            plan: Arc::clone(plan),
            open,
            generation: Generation(1),
            halting: None,
            over: None,
            ends: BTreeMap::new(),
            live: BTreeMap::new(),
            instances: BTreeSet::new(),
        }
    }

    /// Describes the plan for a report: each task with its items and dependencies.
    pub(super) fn describe(&self) -> String {
        let tasks = self.plan.tasks.iter().zip(0_u32..).map(|(task, at)| {
            let after = task.after.iter().map(|it| {
                let edges = match &it.edges {
                    Edges::All => "all".to_owned(),
                    Edges::Same => "same".to_owned(),
                    Edges::Lists(lists) => format!("[{lists}]"),
                };
                format!("{} of {} {}", edges, it.task, it.condition.into_str())
            });
            let after: Vec<_> = after.collect();
            let when = task.when.as_deref().unwrap_or_default();
            format!("{at}: {} items {when} after {after:?}", count(task))
        });
        let tasks: Vec<_> = tasks.collect();
        format!("{}, fail_fast: {}", tasks.join("; "), self.plan.fail_fast)
    }

    pub(super) fn oracle(&self) -> Oracle<'_> {
        Oracle::new(&self.plan, &self.ends, self.live.keys().copied())
    }

    /// The run as a store returns it.
    #[must_use]
    pub fn stored(&self, head: RunHead) -> StoredRun {
        let ended = self.ends.iter().map(|((task, item), end)| ItemResult {
            task: *task,
            item: *item,
            end: *end,
            outputs: None,
        });
        StoredRun {
            head,
            plan: Arc::clone(&self.plan),
            ended: ended.collect(),
        }
    }

    pub(super) fn resume(
        &mut self,
        plan: Option<&Arc<Plan>>,
        carried: &[CarriedItems],
        rerun: &[ItemSpan],
    ) {
        let within = |span: &ItemSpan, it: ItemPosition| {
            span.task == it.0 && (span.first..=span.last).contains(&it.1)
        };
        self.ends.retain(|position, end| {
            *end == ItemEnd::Done && !rerun.iter().any(|span| within(span, *position))
        });
        if let Some(plan) = plan {
            self.plan = Arc::clone(plan);
            let before = std::mem::take(&mut self.ends);
            for (position, end) in before {
                let moved = carried.iter().find(|it| within(&it.from, position));
                if let Some(it) = moved {
                    let item = it.first + (position.1 - it.from.first);
                    self.ends.insert((it.task, item), end);
                }
            }
        }
        self.halting = None;
        self.over = None;
        self.generation = self.generation.next();
    }
}

/// An instance that is part of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) part: Part,
    pub(super) leased: bool,
}

/// All runs and their instances.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    runs: BTreeMap<RunId, Row>,
    members: BTreeMap<InstanceId, Member>,
}

impl Rows {
    #[must_use]
    pub fn run(&self, id: RunId) -> Option<&Row> {
        self.runs.get(&id)
    }

    /// Every run, by id.
    pub fn iter(&self) -> impl Iterator<Item = (RunId, &Row)> {
        self.runs.iter().map(|(id, row)| (*id, row))
    }

    /// The first run of a workflow by name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<(RunId, &Row)> {
        self.iter().find(|(_, row)| row.plan.name == name)
    }

    pub(super) fn member(&self, id: InstanceId) -> Option<Member> {
        self.members.get(&id).copied()
    }

    /// Instances of a range of ids that are in flight without a lease.
    pub(super) fn waiting(&self, first: InstanceId, last: InstanceId) -> Vec<(InstanceId, Part)> {
        let within = self.members.range(first..=last);
        within
            .filter(|(id, it)| !it.leased && self.is_live(**id, it.part))
            .map(|(id, it)| (*id, it.part))
            .collect()
    }

    fn is_live(&self, id: InstanceId, part: Part) -> bool {
        let row = self.runs.get(&part.run);
        row.is_some_and(|row| row.live.get(&(part.task, part.item)) == Some(&id))
    }

    pub(super) fn began(&mut self, id: InstanceId, part: Part) {
        let leased = false;
        self.members.insert(id, Member { part, leased });
        if let Some(row) = self.runs.get_mut(&part.run) {
            row.live.insert((part.task, part.item), id);
            row.instances.insert(id);
        }
    }

    pub(super) fn leased(&mut self, id: InstanceId, leased: bool) {
        if let Some(member) = self.members.get_mut(&id) {
            member.leased = leased;
        }
    }

    pub(super) fn ended(&mut self, id: InstanceId, part: Part, end: ItemEnd) {
        self.leased(id, false);
        if !self.is_live(id, part) {
            return;
        }
        if let Some(row) = self.runs.get_mut(&part.run) {
            let position = (part.task, part.item);
            row.live.remove(&position);
            row.ends.insert(position, end);
        }
    }

    /// Applies a fact about a run itself.
    pub(super) fn apply(&mut self, fact: &Fact) {
        if let Fact::RunRegistered {
            run, plan, open, ..
        } = fact
        {
            self.runs.insert(*run, Row::new(plan, *open));
        }
        let Some(row) = fact.run().and_then(|run| self.runs.get_mut(&run)) else {
            return;
        };
        match fact {
            Fact::RunExtended { plan, .. } => {
                let whole = Arc::make_mut(&mut row.plan);
                whole.tasks.extend_from_slice(&plan.tasks);
                whole.pools.extend_from_slice(&plan.pools);
            }
            Fact::RunDefined { .. } => row.open = false,
            Fact::RunHalting { mode, cause, .. } => row.halting = Some((*mode, *cause)),
            Fact::RunEnded { state, .. } => row.over = Some(*state),
            Fact::RunResumed {
                plan,
                carried,
                rerun,
                ..
            } => row.resume(plan.as_ref(), carried, rerun),
            _ => {}
        }
    }
}
