//! Errors of a log.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::damage::Damage;
use super::format::{HEADER_BYTES, Kind, VERSION};

/// An error of a log. It can be cloned, because a log that has failed returns the same error for
/// ever.
#[derive(Clone, Debug)]
pub enum LogError {
    /// The operating system refused.
    Io {
        path: PathBuf,
        /// What was tried, as in "cannot …".
        doing: &'static str,
        source: Arc<io::Error>,
    },
    /// Shorter than a header.
    Short {
        /// The file.
        path: PathBuf,
        bytes: u64,
    },
    /// Not a log of Baton.
    NotALog {
        /// The file.
        path: PathBuf,
    },
    /// An unknown format version.
    Version {
        /// The file.
        path: PathBuf,
        version: u32,
    },
    /// A log of another kind.
    WrongKind {
        /// The file.
        path: PathBuf,
        /// `None` for an unknown kind.
        found: Option<Kind>,
        wanted: Kind,
    },
    /// Something is wrong, with complete records after it.
    Damaged(Box<Damage>),
    /// A record is intact, but cannot be decoded.
    Undecodable {
        /// The file.
        path: PathBuf,
        offset: u64,
        /// Its number.
        sequence: u64,
        source: Arc<serde_json::Error>,
    },
    /// A record that cannot be encoded as JSON. Nothing was written.
    Unencodable {
        /// The file.
        path: PathBuf,
        source: Arc<serde_json::Error>,
    },
    /// A record that exceeds the maximum length. Nothing was written.
    TooLong {
        /// The file.
        path: PathBuf,
        /// The most that a record may hold.
        bytes_max: usize,
    },
}

impl LogError {
    pub(super) fn io(path: &Path, doing: &'static str, source: io::Error) -> Self {
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
        matches!(
            self.io_kind(),
            Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
        )
    }

    /// There is no such file.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.io_kind() == Some(io::ErrorKind::NotFound)
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io {
                path,
                doing,
                source,
            } => {
                write!(f, "cannot {doing} {}: {source}", path.display())?;
                if self.is_full() {
                    f.write_str("; make room on that disk and start again")?;
                }
                Ok(())
            }
            Self::Short { path, bytes } => write!(
                f,
                "{} is not a whole log: it has {bytes} bytes, and a header alone has {HEADER_BYTES}. \
                 Baton never leaves one like that; put a good copy back, or remove it",
                path.display()
            ),
            Self::NotALog { path } => write!(
                f,
                "{} is not a log of Baton: it does not begin like one",
                path.display()
            ),
            Self::Version { path, version } => write!(
                f,
                "{} has format {version}, and this version of Baton reads format {VERSION} only; \
                 use the version of Baton that wrote it, or a later one",
                path.display()
            ),
            Self::WrongKind {
                path,
                found,
                wanted,
            } => match found {
                Some(found) => write!(
                    f,
                    "{} is the log of a {found}, not of a {wanted}",
                    path.display()
                ),
                None => write!(
                    f,
                    "{} is a log of a kind that this version of Baton does not know, not of a {wanted}",
                    path.display()
                ),
            },
            Self::Damaged(damage) => damage.fmt(f),
            Self::Undecodable {
                path,
                offset,
                sequence,
                source,
            } => write!(
                f,
                "record {sequence} at byte {offset} of {} is whole, but this version of Baton \
                 does not understand it ({source}); use the version of Baton that wrote it, or a later one. \
                 The file was not changed",
                path.display()
            ),
            Self::Unencodable { path, source } => write!(
                f,
                "cannot make a record for {}: {source}; nothing was written",
                path.display()
            ),
            Self::TooLong { path, bytes_max } => write!(
                f,
                "a record for {} is longer than {bytes_max} bytes; nothing was written",
                path.display()
            ),
        }
    }
}

impl Error for LogError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source.as_ref()),
            Self::Undecodable { source, .. } | Self::Unencodable { source, .. } => {
                Some(source.as_ref())
            }
            _ => None,
        }
    }
}
