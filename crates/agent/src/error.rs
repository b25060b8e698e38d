//! Errors of the agent.

use std::fmt;
use std::io;
use std::path::PathBuf;

use baton_fs::private::DirError;
use baton_tls::TlsError;

/// Reason why an agent cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another agent uses the state directory.
    #[error(
        "a worker{} already uses {path}; end it first, or name another directory with --state",
        pid_note(*.pid)
    )]
    Locked {
        path: PathBuf,
        /// The process id of that agent, if known.
        pid: Option<u32>,
    },
    /// The state directory is not safe to use.
    #[error("{0}, or name another directory with --state")]
    Directory(#[from] DirError),
    /// The TLS files cannot be used.
    #[error(transparent)]
    Tls(TlsError),
    /// The configuration is invalid.
    #[error("{0}")]
    Invalid(String),
    #[error("cannot {what}: {error}")]
    Io {
        what: String,
        #[source]
        error: io::Error,
    },
}

impl Error {
    /// For `map_err`.
    pub(crate) fn io(what: impl fmt::Display) -> impl FnOnce(io::Error) -> Self {
        let what = what.to_string();
        move |error| Self::Io { what, error }
    }
}

fn pid_note(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default()
}
