//! Leadership: the lock of the data directory, and the epoch.
//!
//! The holder of the lock is the only scheduler that uses the directory; so it takes over the
//! leader row of the store at once, without waiting for a lease on it to expire. The kernel
//! releases the lock with the process, however that ends.
//!
//! A store in memory would restart epochs at every start, and workers would not obey them: so the
//! last epoch is kept in a file beside the lock.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use baton_core::ledger::Ledger;
use baton_model::ids::Epoch;
use baton_store::{Store, StoreError, TakeOutcome};

use crate::error::ServeError;

/// Exclusive lock of a data directory, released on drop.
#[derive(Debug)]
#[must_use = "dropping it releases the lock"]
pub(crate) struct DataLock {
    _file: File,
}

impl DataLock {
    /// Locks the directory, and creates it if it is missing.
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
        // The pid is only informative; a full disk must not keep the scheduler from starting.
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

/// File with the last epoch, for stores in memory.
#[derive(Clone, Debug)]
pub(crate) struct EpochFile(PathBuf);

impl EpochFile {
    pub(crate) fn of(data: &Path) -> Self {
        Self(data.join("epoch"))
    }

    /// The last epoch in force; 0 if the file does not exist.
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

    /// Persists an epoch; call it before the epoch is used.
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

/// Largest plausible epoch in the file. An in-memory store counts up one by one, so a damaged, huge
/// number would keep the scheduler from starting.
const EPOCH_MAX: u64 = 10_000_000;

/// Takes over the leader row, with an epoch above `above`.
pub(crate) fn take(store: &dyn Store, above: Epoch) -> Result<(Epoch, Ledger), StoreError> {
    let mut expected = store.read_row()?.epoch;
    loop {
        match store.take(expected)? {
            TakeOutcome::Won(epoch, ledger) if epoch > above => return Ok((epoch, *ledger)),
            TakeOutcome::Won(epoch, _) => expected = epoch,
            TakeOutcome::Overtaken => {
                let row = store.read_row()?;
                // No other process can take the row while this one holds the directory.
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
    use baton_store::SqliteStore;

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
        let store = SqliteStore::in_memory().expect("there is memory");
        let (first, _) = take(&store, Epoch(0)).expect("free");
        let (second, _) = take(&store, Epoch(41)).expect("free");
        assert_eq!((first, second), (Epoch(1), Epoch(42)));
    }
}
