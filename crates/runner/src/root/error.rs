//! Errors of a root.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::TaskId;

/// An error of an operation on a root.
#[derive(Debug)]
pub enum RootError {
    /// No variable specifies the root.
    NoDefaultRoot,
    /// This text is not a valid task id.
    BadId { text: String, reason: &'static str },
    /// No task matches this pattern.
    NoMatch {
        /// The pattern.
        pattern: String,
        root: PathBuf,
    },
    /// More than one task matches where one is required.
    Ambiguous {
        /// The pattern.
        pattern: String,
        candidates: Vec<TaskId>,
    },
    /// A runner drives the task.
    Driven(TaskId),
    /// The entry of a task cannot be parsed.
    BadEntry {
        path: PathBuf,
        error: serde_json::Error,
    },
    /// The system refused.
    Io {
        /// What was tried, as in "cannot …".
        what: &'static str,
        path: PathBuf,
        error: io::Error,
    },
}

/// The number of candidates listed; more are counted.
const CANDIDATES_SHOWN_MAX: usize = 8;

impl RootError {
    /// An OS error of `what` on `path`.
    pub(super) fn io(what: &'static str, path: &Path, error: impl Into<io::Error>) -> Self {
        Self::Io {
            what,
            path: path.to_owned(),
            error: error.into(),
        }
    }
}

impl fmt::Display for RootError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDefaultRoot => {
                f.write_str("no state directory: give --root DIR, or set BATON_ROOT or HOME")
            }
            Self::BadId { text, reason } => {
                write!(
                    f,
                    "`{}` is not a valid task id: {reason}",
                    text.escape_debug()
                )
            }
            Self::NoMatch { pattern, root } => write!(
                f,
                "no task in {} matches `{}`; `baton local status` lists them",
                root.display(),
                pattern.escape_debug()
            ),
            Self::Ambiguous {
                pattern,
                candidates,
            } => {
                write!(f, "`{}` matches several tasks:", pattern.escape_debug())?;
                for id in candidates.iter().take(CANDIDATES_SHOWN_MAX) {
                    write!(f, " {id}")?;
                }
                match candidates.len().saturating_sub(CANDIDATES_SHOWN_MAX) {
                    0 => f.write_str("; give a longer prefix"),
                    more => write!(f, " and {more} more; give a longer prefix"),
                }
            }
            Self::Driven(id) => write!(f, "a runner drives {id} already"),
            Self::BadEntry { path, error } => {
                write!(f, "{} is not a valid task entry: {error}", path.display())
            }
            Self::Io { what, path, error } => {
                write!(f, "cannot {what} {}: {error}", path.display())
            }
        }
    }
}

impl std::error::Error for RootError {}
