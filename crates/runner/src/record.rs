//! What is written into the two logs of a task.
//!
//! The runner's log is the authority: what was decided. The coordinator's log is
//! evidence: what was seen, kept until the runner has taken it over.

use std::collections::BTreeMap;

use baton_model::ids::BootId;
use baton_model::task::{Identity, Moment, PlanEvent, PlanSnapshot, TaskSpec};
use serde::{Deserialize, Serialize};

use crate::wire::{Guard, KnownRun, RunEnd, RunKey};

/// What a task began with; the first record of the runner's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Its id: the name of its files.
    pub task_id: String,
    pub spec: TaskSpec,
    pub began: Moment,
    /// Where it runs, as an absolute path.
    pub sandbox: String,
    /// The machine it began on.
    pub host: String,
    pub user: String,
    /// Their number.
    pub uid: u32,
    /// Added to the environment of every process.
    pub env: Vec<(String, String)>,
    /// A random word that every process of the task carries in its environment,
    /// so that it can be found when everybody who knew it is gone.
    pub mark: String,
    /// The cgroup of its processes, where there is one. Somebody who resumes the task may be
    /// in another one himself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// The version of Baton that began it.
    pub version: String,
}

/// One life of the runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunnerStart {
    /// The boot that it lives in.
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
    /// Stands for all events before it; second, where the log was compacted.
    Snapshot(PlanSnapshot),
    /// Another life of the runner has begun.
    #[serde(rename = "life")]
    RunnerStarted(RunnerStart),
    /// The plan has changed.
    Event(PlanEvent),
}

/// One record of the coordinator's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CoordinatorRecord {
    /// The first record: whose coordinator, in which boot.
    Begun {
        /// The mark of the task.
        mark: String,
        /// The boot.
        boot: BootId,
        /// The number of the coordinator.
        pid: u32,
    },
    /// A run with a tag waits.
    Accepted {
        run: RunKey,
        /// Its tag.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        tag: String,
    },
    /// A run was launched and its process is there.
    Started {
        run: RunKey,
        at: Moment,
        identity: Identity,
        /// Its tag; empty if it has none, or had waited and so was recorded before.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        tag: String,
    },
    /// The first process of an attempt has ended like this; it is over when nothing is left
    /// of it.
    Exited(RunEnd),
    /// A run is over, or could not be launched.
    Ended(RunEnd),
    /// The runner has taken the end of this run over.
    Forgotten { run: RunKey },
    /// The order of the dead-man timer from now on, by the clock of this boot.
    Guard(Guard),
}

/// What the log of a coordinator that is dead says, put together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The runs that were not forgotten, in the order of their keys.
    pub runs: Vec<KnownRun>,
    /// The last order of the dead-man timer. Of another boot it says nothing.
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
                    let known = runs.entry(run).or_insert_with(|| unseen(run));
                    known.waiting = true;
                    known.tag = tag;
                }
                CoordinatorRecord::Started {
                    run,
                    at,
                    identity,
                    tag,
                } => {
                    let known = runs.entry(run).or_insert_with(|| unseen(run));
                    known.waiting = false;
                    known.started = Some((at, identity));
                    if !tag.is_empty() {
                        known.tag = tag;
                    }
                }
                CoordinatorRecord::Ended(ended) | CoordinatorRecord::Exited(ended) => {
                    let run = ended.run;
                    let known = runs.entry(run).or_insert_with(|| unseen(run));
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

fn unseen(run: RunKey) -> KnownRun {
    KnownRun {
        run,
        started: None,
        ended: None,
        waiting: false,
        tag: String::new(),
    }
}
