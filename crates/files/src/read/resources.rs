//! Resources of a task, and the resource limits (`setrlimit`) of a process.

use std::collections::BTreeMap;

use baton_model::cpu::{CORE, Pin};
use baton_model::device::{DeviceAmount, WHOLE};
use baton_model::task::{Resources, Rlimit};

use super::{Fields, Item, Reader};
use crate::error::{Kind, Location, Position, quote};
use crate::limits::{COUNT_MAX, MEMORY_LIMIT_MIN, NAME_BYTES_MAX};
use crate::name::bad_name;
use crate::schema::Type;
use crate::schema::process::RLIMITS;
use crate::schema::task::RESOURCES;
use crate::suggest;
use crate::tree::Value;
use crate::units;

/// `RLIM_INFINITY`.
const UNLIMITED: u64 = u64::MAX;

/// Whether a text is the name of a custom resource, such as `licences` or `db/orders`. Those that every
/// worker has are not.
#[must_use]
pub fn is_resource_name(name: &str) -> bool {
    let mut parts = name.split('/');
    let parts_fit = parts.all(|part| bad_name(part).is_none());
    let is_known = name == CORE || RESOURCES.names().any(|known| known == name);
    parts_fit && name.len() <= NAME_BYTES_MAX && !is_known
}

impl Reader {
    pub(super) fn resources(&mut self, item: &Item<'_>) -> Resources {
        let fields = Fields {
            item: item.clone(),
            entries: item.tree.entries(),
            table: &RESOURCES,
        };
        let memory = fields.get("memory").and_then(|item| self.memory(&item));
        let (memory_min, memory_max) = memory.unwrap_or_default();
        let disk = fields.get("disk").and_then(|item| self.size(&item));
        let cpu_milli = self.factor_field(&fields, "cpu");
        let mut resources = Resources {
            cpu_milli: cpu_milli.unwrap_or_default(),
            memory_min,
            memory_max,
            disk: disk.unwrap_or_default(),
            gpu: self.devices(&fields, "gpu").unwrap_or_default(),
            named: BTreeMap::new(),
            pin: self.pin(&fields, cpu_milli),
        };
        let hint = "write resources, such as { cpu: 1, memory: 256MiB..1GiB }";
        for (name, value, position) in self.entries(item, hint) {
            if !RESOURCES.has(name) {
                self.countable(name, &value, position, &mut resources.named);
            }
        }
        resources
    }

    /// Reads a number of devices, or a part of one.
    fn devices(&mut self, fields: &Fields<'_>, name: &str) -> Option<DeviceAmount> {
        let milli = self.factor_field(fields, name)?;
        self.requestable(&fields.get(name)?, milli)
    }

    /// Checks that an attempt can request as much of devices.
    pub(super) fn requestable(&mut self, item: &Item<'_>, milli: u64) -> Option<DeviceAmount> {
        let amount = DeviceAmount::from_milli(milli);
        if !amount.is_requestable() {
            let whole = amount.milli() / WHOLE;
            let message =
                format!("{amount} is neither a part of one device nor a whole number of them");
            let hint = format!(
                "write {whole} or {}, or a part such as 0.5 to share one",
                whole + 1
            );
            self.note(item, Kind::OutOfRange, message, hint);
            return None;
        }
        Some(amount)
    }

    /// Reads what processes are bound to: only whole cores can be.
    fn pin(&mut self, fields: &Fields<'_>, cpu_milli: Option<u64>) -> Option<Pin> {
        let item = fields.get("pin")?;
        let pin = self.word_field(fields, "pin")?;
        if let Some(milli) = cpu_milli.filter(|milli| *milli == 0 || !milli.is_multiple_of(WHOLE)) {
            let cpu = DeviceAmount::from_milli(milli);
            let whole = milli.div_ceil(WHOLE).max(1);
            self.note(
                &item,
                Kind::Conflict,
                format!("`pin` binds to whole cores, and `cpu` is {cpu}"),
                format!("write `cpu: {whole}`, or remove `pin`"),
            );
            return None;
        }
        Some(pin)
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
        if (1..MEMORY_LIMIT_MIN).contains(&max) {
            let message = format!("{} is too little memory to start a process", quote(text));
            let plain = text.bytes().all(|byte| byte.is_ascii_digit());
            let hint = if plain {
                format!("a number alone counts bytes: write {text}MiB or {text}GiB")
            } else {
                "write at least 64KiB; most programs need some MiB".to_owned()
            };
            self.note(item, Kind::OutOfRange, message, hint);
            return None;
        }
        Some((min, max))
    }

    /// Reads a custom countable resource. A plain name that resembles a built-in resource is
    /// rejected: as a countable, no worker would ever offer it.
    pub(super) fn countable(
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
        if name == CORE {
            self.problems.push(key.problem(
                Kind::BadName,
                "cores are not requested by their number".to_owned(),
                "write `cpu: N`, and `pin: cores` for whole cores of its own",
            ));
            return;
        }
        if let Some(near) = suggest::nearest(name, RESOURCES.names())
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
        if !is_resource_name(name) {
            self.problems.push(key.problem(
                Kind::BadName,
                format!("{} is not a valid resource name", quote(name)),
                "use a name such as `licences` or `db/orders`",
            ));
            return;
        }
        let count = self.integer(value, 0, COUNT_MAX.into());
        if let Some(count) = count.and_then(|count| u64::try_from(count).ok()) {
            named.insert(name.to_owned(), count);
        }
    }

    pub(super) fn rlimits(&mut self, item: &Item<'_>) -> Vec<Rlimit> {
        let hint = "write limits, such as { nofile: 1024, core: unlimited }";
        let mut rlimits = Vec::new();
        for (name, value, position) in self.entries(item, hint) {
            let Some(field) = RLIMITS.fields.iter().find(|field| field.name == name) else {
                let known = RLIMITS.names();
                let mut problem = value.problem(
                    Kind::UnknownField,
                    format!("unknown resource limit {}", quote(name)),
                    suggest::hint(self.problems.len(), name, known, "the limits are:"),
                );
                problem.position = position;
                self.problems.push(problem);
                continue;
            };
            if let Some((soft, hard)) = self.limits(&value, field.kind) {
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
    fn limits(&mut self, item: &Item<'_>, kind: Type) -> Option<(u64, u64)> {
        let hint = "write a number, a range such as 1024..4096, or unlimited";
        let text = match &item.tree.value {
            Value::String(text) | Value::Number(text) => text,
            _ => {
                self.wrong_type(item, "a limit", hint);
                return None;
            }
        };
        let (low, high) = units::ends(text);
        let soft = self.limit(item, low, kind)?;
        let hard = match high {
            Some(high) => self.limit(item, high, kind)?,
            None => soft,
        };
        if soft > hard {
            let message = format!("the soft limit in {} is above the hard limit", quote(text));
            self.note(item, Kind::OutOfRange, message, "write SOFT..HARD");
            return None;
        }
        Some((soft, hard))
    }

    fn limit(&mut self, item: &Item<'_>, text: &str, kind: Type) -> Option<u64> {
        match (text, kind) {
            ("unlimited", _) => Some(UNLIMITED),
            (text, Type::ByteLimit) => self.unit(item, units::size(text)),
            (text, _) => {
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
