//! The state directory (root): its layout, its tasks, and garbage collection.
//!
//! ```text
//! ROOT/tasks/active/ID            the header as JSON: the task exists
//! ROOT/tasks/finished/ID          the same file, renamed: the task has ended
//! ROOT/checkpoints/ID/runner      its log
//!                    /runner.lock locked while a runner drives it
//!                    /coordinator, coordinator.sock, control.sock, samples
//! ROOT/sandboxes/ID               its default sandbox
//! SANDBOX/.logs/PROCESS/RUN/{stdout,stderr}[.N]
//! ```
//!
//! **Invariants.** An entry appears completely or not at all, and is renamed once, when the task
//! has ended. Where both entries exist, the task has ended. Nothing here writes a log: viewing a
//! task does not change it. Nothing outside of the root is ever removed, and no symbolic link below
//! the root is followed to remove.
//!
//! | file | holds |
//! |---|---|
//! | `id` | valid task ids |
//! | `default_root` | the root's path, unless it is specified |
//! | `entries` | registering, finishing, listing |
//! | `lock` | the runner's exclusive lock |
//! | `find` | tasks by exact id, pattern or prefix |
//! | `view` | the state of one task, replayed from its log |
//! | `guarded` | the same, from a directory of another user |
//! | `host` | all roots of this host |
//! | `statuses` | the processes of a task as clients see them |
//! | `logs` | removing the output of its processes |
//! | `gc` | garbage collection of finished tasks |
//! | `tree` | measuring and removing directory trees safely |
//!
//! Elsewhere: the format of the log ([`crate::log`]), driving a task (`task`).

mod default_root;
mod entries;
mod error;
mod find;
mod gc;
mod guarded;
mod host;
mod id;
mod lock;
mod logs;
mod statuses;
mod tree;
mod view;

#[cfg(test)]
pub(crate) mod testing;

use std::path::{Path, PathBuf};

pub use default_root::default_root;
pub use entries::{Entry, Phase};
pub use error::RootError;
pub use gc::{
    GcCandidates, GcPolicy, GcReport, LEFTOVER_AGE_MIN, Leftover, Orphan, Removal, RemovalReason,
    SandboxAction, find_gc_candidates, find_orphans,
};
pub use guarded::GuardedView;
pub use host::{find_roots, find_workers};
pub use id::TaskId;
pub use lock::RunnerLock;
pub use logs::{LOGS_DIR, remove_run_logs};
pub use view::{History, ReplayError, Step, TaskView, ViewError};

/// A state directory with tasks. It need not exist before [`Root::prepare`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    path: PathBuf,
}

impl Root {
    /// The root at this path; a relative path counts from the working directory.
    ///
    /// # Errors
    /// If the path is empty, or the working directory is unknown.
    pub fn new(path: impl AsRef<Path>) -> Result<Self, RootError> {
        let path = path.as_ref();
        let absolute = std::path::absolute(path)
            .map_err(|error| RootError::io("make absolute", path, error))?;
        Ok(Self { path: absolute })
    }

    /// Its absolute path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory of the task's log, lock, sockets and samples.
    #[must_use]
    pub fn checkpoint(&self, id: &TaskId) -> PathBuf {
        self.checkpoints().join(id.as_str())
    }

    /// The runner's log.
    #[must_use]
    pub fn runner_log(&self, id: &TaskId) -> PathBuf {
        self.checkpoint(id).join(RUNNER_LOG)
    }

    /// Locked while a runner drives the task.
    #[must_use]
    pub fn runner_lock(&self, id: &TaskId) -> PathBuf {
        self.checkpoint(id).join(LOCK_NAME)
    }

    /// The coordinator's log.
    #[must_use]
    pub fn coordinator_log(&self, id: &TaskId) -> PathBuf {
        self.checkpoint(id).join("coordinator")
    }

    /// The control socket of the runner.
    #[must_use]
    pub fn control_socket(&self, id: &TaskId) -> PathBuf {
        self.checkpoint(id).join("control.sock")
    }

    /// The ring of resource usage samples.
    #[must_use]
    pub fn samples(&self, id: &TaskId) -> PathBuf {
        self.checkpoint(id).join(SAMPLES)
    }

    /// The entry of a task in this phase.
    #[must_use]
    pub fn entry(&self, id: &TaskId, phase: Phase) -> PathBuf {
        self.entries(phase).join(id.as_str())
    }

    /// The default sandbox of a task.
    #[must_use]
    pub fn sandbox(&self, id: &TaskId) -> PathBuf {
        self.sandboxes().join(id.as_str())
    }

    fn checkpoints(&self) -> PathBuf {
        self.path.join(CHECKPOINTS)
    }

    fn entries(&self, phase: Phase) -> PathBuf {
        self.path.join(TASKS).join(phase.into_str())
    }

    fn sandboxes(&self) -> PathBuf {
        self.path.join(SANDBOXES)
    }
}

const CHECKPOINTS: &str = "checkpoints";
const TASKS: &str = "tasks";
const SANDBOXES: &str = "sandboxes";
const LOCK_NAME: &str = "runner.lock";
const RUNNER_LOG: &str = "runner";
const SAMPLES: &str = "samples";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_as_documented() {
        let root = Root::new("/r").expect("absolute");
        let id = TaskId::new("a-1").expect("a good id");
        let below = |path: PathBuf| {
            path.strip_prefix("/r")
                .expect("below")
                .display()
                .to_string()
        };
        assert_eq!(below(root.runner_log(&id)), "checkpoints/a-1/runner");
        assert_eq!(below(root.runner_lock(&id)), "checkpoints/a-1/runner.lock");
        assert_eq!(
            below(root.coordinator_log(&id)),
            "checkpoints/a-1/coordinator"
        );
        assert_eq!(
            below(root.control_socket(&id)),
            "checkpoints/a-1/control.sock"
        );
        assert_eq!(below(root.samples(&id)), "checkpoints/a-1/samples");
        assert_eq!(below(root.entry(&id, Phase::Active)), "tasks/active/a-1");
        assert_eq!(
            below(root.entry(&id, Phase::Finished)),
            "tasks/finished/a-1"
        );
        assert_eq!(below(root.sandbox(&id)), "sandboxes/a-1");
    }

    #[test]
    fn a_relative_root_becomes_absolute_and_an_empty_one_is_refused() {
        let root = Root::new("here").expect("a working directory");
        assert!(root.path().is_absolute() && root.path().ends_with("here"));
        assert!(Root::new("").is_err());
    }
}
