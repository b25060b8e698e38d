//! The record of a `baton run` directory: its instance or run, durable across crashes.
//!
//! This process may crash between a submission and recording its id. So it first records that a
//! submission is in flight, and the last id before it: no other client submits to this scheduler,
//! so if the next id exists, it is the one that was submitted.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{INTERNAL, io_failure};
use crate::output::{FAILED, Failure, clean};

const NAME: &str = "run.json";
const LOCK: &str = "run.lock";

/// The content of `run.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RunRecord {
    /// Id of the instance or run; `None` while its submission is in flight.
    pub(super) instance: Option<u64>,
    /// The last id before it.
    pub(super) above: u64,
    /// Hash of the submitted file and parameters.
    pub(super) hash: String,
}

/// The locked data directory.
#[derive(Debug)]
pub(super) struct RunDirectory {
    path: PathBuf,
    _lock: File,
}

impl RunDirectory {
    pub(super) fn open(data: &Path) -> Result<Self, Failure> {
        let path = data.join(LOCK);
        let lock = lock(&path)?;
        Ok(Self {
            path: data.join(NAME),
            _lock: lock,
        })
    }

    pub(super) fn read(&self) -> Result<Option<RunRecord>, Failure> {
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_failure(&self.path, &error)),
        };
        serde_json::from_slice(&text).map(Some).map_err(|error| {
            Failure::Message(
                INTERNAL,
                format!(
                    "{} is damaged: {error}; repair it, or use another directory with --data",
                    self.path.display()
                ),
            )
        })
    }

    /// Writes the record atomically and durably.
    pub(super) fn write(&self, record: &RunRecord) -> Result<(), Failure> {
        let written = || -> io::Result<()> {
            let temporary = self.path.with_extension("new");
            let mut file = File::create(&temporary)?;
            file.write_all(&serde_json::to_vec(record)?)?;
            file.sync_all()?;
            fs::rename(&temporary, &self.path)?;
            let dir = self.path.parent().unwrap_or(Path::new("."));
            File::open(dir)?.sync_all()
        };
        written().map_err(|error| io_failure(&self.path, &error))
    }
}

/// Locks the directory, and writes our pid into the lock file for the error of a second process.
fn lock(path: &Path) -> Result<File, Failure> {
    let open = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path);
    let mut file = open.map_err(|error| io_failure(path, &error))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // The pid is informative only.
            let _ = file.read_to_string(&mut holder);
            return Err(Failure::Message(
                FAILED,
                format!(
                    "already running, by pid {}; wait for it, or use another directory with --data",
                    clean(holder.trim())
                ),
            ));
        }
        Err(TryLockError::Error(error)) => return Err(io_failure(path, &error)),
    }
    let write_pid = || -> io::Result<()> {
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())
    };
    let mut write_pid = write_pid;
    write_pid().map_err(|error| io_failure(path, &error))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_nothing_is_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let directory = RunDirectory::open(dir.path()).expect("not locked");
        assert_eq!(directory.read().expect("readable"), None);
        for instance in [None, Some(7)] {
            let record = RunRecord {
                instance,
                above: 6,
                hash: "h".to_owned(),
            };
            directory.write(&record).expect("writable");
            assert_eq!(directory.read().expect("readable"), Some(record));
        }
        fs::write(dir.path().join(NAME), "{").expect("writable");
        assert!(matches!(
            directory.read(),
            Err(Failure::Message(INTERNAL, _))
        ));
    }

    #[test]
    fn a_directory_is_run_once_at_a_time() {
        let dir = tempfile::tempdir().expect("a directory");
        let first = RunDirectory::open(dir.path()).expect("not locked");
        match RunDirectory::open(dir.path()) {
            Err(Failure::Message(FAILED, message)) => {
                let pid = std::process::id();
                assert!(message.contains(&format!("by pid {pid};")), "{message}");
            }
            other => panic!("{other:?}"),
        }
        drop(first);
        RunDirectory::open(dir.path()).expect("it is free again");
    }
}
