//! Which instance a directory of `baton run` is about, across our own deaths.
//!
//! Between a submission and the note of its id we may die. So it is noted before that a
//! submission is under way, and above which id: nobody else submits to this scheduler, so
//! if the next id exists, it is ours.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{INTERNAL, io_failure};
use crate::output::{FAILED, Failure, clean};

const NAME: &str = "run.json";
const LOCK: &str = "run.lock";

/// What is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RunRecord {
    /// The instance, if its submission was answered.
    pub(super) instance: Option<u64>,
    /// The last instance before it.
    pub(super) above: u64,
    /// What it was submitted with.
    pub(super) hash: String,
}

/// The directory, which is ours alone while this lives.
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
                    "{}: {error}; this is not what baton wrote there: fix it, or name another \
                     directory with --data",
                    self.path.display()
                ),
            )
        })
    }

    /// Writes it whole or not at all.
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

/// The lock, with our pid in it for whoever comes second.
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
            // Whose it is, is good to know; that it is taken, is enough.
            let _ = file.read_to_string(&mut holder);
            return Err(Failure::Message(
                FAILED,
                format!(
                    "this is being run already, by pid {}; wait for it, or name another directory \
                     with --data",
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
        let directory = RunDirectory::open(dir.path()).expect("nobody else is here");
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
        let first = RunDirectory::open(dir.path()).expect("nobody else is here");
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
