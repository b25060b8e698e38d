//! Waiting instances without a fact after their submission: ranges of ids that share one spec.
//! An instance leaves its range with the first fact about it.
//!
//! A leader may have a million ranges of one instance each. The spec of a single instance is
//! stored packed, in a fifth of the memory, and unpacked when needed.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_model::ids::InstanceId;
use baton_model::spec::InstanceSpec;

/// One range, without its last id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RangeEntry {
    first: InstanceId,
    spec: RangeSpec,
}

/// The spec of the instances of a range.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum RangeSpec {
    /// Of several instances: each keeps sharing it when it leaves the range.
    Shared(Arc<InstanceSpec>),
    /// Of a single instance.
    Packed(Box<[u8]>),
}

impl RangeSpec {
    fn new(range: Range) -> Self {
        if range.first < range.last {
            return Self::Shared(range.spec);
        }
        // A spec that cannot be packed is stored as it is.
        match postcard::to_stdvec(&*range.spec) {
            Ok(packed) => Self::Packed(packed.into()),
            Err(_) => Self::Shared(range.spec),
        }
    }

    fn spec(&self) -> Arc<InstanceSpec> {
        match self {
            Self::Shared(spec) => Arc::clone(spec),
            Self::Packed(packed) => {
                let spec = postcard::from_bytes(packed);
                Arc::new(spec.expect("only `new` packs, and what it packs can be read"))
            }
        }
    }
}

/// A range of QUEUED instances without a fact after their submission.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    pub first: InstanceId,
    pub last: InstanceId,
    /// The spec of each of them.
    pub spec: Arc<InstanceSpec>,
}

impl Range {
    /// A range of one.
    #[must_use]
    pub const fn one(id: InstanceId, spec: Arc<InstanceSpec>) -> Self {
        Self {
            first: id,
            last: id,
            spec,
        }
    }
}

/// All waiting ranges; no two overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Waiting(BTreeMap<InstanceId, RangeEntry>);

impl Waiting {
    pub(super) fn insert(&mut self, range: Range) {
        let Range { first, last, .. } = range;
        let spec = RangeSpec::new(range);
        self.0.insert(last, RangeEntry { first, spec });
    }

    pub(super) fn contains(&self, id: InstanceId) -> bool {
        self.overlap(id, id).is_some()
    }

    /// The spec of an id that waits.
    pub(super) fn spec(&self, id: InstanceId) -> Option<Arc<InstanceSpec>> {
        let (_, entry) = self.0.range(id..).next()?;
        (entry.first <= id).then(|| entry.spec.spec())
    }

    /// An id of `first` to `last` that waits.
    pub(super) fn overlap(&self, first: InstanceId, last: InstanceId) -> Option<InstanceId> {
        let (_, entry) = self.0.range(first..).next()?;
        (entry.first <= last).then_some(entry.first.max(first))
    }

    /// Removes the part of one range that lies within `first` to `last`; to be called until there
    /// is none.
    pub(super) fn take(&mut self, first: InstanceId, last: InstanceId) -> Option<Range> {
        let (end, entry) = self.0.range(first..).next()?;
        if entry.first > last {
            return None;
        }
        let (end, before) = (*end, entry.first);
        let taken = Range {
            first: before.max(first),
            last: end.min(last),
            spec: entry.spec.spec(),
        };
        self.0.remove(&end);
        if end > taken.last {
            let (first, last) = (taken.last.next(), end);
            let spec = Arc::clone(&taken.spec);
            self.insert(Range { first, last, spec });
        }
        if before < taken.first {
            let (first, last) = (before, InstanceId(taken.first.0 - 1));
            let spec = Arc::clone(&taken.spec);
            self.insert(Range { first, last, spec });
        }
        Some(taken)
    }

    /// The parts of ranges that lie within `first` to `last`.
    pub(super) fn within(
        &self,
        first: InstanceId,
        last: InstanceId,
    ) -> impl Iterator<Item = Range> + '_ {
        let from = self.0.range(first..);
        from.take_while(move |(_, entry)| entry.first <= last)
            .map(move |(end, entry)| Range {
                first: entry.first.max(first),
                last: (*end).min(last),
                spec: entry.spec.spec(),
            })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Range> + '_ {
        self.0.iter().map(|(last, entry)| Range {
            first: entry.first,
            last: *last,
            spec: entry.spec.spec(),
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting() -> Waiting {
        let mut waiting = Waiting::default();
        waiting.insert(Range {
            first: InstanceId(10),
            last: InstanceId(19),
            spec: Arc::default(),
        });
        waiting
    }

    fn left(waiting: &Waiting) -> Vec<(u64, u64)> {
        waiting.iter().map(|it| (it.first.0, it.last.0)).collect()
    }

    #[test]
    fn taking_from_the_front_the_back_and_the_middle_leaves_the_rest() {
        let mut waiting = waiting();
        for (id, entry) in [
            (10, vec![(11, 19)]),
            (19, vec![(11, 18)]),
            (15, vec![(11, 14), (16, 18)]),
        ] {
            let taken = waiting.take(InstanceId(id), InstanceId(id)).expect("waits");
            assert_eq!((taken.first.0, taken.last.0), (id, id));
            assert_eq!(left(&waiting), entry);
            assert!(!waiting.contains(InstanceId(id)));
        }
        assert!(waiting.contains(InstanceId(14)));
    }

    #[test]
    fn a_part_is_taken_range_by_range_until_nothing_is_left_of_it() {
        let mut waiting = waiting();
        waiting.take(InstanceId(15), InstanceId(15));
        let first = waiting.take(InstanceId(12), InstanceId(40)).expect("waits");
        let second = waiting.take(InstanceId(12), InstanceId(40)).expect("waits");
        assert_eq!((first.first.0, first.last.0), (12, 14));
        assert_eq!((second.first.0, second.last.0), (16, 19));
        assert!(waiting.take(InstanceId(12), InstanceId(40)).is_none());
        assert_eq!(left(&waiting), [(10, 11)]);
    }
}
