//! Durations and sizes as people read them.

/// A duration: `0.25 s`, `12 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`.
#[must_use]
pub fn duration(seconds: f64) -> String {
    let seconds = seconds.max(0.0);
    if seconds < 10.0 {
        return format!("{seconds:.2} s");
    }
    let whole = seconds as u64;
    let (days, hours, minutes, rest) = (
        whole / 86_400,
        whole / 3_600 % 24,
        whole / 60 % 60,
        whole % 60,
    );
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{rest} s"),
        (0, 0, _) => format!("{minutes} min {rest} s"),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// A number of bytes: `61 B`, `5.3 MiB`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    let mut size = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB"] {
        if size < 1_024.0 && unit == "B" {
            return format!("{bytes} B");
        }
        if size < 1_024.0 || unit == "TiB" {
            return format!("{size:.1} {unit}");
        }
        size /= 1_024.0;
    }
    format!("{bytes} B")
}

/// A number with its noun: `1 run`, `2 runs`.
#[must_use]
pub fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// A number of cores from thousandths: `2`, `0.5`.
#[must_use]
pub fn cores(milli: u64) -> String {
    let (whole, part) = (milli / 1_000, milli % 1_000);
    if part == 0 {
        return whole.to_string();
    }
    let part = format!("{part:03}");
    format!("{whole}.{}", part.trim_end_matches('0'))
}

/// Percent-encodes a text for a path or a query.
#[must_use]
pub fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_are_short() {
        for (seconds, text) in [
            (0.25, "0.25 s"),
            (12.9, "12 s"),
            (200.0, "3 min 20 s"),
            (7_500.0, "2 h 5 min"),
            (273_600.0, "3 d 4 h"),
            (-1.0, "0.00 s"),
        ] {
            assert_eq!(duration(seconds), text);
        }
        for (size, text) in [
            (61, "61 B"),
            (5_557_452, "5.3 MiB"),
            (1 << 50, "1024.0 TiB"),
        ] {
            assert_eq!(bytes(size), text);
        }
        assert_eq!(
            (count(1, "run"), count(2, "run")),
            ("1 run".into(), "2 runs".into())
        );
        assert_eq!((cores(2_000), cores(500)), ("2".into(), "0.5".into()));
        assert_eq!(encoded("a/b ä"), "a%2Fb%20%C3%A4");
    }
}
