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

use crate::draft::{Draft, RunChange};
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
struct Kept {
    head: Option<RunHead>,
    changed: Wall,
    plans: BTreeMap<Generation, Plan>,
    items: BTreeMap<(u32, u32), Item>,
}

/// Every run.
#[derive(Debug, Default)]
pub(super) struct Runs {
    runs: BTreeMap<RunId, Kept>,
    last: RunId,
}

impl Runs {
    pub(super) fn write(&mut self, draft: &Draft<Arc<InstanceSpec>>) {
        for change in draft.runs().changes() {
            self.change(change);
        }
        for (head, changed) in draft.runs().heads() {
            let kept = self.runs.entry(head.id).or_default();
            kept.head = Some(head.clone());
            kept.changed = changed;
            self.last = self.last.max(head.id);
        }
    }

    fn change(&mut self, change: &RunChange) {
        match change {
            RunChange::Plan {
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
            RunChange::Ended {
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
            RunChange::Again { run, again, .. } => {
                let undone = SpanSet::new(again);
                let items = &mut self.runs.entry(*run).or_default().items;
                items.retain(|(task, item), kept| {
                    kept.end == ItemEnd::Done && !undone.contains(*task, *item)
                });
            }
            RunChange::Moved { run, carried, .. } => {
                let moves = CarriedIndex::new(carried);
                let items = &mut self.runs.entry(*run).or_default().items;
                let before = std::mem::take(items).into_iter();
                items.extend(
                    before.filter_map(|((task, item), kept)| Some((moves.of(task, item)?, kept))),
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
        let kept = self.runs.get(&run)?;
        Some(RunRecord {
            head: kept.head.clone()?,
            changed_at: kept.changed,
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
        Page::cut(found, limit, |it: &RunRecord| it.head.id)
    }

    pub(super) fn kept(&self, run: RunId) -> Option<StoredRun> {
        let kept = self.runs.get(&run)?;
        let head = kept.head.clone()?;
        let plan = Arc::new(kept.plans.get(&head.plan)?.clone());
        let ended = kept.items.iter().map(|((task, item), kept)| ItemResult {
            task: *task,
            item: *item,
            end: kept.end,
            outputs: kept.outputs.clone(),
        });
        Some(StoredRun {
            plan,
            ended: ended.collect(),
            head,
        })
    }

    /// What a leader has to know.
    pub(super) fn all(&self) -> (Vec<StoredRun>, Vec<RunHead>, RunId) {
        let (mut live, mut ended) = (Vec::new(), Vec::new());
        for run in self.runs.keys() {
            match self.kept(*run) {
                Some(kept) if kept.head.state.is_terminal() => ended.push(kept.head),
                other => live.extend(other),
            }
        }
        (live, ended, self.last)
    }

    /// Items that have ended, without what became of their instances.
    pub(super) fn items(&self, query: &ItemQuery) -> Page<ItemRecord, (u32, u32)> {
        let limit = page_limit(query.limit);
        let items = self.runs.get(&query.run).map(|kept| &kept.items);
        let items = items.into_iter().flatten();
        let wanted = items.filter(|(place, kept)| {
            query.after.is_none_or(|after| **place > after)
                && query.task.is_none_or(|task| task == place.0)
                && query.end.is_none_or(|end| end == kept.end)
        });
        let found = wanted.map(|((task, item), kept)| ItemRecord {
            task: *task,
            item: *item,
            generation: kept.generation,
            end: kept.end,
            instance: kept.instance,
            outputs: kept.outputs.clone(),
            record: None,
        });
        let Ok(page) = Page::fill(found.map(Ok::<_, Infallible>), limit, |it| {
            (it.task, it.item)
        });
        page
    }

    /// Removes a run that ended too long ago; whether it did.
    pub(super) fn prune(&mut self, is_old: impl Fn(Wall) -> bool) -> bool {
        let ended = |kept: &Kept| {
            let head = kept.head.as_ref();
            head.is_some_and(|head| head.state.is_terminal()) && is_old(kept.changed)
        };
        let doomed = self.runs.iter().find(|(_, kept)| ended(kept));
        let doomed = doomed.map(|(run, _)| *run);
        doomed.is_some_and(|run| self.runs.remove(&run).is_some())
    }
}
