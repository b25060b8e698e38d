//! How floors rise: the transitive closure of "is in the set that I hold".
//!
//! # Spans
//!
//! A member m that joined at `first` and has the floor `to` implies for every member:
//! *if your floor is between `first` and `to`, raise it to `to`.* For whatever
//! set you can agree on is at least as new as your floor, so it is newer than m,
//! and contains m if m has not left; and m agrees on nothing older than `to`.
//! So a member is a [`Span`] of versions through which no floor can fall:
//!
//! ```text
//!   version   1   2   3   4   5   6   7   8   9
//!   a         |-----------|                          joined at 1, floor 4
//!   b             |---------------|                  joined at 2, floor 6
//!   c                                 |-------|      joined at 7, floor 9
//! ```
//!
//! a's floor lies in b's span and rises to 6. Neither a nor b knows of c: their
//! joint span ends before c's begins. So the closure is the union of the spans,
//! and a member's new floor is the end of the piece that it lies in. One sweep
//! over the spans in order finds all of it, without an edge for each pair.
//!
//! # The departed
//!
//! If m has left, its span stays true with the floor it had last. That floor is
//! below the version `gone` that its departure made. If the set that you agree
//! on is older than `gone`, then it contains m and the argument above holds. If
//! it is `gone` or newer, then it is above `to` anyway.
//!
//! Spans of departed members that overlap are stored as one, because a floor in
//! the first would rise through the second at once.

use std::collections::BTreeMap;

use baton_model::worker_set::SetVersion;

use super::members::Members;

/// No floor stays between `from` and `to`, both included, without rising to `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Span {
    from: SetVersion,
    to: SetVersion,
}

/// The spans of members that have left.
///
/// Invariant: the spans, from start to end, do not overlap and none is a point.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Departed {
    spans: BTreeMap<SetVersion, SetVersion>,
}

impl Departed {
    /// Keeps the span of a member that leaves, forgetting the oldest if there
    /// would be more than `max`.
    pub(super) fn record(&mut self, first: SetVersion, floor: SetVersion, max: usize) {
        if floor == first {
            // It raises nothing. This is all that a worker leaves behind which
            // joins, echoes once and dies.
            return;
        }
        let mut span = Span {
            from: first,
            to: floor,
        };
        // Those that overlap are neighbours in the map: all are disjoint.
        while let Some((&from, &to)) = self.spans.range(..=span.to).next_back()
            && to >= span.from
        {
            self.spans.remove(&from);
            span.from = span.from.min(from);
            span.to = span.to.max(to);
        }
        self.spans.insert(span.from, span.to);
        if self.spans.len() > max {
            self.spans.pop_first();
        }
    }

    /// Forgets what cannot raise any floor, now or later, if no member's floor is
    /// or will be below `lowest` (None: there are no members). Future members are
    /// no reason to keep a span: they join above all of them.
    pub(super) fn prune(&mut self, lowest: Option<SetVersion>) {
        while let Some(oldest) = self.spans.first_entry()
            && lowest.is_none_or(|lowest| lowest >= *oldest.get())
        {
            oldest.remove();
        }
    }

    fn iter(&self) -> impl Iterator<Item = Span> {
        self.spans.iter().map(|(&from, &to)| Span { from, to })
    }

    /// The number of spans.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }
}

/// Raises each floor to the end of the piece it lies in. Members without a floor
/// are left out: the id that they hold may be of another epoch.
pub(super) fn raise_floors(members: &mut Members, departed: &Departed) {
    let present = members.iter().filter_map(|member| {
        let from = member.first;
        member.floor.map(|to| Span { from, to })
    });
    let pieces = union(present.chain(departed.iter()).collect());
    for member in members.iter_mut() {
        if member.floor.is_some() {
            // Its own span is part of a piece, so one begins at or below it.
            let next = pieces.partition_point(|piece| piece.from <= member.first);
            member.floor = Some(pieces[next - 1].to);
        }
    }
}

/// The same versions as disjoint pieces in ascending order. Neighbours such as
/// 1 to 3 and 4 to 6 stay apart: a worker that holds version 3 does not know the one that joined
/// at 4.
fn union(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    let mut pieces: Vec<Span> = Vec::new();
    for span in spans {
        match pieces.last_mut() {
            Some(piece) if span.from <= piece.to => piece.to = piece.to.max(span.to),
            _ => pieces.push(span),
        }
    }
    pieces
}
