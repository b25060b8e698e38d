//! What a draft changes about runs, in the order in which it happened.
//!
//! How a run stands is changed by the ledger's own rules, as everything else is. How far it is
//! follows from its plan and its items, and is nobody's business here.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_core::ledger::{LedgerError, RunHead};
use baton_model::fact::Fact;
use baton_model::ids::{Generation, InstanceId, RunId};
use baton_model::time::Wall;
use baton_model::workflow::{Carried, ItemEnd, ItemSpan, Part, Plan};

use super::Kept;
use crate::StoreError;
use crate::view::Seq;

/// One change to what is kept of a run beside how it stands.
#[derive(Clone, Debug)]
pub(crate) enum RunChange {
    /// A plan has come, or a part of one.
    Plan {
        run: RunId,
        generation: Generation,
        part: Seq,
        plan: Arc<Plan>,
    },
    /// An item has ended, under the plan of this generation. It ends once: what happens to an
    /// instance that is tried again afterwards is not the run's.
    Ended {
        part: Part,
        plan: Generation,
        instance: InstanceId,
        end: ItemEnd,
        outputs: Option<Arc<str>>,
    },
    /// Only what is DONE stays, and of that not what is to be done again.
    Again {
        run: RunId,
        plan: Generation,
        again: Vec<ItemSpan>,
    },
    /// What is carried over to another plan stays, and nothing else.
    Moved {
        run: RunId,
        from: Generation,
        to: Generation,
        carried: Vec<Carried>,
    },
}

/// Runs that facts are about.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    heads: BTreeMap<RunId, RunHead>,
    /// The last one that there ever was, once somebody had to know.
    last: Option<RunId>,
    changed: BTreeMap<RunId, Wall>,
    changes: Vec<RunChange>,
}

impl Runs {
    /// Takes one fact about a run in.
    pub(super) fn learn(
        &mut self,
        kept: &mut impl Kept,
        seq: Seq,
        at: Wall,
        fact: &Fact,
    ) -> Result<(), StoreError> {
        let Some(run) = fact.run() else {
            return Ok(());
        };
        let before = self.fetch(kept, run)?;
        let head = match (RunHead::registered(fact), before.clone()) {
            (Some(head), None) => {
                self.claim(kept, run)?;
                head?
            }
            (Some(_), Some(_)) => return Err(taken(run)),
            (None, None) => return Err(LedgerError::Run(run, "is not there".to_owned()).into()),
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
            self.changes.push(RunChange::Plan {
                run,
                generation: head.plan,
                part: seq,
                plan: Arc::clone(plan),
            });
        }
        if let Fact::RunResumed { carried, again, .. } = fact {
            let from = before.map_or(head.plan, |before| before.plan);
            self.changes.push(RunChange::Again {
                run,
                plan: from,
                again: again.clone(),
            });
            if plan.is_some() {
                self.changes.push(RunChange::Moved {
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

    /// Uses an id that nobody may have used, whatever became of the run that did.
    fn claim(&mut self, kept: &mut impl Kept, run: RunId) -> Result<(), StoreError> {
        let last = match self.last {
            Some(last) => last,
            None => kept.last_run()?,
        };
        if run <= last {
            return Err(taken(run));
        }
        self.last = Some(run);
        Ok(())
    }

    /// An instance of a run has ended.
    pub(super) fn ended(
        &mut self,
        kept: &mut impl Kept,
        part: Part,
        instance: InstanceId,
        end: ItemEnd,
        outputs: Option<&Arc<str>>,
    ) -> Result<(), StoreError> {
        // Without a store workers may hold instances of runs that nobody remembers.
        let Some(head) = self.fetch(kept, part.run)? else {
            return Ok(());
        };
        if head.generation == part.generation {
            self.changes.push(RunChange::Ended {
                part,
                plan: head.plan,
                instance,
                end,
                outputs: outputs.cloned(),
            });
        }
        Ok(())
    }

    fn fetch(&mut self, kept: &mut impl Kept, run: RunId) -> Result<Option<RunHead>, StoreError> {
        if let Some(head) = self.heads.get(&run) {
            return Ok(Some(head.clone()));
        }
        let head = kept.run(run)?;
        if let Some(head) = &head {
            self.heads.insert(run, head.clone());
        }
        Ok(head)
    }

    /// Runs that stand elsewhere than before, and since when.
    pub(crate) fn heads(&self) -> impl Iterator<Item = (&RunHead, Wall)> {
        let changed = self.changed.iter();
        changed.filter_map(|(run, at)| Some((self.heads.get(run)?, *at)))
    }

    /// Everything else, in order.
    pub(crate) fn changes(&self) -> &[RunChange] {
        &self.changes
    }
}

fn taken(run: RunId) -> StoreError {
    LedgerError::Run(run, "is there already".to_owned()).into()
}
