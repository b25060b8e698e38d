//! Removing the selected tasks.
//!
//! The entry of a task is removed last, after the removal of everything else is durable: a crash in
//! between leaves a finished task that the next collection selects again.

use super::super::tree::Dir;
use super::super::{CHECKPOINTS, LOGS_DIR, Phase, Root, RootError, SANDBOXES, TASKS, TaskId};
use super::{GcCandidates, SandboxAction};

/// The result of a garbage collection.
#[derive(Debug, Default)]
pub struct GcReport {
    /// Removed tasks, leftovers included.
    pub removed: Vec<TaskId>,
    /// Bytes on disk freed.
    pub bytes: u64,
    /// Not removed, or only in part.
    pub failures: Vec<(TaskId, RootError)>,
}

impl GcCandidates {
    /// Removes the selected tasks and leftovers. Failures are reported, and the rest is removed
    /// nevertheless.
    ///
    /// # Errors
    /// If the root cannot be opened; nothing is removed then.
    pub fn apply(&self) -> Result<GcReport, RootError> {
        let mut report = GcReport::default();
        if self.is_empty() {
            return Ok(report);
        }
        let collector = Collector {
            root: &self.root,
            dir: Dir::open(self.root.path())
                .map_err(|error| RootError::io("open", self.root.path(), error))?,
        };
        for task in &self.tasks {
            let result = collector.task(&task.id, task.sandbox);
            report.take(&task.id, task.bytes, result);
        }
        for leftover in self.leftovers.iter().filter(|leftover| leftover.remove) {
            let result = collector.leftover(&leftover.id);
            report.take(&leftover.id, leftover.bytes, result);
        }
        Ok(report)
    }
}

impl GcReport {
    fn take(&mut self, id: &TaskId, bytes: u64, result: Result<(), RootError>) {
        match result {
            Ok(()) => {
                self.removed.push(id.clone());
                self.bytes += bytes;
            }
            Err(error) => self.failures.push((id.clone(), error)),
        }
    }
}

struct Collector<'a> {
    root: &'a Root,
    dir: Dir,
}

impl Collector<'_> {
    fn task(&self, id: &TaskId, sandbox: SandboxAction) -> Result<(), RootError> {
        match self.root.phase(id)? {
            Some(Phase::Finished) => {}
            // Removed meanwhile, by another collection.
            None => return Ok(()),
            Some(Phase::Active) => return Err(RootError::Driven(id.clone())),
        }
        // Held until everything is gone, so that no runner resumes it.
        let _lock = self.root.lock_existing(id)?;
        match sandbox {
            SandboxAction::Remove => self.in_part(SANDBOXES, |dir| dir.remove(id.as_str()))?,
            SandboxAction::KeepLogs => {
                self.in_part(SANDBOXES, |dir| dir.clear(id.as_str(), LOGS_DIR))?;
            }
            SandboxAction::Keep => {}
        }
        self.in_part(CHECKPOINTS, |dir| dir.remove(id.as_str()))?;
        // With both entries, the active one must not be left alone.
        for phase in [Phase::Active, Phase::Finished] {
            self.in_part(TASKS, |tasks| {
                let Some(entries) = tasks.part(phase.into_str())? else {
                    return Ok(());
                };
                entries.remove(id.as_str())?;
                entries.sync()
            })?;
        }
        Ok(())
    }

    fn leftover(&self, id: &TaskId) -> Result<(), RootError> {
        if self.root.phase(id)?.is_some() {
            return Err(RootError::Driven(id.clone()));
        }
        let _lock = self.root.lock_existing(id)?;
        self.in_part(CHECKPOINTS, |dir| dir.remove(id.as_str()))
    }

    fn in_part(
        &self,
        name: &str,
        act: impl FnOnce(&Dir) -> std::io::Result<()>,
    ) -> Result<(), RootError> {
        let path = self.root.path().join(name);
        let refused = |error| RootError::io("clear", &path, error);
        let Some(dir) = self.dir.part(name).map_err(refused)? else {
            return Ok(());
        };
        act(&dir).and_then(|()| dir.sync()).map_err(refused)
    }
}
