//! Leadership: the lock of the data directory, and the epoch.
//!
//! The holder of the lock is the only scheduler that uses the directory; so it takes over the
//! leader row of the store at once, without waiting for a lease on it to expire. The kernel
//! releases the lock with the process, however that ends.
//!
//! Schedulers that share a store have a lock each. There the election decides which of them takes the
//! row ([`take_shared`]).
//!
//! Every term gets an epoch of its own, with random bits, above that of the store, of its mark
//! ([`crate::mark`]), and of every worker that was heard.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use baton_core::leader::{copy_evidence, epoch_above, next_epoch};
use baton_core::ledger::Ledger;
use baton_fs::private;
use baton_model::fact::CopyEvidence;
use baton_model::ids::Epoch;
use baton_model::mark::{Mark, StoreState};
use baton_store::{FactLog, StoreError, TakeOutcome, data_dir};

use crate::error::ServeError;
use crate::mark::MarkFile;

/// The name of the lock file in a data directory.
const LOCK: &str = "scheduler.lock";

/// Exclusive lock of a data directory, released on drop.
#[derive(Debug)]
#[must_use = "dropping it releases the lock"]
pub struct DataLock {
    _file: File,
}

impl DataLock {
    /// Locks the directory, and creates it if it is missing.
    ///
    /// # Errors
    /// [`ServeError::Taken`] if another process holds it; others if the directory cannot be used.
    pub fn take(data: &Path) -> Result<Self, ServeError> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |error| ServeError::Data { path, error }
        };
        let dir = data_dir::open(data).map_err(ServeError::Directory)?;
        if let Some(parent) = dir.exposed_parent() {
            tracing::warn!(
                "every user may write in {} and so replace {}; take away that right, or set the sticky bit",
                parent.display(),
                data.display()
            );
        }
        let path = data.join(LOCK);
        let mut file = private::file_options()
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

/// The scheduler that holds a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataHolder {
    /// If its lock file contains it.
    pub pid: Option<u32>,
}

impl DataLock {
    /// The scheduler that holds a directory; `None` if none does, or if that cannot be read.
    #[must_use]
    pub fn holder(data: &Path) -> Option<DataHolder> {
        let mut file = private::file_options()
            .read(true)
            .open(data.join(LOCK))
            .ok()?;
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => Some(DataHolder {
                pid: read_pid(&mut file),
            }),
            Ok(()) | Err(TryLockError::Error(_)) => None,
        }
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

/// A term that was taken.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) epoch: Epoch,
    pub(crate) ledger: Box<Ledger>,
    /// The evidence that the store is a copy.
    pub(crate) copied: Option<CopyEvidence>,
}

/// Takes over the leader row, with an epoch above `above`. `copied`: the evidence of a worker that
/// the store is a copy.
pub(crate) fn take(
    store: &dyn FactLog,
    mark_file: &MarkFile,
    above: Epoch,
    copied: Option<CopyEvidence>,
) -> Result<Taken, ServeError> {
    let seen = mark_file.state_of(store)?;
    let mark = mark_file.read()?;
    let copied = copied.or_else(|| {
        let found = copy_evidence(mark.as_ref(), &seen);
        found.filter(|_| mark_file.is_durable())
    });
    let random = getrandom::u32().map_err(ServeError::Random)?;
    let next = next_epoch(mark.as_ref(), &seen, above, copied.is_some(), random);
    let next = next.ok_or_else(|| ServeError::NoEpochLeft(mark_file.path().to_owned()))?;
    // Before the term: a leader that is killed in between leaves a mark that knows both.
    mark_file.write(Mark {
        seen,
        next,
        copied: copied.clone(),
    })?;
    // No other process can take the row while this one holds the directory.
    match store.take(seen.epoch, next).map_err(ServeError::Store)? {
        TakeOutcome::Won(epoch, ledger) => {
            // From now on the state before the term is that of a copy.
            mark_file.write(Mark {
                seen: StoreState { epoch, ..seen },
                next,
                copied: copied.clone(),
            })?;
            Ok(Taken {
                epoch,
                ledger,
                copied,
            })
        }
        TakeOutcome::Overtaken => Err(ServeError::Store(StoreError::Overtaken)),
    }
}

/// Takes over the leader row of a shared store if its epoch still is `expected`; `None` if another
/// scheduler was faster.
///
/// A shared store has no mark: it lies beside no file that could be copied. The database, or workers
/// that have obeyed a term which the store has lost, give the evidence (`copied`).
pub(crate) fn take_shared(
    store: &dyn FactLog,
    expected: Epoch,
    above: Epoch,
    copied: Option<CopyEvidence>,
) -> Result<Option<Taken>, ServeError> {
    let random = getrandom::u32().map_err(ServeError::Random)?;
    let next = epoch_above(expected.max(above), copied.is_some(), random);
    let next = next.ok_or_else(|| {
        let reason = "there is no epoch left for this store".to_owned();
        ServeError::Store(StoreError::Failed(reason))
    })?;
    match store.take(expected, next).map_err(ServeError::Store)? {
        TakeOutcome::Won(epoch, ledger) => Ok(Some(Taken {
            epoch,
            ledger,
            copied,
        })),
        TakeOutcome::Overtaken => Ok(None),
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
    fn the_epoch_taken_lies_above_the_one_that_was_seen_and_is_never_the_same() {
        let dir = tempfile::tempdir().expect("a place");
        let mut epochs = Vec::new();
        for above in [Epoch(0), Epoch::new(41, 9), Epoch(0)] {
            // In memory: only the mark remembers the epochs.
            let store = SqliteStore::in_memory().expect("there is memory");
            let mark = MarkFile::in_memory(dir.path());
            let taken = take(&store, &mark, above, None).expect("free");
            assert!(taken.epoch > above && taken.copied.is_none());
            epochs.push(taken.epoch);
        }
        let numbers: Vec<_> = epochs.iter().map(|epoch| epoch.number()).collect();
        assert_eq!(numbers, [1, 42, 43]);
        let other = tempfile::tempdir().expect("a place");
        let store = SqliteStore::in_memory().expect("there is memory");
        let taken = take(&store, &MarkFile::in_memory(other.path()), Epoch(0), None);
        assert_ne!(taken.expect("free").epoch, epochs[0], "random bits");
    }

    #[test]
    fn a_store_without_an_epoch_left_is_not_led() {
        let dir = tempfile::tempdir().expect("a place");
        let store = SqliteStore::in_memory().expect("there is memory");
        let mark = MarkFile::in_memory(dir.path());
        let last = Epoch::new(Epoch::NUMBER_MAX, 0);
        let error = take(&store, &mark, last, None).expect_err("no epoch left");
        assert!(matches!(error, ServeError::NoEpochLeft(_)), "{error}");
        assert_eq!(store.read_row().map(|row| row.epoch), Ok(Epoch(0)));
    }
}
