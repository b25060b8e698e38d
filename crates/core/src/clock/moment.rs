//! Parsing of instants: `2026-11-14 06:00`, in the zone of the schedule or with an explicit
//! offset.

use jiff::Timestamp;
use jiff::civil::DateTime;

use super::error::{ScheduleError, quote};
use super::limits::END_SECONDS;
use super::zone::Zone;
use super::{Dst, Gap};

/// Parses an instant as seconds since the epoch. Of a local time that occurs twice it is the first.
pub(super) fn parse(text: &str, zone: &Zone, dst: Dst) -> Result<u64, ScheduleError> {
    let bad = |reason: &str| {
        ScheduleError::new(
            format!("{} {reason}", quote(text)),
            "write an instant such as `2026-11-14 06:00` or `2026-11-14T06:00:00Z`",
        )
    };
    let known = |c: char| c.is_ascii_digit() || "-:+ tzTZ".contains(c);
    let time = text.get(10..).filter(|time| time.contains(':'));
    let time = time.filter(|_| text.chars().all(known));
    let time = time.ok_or_else(|| bad("is not a date with a time"))?;
    let has_offset = time.contains(['+', '-', 'z', 'Z']);
    let seconds = if has_offset {
        let at: Timestamp = text.parse().map_err(|_| bad("is not a date with a time"))?;
        at.as_second()
    } else {
        let at: DateTime = text.parse().map_err(|_| bad("is not a date with a time"))?;
        in_zone(at, zone, dst)?
    };
    match u64::try_from(seconds) {
        Ok(seconds) if (seconds as i64) < END_SECONDS => Ok(seconds),
        _ => Err(bad("is before 1970, or too far ahead")),
    }
}

/// The instant of a local time in a zone.
fn in_zone(at: DateTime, zone: &Zone, dst: Dst) -> Result<i64, ScheduleError> {
    let never = || {
        ScheduleError::new(
            format!("{at} does not exist in {}", zone.name()),
            "clocks are set forward there: write another time",
        )
    };
    let utc = jiff::tz::Offset::UTC
        .to_timestamp(at)
        .map_err(|_| never())?;
    let civil = super::civil::Civil(utc.as_second());
    // No zone is further from UTC than 26 hours: the segment with this time starts no earlier.
    let mut segment = zone.segment(civil.0 - 26 * 3_600);
    loop {
        let instant = segment.instant(civil);
        if (segment.start..segment.end).contains(&instant) {
            return Ok(instant);
        }
        if let Some((begin, end)) = segment.gap()
            && (begin..end).contains(&civil)
        {
            return match dst.gap {
                Gap::Skip => Err(never()),
                Gap::Early => Ok(segment.start),
                Gap::Late => Ok(segment.unchanged_instant(civil)),
            };
        }
        segment = zone.following(&segment).ok_or_else(never)?;
    }
}
