//! Ids of worker sets: a version that every change raises, and a hash of the members.
//!
//! A scheduler puts the [`WorkerSetId`] of its workers into its heartbeat
//! replies; a worker keeps the last one it received and sends it to the next
//! scheduler that it connects to. `baton-core`'s `protocol::consensus` draws the conclusions.
//!
//! Invariant: a [`WorkerSetHash`] depends on the members alone, not on the order
//! in which they came or on who else came and went. Its values are compared
//! between schedulers of different versions, so the way it is computed is part
//! of the wire format.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{Epoch, Incarnation};

/// The members of a set, as a hash of fixed size.
///
/// Each member adds one number to `sum` and another to `xor`. Both operations
/// commute and can be undone, so a join or a departure costs the same in a set
/// of ten as in a set of ten thousand, without listing the members.
///
/// It guards against accidents, not against a worker that forges its identity.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct WorkerSetHash {
    pub count: u64,
    /// The wrapping sum of the members' first digests.
    pub sum: u64,
    /// The exclusive or of the members' second digests.
    pub xor: u64,
}

impl WorkerSetHash {
    /// The hash of exactly these members.
    #[must_use]
    pub fn of(members: impl IntoIterator<Item = Incarnation>) -> Self {
        let mut hash = Self::default();
        for member in members {
            hash.add(member);
        }
        hash
    }

    /// Adds a member. The caller knows that it was not in the set: the hash alone
    /// cannot tell.
    pub fn add(&mut self, who: Incarnation) {
        let (first, second) = digests(who);
        self.count = self.count.wrapping_add(1);
        self.sum = self.sum.wrapping_add(first);
        self.xor ^= second;
    }

    /// Undoes [`add`](Self::add). The caller knows that `who` was in the set.
    pub fn remove(&mut self, who: Incarnation) {
        let (first, second) = digests(who);
        self.count = self.count.wrapping_sub(1);
        self.sum = self.sum.wrapping_sub(first);
        self.xor ^= second;
    }
}

impl fmt::Display for WorkerSetHash {
    /// The count and 32 bits of the rest: enough to tell sets apart by eye.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folded = (self.sum ^ self.xor.rotate_left(32)) >> 32;
        write!(f, "{}~{folded:08x}", self.count)
    }
}

/// Numbers the sets that one scheduler has had, from 0 for the empty set it
/// begins with. Each join and each departure raises it by one.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct SetVersion(pub u64);

impl SetVersion {
    /// The one after this. It cannot run out: a change every microsecond would
    /// take half a million years.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for SetVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

/// The name of one set of workers of one scheduler.
///
/// Two ids are equal only if all fields are: the same members under another
/// scheduler, or again after a worker joined and left, have another id.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct WorkerSetId {
    /// The scheduler whose set it is.
    pub epoch: Epoch,
    pub version: SetVersion,
    pub hash: WorkerSetHash,
}

impl fmt::Display for WorkerSetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.epoch, self.version, self.hash)
    }
}

/// Two numbers that look unrelated to each other and to those of any other
/// incarnation. Incarnation numbers are small and consecutive: summed as they are,
/// {1, 4} would look like {2, 3}.
const fn digests(who: Incarnation) -> (u64, u64) {
    let lineage = mix(who.lineage.0);
    let first = mix(lineage ^ who.number.0);
    (first, mix(first))
}

/// The splitmix64 step: a bijection under which one changed bit of the input
/// changes half of the output.
#[must_use]
pub const fn mix(input: u64) -> u64 {
    let mut z = input.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A worker set as a worker received it, and whether it counts as complete.
///
/// During an initial wait the set covers only the workers that are back so far. Such an
/// id must never prove to a later scheduler that the set is complete, so it is sent
/// as unsettled; the same version is sent again as settled once the wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KnownSet {
    pub id: WorkerSetId,
    /// True if the scheduler that sent it had ended its initial wait.
    pub settled: bool,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::ids::{IncarnationNo, Lineage};

    fn incarnation(lineage: u64, number: u64) -> Incarnation {
        Incarnation {
            lineage: Lineage(lineage),
            number: IncarnationNo(number),
        }
    }

    /// Small, huge and neighbouring numbers, so that sums overflow.
    fn sample() -> Vec<Incarnation> {
        let values = [0, 1, 2, 3, u64::MAX - 1, u64::MAX];
        values
            .iter()
            .flat_map(|&l| values.map(|n| incarnation(l, n)))
            .collect()
    }

    #[test]
    fn removing_undoes_adding_in_any_order() {
        let mut hash = WorkerSetHash::default();
        for &who in &sample() {
            hash.add(who);
        }
        assert_eq!(hash.count, 36);
        for &who in sample().iter().rev().step_by(2) {
            hash.remove(who);
        }
        for &who in sample().iter().rev().skip(1).step_by(2) {
            hash.remove(who);
        }
        assert_eq!(hash, WorkerSetHash::default());
    }

    #[test]
    fn removing_before_adding_comes_to_the_same() {
        let mut hash = WorkerSetHash::of([incarnation(7, 1)]);
        hash.remove(incarnation(8, 1));
        hash.add(incarnation(8, 1));
        assert_eq!(hash, WorkerSetHash::of([incarnation(7, 1)]));
    }

    #[test]
    fn the_order_of_arrival_does_not_matter() {
        let forwards = WorkerSetHash::of(sample());
        let backwards = WorkerSetHash::of(sample().into_iter().rev());
        let halves = sample().into_iter().skip(18).chain(sample());
        assert_eq!(forwards, backwards);
        assert_eq!(forwards, WorkerSetHash::of(halves.take(36)));
    }

    #[test]
    fn all_subsets_of_neighbouring_lives_have_different_hashes() {
        let members: Vec<_> = (0..3)
            .flat_map(|l| (1..5).map(move |n| incarnation(l, n)))
            .collect();
        let mut seen = BTreeSet::new();
        for bits in 0..1_u32 << members.len() {
            let subset = members.iter().enumerate();
            let subset = subset.filter(|(i, _)| bits >> i & 1 == 1);
            let hash = WorkerSetHash::of(subset.map(|(_, &who)| who));
            assert!(seen.insert((hash.count, hash.sum)), "sums collide: {hash}");
            assert!(seen.len() as u64 == u64::from(bits) + 1);
        }
    }

    #[test]
    fn lineage_and_life_are_not_interchangeable() {
        assert_ne!(
            WorkerSetHash::of([incarnation(1, 2)]),
            WorkerSetHash::of([incarnation(2, 1)])
        );
    }

    /// Schedulers of different versions compare hashes, so this value stays.
    #[test]
    fn the_hash_is_computed_as_it_always_was() {
        let hash = WorkerSetHash::of([incarnation(1, 1), incarnation(2, 7)]);
        assert_eq!(
            hash,
            WorkerSetHash {
                count: 2,
                sum: 0x0594_9109_1620_d054,
                xor: 0xfd5f_9fc8_5a3d_4529,
            }
        );
    }

    #[test]
    fn versions_count_and_compare() {
        assert_eq!(SetVersion::default().next(), SetVersion(1));
        assert!(SetVersion(9) < SetVersion(9).next());
    }

    #[test]
    fn ids_read_well() {
        let id = WorkerSetId {
            epoch: Epoch(4),
            version: SetVersion(17),
            hash: WorkerSetHash {
                count: 3,
                sum: 0x0000_00ab_0000_0000,
                xor: 0,
            },
        };
        assert_eq!(id.to_string(), "e4/v17/3~000000ab");
    }
}
