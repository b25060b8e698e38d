//! The text format of Prometheus, version 0.0.4.

use std::fmt::{Display, Write};

use super::table::{Family, Kind};

/// A scrape response under construction.
#[derive(Debug, Default)]
pub(crate) struct Text(String);

impl Text {
    /// Writes a family without labels.
    pub(crate) fn one(&mut self, family: &Family, value: u64) {
        let no_labels: [&str; 0] = [];
        self.family(family, [(no_labels, value)]);
    }

    /// Writes a family; each row has its label values in order.
    pub(crate) fn family<const N: usize, L: AsRef<str>>(
        &mut self,
        family: &Family,
        rows: impl IntoIterator<Item = ([L; N], u64)>,
    ) {
        debug_assert_eq!(family.labels.len(), N, "{}", family.name);
        self.head(family);
        for (values, value) in rows {
            let pairs = family.labels.iter().zip(&values);
            let pairs: Vec<String> = pairs
                .map(|(label, value)| format!("{label}=\"{}\"", escaped(value.as_ref())))
                .collect();
            if pairs.is_empty() {
                self.line(family.name, value);
            } else {
                self.line(&format!("{}{{{}}}", family.name, pairs.join(",")), value);
            }
        }
    }

    /// Writes a histogram of microseconds, in seconds; `counts` has one entry more than
    /// `bounds_us`.
    pub(crate) fn histogram(
        &mut self,
        family: &Family,
        bounds_us: &[u64],
        counts: &[u64],
        sum_us: u64,
    ) {
        debug_assert_eq!(family.kind, Kind::Histogram, "{}", family.name);
        self.head(family);
        let name = family.name;
        let mut below = 0;
        for (at, count) in counts.iter().enumerate() {
            below += count;
            let bound = bounds_us.get(at).map(|bound| seconds(*bound).to_string());
            let bound = bound.as_deref().unwrap_or("+Inf");
            self.line(&format!("{name}_bucket{{le=\"{bound}\"}}"), below);
        }
        self.line(&format!("{name}_sum"), seconds(sum_us));
        self.line(&format!("{name}_count"), below);
    }

    pub(crate) fn into_string(self) -> String {
        self.0
    }

    fn head(&mut self, family: &Family) {
        let Family { name, help, .. } = family;
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let kind = family.kind.word();
        // Writing into a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, value: impl Display) {
        // Likewise.
        let _ = writeln!(self.0, "{name} {value}");
    }
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_may_hold_anything() {
        let family = Family {
            name: "x",
            kind: Kind::Gauge,
            labels: &["a", "b"],
            help: "What.",
        };
        let mut text = Text::default();
        text.family(&family, [(["q\"\\\n", ""], 7)]);
        let wanted = "# HELP x What.\n# TYPE x gauge\nx{a=\"q\\\"\\\\\\n\",b=\"\"} 7\n";
        assert_eq!(text.into_string(), wanted);
    }
}
