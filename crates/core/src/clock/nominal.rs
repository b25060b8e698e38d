//! The nominal time of a launch in texts: `{{ nominal_time - 1d in Europe/Berlin as %Y-%m-%d }}`.
//!
//! Defaults of parameters may refer to it. A launch renders them: with its due time if a schedule
//! launched it, with that of its upstream execution if `after` did, or else with the current time.

use baton_model::time::Wall;

use super::Zone;
use super::error::{ScheduleError, quote};
use super::limits::{NOMINAL_FORMAT_BYTES_MAX, NOMINAL_SHIFT_SECONDS_MAX};
use super::zone::RFC_3339;
use crate::workflow::template::{Token, scan};

/// The name of the reference.
const NAME: &str = "nominal_time";

const DAY_SECONDS: i64 = 86_400;

const HINT: &str = "write {{ nominal_time }}, with a shift, a zone and a format if needed: \
                    {{ nominal_time - 1d in Europe/Berlin as %Y-%m-%d }}";

/// One reference to the nominal time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NominalTime {
    /// Calendar days of the zone.
    days: i64,
    /// Elapsed time.
    seconds: i64,
    /// Instead of the zone of the schedule.
    zone: Option<Zone>,
    /// A pattern of `strftime`; RFC 3339 if none is given.
    format: Option<String>,
}

/// Checks a text whose only references are to the nominal time. Returns whether it has any.
///
/// # Errors
/// The first reference that is something else, or malformed.
pub fn check(text: &str) -> Result<bool, ScheduleError> {
    let mut found = false;
    for token in scan(text) {
        match token {
            Token::Literal(_) => {}
            Token::Reference { inside, .. } => {
                NominalTime::parse(inside)?;
                found = true;
            }
            Token::Unclosed(open) => {
                return Err(ScheduleError::new(
                    format!("the template {} is not closed", quote(open)),
                    "close it with `}}`; write `{{{{` for literal braces",
                ));
            }
        }
    }
    Ok(found)
}

/// Renders a text that [`check`] has accepted. `zone` is that of the schedule.
#[must_use]
pub fn render(text: &str, at: Wall, zone: &Zone) -> String {
    let mut rendered = String::with_capacity(text.len());
    for token in scan(text) {
        match token {
            Token::Literal(literal) | Token::Unclosed(literal) => rendered.push_str(literal),
            Token::Reference { inside, whole } => match NominalTime::parse(inside) {
                Ok(reference) => rendered.push_str(&reference.render(at, zone)),
                Err(_) => rendered.push_str(whole),
            },
        }
    }
    rendered
}

impl NominalTime {
    fn parse(inside: &str) -> Result<Self, ScheduleError> {
        let inside = inside.trim();
        let not_known = || {
            ScheduleError::new(
                format!(
                    "{} is not a reference that a default may have",
                    quote(inside)
                ),
                HINT,
            )
        };
        let mut rest = inside.strip_prefix(NAME).ok_or_else(not_known)?;
        if rest.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '.') {
            return Err(not_known());
        }
        let mut parsed = Self {
            days: 0,
            seconds: 0,
            zone: None,
            format: None,
        };
        loop {
            rest = rest.trim_start();
            if rest.is_empty() {
                return Ok(parsed);
            }
            if let Some(behind) = rest.strip_prefix(['+', '-']) {
                let sign = if rest.starts_with('-') { -1 } else { 1 };
                let behind = behind.trim_start();
                let end = behind.find(|c: char| !c.is_ascii_alphanumeric());
                let (span, behind) = behind.split_at(end.unwrap_or(behind.len()));
                parsed.shift(sign, span)?;
                rest = behind;
            } else if let Some(behind) = rest.strip_prefix("in ") {
                let behind = behind.trim_start();
                let end = behind.find(char::is_whitespace);
                let (zone, behind) = behind.split_at(end.unwrap_or(behind.len()));
                parsed.zone = Some(Zone::named(zone)?);
                rest = behind;
            } else if let Some(format) = rest.strip_prefix("as ") {
                parsed.format = Some(checked_format(format.trim())?);
                return Ok(parsed);
            } else {
                return Err(ScheduleError::new(
                    format!("{} does not continue {{{{ {NAME}", quote(rest)),
                    HINT,
                ));
            }
        }
    }

    /// Adds a span such as `1d12h`.
    fn shift(&mut self, sign: i64, span: &str) -> Result<(), ScheduleError> {
        let wrong = |reason: &str| {
            ScheduleError::new(
                format!("{} {reason}", quote(span)),
                "write a span such as 1d, 12h, 90m or 1w; days and weeks are those of the calendar",
            )
        };
        let mut rest = span;
        if rest.is_empty() {
            return Err(wrong("is not a span"));
        }
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let number: i64 = rest[..digits].parse().map_err(|_| wrong("is not a span"))?;
            rest = &rest[digits..];
            let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
            let (unit, behind) = rest.split_at(letters);
            let (days, seconds) = match unit {
                "s" => (0, 1),
                "m" => (0, 60),
                "h" => (0, 3_600),
                "d" => (1, 0),
                "w" => (7, 0),
                _ => return Err(wrong("has an unknown unit")),
            };
            let shifted = |from: i64, by: i64| number.checked_mul(by * sign)?.checked_add(from);
            let days = shifted(self.days, days);
            let seconds = shifted(self.seconds, seconds);
            let (Some(days), Some(seconds)) = (days, seconds) else {
                return Err(wrong("is more than ten years"));
            };
            let days_max = NOMINAL_SHIFT_SECONDS_MAX / DAY_SECONDS;
            if days.abs() > days_max || seconds.abs() > NOMINAL_SHIFT_SECONDS_MAX {
                return Err(wrong("is more than ten years"));
            }
            (self.days, self.seconds, rest) = (days, seconds, behind);
        }
        Ok(())
    }

    fn render(&self, at: Wall, zone: &Zone) -> String {
        let zone = self.zone.as_ref().unwrap_or(zone);
        let format = self.format.as_deref().unwrap_or(RFC_3339);
        zone.format_shifted(format, at, self.days, self.seconds)
    }
}

fn checked_format(format: &str) -> Result<String, ScheduleError> {
    let hint = "write a pattern of strftime, such as %Y-%m-%d or %H:%M";
    if format.is_empty() || format.len() > NOMINAL_FORMAT_BYTES_MAX {
        let message = format!("{} is not a format", quote(format));
        return Err(ScheduleError::new(message, hint));
    }
    if !Zone::UTC.accepts_format(format) {
        let message = format!("{} has an unknown conversion", quote(format));
        return Err(ScheduleError::new(message, hint));
    }
    Ok(format.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-03-29T00:30:00Z: 01:30 in Berlin, half an hour before its clocks are set forward.
    const AT: Wall = Wall(1_774_744_200_000);

    #[test]
    fn the_nominal_time_is_shifted_and_formatted_in_a_zone() {
        let berlin = Zone::named("Europe/Berlin").expect("a zone");
        for (text, rendered) in [
            ("plain", "plain"),
            ("{{ nominal_time }}", "2026-03-29T01:30:00+01:00"),
            ("{{nominal_time}}", "2026-03-29T01:30:00+01:00"),
            ("{{ nominal_time in UTC }}", "2026-03-29T00:30:00+00:00"),
            ("{{ nominal_time as %Y-%m-%d }}", "2026-03-29"),
            ("{{ nominal_time -1d as %F }}", "2026-03-28"),
            ("{{ nominal_time - 1w as %F }}", "2026-03-22"),
            // A day of the calendar is an hour shorter then; 24 hours are not.
            ("{{ nominal_time + 1d }}", "2026-03-30T01:30:00+02:00"),
            ("{{ nominal_time + 24h }}", "2026-03-30T02:30:00+02:00"),
            ("{{ nominal_time +1d12h - 30m as %d %H:%M }}", "30 13:00"),
            (
                "a-{{ nominal_time -1h in UTC as %H }}-{{{{x}}",
                "a-23-{{x}}",
            ),
        ] {
            assert_eq!(check(text), Ok(text.contains("nominal")), "{text}");
            assert_eq!(render(text, AT, &berlin), rendered, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_reference_is_said() {
        for (text, reason) in [
            ("{{ params.day }}", "is not a reference"),
            ("{{ nominal_times }}", "is not a reference"),
            ("{{ nominal_time.year }}", "is not a reference"),
            ("{{ nominal_time", "is not closed"),
            ("{{ nominal_time + }}", "is not a span"),
            ("{{ nominal_time + d }}", "is not a span"),
            ("{{ nominal_time + 1y }}", "unknown unit"),
            ("{{ nominal_time + 9999999d }}", "ten years"),
            (
                "{{ nominal_time + 99999999999999999999d }}",
                "is not a span",
            ),
            ("{{ nominal_time in Mars/Olympus }}", "unknown time zone"),
            ("{{ nominal_time | %F }}", "does not continue"),
            ("{{ nominal_time as %! }}", "unknown conversion"),
            ("{{ nominal_time as }}", "does not continue"),
        ] {
            let error = check(text).expect_err(text);
            assert!(error.message.contains(reason), "{text}: {error}");
            assert!(!error.hint.is_empty(), "{text}");
        }
    }

    #[test]
    fn no_time_and_no_shift_makes_it_panic() {
        for at in [0, 1, u64::MAX, 253_370_764_800_000, AT.0] {
            for shift in ["+3660d", "-3660d", "+87840h", "- 87840h"] {
                let text = format!("{{{{ nominal_time {shift} in Asia/Kathmandu }}}}");
                let _ = render(&text, Wall(at), &Zone::UTC);
            }
        }
    }
}
