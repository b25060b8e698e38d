//! `baton worker`: runs the attempts that a scheduler leases to this machine.

use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;
use std::sync::Arc;

use baton_agent::devices::{self, Cores, Gpus};
use baton_agent::{Config, Error, Proxy, resources};
use baton_files::units;
use baton_model::cpu::CORE;
use baton_model::device::{DeviceAmount, DeviceLists, GPU};
use baton_model::ids::WorkerName;
use baton_model::message::{BUILD_SIGN, HostSize};
use baton_model::paths::DIRECTORY_LABEL;
use baton_model::placement::{Capacity, Offer, WORKER_LABEL};
use baton_model::time::Millis;
use baton_runner::sys::clock;
use baton_tls::{ClientFiles, Trust};
use clap::{Args, Subcommand};

use crate::credentials::CredentialArgs;
use crate::deploy::Deploy;
use crate::lifetime::LifetimeArgs;
use crate::output::{CommandResult, Failure};
use crate::{deploy, logging, worker_name};

const EXAMPLES: &str = "\
Examples:
  baton worker
  baton worker --scheduler sched:8081 --token-file /etc/baton/worker.token
  baton worker --scheduler sched:8081 --ca ca.pem --cert worker.pem --key worker.key
  baton worker --scheduler a:8081,b:8081 --resources cpu=4,memory=8GiB,licence=2 --label zone=eu
  baton worker --resources 'gpu=[0,1],fpga=[a,b]'
  baton worker --name '{host}-{pid}' --lifetime 2h --idle-exit 5m

In a Slurm job, `--name 'slurm-{slurm_job}-{slurm_task}' --lifetime slurm` ends the worker in order
before the job does.

SIGTERM: the worker exits and its attempts continue; started again with the same --state, it takes
them over. Otherwise they are killed after a while (`lost_after`, usually 3m43s), and strict ones
never; the log says until when. With --lifetime, --until, --idle-exit or --drain-grace SIGTERM drains
it instead: it takes no more work, warns its attempts (`warn` of a task), lets them end, kills what is
left before the grace ends, reports that as lost, not as failed, and leaves. ^C: it kills its attempts,
reports them and leaves; a second ^C does not wait. Log lines go to standard error; BATON_LOG=debug
shows more.";

/// Run a worker, which executes attempts leased by a scheduler
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Worker {
    #[command(subcommand)]
    action: Option<Action>,
    /// Worker address of the scheduler, or @FILE for a file that has it, which is read again for each
    /// connection; several, separated by commas, are tried in turn
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8081")]
    scheduler: String,
    /// HTTP proxy by which the scheduler is reached, with CONNECT: http://HOST:PORT. With `env`, that of
    /// HTTPS_PROXY or ALL_PROXY, except for the hosts of NO_PROXY; otherwise these variables do not count
    #[arg(long, value_name = "URL", value_parser = proxy)]
    proxy: Option<ProxyChoice>,
    /// Name of the worker; may contain {host}, {pid}, {slurm_job}, {slurm_task} and {random}
    /// [default: the host name]
    #[arg(long, value_name = "PATTERN")]
    name: Option<String>,
    /// State directory, also for the files of attempts
    #[arg(long, value_name = "DIR", default_value = ".baton/worker")]
    state: PathBuf,
    /// Resources to offer instead of those detected: cpu, memory, disk, gpu, or custom names. A list of
    /// ids, such as `gpu=[0,3]` or `fpga=[a,b]`, names the devices of which each attempt gets its own
    #[arg(long, value_name = "NAME=AMOUNT,…", value_parser = resource_overrides, default_value = "")]
    resources: ResourceOverrides,
    /// Label of the worker, for constraints; may be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = own_label)]
    labels: Vec<(String, String)>,
    /// Maximum number of concurrent attempts
    #[arg(long, default_value_t = 4_096, value_parser = clap::value_parser!(u32).range(1..))]
    slots: u32,
    /// How long the files of ended attempts are kept
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = units::duration)]
    keep: Millis,
    /// Size of the cache of fetched files (`uris` with a sha256), for each user; 0B for none
    #[arg(long, value_name = "SIZE", default_value = "10GiB", value_parser = units::size)]
    fetch_cache: u64,
    /// Size that one stream of an attempt may take on disk, at least 64KiB; of a longer log the middle
    /// is removed, with a mark. 0B for no limit
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = units::size)]
    log_limit: u64,
    /// Directory in which, and below which, work may run outside of its sandbox; may be repeated, /
    /// for all [default: none, so that it takes no work with a directory]
    #[arg(long = "allow-cwd", value_name = "DIR", value_parser = absolute)]
    directories: Vec<String>,
    #[command(flatten)]
    lifetime: LifetimeArgs,
    /// The only certificate accepted from the scheduler, under any name: for the worker of `baton
    /// up`, which can read the server's file
    #[arg(long, value_name = "FILE", hide = true)]
    pin: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Action {
    Deploy(Box<Deploy>),
}

/// Refuses arguments that no worker takes.
fn check_arguments(words: &[String]) -> Result<(), clap::Error> {
    let command = clap::Command::new("baton worker");
    let command = CredentialArgs::augment_args(Worker::augment_args(command));
    let words = [&["baton worker".to_owned()], words].concat();
    command.try_get_matches_from(words).map(drop)
}

/// Other spellings of known resources, which as custom ones would never be requested.
const MISNAMED: &[(&str, &str)] = &[
    ("cpus", "cpu"),
    ("core", "cpu"),
    ("cores", "cpu"),
    ("mem", "memory"),
    ("ram", "memory"),
    ("disks", "disk"),
    ("storage", "disk"),
    ("gpus", "gpu"),
];

/// Devices of one resource of a worker. Every offer lists them.
const GPUS_MAX: u64 = 4_096;
/// Bytes in the id of a device.
const DEVICE_ID_BYTES_MAX: usize = 100;

/// Resources given on the command line; the others are detected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ResourceOverrides {
    cpu_milli: Option<u64>,
    memory: Option<u64>,
    disk: Option<u64>,
    /// The number of GPUs, or their ids.
    gpu: Option<Units>,
    named: BTreeMap<String, Units>,
}

/// The units of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Units {
    Counted(u64),
    /// The ids of devices.
    Listed(Vec<String>),
}

impl Units {
    const fn count(&self) -> u64 {
        match self {
            Self::Counted(count) => *count,
            Self::Listed(ids) => ids.len() as u64,
        }
    }
}

/// The proxy of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ProxyChoice {
    Given(Proxy),
    /// That of the environment.
    Variables,
}

impl Worker {
    fn proxy(&self) -> Result<Option<Proxy>, Failure> {
        match &self.proxy {
            None => Ok(None),
            Some(ProxyChoice::Given(proxy)) => Ok(Some(proxy.clone())),
            Some(ProxyChoice::Variables) => {
                Proxy::from_variables(|name| env::var(name).ok()).map_err(Failure::usage)
            }
        }
    }
}

fn proxy(text: &str) -> Result<ProxyChoice, String> {
    match text {
        "env" => Ok(ProxyChoice::Variables),
        text => text.parse().map(ProxyChoice::Given),
    }
}

/// Runs a worker until it receives a signal to end.
pub(crate) fn run(command: &Worker, credentials: &CredentialArgs) -> CommandResult {
    if let Some(Action::Deploy(command)) = &command.action {
        return deploy::run(command, credentials, check_arguments);
    }
    let _logging = logging::init(true)?;
    let pattern = command.name.as_deref().unwrap_or("{host}");
    let name = worker_name::expand(pattern, &worker_name::Host::current());
    let name = name.map_err(|error| Failure::usage(format!("--name: {error}")))?;
    if name.is_empty() {
        return Err(Failure::usage(
            "this machine has no host name; name the worker with --name",
        ));
    }
    let lifetime = command.lifetime.resolve(clock::now())?;
    let tls = match &command.pin {
        Some(file) => Some(ClientFiles {
            trust: Trust::Pin(file.clone()),
            identity: None,
        }),
        None => credentials.worker_files()?,
    };
    let detected = resources::discover(&command.state);
    let host = HostSize {
        cpu_milli: detected.cpu_milli,
        memory: detected.memory,
    };
    let mut labels: BTreeMap<String, String> = command.labels.iter().cloned().collect();
    if command.directories.is_empty() {
        tracing::info!(
            "this worker runs work in sandboxes only, and takes none with a directory, such as that \
             of `baton submit -- CMD` for a `baton up` of the same host; `--allow-cwd /` allows all \
             directories"
        );
    } else {
        labels.insert(DIRECTORY_LABEL.to_owned(), command.directories.join(","));
    }
    let gpus = devices::discover();
    if !gpus.ids.is_empty() {
        tracing::info!("found GPUs: {}", gpus.ids.join(", "));
    }
    let mut devices = command.resources.devices(&gpus).map_err(Failure::usage)?;
    let cores = devices::discover_cores().unwrap_or_else(|error| {
        tracing::warn!(
            "the topology of the CPUs cannot be read ({error}): this worker takes no work with `pin`"
        );
        Cores::default()
    });
    if !cores.ids.is_empty() {
        devices.insert(CORE.to_owned(), cores.ids);
    }
    let offer = Offer {
        capacity: command.resources.applied_to(detected, &devices),
        labels,
        devices,
        core_nodes: cores.nodes,
        open: true,
    };
    let ended = baton_agent::run(Config {
        scheduler: command.scheduler.clone(),
        token: credentials.token()?,
        token_file: credentials.used_token_file(),
        proxy: command.proxy()?,
        tls,
        name: WorkerName::new(&name),
        state: command.state.clone(),
        // This same binary, even if its file was replaced.
        binary: PathBuf::from("/proc/self/exe"),
        offer: Arc::new(offer),
        gpu_vendor: gpus.vendor,
        slots: command.slots,
        keep: command.keep,
        fetch_cache: command.fetch_cache,
        log_limit: command.log_limit,
        directories: command.directories.clone(),
        version: match baton_service::build_id() {
            Some(build) => format!("{}{BUILD_SIGN}{build}", env!("CARGO_PKG_VERSION")).into(),
            None => env!("CARGO_PKG_VERSION").into(),
        },
        host,
        lifetime,
    });
    match ended {
        Ok(_) => Ok(()),
        Err(error @ (Error::Invalid(_) | Error::Tls(_))) => Err(Failure::usage(error)),
        Err(error) => Err(Failure::failed(error)),
    }
}

impl ResourceOverrides {
    fn applied_to(&self, detected: Capacity, devices: &DeviceLists) -> Capacity {
        let gpus = devices.get(GPU).map_or(0, Vec::len);
        let named = self.named.iter();
        Capacity {
            cpu_milli: self.cpu_milli.unwrap_or(detected.cpu_milli),
            memory: self.memory.unwrap_or(detected.memory),
            disk: self.disk.unwrap_or(detected.disk),
            gpu: DeviceAmount::whole(gpus as u64),
            named: named
                .map(|(name, units)| (name.clone(), units.count()))
                .collect(),
        }
    }

    /// The devices to offer. A number of GPUs takes the first ones that were found; if none was found
    /// it is believed, and they are known by their index.
    fn devices(&self, found: &Gpus) -> Result<DeviceLists, String> {
        let gpus = match &self.gpu {
            None => found.ids.clone(),
            Some(Units::Listed(ids)) => ids.clone(),
            Some(Units::Counted(count)) => {
                let count = usize::try_from(*count).unwrap_or(usize::MAX);
                match found.ids.len() {
                    0 => (0..count).map(|index| index.to_string()).collect(),
                    known if known < count => {
                        return Err(format!(
                            "--resources gpu={count}: this host has {known} GPUs ({}); offer at most \
                             as many, or list them: gpu=[ID,…]",
                            found.ids.join(", ")
                        ));
                    }
                    _ => found.ids[..count].to_vec(),
                }
            }
        };
        let mut lists = DeviceLists::new();
        if !gpus.is_empty() {
            lists.insert(GPU.to_owned(), gpus);
        }
        for (name, units) in &self.named {
            if let Units::Listed(ids) = units {
                lists.insert(name.clone(), ids.clone());
            }
        }
        Ok(lists)
    }
}

fn resource_overrides(text: &str) -> Result<ResourceOverrides, String> {
    let mut overrides = ResourceOverrides::default();
    for part in split_outside_of_lists(text) {
        let (name, value) = label(part.trim())?;
        let wrong = |error: units::UnitError| format!("{name}: {error}");
        match &*name {
            "cpu" => overrides.cpu_milli = Some(units::thousandths(&value).map_err(wrong)?),
            "memory" => overrides.memory = Some(units::size(&value).map_err(wrong)?),
            "disk" => overrides.disk = Some(units::size(&value).map_err(wrong)?),
            "gpu" => overrides.gpu = Some(units_of(&name, &value)?),
            other => {
                if let Some((_, known)) = MISNAMED.iter().find(|(wrong, _)| *wrong == other) {
                    return Err(format!("{other}: did you mean `{known}`?"));
                }
                let units = units_of(&name, &value)?;
                overrides.named.insert(name, units);
            }
        }
    }
    Ok(overrides)
}

/// The parts between commas that are not within brackets.
fn split_outside_of_lists(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_u32;
    let parts = text.split(move |letter| {
        match letter {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    });
    parts.filter(|part| !part.trim().is_empty())
}

/// A number, or a list of ids in brackets.
fn units_of(name: &str, value: &str) -> Result<Units, String> {
    let Some(list) = value.trim().strip_prefix('[') else {
        let count = value.parse::<u64>().ok();
        let count = count.filter(|count| name != GPU || *count <= GPUS_MAX);
        return count.map(Units::Counted).ok_or_else(|| {
            format!("{name}: expected a whole number, or a list of devices such as [a,b]")
        });
    };
    let list = list
        .strip_suffix(']')
        .ok_or_else(|| format!("{name}: the list has no closing bracket"))?;
    let mut ids: Vec<String> = Vec::new();
    for id in list.split(',').map(str::trim).filter(|id| !id.is_empty()) {
        let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '[' | ']' | '"' | '\'');
        if id.len() > DEVICE_ID_BYTES_MAX || !id.chars().all(is_plain) {
            return Err(format!(
                "{name}: {id:?} is no id of a device; use letters and digits, such as GPU-5d5ba0d6 or 0"
            ));
        }
        if ids.iter().any(|known| known == id) {
            return Err(format!("{name}: the device {id} is listed twice"));
        }
        ids.push(id.to_owned());
    }
    if ids.len() as u64 > GPUS_MAX {
        return Err(format!("{name}: more than {GPUS_MAX} devices"));
    }
    Ok(Units::Listed(ids))
}

/// An absolute directory.
pub(crate) fn absolute(text: &str) -> Result<String, String> {
    let is_plain = text.starts_with('/') && !text.split('/').any(|part| part == "..");
    if is_plain {
        Ok(text.to_owned())
    } else {
        Err("expected an absolute path without `..`".to_owned())
    }
}

/// A label that the user chooses.
fn own_label(text: &str) -> Result<(String, String), String> {
    let (name, value) = label(text)?;
    if name == WORKER_LABEL {
        return Err(format!(
            "`{WORKER_LABEL}` is the label of the worker's name; set that with --name"
        ));
    }
    Ok((name, value))
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_counts_and_the_rest_is_found() {
        let given = resource_overrides("cpu=1.5,memory=8GiB,gpu=1,licence=2").expect("fine");
        let detected = Capacity {
            disk: 7,
            memory: 9,
            ..Capacity::default()
        };
        let devices = given.devices(&Gpus::default()).expect("believed");
        let all = given.applied_to(detected, &devices);
        assert_eq!((all.cpu_milli, all.memory, all.disk), (1_500, 8 << 30, 7));
        let gpu = DeviceAmount::whole(1);
        assert_eq!((all.gpu, all.named.get("licence")), (gpu, Some(&2)));
        assert_eq!(devices[GPU], ["0"]);
    }

    #[test]
    fn devices_are_listed_or_are_the_first_that_were_found() {
        let found = Gpus {
            ids: vec!["GPU-a".to_owned(), "GPU-b".to_owned()],
            ..Gpus::default()
        };
        let devices = |text: &str| {
            let given = resource_overrides(text).expect(text);
            let devices = given.devices(&found)?;
            let capacity = given.applied_to(Capacity::default(), &devices);
            Ok::<_, String>((devices, capacity))
        };
        let gpus = |text: &str| {
            let (devices, capacity) = devices(text).expect(text);
            let gpus = devices.get(GPU).map_or(0, Vec::len);
            assert_eq!(capacity.gpu, DeviceAmount::whole(gpus as u64), "{text}");
            devices.get(GPU).cloned().unwrap_or_default().join(" ")
        };
        assert_eq!(gpus(""), "GPU-a GPU-b");
        assert_eq!(gpus("gpu=1"), "GPU-a");
        assert_eq!(gpus("gpu=0"), "");
        assert_eq!(gpus("gpu=[GPU-b, 7],cpu=1"), "GPU-b 7");
        assert_eq!(gpus("gpu=[]"), "");
        let error = devices("gpu=3").expect_err("too many");
        assert!(error.contains("has 2 GPUs (GPU-a, GPU-b)"), "{error}");
        let (devices, capacity) = devices("cpu=2,fpga=[a,b],licence=3").expect("fine");
        assert_eq!(devices["fpga"], ["a", "b"]);
        assert!(!devices.contains_key("licence"));
        assert_eq!(capacity.named["fpga"], 2);
        assert_eq!((capacity.named["licence"], capacity.cpu_milli), (3, 2_000));
    }

    #[test]
    fn the_label_of_the_name_is_no_label_of_the_user() {
        let error = own_label("worker=a").expect_err("reserved");
        assert!(error.contains("--name"), "{error}");
        assert!(own_label("workers=a").is_ok());
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for (bad, word) in [
            ("cpu", "NAME=VALUE"),
            ("cpu=x", "cpu"),
            ("gpu=1.5", "gpu"),
            ("memory=8XB", "memory"),
            ("licence=-1", "licence"),
            ("gpu=5000", "gpu"),
            ("gpu=[a", "closing bracket"),
            ("gpu=[a,a]", "listed twice"),
            ("fpga=[a b]", "fpga"),
            ("cpu=[0,1]", "cpu"),
            ("cpus=4", "`cpu`"),
        ] {
            let error = resource_overrides(bad).expect_err(bad);
            assert!(error.contains(word), "{bad}: {error}");
        }
    }
}
