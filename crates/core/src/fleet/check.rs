//! Definitions of fleets that are refused.

use baton_model::fleet::{Backend, FleetName, FleetSpec};
use baton_model::placement::{FLEET_LABEL, GROUP_LABEL};
use baton_model::time::Millis;

use super::limits::{FLEETS_MAX, WORKERS_MAX};
use crate::ledger::Fleets;

/// Why a command about a fleet is refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum FleetError {
    /// A field of the definition.
    #[error("{field}: {problem}; {hint}")]
    Invalid {
        field: &'static str,
        /// What is wrong with the value.
        problem: String,
        hint: &'static str,
    },
    #[error("there is no fleet {0}; `baton fleet ls` lists them")]
    Unknown(FleetName),
    /// The jobs that it has are known to another backend.
    #[error(
        "backend: fleet {0} has jobs of another backend; remove the fleet first, or give the new one another name"
    )]
    BackendChanged(FleetName),
    /// A file defines it.
    #[error("fleet {0} is defined by the file {1}; change it there")]
    FromFile(FleetName, String),
    /// A command has defined it, and a file would change it.
    #[error(
        "fleet {0} was defined by a command; remove it with `baton fleet rm {0} --drain`, or remove it from the file"
    )]
    FromCommand(FleetName),
    /// A restarted scheduler would not know which jobs it has requested.
    #[error("fleets need a scheduler with a store; start it with a data directory")]
    NoStore,
    #[error("there are {FLEETS_MAX} fleets already; remove one first")]
    TooMany,
}

/// A field of a definition that cannot work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Its name in files.
    pub field: &'static str,
    /// What is wrong with the value.
    pub problem: String,
    pub hint: &'static str,
}

/// Checks a definition.
///
/// # Errors
/// [`FleetError`] with the first field that is wrong.
pub(crate) fn check(fleets: &Fleets, name: &FleetName, spec: &FleetSpec) -> Result<(), FleetError> {
    if let Some(Mistake {
        field,
        problem,
        hint,
    }) = mistakes(spec).into_iter().next()
    {
        return Err(FleetError::Invalid {
            field,
            problem,
            hint,
        });
    }
    match fleets.get(name) {
        None if fleets.iter().count() >= FLEETS_MAX => Err(FleetError::TooMany),
        Some(known)
            if known.spec.backend.word() != spec.backend.word()
                && fleets.jobs_of(name).next().is_some() =>
        {
            Err(FleetError::BackendChanged(name.clone()))
        }
        _ => Ok(()),
    }
}

/// The fields of a definition that cannot work: of the counts the first, of the times the first, and so on.
#[must_use]
pub fn mistakes(spec: &FleetSpec) -> Vec<Mistake> {
    let found = [
        counts(spec),
        times(spec),
        backend(&spec.backend),
        offer(spec),
    ];
    found.into_iter().flatten().collect()
}

fn counts(spec: &FleetSpec) -> Option<Mistake> {
    let FleetSpec {
        min,
        max,
        workers_per_job: per_job,
        ..
    } = spec;
    if *max == 0 {
        let problem = "0 workers are no fleet".to_owned();
        return mistake(
            "max",
            problem,
            "to request none for a while, pause the fleet",
        );
    }
    if *max > WORKERS_MAX {
        let problem = format!("{max} is more than {WORKERS_MAX} workers");
        return mistake("max", problem, "define several fleets, or larger workers");
    }
    if min > max {
        let problem = format!("{min} is more than `max`, which is {max}");
        return mistake("min", problem, "lower `min`, or raise `max`");
    }
    if *per_job == 0 {
        let problem = "a job starts at least 1 worker".to_owned();
        return mistake("workers_per_job", problem, "write 1, or leave it out");
    }
    if per_job > max {
        let problem = format!("{per_job} is more than `max`, which is {max}");
        return mistake("workers_per_job", problem, "lower it, or raise `max`");
    }
    if spec.backlog == 0 {
        let problem = "at least 1 job must be allowed to wait in the queue".to_owned();
        return mistake("backlog", problem, "write 1, or leave it out");
    }
    None
}

fn times(spec: &FleetSpec) -> Option<Mistake> {
    if spec.time_limit == Some(Millis(0)) {
        let problem = "a job needs some time to run".to_owned();
        return mistake("time_limit", problem, "write a time such as 2h");
    }
    if spec.time_limit.is_some() && spec.backend == Backend::Local {
        let problem = "nothing ends processes of this host in time".to_owned();
        return mistake("time_limit", problem, "leave it out");
    }
    if spec.idle_timeout == Millis(0) {
        let problem = "a worker would end before its first work".to_owned();
        return mistake("idle_timeout", problem, "5m is usual");
    }
    None
}

fn backend(backend: &Backend) -> Option<Mistake> {
    match backend {
        Backend::Ssh(options) if options.hosts.is_empty() => {
            let problem = "there is no host".to_owned();
            mistake("hosts", problem, "name at least one host")
        }
        Backend::Command(options) => {
            let commands = [
                ("start", &options.start),
                ("list", &options.list),
                ("stop", &options.stop),
            ];
            let empty = commands.into_iter().find(|(_, it)| it.trim().is_empty());
            let problem = "the command is empty".to_owned();
            empty.and_then(|(field, _)| mistake(field, problem, "write a command of `sh`"))
        }
        Backend::Local | Backend::Slurm(_) | Backend::Ssh(_) => None,
    }
}

fn offer(spec: &FleetSpec) -> Option<Mistake> {
    let capacity = &spec.shape.capacity;
    let countables = [capacity.cpu_milli, capacity.memory, capacity.gpu.milli()];
    if countables.iter().all(|it| *it == 0) && capacity.named.is_empty() {
        let problem = "a worker that offers nothing runs nothing".to_owned();
        return mistake("cpus", problem, "write its cores, such as 16");
    }
    let own = [
        ("labels.fleet", FLEET_LABEL, "the name of the fleet"),
        ("labels.group", GROUP_LABEL, "the name of its job"),
    ];
    let own = own
        .into_iter()
        .find(|(_, label, _)| spec.shape.labels.contains_key(*label));
    if let Some((field, label, value)) = own {
        let problem = format!("every worker of a fleet has the label `{label}`, with {value}");
        return mistake(field, problem, "remove the label");
    }
    None
}

const fn mistake(field: &'static str, problem: String, hint: &'static str) -> Option<Mistake> {
    Some(Mistake {
        field,
        problem,
        hint,
    })
}
