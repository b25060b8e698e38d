//! The records of a coordinator's log.
//!
//! They are evidence: observations, kept until the runner or the agent has taken them over.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Guard, KnownRun, RunEnd};
use crate::device::DeviceShare;
use crate::ids::BootId;
use crate::task::{Identity, Moment, RunKey};

/// One record of the coordinator's log.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
    /// The devices of a run, before it is launched.
    Assigned {
        run: RunKey,
        devices: Vec<DeviceShare>,
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
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
                CoordinatorRecord::Assigned { run, devices } => {
                    let known = runs.entry(run).or_insert_with(|| unstarted(run));
                    known.devices = devices;
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
        devices: Vec::new(),
    }
}
