//! The records of the two logs of a task.
//!
//! The runner's log is the authority: it holds decisions. The coordinator's log is evidence: it
//! holds observations, kept until the runner has taken them over.

pub use baton_model::coordinator::{CoordinatorRecord, Evidence};
use baton_model::ids::BootId;
use baton_model::task::{Moment, PlanEvent, PlanSnapshot, TaskSpec};
use serde::{Deserialize, Serialize};

/// The definition and surroundings of a task; the first record of the runner's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    pub task_id: String,
    pub spec: TaskSpec,
    pub began: Moment,
    /// An absolute path.
    pub sandbox: String,
    /// The host that it began on.
    pub host: String,
    pub user: String,
    pub uid: u32,
    /// Added to the environment of every process.
    pub env: Vec<(String, String)>,
    /// Variables that win over those of a process: they name its devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assigned_env: Vec<(String, String)>,
    /// The directory with its secrets, which never are in a log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<String>,
    /// A random word that every process of the task carries in its environment, so that the
    /// processes can be found even after runner and coordinator are gone.
    pub mark: String,
    /// The cgroup of its processes, where there is one. Recorded because a runner that resumes the
    /// task may itself be in another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// The version of Baton that began it.
    pub version: String,
}

/// One start of a runner process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunnerStart {
    pub boot: BootId,
    /// Its number.
    pub pid: u32,
    pub began: Moment,
}

/// One record of the runner's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunnerRecord {
    /// The first record.
    Begun(Box<Header>),
    /// Replaces all events before it; second, where the log was compacted.
    Snapshot(PlanSnapshot),
    /// A runner has started.
    #[serde(rename = "life")]
    RunnerStarted(RunnerStart),
    /// The plan has changed.
    Event(PlanEvent),
}
