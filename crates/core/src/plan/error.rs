//! Records that do not fit: a damaged log, a log of another task, or a bug.

use baton_model::task::{ProcessNo, RunNo};
use baton_model::time::Mono;

use crate::fsm::{Attempt, IllegalTransition, Process};

/// Why a record does not follow from the ones before it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    #[error("the task has no process {0}")]
    UnknownProcess(ProcessNo),
    #[error("{process}: {found} is neither under way nor next")]
    WrongRun {
        process: ProcessNo,
        /// The run in the record.
        found: RunNo,
    },
    /// The process machine has no such row.
    #[error("{0}: {1}")]
    Process(ProcessNo, IllegalTransition<Process>),
    /// The attempt machine has no such row.
    #[error("{0}")]
    Attempt(IllegalTransition<Attempt>),
    /// The record makes no sense here, for this reason.
    #[error("{0}")]
    Misplaced(&'static str),
    #[error("a record of {to} follows one of {from}")]
    ClockWentBack { from: Mono, to: Mono },
}

/// A snapshot that was not made from this task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the snapshot has {found} processes, the task {expected}: it is of another task")]
pub struct SnapshotMismatch {
    /// Processes in the task.
    pub expected: usize,
    /// Processes in the snapshot.
    pub found: usize,
}
