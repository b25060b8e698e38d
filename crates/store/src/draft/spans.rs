//! Instances that have no story of their own, as ranges.
//!
//! A range is kept as one row, and so it stays whatever happens to all of it. The first
//! fact about one of them alone takes that one out, and the rest is one row, or two.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use baton_model::ids::InstanceId;
use baton_model::state::UniversalState;
use baton_model::time::Wall;

use crate::view::Seq;

/// What was asked for, and when something came and changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Story<S> {
    pub(crate) spec: S,
    pub(crate) submitted_at: Wall,
    pub(crate) submitted: Seq,
    pub(crate) changed_at: Wall,
    pub(crate) changed: Seq,
}

impl<S> Story<S> {
    pub(crate) const fn begun(spec: S, at: Wall, seq: Seq) -> Self {
        Self {
            spec,
            submitted_at: at,
            submitted: seq,
            changed_at: at,
            changed: seq,
        }
    }

    pub(crate) const fn change(&mut self, at: Wall, seq: Seq) {
        self.changed_at = at;
        self.changed = seq;
    }
}

/// One range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span<S> {
    pub(crate) first: InstanceId,
    pub(crate) last: InstanceId,
    /// QUEUED or HALTED.
    pub(crate) state: UniversalState,
    pub(crate) story: Story<S>,
}

impl<S> Span<S> {
    pub(crate) const fn len(&self) -> u64 {
        length(self.first, self.last)
    }
}

/// How many ids there are from one to another.
pub(crate) const fn length(first: InstanceId, last: InstanceId) -> u64 {
    (last.0 - first.0).saturating_add(1)
}

/// A range in parts in which the ids are in order as signed numbers, too.
pub(crate) fn halves(
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
pub(crate) struct SpanChange<'a, S> {
    pub(crate) before: Option<&'a Span<S>>,
    pub(crate) after: Option<&'a Span<S>>,
}

/// The ranges that a draft has to do with, by their last id; no two overlap.
#[derive(Debug)]
pub(super) struct Spans<S> {
    rows: BTreeMap<InstanceId, Span<S>>,
    now: BTreeMap<InstanceId, Span<S>>,
}

impl<S> Default for Spans<S> {
    fn default() -> Self {
        Self {
            rows: BTreeMap::new(),
            now: BTreeMap::new(),
        }
    }
}

impl<S: Clone + PartialEq> Spans<S> {
    /// Takes in a range as it is kept; nothing happens if it was fetched before.
    pub(super) fn fetched(&mut self, span: Span<S>) {
        if let Entry::Vacant(row) = self.rows.entry(span.last) {
            row.insert(span.clone());
            self.now.insert(span.last, span);
        }
    }

    /// Adds new ones.
    pub(super) fn submitted(&mut self, first: InstanceId, last: InstanceId, story: &Story<S>) {
        for (first, last) in halves(first, last) {
            let span = Span {
                first,
                last,
                state: UniversalState::Queued,
                story: story.clone(),
            };
            self.now.insert(last, span);
        }
    }

    /// Takes one instance out of its range.
    pub(super) fn take(&mut self, id: InstanceId) -> Option<Span<S>> {
        let (_, span) = self.now.range(id..).next()?;
        if span.first > id {
            return None;
        }
        let last = span.last;
        self.part(last, id, id)
    }

    /// Stops those of `first` to `last` that wait; the first and how many of each spec.
    pub(super) fn halt(
        &mut self,
        first: InstanceId,
        last: InstanceId,
        at: Wall,
        seq: Seq,
    ) -> Vec<(InstanceId, S, u64)> {
        let touched = self.now.range(first..);
        let touched: Vec<_> = touched
            .take_while(|(_, span)| span.first <= last)
            .filter(|(_, span)| span.state == UniversalState::Queued)
            .map(|(end, _)| *end)
            .collect();
        let mut halted = Vec::new();
        for end in touched {
            if let Some(mut part) = self.part(end, first, last) {
                part.state = UniversalState::Halted;
                part.story.change(at, seq);
                halted.push((part.first, part.story.spec.clone(), part.len()));
                self.now.insert(part.last, part);
            }
        }
        halted
    }

    /// Takes the part from `first` to `last` out of the range that ends at `end`.
    fn part(&mut self, end: InstanceId, first: InstanceId, last: InstanceId) -> Option<Span<S>> {
        let mut part = self.now.remove(&end)?;
        if part.last > last {
            let mut behind = part.clone();
            behind.first = last.next();
            self.now.insert(behind.last, behind);
            part.last = last;
        }
        if part.first < first {
            let mut before = part.clone();
            before.last = InstanceId(first.0 - 1);
            self.now.insert(before.last, before);
            part.first = first;
        }
        Some(part)
    }

    /// Rows to write: those that go come first.
    pub(super) fn changes(&self) -> impl Iterator<Item = SpanChange<'_, S>> + '_ {
        let gone = self.rows.values().filter_map(|row| {
            let stays = self.now.contains_key(&row.last);
            (!stays).then_some(SpanChange {
                before: Some(row),
                after: None,
            })
        });
        let changed = self.now.values().filter_map(|span| {
            let before = self.rows.get(&span.last);
            (before != Some(span)).then_some(SpanChange {
                before,
                after: Some(span),
            })
        });
        gone.chain(changed)
    }
}
