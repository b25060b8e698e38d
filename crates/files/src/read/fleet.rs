//! Fleets: where a scheduler obtains workers.

use std::collections::BTreeMap;

use baton_core::fleet::mistakes;
use baton_model::device::DeviceAmount;
use baton_model::fleet::{
    Backend, CommandOptions, FleetName, FleetSpec, Shape, SlurmOptions, SshOptions,
};
use baton_model::placement::Capacity;
use baton_model::time::Millis;

use super::{Fields, Item, Reader};
use crate::error::{Kind, Problem, quote};
use crate::limits::{MEMORY_LIMIT_MIN, NAME_BYTES_MAX};
use crate::name::bad_name;
use crate::schema::fleet::{FLEET, FLEETS, OF_BACKENDS};
use crate::schema::task::RESOURCES;
use crate::tree::{Tree, Value};

const FLEETS_HINT: &str =
    "write fleets by name, such as { gpu: { backend: slurm, cpus: 16, memory: 64GiB, max: 4 } }";
const LABELS_HINT: &str = "write labels with their values, such as { zone: eu, disk: ssd }";
const RESOURCES_HINT: &str = "write resources with their numbers, such as { licences: 2 }";
const SHELL_HINT: &str = "write shell lines, such as `module load cuda`";

/// Whether a file defines fleets, valid or not. A task has a field of this name, too.
pub(crate) fn is_fleets(root: &Tree) -> bool {
    let of_others = ["task", "workflow", "run", "processes", "tasks"];
    root.has("fleets") && !of_others.iter().any(|field| root.has(field))
}

/// Reads and checks a file of fleets.
pub(crate) fn fleets(root: &Tree) -> Result<BTreeMap<FleetName, FleetSpec>, Vec<Problem>> {
    let mut reader = Reader::default();
    let fleets = reader.definitions(&Item::root(root));
    reader.finish(fleets)
}

/// Reads and checks the fields of one fleet.
pub(crate) fn fleet(root: &Tree) -> Result<FleetSpec, Vec<Problem>> {
    let mut reader = Reader::default();
    let fleet = reader.fleet(&Item::root(root));
    reader.finish(fleet)
}

impl Reader {
    fn finish<T>(self, read: Option<T>) -> Result<T, Vec<Problem>> {
        match read {
            Some(read) if self.problems.is_empty() => Ok(read),
            _ => Err(self.problems),
        }
    }

    fn definitions(&mut self, item: &Item<'_>) -> Option<BTreeMap<FleetName, FleetSpec>> {
        let fields = self.fields(item, &FLEETS, |key| {
            let hint = format!("move it into a fleet: fleets: {{ NAME: {{ {key}: … }} }}");
            FLEET.has(key).then_some(hint)
        })?;
        let Some(item) = fields.get("fleets") else {
            self.missing(&fields, "fleets", FLEETS_HINT);
            return None;
        };
        let mut fleets = BTreeMap::new();
        for (name, value, position) in self.entries(&item, FLEETS_HINT) {
            let spec = self.fleet(&value);
            match name.parse::<FleetName>() {
                Ok(name) => fleets.extend(spec.map(|spec| (name, spec))),
                Err(error) => self.problems.push(Problem {
                    kind: Kind::BadName,
                    position,
                    path: value.path.clone(),
                    message: format!("{} is not the name of a fleet: {error}", quote(name)),
                    hint: "use a name such as `gpu` or `cpu-long`".to_owned(),
                }),
            }
        }
        Some(fleets)
    }

    fn fleet(&mut self, item: &Item<'_>) -> Option<FleetSpec> {
        let before = self.problems.len();
        let fields = self.fields(item, &FLEET, |key| {
            (key == "name")
                .then(|| "the name is the key of the fleet: fleets: { NAME: … }".to_owned())
        })?;
        for (name, hint) in [
            (
                "backend",
                "add what starts its jobs, such as `backend: slurm`",
            ),
            ("cpus", "add the cores of one worker, such as `cpus: 16`"),
            (
                "memory",
                "add the memory of one worker, such as `memory: 64GiB`",
            ),
            (
                "max",
                "add the most workers that there may be, such as `max: 8`",
            ),
        ] {
            if !fields.has(name) {
                self.missing(&fields, name, hint);
            }
        }
        let backend = self.backend(&fields);
        let spec = FleetSpec {
            backend: backend.unwrap_or(Backend::Local),
            shape: self.shape(&fields),
            workers_per_job: self.integer_field(&fields, "workers_per_job").unwrap_or(1),
            min: self.integer_field(&fields, "min").unwrap_or_default(),
            max: self.integer_field(&fields, "max").unwrap_or(1),
            backlog: self.integer_field(&fields, "backlog").unwrap_or(1),
            time_limit: self.duration_field(&fields, "time_limit"),
            idle_timeout: self.idle_timeout(&fields),
            before: self.shell(&fields, "before"),
            after: self.shell(&fields, "after"),
            worker_args: self.arguments(&fields, "worker_args"),
        };
        if self.problems.len() == before {
            self.mistakes(&fields, &spec);
        }
        Some(spec)
    }

    fn idle_timeout(&mut self, fields: &Fields<'_>) -> Millis {
        let read = self.duration_field(fields, "idle_timeout");
        read.unwrap_or(FleetSpec::IDLE_TIMEOUT)
    }

    /// Reports what the scheduler would refuse, each at its field.
    fn mistakes(&mut self, fields: &Fields<'_>, spec: &FleetSpec) {
        for mistake in mistakes(spec) {
            let (field, _) = mistake.field.split_once('.').unwrap_or((mistake.field, ""));
            let item = fields.get(field).unwrap_or_else(|| fields.item.clone());
            self.note(&item, Kind::OutOfRange, mistake.problem, mistake.hint);
        }
    }

    fn shape(&mut self, fields: &Fields<'_>) -> Shape {
        let cpu_milli = self.factor_field(fields, "cpus").unwrap_or_default();
        let mut bytes = |name| fields.get(name).and_then(|item| self.fleet_size(&item));
        let (memory, disk) = (bytes("memory"), bytes("disk"));
        let gpus: u32 = self.integer_field(fields, "gpus").unwrap_or_default();
        let mut named = BTreeMap::new();
        if let Some(item) = fields.get("resources") {
            for (name, value, position) in self.entries(&item, RESOURCES_HINT) {
                if RESOURCES.has(name) {
                    self.problems.push(Problem {
                        position,
                        ..value.problem(
                            Kind::UnknownField,
                            format!("{} is no custom resource", quote(name)),
                            "use the fields `cpus`, `memory`, `gpus` and `disk` of the fleet",
                        )
                    });
                    continue;
                }
                self.countable(name, &value, position, &mut named);
            }
        }
        Shape {
            capacity: Capacity {
                cpu_milli,
                memory: memory.unwrap_or_default(),
                disk: disk.unwrap_or_default(),
                gpu: DeviceAmount::whole(gpus.into()),
                named,
            },
            labels: self.labels(fields),
        }
    }

    /// Reads a size; a few bytes are a number whose unit was forgotten.
    fn fleet_size(&mut self, item: &Item<'_>) -> Option<u64> {
        let size = self.size(item)?;
        if (1..MEMORY_LIMIT_MIN).contains(&size) {
            let message = format!("{size} bytes are too little for a worker");
            let hint = format!("write a unit, such as {size}GiB");
            self.note(item, Kind::OutOfRange, message, hint);
            return None;
        }
        Some(size)
    }

    fn labels(&mut self, fields: &Fields<'_>) -> BTreeMap<String, String> {
        let mut labels = BTreeMap::new();
        let Some(item) = fields.get("labels") else {
            return labels;
        };
        for (name, value, position) in self.entries(&item, LABELS_HINT) {
            let parts_fit = name.split('/').all(|part| bad_name(part).is_none());
            if !parts_fit || name.len() > NAME_BYTES_MAX {
                self.problems.push(Problem {
                    position,
                    ..value.problem(
                        Kind::BadName,
                        format!("{} is not a valid label name", quote(name)),
                        "use a name such as `zone` or `disk/kind`",
                    )
                });
                continue;
            }
            let text = self.scalar_text(&value, LABELS_HINT);
            labels.extend(text.map(|text| (name.to_owned(), text)));
        }
        labels
    }

    fn backend(&mut self, fields: &Fields<'_>) -> Option<Backend> {
        fields.get("backend")?;
        let word: String = self.word_field(fields, "backend")?;
        for (name, backends) in OF_BACKENDS {
            if fields.has(name) && !backends.contains(&word.as_str()) {
                let of = backends.join(" and ");
                let message =
                    format!("`{name}` is a field of the backend {of}, and this is {word}");
                let hint = format!("remove it, or write `backend: {}`", backends[0]);
                let problem = fields.key_problem(name, Kind::Conflict, message, &hint);
                self.problems.push(problem);
            }
        }
        let mut text = |name| {
            let item = fields.get(name)?;
            self.text(&item, "write a string").map(str::to_owned)
        };
        Some(match &*word {
            "slurm" => Backend::Slurm(SlurmOptions {
                partition: text("partition"),
                account: text("account"),
                qos: text("qos"),
                constraint: text("constraint"),
                gres: text("gres"),
                nodes: self.integer_field(fields, "nodes").unwrap_or(1),
                args: self.arguments(fields, "args"),
            }),
            "ssh" => Backend::Ssh(SshOptions {
                binary: text("binary"),
                hosts: self.hosts(fields)?,
                args: self.arguments(fields, "args"),
            }),
            "command" => Backend::Command(CommandOptions {
                start: self.command(fields, "start"),
                list: self.command(fields, "list"),
                stop: self.command(fields, "stop"),
            }),
            _ => Backend::Local,
        })
    }

    fn hosts(&mut self, fields: &Fields<'_>) -> Option<Vec<String>> {
        const HINT: &str = "write hosts as `ssh` takes them, such as [node1, ann@node2]";
        let Some(item) = fields.get("hosts") else {
            self.missing(fields, "hosts", HINT);
            return None;
        };
        let items = self.list(&item, HINT);
        let hosts = items.iter().filter_map(|it| self.text(it, HINT));
        Some(hosts.map(str::to_owned).collect())
    }

    /// Reads a command, which the backend requires.
    fn command(&mut self, fields: &Fields<'_>, name: &str) -> String {
        if !fields.has(name) {
            let hint = "the backend command needs `start`, `list` and `stop`: commands of `sh`";
            self.missing(fields, name, hint);
        }
        self.shell(fields, name).unwrap_or_default()
    }

    fn shell(&mut self, fields: &Fields<'_>, name: &str) -> Option<String> {
        let item = fields.get(name)?;
        self.scalar_text(&item, SHELL_HINT)
    }

    fn arguments(&mut self, fields: &Fields<'_>, name: &str) -> Vec<String> {
        const HINT: &str = "write a list of arguments, such as [\"--exclusive\"]";
        let Some(item) = fields.get(name) else {
            return Vec::new();
        };
        if let Value::String(text) = &item.tree.value {
            let hint = format!("write each argument in a list, such as [{text:?}]");
            self.wrong_type(&item, "a list", &hint);
            return Vec::new();
        }
        let items = self.list(&item, HINT);
        let texts = items.iter().filter_map(|it| self.scalar_text(it, HINT));
        texts.collect()
    }
}
