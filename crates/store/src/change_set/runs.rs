//! Changes to runs, in the order in which they happened.
//!
//! The state of a run is changed by the ledger's own rules, like everything else. Its progress
//! follows from its plan and its items and is not computed here.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_core::ledger::{LedgerError, RunHead};
use baton_model::fact::Fact;
use baton_model::ids::{Generation, InstanceId, RunId};
use baton_model::measurement::TaskPath;
use baton_model::principal::Principal;
use baton_model::time::Wall;
use baton_model::workflow::{CarriedItems, ItemEnd, ItemSpan, Part, Plan};

use super::StoredRows;
use crate::StoreError;
use crate::view::Seq;

/// One change to the rows of a run other than its head.
#[derive(Clone, Debug)]
pub(crate) enum RunChange {
    /// A plan was added, or a part of one.
    PlanPart {
        run: RunId,
        generation: Generation,
        part: Seq,
        plan: Arc<Plan>,
    },
    /// An item has ended, under the plan of this generation. It ends once: a later retry of its
    /// instance does not change the run.
    ItemEnded {
        part: Part,
        plan: Generation,
        instance: InstanceId,
        end: ItemEnd,
        outputs: Option<Arc<str>>,
    },
    /// Only DONE items stay, except those that are to be rerun.
    Invalidate {
        run: RunId,
        plan: Generation,
        rerun: Vec<ItemSpan>,
    },
    /// Only items that are carried over to another plan stay.
    CarryOver {
        run: RunId,
        from: Generation,
        to: Generation,
        carried: Vec<CarriedItems>,
    },
}

/// Runs touched by facts.
#[derive(Debug, Default)]
pub(crate) struct RunChanges {
    heads: BTreeMap<RunId, RunHead>,
    /// The highest run id ever used, once it was fetched.
    last: Option<RunId>,
    changed: BTreeMap<RunId, Wall>,
    /// The clients that have submitted new runs, or triggered them.
    submitters: BTreeMap<RunId, Arc<Principal>>,
    changes: Vec<RunChange>,
}

impl RunChanges {
    /// Applies one fact about a run.
    pub(super) fn apply_fact(
        &mut self,
        stored: &mut impl StoredRows,
        seq: Seq,
        at: Wall,
        fact: &Fact,
    ) -> Result<(), StoreError> {
        let Some(run) = fact.run() else {
            return Ok(());
        };
        let before = self.fetch(stored, run)?;
        let head = match (RunHead::registered(fact), before.clone()) {
            (Some(head), None) => {
                self.claim(stored, run)?;
                head?
            }
            (Some(_), Some(_)) => return Err(already_exists(run)),
            (None, None) => return Err(LedgerError::Run(run, "does not exist".to_owned()).into()),
            (None, Some(mut head)) => {
                head.apply(fact)?;
                head
            }
        };
        let plan = match fact {
            Fact::RunRegistered { plan, .. } | Fact::RunExtended { plan, .. } => Some(plan),
            Fact::RunResumed { plan, .. } => plan.as_ref(),
            _ => None,
        };
        if let Some(plan) = plan {
            self.changes.push(RunChange::PlanPart {
                run,
                generation: head.plan,
                part: seq,
                plan: Arc::clone(plan),
            });
        }
        if let Fact::RunResumed { carried, rerun, .. } = fact {
            let from = before.map_or(head.plan, |before| before.plan);
            self.changes.push(RunChange::Invalidate {
                run,
                plan: from,
                rerun: rerun.clone(),
            });
            if plan.is_some() {
                self.changes.push(RunChange::CarryOver {
                    run,
                    from,
                    to: head.plan,
                    carried: carried.clone(),
                });
            }
        }
        self.heads.insert(run, head);
        self.changed.insert(run, at);
        Ok(())
    }

    /// Records who has submitted a new run.
    pub(super) fn submitted(&mut self, run: RunId, by: &Arc<Principal>) {
        self.submitters.insert(run, Arc::clone(by));
    }

    /// The client that has submitted a new run, if it is known.
    pub(crate) fn submitter(&self, run: RunId) -> Option<&Principal> {
        self.submitters.get(&run).map(Arc::as_ref)
    }

    /// Claims an id that no run may have had, including removed ones.
    fn claim(&mut self, stored: &mut impl StoredRows, run: RunId) -> Result<(), StoreError> {
        let last = match self.last {
            Some(last) => last,
            None => stored.last_run()?,
        };
        if run <= last {
            return Err(already_exists(run));
        }
        self.last = Some(run);
        Ok(())
    }

    /// Records that an instance of a run has ended.
    pub(super) fn ended(
        &mut self,
        stored: &mut impl StoredRows,
        part: Part,
        instance: InstanceId,
        end: ItemEnd,
        outputs: Option<&Arc<str>>,
    ) -> Result<(), StoreError> {
        // Without a durable store, workers may hold instances of runs that no leader knows.
        let Some(head) = self.fetch(stored, part.run)? else {
            return Ok(());
        };
        if head.generation == part.generation {
            self.changes.push(RunChange::ItemEnded {
                part,
                plan: head.plan,
                instance,
                end,
                outputs: outputs.cloned(),
            });
        }
        Ok(())
    }

    /// The name of the workflow of a run.
    pub(super) fn name(
        &mut self,
        stored: &mut impl StoredRows,
        run: RunId,
    ) -> Result<Option<Arc<str>>, StoreError> {
        let head = self.fetch(stored, run)?;
        Ok(head.map(|head| head.name.into()))
    }

    /// Under which path a run is measured, and when it has begun.
    pub(super) fn path(
        &mut self,
        stored: &mut impl StoredRows,
        run: RunId,
    ) -> Result<Option<(TaskPath, Wall)>, StoreError> {
        let head = self.fetch(stored, run)?;
        let named = head.filter(|head| !head.name.is_empty());
        Ok(named.map(|head| (TaskPath::of_runs(&head.owner, &head.name), head.begun)))
    }

    fn fetch(
        &mut self,
        stored: &mut impl StoredRows,
        run: RunId,
    ) -> Result<Option<RunHead>, StoreError> {
        if let Some(head) = self.heads.get(&run) {
            return Ok(Some(head.clone()));
        }
        let head = stored.run(run)?;
        if let Some(head) = &head {
            self.heads.insert(run, head.clone());
        }
        Ok(head)
    }

    /// Runs whose head has changed, and when.
    pub(crate) fn heads(&self) -> impl Iterator<Item = (&RunHead, Wall)> {
        let changed = self.changed.iter();
        changed.filter_map(|(run, at)| Some((self.heads.get(run)?, *at)))
    }

    /// All other changes, in order.
    pub(crate) fn changes(&self) -> &[RunChange] {
        &self.changes
    }
}

fn already_exists(run: RunId) -> StoreError {
    LedgerError::Run(run, "already exists".to_owned()).into()
}
