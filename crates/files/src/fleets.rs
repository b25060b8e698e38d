//! Files of fleets, and the form in which people see the definition of one.
//!
//! A definition has one flat form in files, in the API and in `baton fleet show`: the options of the backend
//! stand beside those that all fleets have, and amounts have units. [`fleet_to_json`] writes what
//! [`fleet_from_json`] reads.

use std::collections::BTreeMap;
use std::path::Path;

use baton_model::fleet::{Backend, FleetName, FleetSpec};
use serde_json::{Map, Number, Value};

use crate::error::Errors;
use crate::limits::{FILE_BYTES_MAX, TASK_LIMITS};
use crate::units;
use crate::{Format, open, read, source, text, tree};

/// A checked file of fleets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetsFile {
    /// The definitions, by name.
    pub fleets: BTreeMap<FleetName, FleetSpec>,
}

/// Reads and checks a file of fleets.
///
/// # Errors
/// Every problem of the file, including that it is unreadable.
pub fn load_fleets(path: impl AsRef<Path>) -> Result<FleetsFile, Errors> {
    let (name, format, bytes) = open(path.as_ref(), FILE_BYTES_MAX)?;
    parse_fleets(&bytes, format, &name)
}

/// Parses and checks a file of fleets. `name` is the file name shown in errors.
///
/// # Errors
/// Every problem of the file.
pub fn parse_fleets(bytes: &[u8], format: Format, name: &str) -> Result<FleetsFile, Errors> {
    tree::parse(text(bytes, &TASK_LIMITS, name)?, format, &TASK_LIMITS)
        .and_then(|root| read::fleets(&root))
        .map(|fleets| FleetsFile { fleets })
        .map_err(|problems| Errors::new(name, problems))
}

/// Checks the definition of one fleet in JSON. `name` is the file name shown in errors, which have fields but no
/// lines.
///
/// # Errors
/// Every problem of the definition.
pub fn fleet_from_json(value: &Value, name: &str) -> Result<FleetSpec, Errors> {
    source::from_json(value, &TASK_LIMITS)
        .and_then(|root| read::fleet(&root))
        .map_err(|problems| Errors::new(name, problems))
}

/// A definition as it stands in a file: without fields that have their default.
#[must_use]
pub fn fleet_to_json(spec: &FleetSpec) -> Value {
    let FleetSpec {
        backend,
        shape,
        workers_per_job,
        min,
        max,
        backlog,
        time_limit,
        idle_timeout,
        before,
        after,
        worker_args,
    } = spec;
    let mut fields = Definition(Map::new());
    fields.set("backend", backend.word());
    fields.set("cpus", thousandths(shape.capacity.cpu_milli));
    fields.set("memory", units::size_text(shape.capacity.memory));
    let gpus = shape.capacity.gpu.milli() / baton_model::device::WHOLE;
    fields.unless("gpus", gpus, 0);
    if shape.capacity.disk > 0 {
        fields.set("disk", units::size_text(shape.capacity.disk));
    }
    let named = shape.capacity.named.iter();
    fields.map("resources", named.map(|(name, amount)| (name, *amount)));
    fields.map("labels", shape.labels.iter().map(|(k, v)| (k, v.as_str())));
    fields.set("max", *max);
    fields.unless("min", *min, 0);
    fields.unless("workers_per_job", *workers_per_job, 1);
    fields.unless("backlog", *backlog, 1);
    fields.text("time_limit", time_limit.map(units::duration_text).as_ref());
    if *idle_timeout != FleetSpec::IDLE_TIMEOUT {
        fields.set("idle_timeout", units::duration_text(*idle_timeout));
    }
    fields.text("before", before.as_ref());
    fields.text("after", after.as_ref());
    fields.list("worker_args", worker_args);
    fields.options(backend);
    Value::Object(fields.0)
}

/// The fields of a definition.
struct Definition(Map<String, Value>);

impl Definition {
    fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    fn unless<T: Into<Value> + PartialEq>(&mut self, name: &str, value: T, default: T) {
        if value != default {
            self.set(name, value);
        }
    }

    fn text(&mut self, name: &str, value: Option<&String>) {
        if let Some(value) = value {
            self.set(name, value.as_str());
        }
    }

    fn list(&mut self, name: &str, values: &[String]) {
        if !values.is_empty() {
            self.set(name, values.to_vec());
        }
    }

    fn map<'a, T: Into<Value>>(
        &mut self,
        name: &str,
        entries: impl Iterator<Item = (&'a String, T)>,
    ) {
        let map: Map<String, Value> = entries
            .map(|(key, value)| (key.clone(), value.into()))
            .collect();
        if !map.is_empty() {
            self.set(name, map);
        }
    }

    fn options(&mut self, backend: &Backend) {
        match backend {
            Backend::Local => {}
            Backend::Slurm(options) => {
                self.text("partition", options.partition.as_ref());
                self.text("account", options.account.as_ref());
                self.text("qos", options.qos.as_ref());
                self.text("constraint", options.constraint.as_ref());
                self.text("gres", options.gres.as_ref());
                // A definition without this number has one node.
                self.unless("nodes", options.nodes.max(1), 1);
                self.list("args", &options.args);
            }
            Backend::Ssh(options) => {
                self.list("hosts", &options.hosts);
                self.text("binary", options.binary.as_ref());
                self.list("args", &options.args);
            }
            Backend::Command(options) => {
                self.set("start", options.start.as_str());
                self.set("list", options.list.as_str());
                self.set("stop", options.stop.as_str());
            }
        }
    }
}

/// A number of thousandths: 16, or 0.5.
fn thousandths(milli: u64) -> Value {
    if milli.is_multiple_of(1_000) {
        return (milli / 1_000).into();
    }
    let fraction = Number::from_f64(milli as f64 / 1e3);
    fraction.map_or(Value::Null, Value::Number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_definition_is_read_back_as_it_was() {
        for definition in [
            json!({ "backend": "local", "cpus": 0.5, "memory": "512MiB", "max": 2 }),
            json!({
                "backend": "slurm", "cpus": 16, "memory": "64GiB", "gpus": 4, "disk": "1TiB",
                "resources": { "licences": 2 }, "labels": { "zone": "eu" }, "max": 16, "min": 1,
                "workers_per_job": 2, "backlog": 3, "time_limit": "1h30m", "idle_timeout": "90s",
                "before": "module load cuda\nulimit -n 4096\n", "after": "rm -rf \"{{x}}\"",
                "worker_args": ["--label", "a=b"], "partition": "gpu", "account": "lab",
                "qos": "normal", "constraint": "a100", "gres": "gpu:a100:4", "nodes": 2,
                "args": ["--mail-type=FAIL"],
            }),
            json!({ "backend": "ssh", "cpus": 1, "memory": "1500MB", "max": 2, "hosts": ["a", "b@c"],
                    "binary": "/opt/baton", "args": ["-v"] }),
            json!({ "backend": "command", "cpus": 1, "memory": "1GiB", "max": 1, "start": "a",
                    "list": "b", "stop": "c \"$@\"" }),
        ] {
            let spec =
                fleet_from_json(&definition, "f").unwrap_or_else(|errors| panic!("{errors}"));
            let mut written = fleet_to_json(&spec);
            let again = fleet_from_json(&written, "f").expect("what is written is read");
            assert_eq!(again, spec);
            // The only other spelling: decimal sizes are written in exact binary units.
            written["memory"] = definition["memory"].clone();
            assert_eq!(written, {
                let mut expected = definition.clone();
                if definition["idle_timeout"] == "90s" {
                    expected["idle_timeout"] = "1m30s".into();
                }
                expected
            });
        }
    }

    #[test]
    fn the_example_of_the_guide_is_good() {
        let guide = include_str!("../../../docs/fleets.md");
        let blocks = guide.split("```yaml\n").skip(1);
        let blocks = blocks.filter_map(|it| it.split("```").next());
        let mut fleets = 0;
        for block in blocks {
            let file = parse_fleets(block.as_bytes(), Format::Yaml, "docs/fleets.md");
            fleets += file
                .unwrap_or_else(|errors| panic!("{block}{errors}"))
                .fleets
                .len();
        }
        assert!(fleets >= 4, "{fleets} fleets");
    }
}
