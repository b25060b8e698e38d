//! Time zones: UTC offsets, and when they change.
//!
//! The rules are those of `baton_tzdata`, which do not change while the process runs. A zone is
//! divided into [`Segment`]s, spans of constant offset; gaps and folds are at their starts.

use std::cmp::Ordering;
use std::fmt;

use baton_model::time::Wall;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Span, Timestamp};

use super::civil::Civil;
use super::error::{ScheduleError, nearest, quote};
use super::limits::END_SECONDS;
use super::{Dst, moment};

/// The pattern of RFC 3339: `2026-11-16T12:00:00+01:00`.
pub(super) const RFC_3339: &str = "%Y-%m-%dT%H:%M:%S%:z";

/// A time zone by its name in the IANA database. Copies share the rules.
#[derive(Clone)]
pub struct Zone(TimeZone);

impl Zone {
    /// Coordinated universal time.
    pub const UTC: Self = Self(TimeZone::UTC);

    /// The zone of a name such as `Europe/Berlin`. Case does not matter.
    ///
    /// # Errors
    /// No zone of this name, with the nearest one.
    pub fn named(name: &str) -> Result<Self, ScheduleError> {
        if name.eq_ignore_ascii_case("UTC") {
            return Ok(Self::UTC);
        }
        let unknown = || {
            let known = nearest_zone(name).unwrap_or("Europe/Berlin or UTC");
            ScheduleError::new(
                format!("unknown time zone {}", quote(name)),
                format!("write a name of the IANA database, such as {known}"),
            )
        };
        let (name, rules) = baton_tzdata::get(name).ok_or_else(unknown)?;
        let zone = TimeZone::tzif(name, rules).map_err(|_| unknown())?;
        Ok(Self(zone))
    }

    /// The name in the database.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// Local time of an instant for display: `Mon 2026-11-16 12:00:00 +01:00`.
    #[must_use]
    pub fn shown(&self, at: Wall) -> String {
        self.format("%a %Y-%m-%d %H:%M:%S %:z", at)
    }

    /// Local time of an instant in RFC 3339: `2026-11-16T12:00:00+01:00`.
    #[must_use]
    pub fn rfc3339(&self, at: Wall) -> String {
        self.format(RFC_3339, at)
    }

    /// Parses an instant such as `2026-11-14 06:00` in this zone. An offset in the text takes
    /// precedence; of a local time that occurs twice it is the first.
    ///
    /// # Errors
    /// If it is not a date with a time, or before 1970.
    pub fn instant(&self, text: &str) -> Result<Wall, ScheduleError> {
        let second = moment::parse(text, self, Dst::default())?;
        Ok(Wall(second * 1_000))
    }

    /// Formats an instant by a pattern of `strftime`; empty beyond the calendar.
    #[must_use]
    pub fn format(&self, pattern: &str, at: Wall) -> String {
        let second = i64::try_from(at.0 / 1_000).unwrap_or(i64::MAX);
        let shown = Timestamp::from_second(second)
            .and_then(|at| strtime::format(pattern, &at.to_zoned(self.0.clone())));
        shown.unwrap_or_default()
    }

    /// The same for the instant that is some calendar days and then some elapsed seconds away. At
    /// the ends of the calendar it stays there.
    pub(super) fn format_shifted(
        &self,
        pattern: &str,
        at: Wall,
        days: i64,
        seconds: i64,
    ) -> String {
        let second = i64::try_from(at.0 / 1_000).unwrap_or(i64::MAX);
        let Ok(at) = Timestamp::from_second(second) else {
            return String::new();
        };
        let at = at.to_zoned(self.0.clone());
        let at = at.saturating_add(Span::new().days(days));
        let at = at.saturating_add(SignedDuration::from_secs(seconds));
        strtime::format(pattern, &at).unwrap_or_default()
    }

    /// Whether every conversion of a pattern of `strftime` is known.
    pub(super) fn accepts_format(&self, pattern: &str) -> bool {
        strtime::format(pattern, &Timestamp::UNIX_EPOCH.to_zoned(self.0.clone())).is_ok()
    }

    /// UTC offset in seconds at an instant, in seconds since the epoch.
    fn offset_seconds(&self, at: i64) -> i64 {
        match Timestamp::from_second(at) {
            Ok(at) => i64::from(self.0.to_offset(at).seconds()),
            Err(_) => 0,
        }
    }

    /// The segment of an instant.
    pub(super) fn segment(&self, at: i64) -> Segment {
        let offset = self.offset_seconds(at);
        if self.0 == TimeZone::UTC {
            return Segment::even(offset);
        }
        // Strictly before the next second: a change at this very one counts.
        let start = Timestamp::from_second(at + 1)
            .ok()
            .and_then(|at| self.0.preceding(at).next())
            .map(|change| change.timestamp().as_second());
        Segment {
            start: start.unwrap_or(i64::MIN),
            end: self.change_after(at).unwrap_or(i64::MAX),
            offset,
            before: start.map_or(offset, |start| self.offset_seconds(start - 1)),
        }
    }

    /// The next segment, if it starts before the end of the calendar.
    pub(super) fn following(&self, segment: &Segment) -> Option<Segment> {
        if segment.end >= END_SECONDS {
            return None;
        }
        Some(Segment {
            start: segment.end,
            end: self.change_after(segment.end).unwrap_or(i64::MAX),
            offset: self.offset_seconds(segment.end),
            before: segment.offset,
        })
    }

    fn change_after(&self, at: i64) -> Option<i64> {
        let at = Timestamp::from_second(at).ok()?;
        let change = self.0.following(at).next()?;
        Some(change.timestamp().as_second())
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Zone {}

impl Ord for Zone {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name().cmp(other.name())
    }
}

impl PartialOrd for Zone {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The most similar zone name, by the whole name or by the city.
fn nearest_zone(name: &str) -> Option<&'static str> {
    let city = |zone: &'static str| zone.rsplit('/').next().unwrap_or(zone);
    let plain = name.replace(' ', "_");
    let mut zones = baton_tzdata::available();
    let same = |zone: &&'static str| city(zone).eq_ignore_ascii_case(&plain);
    zones
        .find(same)
        .or_else(|| nearest(&plain, baton_tzdata::available()))
}

/// A span of constant offset. Instants are seconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// The first instant.
    pub(super) start: i64,
    /// The first instant of the next segment.
    pub(super) end: i64,
    offset: i64,
    before: i64,
}

impl Segment {
    /// A segment without a change of offset.
    const fn even(offset: i64) -> Self {
        Self {
            start: i64::MIN,
            end: i64::MAX,
            offset,
            before: offset,
        }
    }

    /// Local time of an instant.
    pub(super) const fn civil(&self, at: i64) -> Civil {
        Civil(at.saturating_add(self.offset))
    }

    /// Instant of a local time.
    pub(super) const fn instant(&self, civil: Civil) -> i64 {
        civil.0.saturating_sub(self.offset)
    }

    /// Local time by the offset before this segment.
    pub(super) const fn unchanged(&self, at: i64) -> Civil {
        Civil(at.saturating_add(self.before))
    }

    /// Instant of a local time by the offset before this segment.
    pub(super) const fn unchanged_instant(&self, civil: Civil) -> i64 {
        civil.0.saturating_sub(self.before)
    }

    /// The local times skipped at the start of this segment, as a half-open range.
    pub(super) fn gap(&self) -> Option<(Civil, Civil)> {
        (self.offset > self.before).then(|| (self.unchanged(self.start), self.civil(self.start)))
    }

    /// End of the local times that this segment repeats, if clocks were set back at its start.
    pub(super) fn fold_end(&self) -> Option<Civil> {
        (self.offset < self.before).then(|| self.unchanged(self.start))
    }
}
