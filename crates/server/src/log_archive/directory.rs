//! The archive in the data directory: one file for each log.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use baton_model::message::LogStream;
use baton_store::view::Seq;

use super::{ArchivedLog, ENDING, LogKey};

/// Name of its directory in the data directory.
const DIR: &str = "logs";
/// The last fact whose logs were collected.
const POSITION: &str = "position";
const TEMPORARY: &str = ".new";
/// What even a short file takes on disk.
const BLOCK_BYTES: u64 = 4_096;

#[derive(Debug)]
pub(crate) struct Directory {
    dir: PathBuf,
    /// Bytes on disk.
    budget: u64,
    files: Mutex<Files>,
}

/// Its files, the oldest first, with their sizes.
#[derive(Debug, Default)]
struct Files {
    queue: VecDeque<(PathBuf, u64)>,
    total: u64,
}

/// The name of the file of a log.
fn name(key: &LogKey) -> String {
    format!("{}.{}", key.lease.attempt.instance, key.suffix())
}

impl Directory {
    /// Opens the archive of a data directory, and removes what exceeds the budget.
    pub(crate) fn open(data: &Path, budget: u64) -> io::Result<Self> {
        let dir = data.join(DIR);
        match DirBuilder::new().mode(0o700).create(&dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
        let mut found = Vec::new();
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            let (path, metadata) = (entry.path(), entry.metadata()?);
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.ends_with(TEMPORARY) {
                fs::remove_file(&path)?;
            } else if name.ends_with(ENDING) {
                found.push((metadata.modified()?, path, metadata.len()));
            }
        }
        found.sort();
        let archive = Self {
            dir,
            budget,
            files: Mutex::default(),
        };
        for (_, path, size) in found {
            archive.account(path, size);
        }
        Ok(archive)
    }

    /// The last fact whose logs were collected.
    pub(crate) fn position(&self) -> Option<Seq> {
        let text = fs::read_to_string(self.dir.join(POSITION)).ok()?;
        text.trim().parse().ok().map(Seq)
    }

    pub(crate) fn set_position(&self, position: Seq) -> io::Result<()> {
        self.replace(POSITION, position.0.to_string().as_bytes())
    }

    /// Adds a log.
    pub(crate) fn write(&self, key: &LogKey, log: &ArchivedLog) -> io::Result<()> {
        if log.is_implied(key) {
            return Ok(());
        }
        let bytes = log.encode()?;
        let name = name(key);
        let path = self.dir.join(&name);
        // Only after a restart: the position is recorded for a page of facts.
        if path.exists() {
            self.forget(&path);
        }
        self.replace(&name, &bytes)?;
        self.account(path, bytes.len() as u64);
        Ok(())
    }

    /// Reads a log, if it was collected.
    pub(crate) fn read(&self, key: &LogKey) -> io::Result<Option<ArchivedLog>> {
        let file = match File::open(self.dir.join(name(key))) {
            Ok(file) => file,
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(_) if key.stream == LogStream::Stdout => return Ok(None),
            Err(_) => {
                let stdout = self.read(&key.stdout())?;
                return Ok(stdout.as_ref().map(ArchivedLog::implied));
            }
        };
        ArchivedLog::decode(file).map(Some)
    }

    /// Writes a file that only the owner can read, atomically.
    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let temporary = self.dir.join(format!("{name}{TEMPORARY}"));
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.open(&temporary)?.write_all(bytes)?;
        fs::rename(&temporary, self.dir.join(name))
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops counting a file that is replaced.
    fn forget(&self, path: &Path) {
        let mut files = self.files();
        if let Some(at) = files.queue.iter().position(|(known, _)| known == path) {
            let replaced = files.queue.remove(at);
            files.total -= replaced.map_or(0, |(_, size)| size);
        }
    }

    /// Counts a file by the blocks that it takes, and removes the oldest beyond the budget.
    fn account(&self, path: PathBuf, size: u64) {
        let size = size.next_multiple_of(BLOCK_BYTES);
        let mut files = self.files();
        files.queue.push_back((path, size));
        files.total += size;
        while files.total > self.budget
            && let Some((oldest, size)) = files.queue.pop_front()
        {
            files.total -= size;
            if let Err(error) = fs::remove_file(&oldest) {
                tracing::warn!("{}: {error}", oldest.display());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use baton_model::ids::{AttemptId, AttemptNo, Epoch, InstanceId, LeaseId};

    use super::*;

    fn key(instance: u64) -> LogKey {
        LogKey {
            lease: LeaseId {
                attempt: AttemptId {
                    instance: InstanceId(instance),
                    number: AttemptNo(1),
                },
                epoch: Epoch(1),
            },
            process: 0,
            stream: LogStream::Stderr,
        }
    }

    fn log(byte: u8, length: usize) -> ArchivedLog {
        // Random enough that compression does not help.
        let noise = (0..length).scan(u32::from(byte) + 1, |state, _| {
            *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes().first().copied()
        });
        ArchivedLog {
            run: 3,
            is_cut: false,
            bytes: noise.collect(),
        }
    }

    #[test]
    fn logs_are_read_as_they_were_and_the_oldest_go_first() {
        let dir = tempfile::tempdir().expect("a directory");
        let open = |budget| Directory::open(dir.path(), budget).expect("it opens");
        let archive = open(13_000);
        let read = |archive: &Directory, id| archive.read(&key(id)).expect("readable");
        for id in 0..=3 {
            archive
                .write(&key(id), &log(id as u8, 1_000))
                .expect("written");
        }
        assert_eq!(read(&archive, 0), None, "beyond the budget");
        assert_eq!(read(&archive, 2), Some(log(2, 1_000)));
        let stdout = |id| LogKey {
            stream: LogStream::Stdout,
            ..key(id)
        };
        archive.write(&stdout(4), &log(0, 0)).expect("written");
        archive.write(&key(4), &log(0, 0)).expect("implied");
        assert_eq!(read(&archive, 4), Some(log(0, 0)));
        assert_eq!(archive.position(), None);
        archive.set_position(Seq(7)).expect("written");
        // Found again, in their order, with a smaller budget.
        let archive = open(9_000);
        assert_eq!(archive.position(), Some(Seq(7)));
        assert_eq!(
            (read(&archive, 2), read(&archive, 3)),
            (None, Some(log(3, 1_000)))
        );
        let mode = |path: &Path| {
            use std::os::unix::fs::PermissionsExt;
            fs::metadata(path).expect("there").permissions().mode() & 0o777
        };
        let place = dir.path().join(DIR);
        assert_eq!(mode(&place), 0o700);
        assert_eq!(mode(&place.join(name(&key(3)))), 0o600);
    }
}
