//! The progress of a task attempt: the sum of its records, of bounded size.
//!
//! A [`PlanSnapshot`] may replace all records before it, which is how the log of a
//! daemon that has run a million times stays short: of each process the last run
//! and the counters are kept, not its history. Everything here is plain data and
//! complete; what can be derived from it (which process may start next, which timer is
//! due) is left out, so that it cannot contradict.

use serde::{Deserialize, Serialize};

use super::record::{Identity, Moment, RunEnd, RunNo, StopCause};
use crate::state::{AttemptState, ProcessState};
use crate::time::{Millis, Mono};

/// Whether a process may still run, and if not, why.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Disposition {
    /// It may run, now or again.
    #[default]
    Open,
    /// It has completed.
    Finished,
    /// It has failed for good.
    Failed,
    /// It never runs: an upstream process can no longer meet its condition.
    Blocked,
    /// Its last run ended after its stage of the task was over.
    Dropped,
}

/// A run that was ordered and has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LiveRun {
    pub run: RunNo,
    pub ordered: Moment,
    /// The start of its process; `None` while the launch is in flight.
    pub started: Option<Moment>,
    /// None if it is not known.
    pub identity: Option<Identity>,
    /// It has passed its readiness check.
    pub ready: bool,
    /// The reason for which it was told to stop, if it was.
    pub stopping: Option<StopCause>,
}

/// The last run that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LastRun {
    pub run: RunNo,
    /// The state it ended in.
    pub state: ProcessState,
    pub end: RunEnd,
    /// The reason for which it had been told to stop, if it had been.
    pub stopped: Option<StopCause>,
    pub ordered: Moment,
    /// The start of its process; `None` if it never started.
    pub started: Option<Moment>,
    pub ended: Moment,
}

/// The progress of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessProgress {
    /// The state of the current run, or of the last one if there is no other.
    pub state: ProcessState,
    #[serde(rename = "fate")]
    pub disposition: Disposition,
    /// The current run.
    pub live: Option<LiveRun>,
    /// The run before.
    pub last: Option<LastRun>,
    /// Runs ordered: the number of the next one.
    pub runs: u64,
    /// Runs that succeeded.
    pub successes: u64,
    /// Runs that count towards `max_failures`.
    pub failures: u64,
    /// Failures since the last success: how far the backoff has grown.
    pub failures_in_row: u64,
    /// Runs that ended because Baton killed them.
    pub kills: u64,
    /// Runs whose end is not known.
    pub losses: u64,
    /// Some run of it was started.
    pub started_once: bool,
    /// Some run of it passed the readiness check.
    pub ready_once: bool,
    /// The next run starts no earlier.
    pub not_before: Mono,
    /// How much of the pause before the next run is backoff.
    pub backoff: Millis,
}

impl Default for ProcessProgress {
    fn default() -> Self {
        Self {
            state: ProcessState::Waiting,
            disposition: Disposition::Open,
            live: None,
            last: None,
            runs: 0,
            successes: 0,
            failures: 0,
            failures_in_row: 0,
            kills: 0,
            losses: 0,
            started_once: false,
            ready_once: false,
            not_before: Mono(0),
            backoff: Millis(0),
        }
    }
}

/// The end of an attempt, once it has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ending {
    /// The state in which it will end.
    pub verdict: AttemptState,
    /// For stopping and final processes together.
    pub budget: Millis,
    /// When the budget is used up.
    pub deadline: Mono,
    /// When usage of the budget was last recorded.
    pub marked: Mono,
    /// The final processes that still run have been told to stop.
    pub stopping: bool,
    /// Everything has been or is about to be killed; nothing is started any more.
    pub killing: bool,
}

/// The progress of a whole attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PlanSnapshot {
    pub began: Moment,
    /// When the last record was written.
    pub at: Moment,
    pub state: AttemptState,
    pub ending: Option<Ending>,
    /// Its processes, in the order of definition.
    pub processes: Vec<ProcessProgress>,
}
