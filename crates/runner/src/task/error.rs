//! Errors of a task.

use std::io;

use baton_core::plan::{ApplyError, PlanError, SpecError};

use crate::log::LogError;
use crate::root::RootError;

/// An error of starting, resuming or driving a task.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The request is invalid; nothing was changed.
    #[error("{0}")]
    Invalid(String),
    /// It was started, but its log is missing.
    #[error("{0}")]
    NoLog(String),
    #[error(transparent)]
    Root(#[from] RootError),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("the log of the task contradicts itself: {0}; inspect it with `baton local read`")]
    Replay(#[from] ApplyError),
    #[error("the log of the task does not match its definition: {0}")]
    Plan(PlanError),
    /// Its definition breaks a rule.
    #[error(transparent)]
    Spec(SpecError),
    #[error("cannot {what}: {error}")]
    Io {
        what: &'static str,
        error: io::Error,
    },
}

impl TaskError {
    pub(super) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Io { what, error }
    }

    /// True if the request was wrong, and not the system.
    #[must_use]
    pub const fn is_invalid(&self) -> bool {
        matches!(
            self,
            Self::Invalid(_)
                | Self::NoLog(_)
                | Self::Spec(_)
                | Self::Root(RootError::Driven(_) | RootError::BadId { .. })
        )
    }
}
