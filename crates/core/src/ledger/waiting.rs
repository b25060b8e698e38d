//! Instances that were accepted and have no story of their own yet: ranges of ids that
//! share one spec, and that differ in nothing but their number. An instance leaves its
//! range with the first fact about it.
//!
//! A leader may have a million of them, each submitted by itself. What a single one asks for
//! is kept packed, in a fifth of the room, until somebody wants to know it.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_model::ids::InstanceId;
use baton_model::spec::InstanceSpec;

/// One range, without its last id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Rest {
    first: InstanceId,
    spec: Kept,
}

/// What the instances of a range ask for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Kept {
    /// Of a range of several: each shares it when it leaves.
    Shared(Arc<InstanceSpec>),
    /// Of a single one.
    Packed(Box<[u8]>),
}

impl Kept {
    fn new(range: Range) -> Self {
        if range.first < range.last {
            return Self::Shared(range.spec);
        }
        // What cannot be packed can be kept as it is.
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

/// A range of QUEUED instances that nothing has happened to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Range {
    /// The first.
    pub first: InstanceId,
    /// The last.
    pub last: InstanceId,
    /// What each of them asks for.
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

/// All of them; no two overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Waiting(BTreeMap<InstanceId, Rest>);

impl Waiting {
    pub(super) fn insert(&mut self, range: Range) {
        let Range { first, last, .. } = range;
        let spec = Kept::new(range);
        self.0.insert(last, Rest { first, spec });
    }

    /// True if this one waits.
    pub(super) fn contains(&self, id: InstanceId) -> bool {
        self.overlap(id, id).is_some()
    }

    /// The spec of an id that waits.
    pub(super) fn spec(&self, id: InstanceId) -> Option<Arc<InstanceSpec>> {
        let (_, rest) = self.0.range(id..).next()?;
        (rest.first <= id).then(|| rest.spec.spec())
    }

    /// An id of `first` to `last` that waits.
    pub(super) fn overlap(&self, first: InstanceId, last: InstanceId) -> Option<InstanceId> {
        let (_, rest) = self.0.range(first..).next()?;
        (rest.first <= last).then_some(rest.first.max(first))
    }

    /// Takes the part of one range that lies within `first` to `last` out; call again
    /// until there is none.
    pub(super) fn take(&mut self, first: InstanceId, last: InstanceId) -> Option<Range> {
        let (end, rest) = self.0.range(first..).next()?;
        if rest.first > last {
            return None;
        }
        let (end, before) = (*end, rest.first);
        let taken = Range {
            first: before.max(first),
            last: end.min(last),
            spec: rest.spec.spec(),
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
        from.take_while(move |(_, rest)| rest.first <= last)
            .map(move |(end, rest)| Range {
                first: rest.first.max(first),
                last: (*end).min(last),
                spec: rest.spec.spec(),
            })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Range> + '_ {
        self.0.iter().map(|(last, rest)| Range {
            first: rest.first,
            last: *last,
            spec: rest.spec.spec(),
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
        for (id, rest) in [
            (10, vec![(11, 19)]),
            (19, vec![(11, 18)]),
            (15, vec![(11, 14), (16, 18)]),
        ] {
            let taken = waiting.take(InstanceId(id), InstanceId(id)).expect("waits");
            assert_eq!((taken.first.0, taken.last.0), (id, id));
            assert_eq!(left(&waiting), rest);
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
