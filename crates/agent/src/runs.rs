//! The attempts on the coordinator's record, as the agent knows them.
//!
//! An attempt is known to the coordinator by a number of its own, and by the number of its
//! run: a task of processes whose runner has died is started again as the next run of the
//! same attempt.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use baton_model::ids::LeaseId;
use baton_model::outcome::{KillCause, Outcome, Ran, Report};
use baton_model::spec::{InstanceSpec, Work};
use baton_model::task::{Identity, Moment, ProcessNo, RunNo};
use baton_model::time::{Millis, Mono};
use baton_runner::wire::{RunEnd, RunKey};
use serde::{Deserialize, Serialize};

use crate::tag::Tag;

/// The exit status of a runner whose task was killed.
const TASK_KILLED: i32 = 3;
/// The exit status of a runner who cannot prove what became of its task.
const TASK_LOST: i32 = 4;

/// An end that nobody saw: nothing is left of the attempt, and it says nothing about it.
pub(crate) const LOST: Outcome = Outcome::Killed(KillCause::Suicide);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The coordinator was asked to start it.
    Asked,
    /// It waits there for room.
    Waiting,
    /// Its process is there.
    Running,
    /// It is over, and the scheduler does not know yet.
    Over(Report),
}

/// One attempt.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) key: RunKey,
    pub(crate) lease: LeaseId,
    pub(crate) spec: Arc<InstanceSpec>,
    pub(crate) timeout: Option<Millis>,
    pub(crate) memory_min: u64,
    pub(crate) memory_max: u64,
    /// When its first run began, where it had one before this.
    pub(crate) began: Option<Mono>,
    pub(crate) started: Option<(Moment, Identity)>,
    pub(crate) phase: Phase,
    /// The machine was told that it is on record.
    pub(crate) told: bool,
    /// The coordinator was asked to give it back.
    pub(crate) withdrawn: bool,
    /// Why we have asked for its end.
    pub(crate) cause: Option<KillCause>,
    /// It is in the file of what was inherited.
    pub(crate) inherited: bool,
}

/// An attempt as it is kept when the coordinator that had it on record is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Inherited {
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

impl Run {
    /// One that is about to be asked for.
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
            phase: Phase::Asked,
            told: false,
            withdrawn: false,
            cause: None,
            inherited: false,
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
        matches!(self.phase, Phase::Over(_))
    }

    pub(crate) fn is_task(&self) -> bool {
        matches!(self.spec.work, Work::Task(_))
    }

    /// How long it may still run, if a run of it begins now.
    pub(crate) fn time_left(&self, now: Mono) -> Option<Millis> {
        let spent = self.began.map_or(Millis(0), |began| now.since(began));
        self.timeout.map(|timeout| timeout.saturating_sub(spent))
    }

    pub(crate) fn to_inherited(&self) -> Inherited {
        Inherited {
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
                Phase::Over(report) => Some(report.clone()),
                Phase::Asked | Phase::Waiting | Phase::Running => None,
            },
        }
    }

    /// What the end that the coordinator saw says about the attempt. `dying` is why
    /// everything was killed, if it was. What it has put out is not looked at.
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
        let ran = ended.started.map(|started| Ran {
            started: started.wall,
            ended: ended.at.wall,
            elapsed: ended.at.mono.since(started.mono),
            cpu: ended.usage.map_or(Millis(0), |usage| usage.cpu),
            memory_peak: ended.usage.map_or(0, |usage| usage.memory_peak),
        });
        Report {
            outcome,
            ran,
            outputs: None,
        }
    }

    fn ran_for(&self, ended: &RunEnd) -> Option<Millis> {
        let began = self.began.or(ended.started.map(|at| at.mono))?;
        Some(ended.at.mono.since(began))
    }
}

impl Inherited {
    pub(crate) fn into_run(self) -> Run {
        let phase = match (self.ended, self.waiting, self.started) {
            (Some(report), _, _) => Phase::Over(report),
            (None, true, _) => Phase::Waiting,
            (None, false, Some(_)) => Phase::Running,
            (None, false, None) => Phase::Asked,
        };
        let tag = Tag {
            lease: self.lease,
            spec: self.spec,
            timeout: self.timeout,
            memory_min: self.memory_min,
            memory_max: self.memory_max,
            began: self.began,
        };
        Run {
            started: self.started,
            phase,
            told: true,
            ..Run::new(self.run, tag)
        }
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    by_number: HashMap<ProcessNo, Run>,
    by_lease: HashMap<LeaseId, ProcessNo>,
    /// Those that run and have a limit on their memory.
    limited: BTreeSet<ProcessNo>,
    next: u32,
}

impl Runs {
    /// A key that no other attempt has or had.
    pub(crate) fn new_key(&mut self) -> RunKey {
        let key = RunKey {
            process: ProcessNo(self.next),
            run: RunNo(0),
        };
        self.next = self.next.wrapping_add(1);
        key
    }

    /// Somebody has this key.
    pub(crate) fn taken(&mut self, key: RunKey) {
        self.next = self.next.max(key.process.0.wrapping_add(1));
    }

    pub(crate) fn insert(&mut self, run: Run) {
        self.taken(run.key);
        let number = run.key.process;
        self.by_lease.insert(run.lease, number);
        self.by_number.insert(number, run);
        self.index(number);
    }

    /// Whose memory is looked at is brought up to date with an attempt that has changed.
    pub(crate) fn index(&mut self, number: ProcessNo) {
        let Some(run) = self.by_number.get(&number) else {
            return;
        };
        let running = run.phase == Phase::Running;
        if running && run.memory_max > 0 {
            self.limited.insert(number);
        } else {
            self.limited.remove(&number);
        }
    }

    /// The attempt of this key, if it is in this very run of it.
    pub(crate) fn get_mut(&mut self, key: RunKey) -> Option<&mut Run> {
        let run = self.by_number.get_mut(&key.process)?;
        (run.key == key).then_some(run)
    }

    pub(crate) fn of_lease(&mut self, lease: LeaseId) -> Option<&mut Run> {
        self.by_number.get_mut(self.by_lease.get(&lease)?)
    }

    pub(crate) fn holds(&self, lease: LeaseId) -> bool {
        self.by_lease.contains_key(&lease)
    }

    pub(crate) fn remove(&mut self, lease: LeaseId) -> Option<Run> {
        let number = self.by_lease.remove(&lease)?;
        let run = self.by_number.remove(&number)?;
        self.limited.remove(&number);
        Some(run)
    }

    /// Takes everything out; numbers go on.
    pub(crate) fn drain(&mut self) -> Vec<Run> {
        self.by_lease.clear();
        self.limited.clear();
        self.by_number.drain().map(|(_, run)| run).collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Run> {
        self.by_number.values()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    /// The first processes of those that run and have a limit on their memory.
    pub(crate) fn limited(&self) -> Vec<(RunKey, u32)> {
        let runs = self.limited.iter();
        let runs = runs.filter_map(|number| self.by_number.get(number));
        runs.filter_map(|run| Some((run.key, run.started?.1.pid)))
            .collect()
    }

    pub(crate) fn has_limited(&self) -> bool {
        !self.limited.is_empty()
    }
}
