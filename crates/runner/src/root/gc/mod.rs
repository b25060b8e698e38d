//! Clearing away: which finished tasks go, and reason.
//!
//! [`find_gc_candidates`] looks and changes nothing; [`GcCandidates::apply`] removes what the plan
//! lists, after it has checked again that each task is still finished and not
//! driven. The oldest go first, always: a limit on space removes the oldest until the
//! rest fits, and never a newer task while it keeps an older one.
//!
//! What goes is the task's checkpoint, its entry, and its sandbox if that is its own
//! directory below `ROOT/sandboxes`. A sandbox anywhere else belongs to somebody else.

mod clear;
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

/// Which finished tasks may stay. A limit that is not given limits nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GcPolicy {
    /// Since their end.
    pub max_age: Option<Millis>,
    /// Bytes of all that stay together.
    pub max_space: Option<u64>,
    pub max_tasks: Option<usize>,
    /// The logs in the sandbox of a task that goes stay.
    pub keep_logs: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RemovalReason {
    /// It ended too long ago.
    Age,
    /// All together take too much space, and it is among the oldest.
    Space,
    /// There are too many, and it is among the oldest.
    Count,
}

impl RemovalReason {
    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::Space => "space",
            Self::Count => "count",
        }
    }
}

/// What becomes of a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SandboxAction {
    /// It goes.
    Remove,
    /// It goes, but for the logs in it.
    KeepLogs,
    /// It stays: it is not the task's own below the root, or an active task uses it.
    Keep,
}

impl SandboxAction {
    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Remove => "remove",
            Self::KeepLogs => "keep-logs",
            Self::Keep => "keep",
        }
    }
}

/// A finished task that goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    pub id: TaskId,
    pub reason: RemovalReason,
    pub ended: Wall,
    /// Bytes on disk that go with it.
    pub bytes: u64,
    /// What becomes of its sandbox.
    pub sandbox: SandboxAction,
}

/// A checkpoint without any entry: a task that was never registered, because
/// somebody died on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    pub id: TaskId,
    /// When it was last changed.
    pub changed: Wall,
    /// Bytes on disk.
    pub bytes: u64,
    /// It is old enough to go; a younger one may be a task that is about to begin.
    pub remove: bool,
}

/// A leftover goes when it was not changed for longer than this.
pub const LEFTOVER_AGE_MIN: Millis = Millis::from_secs(24 * 60 * 60);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GcCandidates {
    /// The finished tasks that go, the oldest first.
    pub tasks: Vec<Removal>,
    /// Checkpoints without a task.
    pub leftovers: Vec<Leftover>,
    /// Finished tasks that are left alone: a runner still holds them, or they are
    /// somebody else's and it cannot be told.
    pub driven: Vec<TaskId>,
    /// How many finished tasks stay.
    pub kept_tasks: usize,
    /// Their bytes on disk.
    pub kept_bytes: u64,
    root: Root,
}

impl GcCandidates {
    /// Bytes on disk that go.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let tasks = self.tasks.iter().map(|task| task.bytes);
        let leftovers = self.leftovers.iter().filter(|leftover| leftover.remove);
        tasks.sum::<u64>() + leftovers.map(|leftover| leftover.bytes).sum::<u64>()
    }

    /// True if nothing goes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty() && !self.leftovers.iter().any(|leftover| leftover.remove)
    }
}

/// Decides what goes under this policy. Changes nothing.
///
/// # Errors
/// If the root cannot be read.
pub fn find_gc_candidates(
    root: &Root,
    policy: &GcPolicy,
    now: Wall,
) -> Result<GcCandidates, RootError> {
    let mut plan = GcCandidates {
        tasks: Vec::new(),
        leftovers: Vec::new(),
        driven: Vec::new(),
        kept_tasks: 0,
        kept_bytes: 0,
        root: root.clone(),
    };
    let dir = match Dir::open(root.path()) {
        Ok(dir) => dir,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(plan),
        Err(error) => return Err(RootError::io("open", root.path(), error)),
    };
    let survey = Survey::new(root, &dir)?;
    let entries = root.list()?;
    let in_use = sandboxes_in_use(root, &entries);
    let mut candidates = Vec::new();
    for entry in entries
        .iter()
        .filter(|entry| entry.phase == Phase::Finished)
    {
        if root.is_driven(&entry.id).unwrap_or(true) {
            plan.driven.push(entry.id.clone());
        } else {
            candidates.push(survey.candidate(entry, policy, &in_use));
        }
    }
    candidates.sort_by(|a, b| (a.ended, &a.id).cmp(&(b.ended, &b.id)));
    plan.choose(candidates, policy, now);
    let known: BTreeSet<&TaskId> = entries.iter().map(|entry| &entry.id).collect();
    for id in ids_in(&root.checkpoints())? {
        if !known.contains(&id) {
            plan.leftovers.push(survey.leftover(id, now));
        }
    }
    Ok(plan)
}

/// A finished task, before it is known whether it goes.
struct Candidate {
    id: TaskId,
    ended: Wall,
    bytes: u64,
    sandbox: SandboxAction,
}

impl GcCandidates {
    /// `candidates` has the oldest first. Those too old go first, then the oldest
    /// until the rest fits, then the oldest until the rest is few enough; so what
    /// goes is always the first so many of them.
    fn choose(&mut self, candidates: Vec<Candidate>, policy: &GcPolicy, now: Wall) {
        self.kept_tasks = candidates.len();
        self.kept_bytes = candidates.iter().map(|candidate| candidate.bytes).sum();
        for candidate in candidates {
            let age = Millis(now.0.saturating_sub(candidate.ended.0));
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
            self.kept_bytes -= candidate.bytes;
            self.tasks.push(Removal {
                id: candidate.id,
                reason,
                ended: candidate.ended,
                bytes: candidate.bytes,
                sandbox: candidate.sandbox,
            });
        }
    }
}

/// The open directories of a root, for looking at many tasks.
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

    fn candidate(&self, entry: &Entry, policy: &GcPolicy, in_use: &[PathBuf]) -> Candidate {
        let sandbox = match self.owns_sandbox(entry, in_use) {
            true if policy.keep_logs => SandboxAction::KeepLogs,
            true => SandboxAction::Remove,
            false => SandboxAction::Keep,
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
        Candidate {
            id: entry.id.clone(),
            ended: self.ended(entry),
            bytes: bytes_in(&self.checkpoints, None) + sandbox_bytes,
            sandbox,
        }
    }

    /// By its log; if that cannot be read, when it was filed as finished.
    fn ended(&self, entry: &Entry) -> Wall {
        match TaskView::load(self.root, entry.clone()) {
            Ok(view) => view.history.last().wall,
            Err(_) => changed(&self.root.entry(&entry.id, entry.phase)),
        }
    }

    /// True only if the header says so: a directory of the right name may be
    /// somebody else's. The root may be reached by several paths.
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

/// Where active tasks run, as far as their entries can be read; one that cannot be
/// read has at least its own directory to itself.
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

/// When the file at this place was last changed, its name included. What is gone
/// counts as changed at the beginning of time.
fn changed(path: &Path) -> Wall {
    let Ok(meta) = fs::symlink_metadata(path) else {
        return Wall(0);
    };
    let seconds = u64::try_from(meta.ctime()).unwrap_or(0);
    Wall(seconds.saturating_mul(1_000))
}
