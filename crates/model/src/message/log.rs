//! Pieces of the logs of attempts.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::LeaseId;

/// Which of a process' two outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A file of a log. It stays the same when a rotation renames it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LogFileId {
    pub inode: u64,
    /// An inode number is used again when its file is gone. 0 if the file system does not record it.
    pub created_ns: u64,
}

/// A position in a log that no rotation moves. Its text is opaque to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LogCursor {
    pub file: LogFileId,
    pub offset: u64,
}

impl fmt::Display for LogCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LogFileId { inode, created_ns } = self.file;
        write!(f, "{inode:x}-{created_ns:x}-{:x}", self.offset)
    }
}

impl FromStr for LogCursor {
    type Err = InvalidLogCursor;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let numbers = text.split('-').map(|part| u64::from_str_radix(part, 16));
        let numbers: Result<Vec<_>, _> = numbers.collect();
        match numbers.as_deref() {
            Ok(&[inode, created_ns, offset]) => Ok(Self {
                file: LogFileId { inode, created_ns },
                offset,
            }),
            _ => Err(InvalidLogCursor),
        }
    }
}

/// A text that is no [`LogCursor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor of a log")]
pub struct InvalidLogCursor;

/// Where a piece of a log begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogStart {
    /// This many bytes after the first of the oldest retained file.
    Offset(u64),
    /// Where an earlier piece has ended. If its file is gone: at the oldest that is left.
    Cursor(LogCursor),
}

/// A request for a piece of a log.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LogQuery {
    pub lease: LeaseId,
    /// Which process of a task; its first one if none is named.
    #[serde(default)]
    pub process: Option<String>,
    /// Which run of that process, where it was started again; the last one if none is named.
    #[serde(default)]
    pub run: Option<u32>,
    pub stream: LogStream,
    pub start: LogStart,
    /// At most this many bytes.
    pub bytes_max: u32,
}

/// A piece of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LogChunk {
    /// Bytes from the start on; fewer than asked for only at the end.
    pub bytes: Vec<u8>,
    /// The size of all retained files when the bytes were read.
    pub size: u64,
    /// Where the next piece begins; `None` if the start lies behind the end.
    pub cursor: Option<LogCursor>,
    /// The run of the process.
    pub run: u32,
    /// The run that followed, if one had begun before they were read: then this is all that
    /// this run has written.
    pub next_run: Option<u32>,
}

impl LogChunk {
    /// A chunk that is a whole log.
    #[must_use]
    pub fn whole(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        Self {
            size: bytes.len() as u64,
            bytes,
            ..Self::default()
        }
    }
}

/// The answer to a [`LogQuery`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogAnswer {
    /// A piece of it.
    Chunk(LogChunk),
    /// The worker has no such log.
    NotFound,
    /// The worker could not be asked, for this reason.
    Unavailable(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_is_written_and_nothing_else_is_one() {
        let cursor = LogCursor {
            file: LogFileId {
                inode: 0x1f,
                created_ns: u64::MAX,
            },
            offset: 10,
        };
        let text = cursor.to_string();
        assert_eq!(text, "1f-ffffffffffffffff-a");
        assert_eq!(text.parse(), Ok(cursor));
        for wrong in [
            "",
            "1",
            "1-2",
            "1-2-3-4",
            "1-2-3-",
            "1-2-x",
            "1-2-fffffffffffffffff",
        ] {
            assert_eq!(wrong.parse::<LogCursor>(), Err(InvalidLogCursor), "{wrong}");
        }
    }
}
