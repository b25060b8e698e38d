//! Who may lead: the lock of the data directory, and the epoch.
//!
//! Whoever holds the lock is the only scheduler that uses the directory; so it takes the
//! row of the store at once, without waiting for anybody's lease on it to lapse. The
//! kernel drops the lock with the process, however that ends.
//!
//! Without a store the epoch would begin anew with each start, and workers would not obey
//! it: so the last one is kept in a file beside the lock.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use baton_core::ledger::Ledger;
use baton_model::ids::Epoch;
use baton_store::{Store, StoreError, TakeOutcome};

use crate::error::ServeError;

/// The right to use a data directory, for as long as it is kept.
#[derive(Debug)]
#[must_use = "the lock is gone when this is dropped"]
pub(crate) struct DataLock {
    _file: File,
}

impl DataLock {
    /// Takes the directory, and makes it if it is missing.
    pub(crate) fn take(data: &Path) -> Result<Self, ServeError> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |error| ServeError::Data { path, error }
        };
        fs::create_dir_all(data).map_err(at(data))?;
        let path = data.join("scheduler.lock");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(at(&path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let data = data.to_owned();
                let pid = read_pid(&mut file);
                return Err(ServeError::Taken { data, pid });
            }
            Err(TryLockError::Error(error)) => return Err(at(&path)(error)),
        }
        // The pid is there for people; a full disk must not keep the scheduler from its
        // work.
        if let Err(error) = write_pid(&mut file) {
            tracing::warn!("cannot write {}: {error}", path.display());
        }
        Ok(Self { _file: file })
    }
}

fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn write_pid(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

/// The last epoch of schedulers without a store.
#[derive(Clone, Debug)]
pub(crate) struct EpochFile(PathBuf);

impl EpochFile {
    pub(crate) fn of(data: &Path) -> Self {
        Self(data.join("epoch"))
    }

    /// The last epoch that was in force.
    pub(crate) fn read(&self) -> Result<Epoch, ServeError> {
        match fs::read_to_string(&self.0) {
            Ok(text) => match text.trim().parse() {
                Ok(epoch) if epoch <= EPOCH_MAX => Ok(Epoch(epoch)),
                _ => Err(ServeError::EpochFile(self.0.clone())),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Epoch(0)),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Keeps an epoch before it is used.
    pub(crate) fn write(&self, epoch: Epoch) -> Result<(), ServeError> {
        let new = self.0.with_extension("new");
        let write = || {
            let mut file = File::create(&new)?;
            writeln!(file, "{}", epoch.0)?;
            file.sync_all()?;
            fs::rename(&new, &self.0)?;
            match self.0.parent() {
                Some(data) => File::open(data)?.sync_all(),
                None => Ok(()),
            }
        };
        write().map_err(|error| self.failed(error))
    }

    fn failed(&self, error: io::Error) -> ServeError {
        let path = self.0.clone();
        ServeError::Data { path, error }
    }
}

/// Epochs of a store without a file are counted up one by one, so a number that nobody can
/// have reached would keep the scheduler from starting.
const EPOCH_MAX: u64 = 10_000_000;

/// Takes the row, under an epoch above `above`.
pub(crate) fn take(store: &dyn Store, above: Epoch) -> Result<(Epoch, Ledger), StoreError> {
    let mut expected = store.read_row()?.epoch;
    loop {
        match store.take(expected)? {
            TakeOutcome::Won(epoch, ledger) if epoch > above => return Ok((epoch, *ledger)),
            TakeOutcome::Won(epoch, _) => expected = epoch,
            TakeOutcome::Overtaken => {
                let row = store.read_row()?;
                // Nobody else can take the row while the directory is ours.
                if row.epoch == expected {
                    return Err(StoreError::Overtaken);
                }
                expected = row.epoch;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use baton_store::MemoryStore;

    use super::*;

    #[test]
    fn a_data_directory_has_one_scheduler_and_names_it() {
        let dir = tempfile::tempdir().expect("a place");
        let held = DataLock::take(dir.path()).expect("free");
        let error = DataLock::take(dir.path()).expect_err("taken");
        let pid = std::process::id();
        assert!(error.to_string().contains(&format!("(pid {pid})")));
        drop(held);
        let _again = DataLock::take(dir.path()).expect("free again");
    }

    #[test]
    fn an_epoch_is_kept_and_nonsense_is_refused() {
        let dir = tempfile::tempdir().expect("a place");
        let file = EpochFile::of(dir.path());
        assert_eq!(file.read().expect("none yet"), Epoch(0));
        file.write(Epoch(12)).expect("written");
        assert_eq!(file.read().expect("kept"), Epoch(12));
        for nonsense in ["", "e12", "99999999999"] {
            fs::write(dir.path().join("epoch"), nonsense).expect("written");
            assert!(matches!(file.read(), Err(ServeError::EpochFile(_))));
        }
    }

    #[test]
    fn the_epoch_taken_lies_above_the_one_that_was_seen() {
        let store = MemoryStore::new();
        let (first, _) = take(&store, Epoch(0)).expect("free");
        let (second, _) = take(&store, Epoch(41)).expect("free");
        assert_eq!((first, second), (Epoch(1), Epoch(42)));
    }
}
