//! The tasks and workflows of the library: their triggers, how far their schedules are accounted
//! for, their active instances and runs.
//!
//! A removed entry stays, without a definition, so that its number and revisions are never reused.
//! Specs are stored packed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_model::ids::{InstanceId, Revision, RunId, TaskNo};
use baton_model::library::{Definition, EntryKind, Execution, Pause, TaskName, Trigger};
use baton_model::limits::TASKS_MAX;
use baton_model::spec::InstanceSpec;
use baton_model::state::UniversalState;
use baton_model::time::Wall;
use baton_model::workflow::Plan;

use super::{Backfills, LedgerError};
use crate::clock::{Zone, nominal};
use crate::workflow::bind;

/// What a launch of an entry executes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// The spec of an instance.
    Spec(Box<InstanceSpec>),
    /// The plan of a run.
    Plan(Arc<Plan>),
}

/// A task or a workflow of the library.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Task {
    pub number: TaskNo,
    pub name: TaskName,
    /// Its latest revision.
    pub revision: Revision,
    /// Every due time up to this one has a record.
    pub accounted: Wall,
    /// The number of launches with a due time, ever: by its schedule, or by backfills.
    pub launches: u64,
    /// Its pause, which outlasts revisions and removal.
    pub pause: Option<Pause>,
    /// None if it was removed.
    definition: Option<PackedDefinition>,
}

/// A definition with its spec packed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PackedDefinition {
    trigger: Box<Trigger>,
    file: Option<Box<str>>,
    kind: EntryKind,
    spec: Option<Box<[u8]>>,
    plan: Option<Arc<Plan>>,
    nominal_params: BTreeMap<String, String>,
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
            kind: definition.kind,
            spec: definition.spec.as_ref().map(pack),
            plan: definition.plan.clone(),
            nominal_params: definition.nominal_params.clone(),
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
            launches: 0,
            pause: None,
            definition: definition.map(PackedDefinition::new),
        }
    }

    /// The same with a pause, if there is one, and a number of launches.
    #[must_use]
    pub fn with_history(self, pause: Option<Pause>, launches: u64) -> Self {
        Self {
            pause,
            launches,
            ..self
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

    /// The kind of its current definition.
    #[must_use]
    pub fn kind(&self) -> Option<EntryKind> {
        Some(self.definition.as_ref()?.kind)
    }

    /// What a launch with default parameters executes; none if a parameter has no default.
    /// `nominal` is the time that defaults may refer to.
    #[must_use]
    pub fn payload(&self, nominal: Wall) -> Option<Payload> {
        let definition = self.definition.as_ref()?;
        let params = nominal_values(&definition.nominal_params, &definition.trigger, nominal);
        match definition.kind {
            EntryKind::Workflow => {
                let plan = definition.plan.as_ref()?;
                Some(Payload::Plan(bind::plan(plan, params)))
            }
            EntryKind::Task => {
                let spec = postcard::from_bytes(definition.spec.as_deref()?);
                let mut spec: Box<InstanceSpec> =
                    Box::new(spec.expect(
                        "only `PackedDefinition::new` packs, and what it packs can be read",
                    ));
                bind::params(&mut spec, &params);
                Some(Payload::Spec(spec))
            }
        }
    }

    /// Whether a definition equals the current one.
    #[must_use]
    pub fn matches(&self, definition: &Definition) -> bool {
        self.definition.as_ref() == Some(&PackedDefinition::new(definition))
    }
}

/// The values of parameters whose defaults refer to the nominal time.
#[must_use]
pub fn nominal_values(
    defaults: &BTreeMap<String, String>,
    trigger: &Trigger,
    at: Wall,
) -> BTreeMap<String, String> {
    if defaults.is_empty() {
        return BTreeMap::new();
    }
    // A zone that another version of Baton knew is not worth a failure: its schedule is not due.
    let zone = trigger.schedule.as_ref();
    let zone = zone.and_then(|schedule| Zone::named(&schedule.zone).ok());
    let zone = zone.unwrap_or(Zone::UTC);
    let value = |(name, text): (&String, &String)| (name.clone(), nominal::render(text, at, &zone));
    defaults.iter().map(value).collect()
}

/// Instances and runs of an entry that are QUEUED or later, and not terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Active {
    pub instances: BTreeSet<InstanceId>,
    pub runs: BTreeSet<RunId>,
    /// Those of the runs that are QUEUED.
    pub queued_runs: BTreeSet<RunId>,
}

impl Active {
    /// Their number.
    #[must_use]
    pub fn count(&self) -> u64 {
        let count = self.instances.len().saturating_add(self.runs.len());
        u64::try_from(count).unwrap_or(u64::MAX)
    }
}

/// All entries of the library.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Library {
    tasks: BTreeMap<TaskNo, Task>,
    names: BTreeMap<TaskName, TaskNo>,
    /// Only entries with something in flight.
    active: BTreeMap<TaskNo, Active>,
    /// Entries of which something has ended while others are in flight, since the leader last
    /// looked. No store has them.
    freed: BTreeSet<TaskNo>,
    backfills: Backfills,
}

impl Library {
    /// The entry of that number, including removed ones.
    #[must_use]
    pub fn task(&self, number: TaskNo) -> Option<&Task> {
        self.tasks.get(&number)
    }

    /// The entry of that name, including removed ones.
    #[must_use]
    pub fn find(&self, name: &TaskName) -> Option<&Task> {
        self.tasks.get(self.names.get(name)?)
    }

    /// Every entry, including removed ones.
    pub fn tasks(&self) -> impl Iterator<Item = &Task> + '_ {
        self.tasks.values()
    }

    /// The number of the next new entry; none if the library is full.
    #[must_use]
    pub fn next_number(&self) -> Option<TaskNo> {
        let last = self.tasks.last_key_value().map(|(number, _)| *number);
        (self.tasks.len() < TASKS_MAX).then(|| last.unwrap_or_default().next())
    }

    /// Its instances and runs in flight, if there are any.
    #[must_use]
    pub fn active(&self, task: TaskNo) -> Option<&Active> {
        self.active.get(&task)
    }

    /// Number of its instances and runs in flight.
    #[must_use]
    pub fn active_count(&self, task: TaskNo) -> u64 {
        self.active(task).map_or(0, Active::count)
    }

    #[must_use]
    pub const fn backfills(&self) -> &Backfills {
        &self.backfills
    }

    /// Mutable access for the leader, which changes transient state only, and for restoring.
    pub const fn backfills_mut(&mut self) -> &mut Backfills {
        &mut self.backfills
    }

    /// Adds or replaces an entry.
    pub fn admit(&mut self, task: Task) {
        self.names.insert(task.name.clone(), task.number);
        self.tasks.insert(task.number, task);
    }

    /// Adds instances of a spec's task to those in flight, or removes them.
    pub(super) fn set_active(
        &mut self,
        spec: &InstanceSpec,
        (first, last): (InstanceId, InstanceId),
        active: bool,
    ) {
        let Some(origin) = spec.origin else { return };
        for id in first.0..=last.0 {
            let execution = Execution::Instance(InstanceId(id));
            self.backfills.set_live(execution, active);
        }
        self.change_active(origin.task, |set| {
            for id in first.0..=last.0 {
                if active {
                    set.instances.insert(InstanceId(id));
                } else {
                    set.instances.remove(&InstanceId(id));
                }
            }
        });
    }

    /// Sets the state of a run of an entry; only those that are not terminal are in flight.
    pub(super) fn set_active_run(&mut self, task: TaskNo, run: RunId, state: UniversalState) {
        let is_active = !state.is_terminal();
        self.backfills.set_live(Execution::Run(run), is_active);
        self.change_active(task, |set| {
            if is_active {
                set.runs.insert(run);
            } else {
                set.runs.remove(&run);
            }
            if state == UniversalState::Queued {
                set.queued_runs.insert(run);
            } else {
                set.queued_runs.remove(&run);
            }
        });
    }

    fn change_active(&mut self, task: TaskNo, change: impl FnOnce(&mut Active)) {
        let active = self.active.entry(task).or_default();
        let before = active.count();
        change(active);
        let now = active.count();
        if now < before {
            self.backfills.mark_task(task);
        }
        if now == 0 {
            self.active.remove(&task);
        } else if now < before {
            self.freed.insert(task);
        }
    }

    /// Removes and returns an entry of which something has ended.
    pub fn next_freed(&mut self) -> Option<TaskNo> {
        self.freed.pop_first()
    }

    /// Drops what only a leader knows.
    pub(super) fn forget_transient(&mut self) {
        self.freed.clear();
        self.backfills.forget_transient();
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
        let pause = before.and_then(|before| before.pause.clone());
        let launches = before.map_or(0, |before| before.launches);
        let task = Task::new(number, name.clone(), revision, accounted, Some(definition));
        self.admit(task.with_history(pause, launches));
        self.backfills.mark_task(number);
        Ok(())
    }

    pub(super) fn remove(&mut self, number: TaskNo) -> Result<(), LedgerError> {
        match self.tasks.get_mut(&number) {
            Some(task) if task.is_defined() => {
                task.definition = None;
                self.backfills.mark_task(number);
                Ok(())
            }
            _ => Err(LedgerError::Library(
                number,
                "does not exist and cannot be removed",
            )),
        }
    }

    /// Pauses an entry, or ends its pause.
    pub(crate) fn set_pause(
        &mut self,
        number: TaskNo,
        pause: Option<Pause>,
    ) -> Result<(), LedgerError> {
        match self.tasks.get_mut(&number) {
            Some(task) if task.is_defined() => {
                task.pause = pause;
                Ok(())
            }
            _ => Err(LedgerError::Library(
                number,
                "does not exist and cannot be paused",
            )),
        }
    }

    /// Counts a launch with a due time.
    pub(super) fn count_launch(&mut self, number: TaskNo) -> Result<(), LedgerError> {
        match self.tasks.get_mut(&number) {
            Some(task) => {
                task.launches += 1;
                Ok(())
            }
            None => Err(LedgerError::Library(
                number,
                "does not exist and cannot be launched",
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
