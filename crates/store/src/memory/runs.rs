//! Runs in memory.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use baton_core::ledger::{RunHead, StoredRun};
use baton_core::workflow::ItemResult;
use baton_core::workflow::compare::CarriedIndex;
use baton_core::workflow::invalidate::SpanSet;
use baton_model::ids::{Generation, InstanceId, RunId};
use baton_model::spec::InstanceSpec;
use baton_model::time::Wall;
use baton_model::workflow::{ItemEnd, Plan};

use crate::change_set::{ChangeSet, RunChange};
use crate::view::{ItemQuery, ItemRecord, Page, RunQuery, RunRecord, page_limit};

/// An item whose instance has ended.
#[derive(Clone, Debug)]
struct Item {
    generation: Generation,
    end: ItemEnd,
    instance: InstanceId,
    outputs: Option<Arc<str>>,
}

#[derive(Debug, Default)]
struct RunEntry {
    head: Option<RunHead>,
    changed: Wall,
    plans: BTreeMap<Generation, Plan>,
    items: BTreeMap<(u32, u32), Item>,
}

/// All runs.
#[derive(Debug, Default)]
pub(super) struct Runs {
    runs: BTreeMap<RunId, RunEntry>,
    last: RunId,
}

impl Runs {
    pub(super) fn write(&mut self, change_set: &ChangeSet<Arc<InstanceSpec>>) {
        for change in change_set.runs().changes() {
            self.change(change);
        }
        for (head, changed) in change_set.runs().heads() {
            let entry = self.runs.entry(head.id).or_default();
            entry.head = Some(head.clone());
            entry.changed = changed;
            self.last = self.last.max(head.id);
        }
    }

    fn change(&mut self, change: &RunChange) {
        match change {
            RunChange::PlanPart {
                run,
                generation,
                plan,
                ..
            } => {
                let plans = &mut self.runs.entry(*run).or_default().plans;
                match plans.get_mut(generation) {
                    None => drop(plans.insert(*generation, (**plan).clone())),
                    Some(whole) => {
                        whole.tasks.extend_from_slice(&plan.tasks);
                        whole.pools.extend_from_slice(&plan.pools);
                    }
                }
            }
            RunChange::ItemEnded {
                part,
                instance,
                end,
                outputs,
                ..
            } => {
                let item = Item {
                    generation: part.generation,
                    end: *end,
                    instance: *instance,
                    outputs: outputs.clone(),
                };
                let items = &mut self.runs.entry(part.run).or_default().items;
                items.entry((part.task, part.item)).or_insert(item);
            }
            RunChange::Invalidate { run, rerun, .. } => {
                let undone = SpanSet::new(rerun);
                let items = &mut self.runs.entry(*run).or_default().items;
                items.retain(|(task, item), entry| {
                    entry.end == ItemEnd::Done && !undone.contains(*task, *item)
                });
            }
            RunChange::CarryOver { run, carried, .. } => {
                let moves = CarriedIndex::new(carried);
                let items = &mut self.runs.entry(*run).or_default().items;
                let before = std::mem::take(items).into_iter();
                items.extend(
                    before.filter_map(|((task, item), entry)| Some((moves.of(task, item)?, entry))),
                );
            }
        }
    }

    pub(super) const fn last(&self) -> RunId {
        self.last
    }

    pub(super) fn head(&self, run: RunId) -> Option<RunHead> {
        self.runs.get(&run)?.head.clone()
    }

    pub(super) fn record(&self, run: RunId) -> Option<RunRecord> {
        let entry = self.runs.get(&run)?;
        Some(RunRecord {
            head: entry.head.clone()?,
            changed_at: entry.changed,
        })
    }

    pub(super) fn page(&self, query: &RunQuery) -> Page<RunRecord, RunId> {
        let limit = page_limit(query.limit);
        let before = query.before.unwrap_or(RunId(u64::MAX));
        let is =
            |wanted: &Option<String>, it: &str| wanted.as_deref().is_none_or(|wanted| wanted == it);
        let found = self.runs.range(..before).rev();
        let found = found.filter_map(|(run, _)| self.record(*run));
        let found = found.filter(|it| {
            query.state.is_none_or(|state| state == it.head.state)
                && is(&query.owner, &it.head.owner)
                && is(&query.name, &it.head.name)
        });
        let found = found.take(limit + 1).collect();
        Page::from_lookahead(found, limit, |it: &RunRecord| it.head.id)
    }

    pub(super) fn stored(&self, run: RunId) -> Option<StoredRun> {
        let entry = self.runs.get(&run)?;
        let head = entry.head.clone()?;
        let plan = Arc::new(entry.plans.get(&head.plan)?.clone());
        let ended = entry.items.iter().map(|((task, item), entry)| ItemResult {
            task: *task,
            item: *item,
            end: entry.end,
            outputs: entry.outputs.clone(),
        });
        Some(StoredRun {
            plan,
            ended: ended.collect(),
            head,
        })
    }

    /// The runs of a new leader's ledger: live ones, heads of ended ones, and the highest id.
    pub(super) fn all(&self) -> (Vec<StoredRun>, Vec<RunHead>, RunId) {
        let (mut live, mut ended) = (Vec::new(), Vec::new());
        for run in self.runs.keys() {
            match self.stored(*run) {
                Some(entry) if entry.head.state.is_terminal() => ended.push(entry.head),
                other => live.extend(other),
            }
        }
        (live, ended, self.last)
    }

    /// Ended items, without the records of their instances.
    pub(super) fn items(&self, query: &ItemQuery) -> Page<ItemRecord, (u32, u32)> {
        let limit = page_limit(query.limit);
        let items = self.runs.get(&query.run).map(|entry| &entry.items);
        let items = items.into_iter().flatten();
        let wanted = items.filter(|(position, entry)| {
            query.after.is_none_or(|after| **position > after)
                && query.task.is_none_or(|task| task == position.0)
                && query.end.is_none_or(|end| end == entry.end)
        });
        let found = wanted.map(|((task, item), entry)| ItemRecord {
            task: *task,
            item: *item,
            generation: entry.generation,
            end: entry.end,
            instance: entry.instance,
            outputs: entry.outputs.clone(),
            record: None,
        });
        let Ok(page) = Page::fill(found.map(Ok::<_, Infallible>), limit, |it| {
            (it.task, it.item)
        });
        page
    }

    /// Removes one expired run; false if there is none.
    pub(super) fn prune(&mut self, is_old: impl Fn(Wall) -> bool) -> bool {
        let ended = |entry: &RunEntry| {
            let head = entry.head.as_ref();
            head.is_some_and(|head| head.state.is_terminal()) && is_old(entry.changed)
        };
        let expired = self.runs.iter().find(|(_, entry)| ended(entry));
        let expired = expired.map(|(run, _)| *run);
        expired.is_some_and(|run| self.runs.remove(&run).is_some())
    }
}
