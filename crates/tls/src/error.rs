//! Errors of TLS files.

use std::path::{Path, PathBuf};

use thiserror::Error;

/// Reason why TLS cannot be set up with these files.
#[derive(Clone, Debug, Error)]
pub enum TlsError {
    /// A file cannot be used.
    #[error("{} {reason}; {hint}", .path.display())]
    File {
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
        hint: &'static str,
    },
    /// The crypto provider does not support the protocol versions.
    #[error("TLS cannot be set up: {0}")]
    Provider(rustls::Error),
}

impl TlsError {
    pub(crate) fn file(path: &Path, reason: impl Into<String>, hint: &'static str) -> Self {
        Self::File {
            path: path.to_owned(),
            reason: reason.into(),
            hint,
        }
    }
}
