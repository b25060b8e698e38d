//! `baton worker`: runs the attempts that a scheduler leases to this machine.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use baton_agent::{Config, Error, resources};
use baton_files::units;
use baton_model::ids::WorkerName;
use baton_model::paths::DIRECTORY_LABEL;
use baton_model::placement::{Capacity, Offer};
use baton_model::time::Millis;
use baton_runner::sys::users;
use baton_tls::{ClientFiles, Trust};
use clap::Args;

use crate::credentials::CredentialArgs;
use crate::logging;
use crate::output::{CommandResult, Failure};

const EXAMPLES: &str = "\
Examples:
  baton worker
  baton worker --scheduler sched:8081 --token-file /etc/baton/worker.token
  baton worker --scheduler sched:8081 --ca ca.pem --cert worker.pem --key worker.key
  baton worker --scheduler a:8081,b:8081 --resources cpu=4,memory=8GiB,licence=2 --label zone=eu

SIGTERM: the worker exits and its attempts continue; started again with the same --state, it takes
them over. Otherwise they are killed after a while (`lost_after`, usually 3m43s), and strict ones
never; the log says until when. ^C: it kills its attempts, reports them and exits; a second ^C does not
wait. Log lines go to standard error; BATON_LOG=debug shows more.";

/// Run a worker, which executes attempts leased by a scheduler
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Worker {
    /// Worker address of the scheduler; several, separated by commas, are tried in turn
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8081")]
    scheduler: String,
    /// Name of the worker [default: the host name]
    #[arg(long)]
    name: Option<String>,
    /// State directory, also for the files of attempts
    #[arg(long, value_name = "DIR", default_value = ".baton/worker")]
    state: PathBuf,
    /// Resources to offer instead of those detected: cpu, memory, disk, gpu, or custom names
    #[arg(long, value_name = "NAME=AMOUNT,…", value_parser = resource_overrides, default_value = "")]
    resources: ResourceOverrides,
    /// Label of the worker, for constraints; may be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
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
    /// The only certificate accepted from the scheduler, under any name: for the worker of `baton
    /// up`, which can read the server's file
    #[arg(long, value_name = "FILE", hide = true)]
    pin: Option<PathBuf>,
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

/// Resources given on the command line; the others are detected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ResourceOverrides {
    cpu_milli: Option<u64>,
    memory: Option<u64>,
    disk: Option<u64>,
    gpu: Option<u32>,
    named: BTreeMap<String, u64>,
}

/// Runs a worker until it receives a signal to end.
pub(crate) fn run(command: &Worker, credentials: &CredentialArgs) -> CommandResult {
    let _logging = logging::init(true);
    let name = command.name.clone().unwrap_or_else(users::hostname);
    if name.is_empty() {
        return Err(Failure::usage(
            "this machine has no host name; name the worker with --name",
        ));
    }
    let tls = match &command.pin {
        Some(file) => Some(ClientFiles {
            trust: Trust::Pin(file.clone()),
            identity: None,
        }),
        None => credentials.worker_files()?,
    };
    let detected = resources::discover(&command.state);
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
    let offer = Offer {
        capacity: command.resources.applied_to(detected),
        labels,
        open: true,
    };
    let ended = baton_agent::run(Config {
        scheduler: command.scheduler.clone(),
        token: credentials.token()?,
        tls,
        name: WorkerName::new(&name),
        state: command.state.clone(),
        // This same binary, even if its file was replaced.
        binary: PathBuf::from("/proc/self/exe"),
        offer: Arc::new(offer),
        slots: command.slots,
        keep: command.keep,
        fetch_cache: command.fetch_cache,
        log_limit: command.log_limit,
        directories: command.directories.clone(),
    });
    match ended {
        Ok(_) => Ok(()),
        Err(error @ (Error::Invalid(_) | Error::Tls(_))) => Err(Failure::usage(error)),
        Err(error) => Err(Failure::failed(error)),
    }
}

impl ResourceOverrides {
    fn applied_to(&self, detected: Capacity) -> Capacity {
        Capacity {
            cpu_milli: self.cpu_milli.unwrap_or(detected.cpu_milli),
            memory: self.memory.unwrap_or(detected.memory),
            disk: self.disk.unwrap_or(detected.disk),
            gpu: self.gpu.unwrap_or(detected.gpu),
            named: self.named.clone(),
        }
    }
}

fn resource_overrides(text: &str) -> Result<ResourceOverrides, String> {
    let mut overrides = ResourceOverrides::default();
    for part in text.split(',').filter(|part| !part.trim().is_empty()) {
        let (name, value) = label(part.trim())?;
        let wrong = |error: units::UnitError| format!("{name}: {error}");
        let count = || {
            value
                .parse::<u64>()
                .map_err(|_| format!("{name}: expected a whole number"))
        };
        match &*name {
            "cpu" => overrides.cpu_milli = Some(units::thousandths(&value).map_err(wrong)?),
            "memory" => overrides.memory = Some(units::size(&value).map_err(wrong)?),
            "disk" => overrides.disk = Some(units::size(&value).map_err(wrong)?),
            "gpu" => {
                let many = |_| format!("{name}: the number is too large");
                overrides.gpu = Some(u32::try_from(count()?).map_err(many)?);
            }
            other => {
                if let Some((_, known)) = MISNAMED.iter().find(|(wrong, _)| *wrong == other) {
                    return Err(format!("{other}: did you mean `{known}`?"));
                }
                let count = count()?;
                overrides.named.insert(name, count);
            }
        }
    }
    Ok(overrides)
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
        let all = given.applied_to(detected);
        assert_eq!((all.cpu_milli, all.memory, all.disk), (1_500, 8 << 30, 7));
        assert_eq!((all.gpu, all.named.get("licence")), (1, Some(&2)));
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        for (bad, word) in [
            ("cpu", "NAME=VALUE"),
            ("cpu=x", "cpu"),
            ("gpu=1.5", "gpu"),
            ("memory=8XB", "memory"),
            ("licence=-1", "licence"),
            ("cpus=4", "`cpu`"),
        ] {
            let error = resource_overrides(bad).expect_err(bad);
            assert!(error.contains(word), "{bad}: {error}");
        }
    }
}
