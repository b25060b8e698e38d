//! Definitions of fleets, from options or from a file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use baton_files::units;
use baton_model::device::DeviceAmount;
use baton_model::fleet::{
    Backend, CommandOptions, FleetName, FleetSpec, Shape, SlurmOptions, SshOptions,
};
use baton_model::placement::Capacity;
use baton_model::time::Millis;
use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::output::Failure;

/// Options that describe one fleet: a file has these values.
const BESIDE_FILE: [&str; 28] = [
    "backend",
    "cpus",
    "memory",
    "gpus",
    "disk",
    "resources",
    "labels",
    "max",
    "min",
    "workers_per_job",
    "backlog",
    "time_limit",
    "idle_timeout",
    "before",
    "after",
    "worker_args",
    "partition",
    "account",
    "qos",
    "constraint",
    "gres",
    "nodes",
    "args",
    "hosts",
    "binary",
    "start",
    "list",
    "stop",
];

/// Options of `baton fleet add`.
#[derive(Debug, Args)]
pub(super) struct Define {
    /// Name of the fleet: lower-case letters, digits and -; with --file, the only one of its fleets to define
    #[arg(required_unless_present = "file")]
    name: Option<String>,
    /// Define the fleets of a file (.yaml, .toml or .json)
    #[arg(short, long, value_name = "FILE", conflicts_with_all = BESIDE_FILE)]
    file: Option<PathBuf>,
    /// Do not ask the cluster manager first whether it would take a job
    #[arg(long)]
    pub(super) no_test: bool,
    /// What carries out its requests
    #[arg(long, required_unless_present = "file")]
    backend: Option<BackendKind>,
    /// Cores of one worker, such as 16 or 0.5
    #[arg(long, value_name = "N", value_parser = units::thousandths, required_unless_present = "file")]
    cpus: Option<u64>,
    /// Memory of one worker, such as 60GiB
    #[arg(long, value_name = "SIZE", value_parser = units::size, required_unless_present = "file")]
    memory: Option<u64>,
    /// GPUs of one worker
    #[arg(long, value_name = "N", default_value_t = 0)]
    gpus: u32,
    /// Disk of one worker
    #[arg(long, value_name = "SIZE", default_value = "0B", value_parser = units::size)]
    disk: u64,
    /// Custom resource of one worker; may be repeated
    #[arg(long = "resource", value_name = "NAME=N", value_parser = resource)]
    resources: Vec<(String, u64)>,
    /// Label of its workers, for constraints; may be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Workers that there may be, requested ones included
    #[arg(long, value_name = "N", required_unless_present = "file")]
    max: Option<u32>,
    /// Workers that are kept without demand, too
    #[arg(long, value_name = "N", default_value_t = 0)]
    min: u32,
    /// Workers that one job starts
    #[arg(long, value_name = "N", default_value_t = 1)]
    workers_per_job: u32,
    /// Jobs that may wait in the queue of the cluster manager at once
    #[arg(long, value_name = "N", default_value_t = 1)]
    backlog: u32,
    /// How long a job may run; its workers take no work that would not end in time
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    time_limit: Option<Millis>,
    /// How long a worker stays without work
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = units::duration)]
    idle_timeout: Millis,
    /// Shell lines that a job runs before its workers, such as `module load cuda`
    #[arg(long, value_name = "COMMANDS")]
    before: Option<String>,
    /// Shell lines that it runs after them
    #[arg(long, value_name = "COMMANDS")]
    after: Option<String>,
    /// Further argument of `baton worker`; may be repeated
    #[arg(long = "worker-arg", value_name = "ARG", allow_hyphen_values = true)]
    worker_args: Vec<String>,
    /// Partition of Slurm
    #[arg(long, help_heading = "Slurm")]
    partition: Option<String>,
    /// Account of Slurm
    #[arg(long, help_heading = "Slurm")]
    account: Option<String>,
    /// Quality of service of Slurm
    #[arg(long, help_heading = "Slurm")]
    qos: Option<String>,
    /// Features of nodes that Slurm requires
    #[arg(long, help_heading = "Slurm")]
    constraint: Option<String>,
    /// Generic resources of a job, such as gpu:2
    #[arg(long, help_heading = "Slurm")]
    gres: Option<String>,
    /// Nodes of one job; its workers are spread over them
    #[arg(long, value_name = "N", help_heading = "Slurm")]
    nodes: Option<u32>,
    /// Further argument of `sbatch`, or of `ssh`; may be repeated
    #[arg(long = "arg", value_name = "ARG", allow_hyphen_values = true)]
    args: Vec<String>,
    /// Host, as ssh takes it; may be repeated
    #[arg(long = "host", help_heading = "ssh")]
    hosts: Vec<String>,
    /// The binary `baton` on these hosts
    #[arg(long, value_name = "FILE", help_heading = "ssh")]
    binary: Option<String>,
    /// Command that starts the job $BATON_JOB_NAME by its script $BATON_JOB_SCRIPT, and prints its id
    #[arg(long, value_name = "COMMAND", help_heading = "command")]
    start: Option<String>,
    /// Command that prints a line for each job: id, name, state, and optionally the reason
    #[arg(long, value_name = "COMMAND", help_heading = "command")]
    list: Option<String>,
    /// Command that stops the jobs whose ids are its arguments
    #[arg(long, value_name = "COMMAND", help_heading = "command")]
    stop: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BackendKind {
    /// Processes of the scheduler's host
    Local,
    /// sbatch, squeue and scancel, on the scheduler's host
    Slurm,
    /// Hosts, by ssh from the scheduler's host
    Ssh,
    /// Three commands of yours, on the scheduler's host
    Command,
}

impl Define {
    /// The fleets to define, each with its definition.
    pub(super) fn definitions(&self) -> Result<Vec<(String, Value)>, Failure> {
        let Some(path) = &self.file else {
            let name = self.name.clone().unwrap_or_default();
            return Ok(vec![(name, baton_files::fleet_to_json(&self.spec()?))]);
        };
        let file = baton_files::load_fleets(path).map_err(Failure::usage)?;
        let shown = path.display();
        if let Some(name) = &self.name {
            let mut found = file.fleets.iter().filter(|it| it.0.as_str() == name);
            let (_, spec) = found.next().ok_or_else(|| {
                let names: Vec<&str> = file.fleets.keys().map(FleetName::as_str).collect();
                Failure::usage(format!(
                    "{shown} has no fleet {name}; it has: {}",
                    names.join(", ")
                ))
            })?;
            return Ok(vec![(name.clone(), baton_files::fleet_to_json(spec))]);
        }
        if file.fleets.is_empty() {
            return Err(Failure::usage(format!("{shown} has no fleet")));
        }
        let all = file.fleets.iter();
        let all = all.map(|(name, spec)| (name.to_string(), baton_files::fleet_to_json(spec)));
        Ok(all.collect())
    }

    /// The definition that the options describe.
    fn spec(&self) -> Result<FleetSpec, Failure> {
        Ok(FleetSpec {
            backend: self.backend()?,
            shape: Shape {
                capacity: Capacity {
                    cpu_milli: self.cpus.unwrap_or_default(),
                    memory: self.memory.unwrap_or_default(),
                    disk: self.disk,
                    gpu: DeviceAmount::whole(self.gpus.into()),
                    named: self.resources.iter().cloned().collect(),
                },
                labels: self.labels.iter().cloned().collect::<BTreeMap<_, _>>(),
            },
            workers_per_job: self.workers_per_job,
            min: self.min,
            max: self.max.unwrap_or_default(),
            backlog: self.backlog,
            time_limit: self.time_limit,
            idle_timeout: self.idle_timeout,
            before: self.before.clone(),
            after: self.after.clone(),
            worker_args: self.worker_args.clone(),
        })
    }

    fn backend(&self) -> Result<Backend, Failure> {
        let kind = self.backend.unwrap_or(BackendKind::Local);
        self.refuse_others(kind)?;
        let required = |option: &Option<String>, name: &str| {
            let missing = || Failure::usage(format!("--backend command needs {name}"));
            option.clone().ok_or_else(missing)
        };
        Ok(match kind {
            BackendKind::Local => Backend::Local,
            BackendKind::Slurm => Backend::Slurm(SlurmOptions {
                partition: self.partition.clone(),
                account: self.account.clone(),
                qos: self.qos.clone(),
                constraint: self.constraint.clone(),
                gres: self.gres.clone(),
                nodes: self.nodes.unwrap_or(1),
                args: self.args.clone(),
            }),
            BackendKind::Ssh => Backend::Ssh(SshOptions {
                hosts: self.hosts.clone(),
                args: self.args.clone(),
                binary: self.binary.clone(),
            }),
            BackendKind::Command => Backend::Command(CommandOptions {
                start: required(&self.start, "--start")?,
                list: required(&self.list, "--list")?,
                stop: required(&self.stop, "--stop")?,
            }),
        })
    }

    /// Refuses options of another backend, which would have no effect.
    fn refuse_others(&self, kind: BackendKind) -> Result<(), Failure> {
        use BackendKind::{Command, Slurm, Ssh};
        let options: [(&str, bool, &[BackendKind]); 12] = [
            ("--partition", self.partition.is_some(), &[Slurm]),
            ("--account", self.account.is_some(), &[Slurm]),
            ("--qos", self.qos.is_some(), &[Slurm]),
            ("--constraint", self.constraint.is_some(), &[Slurm]),
            ("--gres", self.gres.is_some(), &[Slurm]),
            ("--nodes", self.nodes.is_some(), &[Slurm]),
            ("--arg", !self.args.is_empty(), &[Slurm, Ssh]),
            ("--host", !self.hosts.is_empty(), &[Ssh]),
            ("--binary", self.binary.is_some(), &[Ssh]),
            ("--start", self.start.is_some(), &[Command]),
            ("--list", self.list.is_some(), &[Command]),
            ("--stop", self.stop.is_some(), &[Command]),
        ];
        let mut foreign = options
            .iter()
            .filter(|(_, is_set, of)| *is_set && !of.contains(&kind));
        match foreign.next() {
            None => Ok(()),
            Some((option, _, of)) => {
                let of: Vec<String> = of
                    .iter()
                    .map(|it| format!("{it:?}").to_lowercase())
                    .collect();
                Err(Failure::usage(format!(
                    "{option} is an option of --backend {}",
                    of.join(" and ")
                )))
            }
        }
    }
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

fn resource(text: &str) -> Result<(String, u64), String> {
    let (name, amount) = label(text).map_err(|_| "expected NAME=N".to_owned())?;
    let amount = amount
        .parse()
        .map_err(|_| format!("{name}: expected a whole number"))?;
    Ok((name, amount))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        define: Define,
    }

    fn spec(options: &str) -> Result<FleetSpec, String> {
        let words = ["x", "cpu", "--cpus", "2", "--memory", "1GiB", "--max", "3"];
        let words = words.into_iter().chain(options.split_whitespace());
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        line.define.spec().map_err(|failure| format!("{failure:?}"))
    }

    #[test]
    fn options_describe_a_fleet() {
        let spec =
            spec("--backend slurm --partition long --time-limit 8h --label a=b --resource x=2")
                .expect("valid");
        let Backend::Slurm(options) = &spec.backend else {
            panic!("{spec:?}");
        };
        assert_eq!(options.partition.as_deref(), Some("long"));
        assert_eq!(options.nodes, 1);
        assert_eq!(spec.time_limit, Some(Millis::from_secs(8 * 3_600)));
        assert_eq!(spec.idle_timeout, FleetSpec::IDLE_TIMEOUT);
        assert_eq!(spec.shape.capacity.cpu_milli, 2_000);
        assert_eq!(spec.shape.capacity.named.get("x"), Some(&2));
    }

    #[test]
    fn a_file_has_all_values_and_a_name_selects_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("fleets.yaml");
        let fleet = "{ backend: local, cpus: 1, memory: 1GiB, max: 1 }";
        std::fs::write(&path, format!("fleets: {{ a: {fleet}, b: {fleet} }}")).expect("written");
        let path = path.to_str().expect("plain");
        let names = |words: &[&str]| {
            let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
            let found = line.define.definitions();
            let found = found.map_err(|failure| format!("{failure:?}"))?;
            Ok::<_, String>(found.into_iter().map(|it| it.0).collect::<Vec<_>>())
        };
        assert_eq!(
            names(&["x", "-f", path]),
            Ok(vec!["a".to_owned(), "b".to_owned()])
        );
        assert_eq!(names(&["x", "b", "-f", path]), Ok(vec!["b".to_owned()]));
        let error = names(&["x", "c", "-f", path]).expect_err("no such fleet");
        assert!(error.contains("no fleet c; it has: a, b"), "{error}");
        for option in ["--cpus=1", "--stop=x", "--min=1"] {
            let error = names(&["x", "-f", path, option]).expect_err(option);
            assert!(error.contains("cannot be used with"), "{option}: {error}");
        }
        assert!(names(&["x", "a"]).is_err(), "neither options nor a file");
    }

    #[test]
    fn options_of_another_backend_and_missing_ones_are_refused() {
        for (options, word) in [
            (
                "--backend local --partition long",
                "--partition is an option of --backend slurm",
            ),
            ("--backend local --arg x", "--backend slurm and ssh"),
            ("--backend command --start a --list b", "needs --stop"),
            ("--backend pbs", "possible values"),
            ("--backend local --resource x=y", "whole number"),
        ] {
            let error = spec(options).expect_err(options);
            assert!(error.contains(word), "{options}: {error}");
        }
    }
}
