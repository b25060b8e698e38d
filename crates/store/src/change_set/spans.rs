//! Instances without events of their own, as ranges.
//!
//! A range is one row and stays one whatever happens to all of it. The first fact about one of its
//! instances alone takes that instance out; one or two rows remain.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use baton_model::ids::InstanceId;
use baton_model::state::UniversalState;
use baton_model::time::Wall;

use super::SpecId;
use crate::view::Seq;

/// The spec of an instance or range, and its first and last facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lifecycle {
    pub(crate) spec: SpecId,
    pub(crate) submitted_at: Wall,
    pub(crate) submitted: Seq,
    pub(crate) changed_at: Wall,
    pub(crate) changed: Seq,
}

impl Lifecycle {
    pub(crate) const fn submitted(spec: SpecId, at: Wall, seq: Seq) -> Self {
        Self {
            spec,
            submitted_at: at,
            submitted: seq,
            changed_at: at,
            changed: seq,
        }
    }

    pub(crate) const fn record_change(&mut self, at: Wall, seq: Seq) {
        self.changed_at = at;
        self.changed = seq;
    }
}

/// One range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) first: InstanceId,
    pub(crate) last: InstanceId,
    /// QUEUED or HALTED.
    pub(crate) state: UniversalState,
    pub(crate) lifecycle: Lifecycle,
}

impl Span {
    pub(crate) const fn len(&self) -> u64 {
        length(self.first, self.last)
    }
}

/// The number of ids from `first` to `last`.
pub(crate) const fn length(first: InstanceId, last: InstanceId) -> u64 {
    (last.0 - first.0).saturating_add(1)
}

/// Splits a range so that in each part the ids are also ordered as signed numbers.
pub(crate) fn split_by_sign(
    first: InstanceId,
    last: InstanceId,
) -> impl Iterator<Item = (InstanceId, InstanceId)> {
    const LOW_LAST: InstanceId = InstanceId(i64::MAX as u64);
    const HIGH_FIRST: InstanceId = InstanceId(1 << 63);
    let low = (first, last.min(LOW_LAST));
    let high = (first.max(HIGH_FIRST), last);
    [low, high].into_iter().filter(|(from, to)| from <= to)
}

/// A row before and after.
#[derive(Debug)]
pub(crate) struct SpanChange<'a> {
    pub(crate) before: Option<&'a Span>,
    pub(crate) after: Option<&'a Span>,
}

/// The ranges that a change set touches, by their last id; no two overlap.
#[derive(Debug, Default)]
pub(super) struct SpanSet {
    stored: BTreeMap<InstanceId, Span>,
    current: BTreeMap<InstanceId, Span>,
}

impl SpanSet {
    /// Adds a stored range; no effect if it was fetched before.
    pub(super) fn insert_stored(&mut self, span: Span) {
        if let Entry::Vacant(row) = self.stored.entry(span.last) {
            row.insert(span.clone());
            self.current.insert(span.last, span);
        }
    }

    /// Adds submitted instances.
    pub(super) fn insert_submitted(
        &mut self,
        first: InstanceId,
        last: InstanceId,
        lifecycle: &Lifecycle,
    ) {
        for (first, last) in split_by_sign(first, last) {
            let span = Span {
                first,
                last,
                state: UniversalState::Queued,
                lifecycle: lifecycle.clone(),
            };
            self.current.insert(last, span);
        }
    }

    /// Takes one instance out of its range.
    pub(super) fn take(&mut self, id: InstanceId) -> Option<Span> {
        let (_, span) = self.current.range(id..).next()?;
        if span.first > id {
            return None;
        }
        let last = span.last;
        self.split_off(last, id, id)
    }

    /// Halts the queued instances of `first` to `last`; returns the first id and the number for
    /// each spec.
    pub(super) fn halt(
        &mut self,
        first: InstanceId,
        last: InstanceId,
        at: Wall,
        seq: Seq,
    ) -> Vec<(InstanceId, SpecId, u64)> {
        let touched = self.current.range(first..);
        let touched: Vec<_> = touched
            .take_while(|(_, span)| span.first <= last)
            .filter(|(_, span)| span.state == UniversalState::Queued)
            .map(|(end, _)| *end)
            .collect();
        let mut halted = Vec::new();
        for end in touched {
            if let Some(mut part) = self.split_off(end, first, last) {
                part.state = UniversalState::Halted;
                part.lifecycle.record_change(at, seq);
                halted.push((part.first, part.lifecycle.spec, part.len()));
                self.current.insert(part.last, part);
            }
        }
        halted
    }

    /// Splits the part from `first` to `last` off the range that ends at `end`.
    fn split_off(&mut self, end: InstanceId, first: InstanceId, last: InstanceId) -> Option<Span> {
        let mut part = self.current.remove(&end)?;
        if part.last > last {
            let mut behind = part.clone();
            behind.first = last.next();
            self.current.insert(behind.last, behind);
            part.last = last;
        }
        if part.first < first {
            let mut before = part.clone();
            before.last = InstanceId(first.0 - 1);
            self.current.insert(before.last, before);
            part.first = first;
        }
        Some(part)
    }

    /// Rows to write, removals first.
    pub(super) fn changes(&self) -> impl Iterator<Item = SpanChange<'_>> + '_ {
        let gone = self.stored.values().filter_map(|row| {
            let stays = self.current.contains_key(&row.last);
            (!stays).then_some(SpanChange {
                before: Some(row),
                after: None,
            })
        });
        let changed = self.current.values().filter_map(|span| {
            let before = self.stored.get(&span.last);
            (before != Some(span)).then_some(SpanChange {
                before,
                after: Some(span),
            })
        });
        gone.chain(changed)
    }
}
