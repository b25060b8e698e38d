//! Leases that must never be started again.
//!
//! A lease that was refused, or that has ended and was acknowledged, is no longer
//! held; a delayed copy of its `runTask` would look like a new one. It is
//! remembered until the heartbeat stamp in such a copy is older than the lease
//! allows, from when on the stamp alone refuses it. So the memory needed is that
//! of one lease time, not of a whole incarnation.

use std::collections::{BTreeMap, BTreeSet};

use baton_model::ids::LeaseId;
use baton_model::time::{Millis, Mono, Stamp};

/// Leases with the stamp of the call that brought them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Tombstones {
    by_lease: BTreeMap<LeaseId, Stamp>,
    by_stamp: BTreeSet<(Stamp, LeaseId)>,
}

impl Tombstones {
    pub(super) fn add(&mut self, lease: LeaseId, stamp: Stamp) {
        if let Some(old) = self.by_lease.insert(lease, stamp) {
            self.by_stamp.remove(&(old, lease));
        }
        self.by_stamp.insert((stamp, lease));
        self.assert_paired();
    }

    pub(super) fn contains(&self, lease: LeaseId) -> bool {
        self.by_lease.contains_key(&lease)
    }

    pub(super) fn len(&self) -> usize {
        self.by_lease.len()
    }

    /// Drops those whose call the stamp alone refuses by now.
    pub(super) fn purge(&mut self, now: Mono, fresh_for: Millis) {
        while let Some((Stamp(at), lease)) = self.by_stamp.first().copied() {
            if now < at + fresh_for {
                break;
            }
            self.by_stamp.pop_first();
            self.by_lease.remove(&lease);
        }
        self.assert_paired();
    }

    fn assert_paired(&self) {
        let (leases, stamps) = (self.by_lease.len(), self.by_stamp.len());
        assert_eq!(leases, stamps, "leases and stamps of one memory");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_model::ids::{AttemptId, AttemptNo, Epoch, InstanceId};

    fn lease(instance: u64) -> LeaseId {
        let attempt = AttemptId {
            instance: InstanceId(instance),
            number: AttemptNo(1),
        };
        LeaseId {
            attempt,
            epoch: Epoch(1),
        }
    }

    #[test]
    fn stands_exactly_until_the_stamp_alone_refuses() {
        let mut tombstones = Tombstones::default();
        tombstones.add(lease(1), Stamp(Mono(100)));
        tombstones.purge(Mono(149), Millis(50));
        assert!(tombstones.contains(lease(1)));
        tombstones.purge(Mono(150), Millis(50));
        assert!(!tombstones.contains(lease(1)));
        assert_eq!(tombstones.len(), 0);
    }

    #[test]
    fn a_later_stamp_for_the_same_lease_prolongs_it() {
        let mut tombstones = Tombstones::default();
        tombstones.add(lease(1), Stamp(Mono(0)));
        tombstones.add(lease(1), Stamp(Mono(40)));
        tombstones.purge(Mono(60), Millis(50));
        assert!(tombstones.contains(lease(1)));
    }
}
