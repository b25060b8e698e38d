//! The archive of collected logs: those of ended attempts, in the data directory or in a bucket.
//!
//! | file | holds |
//! |---|---|
//! | `directory` | the archive in the data directory |
//! | `bucket` | the archive in a bucket of an S3-compatible store, which several schedulers share |
//! | `requests` | requests to such a store, and their errors |
//! | `location` | the URL of a bucket |
//! | `credentials` | the credentials of the environment or of a file |
//!
//! One compressed object for each stream of a process, with a line of JSON before its bytes. The
//! total is bounded: beyond the budget the oldest are removed. `http::logs` fills and reads it.

mod bucket;
mod credentials;
mod directory;
mod location;
mod requests;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use baton_model::ids::LeaseId;
use baton_model::json;
use baton_model::message::LogStream;
use baton_store::view::Seq;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::task::spawn_blocking;

pub(crate) use bucket::Bucket;
use directory::Directory;
pub use location::LogBucket;
pub use requests::BucketError;

use crate::limits::{ARCHIVE_POSITION_PAUSE, COLLECTED_LOG_BYTES_MAX};

const ENDING: &str = ".gz";

/// The key of a log: a stream of one process of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogKey {
    pub(crate) lease: LeaseId,
    /// The index of a process in its task; 0 for a plain command.
    pub(crate) process: usize,
    pub(crate) stream: LogStream,
}

/// A log of the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArchivedLog {
    /// The run of the process: its last one.
    pub(crate) run: u32,
    /// Whether its beginning was not collected.
    pub(crate) is_cut: bool,
    pub(crate) bytes: Vec<u8>,
}

/// The line before the bytes.
#[derive(Serialize, Deserialize)]
struct Head {
    run: u32,
    cut: bool,
}

/// Why the archive cannot be read or written.
#[derive(Debug, Error)]
pub(crate) enum ArchiveError {
    #[error("{0}")]
    File(#[from] io::Error),
    #[error("{0}")]
    Bucket(#[from] BucketError),
}

/// Collected logs.
#[derive(Clone, Debug)]
pub(crate) enum LogArchive {
    /// Of one scheduler.
    Directory(Arc<Directory>),
    /// Of all schedulers that share a store.
    Bucket(Arc<Bucket>),
}

impl LogKey {
    /// The end of its name, after the instance.
    fn suffix(&self) -> String {
        let LeaseId { attempt, epoch } = self.lease;
        let stream = match self.stream {
            LogStream::Stdout => "out",
            LogStream::Stderr => "err",
        };
        let (number, process) = (attempt.number.0, self.process);
        format!("{number}.e{}.{process}.{stream}{ENDING}", epoch.0)
    }

    const fn stdout(&self) -> Self {
        Self {
            stream: LogStream::Stdout,
            ..*self
        }
    }
}

impl ArchivedLog {
    /// An empty standard error is not stored: the standard output implies it.
    fn is_implied(&self, key: &LogKey) -> bool {
        self.bytes.is_empty() && key.stream == LogStream::Stderr
    }

    /// The empty standard error beside a standard output.
    fn implied(stdout: &Self) -> Self {
        Self {
            run: stdout.run,
            is_cut: false,
            bytes: Vec::new(),
        }
    }

    fn encode(&self) -> io::Result<Vec<u8>> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        let head = Head {
            run: self.run,
            cut: self.is_cut,
        };
        serde_json::to_writer(&mut encoder, &head)?;
        encoder.write_all(b"\n")?;
        encoder.write_all(&self.bytes)?;
        encoder.finish()
    }

    fn decode(source: impl Read) -> io::Result<Self> {
        // Bounded, should another program have written it.
        let bytes_max = 2 * COLLECTED_LOG_BYTES_MAX as u64;
        let mut decoder = BufReader::new(GzDecoder::new(source).take(bytes_max));
        let mut head = Vec::new();
        decoder.read_until(b'\n', &mut head)?;
        let Head { run, cut } = json::from_slice(&head)?;
        let mut bytes = Vec::new();
        decoder.read_to_end(&mut bytes)?;
        Ok(Self {
            run,
            is_cut: cut,
            bytes,
        })
    }
}

impl LogArchive {
    /// Opens the archive of a data directory, and removes what exceeds the budget.
    pub(crate) fn open(data: &Path, budget: u64) -> io::Result<Self> {
        Ok(Self::Directory(Arc::new(Directory::open(data, budget)?)))
    }

    /// The last fact whose logs were collected.
    pub(crate) async fn position(&self) -> Result<Option<Seq>, ArchiveError> {
        match self {
            Self::Directory(directory) => Ok(directory.position()),
            Self::Bucket(bucket) => Ok(bucket.position().await?),
        }
    }

    pub(crate) async fn set_position(&self, position: Seq) -> Result<(), ArchiveError> {
        match self {
            Self::Directory(directory) => Ok(directory.set_position(position)?),
            Self::Bucket(bucket) => Ok(bucket.set_position(position).await?),
        }
    }

    /// How often the position is recorded, at most: what is collected twice is the same object.
    pub(crate) const fn position_pause(&self) -> Duration {
        match self {
            Self::Directory(_) => Duration::ZERO,
            Self::Bucket(_) => ARCHIVE_POSITION_PAUSE,
        }
    }

    /// Whether the next leader continues where this one stops, since both see the same archive.
    pub(crate) const fn is_shared(&self) -> bool {
        matches!(self, Self::Bucket(_))
    }

    /// Adds a log.
    pub(crate) async fn write(
        &self,
        key: LogKey,
        log: &Arc<ArchivedLog>,
    ) -> Result<(), ArchiveError> {
        match self {
            Self::Directory(directory) => {
                let (directory, log) = (Arc::clone(directory), Arc::clone(log));
                Ok(unblocked(move || directory.write(&key, &log)).await?)
            }
            Self::Bucket(bucket) => bucket.write(key, log).await,
        }
    }

    /// Reads a log, if it was collected.
    pub(crate) async fn read(&self, key: LogKey) -> Result<Option<Arc<ArchivedLog>>, ArchiveError> {
        match self {
            Self::Directory(directory) => {
                let directory = Arc::clone(directory);
                let log = unblocked(move || directory.read(&key)).await?;
                Ok(log.map(Arc::new))
            }
            Self::Bucket(bucket) => bucket.read(key).await,
        }
    }

    /// Removes the oldest logs beyond the budget, if that is due.
    pub(crate) async fn sweep(&self) -> Result<(), ArchiveError> {
        match self {
            // A directory is swept by every write.
            Self::Directory(_) => Ok(()),
            Self::Bucket(bucket) => Ok(bucket.sweep().await?),
        }
    }
}

/// Runs what blocks on a thread where it may.
async fn unblocked<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    spawn_blocking(work).await.map_err(io::Error::other)?
}
