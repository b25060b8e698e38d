//! The attempts in the coordinator's record, as the agent knows them.
//!
//! The coordinator identifies an attempt by a number of its own and a run number: if the runner of
//! a task has died, it is started again as the next run of the same attempt.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use baton_model::ids::LeaseId;
use baton_model::outcome::{AttemptStats, KillCause, Outcome, Report};
use baton_model::spec::{InstanceSpec, Work};
use baton_model::task::{Identity, Moment, ProcessNo, RunNo};
use baton_model::time::{Millis, Mono};
use baton_runner::wire::{RunEnd, RunKey};
use serde::{Deserialize, Serialize};

use crate::tag::Tag;

/// The exit status of a runner whose task was killed.
const TASK_KILLED: i32 = 3;
/// The exit status of a runner that cannot determine the outcome of its task.
const TASK_LOST: i32 = 4;

/// An unobserved end: no process of the attempt is left, and its outcome is unknown.
pub(crate) const LOST: Outcome = Outcome::Killed(KillCause::Suicide);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The launch was requested from the coordinator.
    Requested,
    /// The launch is queued at the coordinator for room.
    Waiting,
    /// Its process is running.
    Running,
    /// It has ended, and the scheduler has not acknowledged it.
    Ended(Report),
}

/// One attempt.
#[derive(Clone, Debug)]
pub(crate) struct AttemptRecord {
    pub(crate) key: RunKey,
    pub(crate) lease: LeaseId,
    pub(crate) spec: Arc<InstanceSpec>,
    pub(crate) timeout: Option<Millis>,
    pub(crate) memory_min: u64,
    pub(crate) memory_max: u64,
    /// The start of its first run, if this is a later one.
    pub(crate) began: Option<Mono>,
    pub(crate) started: Option<(Moment, Identity)>,
    pub(crate) phase: Phase,
    /// The state machine was told that it is on record.
    pub(crate) reported: bool,
    /// The coordinator was asked to return it.
    pub(crate) withdrawn: bool,
    /// Why its end was requested.
    pub(crate) cause: Option<KillCause>,
    /// It is in the handover file.
    pub(crate) in_handover: bool,
}

/// An attempt in the handover file, for when the coordinator that had it on record is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AttemptSnapshot {
    pub(crate) run: RunKey,
    pub(crate) lease: LeaseId,
    pub(crate) spec: Arc<InstanceSpec>,
    pub(crate) timeout: Option<Millis>,
    pub(crate) memory_min: u64,
    pub(crate) memory_max: u64,
    pub(crate) began: Option<Mono>,
    pub(crate) started: Option<(Moment, Identity)>,
    pub(crate) waiting: bool,
    pub(crate) ended: Option<Report>,
}

impl AttemptRecord {
    /// A record whose launch is about to be requested.
    pub(crate) fn new(key: RunKey, tag: Tag) -> Self {
        Self {
            key,
            lease: tag.lease,
            spec: tag.spec,
            timeout: tag.timeout,
            memory_min: tag.memory_min,
            memory_max: tag.memory_max,
            began: tag.began,
            started: None,
            phase: Phase::Requested,
            reported: false,
            withdrawn: false,
            cause: None,
            in_handover: false,
        }
    }

    pub(crate) fn tag(&self) -> Tag {
        Tag {
            lease: self.lease,
            spec: Arc::clone(&self.spec),
            timeout: self.timeout,
            memory_min: self.memory_min,
            memory_max: self.memory_max,
            began: self.began,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Ended(_))
    }

    pub(crate) fn is_task(&self) -> bool {
        matches!(self.spec.work, Work::Task(_))
    }

    /// The remaining timeout, if a run starts now.
    pub(crate) fn time_left(&self, now: Mono) -> Option<Millis> {
        let spent = self.began.map_or(Millis(0), |began| now.since(began));
        self.timeout.map(|timeout| timeout.saturating_sub(spent))
    }

    pub(crate) fn to_snapshot(&self) -> AttemptSnapshot {
        AttemptSnapshot {
            run: self.key,
            lease: self.lease,
            spec: Arc::clone(&self.spec),
            timeout: self.timeout,
            memory_min: self.memory_min,
            memory_max: self.memory_max,
            began: self.began,
            started: self.started,
            waiting: self.phase == Phase::Waiting,
            ended: match &self.phase {
                Phase::Ended(report) => Some(report.clone()),
                Phase::Requested | Phase::Waiting | Phase::Running => None,
            },
        }
    }

    /// Converts an end observed by the coordinator to a report about the attempt. `dying` is why
    /// everything was killed, if it was. Outputs are not read.
    pub(crate) fn report(&self, ended: &RunEnd, dying: Option<KillCause>) -> Report {
        let killed = self.cause.or(dying);
        let outcome = match ended.outcome {
            // An order to kill everything has no cause of its own.
            Outcome::Killed(KillCause::Requested) => {
                Outcome::Killed(killed.unwrap_or(KillCause::Requested))
            }
            Outcome::Exited(TASK_KILLED) if self.is_task() => {
                let late = self.ran_for(ended) >= self.timeout;
                let late = (late && self.timeout.is_some()).then_some(KillCause::TimedOut);
                Outcome::Killed(killed.or(late).unwrap_or(KillCause::Requested))
            }
            Outcome::Exited(TASK_LOST) if self.is_task() => LOST,
            other => other,
        };
        let stats = ended.started.map(|started| AttemptStats {
            started: started.wall,
            ended: ended.at.wall,
            elapsed: ended.at.mono.since(started.mono),
            cpu: ended.usage.map_or(Millis(0), |usage| usage.cpu),
            memory_peak: ended.usage.map_or(0, |usage| usage.memory_peak),
        });
        Report {
            outcome,
            stats,
            outputs: None,
        }
    }

    fn ran_for(&self, ended: &RunEnd) -> Option<Millis> {
        let began = self.began.or(ended.started.map(|at| at.mono))?;
        Some(ended.at.mono.since(began))
    }
}

impl AttemptSnapshot {
    pub(crate) fn into_record(self) -> AttemptRecord {
        let phase = match (self.ended, self.waiting, self.started) {
            (Some(report), _, _) => Phase::Ended(report),
            (None, true, _) => Phase::Waiting,
            (None, false, Some(_)) => Phase::Running,
            (None, false, None) => Phase::Requested,
        };
        let tag = Tag {
            lease: self.lease,
            spec: self.spec,
            timeout: self.timeout,
            memory_min: self.memory_min,
            memory_max: self.memory_max,
            began: self.began,
        };
        AttemptRecord {
            started: self.started,
            phase,
            reported: true,
            ..AttemptRecord::new(self.run, tag)
        }
    }
}

/// All attempts.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    by_number: HashMap<ProcessNo, AttemptRecord>,
    by_lease: HashMap<LeaseId, ProcessNo>,
    /// Running attempts with a memory limit.
    limited: BTreeSet<ProcessNo>,
    next: u32,
}

impl Attempts {
    /// A key that no other attempt has or had.
    pub(crate) fn new_key(&mut self) -> RunKey {
        let key = RunKey {
            process: ProcessNo(self.next),
            run: RunNo(0),
        };
        self.next = self.next.wrapping_add(1);
        key
    }

    /// Marks a key as used.
    pub(crate) fn reserve(&mut self, key: RunKey) {
        self.next = self.next.max(key.process.0.wrapping_add(1));
    }

    pub(crate) fn insert(&mut self, attempt: AttemptRecord) {
        self.reserve(attempt.key);
        let number = attempt.key.process;
        self.by_lease.insert(attempt.lease, number);
        self.by_number.insert(number, attempt);
        self.update_index(number);
    }

    /// Updates the index of memory limits after an attempt has changed.
    pub(crate) fn update_index(&mut self, number: ProcessNo) {
        let Some(attempt) = self.by_number.get(&number) else {
            return;
        };
        let running = attempt.phase == Phase::Running;
        if running && attempt.memory_max > 0 {
            self.limited.insert(number);
        } else {
            self.limited.remove(&number);
        }
    }

    /// The attempt with this key, if it is in exactly this run.
    pub(crate) fn get_mut(&mut self, key: RunKey) -> Option<&mut AttemptRecord> {
        let attempt = self.by_number.get_mut(&key.process)?;
        (attempt.key == key).then_some(attempt)
    }

    pub(crate) fn by_lease_mut(&mut self, lease: LeaseId) -> Option<&mut AttemptRecord> {
        self.by_number.get_mut(self.by_lease.get(&lease)?)
    }

    pub(crate) fn contains(&self, lease: LeaseId) -> bool {
        self.by_lease.contains_key(&lease)
    }

    pub(crate) fn remove(&mut self, lease: LeaseId) -> Option<AttemptRecord> {
        let number = self.by_lease.remove(&lease)?;
        let attempt = self.by_number.remove(&number)?;
        self.limited.remove(&number);
        Some(attempt)
    }

    /// Removes all attempts; numbering continues.
    pub(crate) fn drain(&mut self) -> Vec<AttemptRecord> {
        self.by_lease.clear();
        self.limited.clear();
        self.by_number.drain().map(|(_, attempt)| attempt).collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &AttemptRecord> {
        self.by_number.values()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    /// The first processes of running attempts with a memory limit.
    pub(crate) fn limited(&self) -> Vec<(RunKey, u32)> {
        let attempts = self.limited.iter();
        let attempts = attempts.filter_map(|number| self.by_number.get(number));
        attempts
            .filter_map(|attempt| Some((attempt.key, attempt.started?.1.pid)))
            .collect()
    }

    pub(crate) fn has_limited(&self) -> bool {
        !self.limited.is_empty()
    }
}
