//! Errors of a root.

use std::io;
use std::path::{Path, PathBuf};

use super::TaskId;

/// An error of an operation on a root.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    #[error("no state directory: give --root DIR, or set BATON_ROOT or HOME")]
    NoDefaultRoot,
    #[error("`{}` is not a valid task id: {reason}", .text.escape_debug())]
    BadId { text: String, reason: &'static str },
    #[error(
        "no task in {root} matches `{}`; `baton local status` lists them",
        .pattern.escape_debug()
    )]
    NoMatch { pattern: String, root: PathBuf },
    /// More than one task matches where one is required.
    #[error(
        "`{}` matches several tasks:{}; give a longer prefix",
        .pattern.escape_debug(),
        listed(.candidates)
    )]
    Ambiguous {
        pattern: String,
        candidates: Vec<TaskId>,
    },
    #[error("a runner drives {0} already")]
    Driven(TaskId),
    #[error("{path} is not a valid task entry: {error}")]
    BadEntry {
        path: PathBuf,
        error: serde_json::Error,
    },
    #[error("cannot {what} {path}: {error}")]
    Io {
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

/// The candidates for a pattern, as a list.
fn listed(candidates: &[TaskId]) -> String {
    let shown = candidates.iter().take(CANDIDATES_SHOWN_MAX);
    let mut list: String = shown.map(|id| format!(" {id}")).collect();
    let more = candidates.len().saturating_sub(CANDIDATES_SHOWN_MAX);
    if more > 0 {
        list += &format!(" and {more} more");
    }
    list
}
