//! Errors of the agent.

use std::fmt;
use std::io;
use std::path::PathBuf;

use baton_tls::TlsError;

/// Reason why an agent cannot continue.
#[derive(Debug)]
pub enum Error {
    /// Another agent uses the state directory.
    Locked {
        path: PathBuf,
        /// The process id of that agent, if known.
        pid: Option<u32>,
    },
    /// The TLS files cannot be used.
    Tls(TlsError),
    /// The configuration is invalid.
    Invalid(String),
    /// A system call failed.
    Io { what: String, error: io::Error },
}

impl Error {
    /// For `map_err`.
    pub(crate) fn io(what: impl fmt::Display) -> impl FnOnce(io::Error) -> Self {
        let what = what.to_string();
        move |error| Self::Io { what, error }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked { path, pid } => {
                let path = path.display();
                match pid {
                    Some(pid) => write!(f, "a worker (pid {pid}) already uses {path}")?,
                    None => write!(f, "a worker already uses {path}")?,
                }
                f.write_str("; end it first, or name another directory with --state")
            }
            Self::Tls(error) => error.fmt(f),
            Self::Invalid(text) => f.write_str(text),
            Self::Io { what, error } => write!(f, "cannot {what}: {error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { error, .. } => Some(error),
            Self::Locked { .. } | Self::Tls(_) | Self::Invalid(_) => None,
        }
    }
}
