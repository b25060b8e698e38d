//! The tasks of the library: their triggers, how far their schedules are accounted for, their
//! numbers of active instances.
//!
//! A removed task stays, without a definition, so that its number and revisions are never reused.
//! Specs are stored packed.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_model::ids::{Revision, TaskNo};
use baton_model::library::{Definition, TaskName, Trigger};
use baton_model::limits::TASKS_MAX;
use baton_model::spec::InstanceSpec;
use baton_model::time::Wall;

use super::LedgerError;

/// A task of the library.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Task {
    pub number: TaskNo,
    pub name: TaskName,
    /// Its latest revision.
    pub revision: Revision,
    /// Every due time up to this one has a record.
    pub accounted: Wall,
    /// None if it was removed.
    definition: Option<PackedDefinition>,
}

/// A definition with its spec packed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PackedDefinition {
    trigger: Box<Trigger>,
    file: Option<Box<str>>,
    spec: Option<Box<[u8]>>,
    source: Arc<str>,
}

impl PackedDefinition {
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
            definition: definition.map(PackedDefinition::new),
        }
    }

    /// False if it was removed.
    #[must_use]
    pub const fn is_defined(&self) -> bool {
        self.definition.is_some()
    }

    #[must_use]
    pub fn trigger(&self) -> Option<&Trigger> {
        Some(&self.definition.as_ref()?.trigger)
    }

    /// The library file that defines it.
    #[must_use]
    pub fn file(&self) -> Option<&str> {
        self.definition.as_ref()?.file.as_deref()
    }

    /// The spec of an instance with default parameters; none if a parameter has no default.
    #[must_use]
    pub fn spec(&self) -> Option<InstanceSpec> {
        let packed = self.definition.as_ref()?.spec.as_deref()?;
        let spec = postcard::from_bytes(packed);
        Some(spec.expect("only `PackedDefinition::new` packs, and what it packs can be read"))
    }

    /// Whether a definition equals the current one.
    #[must_use]
    pub fn matches(&self, definition: &Definition) -> bool {
        self.definition.as_ref() == Some(&PackedDefinition::new(definition))
    }
}

/// All tasks of the library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Library {
    tasks: BTreeMap<TaskNo, Task>,
    names: BTreeMap<TaskName, TaskNo>,
    /// Number of instances that are QUEUED or later, and not terminal.
    active: BTreeMap<TaskNo, u64>,
}

impl Library {
    /// The task of that number, including removed ones.
    #[must_use]
    pub fn task(&self, number: TaskNo) -> Option<&Task> {
        self.tasks.get(&number)
    }

    /// The task of that name, including removed ones.
    #[must_use]
    pub fn find(&self, name: &TaskName) -> Option<&Task> {
        self.tasks.get(self.names.get(name)?)
    }

    /// Every task, including removed ones.
    pub fn tasks(&self) -> impl Iterator<Item = &Task> + '_ {
        self.tasks.values()
    }

    /// The number of the next new task; none if the library is full.
    #[must_use]
    pub fn next_number(&self) -> Option<TaskNo> {
        let last = self.tasks.last_key_value().map(|(number, _)| *number);
        (self.tasks.len() < TASKS_MAX).then(|| last.unwrap_or_default().next())
    }

    /// Number of its instances in flight.
    #[must_use]
    pub fn active(&self, task: TaskNo) -> u64 {
        self.active.get(&task).copied().unwrap_or(0)
    }

    /// Adds or replaces a task.
    pub fn admit(&mut self, task: Task) {
        self.names.insert(task.name.clone(), task.number);
        self.tasks.insert(task.number, task);
    }

    /// Adds `by` to the number of active instances of a spec's task.
    pub(super) fn count_active(&mut self, spec: &InstanceSpec, by: i64) {
        let Some(origin) = spec.origin else { return };
        let active = self.active.entry(origin.task).or_default();
        *active = active.saturating_add_signed(by);
        if *active == 0 {
            self.active.remove(&origin.task);
        }
    }

    pub(super) fn define(
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

    pub(super) fn remove(&mut self, number: TaskNo) -> Result<(), LedgerError> {
        match self.tasks.get_mut(&number) {
            Some(task) if task.is_defined() => {
                task.definition = None;
                Ok(())
            }
            _ => Err(LedgerError::Library(
                number,
                "does not exist and cannot be removed",
            )),
        }
    }

    /// Accounts for due times, none of which may have a record already.
    pub(super) fn record_tick(
        &mut self,
        number: TaskNo,
        first: Wall,
        last: Wall,
    ) -> Result<(), LedgerError> {
        let Some(task) = self.tasks.get_mut(&number) else {
            return Err(LedgerError::Library(
                number,
                "does not exist and cannot be due",
            ));
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
