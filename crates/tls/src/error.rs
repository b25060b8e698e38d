//! Errors of TLS files.

use std::fmt;
use std::path::{Path, PathBuf};

/// Reason why TLS cannot be set up with these files.
#[derive(Clone, Debug)]
pub enum TlsError {
    /// A file cannot be used.
    File {
        path: PathBuf,
        /// What is wrong with it.
        why: String,
        hint: &'static str,
    },
    /// The crypto provider does not support the protocol versions.
    Provider(rustls::Error),
}

impl TlsError {
    pub(crate) fn file(path: &Path, why: impl Into<String>, hint: &'static str) -> Self {
        Self::File {
            path: path.to_owned(),
            why: why.into(),
            hint,
        }
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, why, hint } => write!(f, "{} {why}; {hint}", path.display()),
            Self::Provider(error) => write!(f, "TLS cannot be set up: {error}"),
        }
    }
}

impl std::error::Error for TlsError {}
