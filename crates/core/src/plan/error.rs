//! Records that do not fit: a damaged log, a log of another task, or a bug.

use std::fmt;

use baton_model::task::{ProcessNo, RunNo};
use baton_model::time::Mono;

use crate::fsm::{Attempt, IllegalTransition, Process};

/// Why a record does not follow from the ones before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// The task has no process of that number.
    UnknownProcess(ProcessNo),
    /// The record is about a run that is neither the current one nor the next.
    WrongRun {
        process: ProcessNo,
        /// The run in the record.
        found: RunNo,
    },
    /// The process machine has no such row.
    Process(ProcessNo, IllegalTransition<Process>),
    /// The attempt machine has no such row.
    Attempt(IllegalTransition<Attempt>),
    /// The record makes no sense here, for this reason.
    Misplaced(&'static str),
    /// The record is older than the one before it.
    ClockWentBack {
        /// The time of the one before.
        from: Mono,
        /// The time of this one.
        to: Mono,
    },
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownProcess(process) => write!(f, "the task has no process {process}"),
            Self::WrongRun { process, found } => {
                write!(f, "{process}: {found} is neither under way nor next")
            }
            Self::Process(process, illegal) => write!(f, "{process}: {illegal}"),
            Self::Attempt(illegal) => illegal.fmt(f),
            Self::Misplaced(why) => f.write_str(why),
            Self::ClockWentBack { from, to } => {
                write!(f, "a record of {to} follows one of {from}")
            }
        }
    }
}

impl std::error::Error for ApplyError {}

/// A snapshot that was not made from this task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotMismatch {
    /// Processes in the task.
    pub expected: usize,
    /// Processes in the snapshot.
    pub found: usize,
}

impl fmt::Display for SnapshotMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the snapshot has {} processes, the task {}: it is of another task",
            self.found, self.expected
        )
    }
}

impl std::error::Error for SnapshotMismatch {}
