//! From civil times to instants, with gaps and folds.
//!
//! A segment of a zone has up to two ordered sequences of due instants: the regular ones and, after
//! a gap, those that the gap has shifted. The next instant is the smaller head. Instants are seconds
//! since the epoch.
//!
//! Assumption: no segment is shorter than the gap or the fold at its start. A test checks the whole
//! database.

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

/// Number of due instants in `from..to`.
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

/// The policy that a pattern follows.
///
/// One with times in every hour is elapsed time: it follows the local clock whenever it shows one of
/// them. One that repeats within some hours is elapsed time in a fold, unless the policy says
/// otherwise; a pause of an hour would be a hole in an interval.
fn effective(pattern: &Pattern, dst: Dst) -> Dst {
    if pattern.times.every_hour() {
        return Dst {
            gap: Gap::Skip,
            fold: Fold::Twice,
        };
    }
    let fold = match dst.fold {
        Fold::Auto if pattern.is_interval => Fold::Twice,
        Fold::Auto => Fold::Once,
        fold => fold,
    };
    Dst { fold, ..dst }
}

/// The first due instant of a segment at or after `from`, which may lie before the segment if that
/// is the first one searched.
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
    // `DstEffect::None` is the least: a shifted time that coincides with a regular one counts as
    // regular.
    shown.into_iter().chain(moved).min()
}

/// The first civil time of a segment to consider.
fn shown_from(segment: &Segment, dst: Dst, from: i64) -> Civil {
    let shown = segment.civil(from);
    match (segment.fold_end(), dst.fold) {
        (Some(end), Fold::Once) => shown.max(end),
        _ => shown,
    }
}

/// The first instant at or after `from` to which the gap before a segment has shifted a time.
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

/// Number of instants in `from..to` that are due only because the gap before the segment has shifted
/// a time there.
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
