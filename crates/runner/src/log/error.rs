//! Errors of a log.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::damage::Damage;
use super::format::{HEADER_BYTES, Kind, VERSION};

/// An error of a log. It can be cloned, because a log that has failed returns the same error for
/// ever.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LogError {
    /// The operating system refused.
    #[error("cannot {doing} {path}: {source}{}", room(.source))]
    Io {
        path: PathBuf,
        /// What was tried, as in "cannot …".
        doing: &'static str,
        source: Arc<io::Error>,
    },
    /// Shorter than a header.
    #[error(
        "{path} is not a whole log: it has {bytes} bytes, and a header alone has {HEADER_BYTES}. \
         Baton never leaves one like that; put a good copy back, or remove it"
    )]
    Short { path: PathBuf, bytes: u64 },
    #[error("{path} is not a log of Baton: it does not begin like one")]
    NotALog { path: PathBuf },
    #[error(
        "{path} has format {version}, and this version of Baton reads format {VERSION} only; use \
         the version of Baton that wrote it, or a later one"
    )]
    Version { path: PathBuf, version: u32 },
    #[error("{path} is {}, not of a {wanted}", wrong_kind(*.found))]
    WrongKind {
        path: PathBuf,
        /// `None` for an unknown kind.
        found: Option<Kind>,
        wanted: Kind,
    },
    /// Something is wrong, with complete records after it.
    #[error("{0}")]
    Damaged(Box<Damage>),
    /// A record is intact, but cannot be decoded.
    #[error(
        "record {sequence} at byte {offset} of {path} is whole, but this version of Baton does \
         not understand it ({source}); use the version of Baton that wrote it, or a later one. The \
         file was not changed"
    )]
    Undecodable {
        path: PathBuf,
        offset: u64,
        /// Its number.
        sequence: u64,
        source: Arc<serde_json::Error>,
    },
    /// A record that cannot be encoded as JSON.
    #[error("cannot make a record for {path}: {source}; nothing was written")]
    Unencodable {
        path: PathBuf,
        source: Arc<serde_json::Error>,
    },
    #[error("a record for {path} is longer than {bytes_max} bytes; nothing was written")]
    TooLong { path: PathBuf, bytes_max: usize },
}

impl LogError {
    pub(crate) fn io(path: &Path, doing: &'static str, source: io::Error) -> Self {
        Self::Io {
            path: path.to_owned(),
            doing,
            source: Arc::new(source),
        }
    }

    /// The kind of OS error, if it was one.
    #[must_use]
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        match self {
            Self::Io { source, .. } => Some(source.kind()),
            _ => None,
        }
    }

    /// True if the disk, or the user's quota, is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.io_kind().is_some_and(is_full)
    }

    /// There is no such file.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.io_kind() == Some(io::ErrorKind::NotFound)
    }
}

/// Advice about a full disk.
fn room(source: &io::Error) -> &'static str {
    if is_full(source.kind()) {
        "; make room on that disk and start again"
    } else {
        ""
    }
}

fn is_full(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(kind, StorageFull | QuotaExceeded)
}

fn wrong_kind(found: Option<Kind>) -> String {
    match found {
        Some(found) => format!("the log of a {found}"),
        None => "a log of a kind that this version of Baton does not know".to_owned(),
    }
}
