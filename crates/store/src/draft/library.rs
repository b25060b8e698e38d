//! What a draft changes in the library.

use std::collections::BTreeSet;
use std::sync::Arc;

use baton_core::ledger::{Ledger, Task};
use baton_model::fact::Fact;
use baton_model::ids::{InstanceId, Revision, TaskNo};
use baton_model::library::{Definition, IdempotencyKey, TaskName, Trigger};
use baton_model::time::Wall;

use super::Kept;
use crate::StoreError;

/// A revision to be kept.
#[derive(Clone, Debug)]
pub(crate) struct NewRevision {
    pub(crate) task: TaskNo,
    pub(crate) revision: Revision,
    pub(crate) at: Wall,
    pub(crate) definition: Arc<Definition>,
}

/// What a request with a key has brought about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewKey {
    pub(crate) task: TaskNo,
    pub(crate) key: IdempotencyKey,
    pub(crate) instance: InstanceId,
}

/// A task as it is kept, without what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptTask {
    pub(crate) number: TaskNo,
    pub(crate) name: TaskName,
    pub(crate) revision: Revision,
    pub(crate) accounted: Wall,
    pub(crate) defined: bool,
}

/// Tasks that facts are about; how they stand is in the draft's ledger.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    pub(crate) touched: BTreeSet<TaskNo>,
    pub(crate) revisions: Vec<NewRevision>,
    pub(crate) keys: Vec<NewKey>,
}

impl Tasks {
    /// Lets the ledger learn one fact about the library, and notes what to keep of it.
    pub(crate) fn learn(
        &mut self,
        kept: &mut impl Kept,
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
                // Whoever has the name already is to be found there.
                if let Some(named) = kept.task_named(name)? {
                    self.fetch(kept, ledger, named)?;
                }
                self.fetch(kept, ledger, *task)?;
                self.revisions.push(NewRevision {
                    task: *task,
                    revision: *revision,
                    at,
                    definition: Arc::clone(definition),
                });
            }
            Fact::TaskRemoved { task, .. } | Fact::TickRecorded { task, .. } => {
                self.fetch(kept, ledger, *task)?;
            }
            Fact::InstanceTriggered {
                instance,
                task,
                key: Some(key),
                ..
            } => self.keys.push(NewKey {
                task: *task,
                key: *key,
                instance: *instance,
            }),
            _ => {}
        }
        ledger.apply(fact)?;
        self.touched.extend(fact.task());
        Ok(())
    }

    fn fetch(
        &mut self,
        kept: &mut impl Kept,
        ledger: &mut Ledger,
        number: TaskNo,
    ) -> Result<(), StoreError> {
        if ledger.library().task(number).is_some() {
            return Ok(());
        }
        if let Some(task) = kept.task(number)? {
            // No fact depends on what the definition says, only on whether there is one.
            let some = Definition {
                source: Arc::from(""),
                spec: None,
                trigger: Trigger::default(),
                file: None,
            };
            let definition = task.defined.then_some(&some);
            ledger.admit_task(Task::new(
                task.number,
                task.name,
                task.revision,
                task.accounted,
                definition,
            ));
        }
        Ok(())
    }

    /// Every task that was touched, as it stands now.
    pub(crate) fn changes<'a>(&'a self, ledger: &'a Ledger) -> impl Iterator<Item = KeptTask> + 'a {
        let tasks = self.touched.iter();
        let tasks = tasks.filter_map(|number| ledger.library().task(*number));
        tasks.map(|task| KeptTask {
            number: task.number,
            name: task.name.clone(),
            revision: task.revision,
            accounted: task.accounted,
            defined: task.is_defined(),
        })
    }
}
