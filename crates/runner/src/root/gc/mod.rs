//! Garbage collection of finished tasks.
//!
//! [`find_gc_candidates`] selects and changes nothing; [`GcCandidates::apply`] removes the selected
//! tasks, after it has checked again that each is still finished and not driven. The oldest go
//! first, always: a limit on space removes the oldest until the rest fits, and never a newer task
//! while it keeps an older one.
//!
//! A removal covers the task's checkpoint, its entry, and its sandbox if that is its own directory
//! below `ROOT/sandboxes`. A sandbox anywhere else is not Baton's to remove.

mod clear;
mod orphans;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use baton_model::time::{Millis, Wall};

use super::entries::ids_in;
use super::logs::LOGS_DIR;
use super::tree::Dir;
use super::{CHECKPOINTS, Entry, Phase, Root, RootError, SANDBOXES, TaskId, TaskView};

pub use clear::GcReport;
pub use orphans::{Orphan, find_orphans};

/// The retention policy for finished tasks. An unset limit does not apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GcPolicy {
    /// The maximum time since their end.
    pub max_age: Option<Millis>,
    /// The maximum total bytes of the tasks that stay.
    pub max_space: Option<u64>,
    pub max_tasks: Option<usize>,
    /// Keep the logs in the sandboxes of removed tasks.
    pub keep_logs: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum RemovalReason {
    /// It exceeds the maximum age.
    Age,
    /// The total exceeds the space limit, and it is among the oldest.
    Space,
    /// The number exceeds the limit, and it is among the oldest.
    Count,
}

/// What is done with the sandbox of a removed task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum SandboxAction {
    Remove,
    /// Remove it, except the logs in it.
    KeepLogs,
    /// It is not the task's own below the root, or an active task uses it.
    Keep,
}

/// A finished task to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    pub id: TaskId,
    pub reason: RemovalReason,
    pub ended: Wall,
    /// Bytes on disk that its removal frees.
    pub bytes: u64,
    pub sandbox: SandboxAction,
}

/// A checkpoint without an entry: its runner died before the task was registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    pub id: TaskId,
    /// The time of its last change.
    pub changed: Wall,
    pub bytes: u64,
    /// It is old enough to remove; a younger one may be a task that is about to start.
    pub remove: bool,
}

/// A leftover is removed when it was not changed for longer than this.
pub const LEFTOVER_AGE_MIN: Millis = Millis::from_secs(24 * 60 * 60);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GcCandidates {
    /// The finished tasks to remove, the oldest first.
    pub tasks: Vec<Removal>,
    /// Checkpoints without a task.
    pub leftovers: Vec<Leftover>,
    /// Finished tasks that are skipped: a runner still holds them, or they belong to another user
    /// and that is unknown.
    pub driven: Vec<TaskId>,
    /// The number of finished tasks that stay.
    pub kept_tasks: usize,
    /// Their bytes on disk.
    pub kept_bytes: u64,
    root: Root,
}

impl GcCandidates {
    /// Bytes on disk that the removal frees.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let tasks = self.tasks.iter().map(|task| task.bytes);
        let leftovers = self.leftovers.iter().filter(|leftover| leftover.remove);
        tasks.sum::<u64>() + leftovers.map(|leftover| leftover.bytes).sum::<u64>()
    }

    /// True if nothing is to be removed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty() && !self.leftovers.iter().any(|leftover| leftover.remove)
    }
}

/// Selects what to remove under this policy. Changes nothing.
///
/// # Errors
/// If the root cannot be read.
pub fn find_gc_candidates(
    root: &Root,
    policy: &GcPolicy,
    now: Wall,
) -> Result<GcCandidates, RootError> {
    let mut candidates = GcCandidates {
        tasks: Vec::new(),
        leftovers: Vec::new(),
        driven: Vec::new(),
        kept_tasks: 0,
        kept_bytes: 0,
        root: root.clone(),
    };
    let dir = match Dir::open(root.path()) {
        Ok(dir) => dir,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(candidates),
        Err(error) => return Err(RootError::io("open", root.path(), error)),
    };
    let survey = Survey::new(root, &dir)?;
    let entries = root.list()?;
    let in_use = sandboxes_in_use(root, &entries);
    let mut finished = Vec::new();
    for entry in entries
        .iter()
        .filter(|entry| entry.phase == Phase::Finished)
    {
        if root.is_driven(&entry.id).unwrap_or(true) {
            candidates.driven.push(entry.id.clone());
        } else {
            finished.push(survey.finished_task(entry, policy, &in_use));
        }
    }
    finished.sort_by(|a, b| (a.ended, &a.id).cmp(&(b.ended, &b.id)));
    candidates.choose(finished, policy, now);
    let known: BTreeSet<&TaskId> = entries.iter().map(|entry| &entry.id).collect();
    for id in ids_in(&root.checkpoints())? {
        if !known.contains(&id) {
            candidates.leftovers.push(survey.leftover(id, now));
        }
    }
    Ok(candidates)
}

/// A finished task, before selection.
struct FinishedTask {
    id: TaskId,
    ended: Wall,
    bytes: u64,
    sandbox: SandboxAction,
}

impl GcCandidates {
    /// Selects from `finished`, which is ordered from the oldest: first those too old, then the
    /// oldest until the rest fits, then the oldest until the rest is few enough; so the selection
    /// is always a prefix.
    fn choose(&mut self, finished: Vec<FinishedTask>, policy: &GcPolicy, now: Wall) {
        self.kept_tasks = finished.len();
        self.kept_bytes = finished.iter().map(|task| task.bytes).sum();
        for task in finished {
            let age = Millis(now.0.saturating_sub(task.ended.0));
            let reason = if policy.max_age.is_some_and(|max| age > max) {
                RemovalReason::Age
            } else if policy.max_space.is_some_and(|max| self.kept_bytes > max) {
                RemovalReason::Space
            } else if policy.max_tasks.is_some_and(|max| self.kept_tasks > max) {
                RemovalReason::Count
            } else {
                break;
            };
            self.kept_tasks -= 1;
            self.kept_bytes -= task.bytes;
            self.tasks.push(Removal {
                id: task.id,
                reason,
                ended: task.ended,
                bytes: task.bytes,
                sandbox: task.sandbox,
            });
        }
    }
}

/// The open directories of a root, for measuring many tasks.
struct Survey<'a> {
    root: &'a Root,
    checkpoints: Option<Dir>,
    sandboxes: Option<Dir>,
}

impl<'a> Survey<'a> {
    fn new(root: &'a Root, dir: &Dir) -> Result<Self, RootError> {
        let part = |name| {
            dir.part(name)
                .map_err(|error| RootError::io("open", root.path(), error))
        };
        Ok(Self {
            root,
            checkpoints: part(CHECKPOINTS)?,
            sandboxes: part(SANDBOXES)?,
        })
    }

    fn finished_task(&self, entry: &Entry, policy: &GcPolicy, in_use: &[PathBuf]) -> FinishedTask {
        let sandbox = if !self.owns_sandbox(entry, in_use) {
            SandboxAction::Keep
        } else if policy.keep_logs {
            SandboxAction::KeepLogs
        } else {
            SandboxAction::Remove
        };
        let bytes_in = |dir: &Option<Dir>, skip| {
            let dir = dir.as_ref();
            dir.map_or(0, |dir| dir.bytes(entry.id.as_str(), skip))
        };
        let sandbox_bytes = match sandbox {
            SandboxAction::Remove => bytes_in(&self.sandboxes, None),
            SandboxAction::KeepLogs => bytes_in(&self.sandboxes, Some(LOGS_DIR)),
            SandboxAction::Keep => 0,
        };
        FinishedTask {
            id: entry.id.clone(),
            ended: self.ended(entry),
            bytes: bytes_in(&self.checkpoints, None) + sandbox_bytes,
            sandbox,
        }
    }

    /// The end time from its log; if that cannot be read, the time at which it was filed as
    /// finished.
    fn ended(&self, entry: &Entry) -> Wall {
        match TaskView::load(self.root, entry.clone()) {
            Ok(view) => view.history.last().wall,
            Err(_) => changed(&self.root.entry(&entry.id, entry.phase)),
        }
    }

    /// True only if the header confirms it: a directory of the right name may belong to another
    /// task. The root may be reached by several paths.
    fn owns_sandbox(&self, entry: &Entry, in_use: &[PathBuf]) -> bool {
        let own = self.root.sandbox(&entry.id);
        let Ok(header) = self.root.header(entry) else {
            return false;
        };
        let same = Path::new(&header.sandbox) == own
            || match (resolved(&header.sandbox), resolved(self.root.path())) {
                (Some(sandbox), Some(root)) => {
                    sandbox == root.join(SANDBOXES).join(entry.id.as_str())
                }
                _ => false,
            };
        same && !in_use.iter().any(|used| used.starts_with(&own))
    }

    fn leftover(&self, id: TaskId, now: Wall) -> Leftover {
        let log = changed(&self.root.runner_log(&id));
        let changed = changed(&self.root.checkpoint(&id)).max(log);
        let age = Millis(now.0.saturating_sub(changed.0));
        let driven = self.root.is_driven(&id).unwrap_or(true);
        let dir = self.checkpoints.as_ref();
        Leftover {
            changed,
            bytes: dir.map_or(0, |dir| dir.bytes(id.as_str(), None)),
            remove: age > LEFTOVER_AGE_MIN && !driven,
            id,
        }
    }
}

/// The sandboxes of active tasks, as far as their entries can be read; one that cannot be read at
/// least keeps its own directory.
fn sandboxes_in_use(root: &Root, entries: &[Entry]) -> Vec<PathBuf> {
    let active = entries.iter().filter(|entry| entry.phase == Phase::Active);
    active
        .filter_map(|entry| root.header(entry).ok())
        .map(|header| PathBuf::from(header.sandbox))
        .collect()
}

fn resolved(path: impl AsRef<Path>) -> Option<PathBuf> {
    fs::canonicalize(path).ok()
}

/// The time of the last change of a file or its name (ctime). A missing file counts as changed at
/// time 0.
fn changed(path: &Path) -> Wall {
    let Ok(meta) = fs::symlink_metadata(path) else {
        return Wall(0);
    };
    let seconds = u64::try_from(meta.ctime()).unwrap_or(0);
    Wall(seconds.saturating_mul(1_000))
}
