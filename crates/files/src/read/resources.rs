//! Resources of a task, and the resource limits (`setrlimit`) of a process.

use std::collections::BTreeMap;

use baton_model::task::{Resources, Rlimit};

use super::{Item, Reader};
use crate::error::{Kind, Location, Position, quote};
use crate::limits::{COUNT_MAX, CPU_MILLI_MAX, NAME_BYTES_MAX};
use crate::suggest;
use crate::tree::Value;
use crate::units;

const BUILT_IN: &[&str] = &["cpu", "memory", "disk", "gpu"];

/// The unit of a limit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Measure {
    Bytes,
    Number,
}

/// The limits of Linux, as `setrlimit` names them.
const RLIMITS: &[(&str, Measure)] = &[
    ("as", Measure::Bytes),
    ("core", Measure::Bytes),
    ("cpu", Measure::Number),
    ("data", Measure::Bytes),
    ("fsize", Measure::Bytes),
    ("locks", Measure::Number),
    ("memlock", Measure::Bytes),
    ("msgqueue", Measure::Bytes),
    ("nice", Measure::Number),
    ("nofile", Measure::Number),
    ("nproc", Measure::Number),
    ("rss", Measure::Bytes),
    ("rtprio", Measure::Number),
    ("rttime", Measure::Number),
    ("sigpending", Measure::Number),
    ("stack", Measure::Bytes),
];

/// `RLIM_INFINITY`.
const UNLIMITED: u64 = u64::MAX;

impl Reader {
    pub(super) fn resources(&mut self, item: &Item<'_>) -> Resources {
        let mut resources = Resources::default();
        let hint = "write resources, such as { cpu: 1, memory: 256MiB..1GiB }";
        for (name, value, position) in self.entries(item, hint) {
            match name {
                "cpu" => {
                    resources.cpu_milli = self.factor(&value, 0, CPU_MILLI_MAX).unwrap_or(0);
                }
                "memory" => {
                    (resources.memory_min, resources.memory_max) =
                        self.memory(&value).unwrap_or_default();
                }
                "disk" => resources.disk = self.size(&value).unwrap_or(0),
                "gpu" => resources.gpu = self.count(&value, 0).unwrap_or(0),
                name => self.countable(name, &value, position, &mut resources.named),
            }
        }
        resources
    }

    /// Reads a size for both ends, a range, or a range without an upper end.
    fn memory(&mut self, item: &Item<'_>) -> Option<(u64, u64)> {
        let hint = "write a size such as 256MiB, or a range such as 256MiB..1GiB";
        let text = self.unit_text(item, "a size or a range", hint)?;
        let (low, high) = units::ends(text);
        let min = self.unit(item, units::size(low))?;
        let max = match high {
            None => min,
            Some("") => return Some((min, 0)),
            Some(high) => self.unit(item, units::size(high))?,
        };
        if max < min {
            let message = format!(
                "the maximum of the range {} is below its minimum",
                quote(text)
            );
            self.note(
                item,
                Kind::OutOfRange,
                message,
                "write the smaller size first",
            );
            return None;
        }
        Some((min, max))
    }

    /// Reads a custom countable resource. A plain name that resembles a built-in resource is
    /// rejected: as a countable, no worker would ever offer it.
    fn countable(
        &mut self,
        name: &str,
        value: &Item<'_>,
        position: Option<Position>,
        named: &mut BTreeMap<String, u64>,
    ) {
        let key = Location {
            path: value.path.clone(),
            position,
        };
        if let Some(near) = suggest::nearest(name, BUILT_IN.iter().copied())
            && !name.contains('/')
        {
            self.problems.push(key.problem(
                Kind::UnknownField,
                format!("unknown resource {}", quote(name)),
                format!(
                    "did you mean `{near}`? A custom resource with such a name needs a slash: `pool/{name}`"
                ),
            ));
            return;
        }
        let parts_fit = name
            .split('/')
            .all(|part| super::scalars::bad_name(part).is_none());
        if !parts_fit || name.len() > NAME_BYTES_MAX {
            self.problems.push(key.problem(
                Kind::BadName,
                format!("{} is not a valid resource name", quote(name)),
                "use a name such as `licences` or `db/orders`",
            ));
            return;
        }
        if let Some(count) = self.count_to(value, 0, COUNT_MAX) {
            named.insert(name.to_owned(), count.into());
        }
    }

    pub(super) fn rlimits(&mut self, item: &Item<'_>) -> Vec<Rlimit> {
        let hint = "write limits, such as { nofile: 1024, core: unlimited }";
        let mut rlimits = Vec::new();
        for (name, value, position) in self.entries(item, hint) {
            let Some((_, measure)) = RLIMITS.iter().find(|(known, _)| *known == name) else {
                let known = RLIMITS.iter().map(|(known, _)| *known);
                let mut problem = value.problem(
                    Kind::UnknownField,
                    format!("unknown resource limit {}", quote(name)),
                    suggest::hint(self.problems.len(), name, known, "the limits are:"),
                );
                problem.position = position;
                self.problems.push(problem);
                continue;
            };
            if let Some((soft, hard)) = self.limits(&value, *measure) {
                rlimits.push(Rlimit {
                    resource: name.to_owned(),
                    soft,
                    hard,
                });
            }
        }
        // Not every format keeps the order of a map, and it has no meaning.
        rlimits.sort();
        rlimits
    }

    /// Reads one limit for soft and hard, or a range from soft to hard.
    fn limits(&mut self, item: &Item<'_>, measure: Measure) -> Option<(u64, u64)> {
        let hint = "write a number, a range such as 1024..4096, or unlimited";
        let text = match &item.tree.value {
            Value::String(text) | Value::Number(text) => text,
            _ => {
                self.wrong_type(item, "a limit", hint);
                return None;
            }
        };
        let (low, high) = units::ends(text);
        let soft = self.limit(item, low, measure)?;
        let hard = match high {
            Some(high) => self.limit(item, high, measure)?,
            None => soft,
        };
        if soft > hard {
            let message = format!("the soft limit in {} is above the hard limit", quote(text));
            self.note(item, Kind::OutOfRange, message, "write SOFT..HARD");
            return None;
        }
        Some((soft, hard))
    }

    fn limit(&mut self, item: &Item<'_>, text: &str, measure: Measure) -> Option<u64> {
        match (text, measure) {
            ("unlimited", _) => Some(UNLIMITED),
            (text, Measure::Bytes) => self.unit(item, units::size(text)),
            (text, Measure::Number) => {
                let number = text
                    .parse()
                    .ok()
                    .filter(|_| text.bytes().all(|b| b.is_ascii_digit()));
                if number.is_none() {
                    self.note(
                        item,
                        Kind::BadValue,
                        format!("{} is not a limit", quote(text)),
                        "write an integer, a range such as 1024..4096, or unlimited",
                    );
                }
                number
            }
        }
    }
}
