//! Changes to the library.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_core::ledger::{Ledger, OpenBackfill, Task};
use baton_model::backfill::{Backfill, BackfillState};
use baton_model::fact::Fact;
use baton_model::ids::{BackfillId, Revision, TaskNo};
use baton_model::library::{
    Cause, Created, Definition, Execution, IdempotencyKey, Pause, TaskName,
};
use baton_model::time::Wall;

use super::StoredRows;
use crate::StoreError;

/// A revision to store.
#[derive(Clone, Debug)]
pub(crate) struct NewRevision {
    pub(crate) task: TaskNo,
    pub(crate) revision: Revision,
    pub(crate) at: Wall,
    pub(crate) definition: Arc<Definition>,
}

/// An idempotency key and what its request has created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewKey {
    /// The task that was triggered; none for a submission.
    pub(crate) task: Option<TaskNo>,
    pub(crate) key: IdempotencyKey,
    pub(crate) created: Created,
}

/// A launched due time to store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewLaunch {
    pub(crate) task: TaskNo,
    pub(crate) nominal: Wall,
    pub(crate) execution: Execution,
    pub(crate) backfill: Option<BackfillId>,
}

/// A task's row, without its definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredTask {
    pub(crate) number: TaskNo,
    pub(crate) name: TaskName,
    pub(crate) revision: Revision,
    pub(crate) accounted: Wall,
    pub(crate) defined: bool,
    pub(crate) pause: Option<Pause>,
    pub(crate) launches: u64,
}

/// Tasks touched by facts; their state is in the change set's ledger.
#[derive(Debug, Default)]
pub(crate) struct TaskChanges {
    pub(crate) touched: BTreeSet<TaskNo>,
    pub(crate) revisions: Vec<NewRevision>,
    pub(crate) keys: Vec<NewKey>,
    pub(crate) launches: Vec<NewLaunch>,
    /// Touched backfills, in their new state.
    pub(crate) backfills: BTreeMap<BackfillId, Backfill>,
    /// The due times that a backfill does not launch, if they have changed; none if it is not
    /// running any more.
    pub(crate) taken: BTreeMap<BackfillId, Option<Vec<Wall>>>,
}

impl TaskChanges {
    /// Applies one fact about the library to the ledger, and records the rows to write.
    pub(crate) fn apply_fact(
        &mut self,
        stored: &mut impl StoredRows,
        ledger: &mut Ledger,
        at: Wall,
        fact: &Fact,
    ) -> Result<(), StoreError> {
        match fact {
            Fact::TaskDefined {
                task,
                name,
                revision,
                definition,
                ..
            } => {
                // The ledger must see a task that already has the name.
                if let Some(named) = stored.task_named(name)? {
                    self.fetch(stored, ledger, named)?;
                }
                self.fetch(stored, ledger, *task)?;
                self.revisions.push(NewRevision {
                    task: *task,
                    revision: *revision,
                    at,
                    definition: Arc::clone(definition),
                });
            }
            Fact::TaskRemoved { task, .. }
            | Fact::TaskPaused { task, .. }
            | Fact::TaskUnpaused { task, .. } => {
                self.fetch(stored, ledger, *task)?;
            }
            Fact::BackfillRegistered { .. }
            | Fact::BackfillHalted { .. }
            | Fact::BackfillResumed { .. }
            | Fact::BackfillEnded { .. }
            | Fact::BackfillCancelled { .. } => return self.apply_backfill(stored, ledger, fact),
            Fact::Launched { .. } => return self.apply_launch(stored, ledger, fact),
            Fact::KeyRecorded { key, created } => self.record_key(None, Some(key), *created),
            _ => {}
        }
        ledger.apply(fact)?;
        self.touched.extend(fact.task());
        Ok(())
    }

    /// Applies the record of a launch.
    fn apply_launch(
        &mut self,
        stored: &mut impl StoredRows,
        ledger: &mut Ledger,
        fact: &Fact,
    ) -> Result<(), StoreError> {
        let Fact::Launched {
            entry,
            cause,
            execution,
            ..
        } = fact
        else {
            return Ok(());
        };
        if let Cause::Request { key, .. } = cause {
            if let Some(execution) = *execution {
                self.record_key(Some(*entry), key.as_ref(), execution.into());
            }
            return Ok(());
        }
        if let Cause::Backfill { nominal, backfill } = cause {
            self.record_launch(*entry, *nominal, *execution, Some(*backfill));
            return self.apply_backfill(stored, ledger, fact);
        }
        self.fetch(stored, ledger, *entry)?;
        ledger.apply(fact)?;
        self.touched.insert(*entry);
        if let Cause::Due { first, .. } = cause {
            self.record_launch(*entry, *first, *execution, None);
        }
        Ok(())
    }

    /// Applies one fact about a backfill.
    fn apply_backfill(
        &mut self,
        stored: &mut impl StoredRows,
        ledger: &mut Ledger,
        fact: &Fact,
    ) -> Result<(), StoreError> {
        let (Some(id), Some(task)) = (fact.backfill(), fact.task()) else {
            return Ok(());
        };
        self.fetch(stored, ledger, task)?;
        self.fetch_backfill(stored, ledger, id)?;
        ledger.apply(fact)?;
        self.touched.insert(task);
        match fact {
            Fact::BackfillRegistered { taken, .. } | Fact::BackfillResumed { taken, .. } => {
                self.taken.insert(id, Some(taken.clone()));
            }
            Fact::BackfillHalted { .. }
            | Fact::BackfillEnded { .. }
            | Fact::BackfillCancelled { .. } => {
                self.taken.insert(id, None);
            }
            _ => {}
        }
        // The ledger drops what has ended.
        let (state, at) = match fact {
            Fact::BackfillEnded { at, .. } => (BackfillState::Done, *at),
            Fact::BackfillCancelled { at, .. } => (BackfillState::Cancelled, *at),
            _ => {
                let open = ledger.library().backfills().get(id);
                self.backfills
                    .extend(open.map(|open| (id, open.head.clone())));
                return Ok(());
            }
        };
        if let Some(head) = self.backfills.get_mut(&id) {
            head.state = state;
            head.changed_at = at;
        }
        Ok(())
    }

    fn record_launch(
        &mut self,
        task: TaskNo,
        nominal: Wall,
        execution: Option<Execution>,
        backfill: Option<BackfillId>,
    ) {
        self.launches.extend(execution.map(|execution| NewLaunch {
            task,
            nominal,
            execution,
            backfill,
        }));
    }

    fn fetch_backfill(
        &mut self,
        stored: &mut impl StoredRows,
        ledger: &mut Ledger,
        id: BackfillId,
    ) -> Result<(), StoreError> {
        if self.backfills.contains_key(&id) {
            return Ok(());
        }
        let backfills = ledger.library_mut().backfills_mut();
        backfills.restore_last(stored.last_backfill()?);
        let head = stored.backfill(id)?;
        if let Some(head) = head.filter(|head| head.state.is_open()) {
            self.backfills.insert(id, head.clone());
            // Which due times are taken, and which launches it has, changes no row.
            backfills.admit(OpenBackfill::new(head, [], []));
        }
        Ok(())
    }

    /// Records the key of a request, if it has one, and what the request has created.
    fn record_key(&mut self, task: Option<TaskNo>, key: Option<&IdempotencyKey>, created: Created) {
        let key = key.copied();
        self.keys
            .extend(key.map(|key| NewKey { task, key, created }));
    }

    fn fetch(
        &mut self,
        stored: &mut impl StoredRows,
        ledger: &mut Ledger,
        number: TaskNo,
    ) -> Result<(), StoreError> {
        if ledger.library().task(number).is_some() {
            return Ok(());
        }
        if let Some(task) = stored.task(number)? {
            // No fact depends on the content of a definition, only on whether there is one.
            let some = Definition::default();
            let definition = task.defined.then_some(&some);
            let fetched = Task::new(
                task.number,
                task.name,
                task.revision,
                task.accounted,
                definition,
            );
            ledger.admit_task(fetched.with_history(task.pause, task.launches));
        }
        Ok(())
    }

    /// Every touched task, in its new state.
    pub(crate) fn changes<'a>(
        &'a self,
        ledger: &'a Ledger,
    ) -> impl Iterator<Item = StoredTask> + 'a {
        let tasks = self.touched.iter();
        let tasks = tasks.filter_map(|number| ledger.library().task(*number));
        tasks.map(|task| StoredTask {
            number: task.number,
            name: task.name.clone(),
            revision: task.revision,
            accounted: task.accounted,
            defined: task.is_defined(),
            pause: task.pause.clone(),
            launches: task.launches,
        })
    }
}
