//! The tasks of the library as a leader knows them: what starts them, how far their schedules
//! are accounted for, how many of their instances are on their way, and which requests have
//! triggered them.
//!
//! A task that was removed stays, without a definition: its number and the count of its
//! revisions are never used again. What an instance of it asks for is kept packed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use baton_model::ids::{InstanceId, Revision, TaskNo};
use baton_model::library::{Definition, IdempotencyKey, TaskName, Trigger, TriggerRecord};
use baton_model::limits::{IDEMPOTENCY_KEYS_MAX, TASKS_MAX};
use baton_model::spec::InstanceSpec;
use baton_model::time::Wall;

use super::LedgerError;

/// One task.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Task {
    /// Its number.
    pub number: TaskNo,
    pub name: TaskName,
    /// The last revision that it had.
    pub revision: Revision,
    /// Every due time up to this has its record.
    pub accounted: Wall,
    /// What it is now; nothing if it was removed.
    defined: Option<Defined>,
}

/// A definition, in little room.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Defined {
    trigger: Box<Trigger>,
    file: Option<Box<str>>,
    spec: Option<Box<[u8]>>,
    source: Arc<str>,
}

impl Defined {
    fn new(definition: &Definition) -> Self {
        let pack = |spec: &Arc<InstanceSpec>| {
            let packed = postcard::to_stdvec(&**spec);
            packed.expect("a spec is plain data").into()
        };
        Self {
            source: Arc::clone(&definition.source),
            trigger: Box::new(definition.trigger.clone()),
            file: definition.file.as_deref().map(Box::from),
            spec: definition.spec.as_ref().map(pack),
        }
    }
}

impl Task {
    /// A task as it was kept.
    #[must_use]
    pub fn new(
        number: TaskNo,
        name: TaskName,
        revision: Revision,
        accounted: Wall,
        definition: Option<&Definition>,
    ) -> Self {
        Self {
            number,
            name,
            revision,
            accounted,
            defined: definition.map(Defined::new),
        }
    }

    /// True if it is in the library.
    #[must_use]
    pub const fn is_defined(&self) -> bool {
        self.defined.is_some()
    }

    /// What starts it, if it is in the library.
    #[must_use]
    pub fn trigger(&self) -> Option<&Trigger> {
        Some(&self.defined.as_ref()?.trigger)
    }

    /// The file that it comes from.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        self.defined.as_ref()?.file.as_deref()
    }

    /// What an instance asks for where nobody says otherwise; nothing if a parameter must be
    /// given.
    #[must_use]
    pub fn spec(&self) -> Option<InstanceSpec> {
        let packed = self.defined.as_ref()?.spec.as_deref()?;
        let spec = postcard::from_bytes(packed);
        Some(spec.expect("only `Defined::new` packs, and what it packs can be read"))
    }

    /// Whether a definition says what the task says already.
    #[must_use]
    pub fn says(&self, definition: &Definition) -> bool {
        self.defined.as_ref() == Some(&Defined::new(definition))
    }
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Library {
    tasks: BTreeMap<TaskNo, Task>,
    names: BTreeMap<TaskName, TaskNo>,
    /// Instances that are QUEUED or further, and not at an end.
    active: BTreeMap<TaskNo, u64>,
    keys: BTreeMap<(TaskNo, (u64, u64)), TriggerRecord>,
    /// The keys in the order in which they came.
    recent: VecDeque<(TaskNo, (u64, u64))>,
}

impl Library {
    /// The task of that number, removed ones included.
    #[must_use]
    pub fn task(&self, number: TaskNo) -> Option<&Task> {
        self.tasks.get(&number)
    }

    /// The task of that name, removed ones included.
    #[must_use]
    pub fn find(&self, name: &TaskName) -> Option<&Task> {
        self.tasks.get(self.names.get(name)?)
    }

    /// Every task, removed ones included.
    pub fn tasks(&self) -> impl Iterator<Item = &Task> + '_ {
        self.tasks.values()
    }

    /// The number of the next new task; nothing if there are too many.
    #[must_use]
    pub fn next_number(&self) -> Option<TaskNo> {
        let last = self.tasks.last_key_value().map(|(number, _)| *number);
        (self.tasks.len() < TASKS_MAX).then(|| last.unwrap_or_default().next())
    }

    /// How many of its instances are on their way.
    #[must_use]
    pub fn active(&self, task: TaskNo) -> u64 {
        self.active.get(&task).copied().unwrap_or(0)
    }

    /// What a key has brought about.
    #[must_use]
    pub fn triggered(&self, task: TaskNo, key: &IdempotencyKey) -> Option<TriggerRecord> {
        self.keys.get(&(task, key.key)).copied()
    }

    /// Takes in a task as it was kept.
    pub fn admit(&mut self, task: Task) {
        self.names.insert(task.name.clone(), task.number);
        self.tasks.insert(task.number, task);
    }

    /// Remembers what a request has brought about. The oldest are forgotten when there are
    /// too many.
    pub fn remember(&mut self, task: TaskNo, key: &IdempotencyKey, instance: InstanceId) {
        let request = key.request;
        let key = (task, key.key);
        if self
            .keys
            .insert(key, TriggerRecord { instance, request })
            .is_none()
        {
            self.recent.push_back(key);
        }
        if self.recent.len() > IDEMPOTENCY_KEYS_MAX
            && let Some(oldest) = self.recent.pop_front()
        {
            self.keys.remove(&oldest);
        }
    }

    /// So many more instances of a spec are on their way, or so many fewer.
    pub(super) fn count(&mut self, spec: &InstanceSpec, by: i64) {
        let Some(origin) = spec.origin else { return };
        let active = self.active.entry(origin.task).or_default();
        *active = active.saturating_add_signed(by);
        if *active == 0 {
            self.active.remove(&origin.task);
        }
    }

    pub(super) fn defined(
        &mut self,
        number: TaskNo,
        name: &TaskName,
        revision: Revision,
        from: Wall,
        definition: &Definition,
    ) -> Result<(), LedgerError> {
        let before = self.tasks.get(&number);
        let fits = match before {
            Some(before) => before.name == *name && before.revision < revision,
            None => !self.names.contains_key(name),
        };
        if !fits {
            return Err(LedgerError::Library(number, "cannot have that revision"));
        }
        let accounted = before.map_or(from, |before| before.accounted.max(from));
        self.admit(Task::new(
            number,
            name.clone(),
            revision,
            accounted,
            Some(definition),
        ));
        Ok(())
    }

    pub(super) fn removed(&mut self, number: TaskNo) -> Result<(), LedgerError> {
        match self.tasks.get_mut(&number) {
            Some(task) if task.is_defined() => {
                task.defined = None;
                Ok(())
            }
            _ => Err(LedgerError::Library(number, "is not there to be removed")),
        }
    }

    /// A record of due times: none of them may have one already.
    pub(super) fn ticked(
        &mut self,
        number: TaskNo,
        first: Wall,
        last: Wall,
    ) -> Result<(), LedgerError> {
        let Some(task) = self.tasks.get_mut(&number) else {
            return Err(LedgerError::Library(number, "is not there to be due"));
        };
        if first > last || first <= task.accounted {
            return Err(LedgerError::Library(
                number,
                "has a record of that time already",
            ));
        }
        task.accounted = last;
        Ok(())
    }
}
