//! Reading a task whose directory belongs to another user.
//!
//! Everything in it may be a link, a pipe or a file of any size, and the reader may be root. So each
//! step opens one name in a directory that is open already, follows no link, does not block, and
//! reads a bounded number of bytes. See [`crate::logs`].

use std::fs::TryLockError;
use std::os::fd::AsFd;
use std::path::Path;

use super::view::{History, ViewError};
use super::{CHECKPOINTS, TaskId};
use crate::log::{self, Kind};
use crate::logs::{open_dir, open_file};
use crate::record::RunnerRecord;
use crate::samples::{self, Sample};

/// A log is compacted before it is longer, unless its task has very many processes.
const LOG_BYTES_MAX: u64 = 16 << 20;

/// What another user's directory has of a task.
#[derive(Clone, Debug)]
pub struct GuardedView {
    pub history: History,
    /// Bytes at the end of the log that are no complete record.
    pub torn_bytes: u64,
    /// Oldest first. They are best effort: unreadable ones count as missing.
    pub samples: Vec<Sample>,
    /// A runner drives it.
    pub driven: bool,
}

impl GuardedView {
    /// Reads the task from its root, an open directory. `None` if the task has no log there.
    ///
    /// # Errors
    /// [`ViewError`] if the log cannot be read, is too long, or is inconsistent.
    pub fn load(root: impl AsFd, id: &TaskId) -> Result<Option<Self>, ViewError> {
        // Only for messages: nothing is opened by this path.
        let path = Path::new(CHECKPOINTS)
            .join(id.as_str())
            .join(super::RUNNER_LOG);
        let io = |error| ViewError::Log(log::LogError::io(&path, "open", error));
        let Some(checkpoints) = open_dir(root, CHECKPOINTS).map_err(io)? else {
            return Ok(None);
        };
        let Some(dir) = open_dir(checkpoints, id.as_str()).map_err(io)? else {
            return Ok(None);
        };
        // Before the log, as for any view.
        let driven = match open_file(&dir, super::LOCK_NAME) {
            Ok(Some(lock)) => matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)),
            Ok(None) | Err(_) => false,
        };
        let Some(file) = open_file(&dir, super::RUNNER_LOG).map_err(io)? else {
            return Ok(None);
        };
        let read = log::read_open::<RunnerRecord>(&file, &path, LOG_BYTES_MAX, Kind::Runner);
        let read = read.map_err(ViewError::Log)?;
        let history = match History::replay(read.records)? {
            (history, None) => history,
            (_, Some(error)) => return Err(ViewError::Replay(error)),
        };
        let samples = match open_file(&dir, super::SAMPLES) {
            Ok(Some(file)) => samples::read_open(&file).unwrap_or_default(),
            Ok(None) | Err(_) => Vec::new(),
        };
        Ok(Some(Self {
            history,
            torn_bytes: read.torn_bytes,
            samples,
            driven,
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;

    use baton_model::state::AttemptState;
    use baton_model::time::Wall;

    use super::super::testing::{BEGAN, ended_task, temp_root};
    use super::*;

    #[test]
    fn a_task_is_read_and_a_link_on_the_way_is_not_followed() {
        let (dir, root) = temp_root();
        ended_task(&root, "a", Wall(BEGAN + 5_000));
        let id = TaskId::new("a").expect("good");
        let open = || File::open(root.path()).expect("opened");
        let view = GuardedView::load(open(), &id).expect("readable");
        let view = view.expect("there");
        assert_eq!(view.history.plan.state(), AttemptState::Success);
        assert_eq!(view.samples, []);
        let absent = GuardedView::load(open(), &TaskId::new("b").expect("good"));
        assert!(absent.expect("readable").is_none());
        let elsewhere = dir.path().join("elsewhere");
        fs::rename(root.checkpoint(&id), &elsewhere).expect("moved");
        symlink(&elsewhere, root.checkpoint(&id)).expect("linked");
        let linked = GuardedView::load(open(), &id).expect("readable");
        assert!(linked.is_none());
    }

    #[test]
    fn a_log_that_is_too_long_is_refused_before_it_is_read() {
        let (_dir, root) = temp_root();
        ended_task(&root, "a", Wall(BEGAN + 5_000));
        let id = TaskId::new("a").expect("good");
        let log = File::options().write(true).open(root.runner_log(&id));
        log.expect("opened")
            .set_len(LOG_BYTES_MAX + 1)
            .expect("grown");
        let refused = GuardedView::load(File::open(root.path()).expect("opened"), &id);
        let error = refused.expect_err("too long").to_string();
        assert!(error.contains("16777217 bytes"), "{error}");
    }
}
