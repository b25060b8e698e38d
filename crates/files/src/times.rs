//! Parsers of times as people write them: `2h` ago, `2026-11-01`, `2026-11-01 06:00`.

use baton_core::clock::{ScheduleError, Zone};
use baton_model::time::Wall;

use crate::error::Kind;
use crate::units::{UnitError, duration};

const HINT: &str = "write it as 10m, 2h, 2026-11-01, '2026-11-01 06:00' or 2026-11-01T06:00:00Z";

/// Parses an instant, in this zone if the text names none: `now`, a date, or a date and time.
///
/// # Errors
/// If it is none of them.
pub fn instant(text: &str, now: Wall, zone: &Zone) -> Result<Wall, ScheduleError> {
    if text == "now" {
        return Ok(now);
    }
    let is_date = text.len() == 10 && text.bytes().filter(|byte| *byte == b'-').count() == 2;
    if is_date {
        zone.instant(&format!("{text} 00:00"))
    } else {
        zone.instant(text)
    }
}

/// Parses a time in the past: how long ago, such as `10m`, or an instant, in this zone if the text
/// names none.
///
/// # Errors
/// If it is neither.
pub fn past(text: &str, now: Wall, zone: &Zone) -> Result<Wall, UnitError> {
    if let Ok(ago) = duration(text) {
        return Ok(Wall(now.0.saturating_sub(ago.0)));
    }
    instant(text, now, zone).map_err(|error| UnitError {
        kind: Kind::BadValue,
        message: error.message,
        hint: HINT.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_past_time_is_a_duration_or_an_instant() {
        let now = Wall(1_767_225_600_000);
        let read = |text| past(text, now, &Zone::UTC);
        assert_eq!(read("2026-01-01"), Ok(now));
        assert_eq!(read("2026-01-01T01:00:00+01:00"), Ok(now));
        assert_eq!(read("now"), Ok(now));
        assert_eq!(read("10m"), Ok(Wall(now.0 - 600_000)));
        let wrong = read("yesterday").expect_err("no time").to_string();
        assert!(wrong.contains("write it as 10m"), "{wrong}");
    }
}
