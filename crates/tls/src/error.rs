//! Why files cannot be used.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why there can be no TLS with these files.
#[derive(Clone, Debug)]
pub enum TlsError {
    /// A file cannot be used.
    File {
        path: PathBuf,
        /// What is wrong with it.
        why: String,
        /// What to do about it.
        hint: &'static str,
    },
    /// The cryptography does not suit the protocol.
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
            Self::Provider(error) => write!(f, "TLS cannot be used: {error}"),
        }
    }
}

impl std::error::Error for TlsError {}
