//! Sets of instance ids as ranges: a million consecutive ids cost as much as one.

use std::collections::BTreeMap;

use baton_model::ids::InstanceId;

/// A set of ids, stored as the fewest ranges that cover it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct IdSet(BTreeMap<InstanceId, InstanceId>);

impl IdSet {
    /// Adds `first` to `last`.
    pub fn insert(&mut self, first: InstanceId, last: InstanceId) {
        let (mut from, mut to) = (first, last);
        // Merges every range that touches the new one.
        while let Some((start, end)) = self.touching(from, to) {
            self.0.remove(&start);
            (from, to) = (from.min(start), to.max(end));
        }
        self.0.insert(from, to);
    }

    #[must_use]
    pub fn contains(&self, id: InstanceId) -> bool {
        self.overlap(id, id).is_some()
    }

    /// True if every id of `first` to `last` is in it.
    #[must_use]
    pub fn covers(&self, first: InstanceId, last: InstanceId) -> bool {
        self.overlap(first, first)
            .is_some_and(|(_, end)| end >= last)
    }

    /// A range of the set that has an id of `first` to `last`.
    #[must_use]
    pub fn overlap(&self, first: InstanceId, last: InstanceId) -> Option<(InstanceId, InstanceId)> {
        let (start, end) = self.0.range(..=last).next_back()?;
        (*end >= first).then_some((*start, *end))
    }

    /// The ranges, in order.
    pub fn ranges(&self) -> impl Iterator<Item = (InstanceId, InstanceId)> + '_ {
        self.0.iter().map(|(first, last)| (*first, *last))
    }

    /// The ranges of `first` to `last` that are not in it.
    #[must_use]
    pub fn gaps(&self, first: InstanceId, last: InstanceId) -> Vec<(InstanceId, InstanceId)> {
        let mut gaps = Vec::new();
        let mut end = last;
        while let Some((start, stop)) = self.overlap(first, end) {
            if stop < end {
                gaps.push((stop.next(), end));
            }
            if start <= first {
                return gaps;
            }
            end = InstanceId(start.0 - 1);
        }
        gaps.push((first, end));
        gaps
    }

    /// The largest id below `limit`.
    #[must_use]
    pub fn last_below(&self, limit: InstanceId) -> Option<InstanceId> {
        let below = InstanceId(limit.0.checked_sub(1)?);
        let (_, last) = self.0.range(..=below).next_back()?;
        Some(below.min(*last))
    }

    /// The largest id.
    #[must_use]
    pub fn last(&self) -> Option<InstanceId> {
        self.0.last_key_value().map(|(_, last)| *last)
    }

    fn touching(&self, first: InstanceId, last: InstanceId) -> Option<(InstanceId, InstanceId)> {
        let before = InstanceId(first.0.saturating_sub(1));
        let after = InstanceId(last.0.saturating_add(1));
        self.overlap(before, after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ranges: &[(u64, u64)]) -> IdSet {
        let mut set = IdSet::default();
        for (first, last) in ranges {
            set.insert(InstanceId(*first), InstanceId(*last));
        }
        set
    }

    fn ranges(set: &IdSet) -> Vec<(u64, u64)> {
        set.ranges()
            .map(|(first, last)| (first.0, last.0))
            .collect()
    }

    #[test]
    fn neighbours_and_overlaps_become_one_range() {
        assert_eq!(ranges(&set(&[(1, 3), (5, 9), (4, 4)])), [(1, 9)]);
        assert_eq!(ranges(&set(&[(5, 9), (1, 20)])), [(1, 20)]);
        assert_eq!(ranges(&set(&[(1, 2), (4, 5)])), [(1, 2), (4, 5)]);
        assert_eq!(ranges(&set(&[(0, 0), (u64::MAX, u64::MAX)])).len(), 2);
    }

    #[test]
    fn agrees_with_a_plain_set() {
        let mut naive = std::collections::BTreeSet::new();
        let mut set = IdSet::default();
        let mut state = 7_u64;
        for _ in 0..200 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let first = (state >> 33) % 300;
            let last = first + (state >> 50) % 9;
            set.insert(InstanceId(first), InstanceId(last));
            naive.extend(first..=last);
            for id in 0..310 {
                assert_eq!(set.contains(InstanceId(id)), naive.contains(&id));
            }
            let gaps = set.gaps(InstanceId(first), InstanceId(last + 9));
            let in_gaps = |id| gaps.iter().any(|(from, to)| (from.0..=to.0).contains(&id));
            assert!((first..=last + 9).all(|id| in_gaps(id) != naive.contains(&id)));
            let below = set.last_below(InstanceId(first)).map(|id| id.0);
            assert_eq!(below, naive.range(..first).next_back().copied());
            let all = (first..=last + 2).all(|id| naive.contains(&id));
            assert_eq!(set.covers(InstanceId(first), InstanceId(last + 2)), all);
        }
        assert!(set.ranges().count() < naive.len());
        assert_eq!(set.last().map(|id| id.0), naive.last().copied());
    }
}
