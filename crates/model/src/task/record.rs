//! The records of the checkpoint log of one task attempt.
//!
//! Each [`PlanEvent`] is one change of the attempt, in the past tense, with the
//! time at which it was decided. It carries the *decision*, not only what led to
//! it: the time at which a process may start again is recorded, so a replay needs neither
//! the clock nor the random number that the decision was made with, and an older
//! log means the same to a later version.
//!
//! The sum of the records is in `progress`; `baton-core`'s `plan` computes it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::BootId;
use crate::outcome::Outcome;
use crate::state::AttemptState;
use crate::time::{Millis, Mono, Now, Wall};

/// A process of a task, by its position in the order of definition, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProcessNo(pub u32);

impl ProcessNo {
    /// The first position.
    pub const MIN: Self = Self(0);
    /// Beyond every position.
    pub const MAX: Self = Self(u32::MAX);

    /// As an index into the task's processes.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for ProcessNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

/// Counts the runs of one process, from 0, as its log directories do. Wide enough
/// for a daemon that fails a thousand times a second for ever.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct RunNo(pub u64);

impl fmt::Display for RunNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

/// One run of one process of a task, or one run of an attempt of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunKey {
    pub process: ProcessNo,
    pub run: RunNo,
}

impl fmt::Display for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.process, self.run)
    }
}

/// A recorded time: monotonic for decisions, wall for display.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Moment {
    /// Since an origin that only this boot of this host knows.
    pub mono: Mono,
    /// For display only.
    pub wall: Wall,
}

impl From<Now> for Moment {
    fn from(now: Now) -> Self {
        Self {
            mono: now.mono,
            wall: now.wall,
        }
    }
}

impl From<Moment> for Now {
    fn from(moment: Moment) -> Self {
        Self {
            mono: moment.mono,
            wall: moment.wall,
        }
    }
}

/// The identity of a running process. A pid may be reused by another process; all three fields
/// together never are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The boot it runs in.
    pub boot: BootId,
    pub pid: u32,
    /// Its start time, in kernel ticks since that boot.
    pub start_ticks: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunEnd {
    /// The end was observed.
    #[serde(rename = "seen")]
    Observed(Outcome),
    /// Its outcome cannot be proved.
    Lost,
}

impl fmt::Display for RunEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Observed(outcome) => outcome.fmt(f),
            Self::Lost => f.write_str("lost"),
        }
    }
}

/// The reason for which a run was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopCause {
    /// It ran longer than its timeout.
    TimedOut,
    /// Its health check failed.
    Unhealthy,
    /// Its stage of the task is over.
    Ending,
}

/// What follows for a process when one of its runs has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NextStep {
    /// Another run, not before this time.
    #[serde(rename = "again")]
    Restart {
        /// On the clock of the record.
        not_before: Mono,
        /// How much of the pause is backoff; the rest is `min_duration`.
        backoff: Millis,
    },
    /// It has done its part.
    Finished,
    /// It has failed for good.
    Failed,
    /// Its stage of the task is over.
    Dropped,
}

/// One change of a task attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlanChange {
    /// A run is about to be launched.
    RunOrdered { process: ProcessNo, run: RunNo },
    /// A run was launched, and its process runs.
    RunStarted {
        process: ProcessNo,
        run: RunNo,
        /// By the clock of the observer.
        started: Moment,
        /// None if it is not known.
        identity: Option<Identity>,
    },
    /// A run has passed its readiness check.
    RunReady { process: ProcessNo, run: RunNo },
    /// A run is about to be told to stop.
    RunStopping {
        process: ProcessNo,
        run: RunNo,
        cause: StopCause,
    },
    /// A run has ended.
    RunEnded {
        process: ProcessNo,
        run: RunNo,
        /// By the clock of the observer.
        ended: Moment,
        end: RunEnd,
        /// Whether it counts towards `max_failures`.
        failure: bool,
        next: NextStep,
    },
    /// The regular processes are over or have to be: all that run are told to stop.
    CleaningBegun {
        /// The state in which the attempt will end.
        verdict: AttemptState,
        /// For the stopping and the final processes together.
        budget: Millis,
    },
    /// A kill request has moved the deadline forward.
    DeadlineMoved {
        /// The new end of the budget.
        deadline: Mono,
    },
    /// A part of the budget has been used up. It is recorded for the next boot, which cannot read
    /// this one's clock.
    BudgetMarked,
    /// Everything is about to be killed, and nothing is started any more.
    KillBegun,
    /// No regular process runs any more: the final ones may start.
    FinalizingBegun,
    /// No final process is waited for any more: those that run are told to stop.
    FinalizersStopping,
    /// The attempt has ended, with its verdict.
    AttemptEnded,
    /// The attempt is given up: its outcome cannot be proved.
    AttemptLost,
    /// Another runner process has taken over.
    Resumed {
        /// The host has booted since: nothing that ran is left, and earlier
        /// readings of the monotonic clock mean nothing any more.
        boot_changed: bool,
    },
}

/// One record of the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PlanEvent {
    /// When it was decided. Never earlier than the record before, except where a
    /// new boot has begun.
    pub at: Moment,
    pub change: PlanChange,
}
