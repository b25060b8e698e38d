//! The attempts a worker holds, and how many of them live. Every question that a
//! busy worker asks of it costs the same with ten and with ten thousand.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use baton_model::device::DeviceShare;
use baton_model::ids::{AttemptId, AttemptNo, Epoch, InstanceId, LeaseId};
use baton_model::outcome::Report;
use baton_model::progress::Progress;
use baton_model::spec::InstanceSpec;
use baton_model::time::Stamp;

/// Where an attempt stands on this worker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// The coordinator was told to start it and has not answered.
    Launching,
    /// The coordinator has it on record.
    Running,
    /// It is over, and the scheduler has not acknowledged that.
    Ended(Report),
}

impl Phase {
    pub(super) const fn is_alive(&self) -> bool {
        matches!(self, Self::Launching | Self::Running)
    }
}

/// An attempt that this worker holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) spec: Arc<InstanceSpec>,
    pub(super) phase: Phase,
    /// The devices that it holds.
    pub(super) devices: Vec<DeviceShare>,
    /// How far it has come, as far as it has said.
    pub(super) progress: Option<Progress>,
    /// The stamp that its `runTask` echoed: how long a copy of it stays fresh.
    pub(super) stamp: Stamp,
}

/// All attempts that this worker holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Table {
    entries: BTreeMap<LeaseId, Entry>,
    alive: usize,
    /// Attempts whose progress the scheduler has not been told.
    unsent: BTreeSet<LeaseId>,
}

impl Table {
    pub(super) fn get(&self, lease: LeaseId) -> Option<&Entry> {
        self.entries.get(&lease)
    }

    pub(super) fn insert(&mut self, lease: LeaseId, entry: Entry) {
        self.remove(lease);
        self.alive += usize::from(entry.phase.is_alive());
        self.entries.insert(lease, entry);
        self.assert_counted();
    }

    pub(super) fn remove(&mut self, lease: LeaseId) -> Option<Entry> {
        self.unsent.remove(&lease);
        let entry = self.entries.remove(&lease)?;
        self.alive -= usize::from(entry.phase.is_alive());
        self.assert_counted();
        Some(entry)
    }

    /// Moves an attempt on; nothing happens if it is not held.
    pub(super) fn set_phase(&mut self, lease: LeaseId, phase: Phase) {
        if let Some(entry) = self.entries.get_mut(&lease) {
            self.alive -= usize::from(entry.phase.is_alive());
            self.alive += usize::from(phase.is_alive());
            entry.phase = phase;
        }
        self.assert_counted();
    }

    /// Notes the devices of an attempt; nothing happens if it is not held.
    pub(super) fn set_devices(&mut self, lease: LeaseId, devices: Vec<DeviceShare>) {
        if let Some(entry) = self.entries.get_mut(&lease) {
            entry.devices = devices;
        }
    }

    /// Notes how far an attempt has come; nothing happens if it does not live, or has said so before.
    pub(super) fn set_progress(&mut self, lease: LeaseId, progress: Progress) {
        if let Some(entry) = self.entries.get_mut(&lease)
            && entry.phase.is_alive()
            && !entry
                .progress
                .as_ref()
                .is_some_and(|it| it.says_the_same(&progress))
        {
            entry.progress = Some(progress);
            self.unsent.insert(lease);
        }
    }

    /// The scheduler knows the progress of no attempt.
    pub(super) fn untell_progress(&mut self) {
        let told = self.entries.iter().filter(|(_, it)| it.progress.is_some());
        self.unsent = told.map(|(lease, _)| *lease).collect();
    }

    /// Takes progress that the scheduler has not been told, of at most so many attempts that live: first those
    /// that are after this one.
    pub(super) fn take_progress(
        &mut self,
        after: Option<LeaseId>,
        attempts_max: usize,
    ) -> Vec<(LeaseId, Progress)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.unsent.range((from, Bound::Unbounded));
        let again = after.map(|after| self.unsent.range(..=after));
        let order = next.chain(again.into_iter().flatten());
        let taken: Vec<LeaseId> = order.take(attempts_max).copied().collect();
        let taken = taken.into_iter().filter_map(|lease| {
            self.unsent.remove(&lease);
            let entry = self.entries.get(&lease)?;
            let progress = entry.progress.clone().filter(|_| entry.phase.is_alive())?;
            Some((lease, progress))
        });
        taken.collect()
    }

    /// A count below zero would be a very large one.
    fn assert_counted(&self) {
        let (alive, all) = (self.alive, self.entries.len());
        assert!(alive <= all, "{alive} of {all} attempts live");
    }

    pub(super) const fn alive(&self) -> usize {
        self.alive
    }

    /// Attempts whose end waits for its acknowledgement.
    pub(super) fn ended(&self) -> usize {
        self.entries.len() - self.alive
    }

    /// True if an attempt of the instance runs here.
    pub(super) fn instance_lives(&self, instance: InstanceId) -> bool {
        let bound = |number, epoch| LeaseId {
            attempt: AttemptId {
                instance,
                number: AttemptNo(number),
            },
            epoch: Epoch(epoch),
        };
        self.entries
            .range(bound(0, 0)..=bound(u32::MAX, u64::MAX))
            .any(|(_, entry)| entry.phase.is_alive())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (LeaseId, &Entry)> + '_ {
        self.entries.iter().map(|(lease, entry)| (*lease, entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_model::outcome::Outcome;

    fn lease(instance: u64, number: u32) -> LeaseId {
        LeaseId {
            attempt: AttemptId {
                instance: InstanceId(instance),
                number: AttemptNo(number),
            },
            epoch: Epoch(1),
        }
    }

    fn entry(phase: Phase) -> Entry {
        Entry {
            spec: Arc::default(),
            phase,
            devices: Vec::new(),
            progress: None,
            stamp: Stamp::default(),
        }
    }

    #[test]
    fn counts_follow_every_change() {
        let mut table = Table::default();
        table.insert(lease(1, 1), entry(Phase::Launching));
        table.insert(lease(2, 1), entry(Phase::Running));
        assert_eq!((table.alive(), table.ended()), (2, 0));
        table.set_phase(lease(1, 1), Phase::Ended(Outcome::Exited(0).into()));
        assert_eq!((table.alive(), table.ended()), (1, 1));
        table.insert(lease(2, 1), entry(Phase::Ended(Outcome::Exited(1).into())));
        assert_eq!(table.alive(), 0);
        table.remove(lease(1, 1));
        table.remove(lease(2, 1));
        table.remove(lease(2, 1));
        assert_eq!((table.alive(), table.ended()), (0, 0));
    }

    #[test]
    fn an_instance_lives_through_any_attempt_and_no_other_instance() {
        let mut table = Table::default();
        table.insert(lease(5, 3), entry(Phase::Running));
        table.insert(lease(6, 1), entry(Phase::Ended(Outcome::Exited(0).into())));
        assert!(table.instance_lives(InstanceId(5)));
        assert!(!table.instance_lives(InstanceId(6)));
        assert!(!table.instance_lives(InstanceId(4)));
    }
}
