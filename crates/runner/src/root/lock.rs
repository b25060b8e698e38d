//! The exclusive lock of a task's runner.
//!
//! A runner holds an exclusive lock on `runner.lock` for as long as it lives; the kernel drops it
//! with the process, however that ends. Viewing a task tries a shared lock for an instant; and a
//! child that a runner was just starting when it was killed holds the lock until it calls exec. So
//! a caller that wants the exclusive lock retries for a while before it takes the holder for a
//! runner.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use baton_fs::private;

use super::{Root, RootError, TaskId};

/// The right to drive one task, until it is dropped.
#[derive(Debug)]
#[must_use = "the lock is gone when this is dropped"]
pub struct RunnerLock {
    _file: File,
}

/// One second in total: on a busy host a child may take that long to call exec.
const TRIES_MAX: u32 = 200;
const PAUSE: Duration = Duration::from_millis(5);

impl Root {
    /// Takes the right to drive the task.
    ///
    /// # Errors
    /// [`RootError::Driven`] if another runner has it, or if the file cannot be locked.
    pub fn lock(&self, id: &TaskId) -> Result<RunnerLock, RootError> {
        let path = self.runner_lock(id);
        let refused = |error| RootError::io("lock", &path, error);
        for _ in 0..TRIES_MAX {
            let file = private::file_options()
                .read(true)
                .append(true)
                .create(true)
                .open(&path)
                .map_err(refused)?;
            match file.try_lock() {
                Ok(()) if is_at(&file, &path).map_err(refused)? => {
                    return Ok(RunnerLock { _file: file });
                }
                // Removed between opening and locking: a lock on an unlinked file locks nothing.
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => sleep(PAUSE),
                Err(TryLockError::Error(error)) => return Err(refused(error)),
            }
        }
        Err(RootError::Driven(id.clone()))
    }

    /// Locks a task that has ended against runners; `None` if it has no lock file, and so no
    /// runner.
    pub(super) fn lock_existing(&self, id: &TaskId) -> Result<Option<RunnerLock>, RootError> {
        let exists = self.runner_lock(id).try_exists();
        if exists.map_err(|error| RootError::io("lock", &self.runner_lock(id), error))? {
            self.lock(id).map(Some)
        } else {
            Ok(None)
        }
    }

    /// True if a runner drives the task now.
    ///
    /// # Errors
    /// If the lock cannot be checked.
    pub fn is_driven(&self, id: &TaskId) -> Result<bool, RootError> {
        let path = self.runner_lock(id);
        let refused = |error| RootError::io("check", &path, error);
        let file = match private::file_options().read(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(refused(error)),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(refused(error)),
        }
    }
}

/// True if the path names this very file.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let held = file.metadata()?;
    match fs::metadata(path) {
        Ok(found) => Ok((held.dev(), held.ino()) == (found.dev(), found.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::temp_root;
    use super::*;

    #[test]
    fn a_task_is_driven_while_its_lock_is_held() {
        let (_dir, root) = temp_root();
        let id = TaskId::new("a").expect("good");
        assert!(!root.is_driven(&id).expect("no lock file, no runner"));
        root.prepare(&id).expect("made");
        let lock = root.lock(&id).expect("free");
        assert!(root.is_driven(&id).expect("readable"));
        assert!(matches!(root.lock(&id), Err(RootError::Driven(_))));
        drop(lock);
        assert!(!root.is_driven(&id).expect("readable"));
        let _again = root.lock(&id).expect("free again");
    }

    #[test]
    fn a_lock_on_a_file_that_was_cleared_away_is_not_taken_for_one() {
        let (_dir, root) = temp_root();
        let id = TaskId::new("a").expect("good");
        root.prepare(&id).expect("made");
        let path = root.runner_lock(&id);
        let stale = File::create(&path).expect("made");
        fs::remove_file(&path).expect("removed");
        assert!(!is_at(&stale, &path).expect("readable"));
        let _lock = root.lock(&id).expect("a new file");
        assert!(!is_at(&stale, &path).expect("readable"));
    }
}
