//! The wall clock, and formatting of times and sizes.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use baton_core::clock::Zone;
use baton_files::times;
use baton_model::time::{Millis, Wall};
pub(crate) use baton_web::text::{size, span};

/// Reads the wall clock; 0 before 1970.
pub(crate) fn now() -> Wall {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let ms = since.map_or(0, |since| since.as_millis());
    Wall(u64::try_from(ms).unwrap_or(u64::MAX))
}

/// Time between two readings of the wall clock; zero if it was set back.
pub(crate) const fn between(from: Wall, to: Wall) -> Millis {
    Millis(to.0.saturating_sub(from.0))
}

/// Formats an offset in milliseconds: `+1.250s`.
pub(crate) fn since(span: Millis) -> String {
    format!("+{}.{:03}s", span.0 / 1_000, span.0 % 1_000)
}

/// Reads an instant, in this zone if the text names none: `now`, a date, or a date and time.
pub(crate) fn instant(text: &str, zone: &Zone) -> Result<Wall, String> {
    times::instant(text, now(), zone).map_err(|error| error.message)
}

/// Reads a time in the past: how long ago, such as `10m`, or an instant, in the viewer's zone if the
/// text names none.
pub(crate) fn past(text: &str) -> Result<Wall, String> {
    times::past(text, now(), &viewer_zone()).map_err(|error| error.to_string())
}

/// Formats a date and time in the viewer's zone: `2026-11-15 13:30:00+01:00`, or with `Z` in UTC.
pub(crate) fn stamp(wall: Wall) -> String {
    stamp_in(viewer(), wall)
}

/// Formats the time of day in the viewer's zone: `13:30:00`.
pub(crate) fn time_of_day(wall: Wall) -> String {
    viewer().format("%H:%M:%S", wall)
}

/// The zone in which times are shown.
fn viewer() -> &'static Zone {
    static VIEWER: OnceLock<Zone> = OnceLock::new();
    VIEWER.get_or_init(viewer_zone)
}

fn stamp_in(zone: &Zone, wall: Wall) -> String {
    let text = zone.format("%Y-%m-%d %H:%M:%S%:z", wall);
    match text.strip_suffix("+00:00") {
        Some(utc) if zone.name() == "UTC" => format!("{utc}Z"),
        _ => text,
    }
}

static USES_UTC: AtomicBool = AtomicBool::new(false);

/// Makes times be formatted in UTC; called before the first one is.
pub(crate) fn use_utc() {
    USES_UTC.store(true, Ordering::Relaxed);
}

/// The zone of `TZ`, or of this host; UTC if that is not known by name.
pub(crate) fn viewer_zone() -> Zone {
    if cfg!(test) || USES_UTC.load(Ordering::Relaxed) {
        return Zone::UTC;
    }
    let name = match std::env::var("TZ") {
        Ok(name) => name,
        Err(_) => host_zone().unwrap_or_default(),
    };
    zone_of(&name)
}

/// The zone of a name as `TZ` has it: `Europe/Berlin`, `:Europe/Berlin`, or the path of its file.
fn zone_of(name: &str) -> Zone {
    let name = name.strip_prefix(':').unwrap_or(name);
    let name = match name.rsplit_once("zoneinfo/") {
        Some((_, name)) => name,
        None => name,
    };
    match name {
        "Etc/UTC" | "Etc/UCT" | "Zulu" | "" => Zone::UTC,
        name => Zone::named(name).unwrap_or(Zone::UTC),
    }
}

/// The name of this host's zone, from the link to its file, or from Debian's file.
fn host_zone() -> Option<String> {
    let link = std::fs::read_link("/etc/localtime").ok();
    let link = link.as_deref().and_then(Path::to_str);
    match link.filter(|link| link.contains("zoneinfo/")) {
        Some(link) => Some(link.to_owned()),
        None => {
            let text = std::fs::read_to_string("/etc/timezone").ok()?;
            Some(text.trim().to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_has_milliseconds() {
        assert_eq!(since(Millis(61_007)), "+61.007s");
    }

    #[test]
    fn dates_are_in_utc() {
        for (ms, text) in [
            (0, "1970-01-01 00:00:00Z"),
            (951_782_399_999, "2000-02-28 23:59:59Z"),
            (951_782_400_000, "2000-02-29 00:00:00Z"),
            (4_107_542_400_000, "2100-03-01 00:00:00Z"),
        ] {
            assert_eq!(stamp(Wall(ms)), text);
        }
    }

    #[test]
    fn dates_are_in_the_zone_of_the_viewer() {
        let at = Wall(1_763_210_000_000);
        for (name, text) in [
            ("Europe/Berlin", "2025-11-15 13:33:20+01:00"),
            (":Europe/Berlin", "2025-11-15 13:33:20+01:00"),
            (
                "/usr/share/zoneinfo/Asia/Kolkata",
                "2025-11-15 18:03:20+05:30",
            ),
            ("Europe/London", "2025-11-15 12:33:20+00:00"),
            ("Etc/UTC", "2025-11-15 12:33:20Z"),
            ("", "2025-11-15 12:33:20Z"),
            ("nonsense", "2025-11-15 12:33:20Z"),
        ] {
            assert_eq!(stamp_in(&zone_of(name), at), text, "{name}");
        }
    }
}
