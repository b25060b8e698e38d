//! Due times found the slow way: every minute at which the local clock of a zone matches a
//! pattern. It supports five fields of `*`, numbers, lists and steps, and nothing else; it has no
//! DST policy, so it equals a schedule that skips gaps and fires twice in folds.

use baton_core::clock::Zone;
use baton_model::time::Wall;

const MINUTE: u64 = 60_000;

/// Whether a field of a pattern matches a number.
fn names(field: &str, number: u64) -> bool {
    field.split(',').any(|part| match part.split_once('/') {
        Some((_, step)) => step.parse().is_ok_and(|step| number.is_multiple_of(step)),
        None => part == "*" || part.parse() == Ok(number),
    })
}

/// Parses the number in a range of the displayed time.
fn read(shown: &str, place: std::ops::Range<usize>) -> u64 {
    let digits = shown.get(place).and_then(|text| text.parse().ok());
    digits.unwrap_or(u64::MAX)
}

/// Returns the full minutes after `after`, up to and including `until`, at which the local clock
/// matches minute, hour, day and month of the pattern.
#[must_use]
pub fn due_times(pattern: &str, zone: &Zone, after: Wall, until: Wall) -> Vec<Wall> {
    let fields: Vec<&str> = pattern.split(' ').collect();
    let &[minute, hour, day, month, "*"] = &*fields else {
        return Vec::new();
    };
    let first = after.0 / MINUTE + 1;
    let minutes = first..=until.0 / MINUTE;
    let is_due = |at: &Wall| {
        // 2026-11-16T12:00:00
        let shown = zone.rfc3339(*at);
        names(minute, read(&shown, 14..16))
            && names(hour, read(&shown, 11..13))
            && names(day, read(&shown, 8..10))
            && names(month, read(&shown, 5..7))
    };
    minutes.map(|at| Wall(at * MINUTE)).filter(is_due).collect()
}
