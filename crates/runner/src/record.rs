//! The records of the two logs of a task.
//!
//! The runner's log is the authority: it holds decisions. The coordinator's log is evidence: it
//! holds observations, kept until the runner has taken them over.

use std::collections::BTreeMap;

use baton_model::ids::BootId;
use baton_model::task::{Identity, Moment, PlanEvent, PlanSnapshot, TaskSpec};
use serde::{Deserialize, Serialize};

use crate::wire::{Guard, KnownRun, RunEnd, RunKey};

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

/// One record of the coordinator's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CoordinatorRecord {
    /// The first record.
    Begun {
        /// The mark of the task.
        mark: String,
        boot: BootId,
        /// Of the coordinator.
        pid: u32,
    },
    /// A run with a tag was queued.
    Accepted {
        run: RunKey,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        tag: String,
    },
    /// A run was launched.
    Started {
        run: RunKey,
        at: Moment,
        identity: Identity,
        /// Its tag; empty if it has none, or had waited and so was recorded before.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        tag: String,
    },
    /// The first process of an attempt has ended with this outcome; the attempt is over when none
    /// of its processes is left.
    Exited(RunEnd),
    /// A run is over, or could not be launched.
    Ended(RunEnd),
    /// The runner has taken the end of this run over.
    Forgotten { run: RunKey },
    /// The order of the dead-man timer from now on, by the clock of this boot.
    Guard(Guard),
}

/// The state described by the log of a dead coordinator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The runs that were not forgotten, ordered by key.
    pub runs: Vec<KnownRun>,
    /// The last order of the dead-man timer. Meaningless after another boot.
    pub guard: Option<Guard>,
}

impl FromIterator<CoordinatorRecord> for Evidence {
    fn from_iter<I: IntoIterator<Item = CoordinatorRecord>>(records: I) -> Self {
        let mut runs: BTreeMap<RunKey, KnownRun> = BTreeMap::new();
        let mut guard = None;
        for record in records {
            match record {
                CoordinatorRecord::Begun { .. } => {}
                CoordinatorRecord::Accepted { run, tag } => {
                    let known = runs.entry(run).or_insert_with(|| unstarted(run));
                    known.waiting = true;
                    known.tag = tag;
                }
                CoordinatorRecord::Started {
                    run,
                    at,
                    identity,
                    tag,
                } => {
                    let known = runs.entry(run).or_insert_with(|| unstarted(run));
                    known.waiting = false;
                    known.started = Some((at, identity));
                    if !tag.is_empty() {
                        known.tag = tag;
                    }
                }
                CoordinatorRecord::Ended(ended) | CoordinatorRecord::Exited(ended) => {
                    let run = ended.run;
                    let known = runs.entry(run).or_insert_with(|| unstarted(run));
                    known.waiting = false;
                    known.ended = Some(ended);
                }
                CoordinatorRecord::Forgotten { run } => {
                    runs.remove(&run);
                }
                CoordinatorRecord::Guard(order) => guard = Some(order),
            }
        }
        Self {
            runs: runs.into_values().collect(),
            guard,
        }
    }
}

fn unstarted(run: RunKey) -> KnownRun {
    KnownRun {
        run,
        started: None,
        ended: None,
        waiting: false,
        tag: String::new(),
    }
}
