//! Fleets: where a scheduler obtains workers, and the jobs that it has requested there.
//!
//! A *fleet* is a named source of workers of one shape: a partition of Slurm, a list of hosts, processes
//! of this host, or whatever three commands of the user start, list and stop. A *job* is one request to
//! it: the cluster manager runs it as one unit, and it starts one or more workers, its *pilots*.
//! `baton_core::fleet` decides how many jobs are wanted; the crate `fleet` carries calls out.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ids::{JobId, WorkerName};
use crate::placement::Capacity;
use crate::time::{Millis, Wall};

/// The name of a fleet: lower-case letters, digits and `-`, at most 32, beginning with a letter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = String))]
#[serde(try_from = "String", into = "String")]
pub struct FleetName(Arc<str>);

impl FleetName {
    /// Characters that a name may have.
    pub const LEN_MAX: usize = 32;

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of a pilot: its fleet, its job, and its number within the job.
    #[must_use]
    pub fn pilot(&self, job: JobId, number: u32) -> WorkerName {
        WorkerName::new(&format!("{self}-{job}-{number}"))
    }

    /// The job and the number of a pilot, if the worker's name is that of one of this fleet.
    #[must_use]
    pub fn pilot_of(&self, worker: &WorkerName) -> Option<(JobId, u32)> {
        let rest = worker.0.strip_prefix(self.as_str())?;
        let (job, number) = rest.strip_prefix("-p")?.split_once('-')?;
        Some((JobId(job.parse().ok()?), number.parse().ok()?))
    }
}

impl fmt::Display for FleetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for FleetName {
    type Err = InvalidFleetName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_valid = text.len() <= Self::LEN_MAX
            && text.starts_with(|first: char| first.is_ascii_lowercase())
            && text
                .chars()
                .all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-');
        if is_valid {
            Ok(Self(text.into()))
        } else {
            Err(InvalidFleetName)
        }
    }
}

impl TryFrom<String> for FleetName {
    type Error = InvalidFleetName;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<FleetName> for String {
    fn from(name: FleetName) -> Self {
        name.as_str().to_owned()
    }
}

/// A text that is no [`FleetName`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the name of a fleet has lower-case letters, digits and `-`, at most 32, and begins with a letter"
)]
pub struct InvalidFleetName;

/// The definition of a fleet.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FleetSpec {
    pub backend: Backend,
    pub shape: Shape,
    /// Workers that one job starts.
    #[serde(default = "one")]
    pub workers_per_job: u32,
    /// Workers that are kept without demand, too.
    #[serde(default)]
    pub min: u32,
    /// Workers that there may be, requested ones included.
    pub max: u32,
    /// Jobs that may wait in the queue of the cluster manager at once.
    #[serde(default = "one")]
    pub backlog: u32,
    /// How long a job may run; its pilots know it, and take no work that would not end in time.
    #[serde(default)]
    pub time_limit: Option<Millis>,
    /// A pilot that has had no work for this long ends by itself.
    #[serde(default = "idle_timeout")]
    pub idle_timeout: Millis,
    /// Shell lines that a job runs before its pilots, such as `module load`.
    #[serde(default)]
    pub before: Option<String>,
    /// Shell lines that it runs after them.
    #[serde(default)]
    pub after: Option<String>,
    /// Further arguments of `baton worker`.
    #[serde(default)]
    pub worker_args: Vec<String>,
}

impl FleetSpec {
    /// How long a pilot stays without work, unless the definition says otherwise.
    pub const IDLE_TIMEOUT: Millis = Millis::from_secs(300);
}

const fn one() -> u32 {
    1
}

const fn idle_timeout() -> Millis {
    FleetSpec::IDLE_TIMEOUT
}

/// What one worker of a fleet offers. It is declared: before the first worker of a fleet is there,
/// nothing else is known of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Shape {
    pub capacity: Capacity,
    pub labels: BTreeMap<String, String>,
}

/// What carries out the requests of a fleet.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// Processes of the scheduler's host.
    Local,
    Slurm(SlurmOptions),
    Ssh(SshOptions),
    Command(CommandOptions),
}

impl Backend {
    /// Its name in files and lists.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Slurm(_) => "slurm",
            Self::Ssh(_) => "ssh",
            Self::Command(_) => "command",
        }
    }
}

/// Options of `sbatch`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct SlurmOptions {
    pub partition: Option<String>,
    pub account: Option<String>,
    pub qos: Option<String>,
    pub constraint: Option<String>,
    pub gres: Option<String>,
    /// Nodes of one job; its workers are spread over them evenly.
    pub nodes: u32,
    /// Further arguments of `sbatch`.
    pub args: Vec<String>,
}

/// Hosts on which workers are started by `ssh`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct SshOptions {
    /// Destinations, as `ssh` takes them.
    pub hosts: Vec<String>,
    /// Further arguments of `ssh`.
    pub args: Vec<String>,
    /// The binary on these hosts.
    pub binary: Option<String>,
}

/// Three commands of the user, each run by `/bin/sh`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct CommandOptions {
    /// Starts the job `$BATON_JOB_NAME`, whose script is the file `$BATON_JOB_SCRIPT`; prints its native id.
    pub start: String,
    /// Prints one line for each job: native id, name, state, and optionally the reason.
    pub list: String,
    /// Stops the jobs whose native ids are its arguments.
    pub stop: String,
}

/// The state of a job as its cluster manager reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// In the manager's queue.
    Queued,
    Running,
    /// In a state that Baton does not know: it counts as alive.
    Unsure,
    /// It ended by itself: its work is over, its time limit, or it was cancelled.
    Ended,
    /// The manager took it back for other work, or to run it again. No failure.
    Preempted,
    /// It failed, or its node did.
    Failed,
}

impl JobState {
    /// Whether it is over, by the word of the manager.
    #[must_use]
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Ended | Self::Preempted | Self::Failed)
    }

    /// Its name in lists.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Unsure => "in an unknown state",
            Self::Ended => "ended",
            Self::Preempted => "preempted",
            Self::Failed => "failed",
        }
    }
}

/// A job as its cluster manager lists it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobSighting {
    /// Its id there.
    pub native: String,
    /// The name that Baton gave it, which names its request.
    pub name: String,
    pub state: JobState,
    /// The manager's own word for the state.
    pub word: String,
    /// The manager's reason, such as `Priority`.
    pub reason: Option<String>,
    /// The nodes on which it runs or ran.
    pub nodes: Vec<String>,
    /// No process that it has started can outlive it.
    pub contained: bool,
}

/// A call of a fleet's backend. Each has one answer, or none if the scheduler ends before.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FleetCall {
    /// Submit a job whose intent is recorded.
    Submit {
        fleet: FleetName,
        job: JobId,
        /// The name that finds it again, whatever becomes of the answer.
        name: String,
        spec: Arc<FleetSpec>,
        /// Nodes that are to be avoided.
        excluded: Vec<String>,
    },
    /// List all jobs of the fleet, those that have ended lately included where the manager knows them.
    List {
        fleet: FleetName,
        spec: Arc<FleetSpec>,
    },
    /// Provide a token for the pilots of the fleet, in the file that they read: a new one, unless the one there is
    /// good enough.
    Token {
        fleet: FleetName,
        /// The number of the call; the answer repeats it.
        call: u64,
        /// The end of a new one.
        until: Wall,
        /// The earliest end of one that is good enough.
        enough: Wall,
    },
    /// Cancel jobs, by native id and name.
    Cancel {
        fleet: FleetName,
        spec: Arc<FleetSpec>,
        jobs: Vec<(String, String)>,
    },
}

/// The answer to a [`FleetCall`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FleetAnswer {
    /// The manager has the job, under this id.
    Submitted {
        fleet: FleetName,
        job: JobId,
        native: String,
    },
    /// The manager has certainly not taken it.
    Refused {
        fleet: FleetName,
        job: JobId,
        reason: String,
    },
    /// It may have taken it: the call timed out, was killed, or gave no answer that
    /// can be read.
    Unclear {
        fleet: FleetName,
        job: JobId,
        reason: String,
    },
    /// Everything that was there at some time between the call and its answer. A job that is missing
    /// is no proof of its end.
    Listed {
        fleet: FleetName,
        jobs: Vec<JobSighting>,
    },
    ListFailed {
        fleet: FleetName,
        reason: String,
    },
    /// The file of the fleet has a token that is valid until then, or, if there is no end, none is needed or
    /// the operator has provided one.
    TokenReady {
        fleet: FleetName,
        call: u64,
        until: Option<Wall>,
    },
    TokenFailed {
        fleet: FleetName,
        call: u64,
        reason: String,
    },
    /// The manager has taken the order; whether the jobs are over, a list tells.
    Cancelled {
        fleet: FleetName,
    },
    CancelFailed {
        fleet: FleetName,
        reason: String,
    },
}

/// What a cluster manager says of a job of a definition, without a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Trial {
    pub verdict: Verdict,
    /// The manager's words, or why it has said nothing.
    pub text: String,
}

/// The outcome of a [`Trial`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The manager would take the job.
    Accepted,
    Refused,
    /// It has not answered.
    Unclear,
    /// The backend cannot tell.
    Untried,
}

/// Why a job is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CancelCause {
    /// What it was requested for no longer waits.
    NoDemand,
    /// Its fleet was removed or changed.
    FleetRemoved,
    /// A second job of one request: the answer to the first submission was lost.
    Duplicate,
    /// It runs, but none of its pilots is here, and has not been for long.
    NoPilot,
    /// Long after an unclear submission no list has shown it; cancelled by its name, in case it comes to be.
    NeverSeen,
    /// It has left the lists, and none of its pilots is here; cancelled in case it still exists.
    Absent,
    /// No open request has its name: it came to be after its request was given up.
    Unknown,
}

impl CancelCause {
    /// The cause as a clause about the job.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::NoDemand => "nothing waits for it any more",
            Self::FleetRemoved => "its fleet was removed or changed",
            Self::Duplicate => "another job of the same request exists",
            Self::NoPilot => "it runs, but none of its workers is here",
            Self::NeverSeen => "no list has shown it since its submission",
            Self::Absent => "it has left the lists, and none of its workers is here",
            Self::Unknown => "no open request has its name",
        }
    }
}

/// How a job ended, and what proves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum JobEnd {
    /// The manager refused it.
    Refused,
    /// It never came to be: long after an unclear submission no list has shown it.
    NeverSeen,
    Ended,
    Preempted,
    Failed,
    /// It has left the lists, its pilots are gone, and its time is over.
    Vanished,
}

impl JobEnd {
    /// The end as a clause about the job.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Refused => "the cluster manager refused it",
            Self::NeverSeen => "it never came to be",
            Self::Ended => "it ended",
            Self::Preempted => "it was preempted",
            Self::Failed => "it failed",
            Self::Vanished => "it left the lists, and its time is over",
        }
    }
}

/// A fleet, as the facts have it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Fleet {
    pub name: FleetName,
    pub spec: Arc<FleetSpec>,
    /// The file that defines it; none if a command has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// True if nothing is requested until it is resumed.
    pub paused: bool,
    /// Some if it was removed and has jobs that have not ended.
    pub removed: Option<Removal>,
    pub trouble: Trouble,
}

/// How the jobs of a removed fleet end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Removal {
    /// All are cancelled.
    Cancel,
    /// Queued ones are cancelled; running ones end when their workers have no more work.
    Drain,
}

/// The recent failures of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Trouble {
    /// Jobs that have failed since the last that has not.
    pub failures: u32,
    /// The end of the last of them.
    pub last: Option<Wall>,
    /// Its reason.
    pub detail: Option<String>,
    /// Nodes on which jobs have failed since one has not.
    pub nodes: BTreeMap<String, NodeTrouble>,
}

/// The recent failures on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NodeTrouble {
    pub failures: u32,
    pub last: Wall,
}

/// A job of a fleet, as the facts have it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FleetJob {
    pub id: JobId,
    pub fleet: FleetName,
    /// Its name in the lists of the cluster manager, unique for ever.
    pub name: String,
    pub requested_at: Wall,
    /// Workers that it starts.
    pub workers: u32,
    pub native: Option<String>,
    /// The last state that the manager reported.
    pub state: Option<JobState>,
    /// The manager's word and reason for it, or the error of a call.
    pub detail: Option<String>,
    pub nodes: Vec<String>,
    pub started_at: Option<Wall>,
    /// When the first of its pilots took its seat.
    pub arrived_at: Option<Wall>,
    pub cancel: Option<CancelCause>,
    pub end: Option<JobEnd>,
    pub ended_at: Option<Wall>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_valid_or_refused() {
        for name in ["a", "gpu-2", "slurm"] {
            assert!(name.parse::<FleetName>().is_ok(), "{name}");
        }
        let long = "a".repeat(33);
        for name in ["", "-a", "2a", "A", "a b", "a/b", "ä", &long] {
            assert!(name.parse::<FleetName>().is_err(), "{name}");
        }
    }

    #[test]
    fn a_pilot_is_known_by_its_name() {
        let fleet: FleetName = "gpu".parse().expect("valid");
        let pilot = fleet.pilot(JobId(12), 3);
        assert_eq!(&*pilot.0, "gpu-p12-3");
        assert_eq!(fleet.pilot_of(&pilot), Some((JobId(12), 3)));
        for other in ["gpu-p12", "gpu-2-p1-0", "gpu-px-0", "gpux-p1-0", "w1"] {
            assert_eq!(fleet.pilot_of(&WorkerName::new(other)), None, "{other}");
        }
    }
}
