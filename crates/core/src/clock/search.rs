//! From civil times to instants: gaps, folds, and the order of what comes of them.
//!
//! A segment of a zone holds the due instants of a pattern in up to two rows: what its
//! clocks show, and, after a gap, what the gap has moved here. Each row is ordered; the
//! next instant is the lesser head. Instants are seconds since the epoch.
//!
//! It is assumed that no segment is shorter than the gap or the fold that it begins
//! with; a test goes through the whole database.

use baton_model::time::Wall;

use super::civil::{Civil, Pattern};
use super::limits::{CYCLE_SECONDS, END_SECONDS};
use super::zone::{Segment, Zone};
use super::{Dst, DstEffect, Fold, Gap, Occurrence};

/// The first due instant after `after`.
pub(super) fn next(pattern: &Pattern, zone: &Zone, dst: Dst, after: i64) -> Option<Occurrence> {
    let dst = effective(pattern, dst);
    let mut segment = zone.segment(after);
    let mut from = after + 1;
    loop {
        if let Some((at, effect)) = in_segment(pattern, &segment, dst, from)
            && at < segment.end.min(END_SECONDS)
        {
            let at = Wall(u64::try_from(at).ok()? * 1_000);
            return Some(Occurrence { at, effect });
        }
        if segment.end.saturating_sub(after) > CYCLE_SECONDS {
            return None;
        }
        segment = zone.following(&segment)?;
        from = segment.start;
    }
}

/// How many instants are due in `from..to`.
pub(super) fn count(pattern: &Pattern, zone: &Zone, dst: Dst, from: i64, to: i64) -> u64 {
    let dst = effective(pattern, dst);
    let to = to.min(END_SECONDS);
    let mut segment = zone.segment(from);
    let mut from = from;
    let mut count = 0;
    while from < to {
        let end = segment.end.min(to);
        let shown = shown_from(&segment, dst, from);
        count += pattern.count(shown, segment.civil(end));
        count += moved_count(pattern, &segment, dst, from, end);
        let Some(following) = zone.following(&segment) else {
            break;
        };
        segment = following;
        from = segment.start;
    }
    count
}

/// Something for every hour is an interval: it goes by what the clocks show, each time
/// they show it, and has no use for a policy.
fn effective(pattern: &Pattern, dst: Dst) -> Dst {
    match pattern.times.every_hour() {
        true => Dst {
            gap: Gap::Skip,
            fold: Fold::Twice,
        },
        false => dst,
    }
}

/// The first due instant of a segment at or after `from`, which may lie before the
/// segment if that is the first one looked at.
fn in_segment(
    pattern: &Pattern,
    segment: &Segment,
    dst: Dst,
    from: i64,
) -> Option<(i64, DstEffect)> {
    let shown = pattern.at_or_after(shown_from(segment, dst, from));
    let shown = shown.map(|civil| {
        let again = segment.fold_end().is_some_and(|end| civil < end);
        let effect = if again {
            DstEffect::Repeated
        } else {
            DstEffect::None
        };
        (segment.instant(civil), effect)
    });
    let moved = moved(pattern, segment, dst, from).map(|at| (at, DstEffect::Shifted));
    // Plain comes first in the order of `DstEffect`: a moved time that meets a plain one is
    // nothing special.
    shown.into_iter().chain(moved).min()
}

/// From when on the clocks of a segment count.
fn shown_from(segment: &Segment, dst: Dst, from: i64) -> Civil {
    let shown = segment.civil(from);
    match (segment.fold_end(), dst.fold) {
        (Some(end), Fold::Once) => shown.max(end),
        _ => shown,
    }
}

/// The first instant at or after `from` to which the gap before a segment has moved a
/// time.
fn moved(pattern: &Pattern, segment: &Segment, dst: Dst, from: i64) -> Option<i64> {
    let (begin, end) = segment.gap()?;
    let first_from = |civil| pattern.at_or_after(civil).filter(|civil| *civil < end);
    match dst.gap {
        Gap::Skip => None,
        Gap::Early if from <= segment.start => first_from(begin).map(|_| segment.start),
        Gap::Early => None,
        Gap::Late => {
            let civil = first_from(segment.unchanged(from).max(begin))?;
            Some(segment.unchanged_instant(civil))
        }
    }
}

/// How many instants of `from..to` are due only because the gap before the segment has
/// moved a time there.
fn moved_count(pattern: &Pattern, segment: &Segment, dst: Dst, from: i64, to: i64) -> u64 {
    let (mut from, mut count) = (from, 0);
    while let Some(at) = moved(pattern, segment, dst, from).filter(|at| *at < to) {
        if !pattern.contains(segment.civil(at)) {
            count += 1;
        }
        from = at + 1;
    }
    count
}
