//! What can go wrong with a root, in the words of whoever has to fix it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::TaskId;

/// Why something about a root could not be done.
#[derive(Debug)]
pub enum RootError {
    /// No variable says where the root is.
    NoDefaultRoot,
    /// This text cannot be the id of a task, for this reason.
    BadId {
        /// The text.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// No task matches this pattern.
    Nothing {
        /// The pattern.
        pattern: String,
        /// The root that was looked through.
        root: PathBuf,
    },
    /// More than one task matches, and one is wanted.
    Several {
        /// The pattern.
        pattern: String,
        candidates: Vec<TaskId>,
    },
    /// A runner drives the task.
    Driven(TaskId),
    /// The entry of a task cannot be understood.
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

/// So many candidates are named; more are counted.
const CANDIDATES_SHOWN_MAX: usize = 8;

impl RootError {
    /// The system refused to do `what` to `path`.
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
            Self::NoDefaultRoot => f.write_str(
                "nothing says where the tasks are: give --root DIR, or set BATON_ROOT or HOME",
            ),
            Self::BadId { text, why } => write!(
                f,
                "`{}` cannot be the id of a task: {why}",
                text.escape_debug()
            ),
            Self::Nothing { pattern, root } => write!(
                f,
                "no task in {} matches `{}`; `baton local status` lists them",
                root.display(),
                pattern.escape_debug()
            ),
            Self::Several {
                pattern,
                candidates,
            } => {
                write!(f, "`{}` matches several tasks:", pattern.escape_debug())?;
                for id in candidates.iter().take(CANDIDATES_SHOWN_MAX) {
                    write!(f, " {id}")?;
                }
                match candidates.len().saturating_sub(CANDIDATES_SHOWN_MAX) {
                    0 => f.write_str("; write more of the one you mean"),
                    more => write!(f, " and {more} more; write more of the one you mean"),
                }
            }
            Self::Driven(id) => write!(f, "a runner drives {id} already"),
            Self::BadEntry { path, error } => {
                write!(f, "{} is no entry of a task: {error}", path.display())
            }
            Self::Io { what, path, error } => {
                write!(f, "cannot {what} {}: {error}", path.display())
            }
        }
    }
}

impl std::error::Error for RootError {}
