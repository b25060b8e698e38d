//! Errors of a task.

use std::fmt;
use std::io;

use baton_core::plan::{ApplyError, PlanError, SpecError};

use crate::log::LogError;
use crate::root::RootError;

/// An error of starting, resuming or driving a task.
#[derive(Debug)]
pub enum TaskError {
    /// The request is invalid; nothing was changed.
    Invalid(String),
    /// It was started, but its log is missing.
    NoLog(String),
    /// Its files cannot be used.
    Root(RootError),
    /// Its log cannot be read or written.
    Log(LogError),
    /// Its log contradicts itself.
    Replay(ApplyError),
    /// Its log does not match its definition.
    Plan(PlanError),
    /// Its definition breaks a rule.
    Spec(SpecError),
    /// The system refused.
    Io {
        /// What was tried, as in "cannot …".
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

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(text) | Self::NoLog(text) => f.write_str(text),
            Self::Root(error) => error.fmt(f),
            Self::Log(error) => error.fmt(f),
            Self::Replay(error) => write!(
                f,
                "the log of the task contradicts itself: {error}; inspect it with `baton local read`"
            ),
            Self::Plan(error) => write!(
                f,
                "the log of the task does not match its definition: {error}"
            ),
            Self::Spec(error) => error.fmt(f),
            Self::Io { what, error } => write!(f, "cannot {what}: {error}"),
        }
    }
}

impl std::error::Error for TaskError {}

impl From<RootError> for TaskError {
    fn from(error: RootError) -> Self {
        Self::Root(error)
    }
}

impl From<LogError> for TaskError {
    fn from(error: LogError) -> Self {
        Self::Log(error)
    }
}

impl From<ApplyError> for TaskError {
    fn from(error: ApplyError) -> Self {
        Self::Replay(error)
    }
}
