//! The attempts a worker holds, and how many of them live. Every question that a
//! busy worker asks of it costs the same with ten and with ten thousand.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_model::device::DeviceShare;
use baton_model::ids::{AttemptId, AttemptNo, Epoch, InstanceId, LeaseId};
use baton_model::outcome::Report;
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
    /// The stamp that its `runTask` echoed: how long a copy of it stays fresh.
    pub(super) stamp: Stamp,
}

/// All attempts that this worker holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Table {
    entries: BTreeMap<LeaseId, Entry>,
    alive: usize,
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
