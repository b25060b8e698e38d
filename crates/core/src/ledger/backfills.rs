//! Open backfills: how far each has come, and which of its launches are in flight.
//!
//! One that has ended is dropped: the store has its record.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::backfill::{Backfill, BackfillState};
use baton_model::fact::Fact;
use baton_model::ids::{BackfillId, TaskNo};
use baton_model::library::{Cause, Execution};
use baton_model::time::Wall;

use super::LedgerError;
use crate::limits::Limit;

/// A backfill that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OpenBackfill {
    pub head: Backfill,
    /// Due times ahead of it that have a launch already; none while it is halted.
    taken: BTreeSet<Wall>,
    /// Everything that it has launched.
    launches: BTreeSet<Execution>,
    /// Those of them in flight.
    live: BTreeSet<Execution>,
}

impl OpenBackfill {
    /// A backfill as a store has it. What is in flight follows from its instances and runs.
    #[must_use]
    pub fn new(
        head: Backfill,
        taken: impl IntoIterator<Item = Wall>,
        launches: impl IntoIterator<Item = Execution>,
    ) -> Self {
        let taken = taken.into_iter().filter(|at| head.is_ahead(*at)).collect();
        Self {
            head,
            taken,
            launches: launches.into_iter().collect(),
            live: BTreeSet::new(),
        }
    }

    /// The limit on its launches in flight.
    #[must_use]
    pub fn limit(&self) -> Limit {
        Limit {
            total: u64::from(self.head.max_concurrent),
            used: self.live.len() as u128,
        }
    }

    #[must_use]
    pub fn is_running(&self) -> bool {
        self.head.state == BackfillState::Running
    }

    /// Number of its launches in flight.
    #[must_use]
    pub fn live_count(&self) -> usize {
        self.live.len()
    }

    /// Whether a due time ahead of it has a launch already.
    #[must_use]
    pub fn is_taken(&self, at: Wall) -> bool {
        self.taken.contains(&at)
    }

    /// Passes all due times up to one that is launched.
    fn launch(&mut self, nominal: Wall, execution: Option<Execution>) -> Result<(), LedgerError> {
        let head = &mut self.head;
        let Some(remaining) = head.remaining.checked_sub(1) else {
            return Err(LedgerError::Backfill(head.id, "has nothing left to launch"));
        };
        if head.state != BackfillState::Running
            || !head.is_ahead(nominal)
            || self.taken.contains(&nominal)
        {
            return Err(LedgerError::Backfill(head.id, "cannot launch that time"));
        }
        head.remaining = remaining;
        head.launched += 1;
        head.last = Some(nominal);
        if head.range.reverse {
            drop(self.taken.split_off(&nominal));
        } else {
            self.taken = self.taken.split_off(&nominal);
        }
        self.launches.extend(execution);
        Ok(())
    }

    fn set_state(&mut self, state: BackfillState, at: Wall) -> Result<(), LedgerError> {
        use BackfillState::{Cancelled, Done, Halted, Running};
        let head = &mut self.head;
        match (head.state, state) {
            (Running, Halted(_) | Done | Cancelled) | (Halted(_), Running | Cancelled) => {
                head.state = state;
                head.changed_at = at;
                Ok(())
            }
            _ => Err(LedgerError::Backfill(
                head.id,
                "cannot change to that state",
            )),
        }
    }
}

/// The backfills that have not ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Backfills {
    open: BTreeMap<BackfillId, OpenBackfill>,
    /// The backfill of each of their launches.
    members: BTreeMap<Execution, BackfillId>,
    /// The highest id ever used.
    last: BackfillId,
    /// Those that may have to launch something, since the leader last looked. No store has them.
    dirty: BTreeSet<BackfillId>,
}

impl Backfills {
    /// The backfill of that id, unless it has ended.
    #[must_use]
    pub fn get(&self, id: BackfillId) -> Option<&OpenBackfill> {
        self.open.get(&id)
    }

    /// Every backfill that has not ended.
    pub fn iter(&self) -> impl Iterator<Item = &OpenBackfill> + '_ {
        self.open.values()
    }

    /// The highest id ever used.
    #[must_use]
    pub const fn last(&self) -> BackfillId {
        self.last
    }

    /// The running backfill of an entry.
    #[must_use]
    pub fn running(&self, task: TaskNo) -> Option<BackfillId> {
        let mut of_task = self.iter().filter(|it| it.head.task == task);
        of_task
            .find(|it| it.is_running())
            .map(|backfill| backfill.head.id)
    }

    /// Restores a backfill. To be called before its instances and runs are restored.
    pub fn admit(&mut self, backfill: OpenBackfill) {
        let id = backfill.head.id;
        self.last = self.last.max(id);
        let members = backfill.launches.iter();
        self.members.extend(members.map(|launch| (*launch, id)));
        self.open.insert(id, backfill);
    }

    /// Restores the highest id ever used.
    pub fn restore_last(&mut self, last: BackfillId) {
        self.last = self.last.max(last);
    }

    /// Removes and returns a backfill that may have to launch something.
    pub fn next_dirty(&mut self) -> Option<BackfillId> {
        self.dirty.pop_first()
    }

    /// Whether one may have to launch something.
    #[must_use]
    pub fn has_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// The leader is to look at this backfill again.
    pub fn mark_dirty(&mut self, id: BackfillId) {
        self.dirty.insert(id);
    }

    /// The same for all, for a new leader.
    pub fn mark_all_dirty(&mut self) {
        self.dirty.extend(self.open.keys());
    }

    /// The same for those of an entry.
    pub(super) fn mark_task(&mut self, task: TaskNo) {
        let of_task = self.open.values().filter(|it| it.head.task == task);
        self.dirty.extend(of_task.map(|it| it.head.id));
    }

    pub(super) fn forget_transient(&mut self) {
        self.dirty.clear();
    }

    /// An instance or a run is in flight, or is not any more.
    pub(super) fn set_live(&mut self, execution: Execution, is_live: bool) {
        let Some(id) = self.members.get(&execution) else {
            return;
        };
        let Some(backfill) = self.open.get_mut(id) else {
            return;
        };
        if is_live {
            backfill.live.insert(execution);
        } else {
            backfill.live.remove(&execution);
            self.dirty.insert(*id);
        }
    }

    /// Forgets how far a backfill has come, for a seeded bug.
    #[cfg(feature = "seeded-bugs")]
    pub(crate) fn rewind(&mut self) {
        for backfill in self.open.values_mut() {
            backfill.head.remaining += u64::from(backfill.head.last.is_some());
            backfill.head.last = None;
        }
    }

    fn close(&mut self, id: BackfillId) {
        let Some(backfill) = self.open.remove(&id) else {
            return;
        };
        for execution in &backfill.launches {
            self.members.remove(execution);
        }
    }

    /// Applies one fact about a backfill.
    pub(super) fn apply(&mut self, fact: &Fact) -> Result<(), LedgerError> {
        let Some(id) = fact.backfill() else {
            return Ok(());
        };
        if let Fact::BackfillRegistered {
            task,
            at,
            range,
            max_concurrent,
            due,
            taken,
            ..
        } = fact
        {
            if id <= self.last {
                return Err(LedgerError::Backfill(id, "was registered before"));
            }
            let head = Backfill {
                id,
                task: *task,
                range: range.clone(),
                max_concurrent: *max_concurrent,
                state: BackfillState::Running,
                due: *due,
                launched: 0,
                remaining: due.saturating_sub(taken.len() as u64),
                last: None,
                registered_at: *at,
                changed_at: *at,
            };
            self.admit(OpenBackfill::new(head, taken.iter().copied(), []));
            self.mark_dirty(id);
            return Ok(());
        }
        let backfill = self.open.get_mut(&id);
        let backfill = backfill.ok_or(LedgerError::Backfill(id, "does not exist, or has ended"))?;
        match fact {
            Fact::Launched {
                cause: Cause::Backfill { nominal, .. },
                execution,
                ..
            } => {
                backfill.launch(*nominal, *execution)?;
                self.members.extend(execution.map(|it| (it, id)));
            }
            Fact::BackfillHalted { at, cause, .. } => {
                backfill.set_state(BackfillState::Halted(*cause), *at)?;
                backfill.taken.clear();
            }
            Fact::BackfillResumed {
                at,
                remaining,
                taken,
                ..
            } => {
                backfill.set_state(BackfillState::Running, *at)?;
                backfill.head.remaining = *remaining;
                backfill.taken = taken.iter().copied().collect();
                self.mark_dirty(id);
            }
            Fact::BackfillEnded { at, .. } => {
                backfill.set_state(BackfillState::Done, *at)?;
                self.close(id);
            }
            Fact::BackfillCancelled { at, .. } => {
                backfill.set_state(BackfillState::Cancelled, *at)?;
                self.close(id);
            }
            _ => {}
        }
        Ok(())
    }
}
