//! One command inside a task, and its policies.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ProcessName;
use super::check::Check;
use crate::time::Millis;

/// A command line, with or without a shell.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = CommandLine))]
#[serde(rename_all = "kebab-case")]
pub enum CommandLine {
    /// By a shell.
    Shell(String),
    /// Directly; the first word is the program.
    Exec(Vec<String>),
}

/// The condition on an upstream process before this one may start.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// Ended with success.
    #[default]
    Success,
    /// Ended for good, with any result.
    Exit,
    /// Been started.
    Started,
    /// Passed its readiness check, or, without one, been started.
    Healthy,
}

/// One edge of a task's graph.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Dependency {
    /// The upstream process.
    pub process: ProcessName,
    pub condition: Condition,
}

/// The pause before another run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Backoff {
    /// After the first failure.
    pub first: Millis,
    /// Grows by this percentage with each failure: 100 is constant, 200 doubles.
    pub growth_percent: u32,
    /// The longest pause.
    pub max: Millis,
    /// How far a pause may be off by chance, in percent of itself.
    pub jitter_percent: u32,
}

/// The stop policy of a process: a signal, and the grace period before SIGKILL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Stop {
    /// The first signal, by number.
    pub signal: i32,
    /// From it to SIGKILL.
    pub grace: Millis,
}

/// Settings of a process that pass unchanged from its task to the system calls before exec.
///
/// A [`ProcessSpec`] has them as fields of its own: specs are also packed in a format that knows no
/// maps, which a flattened struct would be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ExecSettings {
    /// Its file mode mask; that of its parent by default.
    pub umask: Option<u32>,
    /// Its nice value; that of its parent by default.
    pub nice: Option<i32>,
    /// Its `oom_score_adj`, from 0 to 1,000: the higher, the sooner the kernel kills it when memory is
    /// short; that of its parent by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom_score: Option<u16>,
}

/// A limit of the kernel on one process.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Rlimit {
    /// Its name in lower case without prefix: `nofile`, `core`, `as`, …
    pub resource: String,
    #[serde(with = "crate::large")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub soft: u64,
    #[serde(with = "crate::large")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub hard: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum LogDestination {
    /// Into files.
    #[default]
    File,
    /// To the runner's own output.
    Console,
    Both,
    None,
}

/// The rotation policy of log files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum LogMode {
    /// No rotation.
    #[default]
    Standard,
    /// Up to a size; then they are rotated.
    Rotate {
        /// Bytes in one file.
        size: u64,
        /// Old files kept.
        backups: u32,
    },
}

/// Where the output of a process goes, and how its files are rotated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Logger {
    pub destination: LogDestination,
    pub mode: LogMode,
}

/// What it means that a process was killed by a signal from outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum OnKill {
    /// The run is KILLED: it does not count, and there is another.
    #[default]
    Rerun,
    /// The run has failed.
    Fail,
}

/// One command inside a task.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProcessSpec {
    /// Unique within the task.
    pub name: ProcessName,
    pub run: CommandLine,
    /// Upstream processes with their conditions.
    pub after: Vec<Dependency>,
    /// Failed runs that make it fail for good; 0 for no limit.
    pub max_failures: u32,
    /// Started again whenever it succeeds.
    pub daemon: bool,
    /// Not waited for: the task may end while it runs.
    pub ephemeral: bool,
    /// Runs only when everything else is over.
    #[serde(rename = "final")]
    pub is_final: bool,
    /// At least this long from the end of a run to the start of the next.
    pub min_duration: Millis,
    /// The pause after failures, on top of `min_duration`.
    pub backoff: Option<Backoff>,
    /// Exit codes worth another run; `None` for any. Others fail it for good.
    pub retryable: Option<Vec<i32>>,
    /// Killed, and counted as failed, when it runs longer.
    pub timeout: Option<Millis>,
    pub stop: Stop,
    #[serde(default)]
    pub on_kill: OnKill,
    /// When it counts as ready.
    pub ready: Option<Check>,
    /// Stopped, and counted as failed, when this fails.
    pub health: Option<Check>,
    /// Added to the environment.
    pub env: BTreeMap<String, String>,
    /// Its directory: absolute, or below the sandbox.
    pub cwd: Option<String>,
    /// The user it runs as.
    pub user: Option<String>,
    /// Its file mode mask.
    pub umask: Option<u32>,
    /// Its priority.
    pub nice: Option<i32>,
    /// Its `oom_score_adj`, from 0 to 1,000.
    pub oom_score: Option<u16>,
    /// Limits of the kernel.
    pub rlimits: Vec<Rlimit>,
    /// `None` for the runner's default.
    pub logger: Option<Logger>,
}

impl ProcessSpec {
    /// A process with this name and command, and every default.
    #[must_use]
    pub fn new(name: &str, run: CommandLine) -> Self {
        Self {
            name: ProcessName(name.to_owned()),
            run,
            after: Vec::new(),
            max_failures: 1,
            daemon: false,
            ephemeral: false,
            is_final: false,
            min_duration: Millis::from_secs(5),
            backoff: None,
            retryable: None,
            timeout: None,
            stop: Stop {
                signal: 15,
                grace: Millis::from_secs(10),
            },
            on_kill: OnKill::default(),
            ready: None,
            health: None,
            env: BTreeMap::new(),
            cwd: None,
            user: None,
            umask: None,
            nice: None,
            oom_score: None,
            rlimits: Vec::new(),
            logger: None,
        }
    }

    /// Its settings before exec.
    #[must_use]
    pub const fn exec(&self) -> ExecSettings {
        ExecSettings {
            umask: self.umask,
            nice: self.nice,
            oom_score: self.oom_score,
        }
    }
}
