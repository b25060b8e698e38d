//! The library in memory.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use baton_core::ledger::Task;
use baton_model::ids::{Revision, TaskNo};
use baton_model::library::{Created, Definition, IdempotencyKey, TaskName};
use baton_model::limits::IDEMPOTENCY_KEYS_MAX;
use baton_model::spec::InstanceSpec;
use baton_model::time::Wall;

use crate::change_set::{ChangeSet, NewKey, StoredTask};
use crate::view::{Page, RevisionRecord, TaskQuery, TaskRecord, page_limit};

type Revisions = BTreeMap<Revision, (Wall, Arc<Definition>)>;

/// Every task, with all its revisions.
#[derive(Debug, Default)]
pub(super) struct Library {
    tasks: BTreeMap<TaskNo, (StoredTask, Revisions)>,
    names: BTreeMap<TaskName, TaskNo>,
    keys: VecDeque<NewKey>,
}

impl Library {
    pub(super) fn write(&mut self, change_set: &ChangeSet<Arc<InstanceSpec>>) {
        for task in change_set.tasks() {
            self.names.insert(task.name.clone(), task.number);
            let revisions = self.tasks.remove(&task.number).map(|(_, it)| it);
            let revisions = revisions.unwrap_or_default();
            self.tasks.insert(task.number, (task, revisions));
        }
        for new in change_set.revisions() {
            if let Some((_, revisions)) = self.tasks.get_mut(&new.task) {
                let definition = Arc::clone(&new.definition);
                revisions.insert(new.revision, (new.at, definition));
            }
        }
        self.keys.extend(change_set.keys());
        let surplus = self.keys.len().saturating_sub(IDEMPOTENCY_KEYS_MAX);
        self.keys.drain(..surplus);
    }

    pub(super) fn stored(&self, number: TaskNo) -> Option<StoredTask> {
        self.tasks.get(&number).map(|(task, _)| task.clone())
    }

    pub(super) fn number_of(&self, name: &TaskName) -> Option<TaskNo> {
        self.names.get(name).copied()
    }

    /// Every task, for a new leader's ledger.
    pub(super) fn tasks(&self) -> Vec<Task> {
        let tasks = self.tasks.values().map(|(task, revisions)| {
            let definition = revisions.get(&task.revision).filter(|_| task.defined);
            Task::new(
                task.number,
                task.name.clone(),
                task.revision,
                task.accounted,
                definition.map(|(_, definition)| &**definition),
            )
        });
        tasks.collect()
    }

    pub(super) fn task_names(&self, numbers: &BTreeSet<TaskNo>) -> BTreeMap<TaskNo, TaskName> {
        let found = numbers.iter().filter_map(|number| self.stored(*number));
        found.map(|task| (task.number, task.name)).collect()
    }

    pub(super) fn keys(&self) -> Vec<(Option<TaskNo>, IdempotencyKey, Created)> {
        let keys = self.keys.iter();
        keys.map(|it| (it.task, it.key, it.created)).collect()
    }

    pub(super) fn record(&self, name: &TaskName, revision: Option<Revision>) -> Option<TaskRecord> {
        let (task, revisions) = self.tasks.get(self.names.get(name)?)?;
        if !task.defined && revision.is_none() {
            return None;
        }
        record(task, revisions, revision.unwrap_or(task.revision))
    }

    pub(super) fn page(&self, query: &TaskQuery) -> Page<TaskRecord, TaskName> {
        let limit = page_limit(query.limit);
        let after = query.after.clone().unwrap_or_default();
        let numbers = self.names.range(after..).map(|(_, number)| number);
        let tasks = numbers.filter_map(|number| self.tasks.get(number));
        let found = tasks
            .filter(|(task, _)| task.defined && query.after.as_ref() != Some(&task.name))
            .filter(|(task, _)| {
                let owner = query.owner.as_ref();
                owner.is_none_or(|owner| *owner == task.name.owner)
            })
            .filter_map(|(task, revisions)| record(task, revisions, task.revision));
        let found = found.take(limit + 1).collect();
        Page::from_lookahead(found, limit, |it: &TaskRecord| it.name.clone())
    }

    pub(super) fn revisions(
        &self,
        task: TaskNo,
        before: Option<Revision>,
        limit: usize,
    ) -> Page<RevisionRecord, Revision> {
        let limit = page_limit(limit);
        let before = before.unwrap_or(Revision(u32::MAX));
        let all = self.tasks.get(&task).map(|(_, revisions)| revisions);
        let found = all.into_iter().flat_map(|all| all.range(..before).rev());
        let found = found.map(|(revision, (at, definition))| RevisionRecord {
            revision: *revision,
            at: *at,
            definition: Arc::clone(definition),
        });
        let found = found.take(limit + 1).collect();
        Page::from_lookahead(found, limit, |it: &RevisionRecord| it.revision)
    }
}

fn record(task: &StoredTask, revisions: &Revisions, revision: Revision) -> Option<TaskRecord> {
    let (at, definition) = revisions.get(&revision)?;
    Some(TaskRecord {
        number: task.number,
        name: task.name.clone(),
        revision,
        current: task.defined && task.revision == revision,
        at: *at,
        definition: Arc::clone(definition),
    })
}
