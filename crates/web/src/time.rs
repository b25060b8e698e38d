//! Times in pages: UTC for readers without scripts; the script shows the viewer's zone.

use std::fmt;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A time, in milliseconds since 1970. It is printed as a `time` element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(pub u64);

impl askama::filters::HtmlSafe for Stamp {}

impl Stamp {
    fn timestamp(self) -> Option<Timestamp> {
        Timestamp::from_millisecond(i64::try_from(self.0).ok()?).ok()
    }

    /// As RFC 3339, in UTC.
    #[must_use]
    pub fn rfc3339(self) -> String {
        self.timestamp()
            .map_or_else(String::new, |time| time.to_string())
    }

    /// As people read it, to the second, in UTC.
    #[must_use]
    pub fn utc(self) -> String {
        let Some(time) = self.timestamp() else {
            return format!("{} ms", self.0);
        };
        let time = time.to_zoned(TimeZone::UTC);
        format!(
            "{:04}-{:02}-{:02} {:02}:{:02}:{:02}Z",
            time.year(),
            time.month(),
            time.day(),
            time.hour(),
            time.minute(),
            time.second()
        )
    }

    /// The hour of the day in UTC, as `14:00`.
    #[must_use]
    pub fn hour(self) -> String {
        let hour = self.0 / 3_600_000 % 24;
        format!("{hour:02}:00")
    }
}

impl Stamp {
    /// The day in UTC, as `2026-01-31`.
    #[must_use]
    pub fn day(self) -> String {
        let utc = self.utc();
        utc.split(' ').next().unwrap_or_default().to_owned()
    }

    /// The time of the day in UTC, as `14:05`.
    #[must_use]
    pub fn minute(self) -> String {
        let minutes = self.0 / 60_000;
        format!("{:02}:{:02}", minutes / 60 % 24, minutes % 60)
    }
}

/// A time that is read to the millisecond, beside others: an entry of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExactStamp(pub Stamp);

impl askama::filters::HtmlSafe for ExactStamp {}

impl fmt::Display for ExactStamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stamp(at) = self.0;
        let (exact, utc) = (self.0.rfc3339(), self.0.utc());
        let shown = utc.trim_end_matches('Z');
        write!(
            f,
            "<time datetime=\"{exact}\" data-at=\"{at}\" data-exact>{shown}.{:03}Z</time>",
            at % 1_000
        )
    }
}

/// The first moment of a day in UTC, from `2026-01-31`.
#[must_use]
pub fn day(text: &str) -> Option<u64> {
    let date: jiff::civil::Date = text.parse().ok()?;
    let start = date.to_zoned(TimeZone::UTC).ok()?.timestamp();
    u64::try_from(start.as_millisecond()).ok()
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (exact, shown) = (self.rfc3339(), self.utc());
        write!(
            f,
            "<time datetime=\"{exact}\" data-at=\"{}\">{shown}</time>",
            self.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_an_element_with_its_exact_value() {
        assert_eq!(
            Stamp(1_763_331_003_250).to_string(),
            "<time datetime=\"2025-11-16T22:10:03.25Z\" data-at=\"1763331003250\">2025-11-16 22:10:03Z</time>"
        );
        assert_eq!(
            ExactStamp(Stamp(1_763_331_003_050)).to_string(),
            "<time datetime=\"2025-11-16T22:10:03.05Z\" data-at=\"1763331003050\" data-exact>2025-11-16 22:10:03.050Z</time>"
        );
        assert_eq!(Stamp(1_763_331_003_250).hour(), "22:00");
        assert_eq!(Stamp(1_763_331_003_250).day(), "2025-11-16");
        assert_eq!(day("2025-11-16"), Some(1_763_251_200_000));
        assert_eq!(day("16.11.2025"), None);
        assert_eq!(Stamp(u64::MAX).utc(), "18446744073709551615 ms");
    }
}
