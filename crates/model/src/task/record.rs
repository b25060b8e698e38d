//! What the runner of one task attempt keeps: the records of its checkpoint log.
//!
//! Each [`PlanEvent`] is one change of the attempt, in the past tense, with the
//! time at which it was decided. It carries the *decision*, not only what led to
//! it: when a process may start again is written down, so a replay needs neither
//! the clock nor the random number that the decision was made with, and an older
//! log means the same to a later version.
//!
//! What the records add up to is in `progress`; how, is decided by `baton-core`'s
//! `plan`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::BootId;
use crate::outcome::Outcome;
use crate::state::AttemptState;
use crate::time::{Millis, Mono, Now, Wall};

/// A process of a task, by its place in the order of definition, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProcessNo(pub u32);

impl ProcessNo {
    /// The first place.
    pub const MIN: Self = Self(0);
    /// Beyond every place.
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

/// A time that is kept: monotonic for decisions, wall for people.
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

/// Who a running process is. A pid alone names a stranger as soon as it is used
/// again; all three together never do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The boot it runs in.
    pub boot: BootId,
    /// Its number.
    pub pid: u32,
    /// When it started, in the kernel's ticks since that boot.
    pub start_ticks: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunEnd {
    /// Somebody saw it.
    #[serde(rename = "seen")]
    Observed(Outcome),
    /// What became of it cannot be proved.
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

/// Why a run was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopCause {
    /// It ran longer than its timeout.
    TimedOut,
    /// Its health check failed.
    Unhealthy,
    /// The part of the task to which it belongs is over.
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
    /// The part of the task to which it belongs is over.
    Dropped,
}

/// One change of a task attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlanChange {
    /// A run is about to be launched.
    RunOrdered { process: ProcessNo, run: RunNo },
    /// A run was launched and its process is there.
    RunStarted {
        process: ProcessNo,
        run: RunNo,
        /// When, by whoever saw it.
        started: Moment,
        /// Who it is, if somebody knows.
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
    /// A run is over.
    RunEnded {
        process: ProcessNo,
        run: RunNo,
        /// When, by whoever saw it.
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
    /// Somebody wants the end sooner.
    DeadlineMoved {
        /// The new end of the budget.
        deadline: Mono,
    },
    /// A part of the budget has been used up. It says so to the next boot, which
    /// cannot read this one's clock.
    BudgetMarked,
    /// Everything is about to be killed, and nothing is started any more.
    KillBegun,
    /// No regular process runs any more: the turn of the final ones.
    FinalizingBegun,
    /// No final process is waited for any more: those that run are told to stop.
    FinalizersStopping,
    /// The attempt is over, with its verdict.
    AttemptEnded,
    /// The attempt is given up: what became of it cannot be proved.
    AttemptLost,
    /// Another life of the runner has taken over.
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
